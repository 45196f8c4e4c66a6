"""What one block of a network can do: all trade-offs of crossbars, time, host work and lead, by dynamic programming.

The states of the programme are the order ideals of the block: sets of operators that are done. A label of a state
describes a partial schedule by all that the rest of the block can notice: crossbars used, when the host is free,
host work done, when the host was first used, and when the inputs of each operator that waits are complete at each
place where it may run. Of two labels of a state, one that is not larger in any number makes the other useless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from cimplan.cost.problem import HOST, Option
from cimplan.partition.clock import watch
from cimplan.partition.dominance import Labelled, undominated
from cimplan.partition.structure import Network, members

LABEL_LIMIT = 20_000
"""Labels after which a block counts as too hard to enumerate."""

Trail: TypeAlias = tuple[Any, int, int]
"""A linked list of decisions, the last first: (earlier trail or None, position in the block, option)."""

Key: TypeAlias = tuple[str, bool]
"""Where an option runs, and whether it occupies the host there."""

_CROSSBARS, _FREE, _WORK, _LEAD, _READY = range(5)
_ANYWHERE = Option("", 0)


class Way(NamedTuple):
    """One trade-off of a block, with the decisions that lead to it.

    The numbers are those of `cimplan.plan.certificate.Point`.
    """

    crossbars: int
    time: int
    host_time: int
    lead: int
    trail: Trail | None


Ways: TypeAlias = dict[int, list[Way]]
"""For each option of the block's end (-1 without an end) the trade-offs, by crossbars."""


class TooWideError(Exception):
    """A block has more labels than can be enumerated; caught inside the exact method."""


@dataclass(frozen=True)
class Block:
    """Operators after one cut, up to and including the next, seen from a place of the start cut.

    Attributes
    ----------
    network : Network
        The network.
    start, end : int or None
        The cuts around the block.
    interior : int
        The set of operators between them.
    """

    network: Network
    start: int | None
    interior: int
    end: int | None

    def operators(self) -> list[int]:
        """Return the block's operators in topological order, its end included."""
        return [*members(self.interior), *([] if self.end is None else [self.end])]

    def shape(self) -> tuple[object, ...]:
        """Return all numbers of the block: blocks of the same shape can do the same."""
        names = self.operators()
        position = {v: i for i, v in enumerate(names)}
        edges = tuple(
            (position.get(u, -1), i, delay)
            for i, v in enumerate(names)
            for u, delay in self.network.before[v]
            if u in position or u == self.start
        )
        return tuple(self.network.problem.options[v] for v in names), edges, self.end is None

    def from_places(self) -> tuple[str, ...]:
        """Return the places at which the start cut may be."""
        if self.start is None:
            return ("",)
        return tuple(dict.fromkeys(option.place for option in self.network.problem.options[self.start]))

    def chain_ways(self, place: str) -> Ways:
        """Return the only way per option of a block that has no interior."""
        if self.end is None:
            return {-1: [Way(0, 0, 0, 0, None)]}
        transfer = next((delay for u, delay in self.network.before[self.end] if u == self.start), 0)
        ways: Ways = {}
        for o, option in enumerate(self.network.problem.options[self.end]):
            wait = transfer if self.start is not None and option.place != place else 0
            work = option.duration if option.place == HOST else 0
            time = wait + option.duration
            ways[o] = [Way(option.crossbars, time, work, time - work, (None, 0, o))]
        return ways


def enumerate_ways(
    block: Block,
    place: str,
    *,
    load: bool,
    lead: bool,
    limit: int = LABEL_LIMIT,
    deadline: float | None = None,
) -> Ways:
    """Return all trade-offs of a block.

    Parameters
    ----------
    block : Block
        The block.
    place : str
        Where its start cut runs; anything if it has none.
    load, lead : bool
        Whether host work and lead matter; if not, they are reported as 0, which leaves fewer trade-offs.
    limit : int
        Labels allowed.
    deadline : float, optional
        `time.perf_counter` at which to give up.

    Raises
    ------
    TooWideError, OutOfTimeError
        If there are more labels than that, or it takes too long.
    """
    if not block.interior:
        return block.chain_ways(place)
    return _Programme(block, place, load, lead, limit).run(deadline)


class _Programme:
    """The dynamic programme of one block; operators are numbered by their position in it."""

    def __init__(self, block: Block, place: str, load: bool, lead: bool, limit: int) -> None:
        network = block.network
        self.load, self.lead, self.limit = load, lead, limit
        self.names = block.operators()
        position = {v: i for i, v in enumerate(self.names)}
        self.options = [network.problem.options[v] for v in self.names]
        self.after = [{position[w]: delay for w, delay in network.after[v] if w in position} for v in self.names]
        self.from_start: dict[int, int] = {}
        if block.start is not None:
            self.from_start = {position[w]: d for w, d in network.after[block.start] if w in position}
        self.has_end = block.end is not None
        if not self.has_end:  # a free end, so that there is one operator after which all is done
            self.after.append({})
            self.options.append((_ANYWHERE,))
        last = len(self.after) - 1
        for successors in self.after[:last]:
            if not successors:  # nothing follows it, or only by way of fillers
                successors[last] = 0
        count = len(self.options)
        self.needs = [0] * count
        for i, successors in enumerate(self.after):
            for j in successors:
                self.needs[j] |= 1 << i
        self.keys: list[list[Key]] = [list(dict.fromkeys(map(occupancy, options))) for options in self.options]
        self.place = place

    def run(self, deadline: float | None) -> Ways:
        """Go through the order ideals by size; return the labels of the whole block."""
        count = len(self.options)
        whole = (1 << count) - 1
        first = tuple((self.from_start.get(i, 0) if at != self.place else 0) for i, (at, _) in self._waiting(0))
        layer: dict[tuple[int, bool], list[Labelled]] = {(0, False): [((0, 0, 0, 0, *first), None)]}
        ways: Ways = {}
        seen = 0
        for _ in range(count):
            grown: dict[tuple[int, bool], list[Labelled]] = {}
            for (done, used), labels in layer.items():
                seen += len(labels)
                if seen > self.limit:
                    raise TooWideError
                watch(deadline)
                for i in range(count):
                    if done >> i & 1 or self.needs[i] & ~done:
                        continue
                    for o, option in enumerate(self.options[i]):
                        then = done | 1 << i
                        fresh = self._append(labels, done, used, i, o, option)
                        if then == whole:
                            self._finish(ways, fresh, o, used or occupancy(option)[1])
                        else:
                            grown.setdefault((then, used or occupancy(option)[1]), []).extend(fresh)
            layer = {state: undominated(labels) for state, labels in grown.items()}
        return ways

    def _waiting(self, done: int) -> list[tuple[int, Key]]:
        """Return the operators that wait for more, each with every kind of place: the layout of a label."""
        return [
            (i, key)
            for i in range(len(self.options))
            if not done >> i & 1 and (self.needs[i] & done or i in self.from_start)
            for key in self.keys[i]
        ]

    def _append(self, labels: list[Labelled], done: int, used: bool, i: int, o: int, option: Option) -> list[Labelled]:
        """Extend all labels of a state by one operator with one option."""
        key = place, occupies = occupancy(option)
        old = {slot: number for number, slot in enumerate(self._waiting(done), _READY)}
        ready_at = old.get((i, key))
        successors = self.after[i]
        moves = []
        for slot in self._waiting(done | 1 << i):
            j, (at, needs_host) = slot
            delay = None
            if j in successors:
                delay = successors[j] if at != place and at and place else 0
            moves.append((old.get(slot), delay, needs_host))
        real, last = i < len(self.names), done | 1 << i == (1 << len(self.options)) - 1
        duration, crossbars = option.duration, option.crossbars
        fresh = []
        for numbers, trail in labels:
            ready = numbers[ready_at] if ready_at is not None else 0
            free = numbers[_FREE]
            work, lead = numbers[_WORK], numbers[_LEAD]
            if occupies:
                begin = ready if ready > free else free
                end = free = begin + duration
                if self.load:
                    work += duration
                if self.lead and not used:
                    lead = begin
            else:
                end = ready + duration
            grown = [numbers[_CROSSBARS] + crossbars, free, work, lead]
            for source, delay, needs_host in moves:
                value = 0 if source is None else numbers[source]
                if delay is not None and end + delay > value:
                    value = end + delay
                if needs_host and value < free:
                    value = free
                grown.append(value)
            if last:  # the block's time takes the place of the free host
                grown[_FREE] = end if end > free else free
            fresh.append((tuple(grown), (trail, i, o) if real else trail))
        return fresh

    def _finish(self, ways: Ways, labels: list[Labelled], o: int, used: bool) -> None:
        """Keep what complete labels can do."""
        complete: list[Labelled] = []
        for (crossbars, time, work, lead, *_), trail in labels:
            complete.append(((crossbars, time, work, lead if used or not self.lead else time), trail))
        end = o if self.has_end else -1
        known: list[Labelled] = [(way[:4], way.trail) for way in ways.get(end, [])]
        ways[end] = [Way(c, t, work, lead, trail) for (c, t, work, lead), trail in undominated(known + complete)]


def occupancy(option: Option) -> Key:
    """Return where an option runs, and whether it occupies the host there."""
    return option.place, option.place == HOST and option.duration > 0
