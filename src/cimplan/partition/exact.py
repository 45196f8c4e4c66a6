"""The exact method: cut the network into blocks, enumerate what each can do, fold, and prove.

The steps, each in a module of its own:

1. `spine`: cuts, the blocks between them, and fillers beside them.
2. `block`: all trade-offs of each block by dynamic programming.
3. `tables`, `fold`: (min,+) over the crossbars; a lower bound, and the choices that reach it.
4. `realise`: the schedule of these choices. Where it meets the bound, it is proven optimal.
5. Otherwise the bound is tightened: first by the leads of fillers, then by search; and the schedule is improved, from
   the best of the baselines on, by simulated annealing (`anneal`), which takes about as long as the search.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from math import log

from cimplan.cost.problem import Problem
from cimplan.partition import bounds, cpsat
from cimplan.partition.anneal import anneal
from cimplan.partition.baselines import all_cim, greedy, heft, single_cut
from cimplan.partition.block import LABEL_LIMIT as BLOCK_LABELS
from cimplan.partition.block import TooWideError, Ways
from cimplan.partition.certify import certify
from cimplan.partition.clock import OutOfTimeError, watch
from cimplan.partition.collector import collector_paused
from cimplan.partition.curve import LARGEST_CURVE, bisected_curve, budget_curve
from cimplan.partition.fold import FoldLimitError, Label, fold, fold_until
from cimplan.partition.goal import OneBudget
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.players import Level, levels
from cimplan.partition.progress import Progress, ProgressCallback
from cimplan.partition.realise import decisions, descend, realise, searched
from cimplan.partition.search import LABEL_LIMIT as SEARCH_LABELS
from cimplan.partition.search import Completion, Search, SearchLimitError, refined
from cimplan.partition.spine import IDEAL_LIMITS, Spine, find_spine
from cimplan.partition.structure import Network
from cimplan.partition.tables import Remaining, Tables, remaining, tabulate
from cimplan.partition.timing import least_choices, list_schedule, retimed
from cimplan.plan.certificate import Certificate
from cimplan.plan.schedule import CurvePoint, Schedule, Solution

METHOD = "exact"

_EFFORTS = (1, 10)
"""How hard to try by blocks before each turn of the constraint model, in multiples of the label limits."""

_PATIENCE_S = 10.0
"""Seconds for the first turn of the constraint model: enough for small networks without structure."""

_SCRIPTS = 3
"""Results of a search of which the fillers that were pooled are put in order."""

_FIRST = 64
"""Part of the gap between bound and best schedule that a search is asked for first."""

_TIMES = 3
"""How many times as many labels the next question may take."""

_FEW = 1_000
"""Labels that cost so little that it does not matter how they grow."""

_BASELINE_S = 0.3
"""Seconds that a baseline may take, which matters on very large networks."""

_WALK = 4
"""Moves of simulated annealing for each label of a search, which takes about as long."""

_WORTH_WALKING = 500
"""There is a walk if the gap is more than one in so many of the best makespan."""

_SHORT_WALK = 2_000
"""Moves of the first walk, which are few beside what a search takes that does not find its schedule by itself."""

_REALISED = 10_000
"""Operators of the schedules into which ways through the blocks are turned, best bound first; four ways at least."""


@collector_paused()
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
    attempt = _Attempt(problem, progress, time_limit_s, seed=seed)
    attempt.offer(list_schedule(problem, least_choices(problem)), "first schedule")
    if warm_start is not None:
        attempt.offer(retimed(problem, warm_start.chosen, warm_start.start), "warm start")
    attempt.raise_bound(bounds.lower_bound(problem), None, "elementary bounds")
    try:
        network = Network(problem)
        for effort in _EFFORTS:
            if problem.host_cores == 1 and (effort == _EFFORTS[0] or not attempt.closed):
                _decompose(attempt, network, effort)
            if not attempt.closed:
                _search(attempt, seed, patience_s=None if effort == _EFFORTS[-1] else _PATIENCE_S)
        if curve:
            attempt.curve, attempt.curve_proofs, stopped = _curve(attempt, network)
            if stopped:
                attempt.statistics["stopped"] = stopped
    except OutOfTimeError:
        attempt.statistics["stopped"] = "time limit"
    except KeyboardInterrupt:
        attempt.statistics["stopped"] = "interrupted"
    if not attempt.closed:
        with suppress(OutOfTimeError):
            attempt.offer_baselines()
    return attempt.solution()


@dataclass
class _Attempt:
    """The best schedule and bound so far."""

    problem: Problem
    progress: ProgressCallback | None
    time_limit_s: float | None
    began: float = field(default_factory=time.perf_counter)
    schedule: Schedule | None = None
    makespan: int = 2**62
    bound: int = 0
    certificate: Certificate | None = None
    spine: Spine | None = None
    curve: tuple[CurvePoint, ...] = ()
    seed: int = 0
    walked: int = 0
    asked_baselines: bool = False
    curve_proofs: tuple[Certificate, ...] = ()
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

    @property
    def deadline(self) -> float | None:
        return None if self.time_limit_s is None else self.began + self.time_limit_s

    def left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    def offer(self, schedule: Schedule, phase: str) -> None:
        """Take a schedule if it is better."""
        makespan = schedule.makespan(self.problem)
        if makespan < self.makespan:
            self.schedule, self.makespan = schedule, makespan
            self._report(phase)

    def offer_baselines(self) -> None:
        """Take the best of the baselines, which cost little; only once."""
        if self.asked_baselines:
            return
        self.asked_baselines = True
        for baseline in (heft, all_cim, greedy, single_cut):
            found = baseline.solve(self.problem, time_limit_s=_BASELINE_S)
            if found.schedule is not None:
                self.offer(found.schedule, found.method)

    def walk(self, moves: int) -> None:
        """Improve the best schedule by so many moves of simulated annealing."""
        self.offer_baselines()
        if self.schedule is None or self.closed:
            return
        better = anneal(
            self.problem,
            self.schedule,
            steps=moves,
            seed=self.seed + self.walked,
            enough=self.bound,
            deadline=self.deadline,
        )
        self.walked += moves
        self.statistics["moves"] = self.walked
        self.offer(better, "annealing")

    def raise_bound(self, bound: int, certificate: Certificate | None, phase: str) -> None:
        """Take a bound if it is better; keep the certificate that proves most."""
        if certificate is not None and (
            self.certificate is None or certificate.lower_bound > self.certificate.lower_bound
        ):
            self.certificate = certificate
        if bound > self.bound:
            self.bound = bound
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
            curve_proofs=self.curve_proofs,
            solve_s=self.elapsed(),
            statistics=self.statistics,
        )


def _decompose(attempt: _Attempt, network: Network, effort: int) -> None:
    """Bound the makespan by blocks, and try the choices that reach the bound."""
    for limit in IDEAL_LIMITS:
        watch(attempt.deadline)
        spine = find_spine(network, limit)
        attempt.statistics |= {"cuts": len(spine.cuts), "fillers": spine.fillers().bit_count()}
        try:
            _fold(attempt, network, spine, effort)
            attempt.spine = spine
        except TooWideError:
            continue
        return


def _fold(attempt: _Attempt, network: Network, spine: Spine, effort: int) -> None:
    budget, most = attempt.problem.budget, effort * BLOCK_LABELS
    tables = tabulate(network, spine, delayed=False, memory=attempt.memory, limit=most, deadline=attempt.deadline)
    rest = remaining(tables, budget)
    watch(attempt.deadline)
    for heavy in (False, True):
        attempt.offer(descend(tables, rest, budget, heavy=heavy), "blocks")
    _bound_by_fold(attempt, tables, rest, "blocks")
    if spine.groups and not attempt.closed:
        with suppress(TooWideError, FoldLimitError):
            leads = tabulate(network, spine, delayed=True, memory=attempt.memory, limit=most, deadline=attempt.deadline)
            rest_of_leads = remaining(leads, budget)
            _bound_by_fold(attempt, leads, rest_of_leads, "blocks with leads")
            tables, rest = leads, rest_of_leads
    if not attempt.closed:
        _close(attempt, tables, rest, effort)


def _bound_by_fold(attempt: _Attempt, tables: Tables, rest: Remaining, phase: str) -> None:
    """Fold the blocks, take the bound, and try the choices that reach it."""
    budget = attempt.problem.budget
    labels, count = fold(tables, rest, OneBudget(budget, attempt.makespan, attempt.deadline))
    attempt.count("labels", count)
    bound = min([attempt.makespan, *(label.busy for label in labels)])
    for label in labels[: max(4, _REALISED // max(1, len(attempt.problem)))]:
        if label.busy < attempt.makespan:
            attempt.offer(realise(tables, *decisions(tables, label), enough=bound), "blocks")
    attempt.raise_bound(bound, certify(tables, bound, budget), phase)


def _close(attempt: _Attempt, tables: Tables, rest: Remaining, effort: int) -> None:
    """Search through the blocks with ever fewer pooled fillers until the bound meets the best schedule.

    Searching for all that beats the best schedule is slow if that schedule is poor. So the search asks for something
    that ends little after the bound, then for more and more; if there is nothing, that raises the bound.
    """
    budget = attempt.problem.budget
    for level in levels(tables):
        goal = OneBudget(budget, attempt.makespan, attempt.deadline)
        labels, count = fold_until(tables, level.first, rest, goal)
        attempt.count("labels", count)
        search = Search(tables, level, goal, labels, limit=SEARCH_LABELS)
        try:
            found = _ask(attempt, search, tables, level)
            for ordered, some in ((True, found[:_SCRIPTS]), (False, found[:1])):
                for completion in some:
                    if not attempt.closed:
                        _refine(attempt, tables, search, labels, completion, ordered)
            if not attempt.closed:
                attempt.walk(max(_SHORT_WALK, _WALK * search.count))
        except SearchLimitError:
            _offer_first(attempt, tables, search.reached())
            continue
        except (OutOfTimeError, KeyboardInterrupt):
            _offer_first(attempt, tables, search.reached())
            raise
        finally:
            attempt.count("labels", search.count)
        if attempt.closed:
            return


def _ask(attempt: _Attempt, search: Search, tables: Tables, level: Level) -> list[Completion]:
    """Ask a search for more and more, until it finds something; before asking for much, look for a better schedule.

    How much there is to look at grows about exponentially with what is asked. The next question is chosen so that it
    may take some times as many labels as all before.
    """

    def improve(labels: int) -> int:
        moves, gap = _WALK * labels, attempt.makespan - attempt.bound
        if moves >= max(_SHORT_WALK, 2 * attempt.walked) and gap * _WORTH_WALKING > attempt.makespan:
            attempt.walk(moves - attempt.walked)
            search.goal.improve([(attempt.makespan, 0)])
        return attempt.makespan

    begin, most = max(attempt.bound, min(search.least(), attempt.makespan)), attempt.makespan
    before, further = search.count, (most - begin) / _FIRST
    room = further
    while True:
        below = min(most, begin + 1 + int(room))
        found = search.run(below, improve)
        _offer_first(attempt, tables, found)
        most = min(most, attempt.makespan)
        proven = min([below, most, *(completion.makespan for completion in found[:1])])
        certificate = certify(tables, proven, attempt.problem.budget, searched=level.exact)
        attempt.raise_bound(proven, certificate, "search")
        if found or attempt.closed or below >= most:
            return found
        most = improve(search.count)
        if most <= attempt.bound:
            return found
        growth = log(max(search.count, _FEW) / max(before, _FEW))
        before = search.count
        further = min(3 * room, max(room / 4, further * log(_TIMES) / growth if growth else 3 * room))
        room += further


def _offer_first(attempt: _Attempt, tables: Tables, found: list[Completion]) -> None:
    for completion in found[:1]:
        schedule = realise(tables, *searched(tables, completion), enough=completion.makespan)
        attempt.offer(schedule, "search")


def _refine(
    attempt: _Attempt,
    tables: Tables,
    search: Search,
    labels: dict[int, list[Label]],
    completion: Completion,
    ordered: bool,
) -> None:
    """Take the options of a result, and perhaps its order, and schedule one by one the fillers that were pooled."""
    below = attempt.makespan if ordered else attempt.bound + 1
    goal = OneBudget(attempt.problem.budget, below, attempt.deadline)
    better = refined(tables, search, labels, completion, goal, ordered=ordered)
    if better is not None:
        attempt.offer(realise(tables, *searched(tables, better)), "search")


def _curve(attempt: _Attempt, network: Network) -> tuple[tuple[CurvePoint, ...], tuple[Certificate, ...], str]:
    """Return the optimum of every budget as far as time allows, certificates of that, and what stopped it."""
    problem = attempt.problem
    most = sum(max(option.crossbars for option in options) for options in problem.options)

    def solve_one(at: Problem) -> Solution:
        solution = solve(at, time_limit_s=attempt.left())
        if solution.statistics.get("stopped") == "interrupted":
            raise KeyboardInterrupt
        return solution

    if attempt.spine is None or most > LARGEST_CURVE:
        return bisected_curve(problem, solve_one)
    known = [list_schedule(problem, least_choices(problem))]
    labels = int(attempt.statistics.get("labels", 0))
    if attempt.schedule is not None:
        known.append(attempt.schedule)
    return budget_curve(network, attempt.spine, known, solve_one, attempt.memory, attempt.deadline, labels)


def _search(attempt: _Attempt, seed: int, patience_s: float | None) -> None:
    """Close the gap with the plain constraint model, as long as patience lasts."""
    attempt.walk(_SHORT_WALK)
    if attempt.closed:
        return
    limits = [limit for limit in (attempt.left(), patience_s) if limit is not None]
    found = cpsat.solve(
        attempt.problem,
        time_limit_s=min(limits, default=None),
        seed=seed,
        warm_start=attempt.schedule,
        lower_bound=attempt.bound,
    )
    if found.schedule is not None:
        attempt.offer(found.schedule, "constraint model")
    attempt.raise_bound(found.lower_bound, None, "constraint model")
    if found.statistics.get("stopped") == "interrupted":
        raise KeyboardInterrupt
