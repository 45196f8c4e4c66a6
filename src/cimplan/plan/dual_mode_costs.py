"""Every number of a dual-mode segment, recomputed from its blocks, its arrays and the chip.

Used by the checker alone. It shares no code with the compiler: sizes follow from areas of boxes, and rates are exact
decimal fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Block, MatrixOperator, Part, Readings, Segment, Store

_KNOWN = 1 << 16
"""Answers to keep: segments of large networks are much alike, and exact fractions are slow."""

Rectangle = tuple[int, int, int, int]
"""First and end along one axis, first and end along the other."""


class Sizes(NamedTuple):
    """The numbers of a part that follow from its blocks."""

    arrays: int
    operations: int
    input_bytes: int
    output_bytes: int
    weight_bytes: int


@lru_cache(maxsize=64)
def decimal(value: float) -> Fraction:
    """Return a rate as the decimal number it is written as."""
    return Fraction(repr(value))


@lru_cache(maxsize=_KNOWN)
def cycles_at(amount: int, units: int, rate: float) -> int:
    """Return how long so many units take for an amount, each at a rate per cycle, rounded up."""
    return ceil(amount / (units * decimal(rate)))


def area(rectangles: Sequence[Rectangle]) -> int:
    """Return the area that rectangles cover together."""
    if len(rectangles) == 1:
        left, right, low, high = rectangles[0]
        return (right - left) * (high - low)
    marks = sorted({mark for left, right, _, _ in rectangles for mark in (left, right)})
    total = 0
    for start, stop in itertools.pairwise(marks):
        spans = sorted((low, high) for left, right, low, high in rectangles if left <= start and stop <= right)
        reached = None
        for low, high in spans:
            begin = low if reached is None else max(low, reached)
            if high > begin:
                total += (stop - start) * (high - begin)
                reached = high
    return total


def packed_groups(op: MatrixOperator, chip: DualModeChip, readings: Readings) -> int:
    """Return how many groups' matrices share one array."""
    if readings.group_packing != "block_diagonal":
        return 1
    fitting = min(chip.rows // op.inputs, chip.weight_columns // op.outputs)
    return min(max(fitting, 1), op.groups)


def sizes_of(blocks: Sequence[Block], op: MatrixOperator, chip: DualModeChip, readings: Readings) -> Sizes:
    """Return the numbers of a part from its blocks."""
    packed = packed_groups(op, chip, readings)
    arrays = weights = 0
    for block in blocks:
        groups, inputs, outputs = block.groups[1], block.inputs[1], block.outputs[1]
        weights += groups * inputs * outputs
        if packed > 1:
            arrays += _touched(block.groups, packed)
        else:
            arrays += groups * _touched(block.inputs, chip.rows) * _touched(block.outputs, chip.weight_columns)
    read = area([(*_span(block.groups), *_span(block.inputs)) for block in blocks])
    made = area([(*_span(block.groups), *_span(block.outputs)) for block in blocks])
    begun = [(*_span(block.groups), *_span(block.outputs)) for block in blocks if block.inputs[0] == 0]
    resumed = made - (area(begun) if begun else 0)
    return Sizes(
        arrays=arrays,
        operations=2 * op.mvms * weights,
        input_bytes=ceil(Fraction(op.input_bytes * read, op.inputs * op.groups))
        + ceil(Fraction(op.mvms * resumed * chip.activation_bits, 8)),
        output_bytes=ceil(Fraction(op.mvms * made * chip.activation_bits, 8)),
        weight_bytes=ceil(Fraction(weights * chip.weight_bits, 8)),
    )


def moved_bytes(part: Part, readings: Readings) -> int:
    """Return what counts as moved by a part."""
    outputs = part.output_bytes if readings.data_moved in ("inputs_outputs", "inputs_outputs_weights") else 0
    weights = part.weight_bytes if readings.data_moved == "inputs_outputs_weights" else 0
    return part.input_bytes + outputs + weights


def compute_cycles(part: Part, chip: DualModeChip) -> int:
    """Return OP / (Com · op), rounded up."""
    return cycles_at(part.operations, part.compute_arrays, chip.op_per_cycle)


def published_cycles(segment: Segment, chip: DualModeChip, readings: Readings) -> list[int]:
    """Return L of each part under the published cost model."""
    moved = [moved_bytes(part, readings) for part in segment.parts]
    total = sum(moved)
    shared = readings.main_bandwidth == "shared"
    rates = (chip.memory_bytes_per_cycle, chip.main_bytes_per_cycle)
    return [
        max(
            compute_cycles(part, chip),
            _moving_cycles(size, total if shared else size, part.input_arrays + part.output_arrays, *rates),
        )
        for part, size in zip(segment.parts, moved, strict=True)
    ]


@lru_cache(maxsize=_KNOWN)
def _moving_cycles(size: int, total: int, memory_arrays: int, memory_rate: float, main_rate: float) -> int:
    """Return how long moving bytes takes through arrays, and their share of main memory."""
    main = decimal(main_rate) * size / total if size else decimal(main_rate)
    return ceil(size / (memory_arrays * decimal(memory_rate) + main))


def saved_accesses(store: Store, made_here: bool, needed_after: bool, readings: Readings) -> int:
    """Return the accesses to main memory that each byte of a store saves under the resident cost model."""
    reads = len(store.readers)
    if store.kept_from_previous:
        return reads
    if made_here:
        return reads + (1 if not needed_after and readings.data_moved != "inputs" else 0)
    return reads - 1


def store_cycles(store: Store, made_here: bool, chip: DualModeChip) -> int:
    """Return how long the arrays of a store serve all accesses to it."""
    reads = len(store.readers)
    accesses = reads if store.kept_from_previous or not made_here else reads + 1
    return cycles_at(accesses * store.held_bytes, store.arrays, chip.memory_bytes_per_cycle)


def resident_cycles(
    segment: Segment, chip: DualModeChip, readings: Readings, needed_after: Iterable[int]
) -> tuple[int, int]:
    """Return T under the resident cost model, and the bytes that pass main memory.

    Parameters
    ----------
    segment : Segment
        The segment.
    chip : DualModeChip
        The chip.
    readings : Readings
        The readings.
    needed_after : iterable of int
        Operators whose results are needed after the segment.
    """
    later = set(needed_after)
    here = {part.operator for part in segment.parts}
    through_writing = readings.weight_writes in ("main_bandwidth", "both")
    main = 0
    for part in segment.parts:
        main += moved_bytes(part, readings)
        if readings.data_moved == "inputs_outputs_weights" and through_writing:
            main -= part.weight_bytes
    slowest = max(compute_cycles(part, chip) for part in segment.parts)
    for store in segment.stores:
        made_here = store.source in here and not store.kept_from_previous
        main -= saved_accesses(store, made_here, store.source in later, readings) * store.held_bytes
        slowest = max(slowest, store_cycles(store, made_here, chip))
    return max(slowest, cycles_at(main, 1, chip.main_bytes_per_cycle)), main


def write_cycles(segment: Segment, chip: DualModeChip, readings: Readings) -> int:
    """Return T_write: arrays of an operator in series, operators in parallel, and main memory."""
    arrays = max(part.compute_arrays for part in segment.parts) * chip.write_cycles
    main = cycles_at(sum(part.weight_bytes for part in segment.parts), 1, chip.main_bytes_per_cycle)
    return {"free": 0, "array_cycles": arrays, "main_bandwidth": main, "both": max(arrays, main)}[
        readings.weight_writes
    ]


def write_back_cycles(segment: Segment, chip: DualModeChip) -> int:
    """Return T_back of a segment."""
    size = sum(entry.size_bytes for entry in segment.write_backs)
    return cycles_at(size, 1, chip.write_back_bytes_per_cycle)


def _span(extent: tuple[int, int]) -> tuple[int, int]:
    return extent[0], extent[0] + extent[1]


def _touched(extent: tuple[int, int], unit: int) -> int:
    first, end = _span(extent)
    return (end - 1) // unit - first // unit + 1
