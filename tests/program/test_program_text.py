"""Programs as text: printing and parsing undo each other, and what is no program is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_text import programs

from cimplan.errors import InputError
from cimplan.program.language import Indices
from cimplan.program.layout import with_lines
from cimplan.program.parser import parse_program, read_program
from cimplan.program.printer import print_program

HEAD = """program 1;
tool "t";
model "m";
chip "c" arrays 4 rows 8 columns 8 columns_per_weight 1 array_bytes 64;
packing block_diagonal;
memory_first a[];
"""
BODY = """
segment 0 {
  CM.switch(TOM, a[0..1,3]);
  parallel {
    stage "op" {
      Mov(main, buffer, "x"[0:4]);
      CIM.read_xb(a[2], "op"[0:1, 0:8, 0:8], mvms 4);
    }
  }
}
"""


@settings(deadline=None, max_examples=300)
@given(programs)
def test_parsing_undoes_printing(program):
    text = print_program(program)
    assert parse_program(text) == program
    assert print_program(parse_program(text)) == text


@settings(deadline=None, max_examples=100)
@given(programs, st.randoms(use_true_random=False))
def test_layout_and_comments_do_not_matter(program, rng):
    lines = print_program(program).split("\n")
    spread = "\r\n\t".join(line + rng.choice(["", '  # a "remark" {', "// another; ]"]) for line in lines)
    assert parse_program(spread) == program


@settings(deadline=None, max_examples=300)
@given(programs, st.data())
def test_damaged_text_is_parsed_or_refused_with_a_place(program, data):
    text = print_program(program)
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 5))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + length :]
    try:
        parse_program(damaged, "p.mop")
    except InputError as error:
        name, line, column = error.where.split(":")
        assert name == "p.mop"
        shown = damaged.split("\n")[int(line) - 1]
        assert 1 <= int(column) <= len(shown) + 1


def test_lines_are_those_of_the_text():
    program = parse_program(HEAD + BODY)
    segment = program.segments[0]
    assert program.chip.line == 4
    assert segment.line == 8
    assert segment.prepare[0].line == 9
    assert segment.stages[0].line == 11
    assert [step.line for step in segment.stages[0].body] == [12, 13]


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("program 1", "program 2", "1:9", "language version 1"),
        ('model "m"', "model m", "3:7", "a name in double quotes"),
        ('model "m"', 'model "m', "3:7", "does not end"),
        ('model "m"', 'model "\\q"', "3:8", "unknown escape"),
        ('model "m"', 'model "\\u{110000}"', "3:8", "unknown escape"),
        ("arrays 4", "arrays -4", "4:17", "unexpected character '-'"),
        ("arrays 4", "arrays 4000000000000000000", "4:17", "18 digits"),
        ("TOM", "tom", "9:13", "'TOC' or 'TOM'"),
        ("a[0..1,3]", "a[0..1,]", "9:25", "a whole number"),
        ("a[0..1,3]", "a[1..0,3]", "9:23", "at least 1"),
        ('"x"[0:4]', '"x"[4:0]', "12:31", "at least 4"),
        ("Mov(main", "Mov(disk", "12:11", "'main', 'buffer' or 'a[…]'"),
        ("parallel {", "serial {", "10:3", "'parallel'"),
        ("mvms 4", "4", "13:46", "'mvms'"),
        ('    stage "op" {', '    stage "op" { parallel {', "11:18", "'}', 'CIM.read_xb'"),
        ("\n}\n", "\n", "16:1", "'Mov', found the end of the text"),
    ],
)
def test_a_fault_names_line_and_column(old, new, place, message):
    text = HEAD + BODY
    assert text.count(old) == 1
    with pytest.raises(InputError) as caught:
        parse_program(text.replace(old, new), "p")
    assert caught.value.where == f"p:{place}"
    assert message in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "p.mop"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_program(path)
    with pytest.raises(InputError, match="cannot read"):
        read_program(tmp_path / "missing.mop")
    path.write_text(HEAD + BODY, encoding="utf-8")
    assert read_program(path) == parse_program(HEAD + BODY)


@given(st.lists(st.integers(0, 20), max_size=12))
def test_indices_keep_the_order(found):
    indices = Indices.of(found)
    assert list(indices) == found
    assert len(indices) == len(found)
    assert indices.largest == max(found, default=-1)
    assert indices.repeats() == (len(set(found)) < len(found))


@settings(deadline=None, max_examples=100)
@given(programs)
def test_lines_of_an_unparsed_program_are_those_of_its_text(program):
    parsed = parse_program(print_program(program))
    numbered = with_lines(program)
    # repr leaves lines out as equality does, so compare them one by one.
    assert _all_lines(numbered) == _all_lines(parsed)


def _all_lines(program):
    lines = [program.chip.line]
    lines += [decl.line for decl in (*program.tensors, *program.operators)]
    for segment in program.segments:
        lines += [segment.line, *(statement.line for statement in (*segment.prepare, *segment.finish))]
        for stage in segment.stages:
            lines += [stage.line, *(statement.line for statement in stage.body)]
    return lines
