"""The program of a dual-mode plan.

The plan says which arrays do what in each segment; the generator adds which bytes lie where. Data are placed as the
arrays' capacity allows: what a plan lets memory arrays serve beyond that (the published cost model does not ask where
data lie) comes from main memory in the program.
"""

from __future__ import annotations

from cimplan.limits import watch
from cimplan.plan.dual_mode import ArrayRange, DualModePlan, Part, Segment, array_numbers
from cimplan.program.language import (
    Box,
    Bytes,
    ChipFacts,
    FinishStatement,
    Indices,
    MemoryDrop,
    MemoryRead,
    MemoryWrite,
    Move,
    Multiply,
    OperatorDecl,
    PrepareStatement,
    Program,
    Stage,
    StageStatement,
    Switch,
    Tiles,
    WriteMatrix,
)
from cimplan.program.language import Segment as ProgramSegment
from cimplan.program.naming import Names, declare
from cimplan.program.placement import Batch, Placement, StoreUse
from cimplan.program.tiling import Range, input_shares, matrix_shares, output_shares


def generate(plan: DualModePlan) -> Program:
    """Return the meta-operator program of a plan.

    Parameters
    ----------
    plan : DualModePlan
        By any method; its segments run in order.

    Returns
    -------
    Program
        Without lines; `verifier.verify` checks it as its canonical text.
    """
    names = declare(plan)
    generator = _Generator(plan, names)
    segments = tuple(generator.segment(index, segment) for index, segment in enumerate(plan.segments))
    chip = plan.chip
    return Program(
        model=plan.model,
        tool=f"cimplan {plan.tool_version}".strip(),
        chip=ChipFacts(plan.hardware, chip.arrays, chip.rows, chip.columns, chip.columns_per_weight, chip.array_bytes),
        tensors=names.tensors,
        operators=names.operators,
        segments=segments,
        memory_first=_memory_first(plan),
        packing=plan.readings.group_packing,
    )


def _memory_first(plan: DualModePlan) -> Indices:
    """Return the arrays that the first segment that uses or switches them finds in memory mode."""
    seen: set[int] = set()
    memory: set[int] = set()
    for segment in plan.segments:
        switched = {*array_numbers(segment.to_compute), *array_numbers(segment.to_memory)}
        memory.update(set(array_numbers(segment.to_compute)) - seen)
        seen |= switched
        used = {array for store in segment.stores for array in array_numbers(store.placement)}
        memory.update(used - seen)
        seen |= used
        for part in segment.parts:
            seen.update(array_numbers(part.placement))
        if len(seen) == plan.chip.arrays:
            break
    return Indices.of(sorted(memory))


class _Generator:
    """Writes segment after segment and keeps track of where the data are."""

    def __init__(self, plan: DualModePlan, names: Names) -> None:
        self.plan = plan
        self.names = names
        self.placement = Placement(plan, names)
        self.index = 0

    def segment(self, index: int, segment: Segment) -> ProgramSegment:
        """Return one segment as a program segment."""
        watch()
        prepare: list[PrepareStatement] = []
        self.index = index
        lost = self.placement.begin(index, segment)
        for batch in lost:
            if self.placement.main[batch.data.tensor].gap(batch.data.start, batch.data.stop):
                prepare.append(Move(batch.arrays, "main", batch.data))
                self.placement.main[batch.data.tensor].add(batch.data.start, batch.data.stop)
        if lost:
            prepare.append(MemoryDrop(Indices.of(sorted({array for batch in lost for array in batch.arrays}))))
        if segment.to_compute:
            prepare.append(Switch("TOC", _arrays(segment.to_compute)))
        if segment.to_memory:
            prepare.append(Switch("TOM", _arrays(segment.to_memory)))
        boxes = [tiles_of(self.names.operators[part.operator], part) for part in segment.parts]
        for part, tiles in zip(segment.parts, boxes, strict=True):
            if self.plan.operators[part.operator].stationary == "constant":
                prepare.append(WriteMatrix(_arrays(part.placement), tiles))
        stages = tuple(self._stage(part, tiles) for part, tiles in zip(segment.parts, boxes, strict=True))
        return ProgramSegment(index, tuple(prepare), stages, tuple(self._finish(index, segment)))

    def _stage(self, part: Part, tiles: Tiles) -> Stage:
        decl = self.names.operators[part.operator]
        placement = self.placement
        body: list[StageStatement] = []
        needed = self._needs(decl, tiles)
        buffers = placement.buffers_of(part.operator)
        for store in buffers:
            filled = self._fill(store, needed)
            if filled is not None:
                body.append(Move("main", filled.arrays, filled.data))
        for tensor, ranges in needed.items():
            for start, stop in ranges:
                body.extend(self._fetch(part.operator, tensor, start, stop))
        result = self.names.sizes[decl.writes]
        begun = placement.partial_sums(part.operator, tiles.boxes)
        for start, stop in begun:
            body.extend(self._fetch(part.operator, decl.writes, start, stop))
        arrays = _arrays(part.placement)
        if self.plan.operators[part.operator].stationary == "activation":
            body.append(WriteMatrix(arrays, tiles))
        body.append(Multiply(arrays, tiles, decl.mvms))
        placement.multiplied(part.operator, tiles.boxes, begun)
        for start, stop in output_shares(decl, tiles.boxes, result):
            body.extend(self._save(part.operator, Bytes(decl.writes, start, stop)))
            for store in buffers:
                if store.store.source is None and not store.filled:
                    buffered = placement.put(store, Bytes(decl.writes, start, stop))
                    if buffered is not None:
                        body.append(MemoryWrite(buffered.arrays, buffered.data))
        return Stage(decl.name, tuple(body))

    def _needs(self, decl: OperatorDecl, tiles: Tiles) -> dict[str, list[Range]]:
        """Return the bytes of each tensor that a stage must bring into its buffer."""
        sizes = self.names.sizes
        result = sizes[decl.writes]
        needs: dict[str, list[Range]] = {}
        for tensor in decl.reads:
            needs[tensor] = input_shares(decl, tiles.boxes, sizes[tensor])
        for tensor in decl.matrix:
            if tensor not in self.names.constants:
                ranges = matrix_shares(decl, tiles.boxes, sizes[tensor])
                needs[tensor] = union(needs.get(tensor, []), ranges)
        for tensor in decl.adds:
            size = sizes[tensor]
            shares = [
                (size * start // result, size * stop // result)
                for start, stop in output_shares(decl, tiles.boxes, result)
                if result
            ]
            needs[tensor] = union(needs.get(tensor, []), shares)
        return needs

    def _fill(self, store: StoreUse, needed: dict[str, list[Range]]) -> Batch | None:
        """Let arrays that buffer an operator hold the largest range that it reads from main memory."""
        placement = self.placement
        ranges = [
            Bytes(tensor, start, stop)
            for tensor, found in needed.items()
            for start, stop in found
            if store.tensor in (None, tensor) and not placement.main[tensor].gap(start, stop)
        ]
        if not ranges:
            return None
        return placement.put(store, max(ranges, key=lambda data: data.size_bytes))

    def _fetch(self, operator: int, tensor: str, start: int, stop: int) -> list[StageStatement]:
        """Bring a range into the buffer: from arrays what they hold, from main memory the rest."""
        statements: list[StageStatement] = []
        left = [(start, stop)]
        for batch in self.placement.readable(operator, tensor):
            low, high = max(start, batch.data.start), min(stop, batch.data.stop)
            if low < high:
                statements.append(MemoryRead(batch.arrays, Bytes(tensor, low, high)))
                left = without(left, low, high)
        statements.extend(Move("main", "buffer", Bytes(tensor, low, high)) for low, high in left)
        return statements

    def _save(self, operator: int, data: Bytes) -> list[StageStatement]:
        """Put a result where the plan wants it: into arrays as far as they hold it, into main memory otherwise."""
        placement = self.placement
        statements: list[StageStatement] = []
        left = [(data.start, data.stop)]
        for store in placement.stores_of(operator):
            for low, high in list(left):
                batch = placement.put(store, Bytes(data.tensor, low, high))
                if batch is not None:
                    statements.append(MemoryWrite(batch.arrays, batch.data))
                    left = without(left, batch.data.start, batch.data.stop)
        if placement.read_elsewhere(operator) or placement.writes_through(self.index, operator):
            left = [(data.start, data.stop)]
        for low, high in left:
            statements.append(Move("buffer", "main", Bytes(data.tensor, low, high)))
            placement.main[data.tensor].add(low, high)
        return statements

    def _finish(self, index: int, segment: Segment) -> list[FinishStatement]:
        """Write back what is needed later and does not stay, then empty the arrays that keep nothing."""
        placement = self.placement
        statements: list[FinishStatement] = []
        for batch in placement.leaving(index, segment):
            statements.append(Move(batch.arrays, "main", batch.data))
            placement.main[batch.data.tensor].add(batch.data.start, batch.data.stop)
        dropped = placement.end()
        if dropped:
            statements.append(MemoryDrop(Indices.of(dropped)))
        return statements


def _arrays(ranges: tuple[ArrayRange, ...]) -> Indices:
    """Return ranges of a plan, first and count, as ranges of a program, first and last."""
    return Indices(tuple((first, first + count - 1) for first, count in ranges))


def tiles_of(decl: OperatorDecl, part: Part) -> Tiles:
    """Return the weights of a part as boxes of a program."""
    return Tiles(
        decl.name,
        tuple(
            Box(*((first, first + count) for first, count in (block.groups, block.inputs, block.outputs)))
            for block in part.blocks
        ),
    )


def union(one: list[Range], other: list[Range]) -> list[Range]:
    """Return the union of two lists of ranges, ascending and disjoint."""
    merged: list[Range] = []
    for start, stop in sorted([*one, *other]):
        if start >= stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def without(ranges: list[Range], start: int, stop: int) -> list[Range]:
    """Return ranges without what lies between start and stop."""
    left: list[Range] = []
    for first, last in ranges:
        if last <= start or stop <= first:
            left.append((first, last))
            continue
        if first < start:
            left.append((first, start))
        if stop < last:
            left.append((stop, last))
    return left
