"""Which operators get which arrays, and which share a segment, read from a dual-mode plan."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cimplan.plan.dual_mode import DualModePlan


@dataclass(frozen=True, slots=True)
class OperatorArrays:
    """Arrays of one operator, averaged over the time its segments take.

    Attributes
    ----------
    name : str
        The operator.
    arrays : int
        Arrays that hold its weights once; more than the chip has where it is split.
    segments : int
        Segments it has a part in.
    compute, memory : float
        Arrays that compute for it, and that hold its inputs or results; shared ones count for both operators.
    bound : str
        What mostly limits its parts while they run: "compute" or "data".
    cycles : int
        Of the segments it has a part in.
    """

    name: str
    arrays: int
    segments: int
    compute: float
    memory: float
    bound: str
    cycles: int


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """Segments in a row that hold the same operators.

    Attributes
    ----------
    first, end : int
        Segments, `end` exclusive.
    operators : tuple of str
        What they hold.
    compute, memory : float
        Mean arrays of either role.
    cycles : int
        All of them.
    """

    first: int
    end: int
    operators: tuple[str, ...]
    compute: float
    memory: float
    cycles: int


def operator_arrays(plan: DualModePlan) -> tuple[OperatorArrays, ...]:
    """Return the arrays of every operator of a plan, in topological order."""
    count = len(plan.operators)
    arrays, segments, cycles, running = [0] * count, [0] * count, [0] * count, [0] * count
    compute, memory, waiting = [0] * count, [0] * count, [0] * count
    for segment in plan.segments:
        slowest = max(part.cycles for part in segment.parts)
        for part in segment.parts:
            index = part.operator
            arrays[index] += part.arrays
            segments[index] += 1
            cycles[index] += segment.total_cycles
            running[index] += segment.cycles
            compute[index] += part.compute_arrays * segment.total_cycles
            memory[index] += (part.input_arrays + part.output_arrays) * segment.total_cycles
            computing = part.operations / (part.compute_arrays * plan.chip.op_per_cycle)
            # Rounding up to whole cycles adds less than one. The resident cost model moves data for a whole segment.
            if part.cycles >= computing + 1 or segment.cycles > slowest:
                waiting[index] += segment.cycles
    return tuple(
        OperatorArrays(
            name=op.name,
            arrays=arrays[index],
            segments=segments[index],
            compute=compute[index] / cycles[index],
            memory=memory[index] / cycles[index],
            bound="data" if 2 * waiting[index] > running[index] else "compute",
            cycles=cycles[index],
        )
        for index, op in enumerate(plan.operators)
    )


def segment_runs(plan: DualModePlan) -> tuple[SegmentRun, ...]:
    """Return the segments of a plan, those in a row with the same operators as one."""
    runs = []
    for operators, group in groupby(
        enumerate(plan.segments), key=lambda item: tuple(part.operator for part in item[1].parts)
    ):
        found = list(group)
        runs.append(
            SegmentRun(
                first=found[0][0],
                end=found[-1][0] + 1,
                operators=tuple(plan.operators[index].name for index in operators),
                compute=sum(segment.compute_arrays for _, segment in found) / len(found),
                memory=sum(segment.memory_arrays for _, segment in found) / len(found),
                cycles=sum(segment.total_cycles for _, segment in found),
            )
        )
    return tuple(runs)
