"""The exact method: cut the network into blocks, enumerate what each can do, fold, and prove.

The steps, each in a module of its own:

1. `spine`: cuts, the blocks between them, and fillers beside them.
2. `block`: all trade-offs of each block by dynamic programming.
3. `tables`, `fold`: (min,+) over the crossbars; a lower bound, and the choices that reach it.
4. `realise`: the schedule of these choices. Where it meets the bound, it is proven optimal.
5. Otherwise the bound is tightened: first by the leads of fillers, then by search.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cimplan.cost.problem import Problem
from cimplan.partition import bounds, cpsat
from cimplan.partition.block import TooWideError, Ways
from cimplan.partition.certify import certify
from cimplan.partition.curve import LARGEST_CURVE, bisected_curve, budget_curve
from cimplan.partition.fold import fold, fold_until
from cimplan.partition.goal import OneBudget
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import Progress, ProgressCallback
from cimplan.partition.realise import decisions, descend, realise, searched
from cimplan.partition.search import Search, SearchLimitError, exact_fillers, first_block
from cimplan.partition.spine import Spine, find_spine
from cimplan.partition.structure import Network
from cimplan.partition.tables import Remaining, Tables, remaining, tabulate
from cimplan.partition.timing import least_choices, list_schedule, retimed
from cimplan.plan.certificate import Certificate
from cimplan.plan.schedule import CurvePoint, Schedule, Solution

METHOD = "exact"

_REALISED = 40
"""Ways through the blocks that are turned into schedules, best bound first."""


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Partition a network to proven optimality.

    Parameters
    ----------
    problem : Problem
        The problem.
    time_limit_s : float, optional
        Wall seconds; the best schedule and bound by then are returned.
    seed : int
        Of the search that closes what decomposition leaves open.
    warm_start : Schedule, optional
        A feasible schedule to begin with; the answer is never worse.
    progress : callable, optional
        Told of every better schedule and bound.
    curve : bool
        Whether to compute the optimum of every smaller and larger budget too.

    Returns
    -------
    Solution
        "optimal" when the bound meets the makespan, otherwise "feasible".

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    refuse_infeasible(problem)
    attempt = _Attempt(problem, progress)
    attempt.offer(list_schedule(problem, least_choices(problem)), "first schedule")
    if warm_start is not None:
        attempt.offer(retimed(problem, warm_start.chosen, warm_start.start), "warm start")
    attempt.raise_bound(bounds.lower_bound(problem), None, "elementary bounds")
    deadline = None if time_limit_s is None else attempt.began + time_limit_s
    network = Network(problem)
    try:
        if problem.host_cores == 1:
            _decompose(attempt, network, deadline)
        if not attempt.closed:
            _search(attempt, time_limit_s, seed)
        if curve:
            attempt.curve = _curve(attempt, network, deadline)
    except KeyboardInterrupt:
        attempt.statistics["stopped"] = "interrupted"
    return attempt.solution()


@dataclass
class _Attempt:
    """The best schedule and bound so far."""

    problem: Problem
    progress: ProgressCallback | None
    began: float = field(default_factory=time.perf_counter)
    schedule: Schedule | None = None
    makespan: int = 2**62
    bound: int = 0
    certificate: Certificate | None = None
    spine: Spine | None = None
    curve: tuple[CurvePoint, ...] = ()
    memory: dict[object, Ways] = field(default_factory=dict)
    statistics: dict[str, int | float | str] = field(default_factory=dict)

    @property
    def closed(self) -> bool:
        return self.bound >= self.makespan

    def count(self, what: str, more: int) -> None:
        before = self.statistics.get(what, 0)
        self.statistics[what] = more + (before if isinstance(before, int) else 0)

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def offer(self, schedule: Schedule, phase: str) -> None:
        """Take a schedule if it is better."""
        makespan = schedule.makespan(self.problem)
        if makespan < self.makespan:
            self.schedule, self.makespan = schedule, makespan
            self._report(phase)

    def raise_bound(self, bound: int, certificate: Certificate | None, phase: str) -> None:
        """Take a bound if it is better."""
        if bound > self.bound or (bound == self.bound and self.certificate is None):
            self.bound, self.certificate = bound, certificate
            self.statistics["proof"] = phase
            self._report(phase)

    def _report(self, phase: str) -> None:
        if self.progress is not None:
            known = None if self.schedule is None else self.makespan
            self.progress(Progress(self.elapsed(), known, min(self.bound, self.makespan), phase))

    def solution(self) -> Solution:
        return Solution(
            method=METHOD,
            status="optimal" if self.closed else "feasible",
            schedule=self.schedule,
            lower_bound=min(self.bound, self.makespan),
            certificate=self.certificate,
            curve=self.curve,
            solve_s=self.elapsed(),
            statistics=self.statistics,
        )


def _decompose(attempt: _Attempt, network: Network, deadline: float | None) -> None:
    """Bound the makespan by blocks, and try the choices that reach the bound."""
    budget = attempt.problem.budget
    spine = attempt.spine = find_spine(network)
    attempt.statistics |= {"cuts": len(spine.cuts), "fillers": spine.fillers().bit_count()}
    if spine.oversized:
        return
    for delayed in (False, True) if spine.groups else (False,):
        try:
            tables = tabulate(network, spine, delayed=delayed, memory=attempt.memory)
        except TooWideError:
            return
        rest = remaining(tables, budget)
        if not delayed:
            for heavy in (False, True):
                attempt.offer(descend(tables, rest, budget, heavy=heavy), "blocks")
        labels, count = fold(tables, rest, OneBudget(budget, attempt.makespan))
        attempt.count("labels", count)
        bound = min([attempt.makespan, *(label.busy for label in labels)])
        for label in labels[:_REALISED]:
            if label.busy < attempt.makespan:
                attempt.offer(realise(tables, *decisions(tables, label)), "blocks")
        attempt.raise_bound(bound, certify(tables, bound, budget), "blocks with leads" if delayed else "blocks")
        if attempt.closed:
            return
    _close(attempt, tables, rest, deadline)


def _close(attempt: _Attempt, tables: Tables, rest: Remaining, deadline: float | None) -> None:
    """Search through the blocks with ever fewer pooled fillers until the bound meets the best schedule."""
    for exact in exact_fillers(tables):
        goal = OneBudget(attempt.problem.budget, attempt.makespan)
        first = first_block(tables, exact)
        labels, count = fold_until(tables, first, rest, goal)
        try:
            found, searched_labels = Search(tables, rest, goal, first, exact, deadline).run(labels)
        except SearchLimitError:
            return
        attempt.count("labels", count + searched_labels)
        bound = found[0].makespan if found else attempt.makespan
        if found:
            attempt.offer(realise(tables, *searched(tables, found[0].trail)), "search")
        attempt.raise_bound(bound, attempt.certificate, "search")
        if attempt.closed:
            return


def _curve(attempt: _Attempt, network: Network, deadline: float | None) -> tuple[CurvePoint, ...]:
    """Return the optimum of every budget."""
    problem = attempt.problem
    most = sum(max(option.crossbars for option in options) for options in problem.options)
    spine = attempt.spine
    if spine is not None and not spine.oversized and most <= LARGEST_CURVE:
        known = [list_schedule(problem, least_choices(problem))]
        if attempt.schedule is not None:
            known.append(attempt.schedule)
        return budget_curve(network, spine, known, attempt.memory, deadline)

    def solve_one(at: Problem) -> Solution:
        left = None if deadline is None else max(0.0, deadline - time.perf_counter())
        return solve(at, time_limit_s=left)

    return bisected_curve(problem, solve_one)


def _search(attempt: _Attempt, time_limit_s: float | None, seed: int) -> None:
    """Close the gap with the plain constraint model."""
    left = None if time_limit_s is None else max(0.0, time_limit_s - attempt.elapsed())
    found = cpsat.solve(attempt.problem, time_limit_s=left, seed=seed, warm_start=attempt.schedule)
    if found.schedule is not None:
        attempt.offer(found.schedule, "constraint model")
    attempt.raise_bound(found.lower_bound, attempt.certificate, "constraint model")
