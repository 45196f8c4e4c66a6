"""Programs as text: one declaration or statement a line, the same program always the same text."""

from __future__ import annotations

from collections.abc import Iterator

from cimplan.program.language import (
    Bytes,
    Indices,
    MemoryDrop,
    MemoryRead,
    MemoryWrite,
    Move,
    Multiply,
    OperatorDecl,
    PrepareStatement,
    Program,
    StageStatement,
    Switch,
    TensorDecl,
    Tiles,
    WriteMatrix,
)

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def print_program(program: Program) -> str:
    """Return the canonical text of a program; `parser.parse_program` reads it back unchanged."""
    return "\n".join(program_lines(program)) + "\n"


def program_lines(program: Program) -> Iterator[str]:
    """Yield the canonical text of a program line by line, without line ends."""
    yield f"program {program.version};"
    yield f"tool {quote(program.tool)};"
    yield f"model {quote(program.model)};"
    chip = program.chip
    yield (
        f"chip {quote(chip.name)} arrays {chip.arrays} rows {chip.rows} columns {chip.columns} "
        f"columns_per_weight {chip.columns_per_weight} array_bytes {chip.array_bytes};"
    )
    yield f"packing {program.packing};"
    yield f"memory_first {_arrays(program.memory_first)};"
    yield ""
    for tensor in program.tensors:
        yield _tensor(tensor)
    for operator in program.operators:
        yield _operator(operator)
    for segment in program.segments:
        yield ""
        yield f"segment {segment.index} {{"
        for statement in segment.prepare:
            yield f"  {statement_text(statement)}"
        yield "  parallel {"
        for stage in segment.stages:
            yield f"    stage {quote(stage.operator)} {{"
            for step in stage.body:
                yield f"      {statement_text(step)}"
            yield "    }"
        yield "  }"
        for last in segment.finish:
            yield f"  {statement_text(last)}"
        yield "}"


def statement_text(statement: StageStatement | PrepareStatement) -> str:
    """Return one statement as it stands in a program, with its semicolon."""
    match statement:
        case Multiply(arrays, tiles, mvms):
            return f"CIM.read_xb({_arrays(arrays)}, {_tiles(tiles)}, mvms {mvms});"
        case WriteMatrix(arrays, tiles):
            return f"CIM.write_xb({_arrays(arrays)}, {_tiles(tiles)});"
        case MemoryRead(arrays, data):
            return f"MEM.read({_arrays(arrays)}, {_bytes(data)});"
        case MemoryWrite(arrays, data):
            return f"MEM.write({_arrays(arrays)}, {_bytes(data)});"
        case Move(source, target, data):
            return f"Mov({_place(source)}, {_place(target)}, {_bytes(data)});"
        case Switch(mode, arrays):
            return f"CM.switch({mode}, {_arrays(arrays)});"
        case MemoryDrop(arrays):
            return f"MEM.drop({_arrays(arrays)});"


def quote(text: str) -> str:
    """Return a name in double quotes; what is not printable is written by its code point."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = (_ESCAPES.get(char) or (char if char.isprintable() else f"\\u{{{ord(char):x}}}") for char in text)
    return f'"{"".join(parts)}"'


def _tensor(tensor: TensorDecl) -> str:
    return f"tensor {quote(tensor.name)} bytes {tensor.size_bytes} {tensor.kind};"


def _operator(operator: OperatorDecl) -> str:
    lists = "".join(
        f" {word} {', '.join(map(quote, names))}"
        for word, names in (("matrix", operator.matrix), ("reads", operator.reads), ("adds", operator.adds))
        if names
    )
    return (
        f"operator {quote(operator.name)} inputs {operator.inputs} outputs {operator.outputs} "
        f"groups {operator.groups} mvms {operator.mvms} moves {operator.moved_bytes}{lists} "
        f"writes {quote(operator.writes)};"
    )


def _indices(indices: Indices) -> str:
    return ",".join(f"{first}..{last}" if first < last else f"{first}" for first, last in indices.ranges)


def _arrays(arrays: Indices) -> str:
    return f"a[{_indices(arrays)}]"


def _tiles(tiles: Tiles) -> str:
    boxes = (
        f"[{box.groups[0]}:{box.groups[1]}, {box.inputs[0]}:{box.inputs[1]}, {box.outputs[0]}:{box.outputs[1]}]"
        for box in tiles.boxes
    )
    return quote(tiles.operator) + "".join(boxes)


def _bytes(data: Bytes) -> str:
    return f"{quote(data.tensor)}[{data.start}:{data.stop}]"


def _place(place: str | Indices) -> str:
    return _arrays(place) if isinstance(place, Indices) else place
