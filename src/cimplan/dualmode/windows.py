"""A network cut into pieces, and windows of consecutive pieces that may become a segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from cimplan.dualmode.split import PartSize, Shape, SplitOperator
from cimplan.errors import InputError
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import NETWORK, MatrixOperator, Readings


class PartRange(NamedTuple):
    """Consecutive pieces of one operator: the operator, the first piece and the piece after the last."""

    operator: int
    first: int
    end: int


class Window(NamedTuple):
    """Consecutive pieces, operator by operator.

    Attributes
    ----------
    ranges : tuple of PartRange
        Which pieces of which operators.
    sizes : tuple of PartSize
        Their numbers.
    """

    ranges: tuple[PartRange, ...]
    sizes: tuple[PartSize, ...]


MOST_PIECES: Final = 2_000_000
"""Pieces of all operators together: a list has an entry for each."""


@dataclass(frozen=True)
class PieceNetwork:
    """Operators in topological order, each cut into pieces.

    Attributes
    ----------
    operators : tuple of MatrixOperator
        The operators.
    split_size : int
        Most arrays of one piece.
    splits : tuple of SplitOperator
        How each operator is cut; operators alike share one.
    offsets : tuple of int
        Number of the first piece of each operator, and at the end the number of pieces.
    last_use : tuple of int
        The last operator that waits for each one; the number of operators if its result leaves the network.
    read_totals : tuple of int
        Bytes of all results that each operator reads, where it reads several; 0 if the network's inputs are among them.
    """

    operators: tuple[MatrixOperator, ...]
    split_size: int
    splits: tuple[SplitOperator, ...]
    offsets: tuple[int, ...]
    last_use: tuple[int, ...]
    read_totals: tuple[int, ...]

    @classmethod
    def cut(
        cls, operators: Sequence[MatrixOperator], shapes: Sequence[Shape], split_size: int, chip: DualModeChip
    ) -> PieceNetwork:
        """Cut every operator into pieces of at most `split_size` arrays."""
        alike: dict[tuple[int, ...], SplitOperator] = {}
        splits = []
        offsets = [0]
        last_use = list(range(len(operators)))
        totals = []
        for index, (op, shape) in enumerate(zip(operators, shapes, strict=True)):
            key = (op.inputs, op.outputs, op.mvms, op.groups, op.input_bytes)
            if key not in alike:
                alike[key] = SplitOperator(shape, split_size, chip)
            splits.append(alike[key])
            offsets.append(offsets[-1] + alike[key].pieces)
            if offsets[-1] > MOST_PIECES:
                raise InputError(
                    f"the network falls into more than {MOST_PIECES:,} pieces on this chip",
                    where=f"operator {op.name!r}",
                    why=f"its matrix is {op.outputs} x {op.inputs} in {op.groups} groups",
                    fix="Check the sizes of the model, or take a chip with more or larger arrays",
                )
            known = len(op.reads) > 1 and NETWORK not in op.reads
            totals.append(sum(operators[source].output_bytes for source in op.reads) if known else 0)
            for source in op.waits_for:
                last_use[source] = max(last_use[source], index)
            if op.leaves:
                last_use[index] = len(operators)
        return cls(tuple(operators), split_size, tuple(splits), tuple(offsets), tuple(last_use), tuple(totals))

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return self.offsets[-1]

    @cached_property
    def operator_of(self) -> list[int]:
        """The operator of each piece."""
        counts = [split.pieces for split in self.splits]
        found: list[int] = np.repeat(np.arange(len(counts)), counts).tolist()
        return found

    @cached_property
    def arrays_before(self) -> list[int]:
        """Arrays of all pieces before each piece, and at the end of all pieces."""
        arrays = np.concatenate([split.piece_arrays for split in self.splits])
        return [0, *np.cumsum(arrays).tolist()]

    def needed_after(self, operator: int, last: PartRange) -> bool:
        """Return whether an operator's result is needed after a window whose last range is `last`."""
        use = self.last_use[operator]
        return use > last.operator or (use == last.operator and last.end < self.splits[last.operator].pieces)


def shapes_of(operators: Sequence[MatrixOperator], chip: DualModeChip, readings: Readings) -> tuple[Shape, ...]:
    """Return the shape of each operator on a chip."""
    return tuple(Shape.of(op, chip, readings) for op in operators)
