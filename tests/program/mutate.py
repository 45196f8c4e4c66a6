"""Programs with one real fault each, and the lines where the verifier must find it.

Every mutation checks that it breaks a rule (a deleted fetch that nothing depends on is no fault) and says which
statements the fault shows in: usually one, more where the data at fault are used in several places at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cimplan.hardware.schema import DualModeChip
from cimplan.program.language import (
    Bytes,
    Indices,
    MemoryDrop,
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
from cimplan.program.layout import with_lines
from cimplan.program.tiling import arrays_of_box


@dataclass(frozen=True)
class Mutant:
    """A faulty program.

    `lines` are those in which the fault shows; `first` says that nothing is wrong before them.
    """

    kind: str
    program: Program
    lines: frozenset[int]
    first: bool = True


@dataclass(frozen=True)
class Site:
    """Where a statement is: segment, stage (-1 before the pipeline, -2 after it), position, and the statement."""

    segment: int
    stage: int
    at: int
    statement: Any


PREPARE, FINISH = -1, -2


def sites(program: Program) -> list[Site]:
    """Return all statements in their order."""
    found = []
    for number, segment in enumerate(program.segments):
        found += [Site(number, PREPARE, at, statement) for at, statement in enumerate(segment.prepare)]
        for position, stage in enumerate(segment.stages):
            found += [Site(number, position, at, statement) for at, statement in enumerate(stage.body)]
        found += [Site(number, FINISH, at, statement) for at, statement in enumerate(segment.finish)]
    return found


def edit(program: Program, site: Site, *statements: Any) -> Program:
    """Put statements in the place of one."""
    segment = program.segments[site.segment]

    def changed(body: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*body[: site.at], *statements, *body[site.at + 1 :])

    if site.stage == PREPARE:
        segment = replace(segment, prepare=changed(segment.prepare))
    elif site.stage == FINISH:
        segment = replace(segment, finish=changed(segment.finish))
    else:
        stage = segment.stages[site.stage]
        segment = with_stage(segment, site.stage, replace(stage, body=changed(stage.body)))
    return with_segment(program, site.segment, segment)


def with_stage(segment: Segment, at: int, *stages: Stage) -> Segment:
    return replace(segment, stages=(*segment.stages[:at], *stages, *segment.stages[at + 1 :]))


def with_segment(program: Program, at: int, *segments: Segment) -> Program:
    return replace(program, segments=(*program.segments[:at], *segments, *program.segments[at + 1 :]))


def lines_of(program: Program, *parts: Any) -> frozenset[int]:
    """Return the lines of parts of a program (the very objects)."""
    wanted = {id(part) for part in parts}
    return frozenset(
        numbered.line
        for plain, numbered in zip(_parts(program), _parts(with_lines(program)), strict=True)
        if id(plain) in wanted
    )


def _parts(program: Program) -> Iterator[Any]:
    yield program.chip
    yield from program.tensors
    yield from program.operators
    for segment in program.segments:
        yield segment
        yield from segment.prepare
        for stage in segment.stages:
            yield stage
            yield from stage.body
        yield from segment.finish


def arrays_used(statement: Any) -> set[int]:
    """Return the arrays a statement mentions."""
    if isinstance(statement, Move):
        return {a for place in (statement.source, statement.target) if isinstance(place, Indices) for a in place}
    return set(statement.arrays)


class Faults:
    """All mutations of one program."""

    def __init__(self, program: Program, chip: DualModeChip, rng: Random) -> None:
        self.program, self.chip, self.rng = program, chip, rng
        self.sites = sites(program)
        self.decls = {decl.name: decl for decl in program.operators}
        self.sizes = {tensor.name: tensor.size_bytes for tensor in program.tensors}
        self.kinds = {tensor.name: tensor.kind for tensor in program.tensors}

    def all(self) -> Iterator[Mutant]:
        """Yield every mutation at every place."""
        for name in sorted(dir(self)):
            if name.startswith("fault_"):
                yield from self.of_kind(name)

    def of_kind(self, name: str) -> Iterator[Mutant]:
        """Yield one mutation at every place."""
        kind: Callable[[], Iterator[tuple[Program, Any]]] = getattr(self, name)
        for program, where in kind():
            first = True
            if isinstance(where, tuple):
                first, where = False, where[1]
            lines = lines_of(program, *(where if isinstance(where, list) else [where]))
            assert lines, name
            yield Mutant(name.removeprefix("fault_"), program, lines, first)

    # Tools

    def of(self, *types: type) -> Iterator[Site]:
        return (site for site in self.sites if isinstance(site.statement, types))

    def after(self, site: Site) -> list[Site]:
        return self.sites[self.sites.index(site) + 1 :]

    def body(self, site: Site) -> tuple[Any, ...]:
        return self.program.segments[site.segment].stages[site.stage].body

    def decl(self, site: Site) -> Any:
        return self.decls[self.program.segments[site.segment].stages[site.stage].operator]

    def needed(self, tiles: Tiles) -> int:
        return sum(
            arrays_of_box(box, self.chip.rows, self.chip.weight_columns, self.program.packing) for box in tiles.boxes
        )

    def mentions(self, site: Site, arrays: set[int]) -> Any:
        """Return the first later statement that mentions one of some arrays."""
        for later in self.after(site):
            if arrays & arrays_used(later.statement):
                return later.statement
        return None

    def is_fetch(self, site: Site) -> bool:
        statement = site.statement
        if site.stage < 0:
            return False
        return isinstance(statement, MemoryRead) or (isinstance(statement, Move) and statement.target == "buffer")

    def is_store(self, site: Site) -> bool:
        statement = site.statement
        if site.stage < 0:
            return False
        return isinstance(statement, MemoryWrite) or (isinstance(statement, Move) and statement.source == "buffer")

    def users(self, site: Site) -> list[Any]:
        """Return the statements of a stage that need what a fetch brings; empty if nothing does."""
        decl, body, tensor = self.decl(site), self.body(site), site.statement.data.tensor
        others = [
            s
            for s in body
            if s is not site.statement
            and isinstance(s, MemoryRead | Move)
            and s.data.tensor == tensor
            and s.data.start < site.statement.data.stop
            and site.statement.data.start < s.data.stop
            and not (isinstance(s, Move) and s.target != "buffer")
        ]
        if others or not site.statement.data.size_bytes:
            return []
        if tensor in decl.matrix:
            return [s for s in body if isinstance(s, WriteMatrix)]
        if tensor in decl.reads or tensor == decl.writes:
            return [s for s in body if isinstance(s, Multiply)]
        multiply = next(s for s in body if isinstance(s, Multiply))
        if any(box.inputs != (0, decl.inputs) for box in multiply.tiles.boxes):
            return []
        return [s for at, s in enumerate(body) if self.is_store(Site(site.segment, site.stage, at, s))]

    # Modes and arrays

    def fault_switch_deleted(self):
        for site in self.of(Switch):
            later = self.mentions(site, set(site.statement.arrays))
            if later is not None:
                yield edit(self.program, site), later

    def fault_switch_forgets_an_array(self):
        for site in self.of(Switch):
            arrays = list(site.statement.arrays)
            gone = self.rng.choice(arrays)
            later = self.mentions(site, {gone})
            if later is not None and len(arrays) > 1:
                arrays.remove(gone)
                yield edit(self.program, site, replace(site.statement, arrays=Indices.of(arrays))), later

    def fault_switch_the_other_way(self):
        for site in self.of(Switch):
            turned = replace(site.statement, mode="TOC" if site.statement.mode == "TOM" else "TOM")
            yield edit(self.program, site, turned), turned

    def fault_switch_twice(self):
        for site in self.of(Switch):
            again = replace(site.statement)
            yield edit(self.program, site, site.statement, again), again

    def _with_array(self, statement: Any, old: int, new: int) -> Any:
        def changed(place: Any) -> Any:
            return Indices.of(new if a == old else a for a in place) if isinstance(place, Indices) else place

        if isinstance(statement, Move):
            return replace(statement, source=changed(statement.source), target=changed(statement.target))
        return replace(statement, arrays=changed(statement.arrays))

    def fault_array_that_does_not_exist(self):
        for site in self.sites:
            arrays = arrays_used(site.statement)
            if arrays:
                wrong = self._with_array(site.statement, self.rng.choice(sorted(arrays)), self.chip.arrays)
                yield edit(self.program, site, wrong), wrong

    def fault_array_named_twice(self):
        for site in self.sites:
            arrays = sorted(arrays_used(site.statement))
            if len(arrays) > 1:
                wrong = self._with_array(site.statement, arrays[0], arrays[1])
                yield edit(self.program, site, wrong), wrong

    def fault_memory_use_of_a_computing_array(self):
        for site in self.of(MemoryRead, MemoryWrite):
            segment = self.program.segments[site.segment]
            computing = {a for s in segment.stages for t in s.body if isinstance(t, Multiply) for a in t.arrays}
            wrong = self._with_array(
                site.statement, self.rng.choice(list(site.statement.arrays)), self.rng.choice(sorted(computing))
            )
            yield edit(self.program, site, wrong), wrong

    def fault_computing_use_of_a_memory_array(self):
        for site in self.of(WriteMatrix, Multiply):
            segment = self.program.segments[site.segment]
            memory = {
                a for s in segment.stages for t in s.body if isinstance(t, MemoryRead | MemoryWrite) for a in t.arrays
            }
            if memory:
                wrong = self._with_array(
                    site.statement, self.rng.choice(list(site.statement.arrays)), self.rng.choice(sorted(memory))
                )
                yield edit(self.program, site, wrong), wrong

    # Weights

    def _multiply_of(self, site: Site) -> Any:
        """Return the multiplication of the segment that uses what a WriteMatrix writes."""
        for stage in self.program.segments[site.segment].stages:
            for statement in stage.body:
                if isinstance(statement, Multiply) and statement.tiles.operator == site.statement.tiles.operator:
                    return statement
        raise AssertionError

    def fault_weights_not_written(self):
        for site in self.of(WriteMatrix):
            yield edit(self.program, site), self._multiply_of(site)

    def fault_weights_in_too_few_arrays(self):
        for site in self.of(WriteMatrix):
            arrays = list(site.statement.arrays)
            if len(arrays) > 1:
                fewer = replace(site.statement, arrays=Indices.of(arrays[:-1]))
                short = len(arrays) - 1 < self.needed(site.statement.tiles)
                yield edit(self.program, site, fewer), fewer if short else self._multiply_of(site)

    def fault_weights_cut_short(self):
        for site in self.of(WriteMatrix):
            *boxes, last = site.statement.tiles.boxes
            start, stop = last.outputs
            if stop - start > 1:
                tiles = replace(site.statement.tiles, boxes=(*boxes, replace(last, outputs=(start, stop - 1))))
                yield edit(self.program, site, replace(site.statement, tiles=tiles)), self._multiply_of(site)

    def fault_weights_outside_the_matrix(self):
        for site in self.of(WriteMatrix, Multiply):
            *boxes, last = site.statement.tiles.boxes
            decl = self.decls[site.statement.tiles.operator]
            moved = replace(last, inputs=(last.inputs[0], decl.inputs + 1))
            wrong = replace(site.statement, tiles=replace(site.statement.tiles, boxes=(*boxes, moved)))
            yield edit(self.program, site, wrong), wrong

    def fault_weights_of_an_unknown_operator(self):
        for site in self.of(WriteMatrix, Multiply):
            wrong = replace(site.statement, tiles=replace(site.statement.tiles, operator="nobody"))
            yield edit(self.program, site, wrong), wrong

    def fault_arrays_of_two_operators(self):
        """Two operators share an array in a segment: the second write destroys the first one's weights."""
        for site in self.of(WriteMatrix):
            before = {
                a
                for other in self.of(WriteMatrix)
                if other.segment == site.segment and self.sites.index(other) < self.sites.index(site)
                for a in other.statement.arrays
            }
            if before:
                mine, theirs = self.rng.choice(list(site.statement.arrays)), self.rng.choice(sorted(before))
                wrong = self._with_array(site.statement, mine, theirs)
                program = edit(self.program, site, wrong)
                multiply = self._multiply_of(site)
                for other in sites(program):
                    if other.statement is multiply:
                        program = edit(program, other, self._with_array(multiply, mine, theirs))
                yield program, wrong

    def fault_vectors_forgotten(self):
        for site in self.of(Multiply):
            wrong = replace(site.statement, mvms=site.statement.mvms + self.rng.choice([-1, 1]))
            yield edit(self.program, site, wrong), wrong

    def fault_multiplied_twice(self):
        for site in self.of(Multiply):
            again = replace(site.statement)
            yield edit(self.program, site, site.statement, again), again

    def fault_multiply_with_other_arrays_than_written(self):
        for site in self.of(Multiply):
            idle = set(range(self.chip.arrays)) - {
                a for other in self.sites if other.segment == site.segment for a in arrays_used(other.statement)
            }
            if idle:
                wrong = self._with_array(
                    site.statement, self.rng.choice(list(site.statement.arrays)), self.rng.choice(sorted(idle))
                )
                yield edit(self.program, site, wrong), wrong

    def fault_multiply_deleted(self):
        for site in self.of(Multiply):
            stores = [s for at, s in enumerate(self.body(site)) if self.is_store(Site(site.segment, site.stage, at, s))]
            if any(s.data.size_bytes for s in stores):
                yield edit(self.program, site), [s for s in stores if s.data.size_bytes]

    # Data

    def fault_fetch_deleted(self):
        for site in self.sites:
            if self.is_fetch(site) and (users := self.users(site)):
                yield edit(self.program, site), users

    def fault_fetch_cut_short(self):
        for site in self.sites:
            if self.is_fetch(site) and site.statement.data.size_bytes > 1 and (users := self.users(site)):
                data = site.statement.data
                shorter = replace(site.statement, data=Bytes(data.tensor, data.start, data.stop - 1))
                yield edit(self.program, site, shorter), users

    def fault_fetch_too_late(self):
        for site in self.sites:
            if self.is_fetch(site) and (users := self.users(site)) and isinstance(users[0], Multiply | WriteMatrix):
                stage = self.program.segments[site.segment].stages[site.stage]
                body = [s for s in stage.body if s is not site.statement]
                body.insert(body.index(users[0]) + 1, site.statement)
                segment = with_stage(self.program.segments[site.segment], site.stage, replace(stage, body=tuple(body)))
                yield with_segment(self.program, site.segment, segment), users[0]

    def fault_fetch_of_another_tensor(self):
        for site in self.sites:
            if self.is_fetch(site):
                decl = self.decl(site)
                useless = set(self.sizes) - {*decl.reads, *decl.adds, *decl.matrix, decl.writes}
                for name in [*sorted(useless)[:1], "no such tensor"]:
                    data = Bytes(name, 0, min(site.statement.data.stop, self.sizes.get(name, 1)))
                    wrong = replace(site.statement, data=data)
                    yield edit(self.program, site, wrong), wrong

    def fault_more_bytes_than_the_tensor_has(self):
        for site in self.of(MemoryRead, MemoryWrite, Move):
            data = site.statement.data
            wrong = replace(site.statement, data=Bytes(data.tensor, data.start, self.sizes[data.tensor] + 1))
            yield edit(self.program, site, wrong), wrong

    def fault_arrays_not_filled(self):
        for site in self.of(Move):
            if site.stage >= 0 and isinstance(site.statement.target, Indices) and site.statement.data.size_bytes:
                body = self.body(site)
                reads = [
                    s
                    for s in body
                    if isinstance(s, MemoryRead) and set(s.arrays) & set(site.statement.target) and s.data.size_bytes
                ]
                if reads:
                    yield edit(self.program, site), reads

    def fault_result_not_saved(self):
        for site in self.sites:
            if self.is_store(site) and site.statement.data.size_bytes:
                body = self.body(site)
                others = [
                    s
                    for at, s in enumerate(body)
                    if s is not site.statement and self.is_store(Site(site.segment, site.stage, at, s))
                ]
                data = site.statement.data
                if not any(s.data.start < data.stop and data.start < s.data.stop for s in others):
                    multiply = next(s for s in body if isinstance(s, Multiply))
                    yield edit(self.program, site), multiply
                    if data.size_bytes > 1:
                        shorter = replace(site.statement, data=Bytes(data.tensor, data.start + 1, data.stop))
                        yield edit(self.program, site, shorter), multiply

    def fault_another_tensor_saved(self):
        for site in self.sites:
            if self.is_store(site):
                other = next((name for name in sorted(self.sizes) if name != site.statement.data.tensor), None)
                if other:
                    wrong = replace(site.statement, data=Bytes(other, 0, self.sizes[other]))
                    yield edit(self.program, site, wrong), wrong

    def fault_saved_before_computed(self):
        for site in self.sites:
            body = self.body(site) if site.stage >= 0 else ()
            if self.is_store(site) and site.statement.data.size_bytes:
                stage = self.program.segments[site.segment].stages[site.stage]
                moved = (site.statement, *(s for s in body if s is not site.statement))
                segment = with_stage(self.program.segments[site.segment], site.stage, replace(stage, body=moved))
                yield with_segment(self.program, site.segment, segment), site.statement

    def fault_capacity(self):
        for site in self.of(MemoryWrite):
            size = site.statement.data.size_bytes
            if size > self.chip.array_bytes:
                wrong = replace(site.statement, arrays=Indices.of([next(iter(site.statement.arrays))]))
                yield edit(self.program, site, wrong), wrong
        for site in self.of(Move):
            arrays = site.statement.target
            if isinstance(arrays, Indices) and site.statement.data.size_bytes > self.chip.array_bytes:
                wrong = replace(site.statement, target=Indices.of([next(iter(arrays))]))
                yield edit(self.program, site, wrong), wrong

    def fault_two_tensors_in_an_array(self):
        """A result goes where another tensor still lies."""
        for site in self.of(MemoryWrite):
            segment = self.program.segments[site.segment]
            earlier = [
                s
                for stage in segment.stages[: site.stage + 1]
                for s in stage.body
                if isinstance(s, MemoryRead) and s.data.tensor != site.statement.data.tensor
            ]
            if earlier:
                wrong = self._with_array(
                    site.statement, next(iter(site.statement.arrays)), next(iter(earlier[0].arrays))
                )
                yield edit(self.program, site, wrong), wrong

    def _first_need(self, site: Site, data: Bytes) -> Any:
        """Return the first later thing that takes bytes from main memory that a statement put there."""
        for later in self.after(site):
            s = later.statement
            if not isinstance(s, Move) or s.data.tensor != data.tensor or "main" not in (s.source, s.target):
                continue
            if s.data.start < data.stop and data.start < s.data.stop:
                return s if s.source == "main" else None
        if self.kinds[data.tensor] == "output":
            return next(tensor for tensor in self.program.tensors if tensor.name == data.tensor)
        return None

    def fault_not_written_back(self):
        for site in self.of(Move):
            if site.statement.target == "main" and isinstance(site.statement.source, Indices):
                need = self._first_need(site, site.statement.data)
                if need is not None and site.statement.data.size_bytes:
                    yield edit(self.program, site), need

    def fault_written_back_too_early(self):
        for site in self.of(Move):
            if site.stage == FINISH:
                segment = self.program.segments[site.segment]
                written = {
                    a for stage in segment.stages for s in stage.body if isinstance(s, MemoryWrite) for a in s.arrays
                }
                kept = {
                    a
                    for number in range(site.segment)
                    for stage in self.program.segments[number].stages
                    for s in stage.body
                    if isinstance(s, MemoryWrite) and s.data.tensor == site.statement.data.tensor
                    for a in s.arrays
                }
                if written & set(site.statement.source) - kept:
                    moved = replace(
                        segment,
                        prepare=(*segment.prepare, site.statement),
                        finish=tuple(s for s in segment.finish if s is not site.statement),
                    )
                    yield with_segment(self.program, site.segment, moved), site.statement

    def fault_dropped_too_early(self):
        for site in self.of(MemoryRead):
            drop = MemoryDrop(site.statement.arrays)
            if site.statement.data.size_bytes:
                segment = self.program.segments[site.segment]
                before = {
                    a
                    for stage in segment.stages
                    for s in stage.body
                    if isinstance(s, MemoryWrite | Move)
                    for a in arrays_used(s)
                }
                if not before & set(drop.arrays):
                    # The data were kept from the segment before.
                    changed = replace(segment, prepare=(*segment.prepare, drop))
                    reads = [
                        s
                        for stage in segment.stages
                        for s in stage.body
                        if isinstance(s, MemoryRead) and set(s.arrays) & set(drop.arrays)
                    ]
                    yield with_segment(self.program, site.segment, changed), reads

    def fault_dropped_twice(self):
        for site in self.of(MemoryDrop):
            again = replace(site.statement)
            yield edit(self.program, site, site.statement, again), again

    def fault_buffer_outside_a_stage(self):
        for site in self.of(Move):
            if site.stage < 0:
                wrong = replace(site.statement, source="buffer")
                yield edit(self.program, site, wrong), wrong

    # Order

    def fault_consumer_before_producer(self):
        for number, segment in enumerate(self.program.segments):
            for at in range(len(segment.stages) - 1):
                one, two = segment.stages[at : at + 2]
                result = self.decls[one.operator].writes
                if result == self.decls[two.operator].writes:
                    continue
                uses = [s for s in two.body if isinstance(s, MemoryRead | Move) and s.data.tensor == result]
                stored = [s for s in one.body if isinstance(s, MemoryWrite | Move) and s.data.tensor == result]
                touched = [
                    u for u in uses if any(s.data.start < u.data.stop and u.data.start < s.data.stop for s in stored)
                ]
                if touched:
                    stages = (*segment.stages[:at], two, one, *segment.stages[at + 2 :])
                    yield with_segment(self.program, number, replace(segment, stages=stages)), touched

    def fault_stage_deleted(self):
        for number, segment in enumerate(self.program.segments):
            for at, stage in enumerate(segment.stages):
                decl = self.decls[stage.operator]
                yield with_segment(self.program, number, with_stage(segment, at)), ("anywhere", decl)

    def fault_stage_twice(self):
        for number, segment in enumerate(self.program.segments):
            for at, stage in enumerate(segment.stages):
                again = replace(stage)
                yield with_segment(self.program, number, with_stage(segment, at, stage, again)), again

    def fault_stage_of_an_unknown_operator(self):
        for number, segment in enumerate(self.program.segments):
            for at, stage in enumerate(segment.stages):
                wrong = replace(stage, operator="nobody")
                yield with_segment(self.program, number, with_stage(segment, at, wrong)), wrong

    def fault_segments_swapped(self):
        for number in range(len(self.program.segments) - 1):
            one, two = self.program.segments[number : number + 2]
            segments = (*self.program.segments[:number], two, one, *self.program.segments[number + 2 :])
            yield replace(self.program, segments=segments), two

    def fault_segment_deleted(self):
        for number, segment in enumerate(self.program.segments):
            rest = [*self.program.segments[:number], *self.program.segments[number + 1 :]]
            program = replace(self.program, segments=tuple(replace(s, index=at) for at, s in enumerate(rest)))
            yield program, ("anywhere", [self.decls[stage.operator] for stage in segment.stages])

    # Declarations

    def fault_made_for_another_chip(self):
        for name in ("arrays", "rows", "columns", "columns_per_weight", "array_bytes"):
            chip = replace(self.program.chip, **{name: getattr(self.program.chip, name) + 1})
            yield replace(self.program, chip=chip), chip

    def fault_tensor_not_declared(self):
        for at, tensor in enumerate(self.program.tensors):
            users = [
                decl
                for decl in self.program.operators
                if tensor.name in (*decl.matrix, *decl.reads, *decl.adds, decl.writes)
            ]
            if users:
                tensors = (*self.program.tensors[:at], *self.program.tensors[at + 1 :])
                yield replace(self.program, tensors=tensors), users

    def fault_declared_twice(self):
        for tensor in self.program.tensors:
            again = replace(tensor)
            yield replace(self.program, tensors=(*self.program.tensors, again)), again
        for operator in self.program.operators:
            again = replace(operator)
            yield replace(self.program, operators=(*self.program.operators, again)), again

    def fault_operator_added(self):
        for operator in self.program.operators:
            extra = replace(operator, name=f"{operator.name} again")
            yield replace(self.program, operators=(*self.program.operators, extra)), extra

    def fault_result_declared_as_input(self):
        for at, tensor in enumerate(self.program.tensors):
            if tensor.kind in ("value", "output"):
                wrong = replace(tensor, kind="input")
                tensors = (*self.program.tensors[:at], wrong, *self.program.tensors[at + 1 :])
                makers = [decl for decl in self.program.operators if decl.writes == tensor.name]
                yield replace(self.program, tensors=tensors), makers
