"""What any search of the exact method must fulfil on a graph small enough for brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from oracle import faults, optimum

from cimplan.cost.problem import HOST, Problem
from cimplan.partition.fold import Label, fold, fold_until
from cimplan.partition.goal import PARTS, EveryBudget, OneBudget
from cimplan.partition.players import Level
from cimplan.partition.realise import realise, searched
from cimplan.partition.search import Completion, Search, refined
from cimplan.partition.spine import Spine, _groups, find_spine
from cimplan.partition.structure import Network, as_set
from cimplan.partition.tables import Tables, remaining, tabulate


def wrong_searches(problem: Problem, rng: random.Random, *, spine: str = "") -> str:
    """Search a graph that is cut into blocks and fillers in a random way; return what is wrong, empty if nothing.

    The names of the operators of the spine may be given, a letter each.
    """
    if problem.host_cores > 1:
        return ""
    network = Network(problem)
    if spine:
        cut = chosen_spine(network, as_set(v for v, name in enumerate(problem.names) if name in spine))
    elif rng.random() < 0.5:
        # The fewer order ideals a block may have, the more operators become fillers.
        cut = find_spine(network, rng.choice([1, 2, 3, 5, 10, 1000]))
    else:
        operators = as_set(v for v in range(len(problem)) if rng.random() < 0.7)
        problem = with_long_fillers(problem, operators, rng)
        network = Network(problem)
        cut = chosen_spine(network, operators)
    best = optimum(problem)
    if best is None:
        return ""
    tables = tabulate(network, cut, delayed=rng.random() < 0.5)
    everything = as_set(v for group in cut.groups for v in group.operators)
    return (
        _folded(tables, best)
        or _exact(tables, Level(0, everything), best, rng)
        or _pooled(tables, _random_level(tables, rng), best, rng)
        or _every_budget(tables, Level(0, everything))
    )


def chosen_spine(network: Network, operators: int) -> Spine:
    """Return the spine of some operators, all others being fillers: also one that the method would not choose."""
    cuts = network.cuts(operators)
    others = (1 << len(network.problem)) - 1 & ~operators
    return Spine(tuple(cuts), tuple(network.between(operators, cuts)), _groups(network, others, cuts), ())


def with_long_fillers(problem: Problem, spine: int, rng: random.Random) -> Problem:
    """Return the problem with some operators beside a spine running longer on the host."""
    options = []
    for v, some in enumerate(problem.options):
        longer = rng.choice([1, 1, 5, 9]) if not spine >> v & 1 else 1
        options.append(tuple(replace(o, duration=longer * o.duration) if o.place == HOST else o for o in some))
    return replace(problem, options=tuple(options))


def _folded(tables: Tables, best: int) -> str:
    """The fold finds something at most as long as the optimum."""
    budget = tables.network.problem.budget
    labels, _ = fold(tables, remaining(tables, budget), OneBudget(budget, best + 1))
    least = min((label.busy for label in labels), default=None)
    return "" if least is not None and least <= best else f"the fold finds {least}, the optimum is {best}"


def _random_level(tables: Tables, rng: random.Random) -> Level:
    """Pool any fillers that run on the host without a choice, from any block at which no choice has been made yet."""
    options, groups = tables.network.problem.options, tables.spine.groups
    free = {v for group in groups for v in group.operators if len(options[v]) > 1 or options[v][0].place != HOST}
    free |= {v for group in groups for v in group.operators if any(option.crossbars for option in options[v])}
    latest = min((group.release for group in groups if free & set(group.operators)), default=len(tables.blocks) - 1)
    first = rng.randint(0, latest)
    late = [v for group in groups if group.release >= first for v in group.operators]
    return Level(first, as_set(v for v in late if v in free or rng.random() < 0.5))


def _ask(
    tables: Tables, level: Level, goal: OneBudget | EveryBudget, steps: list[int]
) -> tuple[list[Completion], Search, dict[int, list[Label]]]:
    """Return what a search finds that is asked for more and more."""
    rest = remaining(tables, goal.budget, every=isinstance(goal, EveryBudget))
    labels, _ = fold_until(tables, level.first, rest, goal)
    search = Search(tables, level, goal, labels)
    found = []
    for below in steps:
        found += search.run(below)
    return found, search, labels


def _steps(rng: random.Random, most: int) -> list[int]:
    return [*sorted(rng.randint(0, most) for _ in range(rng.randint(0, 3))), most]


def _exact(tables: Tables, level: Level, best: int, rng: random.Random) -> str:
    """Without a pool and from the beginning, a search finds the optimum, and a schedule that reaches it."""
    problem = tables.network.problem
    most = best + rng.choice([1, 1, 5, 10**6])
    found, _, _ = _ask(tables, level, OneBudget(problem.budget, most), _steps(rng, most))
    least = min((completion.makespan for completion in found), default=None)
    if least != best:
        return f"a search without a pool finds {least}, the optimum is {best}"
    quickest = min(found)
    schedule = realise(tables, *searched(tables, quickest))
    if wrong := faults(problem, schedule):
        return f"its schedule is wrong: {wrong[0]}"
    if schedule.crossbars(problem) != quickest.crossbars:
        return "its schedule takes another number of crossbars"
    if _ask(tables, level, OneBudget(problem.budget, best), _steps(rng, best))[0]:
        return "a search finds something below the optimum"
    return ""


def _pooled(tables: Tables, level: Level, best: int, rng: random.Random) -> str:
    """With a pool, a search finds something at most as long as the optimum; put in order, nothing shorter."""
    problem = tables.network.problem
    most = best + rng.choice([1, 10, 10**6])
    found, search, labels = _ask(tables, level, OneBudget(problem.budget, most), _steps(rng, most))
    least = min((completion.makespan for completion in found), default=None)
    if least is None or least > best:
        return f"a search with a pool finds {least}, the optimum is {best}"
    for ordered in (True, False):
        better = refined(tables, search, labels, min(found), OneBudget(problem.budget, most), ordered=ordered)
        if better is not None:
            schedule = realise(tables, *searched(tables, better))
            if faults(problem, schedule) or schedule.makespan(problem) < best:
                return "fillers put in order make a wrong schedule"
    return ""


def _every_budget(tables: Tables, level: Level) -> str:
    """Without a pool, a search for all budgets finds the optimum of each."""
    problem = tables.network.problem
    most = sum(max(option.crossbars for option in options) for options in problem.options)
    least = problem.least_crossbars()
    if most > 40:
        return ""
    far = 1 + sum(max(option.duration for option in options) for options in problem.options)
    far += sum(edge.transfer for edge in problem.dependencies)
    below = np.full(most + 1, far, dtype=np.int64)
    below[:least] = 0
    found, _, _ = _ask(tables, level, EveryBudget(below), [PARTS // 8, PARTS])
    for budget in range(least, most + 1):
        best = optimum(problem.with_budget(budget))
        reached = min((one.makespan for one in found if one.crossbars <= budget), default=None)
        if reached != best:
            return f"a search for all budgets finds {reached} at {budget} crossbars, the optimum is {best}"
    return ""
