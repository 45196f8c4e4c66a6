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

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal, NamedTuple

import numpy as np

from cimplan.dualmode.curve import Cycles
from cimplan.dualmode.rates import NEVER
from cimplan.dualmode.repeats import Repeats, Signatures
from cimplan.dualmode.variants import SegmentModel, Variant
from cimplan.dualmode.windows import PartRange, PieceNetwork, Window
from cimplan.errors import InternalError

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
    choices : tuple of Choice
        Segments in order.
    cycles, lower_bound : int
        Their cost, and what no plan under the same rules without limits can beat.
    distinct : int
        Segments that were solved.
    """

    choices: tuple[Choice, ...]
    cycles: int
    lower_bound: int
    distinct: int


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
        self._signatures = Signatures(network)
        self._options: dict[Hashable, list[tuple[Cycles, Variant]]] = {}
        self._curves: dict[Hashable, Cycles] = {}
        self._operator_of: list[int] = []
        self._arrays: list[int] = [0]
        for index, split in enumerate(network.splits):
            self._operator_of += [index] * split.pieces
            for piece in range(split.pieces):
                self._arrays.append(self._arrays[-1] + split.size(piece, piece + 1).arrays)

    def run(self, *, trace: bool = True) -> Found:
        """Return the best segmentation; without `trace` only what it costs."""
        pieces = self._network.pieces
        table = np.full((pieces + 1, self._model.states, self._modes), NEVER, dtype=np.int64)
        ready = np.full_like(table, NEVER)
        table[0, 0, 0] = 0
        ready[0] = self._switched(table[0])
        bound = ready_bound = None
        runs = Repeats(self._network, self._limit) if self._rules.cuts == "free" else None
        starts = self._fixed_starts()
        late = False
        end = 0
        while end < pieces:
            end += 1
            if self._deadline is not None and not late and monotonic() > self._deadline:
                late, runs = True, None
            begin, first_fitting = self._first(end, starts, late)
            for first in range(end - 1, begin - 1, -1):
                for curve, variant in self._ways(first, end):
                    row = curve + (ready[first, variant.enters] + variant.after_cycles)
                    np.minimum(table[end, variant.leaves], row, out=table[end, variant.leaves])
            np.minimum(table[end], NEVER, out=table[end])
            if self._rules.short_form:
                _keep_best(table[end])
            ready[end] = self._switched(table[end])
            if first_fitting < begin and bound is None:
                bound, ready_bound = table.copy(), ready.copy()
                bound[:, 0], ready_bound[:, 0] = bound.min(axis=1), ready_bound.min(axis=1)
            if bound is not None and ready_bound is not None:
                self._bound_step(bound, ready_bound, end, begin, first_fitting)
                runs = None
            if runs is not None:
                end = runs.fill(table, ready, end)
        best = int(table[pieces].min())
        if best >= NEVER:
            raise InternalError("no segmentation was found although every piece fits the chip")
        lower = best if bound is None else min(best, int(bound[pieces].min()))
        choices = self._trace(table, ready, starts, best) if trace else ()
        return Found(choices, best, lower, len(self._curves))

    def _first(self, end: int, starts: Sequence[int] | None, late: bool) -> tuple[int, int]:
        """Return the first piece of the longest segment tried that ends at `end`, and of the longest that fits."""
        if starts is not None:
            return starts[end], starts[end]
        fitting = end - 1
        while fitting > 0 and self._arrays[end] - self._arrays[fitting - 1] <= self._limit:
            fitting -= 1
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
        up = np.minimum.accumulate(rows - rising, axis=1) + rising
        down = np.minimum.accumulate((rows + falling)[:, ::-1], axis=1)[:, ::-1] - falling
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

    def _ways(self, first: int, end: int) -> list[tuple[Cycles, Variant]]:
        """Return the curve of each variant of a window; windows alike share them."""
        key = self._signatures.of(first, end, self._operator_of[first], self._operator_of[end - 1])
        found = self._options.get(key)
        if found is None:
            window = self._window(first, end)
            found = []
            for variant in self._model.variants(self._network, window, memory=self._rules.memory):
                curve = self._curves.get(variant.segment)
                if curve is None:
                    curve = self._model.curve(variant.segment, modes=self._modes, duplicate=self._rules.duplicate)
                    self._curves[variant.segment] = curve
                found.append((curve, variant))
            self._options[key] = found
        return found

    def _bound_step(self, bound: Cycles, ready: Cycles, end: int, begin: int, first_fitting: int) -> None:
        """Continue the table of lower bounds, in which windows that were not tried cost what their ends do."""
        row = np.full(self._modes, NEVER, dtype=np.int64)
        for first in range(end - 1, begin - 1, -1):
            for curve, variant in self._ways(first, end):
                np.minimum(row, curve + ready[first, 0] + variant.after_cycles, out=row)
        if first_fitting < begin:
            relaxed = self._model.relaxed(self._window(begin, end), modes=self._modes)
            before = ready[first_fitting:begin, 0].min(axis=0)
            np.minimum(row, relaxed + before, out=row)
        bound[end] = NEVER
        bound[end, 0] = np.minimum(row, NEVER)
        ready[end] = self._switched(bound[end])

    def _trace(self, table: Cycles, ready: Cycles, starts: Sequence[int] | None, best: int) -> tuple[Choice, ...]:
        """Return the segments that the best entry stands for."""
        end = self._network.pieces
        state, mode = (int(index) for index in np.argwhere(table[end] == best)[0])
        choices: list[Choice] = []
        while end > 0:
            cost = int(table[end, state, mode])
            choice = self._step_back(ready, end, state, mode, cost, starts)
            choices.append(choice)
            end, state = choice.first, choice.variant.enters
            target = int(ready[end, state, mode])
            mode = self._mode_before(table[end, state], mode, target)
        return tuple(reversed(choices))

    def _step_back(
        self, ready: Cycles, end: int, state: int, mode: int, cost: int, starts: Sequence[int] | None
    ) -> Choice:
        begin, _ = self._first(end, starts, late=False)
        for first in range(begin, end):
            for curve, variant in self._ways(first, end):
                if variant.leaves != state:
                    continue
                if int(curve[mode]) + int(ready[first, variant.enters, mode]) + variant.after_cycles == cost:
                    return Choice(first, end, self._window(first, end), variant, mode)
        raise InternalError("the table of the segmentation does not explain its own entries")

    def _mode_before(self, row: Cycles, mode: int, target: int) -> int:
        if self._modes == 1:
            return 0
        apart = self._steps - mode
        switching = np.where(apart > 0, apart * self._to_compute, -apart * self._to_memory)
        fits = np.flatnonzero(row + switching == target)
        # Of equal ones the nearest: it switches least.
        return int(fits[np.argmin(np.abs(fits - mode))])


def _keep_best(rows: Cycles) -> None:
    best = np.unravel_index(int(rows.argmin()), rows.shape)
    value = rows[best]
    rows[:] = NEVER
    rows[best] = value
