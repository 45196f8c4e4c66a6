"""What the blocks after a cut take at least: the tables of a certificate folded from the end.

A *trade-off* (crossbars, path, load) after a cut says of one way to go on, with these crossbars: if the cut finishes at
t, and e is the earliest time at which a host that never pauses can have done all work of the blocks and the fillers
released so far, then the schedule ends no earlier than max(t + path, e + load). So one choice is charged for its
crossbars, its path and its host work together.

That follows from the fold backwards. Let (c, T, H) be a point of a block whose end takes p, g of it on the host, and
(c', path', load') a trade-off after that end. The block leaves t' = t + T and e' = e + H, and whatever follows the end
follows t'; so the schedule ends no earlier than max(t' + max(path', load'), e' + load'). If the block is flushed, its
end waits for all work so far: it finishes at the later of t + T and e + H - g + p, and max(path', load') comes after.
Fillers are charged to the cut that releases them: they take crossbars and host work, and a path only if they occupy the
host for longer than it can be kept waiting when they run (`certificate_waits`): by so much they delay the spine, or are
themselves left to do when it is done.

The lead of blocks and of delayed work is left out, which makes the bound no higher. `certificate_ahead` bounds at a
price per crossbar what this bounds choice by choice, because the search of `certificate_search` has to close a
difference of a thousandth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cimplan.cost.problem import Option
from cimplan.plan.certificate import Point
from cimplan.plan.certificate_parts import Parts, host_time
from cimplan.plan.certificate_staircase import Staircase
from cimplan.plan.certificate_targets import Targets
from cimplan.plan.effort import MOST_AT_ONCE, Effort, TooLargeError

_MOST = 4096
"""Trade-offs after one cut; where there are more, neighbours become one that is no larger than both."""


class TradeOff(NamedTuple):
    """What one way to go on takes.

    Attributes
    ----------
    crossbars : int
        Crossbars.
    path : int
        Ticks from the finish of the cut to the end.
    load : int
        Ticks to the end from when the host can have done all work before.
    """

    crossbars: int
    path: int
    load: int


@dataclass(frozen=True, slots=True)
class TradeOffs:
    """Ways to go on of which no other one takes less: sorted."""

    each: tuple[TradeOff, ...]

    @staticmethod
    def least(some: Iterable[TradeOff], most: int = _MOST) -> TradeOffs:
        """Return the trade-offs that no other one matches or beats in everything; if very many, fewer and smaller."""
        kept = _undominated(some)
        while len(kept) > most:
            pairs = [kept[at : at + 2] for at in range(0, len(kept), 2)]
            kept = _undominated(
                TradeOff(pair[0].crossbars, min(one.path for one in pair), min(one.load for one in pair))
                for pair in pairs
            )
        return TradeOffs(tuple(kept))

    def with_choice(self, options: Sequence[Option], wait: int) -> TradeOffs:
        """Return what is left if an operator must still choose, too.

        What it occupies the host for longer than a wait adds to the path as well.
        """
        offers = [(option.crossbars, max(0, host_time(option) - wait), host_time(option)) for option in options]
        return TradeOffs.least(
            TradeOff(crossbars + more, path + delay, load + work)
            for more, delay, work in offers
            for crossbars, path, load in self.each
        )

    def allow(self, crossbars_left: int, path_below: int, load_below: int) -> bool:
        """Tell whether some way within the crossbars left takes less on the path and of the host."""
        each = self.each
        fitting = bisect_left(each, (crossbars_left + 1,))
        for at in range(fitting - 1, -1, -1):  # more crossbars mostly take less else
            _, path, load = each[at]
            if path < path_below and load < load_below:
                return True
        return False

    def allow_some(self, targets: Targets, crossbars: int, time: int, host_free: int) -> bool:
        """Tell whether some way refutes the bound for the crossbars that it takes beside those taken already."""
        for more, path, load in self.each:
            below = targets.below(crossbars + more)
            if not below:
                return False
            if time + path < below and host_free + load < below:
                return True
        return False

    def end(self, crossbars_left: int, time: int, host_free: int) -> int:
        """Return the least end within the crossbars left, from `TradeOff`'s two moments on."""
        fitting = self.each[: bisect_left(self.each, (crossbars_left + 1,))]
        return min((max(time + path, host_free + load) for _, path, load in fitting), default=NEVER)


NEVER = 2**62
"""The end of what cannot be done within the crossbars left."""

NOTHING = TradeOffs((TradeOff(0, 0, 0),))
NO_WAY = TradeOffs(())


def _undominated(some: Iterable[TradeOff]) -> list[TradeOff]:
    staircase = Staircase()
    return [one for one in sorted(some) if staircase.take(one.path, one.load)]


@dataclass(frozen=True, slots=True)
class Soonest:
    """The least that may be behind a cut: crossbars, its finish, and when the host can have done all work so far."""

    crossbars: int
    time: int
    host_free: int

    def or_sooner(self, other: Soonest | None) -> Soonest:
        """Return the lesser of each number."""
        if other is None:
            return self
        return Soonest(
            min(self.crossbars, other.crossbars),
            min(self.time, other.time),
            min(self.host_free, other.host_free),
        )


class Suffix:
    """The trade-offs after each cut from some block on.

    Parameters
    ----------
    parts : Parts
        The certificate; its tables have been verified.
    first : int
        The block from which on they are wanted.
    soonest : mapping of int to Soonest
        Per option of the cut before it, the least that may be behind it. Ways to go on that cannot end before the
        claimed bound even then are left out.
    effort : Effort
        For the trade-offs.

    Raises
    ------
    OutOfEffortError
        If there are too many.
    """

    def __init__(self, parts: Parts, first: int, soonest: Mapping[int, Soonest], effort: Effort) -> None:
        self.effort = effort
        self.parts = parts
        count = len(parts.members)
        self._tables = parts.tables
        self._released: dict[int, list[int]] = {number: [] for number in range(count)}
        for group in parts.groups:
            self._released[group.released] += group.operators
        behind = [soonest]
        for number in range(first, count):
            behind.append(self._behind(number, behind[-1]))
        self._after: dict[int, dict[int, TradeOffs]] = {count: {-1: NOTHING}}
        kept = 0
        for number in reversed(range(first, count)):
            self._after[number] = self._before(number, behind[number - first])
            kept += sum(len(after.each) for after in self._after[number].values())
            if kept > MOST_AT_ONCE:
                raise TooLargeError

    def after(self, number: int, option: int) -> TradeOffs:
        """Return the trade-offs after the cut before a block, with an option of that cut."""
        return self._after[number].get(option, NO_WAY)

    def from_end(self, number: int, option: int) -> TradeOffs:
        """Return the trade-offs from the *start* of a block's end, with an option, when all else is done there."""
        end = self._end(number, option)
        if end is None:
            return self.after(number + 1, option)
        alone = Point(end.crossbars, end.duration, host_time(end), 0)
        way = _Way.through(alone, end, number in self.parts.flushed)
        return TradeOffs.least(way.then(after) for after in self.after(number + 1, option).each)

    def _end(self, number: int, option: int) -> Option | None:
        end = self.parts.boundary(number)[1]
        return None if end is None else self.parts.problem.options[end][option]

    def _behind(self, number: int, soonest: Mapping[int, Soonest]) -> dict[int, Soonest]:
        """Return the least that may be behind the end of a block."""
        crossbars, work, _ = self._least_released(number)
        found: dict[int, Soonest] = {}
        for a, b, points in self._tables[number]:
            if a not in soonest:
                continue
            before, end = soonest[a], self._end(number, b)
            for point in points:
                way = _Way.through(point, end, number in self.parts.flushed)
                time = before.time + way.path
                free = max(time, before.host_free + work + way.load)
                new = Soonest(before.crossbars + crossbars + way.crossbars, free if way.flushed else time, free)
                found[b] = new.or_sooner(found.get(b))
        return found

    def _before(self, number: int, soonest: Mapping[int, Soonest]) -> dict[int, TradeOffs]:
        """Return the trade-offs after the cut before a block."""
        targets, budget = self.parts.targets, self.parts.certificate.budget
        one_claim = self.parts.certificate.lower_bound if len(targets.steps) == 1 else None
        crossbars, work, delay = self._least_released(number)
        found: dict[int, list[TradeOff]] = {}
        count = 0
        for a, b, points in self._tables[number]:
            if a not in soonest:
                continue
            behind, end, then = soonest[a], self._end(number, b), self.after(number + 1, b)
            most = budget - behind.crossbars - crossbars
            least, path_before, load_before = (
                behind.crossbars + crossbars, behind.time + delay, behind.host_free + work
            )  # fmt: skip
            self.effort.spend_steps(len(points) * len(then.each))
            for point in points:
                way = _Way.through(point, end, number in self.parts.flushed)
                for after in then.each:
                    new = way.then(after)
                    claimed = targets.below(least + new.crossbars) if one_claim is None else one_claim
                    if new.crossbars <= most and path_before + new.path < claimed and load_before + new.load < claimed:
                        found.setdefault(a, []).append(new)
                        count += 1
                if count > MOST_AT_ONCE:
                    raise TooLargeError
        return {a: self._with_released(number, TradeOffs.least(some)) for a, some in found.items()}

    def _least_released(self, number: int) -> tuple[int, int, int]:
        """Return the least crossbars, host work and delay of the fillers that are released after a cut."""
        crossbars = work = delay = 0
        for v in self._released[number]:
            least = min(map(host_time, self.parts.problem.options[v]))
            crossbars += self.parts.least[v]
            work += least
            delay += max(0, least - self._wait(v))
        return crossbars, work, delay

    def _with_released(self, number: int, trade_offs: TradeOffs) -> TradeOffs:
        for v in self._released[number]:
            options = self.parts.problem.options[v]
            self.effort.spend_entries(len(trade_offs.each) * len(options))
            trade_offs = trade_offs.with_choice(options, self._wait(v))
        return trade_offs

    def _wait(self, v: int) -> int:
        """Return how long the host can be kept waiting once a filler can run: when, its own ancestors say."""
        return self.parts.waits.longest[self.parts.release(v)]


class _Way(NamedTuple):
    """What a block takes before what follows its end, for one of its points.

    Attributes
    ----------
    crossbars : int
        Crossbars.
    path : int
        Ticks from the finish of the cut before to that of the end.
    load : int
        Ticks of the host; if the block is flushed, from when all work before is done to the finish of the end.
    flushed : bool
        Whether the end waits for the host.
    """

    crossbars: int
    path: int
    load: int
    flushed: bool

    @staticmethod
    def through(point: Point, end: Option | None, flushed: bool) -> _Way:
        """Return what a point takes."""
        load = point.host_time
        if flushed and end is not None:
            load += end.duration - host_time(end)
        return _Way(point.crossbars, point.time, load, flushed)

    def then(self, after: TradeOff) -> TradeOff:
        """Return what it takes together with what follows."""
        longer = max(after.path, after.load)
        return TradeOff(
            self.crossbars + after.crossbars,
            self.path + longer,
            self.load + (longer if self.flushed else after.load),
        )
