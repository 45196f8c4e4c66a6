"""Operators as matrices on arrays, and the pieces that oversized ones are split into.

A matrix of K inputs and N outputs takes ⌈K / rows⌉ · ⌈N / weight columns⌉ arrays. Operators that need more arrays than
a piece may take are split: by groups if a group's matrix fits, else by columns of arrays if one column fits, else by
rows, whose partial sums are then added up. Consecutive pieces of one operator that meet in a segment act as one part,
so a smaller piece never forbids what a larger one allows, as far as the cuts coincide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cimplan.dualmode.network import bytes_of
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Block, MatrixOperator, Readings

LADDER: Final = tuple(1 << power for power in range(30))
"""Sizes of pieces worth trying, in arrays. They do not depend on the chip: a chip with more arrays is offered all
the sizes that a smaller one is, so more arrays never make a plan worse."""


class PartSize(NamedTuple):
    """The numbers of a part that its cycles follow from; see `cimplan.plan.dual_mode.Part`."""

    arrays: int
    operations: int
    input_bytes: int
    output_bytes: int
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """An operator's matrices in units of arrays.

    Attributes
    ----------
    row_tiles, column_tiles : int
        Arrays that one group's matrix takes along its inputs and its outputs.
    packed : int
        Groups that share one array; 1 unless a group's matrix is much smaller than an array.
    """

    op: MatrixOperator
    rows: int
    weight_columns: int
    row_tiles: int
    column_tiles: int
    packed: int

    @classmethod
    def of(cls, op: MatrixOperator, chip: DualModeChip, readings: Readings) -> Shape:
        """Return the shape of an operator on a chip."""
        columns = chip.weight_columns
        packed = 1
        if readings.group_packing == "block_diagonal":
            packed = max(1, min(chip.rows // op.inputs, columns // op.outputs))
        return cls(
            op, chip.rows, columns, -(-op.inputs // chip.rows), -(-op.outputs // columns), min(packed, op.groups)
        )

    @property
    def arrays(self) -> int:
        """Arrays that hold the operator's weights once."""
        if self.packed > 1:
            return -(-self.op.groups // self.packed)
        return self.op.groups * self.row_tiles * self.column_tiles


class SplitOperator:
    """An operator cut into pieces of at most `size` arrays.

    Pieces are numbered from 0; a part is a range of pieces. Pieces go through the groups, within a group through its
    columns, and within a column through its rows.
    """

    def __init__(self, shape: Shape, size: int, chip: DualModeChip) -> None:
        self.shape = shape
        self._activation_bits = chip.activation_bits
        self._weight_bits = chip.weight_bits
        op = shape.op
        tiles = shape.row_tiles * shape.column_tiles
        # How many groups, outputs and inputs one piece covers.
        self._group_step = 1
        self._output_step = op.outputs
        self._input_step = op.inputs
        if shape.packed > 1:
            self._group_step = shape.packed * size
        elif tiles <= size:
            self._group_step = size // tiles
        elif shape.row_tiles <= size:
            self._output_step = size // shape.row_tiles * shape.weight_columns
        else:
            self._output_step = shape.weight_columns
            self._input_step = size * shape.rows
        self._row_pieces = -(-op.inputs // self._input_step)
        self._column_pieces = -(-op.outputs // self._output_step)
        self._per_group = self._row_pieces * self._column_pieces
        self.pieces = -(-op.groups // self._group_step) * self._per_group
        # After `period` pieces they are alike again, except for the last `tail` ones.
        one_group = self._per_group == self.pieces
        self.period = self._row_pieces if one_group else self._per_group
        self.tail = self._row_pieces
        # Whether every piece reads the whole moving operand.
        self.reads_whole = op.groups == 1 and self._row_pieces == 1
        self._sizes: dict[tuple[int, int, bool], PartSize] = {}

    @cached_property
    def piece_arrays(self) -> NDArray[np.int64]:
        """Arrays of each piece."""
        pattern = [self.size(piece, piece + 1).arrays for piece in range(min(self.period, self.pieces))]
        arrays = np.resize(np.array(pattern, dtype=np.int64), self.pieces)
        for piece in range(max(0, self.pieces - self.tail), self.pieces):
            arrays[piece] = self.size(piece, piece + 1).arrays
        return arrays

    def kind_of(self, first: int, end: int) -> tuple[int, int, bool]:
        """Return a key that is equal for ranges of pieces that are alike."""
        last = end == self.pieces
        if self._per_group == 1:
            return (0, end - first, last)
        if self._per_group == self.pieces:
            return (first % self._row_pieces, end - first, last or end > self.pieces - self._row_pieces)
        return (first % self._per_group, end - first, last)

    def size(self, first: int, end: int) -> PartSize:
        """Return the numbers of the part made of pieces `first` to `end` (exclusive)."""
        key = self.kind_of(first, end)
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = self._measure(self.blocks(first, end))
        return found

    def blocks(self, first: int, end: int) -> tuple[Block, ...]:
        """Return the weights of pieces `first` to `end` (exclusive) as disjoint boxes, as few as come easily."""
        op = self.shape.op
        if self._per_group == 1:
            start = first * self._group_step
            stop = min(end * self._group_step, op.groups)
            return (Block((start, stop - start), (0, op.inputs), (0, op.outputs)),)
        blocks: list[Block] = []
        piece = first
        while piece < end:
            group, within = divmod(piece, self._per_group)
            column, row = divmod(within, self._row_pieces)
            left = end - piece
            if within == 0 and left >= self._per_group:
                taken = left // self._per_group
                blocks.append(Block((group, taken), (0, op.inputs), (0, op.outputs)))
                piece += taken * self._per_group
                continue
            if row == 0 and left >= self._row_pieces:
                columns = min(left // self._row_pieces, self._column_pieces - column)
                inputs = (0, op.inputs)
                piece += columns * self._row_pieces
            else:
                columns = 1
                rows = min(left, self._row_pieces - row)
                start = row * self._input_step
                inputs = (start, min(start + rows * self._input_step, op.inputs) - start)
                piece += rows
            start = column * self._output_step
            stop = min(start + columns * self._output_step, op.outputs)
            blocks.append(Block((group, 1), inputs, (start, stop - start)))
        return tuple(blocks)

    def _measure(self, blocks: tuple[Block, ...]) -> PartSize:
        op = self.shape.op
        weights = sum(block.groups[1] * block.inputs[1] * block.outputs[1] for block in blocks)
        # Inputs and outputs that several blocks share are moved once.
        rows = columns = partial = 0
        seen_inputs: dict[int, list[tuple[int, int]]] = {}
        seen_outputs: dict[int, list[tuple[int, int]]] = {}
        for block in blocks:
            group, count = block.groups
            rows += count * _new_length(seen_inputs.setdefault(group, []), block.inputs)
            fresh = count * _new_length(seen_outputs.setdefault(group, []), block.outputs)
            columns += fresh
            if block.inputs[0] > 0:
                partial += fresh
        moved = -(-op.input_bytes * rows // (op.inputs * op.groups))
        return PartSize(
            arrays=sum(self._arrays(block) for block in blocks),
            operations=2 * op.mvms * weights,
            input_bytes=moved + bytes_of(op.mvms * partial, self._activation_bits),
            output_bytes=bytes_of(op.mvms * columns, self._activation_bits),
            weight_bytes=bytes_of(weights, self._weight_bits),
        )

    def _arrays(self, block: Block) -> int:
        shape = self.shape
        if shape.packed > 1:
            return -(-block.groups[1] // shape.packed)
        return block.groups[1] * -(-block.inputs[1] // shape.rows) * -(-block.outputs[1] // shape.weight_columns)


def _new_length(seen: list[tuple[int, int]], part: tuple[int, int]) -> int:
    """Return how much of a range (first, count) is not in `seen`, and add it there."""
    first, end = part[0], part[0] + part[1]
    covered = 0
    reached = first
    for start, stop in sorted(seen):
        low, high = max(start, reached), min(stop, end)
        if high > low:
            covered += high - low
            reached = high
    seen.append((first, end))
    return part[1] - covered
