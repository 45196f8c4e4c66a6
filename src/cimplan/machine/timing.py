"""How long a program takes, counted from its statements and the rates of the chip alone.

The replay knows nothing of the plan: what computes, what is served from memory arrays and what moves is read from the
program, so that agreement with the plan's cycles says something about both. It follows the published cost model:

    stage   = max(operations / (computing arrays * op), moved bytes / (memory arrays * D_cim + D_main))
    segment = switches + writing the weights + slowest stage + writing back

Each quotient is rounded up to whole cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from cimplan.errors import InputError
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Readings
from cimplan.program.coverage import Ranges
from cimplan.program.language import OperatorDecl, Program
from cimplan.program.summary import SegmentCount, StageCount, summarise


@dataclass(frozen=True, slots=True)
class SegmentTiming:
    """Cycles of one segment, as in `cimplan.plan.dual_mode.Segment`."""

    cycles: int
    switch_cycles: int
    write_cycles: int
    write_back_cycles: int
    stage_cycles: tuple[int, ...]

    @property
    def total_cycles(self) -> int:
        """Switching, writing, running and writing back."""
        return self.switch_cycles + self.write_cycles + self.cycles + self.write_back_cycles


def replay(program: Program, chip: DualModeChip, readings: Readings) -> tuple[SegmentTiming, ...]:
    """Return the cycles of every segment of a verified program.

    Parameters
    ----------
    program : Program
        A program that `cimplan.program.verifier.verify` accepts.
    chip : DualModeChip
        Its rates.
    readings : Readings
        How costs are counted; the published cost model.

    Raises
    ------
    InputError
        If the readings ask for another cost model.
    """
    if readings.cost_model != "published":
        raise InputError(
            f"the timing replay does not know the cost model {readings.cost_model!r}",
            fix="Replay a plan of the published cost model",
        )
    clock = _Clock(program, chip, readings)
    return tuple(clock.segment(count) for count in summarise(program))


class _Clock:
    def __init__(self, program: Program, chip: DualModeChip, readings: Readings) -> None:
        self.operators = {operator.name: operator for operator in program.operators}
        self.chip = chip
        self.readings = readings
        self.op = _exact(chip.op_per_cycle)
        self.memory = _exact(chip.memory_bytes_per_cycle)
        self.main = _exact(chip.main_bytes_per_cycle)
        self.back = _exact(chip.write_back_bytes_per_cycle)

    def segment(self, count: SegmentCount) -> SegmentTiming:
        moved = [self._moved_bytes(stage) for stage in count.stages]
        stages = tuple(self._stage(stage, size, sum(moved)) for stage, size in zip(count.stages, moved, strict=True))
        return SegmentTiming(
            cycles=max(stages),
            switch_cycles=count.to_compute * self.chip.switch_to_compute_cycles
            + count.to_memory * self.chip.switch_to_memory_cycles,
            write_cycles=self._write(count),
            write_back_cycles=ceil(sum(size for _, size in count.written_back) / self.back),
            stage_cycles=stages,
        )

    def _stage(self, stage: StageCount, moved: int, all_moved: int) -> int:
        operations = 2 * stage.weights * self.operators[stage.operator].mvms
        computing = ceil(operations / (stage.compute_arrays * self.op))
        if not moved:
            return computing
        main = self.main
        if self.readings.main_bandwidth == "shared":
            main *= Fraction(moved, all_moved)
        held = stage.input_arrays + stage.output_arrays
        return max(computing, ceil(moved / (held * self.memory + main)))

    def _moved_bytes(self, stage: StageCount) -> int:
        decl = self.operators[stage.operator]
        moved = self._operand_bytes(decl, stage) + stage.partial_bytes
        if self.readings.data_moved != "inputs":
            moved += stage.result_bytes
        if self.readings.data_moved == "inputs_outputs_weights":
            moved += self._weight_bytes(stage)
        return moved

    def _operand_bytes(self, decl: OperatorDecl, stage: StageCount) -> int:
        """Return the share of the multiplied operand that a stage needs: that of its inputs, each counted once."""
        rows = Ranges()
        for box in stage.tiles.boxes:
            for group in range(*box.groups):
                rows.add(group * decl.inputs + box.inputs[0], group * decl.inputs + box.inputs[1])
        needed = sum(stop - start for start, stop in rows)
        return ceil(Fraction(decl.moved_bytes * needed, decl.inputs * decl.groups))

    def _weight_bytes(self, stage: StageCount) -> int:
        return ceil(Fraction(stage.weights * self.chip.weight_bits, 8))

    def _write(self, count: SegmentCount) -> int:
        reading = self.readings.weight_writes
        cycles = 0
        if reading in ("array_cycles", "both"):
            cycles = max(stage.written_arrays for stage in count.stages) * self.chip.write_cycles
        if reading in ("main_bandwidth", "both"):
            size = sum(self._weight_bytes(stage) for stage in count.stages if stage.written_arrays)
            cycles = max(cycles, ceil(size / self.main))
        return cycles


def _exact(rate: float) -> Fraction:
    """Return the decimal number a rate is written as."""
    return Fraction(repr(rate))
