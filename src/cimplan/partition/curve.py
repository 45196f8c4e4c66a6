"""The budget curve: the optimum for every crossbar budget, from one pass over the blocks.

A fold carries the crossbars used in its labels, so it knows the bound of every budget at once; so does the search.
What is worthwhile is then a question for all budgets together (`EveryBudget`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from cimplan.cost.problem import Problem
from cimplan.partition.block import TooWideError, Ways
from cimplan.partition.certify import certify
from cimplan.partition.clock import OutOfTimeError, watch
from cimplan.partition.fold import FoldLimitError, Label, fold, fold_until
from cimplan.partition.goal import PARTS, EveryBudget, OneBudget
from cimplan.partition.players import Level, levels
from cimplan.partition.realise import decisions, descend, realise, searched
from cimplan.partition.search import LABEL_LIMIT, Completion, Search, SearchLimitError, refined
from cimplan.partition.spine import Spine
from cimplan.partition.structure import Network
from cimplan.partition.tables import Integers, Remaining, Tables, remaining, tabulate
from cimplan.plan.certificate import Certificate, Step
from cimplan.plan.schedule import CurvePoint, Schedule, Solution

LARGEST_CURVE = 4096
"""Crossbars up to which all budgets are looked at together."""

_PARTS = (PARTS // 16, PARTS // 4, PARTS)
"""Parts of the gaps that are searched, one after the other."""

_MANY = 5
"""Open steps of a curve that are worth a harder search for all budgets at once rather than one solve each."""

_LABELS = 1_000
"""Labels that take about as long as the rest of a solve."""

_FAR = np.int64(2**60)


class BudgetCurve:
    """Best schedules and bounds for every budget.

    Parameters
    ----------
    network : Network
        The network, of one host core.
    spine : Spine
        Its cuts; no block may be oversized.
    labels : int
        Labels that one budget took.
    """

    def __init__(self, network: Network, spine: Spine, labels: int) -> None:
        options = network.problem.options
        self.network, self.spine, self.labels = network, spine, labels
        self.least = sum(min(option.crossbars for option in some) for some in options)
        self.most = sum(max(option.crossbars for option in some) for some in options)
        self.schedules: list[Schedule | None] = [None] * (self.most + 1)
        self._proofs: list[_Proof] = []
        self._certificates: list[Certificate] = []
        self.makespan: Integers = np.full(self.most + 1, _FAR)
        self.makespan[: self.least] = 0  # nothing is worthwhile where nothing fits
        self.bound: Integers = np.zeros(self.most + 1, dtype=np.int64)

    def offer(self, schedule: Schedule) -> None:
        """Take a schedule for every budget at which it is better."""
        problem = self.network.problem
        crossbars, makespan = schedule.crossbars(problem), schedule.makespan(problem)
        for budget in range(crossbars, self.most + 1):
            if self.makespan[budget] <= makespan:  # they never rise
                break
            self.makespan[budget], self.schedules[budget] = makespan, schedule

    def raise_bound(
        self, below: Integers, found: list[tuple[int, int]], tables: Tables, searched: int | None = None
    ) -> None:
        """Take the bound that a fold or search gives: what it found (crossbars, ticks), or else what it had to beat."""
        bound = below.copy()
        for crossbars, ticks in found:
            better = bound[crossbars:]
            np.minimum(better, ticks, out=better)
        np.maximum(self.bound, bound, out=self.bound)
        self._proofs.append(_Proof(tables, bound, searched))

    @property
    def closed(self) -> bool:
        """Whether every budget is proven."""
        return bool((self.bound >= self.makespan)[self.least :].all())

    @property
    def open_steps(self) -> int:
        """How many steps of the curve are not proven."""
        return len(np.unique(self.makespan[self.bound < self.makespan]))

    def points(self) -> tuple[CurvePoint, ...]:
        """Return the steps of the curve; a step's bound is that of its largest budget, so it holds for all."""
        found: list[CurvePoint] = []
        for budget in range(self.least, self.most + 1):
            makespan, bound = int(self.makespan[budget]), int(self.bound[budget])
            point = CurvePoint(budget, makespan, min(makespan, bound), self.schedules[budget])
            if not found or makespan < found[-1].makespan:
                found.append(point)
            elif point.lower_bound < found[-1].lower_bound:
                found[-1] = replace(found[-1], lower_bound=point.lower_bound)
        return tuple(found)

    def certificates(self, points: Sequence[CurvePoint]) -> tuple[Certificate, ...]:
        """Return certificates of the bounds of some points, each of the first that proves it."""
        ends = [point.crossbars - 1 for point in points[1:]] + [self.most]
        steps: dict[int, list[Step]] = {}
        kept: dict[Certificate, None] = {}
        for point, end in zip(points, ends, strict=True):
            number = next((n for n, proof in enumerate(self._proofs) if proof.bound[end] >= point.lower_bound), None)
            if number is not None:
                steps.setdefault(number, []).append(Step(end, point.lower_bound))
                continue
            own = (one for one in self._certificates if one.budget >= end and one.lower_bound >= point.lower_bound)
            kept |= dict.fromkeys(islice(own, 1))
        folded = [
            certify(
                self._proofs[number].tables,
                some[-1].bound,
                some[-1].budget,
                searched=self._proofs[number].searched,
                steps=tuple(some),
            )
            for number, some in sorted(steps.items())
        ]
        return (*folded, *kept)

    def run(self, memory: dict[object, Ways], deadline: float | None) -> None:
        """Fold and search as for one budget, for all of them at once.

        Raises
        ------
        TooWideError, SearchLimitError, OutOfTimeError
            If a step takes too long; what is known by then stays.
        """
        tables = tabulate(self.network, self.spine, delayed=False, memory=memory, deadline=deadline)
        rest = remaining(tables, self.most, every=True)
        if not self.spine.groups:
            for budget in range(self.least, self.most + 1):
                if budget == self.least or rest.path[0][-1].at(budget) < rest.path[0][-1].at(budget - 1):
                    self.offer(descend(tables, rest, budget, heavy=False))
        self._bound_by_fold(tables, rest, deadline)
        if self.spine.groups and not self.closed:
            with suppress(TooWideError, FoldLimitError):
                leads = tabulate(self.network, self.spine, delayed=True, memory=memory, deadline=deadline)
                rest_of_leads = remaining(leads, self.most, every=True)
                self._bound_by_fold(leads, rest_of_leads, deadline)
                tables, rest = leads, rest_of_leads
        for number, level in enumerate(levels(tables)):
            if self.closed:
                return
            if not number or self.open_steps >= _MANY:
                self._close(tables, level, rest, deadline)

    def _bound_by_fold(self, tables: Tables, rest: Remaining, deadline: float | None) -> None:
        below = self.makespan.copy()
        labels, _ = fold(tables, rest, EveryBudget(below, deadline))
        for label in labels:
            if label.busy < self.makespan[label.crossbars]:
                self.offer(realise(tables, *decisions(tables, label), enough=label.busy))
        self.raise_bound(below, [(label.crossbars, label.busy) for label in labels], tables)

    def _close(self, tables: Tables, level: Level, rest: Remaining, deadline: float | None) -> None:
        """Search for all open budgets at once."""
        closed = self.bound >= self.makespan
        goal = EveryBudget(np.where(closed, 0, self.makespan), deadline, self.bound)
        labels, _ = fold_until(tables, level.first, rest, goal)
        # Where that takes more labels than one solve for each step, one solve for each step is the safer way.
        limit = min(LABEL_LIMIT, self.open_steps * (_LABELS + self.labels))
        search = Search(tables, level, goal, labels, limit=limit)
        found: list[Completion] = []
        tried: set[tuple[int, ...]] = set()
        for part in _PARTS:
            found = search.run(part)
            self._offer_all(tables, found)
            for completion in found:
                if completion[:2] not in tried:
                    tried.add(completion[:2])
                    self._refine(tables, search, labels, completion, ordered=True)
            below = np.where(closed, self.makespan, goal.within(part))
            # A schedule that takes fewer crossbars counts for a larger budget too.
            below[: self.least] = _FAR
            below = np.minimum.accumulate(below)
            below[: self.least] = 0
            self.raise_bound(below, [], tables, level.exact)
            if self.closed:
                return
        for completion in found:
            self._refine(tables, search, labels, completion, ordered=False)

    def _offer_all(self, tables: Tables, found: list[Completion]) -> None:
        """Take the schedules of results."""
        for completion in found:
            if completion.makespan < self.makespan[completion.crossbars]:
                self.offer(realise(tables, *searched(tables, completion), enough=completion.makespan))

    def _refine(
        self, tables: Tables, search: Search, labels: dict[int, list[Label]], completion: Completion, ordered: bool
    ) -> None:
        """Put the pooled fillers of a result in order if its schedule falls short."""
        known = int(self.makespan[completion.crossbars])
        if completion.makespan < known:
            goal = OneBudget(completion.crossbars, known if ordered else completion.makespan + 1)
            better = refined(tables, search, labels, completion, goal, ordered=ordered)
            if better is not None:
                self.offer(realise(tables, *searched(tables, better)))

    def close_one_by_one(self, solve: Callable[[Problem], Solution], deadline: float | None) -> None:
        """Solve the budgets that are still open, the largest first: its bound holds for the smaller ones too."""
        for budget in range(self.most, self.least - 1, -1):
            if self.bound[budget] >= self.makespan[budget]:
                continue
            watch(deadline)
            solution = solve(self.network.problem.with_budget(budget))
            if solution.schedule is not None:
                self.offer(solution.schedule)
            smaller = self.bound[: budget + 1]
            np.maximum(smaller, solution.lower_bound, out=smaller)
            if solution.certificate is not None:
                self._certificates.append(solution.certificate)


@dataclass(frozen=True)
class _Proof:
    """What a fold or a search has proven: a bound for each budget; `searched` as for `certify`."""

    tables: Tables
    bound: Integers
    searched: int | None


def budget_curve(
    network: Network,
    spine: Spine,
    known: list[Schedule],
    solve: Callable[[Problem], Solution],
    memory: dict[object, Ways],
    deadline: float | None,
    labels: int,
) -> tuple[tuple[CurvePoint, ...], tuple[Certificate, ...], str]:
    """Return the budget curve, certificates of its bounds, and what stopped it.

    Parameters
    ----------
    network : Network
        The network, of one host core.
    spine : Spine
        Its cuts; no block may be oversized.
    known : list of Schedule
        Schedules to begin with.
    solve : callable
        Solves one budget: for those that the pass over all budgets leaves open.
    memory : dict
        What blocks of known shapes can do; extended.
    deadline : float or None
        `time.perf_counter` at which to give up.
    labels : int
        Labels that one budget took.
    """
    curve = BudgetCurve(network, spine, labels)
    for schedule in known:
        curve.offer(schedule)
    stopped = ""
    try:
        with suppress(TooWideError, SearchLimitError):
            curve.run(memory, deadline)
        curve.close_one_by_one(solve, deadline)
    except OutOfTimeError:
        stopped = "time limit"
    except KeyboardInterrupt:
        stopped = "interrupted"
    points = curve.points()
    return points, curve.certificates(points), stopped


def bisected_curve(
    problem: Problem, solve: Callable[[Problem], Solution]
) -> tuple[tuple[CurvePoint, ...], tuple[Certificate, ...], str]:
    """Return the budget curve by solving one budget after another, for problems that cannot be folded.

    Where two budgets have the same makespan, those between them need no solve. The second result are certificates of
    its bounds, as far as there are any, the third what stopped it; empty if nothing did.

    Parameters
    ----------
    problem : Problem
        The problem.
    solve : callable
        Solves it for one budget.
    """
    least = problem.least_crossbars()
    most = sum(max(option.crossbars for option in options) for options in problem.options)
    found: dict[int, tuple[int, int]] = {}
    schedules: dict[int, Schedule | None] = {}
    certificates: dict[int, Certificate] = {}

    def at(budget: int) -> tuple[int, int]:
        if budget not in found:
            solution = solve(problem.with_budget(budget))
            makespan = 0 if solution.schedule is None else solution.schedule.makespan(problem)
            found[budget] = (makespan, solution.lower_bound)
            schedules[budget] = solution.schedule
            if solution.certificate is not None:
                certificates[budget] = solution.certificate
        return found[budget]

    stopped = ""
    open_ranges = [(least, most)]
    try:
        while open_ranges:
            low, high = open_ranges.pop()
            if at(low)[0] > at(high)[0] and high - low > 1:
                middle = (low + high) // 2
                open_ranges += [(low, middle), (middle, high)]
    except KeyboardInterrupt:
        stopped = "interrupted"
    points: list[CurvePoint] = []
    solved = sorted(found.items())
    for number, (budget, (makespan, own_bound)) in enumerate(solved):
        bound = own_bound
        if stopped and budget < most:  # the budgets up to the next one have not been looked at
            bound = solved[number + 1][1][1] if number + 1 < len(solved) else 0
        if not points or makespan < points[-1].makespan:
            points.append(CurvePoint(budget, makespan, bound, schedules[budget]))
        elif bound < points[-1].lower_bound:
            points[-1] = replace(points[-1], lower_bound=bound)
    ends = {point.crossbars - 1 for point in points[1:]} | {most}
    return tuple(points), tuple(certificates[end] for end in sorted(ends & set(certificates))), stopped
