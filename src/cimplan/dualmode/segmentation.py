"""Where to cut a network into segments: an exact dynamic programme.

The cost of a boundary depends on the allocations on both of its sides, but only through the number of arrays in
memory mode and through data that stay in them. So instead of pairs of segments the programme keeps, for every cut j,
the best cost for each number m of arrays in memory mode and each answer to whether data stay:

    V[j, s, m] = min over i and variants of  curve(i, j, variant)[m] + T_back(variant) + U[i, enters, m]
    U[i, s, m] = min over m' of              V[i, s, m'] + switch(m', m)

where curve(…)[m] is the least T + T_write of an exact allocation with m arrays in memory mode. This is the recurrence
best[i, j] = intra + min_h best[h, i] + inter over segments, minimised over all allocations instead of one for each
segment. Arrays start in compute mode.

Runs of equal pieces and repeated blocks of operators are filled in once their costs repeat; see `repeats`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal, NamedTuple

import numpy as np

from cimplan.dualmode.curve import Cycles
from cimplan.dualmode.rates import NEVER
from cimplan.dualmode.repeats import CostTable, Repeats, Signatures
from cimplan.dualmode.variants import SegmentModel, Variant
from cimplan.dualmode.windows import PartRange, PieceNetwork, Window
from cimplan.errors import InternalError
from cimplan.limits import watch

Cuts = Literal["free", "greedy", "per_operator"]


@dataclass(frozen=True, slots=True)
class SearchRules:
    """What a method may do.

    Attributes
    ----------
    memory : bool
        Whether arrays may be in memory mode.
    duplicate : bool
        Whether operators may take more arrays than they need.
    cuts : {"free", "greedy", "per_operator"}
        Choose the cuts, or fill each segment with as many pieces as fit, of any operators or of one.
    short_form : bool
        Keep only the best entry for each cut. Not exact.
    segment_pieces : int or None
        Largest number of pieces in one segment.
    """

    memory: bool = True
    duplicate: bool = True
    cuts: Cuts = "free"
    short_form: bool = False
    segment_pieces: int | None = None


class Choice(NamedTuple):
    """One segment of the answer: a window, how it runs, and the arrays in memory mode."""

    first: int
    end: int
    window: Window
    variant: Variant
    memory_mode: int


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search.

    Attributes
    ----------
    cycles, lower_bound : int
        What the best segmentation costs, and what no plan under the same rules without limits can beat.
    distinct : int
        Segments that were solved.
    """

    cycles: int
    lower_bound: int
    distinct: int


class _Way:
    """A variant of a window, with its curve once it is needed."""

    __slots__ = ("curve", "floor", "variant")

    def __init__(self, variant: Variant, floor: int) -> None:
        self.variant = variant
        self.floor = floor + variant.after_cycles
        self.curve: Cycles | None = None


class Search:
    """The dynamic programme over one way to split a network.

    Parameters
    ----------
    network : PieceNetwork
        The pieces.
    model : SegmentModel
        The cost model.
    rules : SearchRules
        What the method may do.
    deadline : float, optional
        Value of `time.monotonic` after which segments hold one piece.
    """

    def __init__(
        self, network: PieceNetwork, model: SegmentModel, rules: SearchRules, deadline: float | None = None
    ) -> None:
        self._network = network
        self._model = model
        self._rules = rules
        self._deadline = deadline
        chip = model.rates.chip
        self._to_compute = chip.switch_to_compute_cycles
        self._to_memory = chip.switch_to_memory_cycles
        self._limit = chip.arrays
        self._modes = chip.arrays + 1 if rules.memory else 1
        self._steps = np.arange(self._modes, dtype=np.int64)
        # What switching can cost at most: an entry that is worse by more than this is never worth its mode.
        self._slack = 0 if self._modes == 1 else chip.arrays * max(self._to_compute, self._to_memory)
        self._signatures = Signatures(network)
        self._options: dict[Hashable, list[_Way]] = {}
        self._curves: dict[Hashable, Cycles] = {}
        self._operator_of = network.operator_of
        self._arrays = network.arrays_before
        self._table = CostTable(model.states, self._modes)
        self._starts = self._fixed_starts()

    def run(self) -> Found:
        """Return what the best segmentation costs; `choices` tells which one it is."""
        pieces = self._network.pieces
        table = self._table
        start = table.empty_row()
        start[0, 0] = 0
        table.add(start, self._switched(start))
        bounds: _Bounds | None = None
        repeats = Repeats(self._network, self._limit) if self._rules.cuts == "free" else None
        starts = self._starts
        late = False
        end = 0
        while end < pieces:
            end += 1
            watch()
            if self._deadline is not None and not late and monotonic() > self._deadline:
                late, repeats = True, None
            begin, fitting = self._first(end, starts, late)
            row = self._row(table, begin, end)
            if self._rules.short_form:
                _keep_best(row)
            table.add(row, self._switched(row))
            if fitting < begin or bounds is not None:
                repeats = None
                bounds = bounds or _Bounds(table)
                bounds.rows[end] = self._bound_row(bounds, begin, fitting, end)
            if repeats is not None:
                end = repeats.fill(table, end)
        best = int(table.row(pieces)[0].min())
        if best >= NEVER:
            raise InternalError("no segmentation was found although every piece fits the chip")
        lower = best if bounds is None else min(best, int(bounds.rows[pieces].min()))
        return Found(best, lower, len(self._curves))

    def _row(self, table: CostTable, begin: int, end: int) -> Cycles:
        """Return the costs at a cut. Segments that cannot be worth it are left out."""
        row = table.empty_row()
        least = [NEVER] * len(row)
        floor = 0
        for first in range(end - 1, begin - 1, -1):
            ready = table.row(first)[1]
            before = int(ready.min())
            # A longer segment is no cheaper than a part of it.
            if before + floor > max(least) + self._slack:
                continue
            floor = NEVER
            for way in self._ways(first, end):
                variant = way.variant
                floor = min(floor, way.floor - variant.after_cycles)
                if before + way.floor > least[variant.leaves] + self._slack:
                    continue
                costs = self._curve(way) + (ready[variant.enters] + variant.after_cycles)
                np.minimum(row[variant.leaves], costs, out=row[variant.leaves])
                least[variant.leaves] = min(least[variant.leaves], int(costs.min()))
        np.minimum(row, NEVER, out=row)
        return row

    def _first(self, end: int, starts: Sequence[int] | None, late: bool) -> tuple[int, int]:
        """Return the first piece of the longest segment tried that ends at `end`, and of the longest that fits."""
        if starts is not None:
            return starts[end], starts[end]
        fitting = bisect_left(self._arrays, self._arrays[end] - self._limit, 0, end)
        allowed = 1 if late else self._rules.segment_pieces
        return (fitting if allowed is None else max(fitting, end - allowed)), fitting

    def _fixed_starts(self) -> list[int] | None:
        """Return for each cut where its segment starts, if the rules leave no choice; cuts never used start nowhere."""
        if self._rules.cuts == "free":
            return None
        pieces = self._network.pieces
        starts = [pieces] * (pieces + 1)
        first = 0
        for end in range(1, pieces + 1):
            full = end == pieces or self._arrays[end + 1] - self._arrays[first] > self._limit
            if self._rules.segment_pieces is not None:
                full = full or end - first >= self._rules.segment_pieces
            if self._rules.cuts == "per_operator" and not full:
                full = self._operator_of[end] != self._operator_of[first]
            if full:
                starts[end] = first
                first = end
        return starts

    def _switched(self, rows: Cycles) -> Cycles:
        """Return the least cost for each number of arrays in memory mode after switching."""
        if self._modes == 1:
            return rows
        rising = self._steps * self._to_memory
        falling = self._steps * self._to_compute
        up = np.minimum.accumulate(rows - rising, axis=-1) + rising
        down = np.minimum.accumulate((rows + falling)[..., ::-1], axis=-1)[..., ::-1] - falling
        found: Cycles = np.minimum(np.minimum(up, down), NEVER)
        return found

    def _window(self, first: int, end: int) -> Window:
        network = self._network
        ranges = []
        sizes = []
        for operator in range(self._operator_of[first], self._operator_of[end - 1] + 1):
            offset = network.offsets[operator]
            split = network.splits[operator]
            part = PartRange(operator, max(first - offset, 0), min(end - offset, split.pieces))
            ranges.append(part)
            sizes.append(split.size(part.first, part.end))
        return Window(tuple(ranges), tuple(sizes))

    def _ways(self, first: int, end: int) -> list[_Way]:
        """Return the variants of a window; windows alike share them."""
        key = self._signatures.of(first, end, self._operator_of[first], self._operator_of[end - 1])
        found = self._options.get(key)
        if found is None:
            variants = self._model.variants(self._network, self._window(first, end), memory=self._rules.memory)
            duplicate = self._rules.duplicate
            found = [_Way(variant, self._model.floor(variant.segment, duplicate=duplicate)) for variant in variants]
            self._options[key] = found
        return found

    def _curve(self, way: _Way) -> Cycles:
        """Return the curve of a way; segments alike are solved once."""
        if way.curve is None:
            segment = way.variant.segment
            if segment not in self._curves:
                self._curves[segment] = self._model.curve(segment, modes=self._modes, duplicate=self._rules.duplicate)
            way.curve = self._curves[segment]
        return way.curve

    def _bound_row(self, bounds: _Bounds, begin: int, fitting: int, end: int) -> Cycles:
        """Return lower bounds at a cut, in which segments that were not tried cost what their ends do."""
        row = np.full(self._modes, NEVER, dtype=np.int64)
        for first in range(end - 1, begin - 1, -1):
            ready = self._switched(bounds.row(first))
            for way in self._ways(first, end):
                np.minimum(row, self._curve(way) + (ready + way.variant.after_cycles), out=row)
        if fitting < begin:
            relaxed = self._model.relaxed(self._window(begin, end), modes=self._modes)
            before = self._switched(np.min([bounds.row(first) for first in range(fitting, begin)], axis=0))
            np.minimum(row, relaxed + before, out=row)
        found: Cycles = np.minimum(row, NEVER)
        return found

    def choices(self) -> tuple[Choice, ...]:
        """Return the segments of the best segmentation, after `run`."""
        table = self._table
        end = self._network.pieces
        last = table.row(end)[0]
        state, mode = (int(index) for index in np.argwhere(last == last.min())[0])
        choices: list[Choice] = []
        lengths: list[int] = []
        while end > 0:
            watch()
            choice = self._step_back(table, end, state, mode, lengths)
            choices.append(choice)
            # Long networks repeat themselves, so the lengths of the segments just found are tried first.
            length = choice.end - choice.first
            lengths = [length, *(other for other in lengths if other != length)][:3]
            end, state = choice.first, choice.variant.enters
            row, ready = table.row(end)
            mode = self._mode_before(row[state], mode, int(ready[state, mode]))
        return tuple(reversed(choices))

    def _step_back(self, table: CostTable, end: int, state: int, mode: int, lengths: Sequence[int]) -> Choice:
        """Return a segment that explains an entry."""
        cost = int(table.row(end)[0][state, mode])
        begin, _ = self._first(end, self._starts, late=False)
        likely = [end - length for length in lengths if end - length >= begin]
        for first in (*likely, *range(begin, end)):
            ready = table.row(first)[1]
            for way in self._ways(first, end):
                variant = way.variant
                before = int(ready[variant.enters, mode])
                if variant.leaves != state or before + way.floor > cost:
                    continue
                if int(self._curve(way)[mode]) + before + variant.after_cycles == cost:
                    return Choice(first, end, self._window(first, end), variant, mode)
        raise InternalError("the table of the segmentation does not explain its own entries")

    def _mode_before(self, row: Cycles, mode: int, target: int) -> int:
        if int(row[mode]) == target:
            return mode
        apart = self._steps - mode
        switching = np.where(apart > 0, apart * self._to_compute, -apart * self._to_memory)
        fits = np.flatnonzero(row + switching == target)
        # Of equal ones the nearest: it switches least.
        return int(fits[np.argmin(np.abs(fits - mode))])


class _Bounds:
    """Rows of lower bounds; up to where limits first told they are those of the table."""

    def __init__(self, table: CostTable) -> None:
        self._table = table
        self.rows: dict[int, Cycles] = {}

    def row(self, number: int) -> Cycles:
        """Return the bounds at a cut, whether or not data stay over it."""
        found = self.rows.get(number)
        if found is None:
            found = self.rows[number] = self._table.row(number)[0].min(axis=0)
        return found


def _keep_best(rows: Cycles) -> None:
    best = np.unravel_index(int(rows.argmin()), rows.shape)
    value = rows[best]
    rows[:] = NEVER
    rows[best] = value
