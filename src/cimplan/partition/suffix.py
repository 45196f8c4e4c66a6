"""What the blocks after a cut take at least: all trade-offs of crossbars, path and load, folded from the end.

Let the last cut have finished at `t`, and let `e` be the time at which a host without a pause could have done all
work released so far. A way through the blocks that follow then ends at max(t + path, e + load): the steps of the fold
that `cimplan.plan.certificate` defines, without delayed work, written as one map. `Remaining` holds the least path
and the least load; here both belong to the same way, so that crossbars cannot be spent twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cimplan.cost.problem import HOST, Option
from cimplan.partition.block import Way
from cimplan.partition.dominance import add_step
from cimplan.partition.tables import Integers, Tables

MOST = 2048
"""Trade-offs that are kept; beyond, two neighbours become one that is in nothing larger than either."""

TradeOff = tuple[int, int, int]
"""Crossbars, path, load."""


class Stairs(NamedTuple):
    """Ways on by rising path and falling load, and the differences of the two."""

    paths: list[int]
    loads: list[int]
    differences: list[int]

    def least(self, start: int, busy: int) -> int | None:
        """Return the least of max(start + path, busy + load); None without a way."""
        at = bisect_left(self.differences, busy - start)
        after = start + self.paths[at] if at < len(self.paths) else None
        if at == 0:
            return after
        before = busy + self.loads[at - 1]
        return before if after is None or before < after else after


@dataclass(frozen=True)
class TradeOffs:
    """Ways on, of which none is in nothing smaller than another one.

    Attributes
    ----------
    each : tuple of (int, int, int)
        Crossbars, path in ticks, load in ticks; by crossbars.
    """

    each: tuple[TradeOff, ...]

    @staticmethod
    def of(found: Iterable[TradeOff], most: int = MOST) -> TradeOffs:
        """Keep what is not useless, or where that is very much, fewer ways that take no more."""
        kept = undominated(found)
        while len(kept) > most:
            kept = undominated(
                [
                    (one[0], min(one[1], two[1]), min(one[2], two[2]))
                    for one, two in list(pairwise([*kept, kept[-1]]))[::2]
                ]
            )
        return TradeOffs(tuple(kept))

    @cached_property
    def columns(self) -> tuple[Integers, Integers, Integers]:
        """Crossbars, path and load as arrays."""
        table = np.array(self.each, dtype=np.int64).reshape(-1, 3)
        return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()

    @cached_property
    def _crossbars(self) -> list[int]:
        return [crossbars for crossbars, _, _ in self.each]

    @cached_property
    def _stairs(self) -> dict[int, Stairs]:
        return {0: Stairs([], [], [])}

    def within(self, left: int) -> Stairs:
        """Return the ways on that take no more than some crossbars."""
        count = bisect_right(self._crossbars, left)
        known = self._stairs.get(count)
        if known is None:
            # Trade-offs are sorted by crossbars: what is known for a little less is a good beginning.
            begin = max(number for number in self._stairs if number < count)
            paths, loads = list(self._stairs[begin].paths), list(self._stairs[begin].loads)
            for _, path, load in self.each[begin:count]:
                add_step(paths, loads, path, load)
            known = Stairs(paths, loads, [path - load for path, load in zip(paths, loads, strict=True)])
            self._stairs[count] = known
        return known

    def shortest(self, left: int) -> int:
        """Return the least path of those that take no more than some crossbars; no ticks without any."""
        return next(iter(self.within(left).paths), 0)

    def with_choice(self, options: Sequence[Option], wait: int, most: int = MOST) -> TradeOffs:
        """Return what is left if one more operator must choose; if on the host, it adds to the load.

        What it runs there for longer than the longest wait for anything else also adds to the path.
        """
        each = [(o.crossbars, o.duration if o.place == HOST else 0) for o in options]
        grown = (
            (crossbars + more, path + max(0, ticks - wait), load + ticks)
            for more, ticks in each
            for crossbars, path, load in self.each
        )
        return TradeOffs.of(grown, most)


NOTHING = TradeOffs(((0, 0, 0),))


def undominated(found: Iterable[TradeOff]) -> list[TradeOff]:
    """Sweep over rising crossbars with a staircase of (path, load)."""
    paths: list[int] = []
    loads: list[int] = []
    return [trade_off for trade_off in sorted(found) if add_step(paths, loads, trade_off[1], trade_off[2])]


class Suffix:
    """The trade-offs after each cut from some block on.

    Parameters
    ----------
    tables : Tables
        The spine; no fillers but those released before the first block are counted.
    first : int
        The first block that matters.
    below : int
        Ticks before which any schedule of interest ends, less the least that comes before the first block and the
        least work of fillers that is left there: trade-offs that take longer are dropped.
    """

    def __init__(self, tables: Tables, first: int, path_below: int, load_below: int) -> None:
        self.tables = tables
        # Before an earlier cut that waits for the pool, fillers that come later need not be done: there, only the
        # host's work as a whole counts.
        latest = max((group.release for group in tables.spine.groups), default=-1)
        self.flushed = frozenset(k for k in tables.flushed if k >= latest)
        count = len(tables.blocks)
        least = [self._least(k) for k in range(count)]
        time, work = [0] * (count + 1), [0] * (count + 1)
        for k in range(first, count):
            time[k + 1] = time[k] + least[k][0]
            work[k + 1] = work[k] + least[k][1]
        after: dict[int, TradeOffs] = {-1: NOTHING}
        self.after = [after] * (count + 1)
        for k in reversed(range(first, count)):
            found: dict[int, list[TradeOff]] = {}
            for q, ways in tables.ways[k].items():
                some = found.setdefault(q, [])
                for to, each in ways.items():
                    rest = self.after[k + 1].get(to)
                    if rest is not None:
                        some += self._extended(k, to, each, rest, path_below - time[k], load_below - work[k])
            self.after[k] = {q: TradeOffs.of(some) for q, some in found.items() if some}

    def _least(self, block: int) -> tuple[int, int]:
        """Return the least time and the least host work of a block."""
        each = [way for ways in self.tables.ways[block].values() for some in ways.values() for way in some]
        return min(way.time for way in each), min(way.host_time for way in each)

    def _extended(
        self, block: int, to: int, each: Sequence[Way], rest: TradeOffs, path_below: int, load_below: int
    ) -> Iterable[TradeOff]:
        duration, on_host = self._end(block, to)
        flush = block in self.flushed
        for way in each:
            for crossbars, path, load in rest.each:
                both = path if path > load else load
                then = way.time + both
                busy = way.host_time - on_host + duration + both if flush else way.host_time + load
                if then < path_below and busy < load_below:
                    yield way.crossbars + crossbars, then, busy

    def _end(self, block: int, to: int) -> tuple[int, int]:
        """Return the duration of an option of a block's end, and how much of it is on the host."""
        end = self.tables.spine.end(block)
        if end is None:
            return 0, 0
        option = self.tables.network.problem.options[end][to]
        return option.duration, option.duration if option.place == HOST else 0

    def from_end(self, block: int, to: int) -> TradeOffs:
        """Return what is left from the start of a block's end on: `t` is when that may start, without the pool."""
        rest = self.after[block + 1].get(to)
        if rest is None:
            return TradeOffs(())
        end = self.tables.spine.end(block)
        own = 0 if end is None else self.tables.network.problem.options[end][to].crossbars
        duration, on_host = self._end(block, to)
        found = []
        for crossbars, path, load in rest.each:
            both = max(path, load)
            busy = duration + both if block in self.flushed else on_host + load
            found.append((own + crossbars, duration + both, busy))
        return TradeOffs.of(found)
