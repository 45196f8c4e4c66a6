"""Whether a program may run on a chip: a symbolic run of every statement, with the line of what is wrong.

The verifier knows what each array holds, what is in main memory and how far each operator has come, and it knows
nothing of plans or solvers. After a violation it goes on as if the statement had been right, so that one fault is
reported once as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterable

from cimplan.hardware.schema import DualModeChip
from cimplan.limits import watch
from cimplan.program.declarations import check_chip, declared
from cimplan.program.language import (
    Box,
    Bytes,
    Indices,
    MemoryDrop,
    MemoryRead,
    MemoryWrite,
    Move,
    Multiply,
    OperatorDecl,
    Program,
    Segment,
    Stage,
    Switch,
    Tiles,
    WriteMatrix,
)
from cimplan.program.layout import with_lines
from cimplan.program.printer import quote
from cimplan.program.state import Held, Loaded, StageState, TensorState
from cimplan.program.symbolic import SymbolicChip, TooManyError, byte_range
from cimplan.program.tiling import (
    arrays_of_box,
    input_shares,
    matrix_shares,
    output_shares,
    output_spans,
    outputs_of_bytes,
)
from cimplan.program.violations import VerifyReport


def verify(program: Program, chip: DualModeChip) -> VerifyReport:
    """Check every rule of ``docs/meta-operators.md``.

    Parameters
    ----------
    program : Program
        From the parser, or from the generator; without lines it is checked as its canonical text.
    chip : DualModeChip
        The chip it shall run on.

    Returns
    -------
    VerifyReport
        All violations, or the first `symbolic.VIOLATION_LIMIT`.
    """
    if not program.chip.line:
        program = with_lines(program)
    run = _Run(program, chip)
    try:
        run.all()
    except TooManyError:
        return VerifyReport(tuple(run.violations), run.statements, truncated=True)
    return VerifyReport(tuple(run.violations), run.statements)


class _Run(SymbolicChip):
    """The symbolic run."""

    def __init__(self, program: Program, chip: DualModeChip) -> None:
        super().__init__(chip)
        self.program = program
        self.statements = 0
        self.segment = 0

    def all(self) -> None:
        """Read the whole program."""
        program = self.program
        check_chip(program, self.chip, self.report)
        self.tensors, self.operators = declared(program, self.report)
        if program.memory_first.ranges and self.known(program.memory_first, program.chip.line):
            for array in program.memory_first:
                self.computes[array] = False
        for position, segment in enumerate(program.segments):
            if segment.index != position:
                self.report(segment.line, "order", f"segment {segment.index} stands where segment {position} should")
            self.segment = position
            self._segment(segment)
        self._end()

    def _segment(self, segment: Segment) -> None:
        watch()
        for statement in segment.prepare:
            self.statements += 1
            match statement:
                case Switch():
                    self.switch(statement)
                case WriteMatrix():
                    self._write_matrix(statement, None)
                case MemoryDrop():
                    self.drop(statement)
                case Move():
                    self.move(statement)
        for stage in segment.stages:
            self._stage(stage)
        for last in segment.finish:
            self.statements += 1
            if isinstance(last, Move):
                self.move(last)
            else:
                self.drop(last)

    # Weights

    def _boxes(self, tiles: Tiles, line: int) -> OperatorDecl | None:
        """Return the operator of boxes that lie within its matrix."""
        state = self.operators.get(tiles.operator)
        if state is None:
            self.report(line, "declaration", f"operator {quote(tiles.operator)} is not declared")
            return None
        decl = state.decl
        for box in tiles.boxes:
            if not box.weights:
                self.report(line, "weights", "a box holds no weights")
                return None
            if box.groups[1] > decl.groups or box.inputs[1] > decl.inputs or box.outputs[1] > decl.outputs:
                self.report(
                    line,
                    "weights",
                    f"the box leaves the matrix of {quote(decl.name)}, which is "
                    f"[0:{decl.groups}, 0:{decl.inputs}, 0:{decl.outputs}]",
                    decl.line,
                )
                return None
        return decl

    def _needed(self, boxes: Iterable[Box]) -> int:
        return sum(arrays_of_box(box, self.chip.rows, self.chip.weight_columns, self.program.packing) for box in boxes)

    def _write_matrix(self, statement: WriteMatrix, stage: StageState | None) -> None:
        line, tiles = statement.line, statement.tiles
        decl = self._boxes(tiles, line)
        if decl is None or not self.in_mode(statement.arrays, True, line):
            return
        self._matrix_is_there(decl, tiles, stage, line)
        needed = self._needed(tiles.boxes)
        if len(statement.arrays) < needed:
            self.report(
                line,
                "capacity",
                f"{len(statement.arrays)} arrays are given, and the weights take {needed} of "
                f"{self.chip.rows} x {self.chip.weight_columns} weights",
            )
            return
        for number, array in enumerate(statement.arrays):
            before = self.contents[array]
            if isinstance(before, Loaded) and before.segment == self.segment:
                self.report(
                    line,
                    "role",
                    f"array {array} already holds weights of {quote(before.operator)} in this segment",
                    before.line,
                )
            self.contents[array] = Loaded(tiles.operator, tiles.boxes, number % needed, self.segment, line)

    def _matrix_is_there(self, decl: OperatorDecl, tiles: Tiles, stage: StageState | None, line: int) -> None:
        for name in decl.matrix:
            tensor = self.tensors.get(name)
            if tensor is None or tensor.decl.kind == "constant":
                continue
            if stage is None:
                self.report(
                    line, "stage", f"the matrix of {quote(decl.name)} is made at run time: write it inside its stage"
                )
                return
            for start, stop in matrix_shares(decl, tiles.boxes, tensor.decl.size_bytes):
                gap = stage.missing(name, start, stop)
                if gap:
                    self.report(line, "data", f"{byte_range(name, gap)} of the matrix is not in the buffer")
                    stage.fetch(name, start, stop)

    def _multiply(self, statement: Multiply, stage: StageState) -> None:
        line, tiles = statement.line, statement.tiles
        decl = self._boxes(tiles, line)
        if decl is None:
            return
        if decl.name != stage.operator.name:
            self.report(line, "stage", f"{quote(decl.name)} is multiplied in the stage of {quote(stage.operator.name)}")
            return
        if statement.mvms != decl.mvms:
            self.report(
                line, "weights", f"{statement.mvms} input vectors are multiplied and there are {decl.mvms}", decl.line
            )
        if self._needed(tiles.boxes) > self.chip.arrays:
            # Nothing could hold them; to follow them up might take for ever.
            self.report(line, "capacity", "the weights take more arrays than the chip has")
            return
        if self.in_mode(statement.arrays, True, line):
            self._weights_are_there(statement)
        for name in decl.reads:
            tensor = self.tensors.get(name)
            for start, stop in input_shares(decl, tiles.boxes, tensor.decl.size_bytes) if tensor else ():
                gap = stage.missing(name, start, stop)
                if gap:
                    self.report(line, "data", f"{byte_range(name, gap)} is multiplied and is not in the buffer")
                    stage.fetch(name, start, stop)
        result = self.tensors.get(decl.writes)
        if result is None:
            return
        self._continue_sums(decl, tiles, result, stage, line)
        products = self.operators[decl.name].products
        for box in tiles.boxes:
            fresh = [products.add(span, box.inputs) for span in output_spans(decl, box)]
            if not all(fresh):
                self.report(line, "weights", f"weights of {quote(decl.name)} are multiplied a second time")
        for start, stop in output_shares(decl, tiles.boxes, result.decl.size_bytes):
            stage.produced.add(start, stop)
            stage.saved.remove(start, stop)
        stage.multiply_line = line

    def _weights_are_there(self, statement: Multiply) -> None:
        tiles = statement.tiles
        needed = self._needed(tiles.boxes)
        if len(statement.arrays) < needed:
            self.report(
                statement.line,
                "weights",
                f"{len(statement.arrays)} arrays multiply weights that take {needed} arrays",
            )
            return
        for number, array in enumerate(statement.arrays):
            held = self.contents[array]
            if not isinstance(held, Loaded):
                self.report(statement.line, "weights", f"array {array} multiplies and holds no weights")
            elif held.operator != tiles.operator:
                self.report(
                    statement.line,
                    "weights",
                    f"array {array} holds weights of {quote(held.operator)}, not of {quote(tiles.operator)}",
                    held.line,
                )
            elif held.index != number % needed or (held.boxes is not tiles.boxes and held.boxes != tiles.boxes):
                self.report(statement.line, "weights", f"array {array} holds other weights than named", held.line)
            else:
                continue
            return

    def _continue_sums(
        self, decl: OperatorDecl, tiles: Tiles, result: TensorState, stage: StageState, line: int
    ) -> None:
        """Partial sums of an earlier segment must be in the buffer; what is stored of them is old from now on."""
        products = self.operators[decl.name].products
        outputs = decl.groups * decl.outputs
        size = result.decl.size_bytes
        for box in tiles.boxes:
            for span in output_spans(decl, box):
                for first, last in products.begun(span):
                    start, stop = size * first // outputs, size * last // outputs
                    gap = stage.missing(decl.writes, start, stop)
                    if gap and stage.produced.gap(*gap):
                        self.report(line, "data", f"partial sums {byte_range(decl.writes, gap)} are not in the buffer")
                    result.main.remove(start, stop)
                    result.lost_line = line
                    for content in self.contents:
                        if isinstance(content, Held) and content.tensor == decl.writes:
                            content.ranges.remove(start, stop)

    # Data

    def _is_final(self, state: TensorState, data: Bytes, line: int, reader: str) -> None:
        """Only the maker of a tensor may read it while it is made of partial sums."""
        maker = state.maker
        if maker is None or maker.name == reader or data.start >= data.stop:
            return
        span = outputs_of_bytes(maker, state.decl.size_bytes, data.start, data.stop)
        lacking = self.operators[maker.name].products.unfinished(span)
        if lacking:
            self.report(
                line,
                "data",
                f"{quote(data.tensor)} is read before {quote(maker.name)} has finished its outputs "
                f"{lacking[0]} to {lacking[1] - 1}",
            )

    # Stages

    def _stage(self, stage: Stage) -> None:
        operator = self.operators.get(stage.operator)
        if operator is None:
            self.report(stage.line, "declaration", f"operator {quote(stage.operator)} is not declared")
            return
        if operator.last_segment == self.segment:
            self.report(stage.line, "stage", f"{quote(stage.operator)} has two stages in this segment")
        operator.last_segment = self.segment
        state = StageState(operator.decl)
        for statement in stage.body:
            self.statements += 1
            match statement:
                case Multiply():
                    self._multiply(statement, state)
                case WriteMatrix():
                    if statement.tiles.operator != stage.operator:
                        other = quote(statement.tiles.operator)
                        self.report(
                            statement.line, "stage", f"weights of {other} are written in the stage of another operator"
                        )
                    else:
                        self._write_matrix(statement, state)
                case MemoryRead(arrays, data):
                    self._fetch(arrays, data, state, statement.line)
                case MemoryWrite(arrays, data):
                    self._store(arrays, data, state, statement.line)
                case Move():
                    self._stage_move(statement, state)
        if not state.multiply_line:
            self.report(stage.line, "stage", f"the stage of {quote(stage.operator)} multiplies nothing")
        for start, stop in state.produced:
            gap = state.saved.gap(start, stop)
            if gap:
                self.report(
                    state.multiply_line, "result", f"result {byte_range(operator.decl.writes, gap)} is put nowhere"
                )

    def _stage_move(self, statement: Move, stage: StageState) -> None:
        source, target, line = statement.source, statement.target, statement.line
        if target == "buffer" and source == "main":
            self._fetch(source, statement.data, stage, line)
        elif source == "buffer" and target == "main":
            self._store(target, statement.data, stage, line)
        elif source == "main" and isinstance(target, Indices):
            self._is_final_by_name(statement.data, line, stage)
            self.move(statement)
        else:
            self.report(line, "stage", "a stage moves from main to buffer, from buffer to main, or from main to arrays")

    def _is_final_by_name(self, data: Bytes, line: int, stage: StageState) -> None:
        state = self.tensors.get(data.tensor)
        if state is not None:
            self._is_final(state, data, line, stage.operator.name)

    def _fetch(self, source: Indices | str, data: Bytes, stage: StageState, line: int) -> None:
        state = self.within(data, line)
        if state is None:
            return
        decl = stage.operator
        if data.tensor not in (*decl.reads, *decl.adds, *decl.matrix, decl.writes):
            self.report(line, "stage", f"{quote(decl.name)} has no use for {quote(data.tensor)}", decl.line)
        if not isinstance(source, Indices):
            self.in_main(state, data, line)
        elif self.in_mode(source, False, line):
            self.in_arrays(state, source, data, line)
        self._is_final(state, data, line, decl.name)
        stage.fetch(data.tensor, data.start, data.stop)

    def _store(self, target: Indices | str, data: Bytes, stage: StageState, line: int) -> None:
        state = self.within(data, line)
        if state is None:
            return
        decl = stage.operator
        if data.tensor != decl.writes:
            self.report(line, "stage", f"{quote(data.tensor)} is not the result of {quote(decl.name)}", decl.line)
            return
        gap = stage.produced.gap(data.start, data.stop)
        if gap:
            self.report(line, "result", f"{byte_range(data.tensor, gap)} has not been computed in this stage")
        self._riders_are_served(decl, state, data, stage, line)
        if not isinstance(target, Indices):
            state.main.add(data.start, data.stop)
        elif self.in_mode(target, False, line):
            self.into_arrays(target, data, line)
        stage.saved.add(data.start, data.stop)

    def _riders_are_served(
        self, decl: OperatorDecl, result: TensorState, data: Bytes, stage: StageState, line: int
    ) -> None:
        """What element-wise work adds to finished outputs must be in the buffer: the same share of each tensor."""
        if not decl.adds or data.start >= data.stop:
            return
        size = result.decl.size_bytes
        span = outputs_of_bytes(decl, size, data.start, data.stop)
        if self.operators[decl.name].products.unfinished(span):
            return
        for name in decl.adds:
            tensor = self.tensors.get(name)
            if tensor is None:
                continue
            start = tensor.decl.size_bytes * data.start // size
            stop = tensor.decl.size_bytes * data.stop // size
            gap = stage.missing(name, start, stop)
            if gap:
                self.report(line, "data", f"{byte_range(name, gap)} is needed for this result and is not in the buffer")
                stage.fetch(name, start, stop)

    # The end

    def _end(self) -> None:
        for operator in self.operators.values():
            decl = operator.decl
            lacking = operator.products.unfinished((0, decl.groups * decl.outputs))
            if lacking:
                self.report(
                    decl.line,
                    "result",
                    f"{quote(decl.name)} never finishes its outputs {lacking[0]} to {lacking[1] - 1}",
                )
        for state in self.tensors.values():
            if state.decl.kind != "output":
                continue
            gap = state.main.gap(0, state.decl.size_bytes)
            if gap:
                self.report(
                    state.decl.line,
                    "result",
                    f"output {byte_range(state.decl.name, gap)} is not in main memory at the end",
                    state.lost_line,
                )
