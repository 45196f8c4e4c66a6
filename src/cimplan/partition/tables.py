"""The blocks of a spine with all they can do, and what remains to be done from each cut on.

For every cut and option, two staircases over the crossbars that are left bound the rest of the schedule from below:
the *path* (the blocks follow one another) and the *load* (the host must do all work). They are folded from the end,
(min,+) over crossbars.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cimplan.cost.problem import HOST
from cimplan.partition.block import LABEL_LIMIT, Block, Ways, enumerate_ways
from cimplan.partition.dominance import add_step
from cimplan.partition.spine import Group, Spine
from cimplan.partition.structure import Network
from cimplan.partition.waits import Waits, find_waits

Integers = npt.NDArray[np.int64]

UNREACHABLE = np.int64(2**60)
"""Remaining time where the crossbars do not suffice."""

_ENTRIES = 2**25
"""Numbers that the tables of what remains may hold; beyond, crossbars are counted in larger units (still a bound)."""


_LISTED = 1024
"""Entries up to which a table is kept as a list too."""


@dataclass(frozen=True, eq=False)
class Floor:
    """The least remaining time as a function of the crossbars left, which never rises.

    Attributes
    ----------
    unit : int
        Crossbars are counted in units of so many, rounded down: what remains seems to need less than it does.
    first : int
        The units left that the first entry stands for; with fewer, nothing is asked.
    ticks : numpy.ndarray of int64
        One entry per number of units; more units than entries do not help further.
    """

    unit: int
    first: int
    ticks: Integers

    def at(self, crossbars: int) -> int:
        """Return the value for a number of crossbars left."""
        if crossbars < 0:
            return int(UNREACHABLE)
        entry = min(max(crossbars // self.unit - self.first, 0), len(self.ticks) - 1)
        return self._listed[entry] if self._listed is not None else int(self.ticks[entry])

    @cached_property
    def _listed(self) -> list[int] | None:
        """The entries as a list, which is quicker to read, if there are not too many."""
        return self.ticks.tolist() if len(self.ticks) <= _LISTED else None

    def whole(self, budget: int) -> Integers:
        """Return the values for 0 … `budget` crossbars left."""
        if budget not in self._wholes:
            step = (np.arange(budget + 1) // self.unit - self.first).clip(0, len(self.ticks) - 1)
            self._wholes[budget] = self.ticks[step]
        return self._wholes[budget]

    @cached_property
    def _wholes(self) -> dict[int, Integers]:
        return {}

    def spent(self, first: int, count: int, crossbars: int, ticks: int) -> Integers:
        """Return `count` values from `first` units on, for crossbars and ticks spent before."""
        units = np.arange(first, first + count) - crossbars // self.unit
        values: Integers = self.ticks[(units - self.first).clip(0, len(self.ticks) - 1)] + ticks
        values[units < 0] = UNREACHABLE
        return values


@dataclass(frozen=True)
class Tables:
    """A spine whose blocks are enumerated.

    Attributes
    ----------
    network : Network
        The network.
    spine : Spine
        Its cuts, blocks and fillers.
    blocks : tuple of Block
        One more than cuts.
    ways : tuple of dict
        Per block, from the option of its start cut (-1 without one) to its trade-offs.
    delayed : bool
        Whether leads are part of the trade-offs.
    """

    network: Network
    spine: Spine
    blocks: tuple[Block, ...]
    ways: tuple[dict[int, Ways], ...]
    delayed: bool

    def released(self, block: int) -> list[Group]:
        """Return the filler groups that become available in a block."""
        return [group for group in self.spine.groups if group.release == block]

    def flushes(self, block: int) -> bool:
        """Return whether all fillers released so far, and some since the last flush, are due in a block."""
        return block in self.flushed

    @cached_property
    def waits(self) -> Waits:
        """How long the spine can keep the host waiting."""
        return find_waits(self.network, self.spine)

    @cached_property
    def flushed(self) -> frozenset[int]:
        """The blocks before whose end all fillers released so far must be done."""
        return _flushes(self.spine)


def _flushes(spine: Spine) -> frozenset[int]:
    found = set()
    pending: list[Group] = []
    for k in range(len(spine.interiors)):
        pending += [group for group in spine.groups if group.release == k]
        if pending and all(group.due <= k for group in pending):
            found.add(k)
            pending = []
    return frozenset(found)


def tabulate(
    network: Network,
    spine: Spine,
    *,
    delayed: bool,
    memory: dict[object, Ways] | None = None,
    limit: int = LABEL_LIMIT,
    deadline: float | None = None,
) -> Tables:
    """Enumerate the blocks of a spine.

    Parameters
    ----------
    network : Network
        The network.
    spine : Spine
        Its cuts; no block may be oversized.
    delayed : bool
        Whether the leads of blocks are wanted.
    memory : dict, optional
        What blocks of known shapes can do; extended.
    limit : int
        Labels that a block may take.
    deadline : float, optional
        `time.perf_counter` at which to give up.

    Raises
    ------
    TooWideError, OutOfTimeError
        If a block has too many trade-offs, or that takes too long.
    """
    memory = {} if memory is None else memory
    blocks, tables = [], []
    for k, interior in enumerate(spine.interiors):
        start = spine.start(k)
        block = Block(network, start, interior, spine.end(k))
        pending = any(group.release <= k <= group.due for group in spine.groups)
        lead = pending and delayed
        shape = block.shape() if interior else None
        at: dict[str, Ways] = {}
        for place in block.from_places():
            if shape is None:
                at[place] = block.chain_ways(place)
                continue
            key = (shape, place, pending, lead)
            if key not in memory:
                memory[key] = enumerate_ways(block, place, load=pending, lead=lead, limit=limit, deadline=deadline)
            at[place] = memory[key]
        blocks.append(block)
        if start is None:
            tables.append({-1: at[""]})
        else:
            tables.append({o: at[option.place] for o, option in enumerate(network.problem.options[start])})
    return Tables(network, spine, tuple(blocks), tuple(tables), delayed)


@dataclass(frozen=True)
class Remaining:
    """Bounds on the rest of the schedule, per cut.

    Attributes
    ----------
    path, load : tuple of dict of int to Floor
        Entry `k` holds, per option of the start cut of block `k`, ticks from its finish to the end of the schedule:
        along the blocks, and on the host from the moment it has done all that was released before. The last entry
        is the end.
    """

    path: tuple[dict[int, Floor], ...]
    load: tuple[dict[int, Floor], ...]


def remaining(tables: Tables, budget: int, *, every: bool = False) -> Remaining:
    """Fold the blocks from the end, for one budget, or for every budget up to it."""
    count = len(tables.blocks)
    offers = [group_trade_offs(tables, k) for k in range(count)]
    windows, unit = _windows(tables, offers, budget, every)
    end = Floor(unit, 0, np.zeros(1, dtype=np.int64))
    paths: list[dict[int, Floor]] = [{-1: end}]
    loads = paths.copy()
    loaded = bool(tables.spine.groups)
    for k in reversed(range(count)):
        first, entries = windows[k]
        cut = tables.spine.end(k)
        path_after, load_after = paths[-1], loads[-1]
        both = {q: _greater(path_after[q], load_after[q]) for q in path_after} if loaded else path_after
        fewest = min(offer.crossbars for offer in offers[k])
        delay = min(offer.delay for offer in offers[k])
        path: dict[int, Floor] = {}
        load: dict[int, Floor] = {}
        for q, ways in tables.ways[k].items():
            least = np.full(entries, UNREACHABLE)
            for to, some in ways.items():
                for way in some:
                    rest = both[to].spent(first, entries, way.crossbars + fewest, way.time + delay)
                    np.minimum(least, rest, out=least)
            path[q] = Floor(unit, first, least)
            if not loaded:
                continue
            busy = np.full(entries, UNREACHABLE)
            for to, some in ways.items():
                option = None if cut is None else tables.network.problem.options[cut][to]
                idle = 0 if option is None or option.place == HOST or not tables.flushes(k) else option.duration
                after = both[to] if tables.flushes(k) else load_after[to]
                for way in some:
                    for crossbars, work, _, _ in offers[k]:
                        ticks = way.host_time + idle + work
                        rest = after.spent(first, entries, way.crossbars + crossbars, ticks)
                        np.minimum(busy, rest, out=busy)
            load[q] = Floor(unit, first, busy)
        paths.append(path)
        loads.append(load if loaded else path)
    return Remaining(tuple(reversed(paths)), tuple(reversed(loads)))


def _windows(
    tables: Tables, offers: list[list[FillerChoice]], budget: int, every: bool
) -> tuple[list[tuple[int, int]], int]:
    """Return, per block, the first number of units left and how many numbers matter; and the unit.

    No more crossbars are left at a block than the budget, and no more matter than the rest can use; no fewer are
    left than if all before it use what they can, unless every smaller budget matters too.
    """
    use = [
        max(way.crossbars for ways in tables.ways[k].values() for some in ways.values() for way in some)
        + max(offer.crossbars for offer in offers[k])
        for k in range(len(tables.blocks))
    ]
    unit = 1
    while True:
        windows = []
        before, after = 0, sum(use)
        entries = 0
        for k, most in enumerate(use):
            first = 0 if every else min(max(0, budget - before), after) // unit
            last = min(budget, after) // unit
            windows.append((first, last - first + 1))
            entries += (last - first + 1) * len(tables.ways[k])
            before, after = before + most, after - most
        if entries <= _ENTRIES:
            return windows, unit
        unit *= 2


def _greater(one: Floor, other: Floor) -> Floor:
    if one is other:
        return one
    return Floor(one.unit, one.first, np.maximum(one.ticks, other.ticks))


class FillerChoice(NamedTuple):
    """Options of some fillers: what they take, and by how much they delay the spine because no wait is long enough."""

    crossbars: int
    work: int
    delay: int
    choices: tuple[tuple[int, int], ...]


NO_FILLERS = FillerChoice(0, 0, 0, ())


def group_trade_offs(tables: Tables, block: int) -> list[FillerChoice]:
    """Return the choices of all fillers released in a block together, none useless; one choice if there are none."""
    found = [NO_FILLERS]
    for group in tables.released(block):
        offers = knapsack(tables, group)
        if found == [NO_FILLERS]:
            found = offers
        else:
            found = _undominated([_both(one, other) for one in found for other in offers])
    return found


def knapsack(tables: Tables, group: Group) -> list[FillerChoice]:
    """Return all trade-offs of a filler group, the order of the operators not being looked at.

    Where leads are kept, delays are not: leads count from when a cut really ends.
    """
    wait = UNREACHABLE if tables.delayed else tables.waits.longest[group.release]
    found = [NO_FILLERS]
    for v in group.operators:
        offers = []
        for o, option in enumerate(tables.network.problem.options[v]):
            work = option.duration if option.place == HOST else 0
            offers.append(FillerChoice(option.crossbars, work, max(0, work - int(wait)), ((v, o),)))
        joined = [_both(one, other) for one in found for other in offers]
        found = joined if len(offers) == 1 else _undominated(joined)
    return found


def _both(one: FillerChoice, other: FillerChoice) -> FillerChoice:
    return FillerChoice(
        one.crossbars + other.crossbars,
        one.work + other.work,
        one.delay + other.delay,
        one.choices + other.choices,
    )


def _undominated(offers: list[FillerChoice]) -> list[FillerChoice]:
    works: list[int] = []
    delays: list[int] = []
    ranked = sorted(offers, key=lambda offer: offer[:3])
    return [offer for offer in ranked if add_step(works, delays, offer.work, offer.delay)]
