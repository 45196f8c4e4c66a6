"""Verify the proof of a lower bound without the solver that found it.

`cimplan.plan.certificate` says what a certificate claims. Everything here follows from that text alone: reachability
says whether the cuts cut (`certificate_parts`); a branch and bound of its own (`block_search`) or sums say whether
the tables of the blocks are complete; folding the tables gives the bound (`certificate_fold`); and where that falls
short of it, a search over the order of the host's operators closes the rest (`certificate_search`). No solver is
imported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import InternalError
from cimplan.plan.block_search import BlockProblem, find_uncovered
from cimplan.plan.certificate import Certificate, Front, Step
from cimplan.plan.certificate_fold import fold, labels_before, refuted_steps
from cimplan.plan.certificate_parts import MOST_OPERATORS, Parts, RefutedError
from cimplan.plan.certificate_search import ends_early
from cimplan.plan.effort import Effort, OutOfEffortError, TooLargeError

DEFAULT_NODES = 200_000
"""Nodes of a search through blocks; each takes several times as long as one of the other search."""

DEFAULT_SEARCH_NODES = 1_000_000
"""Some fifteen seconds, if they are all needed; networks of a few hundred operators need twenty thousand."""

Verdict = Literal["verified", "incomplete", "refuted"]


@dataclass(frozen=True, slots=True)
class CertificateReport:
    """What became of a certificate.

    Attributes
    ----------
    verdict : {"verified", "incomplete", "refuted"}
        "verified": no schedule within the budget beats `Certificate.lower_bound`. "incomplete": nothing is wrong,
        but not everything could be verified; `notes` says what is left. "refuted": a claim is false.
    bound : int
        Ticks that are proven by what was verified here; 0 where nothing is.
    notes : tuple of str
        What was verified and by what, or what is wrong.
    nodes : int
        Nodes that the searches took.
    final : bool
        Whether the verdict stays the same however many nodes there are.
    """

    verdict: Verdict
    bound: int
    notes: tuple[str, ...]
    nodes: int = 0
    final: bool = True

    @property
    def verified(self) -> bool:
        """True if the whole claim is proven."""
        return self.verdict == "verified"

    def require(self) -> None:
        """Let a certificate pass unless it is wrong.

        Raises
        ------
        InternalError
            If it is refuted.
        """
        if self.verdict == "refuted":
            raise InternalError(
                "the certificate of the lower bound is wrong",
                why="; ".join(self.notes[:3]),
                fix="This is a fault of the method that made it: please report it with the model and the command",
            )


@dataclass(frozen=True, slots=True)
class StepsReport:
    """What became of the steps of a certificate.

    Attributes
    ----------
    verdict : {"verified", "incomplete", "refuted"}
        As of a `CertificateReport`, for all steps.
    proven : tuple of Step
        Those that were verified.
    notes : tuple of str
        What is left, or what is wrong.
    nodes : int
        Nodes that the searches took.
    final : bool
        Whether the verdict stays the same however many nodes there are.
    """

    verdict: Verdict
    proven: tuple[Step, ...]
    notes: tuple[str, ...]
    nodes: int = 0
    final: bool = True


def verify_steps(
    problem: Problem,
    certificate: Certificate,
    *,
    nodes: int = DEFAULT_NODES,
    search_nodes: int = DEFAULT_SEARCH_NODES,
) -> StepsReport:
    """Verify what a certificate claims for several budgets: one pass over its tables, and one search for the rest.

    Parameters
    ----------
    problem : Problem
        The problem; its own budget does not matter.
    certificate : Certificate
        The proof; without steps it is taken for its one budget.
    nodes, search_nodes : int
        As in `verify_certificate`.
    """
    at = problem.with_budget(max(0, certificate.budget))
    if len(certificate.steps) < 2:
        one = verify_certificate(at, certificate, nodes=nodes, search_nodes=search_nodes)
        proven = () if not one.bound else (Step(certificate.budget, one.bound),)
        return StepsReport(one.verdict, proven, one.notes, one.nodes, one.final)
    effort, search_effort = Effort(nodes), Effort(search_nodes)
    try:
        report = _verify_steps(at, certificate, effort, search_effort)
    except RefutedError as refuted:
        report = StepsReport("refuted", (), (str(refuted),))
    return replace(report, nodes=nodes - effort.nodes + search_nodes - search_effort.nodes)


def _verify_steps(problem: Problem, certificate: Certificate, effort: Effort, search_effort: Effort) -> StepsReport:
    try:
        parts = Parts(problem, certificate, effort)
        unknown, final, _ = _verify_blocks(parts, effort)
        if unknown:
            return StepsReport("incomplete", (), (_of_blocks(unknown, final),), final=final)
        least = refuted_steps(parts, effort)
    except OutOfEffortError as out:
        final = isinstance(out, TooLargeError)
        return StepsReport("incomplete", (), (f"the fold needs more {_what(final)}",), final=final)
    steps = parts.targets.steps
    proven = tuple(step for step in steps if step not in least)
    if not least:
        return StepsReport("verified", proven, ())
    step, value = next(iter(least.items()))
    if not certificate.exhausted:
        raise RefutedError(f"folding the tables gives {value} at {step.budget} crossbars, the step says {step.bound}")
    left = tuple(step for step in steps if step in least)
    rest = replace(certificate, steps=left, budget=left[-1].budget, lower_bound=left[-1].bound)
    parts = Parts(problem.with_budget(rest.budget), rest, effort)
    report = _search(parts, search_effort, max(least.values()), [])
    if report.verified:
        return StepsReport("verified", steps, ())
    return StepsReport("incomplete", proven, report.notes[-1:], final=report.final)


def verify_certificate(
    problem: Problem,
    certificate: Certificate,
    *,
    nodes: int = DEFAULT_NODES,
    search_nodes: int = DEFAULT_SEARCH_NODES,
) -> CertificateReport:
    """Verify the proof of a lower bound.

    Parameters
    ----------
    problem : Problem
        The problem the bound is for.
    certificate : Certificate
        The proof.
    nodes : int
        Most nodes of all searches through blocks, and of the fold, together: bounds the effort, the same on every
        machine. What takes too much memory is left out however many there are.
    search_nodes : int
        Most nodes of the search that closes what the fold leaves open; 0 for the fold alone.

    Returns
    -------
    CertificateReport
        The verdict, and what it rests on.
    """
    effort, search_effort = Effort(nodes), Effort(search_nodes)
    try:
        report = _verify(problem, certificate, effort, search_effort)
    except RefutedError as refuted:
        report = CertificateReport("refuted", 0, (str(refuted),))
    return replace(report, nodes=nodes - effort.nodes + search_nodes - search_effort.nodes)


def _verify(problem: Problem, certificate: Certificate, effort: Effort, search_effort: Effort) -> CertificateReport:
    try:
        parts = Parts(problem, certificate, effort)
    except TooLargeError:
        return _left(
            0, [f"no more than {MOST_OPERATORS} operators can be compared, here are {len(problem)}"], final=True
        )
    unknown, final, count = _verify_blocks(parts, effort)
    if unknown:
        return _left(0, [_of_blocks(unknown, final)], final)
    try:
        value = fold(parts, effort)
    except OutOfEffortError as out:
        final = isinstance(out, TooLargeError)
        return _left(0, [f"the labels of the fold, and the choices of fillers, need more {_what(final)}"], final)
    notes = [
        f"{len(certificate.cuts)} cuts by reachability",
        *(f"{count[reason]} blocks by {reason}" for reason in ("chain", "enumeration", "load") if count[reason]),
    ]
    claimed = certificate.lower_bound
    if value is None:
        return CertificateReport("verified", claimed, (*notes, f"folding gives at least {claimed}"))
    if not certificate.exhausted:
        raise RefutedError(f"folding the tables gives {value}, the lower bound claimed is {claimed}")
    return _search(parts, search_effort, value, notes)


def _verify_blocks(parts: Parts, effort: Effort) -> tuple[list[int], bool, Counter[str]]:
    """Verify the tables; return blocks that need more effort, whether more would not do, and how many of each kind."""
    count: Counter[str] = Counter()
    unknown, final = [], False
    for number, block in enumerate(parts.certificate.blocks):
        try:
            _require_block(parts, number, effort)
        except OutOfEffortError as out:
            unknown.append(number)
            final |= isinstance(out, TooLargeError)
        count[block.reason] += 1
    return unknown, final, count


def _of_blocks(unknown: list[int], final: bool) -> str:
    tables = "the tables of 1 block need" if len(unknown) == 1 else f"the tables of {len(unknown)} blocks need"
    return f"{tables} more {_what(final)} (first: block {unknown[0]})"


def _left(bound: int, notes: Iterable[str], final: bool) -> CertificateReport:
    """Return that not everything could be verified."""
    return CertificateReport("incomplete", bound, tuple(notes), final=final)


def _what(final: bool) -> str:
    return "memory than they may take" if final else "search"


def _search(parts: Parts, effort: Effort, value: int, notes: list[str]) -> CertificateReport:
    """Close what the fold leaves open, with more and more fillers run one by one."""
    claimed = parts.certificate.lower_bound
    notes = [*notes, f"folding gives {value}"]
    for first, pooled in _attempts(parts):
        try:
            end = ends_early(parts, first, pooled, labels_before(parts, first, effort), effort)
        except TooLargeError:
            return _left(
                value, [*notes, f"to search everything below {claimed} takes more memory than it may"], final=True
            )
        except OutOfEffortError:
            return _left(value, [*notes, f"to search everything below {claimed} takes more nodes"], final=False)
        if end is None:
            shown = f"a search from block {first} on gives at least {claimed}"
            return CertificateReport("verified", claimed, (*notes, shown))
        if first == 0 and not pooled and not parts.certificate.dropped:
            raise RefutedError(f"a schedule ends after {end} ticks, the lower bound claimed is {claimed}")
    return _left(value, [*notes, f"without the dropped operators {claimed} is not reached"], final=True)


def _attempts(parts: Parts) -> Iterator[tuple[int, set[int]]]:
    """Yield blocks to search from and fillers to leave pooled: ever fewer, at last none.

    The search begins as late as leaves most fillers to come, in the end at the first block. From each block on, the
    cheapest comes first: with what the certificate names, as that should do; and if that does not, with a few more.
    """
    count = sum(len(group.operators) for group in parts.groups)
    late, coming = set(), 0
    for released in sorted(parts.released, reverse=True):
        coming += sum(len(group.operators) for group in parts.released[released])
        if 2 * coming >= count:
            late.add(released)
    for first in sorted(late | {0}, reverse=True):
        fillers = {v for group in parts.groups if group.released >= first for v in group.operators}
        named = _named(parts, fillers)
        tried = [fillers - _with_next(parts, fillers, named), set[int]()]
        if not named.isdisjoint(parts.certificate.searched):
            tried.insert(0, fillers - named)
        for at, pooled in enumerate(tried):
            if pooled not in tried[:at]:
                yield first, pooled


def _named(parts: Parts, fillers: AbstractSet[int]) -> set[int]:
    """Return the fillers that the certificate names, and those that cannot be pooled."""

    def can_be_pooled(v: int) -> bool:
        options = parts.problem.options[v]
        return len(options) == 1 and options[0].place == HOST and not options[0].crossbars

    searched = frozenset(parts.certificate.searched)
    return {v for v in fillers if v in searched or not can_be_pooled(v)}


def _with_next(parts: Parts, fillers: AbstractSet[int], named: AbstractSet[int]) -> set[int]:
    """Return fillers with all that precede them, and the next ones."""
    known = 0
    for v in named:
        known |= parts.before(v)
    before = {u for u in fillers if known >> u & 1} | named
    after = {edge.target for edge in parts.problem.dependencies if edge.source in before and edge.target in fillers}
    return before | after


def _require_block(parts: Parts, number: int, effort: Effort) -> None:
    """Verify the table of a block."""
    block = parts.certificate.blocks[number]
    start, end = parts.boundary(number)
    if block.reason == "chain":
        if len(parts.members[number]) > (end is not None) or block.fronts:
            raise RefutedError(f"block {number} is not a chain")
        return
    fronts = {(front.from_option, front.to_option) for front in block.fronts}
    starts, ends = parts.choices(start), parts.choices(end)
    if (
        len(fronts) != len(block.fronts)
        or len(fronts) != len(starts) * len(ends)
        or not all(a in starts and b in ends for a, b in fronts)
    ):
        raise RefutedError(f"block {number} has not one front for each pair of options of its cuts")
    # Choices that leave too little of the budget for the fewest crossbars of all others do not count.
    most = parts.certificate.budget - sum(parts.least) + sum(parts.least[v] for v in parts.members[number])
    for front in block.fronts:
        where = f"block {number}, options {front.from_option} to {front.to_option}"
        effort.spend_steps((len(parts.members[number]) + len(parts.edges_within[number])) // 8)
        part = _part(parts, number, front)
        if block.reason == "load":
            _require_load(front, part, most, where, effort)
            continue
        found = find_uncovered(part, front.points, most, effort)
        if found is not None:
            raise RefutedError(
                f"{where}: no point covers a schedule of {found.crossbars} crossbars and {found.time} ticks, "
                f"{found.host_time} of them on the host, after {found.lead}"
            )


def _part(parts: Parts, number: int, front: Front) -> BlockProblem:
    """Return a block under fixed options of its boundary."""
    start, end = parts.boundary(number)
    members = parts.members[number]
    position = {v: index for index, v in enumerate(members)}
    options = [parts.problem.options[v] for v in members]
    if end is not None:
        options[position[end]] = (options[position[end]][front.to_option],)
    edges, release = [], []
    for edge in parts.edges_within[number]:
        if edge.source in position:
            edges.append((position[edge.source], position[edge.target], edge.transfer))
        elif start is not None:
            place = parts.problem.options[start][front.from_option].place
            release.append((position[edge.target], place, edge.transfer))
    return BlockProblem(tuple(options), tuple(edges), tuple(release), end is not None)


def _require_load(front: Front, part: BlockProblem, most: int, where: str, effort: Effort) -> None:
    """Verify a table whose points follow from sums."""
    points = sorted(front.points)
    if any(point.lead for point in points):
        raise RefutedError(f"{where}: points that follow from sums have no lead")
    loads = _least_loads(part, most, effort)
    if loads and (not points or loads[0][0] < points[0].crossbars):
        raise RefutedError(f"{where}: no point covers a choice of {loads[0][0]} crossbars")
    path = _shortest_longest_path(part, effort)
    for index, point in enumerate(points):
        below = points[index + 1].crossbars if index + 1 < len(points) else most + 1
        fitting = bisect_left(loads, (below,))  # the last of them is the least
        load = loads[fitting - 1][1] if fitting else None
        if load is not None and (load < point.host_time or max(load, path) < point.time):
            raise RefutedError(
                f"{where}: below {below} crossbars the host may work only {load} ticks and the longest path be "
                f"{path}, the point claims {point.host_time} and {point.time}"
            )


def _least_loads(part: BlockProblem, most: int, effort: Effort) -> list[tuple[int, int]]:
    """Return (crossbars, least sum of host durations): a knapsack over the operators, sorted, strictly falling."""
    loads = [(0, 0)]
    for options in part.options:
        effort.spend_entries(len(loads) * len(options))
        grown = sorted(
            (crossbars + option.crossbars, load + (option.duration if option.place == HOST else 0))
            for crossbars, load in loads
            for option in options
            if crossbars + option.crossbars <= most
        )
        loads = []
        for crossbars, load in grown:
            if not loads or load < loads[-1][1]:
                loads.append((crossbars, load))
    return loads


def _shortest_longest_path(part: BlockProblem, effort: Effort) -> int:
    """Return the longest path when each operator has, for each of its options, the best choices before it."""
    effort.spend_steps(sum(len(part.options[u]) * len(part.options[v]) for u, v, _ in part.edges) // 4)
    before: list[list[tuple[int, int]]] = [[] for _ in part.options]
    for source, target, transfer in part.edges:
        before[target].append((source, transfer))
    release: list[list[tuple[str, int]]] = [[] for _ in part.options]
    for v, place, transfer in part.release:
        release[v].append((place, transfer))
    finish: list[list[int]] = []
    for v, options in enumerate(part.options):
        found = []
        for option in options:
            start = max((transfer for place, transfer in release[v] if place != option.place), default=0)
            for u, transfer in before[v]:
                earlier = zip(finish[u], part.options[u], strict=True)
                start = max(start, min(f + (transfer if o.place != option.place else 0) for f, o in earlier))
            if part.has_end and v == len(part.options) - 1:
                start = max([start, *(min(ends) for ends in finish)])
            found.append(start + option.duration)
        finish.append(found)
    return max((min(ends) for ends in finish), default=0)
