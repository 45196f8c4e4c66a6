"""The chip's rates as exact numbers, and what depends on computing arrays alone.

A segment's cycles are whole. Every bound on them has the form ⌈need / (base + step · arrays)⌉ in whole numbers, so two
machines never disagree on a plan and the checker can ask for equality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from cimplan.dualmode.split import PartSize
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Readings

NEVER: Final = 1 << 60
"""Stands for a number of cycles that cannot be had."""


def exact(rate: float) -> Fraction:
    """Return the decimal number a rate is written as."""
    return Fraction(repr(rate))


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the quotient rounded up."""
    return -(-numerator // denominator)


class Level(NamedTuple):
    """One way to spread a segment over computing arrays: the best run time that so few arrays allow.

    Attributes
    ----------
    cycles : int
        Run time of the slowest part, computing alone.
    arrays : int
        Computing arrays of all parts.
    write_cycles : int
        What writing their weights takes.
    """

    cycles: int
    arrays: int
    write_cycles: int


@dataclass(frozen=True)
class Rates:
    """A chip and the readings, with exact rates.

    Attributes
    ----------
    op, cim, main, back : Fraction
        Operations a cycle of a computing array; bytes a cycle of an array in memory mode, of main memory, and of
        write-backs.
    """

    chip: DualModeChip
    readings: Readings
    op: Fraction
    cim: Fraction
    main: Fraction
    back: Fraction

    @classmethod
    def of(cls, chip: DualModeChip, readings: Readings) -> Rates:
        """Return the exact rates of a chip."""
        return cls(
            chip,
            readings,
            exact(chip.op_per_cycle),
            exact(chip.memory_bytes_per_cycle),
            exact(chip.main_bytes_per_cycle),
            exact(chip.write_back_bytes_per_cycle),
        )

    def compute_cycles(self, part: PartSize, arrays: int) -> int:
        """Return OP / (Com · op), rounded up."""
        return ceil_div(part.operations * self.op.denominator, arrays * self.op.numerator)

    def compute_arrays(self, part: PartSize, cycles: int) -> int:
        """Return the least arrays that compute a part within some cycles, by the reading of duplication."""
        unit = part.arrays if self.readings.duplication == "whole" else 1
        copies = ceil_div(part.operations * self.op.denominator, unit * cycles * self.op.numerator)
        return max(copies * unit, part.arrays)

    def moved_bytes(self, part: PartSize) -> int:
        """Return B, what counts as moved by a part."""
        moved = part.input_bytes
        if self.readings.data_moved != "inputs":
            moved += part.output_bytes
        if self.readings.data_moved == "inputs_outputs_weights":
            moved += part.weight_bytes
        return moved

    def write_back_cycles(self, size_bytes: int) -> int:
        """Return what bytes take that leave memory arrays after a segment."""
        return ceil_div(size_bytes * self.back.denominator, self.back.numerator)

    def main_cycles(self, size_bytes: int) -> int:
        """Return what bytes take that pass main memory alone."""
        return ceil_div(size_bytes * self.main.denominator, self.main.numerator)

    def write_cycles(self, parts: Sequence[PartSize], most_arrays: int) -> int:
        """Return T_write: arrays of an operator in series, operators in parallel.

        Parameters
        ----------
        parts : sequence of PartSize
            All parts of the segment.
        most_arrays : int
            Computing arrays of the part that has most.
        """
        reading = self.readings.weight_writes
        cycles = 0
        if reading in ("array_cycles", "both"):
            cycles = most_arrays * self.chip.write_cycles
        if reading in ("main_bandwidth", "both"):
            # Copies are written from one stream, so each weight passes main memory once.
            cycles = max(cycles, self.main_cycles(sum(part.weight_bytes for part in parts)))
        return cycles

    def levels(self, parts: Sequence[PartSize], *, duplicate: bool = True) -> list[Level]:
        """Return every useful spread over computing arrays, from the fewest arrays to the shortest run time.

        The walk takes the slowest parts and gives them the least arrays that make them faster, until the chip is
        full. Any optimal allocation takes for its run time the least arrays, and run times between two levels need
        the arrays of the faster one, so the levels miss nothing. A level that runs and writes no faster in all than
        one with fewer arrays is left out: no number of memory arrays makes it the better one. Empty if the parts do
        not fit.
        """
        limit = self.chip.arrays
        arrays = [part.arrays for part in parts]
        total = sum(arrays)
        if total > limit:
            return []
        cycles = [self.compute_cycles(part, count) for part, count in zip(parts, arrays, strict=True)]
        slowest = max(cycles)
        levels = [Level(slowest, total, self.write_cycles(parts, max(arrays)))]
        best = slowest + levels[0].write_cycles
        while duplicate and slowest > 1:
            for index, part in enumerate(parts):
                if cycles[index] == slowest:
                    count = self.compute_arrays(part, slowest - 1)
                    total += count - arrays[index]
                    arrays[index] = count
                    cycles[index] = self.compute_cycles(part, count)
            if total > limit:
                break
            slowest = max(cycles)
            writing = self.write_cycles(parts, max(arrays))
            if slowest + writing < best:
                best = slowest + writing
                levels.append(Level(slowest, total, writing))
            elif writing >= best:
                break
        return levels
