"""Fold the tables of a certificate into a lower bound, as `cimplan.plan.certificate` describes it.

Labels that cannot end below the claimed bound are dropped on the way: the question is only whether any can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate import Point, Step
from cimplan.plan.certificate_ahead import host_ahead, time_ahead
from cimplan.plan.certificate_parts import Group, Parts, host_time
from cimplan.plan.certificate_staircase import Staircase
from cimplan.plan.effort import MOST_AT_ONCE, STEPS_PER_NODE, Effort, TooLargeError


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """What is known after some blocks, apart from the option of the last cut.

    Attributes
    ----------
    crossbars : int
        Taken so far.
    time : int
        Finish of the last cut (t); in a fold also what long fillers delay that have been released by then.
    host_free : int
        Earliest time at which a host that never pauses has also done all filler work released so far (e).
    delayed : tuple of (int, int)
        (ready, work) of filler work that cannot start before its ready time, sorted.
    """

    crossbars: int
    time: int
    host_free: int
    delayed: tuple[tuple[int, int], ...] = ()


def fold(parts: Parts, effort: Effort) -> int | None:
    """Return the least value of a label below the claimed lower bound; None if there is none, so that it is proven.

    Raises
    ------
    OutOfEffortError
        If there are too many labels, or choices of the filler groups.
    """
    counted = not any(group.delayed for group in parts.groups)
    labels = _labels_before(parts, len(parts.certificate.blocks), effort, count_delays=counted)
    return min((label.host_free for some in labels.values() for label in some), default=None)


def refuted_steps(parts: Parts, effort: Effort) -> dict[Step, int]:
    """Return the steps that the fold alone does not prove, and the least value within each one's budget.

    Raises
    ------
    OutOfEffortError
        If there are too many labels, or choices of the filler groups.
    """
    counted = not any(group.delayed for group in parts.groups)
    labels = _labels_before(parts, len(parts.certificate.blocks), effort, count_delays=counted)
    ends = sorted((label.crossbars, label.host_free) for some in labels.values() for label in some)
    found: dict[Step, int] = {}
    least, at = None, 0
    for step in parts.targets.steps:
        while at < len(ends) and ends[at][0] <= step.budget:
            least = ends[at][1] if least is None else min(least, ends[at][1])
            at += 1
        if least is not None and least < step.bound:
            found[step] = least
    return found


def labels_before(parts: Parts, stop: int, effort: Effort) -> dict[int, list[Label]]:
    """Return, per option of the cut before block `stop`, the labels that may end below the claimed lower bound.

    The fillers that this block releases have not been released yet. The times are those of the cut itself: what fillers
    delay that have been released is not in them, as they may still run later.

    Raises
    ------
    OutOfEffortError
        If there are too many labels, or choices of the filler groups.
    """
    return _labels_before(parts, stop, effort, count_delays=False)


def _labels_before(parts: Parts, stop: int, effort: Effort, *, count_delays: bool) -> dict[int, list[Label]]:
    """Return the labels before a block; with `count_delays`, long fillers delay the spine when they are released."""
    dropped = sum(parts.least[v] for v in parts.certificate.dropped)
    hopeless = _Prospects(parts, dropped, effort).hopeless if len(parts.targets.steps) == 1 else _floors(parts, effort)
    first = Label(dropped, 0, 0)
    labels: dict[int, list[Label]] = {} if hopeless(0, -1, first) else {-1: [first]}
    for number, table in enumerate(parts.tables[:stop]):
        for group in parts.released.get(number, ()):
            labels = {
                option: undominated(
                    _release(_choices(parts, group, option, effort, count_delays), some, effort), effort
                )
                for option, some in labels.items()
            }
        flushed = number in parts.flushed
        end = parts.boundary(number)[1]
        extended: dict[int, list[Label]] = {}
        count = 0
        for from_option, to_option, points in table:
            end_option = None if end is None else parts.problem.options[end][to_option]
            fresh = extended.setdefault(to_option, [])
            for label in labels.get(from_option, ()):
                effort.spend_steps(len(points) * (1 + len(label.delayed)))
                if count > MOST_AT_ONCE:
                    raise TooLargeError
                for point in points:
                    new = _flushed(label, point, end_option) if flushed else _filled(label, point)
                    if not hopeless(number + 1, to_option, new):
                        fresh.append(new)
                        count += 1 + len(new.delayed)
        labels = {option: undominated(some, effort) for option, some in extended.items()}
    return labels


class _Prospects:
    """What may still come of a label, for one bound."""

    def __init__(self, parts: Parts, dropped: int, effort: Effort) -> None:
        self.claimed, self.budget = parts.certificate.lower_bound, parts.certificate.budget
        self.times = time_ahead(parts, self.budget - dropped, effort)
        self.hosts = host_ahead(parts, self.budget - dropped, effort)

    def hopeless(self, number: int, option: int, label: Label) -> bool:
        """Tell whether the label ends at the claimed bound or later, or has no way to the end."""
        left, claimed = self.budget - label.crossbars, self.claimed
        if left < 0 or option not in self.times[0].least[number]:
            return True
        return any(label.time + ahead.from_block(number, option, left) >= claimed for ahead in self.times) or any(
            label.host_free + ahead.from_block(number, option, left) >= claimed for ahead in self.hosts
        )


def _floors(parts: Parts, effort: Effort) -> Callable[[int, int, Label], bool]:
    """Return the same question for the bounds of several budgets."""
    from cimplan.plan.certificate_floors import Floors  # numpy is only needed there

    floors = Floors(parts, effort)

    def hopeless(number: int, option: int, label: Label) -> bool:
        """Tell whether the label refutes none of the bounds, whatever follows."""
        return not floors.room(number, option, label.crossbars, label.time, label.host_free)

    return hopeless


class _Choice(NamedTuple):
    """What the options of a filler group add to a label.

    Attributes
    ----------
    crossbars, work : int
        Crossbars and ticks of the host.
    delay : int
        Ticks by which the spine is delayed.
    lead, late : int
        When the last part of the work may start, from the release on, and the work of that part.
    """

    crossbars: int
    work: int
    delay: int = 0
    lead: int = 0
    late: int = 0


def _release(choices: Sequence[_Choice], labels: list[Label], effort: Effort) -> Iterable[Label]:
    """Yield the labels after every choice of options of a filler group."""
    if len(choices) > 1:
        effort.spend_entries(len(choices) * sum(1 + len(label.delayed) for label in labels))
    for label in labels:
        for crossbars, work, delay, lead, late in choices:
            delayed = label.delayed
            if late:
                delayed = tuple(sorted((*delayed, (label.time + lead, late))))
            yield Label(label.crossbars + crossbars, label.time + delay, label.host_free + work, delayed)


def _choices(parts: Parts, group: Group, cut_option: int, effort: Effort, count_delays: bool) -> Sequence[_Choice]:
    """Return the choices of a group's options, released by a cut with an option."""
    if not group.delayed:
        return _plain_choices(parts, group, effort, count_delays)
    cut = parts.boundary(group.released)[0]
    place = "" if cut is None else parts.problem.options[cut][cut_option].place
    return _delayed_choices(parts, group, cut, place, effort)


def _plain_choices(parts: Parts, group: Group, effort: Effort, count_delays: bool) -> list[_Choice]:
    """Return the undominated choices of a group that is not marked delayed."""
    choices = [_Choice(0, 0)]
    for v in group.operators:
        offers = [
            (option.crossbars, host_time(option), parts.waits.delay(group.released, option) if count_delays else 0)
            for option in parts.problem.options[v]
        ]
        if len(offers) > 1:
            effort.spend_entries(len(choices) * len(offers))
        grown = sorted(
            _Choice(choice.crossbars + crossbars, choice.work + work, choice.delay + delay)
            for choice in choices
            for crossbars, work, delay in offers
            if choice.crossbars + crossbars <= parts.certificate.budget
        )
        staircase = Staircase()
        choices = [choice for choice in grown if staircase.take(choice.work, choice.delay)]
    return choices


def _delayed_choices(parts: Parts, group: Group, cut: int | None, place: str, effort: Effort) -> list[_Choice]:
    """Return every choice of the options of a group that is marked delayed."""
    members = set(group.operators)
    before: dict[int, list[tuple[int, int]]] = {v: [] for v in group.operators}
    edges = [edge for edge in parts.problem.dependencies if edge.source in members and edge.target in members]
    for edge in edges:
        before[edge.target].append((edge.source, edge.transfer))
    choices = set()
    for chosen in product(*(parts.problem.options[v] for v in group.operators)):
        effort.spend(1 + (len(members) + len(edges)) // STEPS_PER_NODE)
        option = dict(zip(group.operators, chosen, strict=True))
        lead: dict[int, int] = {}
        for v in group.operators:
            delay = parts.transfer(cut, v)
            lead[v] = delay if delay is not None and option[v].place != place else 0
            for u, transfer in before[v]:
                outside = 0 if option[u].place == HOST else option[u].duration
                moved = transfer if option[u].place != option[v].place else 0
                lead[v] = max(lead[v], lead[u] + outside + moved)
        work: dict[int, int] = {}
        for v in group.operators:
            if option[v].place == HOST and lead[v] > 0:
                work[lead[v]] = work.get(lead[v], 0) + option[v].duration
        best = (0, 0, 0)
        late = 0
        for least in sorted(work, reverse=True):  # of equals the smallest lead counts: the last
            late += work[least]
            if least * late >= max(best[0], 1):
                best = (least * late, least, late)
        crossbars = sum(some.crossbars for some in chosen)
        choices.add(_Choice(crossbars, sum(map(host_time, chosen)), 0, best[1], best[2]))
    return sorted(choices)


def _filled(label: Label, point: Point) -> Label:
    """Extend a label by a block in which pending work fills the host's idle time."""
    time = label.time + point.time
    begin = label.time + point.lead
    free = max(time, label.host_free + point.host_time)
    for ready, late in _late(label):
        free = max(free, min(time, ready) + late, min(begin, ready) + point.host_time + late)
    delayed = tuple(pair for pair in label.delayed if pair[0] > time)
    return Label(label.crossbars + point.crossbars, time, free, delayed)


def _flushed(label: Label, point: Point, end: Option | None) -> Label:
    """Extend a label by a block before whose end all pending work is done."""
    duration = 0 if end is None else end.duration
    before_end = point.host_time - (0 if end is None else host_time(end))
    begin = label.time + point.lead
    start = max(label.time + point.time - duration, label.host_free + before_end)
    for ready, late in _late(label):
        start = max(start, ready + late, min(begin, ready) + before_end + late)
    return Label(label.crossbars + point.crossbars, start + duration, start + duration)


def _late(label: Label) -> list[tuple[int, int]]:
    """Return (ready, sum of the work of all pairs that are not ready earlier) for each pair."""
    found: dict[int, int] = {}
    late = 0
    for ready, work in reversed(label.delayed):
        late += work
        found[ready] = late
    return list(found.items())


def undominated(labels: Iterable[Label], effort: Effort) -> list[Label]:
    """Return the labels that no other one matches or beats in everything.

    Raises
    ------
    OutOfEffortError
        If there are too many with delayed work to compare them with one another.
    """
    listed = sorted(set(labels))
    plain = _undominated_plain([label for label in listed if not label.delayed])
    kept: list[Label] = []
    for label in listed:
        if not label.delayed:
            continue
        effort.spend_steps((len(plain) + len(kept)) // 4)
        if not any(_dominates(other, label) for other in (*plain, *kept)):
            kept.append(label)
    return plain + kept


def _dominates(small: Label, large: Label) -> bool:
    """Tell whether one label is not larger in anything; pairs are matched from the latest on."""
    return (
        small.crossbars <= large.crossbars
        and small.time <= large.time
        and small.host_free <= large.host_free
        and len(small.delayed) <= len(large.delayed)
        and all(
            a[0] <= b[0] and a[1] <= b[1]
            for a, b in zip(reversed(small.delayed), reversed(large.delayed), strict=False)
        )
    )


def _undominated_plain(labels: list[Label]) -> list[Label]:
    """Return the undominated of sorted labels without delayed work, in one sweep.

    Sorted by crossbars, a label only has to be compared with the staircase of those before it.
    """
    staircase = Staircase()
    return [label for label in labels if staircase.take(label.time, label.host_free)]
