"""The blocks of a spine with all they can do, and what remains to be done from each cut on.

For every cut and option, two staircases over the crossbars that are left bound the rest of the schedule from below:
the *path* (the blocks follow one another) and the *load* (the host must do all work). They are folded from the end,
(min,+) over crossbars.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cimplan.cost.problem import HOST
from cimplan.partition.block import Block, Ways, enumerate_ways
from cimplan.partition.spine import Group, Spine
from cimplan.partition.structure import Network

Integers = npt.NDArray[np.int64]

UNREACHABLE = np.int64(2**62)
"""Remaining time where the crossbars do not suffice."""

_STEPS = 4096
"""Steps a staircase may have; beyond, neighbours are joined to the lower of the two (still a bound)."""


@dataclass(frozen=True)
class Staircase:
    """A function of the crossbars left that falls in steps.

    Attributes
    ----------
    crossbars : numpy.ndarray of int64
        Rising; below the first the value is `UNREACHABLE`.
    ticks : numpy.ndarray of int64
        Falling.
    """

    crossbars: Integers
    ticks: Integers

    def at(self, crossbars: Integers) -> Integers:
        """Return the values for an array of crossbars left."""
        step = np.searchsorted(self.crossbars, crossbars, side="right") - 1
        return np.where(step >= 0, self.ticks[step], UNREACHABLE)

    def at_one(self, crossbars: int) -> int:
        """Return the value for a number of crossbars left."""
        rising, falling = self._steps
        step = bisect_right(rising, crossbars)
        return falling[step - 1] if step else int(UNREACHABLE)

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        return self.crossbars.tolist(), self.ticks.tolist()

    def shifted(self, crossbars: int, ticks: int) -> Staircase:
        """Return the staircase after spending crossbars and ticks."""
        return Staircase(self.crossbars + crossbars, self.ticks + ticks)


def lowest(stairs: Sequence[Staircase]) -> Staircase:
    """Return the least of some staircases everywhere."""
    crossbars = np.concatenate([s.crossbars for s in stairs])
    ticks = np.concatenate([s.ticks for s in stairs])
    order = np.lexsort((ticks, crossbars))
    crossbars, ticks = crossbars[order], ticks[order]
    before = np.empty_like(ticks)
    before[:1] = UNREACHABLE
    np.minimum.accumulate(ticks[:-1], out=before[1:])
    keep = ticks < before
    crossbars, ticks = crossbars[keep], ticks[keep]
    if len(crossbars) > _STEPS:
        crossbars, ticks = crossbars[::2], np.append(ticks[1::2], ticks[-1:] if len(ticks) % 2 else ticks[:0])
    return Staircase(crossbars, ticks)


def highest(one: Staircase, other: Staircase) -> Staircase:
    """Return the greater of two staircases everywhere."""
    crossbars = np.union1d(one.crossbars, other.crossbars)
    ticks = np.maximum(one.at(crossbars), other.at(crossbars))
    keep = np.empty(len(ticks), dtype=bool)
    keep[:1] = True
    keep[1:] = ticks[1:] < ticks[:-1]
    keep &= ticks < UNREACHABLE
    return Staircase(crossbars[keep], ticks[keep])


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


def tabulate(network: Network, spine: Spine, *, delayed: bool, memory: dict[object, Ways] | None = None) -> Tables:
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

    Raises
    ------
    TooWideError
        If a block has too many trade-offs.
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
                memory[key] = enumerate_ways(block, place, load=pending, lead=lead)
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
    path, load : tuple of dict of int to Staircase
        Entry `k` holds, per option of the start cut of block `k`, ticks from its finish to the end of the schedule:
        along the blocks, and on the host from the moment it has done all that was released before. The last entry
        is the end.
    """

    path: tuple[dict[int, Staircase], ...]
    load: tuple[dict[int, Staircase], ...]


def remaining(tables: Tables) -> Remaining:
    """Fold the blocks from the end."""
    zero = Staircase(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    count = len(tables.blocks)
    last_options = {-1: zero}
    paths: list[dict[int, Staircase]] = [last_options]
    loads: list[dict[int, Staircase]] = [last_options]
    loaded = bool(tables.spine.groups)
    for k in reversed(range(count)):
        end = tables.spine.end(k)
        path_after, load_after = paths[-1], loads[-1]
        both = {q: highest(path_after[q], load_after[q]) for q in path_after} if loaded else path_after
        path: dict[int, Staircase] = {}
        load: dict[int, Staircase] = {}
        offers = [(c, w) for c, w, _ in group_trade_offs(tables, k)]
        fewest = min((c for c, _ in offers), default=0)
        for q, ways in tables.ways[k].items():
            along = [both[to].shifted(w.crossbars + fewest, w.time) for to, some in ways.items() for w in some]
            path[q] = lowest(along) if len(along) > 1 else along[0]
            if not loaded:
                continue
            busy = []
            for to, some in ways.items():
                option = None if end is None else tables.network.problem.options[end][to]
                idle = 0 if option is None or option.place == HOST else option.duration
                after = both[to].shifted(0, idle) if tables.flushes(k) else load_after[to]
                busy += [after.shifted(w.crossbars, w.host_time) for w in some]
            least = lowest(busy)
            load[q] = lowest([least.shifted(c, w) for c, w in offers]) if offers else least
        paths.append(path)
        loads.append(load if loaded else path)
    return Remaining(tuple(reversed(paths)), tuple(reversed(loads)))


def group_trade_offs(tables: Tables, block: int) -> list[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """Return (crossbars, host work, choices) of all fillers released in a block together, none useless."""
    found: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
    for group in tables.released(block):
        offers = knapsack(tables.network, group.operators)
        if not found:
            found = offers
            continue
        joined = [(c + d, w + x, (*a, *b)) for c, w, a in found for d, x, b in offers]
        found = _undominated(joined)
    return found


def knapsack(network: Network, operators: Sequence[int]) -> list[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """Return all trade-offs (crossbars, host work, choices) of operators whose order does not matter."""
    found: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, 0, ())]
    for v in operators:
        offers = [
            (option.crossbars, option.duration if option.place == HOST else 0, ((v, o),))
            for o, option in enumerate(network.problem.options[v])
        ]
        if len(offers) == 1:
            c, w, choice = offers[0]
            found = [(d + c, x + w, a + choice) for d, x, a in found]
        else:
            found = _undominated([(d + c, x + w, a + choice) for d, x, a in found for c, w, choice in offers])
    return found


def _undominated(
    offers: list[tuple[int, int, tuple[tuple[int, int], ...]]],
) -> list[tuple[int, int, tuple[tuple[int, int], ...]]]:
    kept = []
    least: int | None = None
    for offer in sorted(offers, key=lambda offer: offer[:2]):
        if least is None or offer[1] < least:
            kept.append(offer)
            least = offer[1]
    return kept
