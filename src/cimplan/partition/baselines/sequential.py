"""Optimal placement without overlap: the sum of all times and transfers, as if one thing happened at a time.

After the multi-device integer programme of Viramontes and Davoodi: places are chosen to minimise the sum, exactly;
then the network is timed on the true clock, where operators on the crossbars do overlap.
"""

from __future__ import annotations

import math
import time

from cimplan.cost.problem import Problem
from cimplan.partition.baselines.common import answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback, interruptible
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "sequential-ilp"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Choose options that minimise durations plus transfers under the budget, then schedule them.

    Solved with CP-SAT's single-threaded search, so that equal inputs give equal answers.

    Parameters
    ----------
    problem : Problem
        The problem.
    time_limit_s : float, optional
        Wall seconds; after that the best placement so far is timed.
    seed : int
        Of the search.
    warm_start, progress, curve
        As in every method; without effect here.

    Returns
    -------
    Solution
        `statistics["sequential_ticks"]` is the sum, `statistics["sequential_optimal"]` 1 if it was proven least.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    from ortools.sat.python import cp_model

    began = time.perf_counter()
    refuse_infeasible(problem)
    durations = [option.duration for options in problem.options for option in options]
    scale = math.gcd(*durations, *(edge.transfer for edge in problem.dependencies)) or 1
    cp = cp_model.CpModel()
    literals = []
    terms: list[tuple[cp_model.IntVar, int]] = []
    demand: list[tuple[cp_model.IntVar, int]] = []
    for name, options in zip(problem.names, problem.options, strict=True):
        some = [cp.new_bool_var(f"option {o} of {name}") for o in range(len(options))]
        cp.add_exactly_one(some)
        literals.append(some)
        for option, literal in zip(options, some, strict=True):
            terms.append((literal, option.duration // scale))
            if option.crossbars > problem.budget:
                cp.add(literal == 0)
            else:
                demand.append((literal, option.crossbars))

    for number, edge in enumerate(problem.dependencies):
        if edge.transfer == 0:
            continue
        moved = cp.new_bool_var(f"transfer {number}")
        terms.append((moved, edge.transfer // scale))
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            for place in sorted({option.place for option in problem.options[here]}):
                signs = [int(option.place == place) for option in problem.options[here]]
                signs += [-int(option.place == place) for option in problem.options[there]]
                cp.add(moved >= cp_model.LinearExpr.weighted_sum(literals[here] + literals[there], signs))
    cp.add(sum(literal * crossbars for literal, crossbars in demand) <= problem.budget)
    cp.minimize(sum(literal * cost for literal, cost in terms))
    known = least_choices(problem)
    for some, choice in zip(literals, known, strict=True):
        for o, literal in enumerate(some):
            cp.add_hint(literal, o == choice)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.catch_sigint_signal = False
    if time_limit_s is not None:
        solver.parameters.max_time_in_seconds = max(0.01, time_limit_s - (time.perf_counter() - began))
    status = interruptible(lambda: solver.solve(cp), solver.stop_search).result
    chosen = known
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        chosen = tuple(next(o for o, lit in enumerate(some) if solver.boolean_value(lit)) for some in literals)
    statistics: dict[str, int | float | str] = {
        "sequential_ticks": sequential_ticks(problem, chosen),
        "sequential_optimal": int(status == cp_model.OPTIMAL),
    }
    return answer(METHOD, problem, list_schedule(problem, chosen), began, statistics)


def sequential_ticks(problem: Problem, chosen: tuple[int, ...]) -> int:
    """Return the sum of the chosen durations and of the transfers they cause."""
    picked = [options[choice] for options, choice in zip(problem.options, chosen, strict=True)]
    transfers = (e.transfer for e in problem.dependencies if picked[e.source].place != picked[e.target].place)
    return sum(option.duration for option in picked) + sum(transfers)
