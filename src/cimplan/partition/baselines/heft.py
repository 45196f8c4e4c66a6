"""List scheduling by earliest finish (HEFT) under a crossbar budget.

After Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(IEEE TPDS 2002): operators by falling upward rank (the mean duration over their options plus the longest mean way
to the end), each to the option that finishes first, on the host in the first gap that is long enough. The budget is
ours: an option is open while its crossbars, and the fewest that the operators still to come can take, fit.
"""

from __future__ import annotations

import bisect
import time

from cimplan.cost.problem import HOST, Problem
from cimplan.limits import watch
from cimplan.partition.baselines.common import answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import retimed, topological_order
from cimplan.plan.schedule import Schedule, Solution

METHOD = "heft"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Give each operator, by falling rank, the option that finishes it first.

    The keyword arguments are those of every method; none matters here.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    before: list[list[tuple[int, int]]] = [[] for _ in problem.names]
    for edge in problem.dependencies:
        before[edge.target].append((edge.source, edge.transfer))
    spare = problem.budget - problem.least_crossbars()
    cores = [_Gaps() for _ in range(problem.host_cores)]
    chosen = [0] * len(problem)
    start = [0] * len(problem)
    for v in topological_order(problem, [-rank for rank in upward_ranks(problem)]):
        watch()
        options = problem.options[v]
        least = min(option.crossbars for option in options)
        offers = []
        for o, option in enumerate(options):
            if option.crossbars - least > spare:
                continue
            ready = 0
            for u, transfer in before[v]:
                source = problem.options[u][chosen[u]]
                delay = transfer if source.place != option.place else 0
                ready = max(ready, start[u] + source.duration + delay)
            core, begin = 0, ready
            if option.place == HOST and option.duration > 0:
                begin, core = min((gaps.first(ready, option.duration), c) for c, gaps in enumerate(cores))
            offers.append((begin + option.duration, option.crossbars, o, begin, core))
        _, crossbars, o, begin, core = min(offers)
        if options[o].place == HOST and options[o].duration > 0:
            cores[core].take(begin, begin + options[o].duration)
        chosen[v], start[v] = o, begin
        spare -= crossbars - least
    return answer(METHOD, problem, retimed(problem, chosen, start), began)


def upward_ranks(problem: Problem) -> list[float]:
    """Return the mean duration of each operator plus the longest mean way to the end.

    The mean transfer of an edge is the transfer times the share of pairs of options whose places differ.
    """
    after: list[list[tuple[int, float]]] = [[] for _ in problem.names]
    for edge in problem.dependencies:
        pairs = [(a.place, b.place) for a in problem.options[edge.source] for b in problem.options[edge.target]]
        share = sum(here != there for here, there in pairs) / len(pairs)
        after[edge.source].append((edge.target, share * edge.transfer))
    ranks = [0.0] * len(problem)
    for v in range(len(problem) - 1, -1, -1):
        mean = sum(option.duration for option in problem.options[v]) / len(problem.options[v])
        ranks[v] = mean + max((delay + ranks[w] for w, delay in after[v]), default=0.0)
    return ranks


class _Gaps:
    """The busy times of one host core, in order."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def first(self, ready: int, duration: int) -> int:
        """Return the first moment from `ready` on at which the core is free for `duration` ticks."""
        index = bisect.bisect_right(self._ends, ready)
        moment = ready
        while index < len(self._begins) and self._begins[index] < moment + duration:
            moment = max(moment, self._ends[index])
            index += 1
        return moment

    def take(self, begin: int, end: int) -> None:
        """Mark the core busy."""
        index = bisect.bisect_left(self._begins, begin)
        self._begins.insert(index, begin)
        self._ends.insert(index, end)
