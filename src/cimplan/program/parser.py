"""Text to program: recursive descent over a grammar of fixed depth, so any text takes linear time."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cimplan.errors import InputError
from cimplan.files import open_input
from cimplan.program.language import (
    LANGUAGE_VERSION,
    Box,
    Bytes,
    ChipFacts,
    FinishStatement,
    Indices,
    MemoryDrop,
    MemoryRead,
    MemoryWrite,
    Mode,
    Move,
    Multiply,
    OperatorDecl,
    Packing,
    Place,
    PrepareStatement,
    Program,
    Segment,
    Stage,
    StageStatement,
    Switch,
    TensorDecl,
    TensorKind,
    Tiles,
    WriteMatrix,
)
from cimplan.program.tokens import SIZE_LIMIT_CHARACTERS, Tokens

_Value = TypeVar("_Value")

_KINDS: dict[str, TensorKind] = {"input": "input", "constant": "constant", "value": "value", "output": "output"}
_MODES: dict[str, Mode] = {"TOC": "TOC", "TOM": "TOM"}
_PACKINGS: dict[str, Packing] = {"block_diagonal": "block_diagonal", "one_per_group": "one_per_group"}
_PLACES: dict[str, Place] = {"main": "main", "buffer": "buffer"}


def read_program(path: Path) -> Program:
    """Read a program from a file.

    Raises
    ------
    InputError
        If the file cannot be read, is not UTF-8 text or is not a program; with line and column.
    """
    try:
        with open_input(path, pipes=True) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig") as reader:
            text = reader.read(SIZE_LIMIT_CHARACTERS + 1)  # one more is refused as too long
    except OSError as error:
        raise InputError(
            "cannot read the program", where=str(path), why=str(error.strerror), fix="Check the name of the file"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "is not a program",
            where=str(path),
            why="it is not UTF-8 text",
            fix="Give a program as `cimplan compile --program` writes it",
        ) from error
    return parse_program(text, str(path))


def parse_program(text: str, where: str = "program") -> Program:
    """Return the program a text stands for; what it means is the verifier's business.

    Parameters
    ----------
    text : str
        The program.
    where : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        With line and column of the first thing that is not in the grammar.
    """
    tokens = Tokens(text, where)
    tokens.expect("program")
    place = tokens.place
    version = tokens.number()
    if version != LANGUAGE_VERSION:
        raise InputError(
            "the program is of another version",
            where=place,
            why=f"it is in language version {version}, and this cimplan reads language version {LANGUAGE_VERSION}",
            fix="Make it again with `cimplan compile MODEL --program FILE`, or use the cimplan that wrote it",
        )
    tokens.expect(";")
    tokens.expect("tool")
    tool = tokens.string()
    tokens.expect(";")
    tokens.expect("model")
    model = tokens.string()
    tokens.expect(";")
    chip = _chip(tokens)
    tokens.expect("packing")
    packing = _one_of(tokens, _PACKINGS)
    tokens.expect(";")
    tokens.expect("memory_first")
    memory_first = _arrays(tokens)
    tokens.expect(";")
    tensors: list[TensorDecl] = []
    operators: list[OperatorDecl] = []
    segments: list[Segment] = []
    while tokens.next == "tensor":
        tensors.append(_tensor(tokens))
    while tokens.next == "operator":
        operators.append(_operator(tokens))
    while tokens.next == "segment":
        segments.append(_segment(tokens))
    if tokens.next_kind != "end":
        tokens.fail("'segment' or the end" if segments else "'tensor', 'operator' or 'segment', in this order,")
    return Program(
        model=model,
        tool=tool,
        chip=chip,
        tensors=tuple(tensors),
        operators=tuple(operators),
        segments=tuple(segments),
        memory_first=memory_first,
        packing=packing,
        version=version,
    )


def _chip(tokens: Tokens) -> ChipFacts:
    line = tokens.line
    tokens.expect("chip")
    name = tokens.string()
    facts: list[int] = []
    for word in ("arrays", "rows", "columns", "columns_per_weight", "array_bytes"):
        tokens.expect(word)
        facts.append(tokens.number())
    tokens.expect(";")
    arrays, rows, columns, columns_per_weight, array_bytes = facts
    return ChipFacts(name, arrays, rows, columns, columns_per_weight, array_bytes, line=line)


def _tensor(tokens: Tokens) -> TensorDecl:
    line = tokens.line
    tokens.expect("tensor")
    name = tokens.string()
    tokens.expect("bytes")
    size = tokens.number()
    kind = _one_of(tokens, _KINDS)
    tokens.expect(";")
    return TensorDecl(name, size, kind, line=line)


def _operator(tokens: Tokens) -> OperatorDecl:
    line = tokens.line
    tokens.expect("operator")
    name = tokens.string()
    sizes: list[int] = []
    for word in ("inputs", "outputs", "groups", "mvms", "moves"):
        tokens.expect(word)
        sizes.append(tokens.number())
    inputs, outputs, groups, mvms, moved_bytes = sizes
    matrix = _names(tokens, "matrix")
    reads = _names(tokens, "reads")
    adds = _names(tokens, "adds")
    tokens.expect("writes")
    writes = tokens.string()
    tokens.expect(";")
    return OperatorDecl(
        name=name,
        inputs=inputs,
        outputs=outputs,
        groups=groups,
        mvms=mvms,
        moved_bytes=moved_bytes,
        matrix=matrix,
        reads=reads,
        adds=adds,
        writes=writes,
        line=line,
    )


def _names(tokens: Tokens, word: str) -> tuple[str, ...]:
    if not tokens.accept(word):
        return ()
    names = [tokens.string()]
    while tokens.accept(","):
        names.append(tokens.string())
    return tuple(names)


def _segment(tokens: Tokens) -> Segment:
    line = tokens.line
    tokens.expect("segment")
    index = tokens.number()
    tokens.expect("{")
    prepare: list[PrepareStatement] = []
    while (parse := _PREPARE.get(tokens.next)) is not None:
        prepare.append(parse(tokens))
    if not tokens.accept("parallel"):
        tokens.fail("'parallel', 'CM.switch', 'CIM.write_xb', 'MEM.drop' or 'Mov'")
    tokens.expect("{")
    stages: list[Stage] = []
    while tokens.next == "stage":
        stages.append(_stage(tokens))
    if not tokens.accept("}"):
        tokens.fail("'stage' or '}'")
    finish: list[FinishStatement] = []
    while (parse_last := _FINISH.get(tokens.next)) is not None:
        finish.append(parse_last(tokens))
    if not tokens.accept("}"):
        tokens.fail("'}', 'MEM.drop' or 'Mov'")
    return Segment(index, tuple(prepare), tuple(stages), tuple(finish), line=line)


def _stage(tokens: Tokens) -> Stage:
    line = tokens.line
    tokens.expect("stage")
    operator = tokens.string()
    tokens.expect("{")
    body: list[StageStatement] = []
    while (parse := _STAGE.get(tokens.next)) is not None:
        body.append(parse(tokens))
    if not tokens.accept("}"):
        tokens.fail("'}', 'CIM.read_xb', 'CIM.write_xb', 'MEM.read', 'MEM.write' or 'Mov'")
    return Stage(operator, tuple(body), line=line)


def _switch(tokens: Tokens) -> Switch:
    line = _open(tokens, "CM.switch")
    mode = _one_of(tokens, _MODES)
    tokens.expect(",")
    arrays = _arrays(tokens)
    _close(tokens)
    return Switch(mode, arrays, line=line)


def _write_matrix(tokens: Tokens) -> WriteMatrix:
    line = _open(tokens, "CIM.write_xb")
    arrays = _arrays(tokens)
    tokens.expect(",")
    tiles = _tiles(tokens)
    _close(tokens)
    return WriteMatrix(arrays, tiles, line=line)


def _multiply(tokens: Tokens) -> Multiply:
    line = _open(tokens, "CIM.read_xb")
    arrays = _arrays(tokens)
    tokens.expect(",")
    tiles = _tiles(tokens)
    tokens.expect(",")
    tokens.expect("mvms")
    mvms = tokens.number()
    _close(tokens)
    return Multiply(arrays, tiles, mvms, line=line)


def _memory_read(tokens: Tokens) -> MemoryRead:
    line = _open(tokens, "MEM.read")
    arrays = _arrays(tokens)
    tokens.expect(",")
    data = _bytes(tokens)
    _close(tokens)
    return MemoryRead(arrays, data, line=line)


def _memory_write(tokens: Tokens) -> MemoryWrite:
    line = _open(tokens, "MEM.write")
    arrays = _arrays(tokens)
    tokens.expect(",")
    data = _bytes(tokens)
    _close(tokens)
    return MemoryWrite(arrays, data, line=line)


def _memory_drop(tokens: Tokens) -> MemoryDrop:
    line = _open(tokens, "MEM.drop")
    arrays = _arrays(tokens)
    _close(tokens)
    return MemoryDrop(arrays, line=line)


def _move(tokens: Tokens) -> Move:
    line = _open(tokens, "Mov")
    source = _place(tokens)
    tokens.expect(",")
    target = _place(tokens)
    tokens.expect(",")
    data = _bytes(tokens)
    _close(tokens)
    return Move(source, target, data, line=line)


_PREPARE: dict[str, Callable[[Tokens], PrepareStatement]] = {
    "CM.switch": _switch,
    "CIM.write_xb": _write_matrix,
    "MEM.drop": _memory_drop,
    "Mov": _move,
}
_FINISH: dict[str, Callable[[Tokens], FinishStatement]] = {"MEM.drop": _memory_drop, "Mov": _move}
_STAGE: dict[str, Callable[[Tokens], StageStatement]] = {
    "CIM.write_xb": _write_matrix,
    "CIM.read_xb": _multiply,
    "MEM.read": _memory_read,
    "MEM.write": _memory_write,
    "Mov": _move,
}


def _open(tokens: Tokens, word: str) -> int:
    line = tokens.line
    tokens.expect(word)
    tokens.expect("(")
    return line


def _close(tokens: Tokens) -> None:
    tokens.expect(")")
    tokens.expect(";")


def _one_of(tokens: Tokens, known: dict[str, _Value]) -> _Value:
    value = known.get(tokens.next)
    if value is None:
        tokens.fail(" or ".join(f"'{word}'" for word in known))
    tokens.expect(tokens.next)
    return value


def _place(tokens: Tokens) -> Place | Indices:
    if tokens.next == "a":
        return _arrays(tokens)
    if tokens.next not in _PLACES:
        tokens.fail("'main', 'buffer' or 'a[…]'")
    return _one_of(tokens, _PLACES)


def _arrays(tokens: Tokens) -> Indices:
    tokens.expect("a")
    return _indices(tokens)


def _tiles(tokens: Tokens) -> Tiles:
    operator = tokens.string()
    boxes = [_box(tokens)]
    while tokens.next == "[":
        boxes.append(_box(tokens))
    return Tiles(operator, tuple(boxes))


def _box(tokens: Tokens) -> Box:
    tokens.expect("[")
    groups = _span(tokens)
    tokens.expect(",")
    inputs = _span(tokens)
    tokens.expect(",")
    outputs = _span(tokens)
    tokens.expect("]")
    return Box(groups, inputs, outputs)


def _span(tokens: Tokens) -> tuple[int, int]:
    start = tokens.number()
    tokens.expect(":")
    if tokens.next_kind == "number" and int(tokens.next[:20]) < start:
        tokens.fail(f"the end of the range, at least {start}")
    return start, tokens.number()


def _bytes(tokens: Tokens) -> Bytes:
    tensor = tokens.string()
    tokens.expect("[")
    start, stop = _span(tokens)
    tokens.expect("]")
    return Bytes(tensor, start, stop)


def _indices(tokens: Tokens) -> Indices:
    tokens.expect("[")
    ranges: list[tuple[int, int]] = []
    while tokens.next != "]":
        first = tokens.number()
        last = first
        if tokens.accept(".."):
            if tokens.next_kind == "number" and int(tokens.next[:20]) < first:
                tokens.fail(f"the last number of the range, at least {first}")
            last = tokens.number()
        ranges.append((first, last))
        if not tokens.accept(","):
            break
        if tokens.next == "]":
            tokens.fail("a whole number")
    tokens.expect("]")
    return Indices(tuple(ranges))
