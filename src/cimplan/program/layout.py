"""Lines of a program that has not been parsed: those it has in its canonical text."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from cimplan.program.language import OperatorDecl, Program, Segment, Stage, TensorDecl

_Line = TypeVar("_Line", TensorDecl, OperatorDecl)

_CHIP_LINE = 4
_LINES_BEFORE_DECLARATIONS = 7


def with_lines(program: Program) -> Program:
    """Return the program with the line that each part has in the text of `printer.print_program`."""
    line = _LINES_BEFORE_DECLARATIONS
    tensors = _numbered(program.tensors, line)
    line += len(tensors)
    operators = _numbered(program.operators, line)
    line += len(operators)
    segments: list[Segment] = []
    for segment in program.segments:
        head = line + 2
        prepare = tuple(replace(statement, line=head + 1 + at) for at, statement in enumerate(segment.prepare))
        line = head + len(prepare) + 1
        stages: list[Stage] = []
        for stage in segment.stages:
            body = tuple(replace(statement, line=line + 2 + at) for at, statement in enumerate(stage.body))
            stages.append(Stage(stage.operator, body, line=line + 1))
            line += len(body) + 2
        line += 1
        finish = tuple(replace(statement, line=line + 1 + at) for at, statement in enumerate(segment.finish))
        line += len(finish) + 1
        segments.append(Segment(segment.index, prepare, tuple(stages), finish, line=head))
    return replace(
        program,
        chip=replace(program.chip, line=_CHIP_LINE),
        tensors=tensors,
        operators=operators,
        segments=tuple(segments),
    )


def _numbered(parts: tuple[_Line, ...], before: int) -> tuple[_Line, ...]:
    return tuple(replace(part, line=before + 1 + at) for at, part in enumerate(parts))
