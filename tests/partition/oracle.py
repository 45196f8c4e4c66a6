"""The oracle of every partition method: the optimum of a small problem by trying everything, and random problems.

Written as plainly as possible and sharing no code with any solver: for every choice of options and every order of
the host's operators, start each operator as early as it can.

Why orders are enough, also on several cores: take an optimal schedule and deal its host operators, in order of
their start, to whichever core is free first. When an operator is dealt, fewer than `host_cores` of the earlier ones
still ran at its old start, and by induction none ends later than before; so it starts no later than before.
Operators of zero duration occupy no host time, so they are not part of the order.
"""

from __future__ import annotations

import itertools
import random

from hypothesis import strategies as st

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan.schedule import Schedule


def brute_force(problem: Problem) -> Schedule | None:
    """Return an optimal schedule, or None if no choice of options fits the budget. At most about 10 operators."""
    best: Schedule | None = None
    best_makespan = float("inf")
    for chosen in itertools.product(*(range(len(options)) for options in problem.options)):
        picked = [options[choice] for options, choice in zip(problem.options, chosen, strict=True)]
        if sum(option.crossbars for option in picked) > problem.budget:
            continue
        search = _Orders(problem, picked, best_makespan)
        search.extend({}, (0,) * problem.host_cores)
        if search.best is not None:
            best = Schedule(chosen, tuple(search.best[v] for v in range(len(problem))))
            best_makespan = search.best_makespan
    return best


def optimum(problem: Problem) -> int | None:
    """Return the least makespan in ticks, or None if no choice of options fits the budget."""
    schedule = brute_force(problem)
    return None if schedule is None else schedule.makespan(problem)


class _Orders:
    """All host orders of one choice of options; remembers the best schedule that beats a given makespan."""

    def __init__(self, problem: Problem, picked: list[Option], to_beat: float) -> None:
        self.picked = picked
        self.occupies_host = [option.place == HOST and option.duration > 0 for option in picked]
        self.before: list[list[tuple[int, int]]] = [[] for _ in picked]
        for edge in problem.dependencies:
            moved = picked[edge.source].place != picked[edge.target].place
            self.before[edge.target].append((edge.source, edge.transfer if moved else 0))
        self.cores = problem.host_cores
        self.best: dict[int, int] | None = None
        self.best_makespan = to_beat
        self.seen: set[tuple[tuple[tuple[int, int], ...], tuple[int, ...]]] = set()

    def extend(self, start: dict[int, int], cores: tuple[int, ...]) -> None:
        """Go on from the operators started so far; `cores` holds when each core is free, ascending."""
        start = dict(start)
        ready = {}
        # Everything that does not wait for the host starts at once; operators are in topological order.
        for v, option in enumerate(self.picked):
            if v in start or not all(u in start for u, _ in self.before[v]):
                continue
            earliest = max((start[u] + self.picked[u].duration + delay for u, delay in self.before[v]), default=0)
            if self.occupies_host[v]:
                ready[v] = earliest
            else:
                start[v] = earliest
                if earliest + option.duration >= self.best_makespan:
                    return
        waiting = sum(
            self.picked[v].duration for v in range(len(self.picked)) if v not in start and self.occupies_host[v]
        )
        if waiting and sum(cores) + waiting > self.cores * (self.best_makespan - 1):
            return
        if len(start) == len(self.picked):
            makespan = max((start[v] + option.duration for v, option in enumerate(self.picked)), default=0)
            if makespan < self.best_makespan:
                self.best, self.best_makespan = start, makespan
            return
        state = (tuple(sorted(start.items())), cores)
        if state in self.seen:
            return
        self.seen.add(state)
        for v, earliest in ready.items():
            begin = max(earliest, cores[0])
            end = begin + self.picked[v].duration
            if end < self.best_makespan:
                self.extend({**start, v: begin}, tuple(sorted((end, *cores[1:]))))


# --- random problems -------------------------------------------------------------------------------------------

SHAPES = ("chain", "fork", "diamond", "ladder", "disconnected", "random", "constant-fed", "skip")
"""Every shape of graph; see `_edges`."""

FLAVOURS = ("plain", "zero", "equal", "wide-range", "options", "places", "host-heavy")
"""Every kind of numbers; see `_options`."""


def random_problem(
    rng: random.Random,
    shape: str | None = None,
    *,
    flavour: str | None = None,
    operators: int | None = None,
    host_cores: int = 1,
    infeasible: bool = False,
) -> Problem:
    """Return a random small problem.

    Parameters
    ----------
    rng : random.Random
        Source of randomness.
    shape : str, optional
        One of `SHAPES`; any of them when left out.
    flavour : str, optional
        One of `FLAVOURS`; any of them when left out. "options" and "places" hold operators with more than two
        options and with a second accelerator; the others at most one option on the host and one on the crossbars.
    operators : int, optional
        How many; 1 to 9 when left out.
    host_cores : int
        Cores of the host.
    infeasible : bool
        Whether some operators are fixed on the crossbars with a budget too small for them.
    """
    shape = shape or rng.choice(SHAPES)
    flavour = flavour or rng.choice(FLAVOURS)
    count = operators or rng.randint(1, 9)
    edges = _edges(rng, shape, count)
    options = [_options(rng, flavour) for _ in range(count)]
    if flavour in ("options", "places"):
        # Keep the product of the options within what brute force can try.
        while _product(options) > 1500:
            v = rng.randrange(count)
            options[v] = options[v][: max(1, len(options[v]) - 1)]
    longest = max(option.duration for some in options for option in some)
    transfers = [0, 0, 1, 2, 3, max(1, longest // 3), longest] if flavour != "equal" else [2]
    dependencies = tuple(Dependency(u, v, rng.choice(transfers), size_bytes=rng.randint(0, 9)) for u, v in edges)
    demand = sum(max(option.crossbars for option in some) for some in options)
    budget = rng.choice([0, demand // 3, demand // 2, 2 * demand // 3, demand, 10**6])
    if infeasible:
        v = rng.randrange(count)
        options[v] = [Option(CIM, rng.randint(1, 9), rng.randint(1, 9))]
        budget = rng.randrange(sum(min(option.crossbars for option in some) for some in options))
    return Problem(
        names=tuple(f"op{v}" for v in range(count)),
        options=tuple(tuple(some) for some in options),
        dependencies=dependencies,
        budget=budget,
        host_cores=host_cores,
    )


def _product(options: list[list[Option]]) -> int:
    product = 1
    for some in options:
        product *= len(some)
    return product


def _edges(rng: random.Random, shape: str, count: int) -> list[tuple[int, int]]:
    """Return the edges of a shape, sorted."""
    edges: set[tuple[int, int]] = set()
    chain = {(v - 1, v) for v in range(1, count)}
    if shape == "chain":
        edges = chain
    elif shape == "fork":  # one source, branches of some length, perhaps never joined again
        edges = {(0 if v <= rng.randint(1, 4) else rng.randint(max(0, v - 3), v - 1), v) for v in range(1, count)}
    elif shape == "diamond":  # fork and join, again and again
        first = 0
        while first + 1 < count:
            width = min(rng.randint(2, 3), max(1, count - first - 2))
            last = min(first + width + 1, count - 1)
            for v in range(first + 1, last):
                edges |= {(first, v), (v, last)}
            edges |= {(first, last)} if last == first + 1 or rng.random() < 0.3 else set()
            first = last
    elif shape == "ladder":  # two rails with rungs
        edges = {(v - 2, v) for v in range(2, count)} | {(v - 1, v) for v in range(1, count, 2) if rng.random() < 0.6}
    elif shape == "disconnected":
        parts = [rng.randrange(3) for _ in range(count)]
        last: dict[int, int] = {}
        for v, part in enumerate(parts):
            if part in last:
                edges.add((last[part], v))
            last[part] = v
    elif shape == "random":
        density = rng.choice([0.1, 0.25, 0.5])
        edges = {(u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < density}
    elif shape == "constant-fed":  # a chain of diamonds whose joins read nodes without a predecessor
        constants = [v for v in range(count) if v and rng.random() < 0.3]
        main = [v for v in range(count) if v not in constants]
        edges = set(itertools.pairwise(main))
        for c in constants:
            later = [v for v in main if v > c]
            edges |= {(c, v) for v in rng.sample(later, min(len(later), rng.randint(1, 2)))}
    elif shape == "skip":  # a chain with edges that jump over the cuts
        edges = chain | {(u, v) for u in range(count) for v in range(u + 2, count) if rng.random() < 0.25}
    else:
        raise ValueError(shape)
    return sorted(edges)


def _options(rng: random.Random, flavour: str) -> list[Option]:
    """Return the options of one operator."""
    if flavour == "equal":
        host = Option(HOST, 4)
        return [host, Option(CIM, 4, 1)] if rng.random() < 0.6 else [host]
    low, high = {"zero": (0, 3), "host-heavy": (5, 30)}.get(flavour, (1, 12))
    if flavour == "zero" and rng.random() < 0.3:
        high = 0
    if flavour == "wide-range":  # 1 ns beside 100 s, in ns
        low, high = (1, 10) if rng.random() < 0.6 else (10**10, 10**11)
    host = Option(HOST, rng.randint(low, high))
    if rng.random() < 0.35:
        return [host]
    fast = rng.randint(0 if flavour == "zero" else 1, max(1, high // 2))
    found = [host, Option(CIM, fast, rng.randint(0 if flavour == "zero" else 1, 5))]
    if flavour == "options":
        for copies in range(2, rng.randint(2, 4)):
            found.append(Option(CIM, max(1, fast // copies), copies * max(1, found[1].crossbars), f"x{copies}"))
        if rng.random() < 0.2:
            found.append(Option(HOST, rng.randint(low, high), rng.randint(0, 1), "other"))
    if flavour == "places" and rng.random() < 0.6:
        found.append(Option("cim2", rng.randint(1, high), rng.randint(0, 4)))
    if rng.random() < 0.08:
        found = found[1:]
    return found


@st.composite
def problems(
    draw: st.DrawFn,
    max_operators: int = 7,
    *,
    max_cores: int = 1,
    two_options: bool = False,
) -> Problem:
    """Draw a small feasible or infeasible problem that shrinks well.

    Parameters
    ----------
    draw : callable
        Given by hypothesis.
    max_operators : int
        Most operators.
    max_cores : int
        Most cores of the host.
    two_options : bool
        Whether operators have at most one option on the host and one on the crossbars.
    """
    count = draw(st.integers(1, max_operators))
    durations = st.one_of(st.integers(0, 10), st.sampled_from([1, 10**11]))
    host = st.builds(Option, st.just(HOST), durations)
    cim = st.builds(Option, st.just(CIM), durations, st.integers(0, 4))
    lists = [st.tuples(host), st.tuples(host, cim), st.tuples(cim)]
    if not two_options:
        other = st.builds(Option, st.just("cim2"), durations, st.integers(0, 4))
        lists += [st.tuples(host, cim, cim), st.tuples(host, cim, other)]
    options = draw(st.lists(st.one_of(*lists), min_size=count, max_size=count))
    pairs = [(u, v) for u in range(count) for v in range(u + 1, count)]
    edges = sorted(draw(st.sets(st.sampled_from(pairs), max_size=2 * count))) if pairs else []
    transfers = [draw(st.integers(0, 8)) for _ in edges]
    return Problem(
        names=tuple(f"op{v}" for v in range(count)),
        options=tuple(options),
        dependencies=tuple(Dependency(u, v, t) for (u, v), t in zip(edges, transfers, strict=True)),
        budget=draw(st.integers(0, 12)),
        host_cores=draw(st.integers(1, max_cores)),
    )


def faults(problem: Problem, schedule: Schedule) -> list[str]:
    """Return what is wrong with a schedule: a second, simple reading of the problem's constraints."""
    found = []
    picked = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
    start = schedule.start
    if any(not isinstance(s, int) or s < 0 for s in start):
        found.append("a start is not a whole tick from 0 on")
    if sum(option.crossbars for option in picked) > problem.budget:
        found.append("budget")
    for edge in problem.dependencies:
        moved = picked[edge.source].place != picked[edge.target].place
        if start[edge.target] < start[edge.source] + picked[edge.source].duration + (edge.transfer if moved else 0):
            found.append(f"precedence {edge}")
    busy = [(start[v], start[v] + o.duration) for v, o in enumerate(picked) if o.place == HOST and o.duration > 0]
    for moment, _ in busy:
        if sum(begin <= moment < end for begin, end in busy) > problem.host_cores:
            found.append(f"host at {moment}")
    return found
