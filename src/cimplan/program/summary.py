"""What a program does, counted segment by segment, and whether that is what its plan says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cimplan.limits import watch
from cimplan.plan.dual_mode import DualModePlan, array_numbers
from cimplan.program.coverage import Ranges
from cimplan.program.language import (
    Indices,
    MemoryRead,
    MemoryWrite,
    Move,
    Multiply,
    Program,
    Segment,
    Stage,
    Switch,
    Tiles,
    WriteMatrix,
)


@dataclass(frozen=True, slots=True)
class StageCount:
    """What one stage does.

    Attributes
    ----------
    operator : str
        Its operator.
    tiles : Tiles
        Weights that are multiplied.
    compute_arrays, written_arrays : int
        Arrays that multiply, and those whose weights are written in this segment.
    input_arrays, output_arrays : int
        Memory arrays it reads from, and those it writes to.
    weights : int
        Weights multiplied, copies once.
    result_bytes, partial_bytes : int
        Bytes of the result put somewhere, and bytes of partial sums fetched.
    """

    operator: str
    tiles: Tiles
    compute_arrays: int
    written_arrays: int
    input_arrays: int
    output_arrays: int
    weights: int
    result_bytes: int
    partial_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentCount:
    """What one segment does.

    Attributes
    ----------
    to_compute, to_memory : int
        Arrays that switch.
    stages : tuple of StageCount
        The pipeline.
    memory_arrays : int
        Arrays in memory mode that its stages use.
    from_main_bytes, to_main_bytes : int
        Bytes that pass main memory while the pipeline runs.
    written_back : tuple of (str, int)
        Bytes of each tensor that leave arrays after it, in order.
    """

    to_compute: int
    to_memory: int
    stages: tuple[StageCount, ...]
    memory_arrays: int
    from_main_bytes: int
    to_main_bytes: int
    written_back: tuple[tuple[str, int], ...]


def summarise(program: Program) -> tuple[SegmentCount, ...]:
    """Count what each segment of a verified program does."""
    results = {operator.name: operator.writes for operator in program.operators}
    return tuple(_segment(segment, results) for segment in program.segments)


def _segment(segment: Segment, results: dict[str, str]) -> SegmentCount:
    watch()
    switched = {"TOC": 0, "TOM": 0}
    written: dict[str, int] = {}
    for statement in segment.prepare:
        if isinstance(statement, Switch):
            switched[statement.mode] += len(statement.arrays)
        elif isinstance(statement, WriteMatrix):
            name = statement.tiles.operator
            written[name] = written.get(name, 0) + len(statement.arrays)
    moves = [s for stage in segment.stages for s in stage.body if isinstance(s, Move)]
    memory = {
        array
        for stage in segment.stages
        for statement in stage.body
        if isinstance(statement, MemoryRead | MemoryWrite)
        for array in statement.arrays
    }
    back: dict[str, int] = {}
    for last in segment.finish:
        if isinstance(last, Move) and last.target == "main":
            back[last.data.tensor] = back.get(last.data.tensor, 0) + last.data.size_bytes
    return SegmentCount(
        to_compute=switched["TOC"],
        to_memory=switched["TOM"],
        stages=tuple(_stage(stage, results[stage.operator], written) for stage in segment.stages),
        memory_arrays=len(memory),
        from_main_bytes=sum(move.data.size_bytes for move in moves if move.source == "main"),
        to_main_bytes=sum(move.data.size_bytes for move in moves if move.target == "main"),
        written_back=tuple(back.items()),
    )


def _stage(stage: Stage, result: str, written: dict[str, int]) -> StageCount:
    inputs: set[int] = set()
    outputs: set[int] = set()
    saved, partial = Ranges(), Ranges()
    multiply: Multiply | None = None
    count = written.get(stage.operator, 0)
    for statement in stage.body:
        match statement:
            case MemoryRead(arrays, data):
                inputs.update(arrays)
                if data.tensor == result:
                    partial.add(data.start, data.stop)
            case MemoryWrite(arrays, data):
                outputs.update(arrays)
                saved.add(data.start, data.stop)
            case Move("buffer", _, data):
                saved.add(data.start, data.stop)
            case Move("main", "buffer", data) if data.tensor == result:
                partial.add(data.start, data.stop)
            case WriteMatrix(arrays, _):
                count += len(arrays)
            case Multiply():
                multiply = statement
    tiles = multiply.tiles if multiply is not None else Tiles(stage.operator, ())
    return StageCount(
        operator=stage.operator,
        tiles=tiles,
        compute_arrays=len(multiply.arrays) if multiply is not None else 0,
        written_arrays=count,
        input_arrays=len(inputs),
        output_arrays=len(outputs),
        weights=sum(box.weights for box in tiles.boxes),
        result_bytes=sum(stop - start for start, stop in saved),
        partial_bytes=sum(stop - start for start, stop in partial),
    )


def disagreements(program: Program, plan: DualModePlan) -> list[str]:
    """Return, in words, where a program does not do what a plan says; empty if it does.

    Compared are the segments with their operators, weights and arrays, and every switch; what the plan charges for
    switching then follows from the program.
    """
    return list(_disagreements(program, plan))


def _disagreements(program: Program, plan: DualModePlan) -> Iterator[str]:
    if len(program.segments) != len(plan.segments):
        yield f"the program has {len(program.segments)} segments and the plan {len(plan.segments)}"
        return
    names = [operator.name for operator in program.operators]
    if len(names) != len(plan.operators):
        yield f"the program has {len(names)} operators and the plan {len(plan.operators)}"
        return
    chip = plan.chip
    counts = summarise(program)
    for index, (count, segment, planned) in enumerate(zip(counts, program.segments, plan.segments, strict=True)):
        head = f"segment {index}: "
        cycles = count.to_compute * chip.switch_to_compute_cycles + count.to_memory * chip.switch_to_memory_cycles
        if cycles != planned.switch_cycles:
            yield f"{head}switches take {cycles} cycles, and {planned.switch_cycles} are planned"
        for mode, ranges in (("TOC", planned.to_compute), ("TOM", planned.to_memory)):
            done = {a for s in segment.prepare if isinstance(s, Switch) and s.mode == mode for a in s.arrays}
            if done != set(array_numbers(ranges)):
                yield f"{head}other arrays switch {mode} than planned"
        if [stage.operator for stage in count.stages] != [names[part.operator] for part in planned.parts]:
            yield f"{head}other operators than planned"
            continue
        for stage, body, part in zip(count.stages, segment.stages, planned.parts, strict=True):
            arrays = next((s.arrays for s in body.body if isinstance(s, Multiply)), Indices())
            if set(arrays) != set(array_numbers(part.placement)) or stage.compute_arrays != part.compute_arrays:
                yield f"{head}{stage.operator!r} computes in other arrays than planned"
            weights = sum(block.groups[1] * block.inputs[1] * block.outputs[1] for block in part.blocks)
            if stage.weights != weights:
                yield f"{head}{stage.operator!r} multiplies {stage.weights} weights, and {weights} are planned"
            if stage.written_arrays not in (0, part.compute_arrays):
                yield f"{head}weights of {stage.operator!r} go to {stage.written_arrays} arrays"
