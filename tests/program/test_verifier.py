"""The verifier takes any text that parses, and its report says where things are wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_text import programs
from toy_plans import toy_chip, toy_plan

from cimplan.errors import InputError, NoAnswerError
from cimplan.program.generate import generate
from cimplan.program.parser import parse_program
from cimplan.program.printer import print_program
from cimplan.program.verifier import verify


@settings(deadline=None, max_examples=150)
@given(programs)
def test_any_program_is_judged(program):
    report = verify(program, toy_chip())
    assert not report.ok
    lines = print_program(program).count("\n")
    assert all(1 <= violation.line <= lines for violation in report.violations)
    assert all(0 <= violation.cause <= lines for violation in report.violations)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 50), st.data())
def test_any_number_may_be_wrong(seed, data):
    """A good program with some of its numbers replaced, by huge ones too: a report, never an exception."""
    plan = toy_plan(seed)
    text = print_program(generate(plan))
    numbers = list(re.finditer(r"\d+", text.replace('"', " ")))
    for _ in range(data.draw(st.integers(1, 3))):
        found = data.draw(st.sampled_from(numbers))
        number = data.draw(st.sampled_from([0, 1, 2, 7, 10**6, 10**17]))
        text = text[: found.start()] + str(number)[: len(found[0])].ljust(len(found[0]), "0") + text[found.end() :]
        if data.draw(st.booleans()):
            text = text[: found.start()] + str(number) + text[found.end() :]
            break
    try:
        program = parse_program(text)
    except InputError:
        return
    verify(program, plan.chip)


def test_a_bad_program_is_refused_with_its_first_faults():
    plan = toy_plan(3)
    program = generate(plan)
    other = toy_chip(arrays=plan.chip.arrays + 1, rows=9, columns=10, columns_per_weight=1, cell_bits=1)
    with pytest.raises(NoAnswerError, match=r"line 4: .* and .* more"):
        verify(program, other).require_ok("toy.mop")
    verify(program, plan.chip).require_ok()


def test_a_hopeless_program_is_given_up():
    plan = toy_plan(4)
    program = generate(plan)
    declarations = (*program.tensors, *program.tensors * 300)
    report = verify(type(program)(**{**_fields(program), "tensors": declarations}), plan.chip)
    assert report.truncated
    assert len(report.violations) == 200


def test_absurd_sizes_take_no_time():
    text = """program 1; tool ""; model "m";
chip "toy" arrays 12 rows 8 columns 8 columns_per_weight 2 array_bytes 64; packing one_per_group; memory_first a[];
tensor "x" bytes 100000000000000000 input;
tensor "w" bytes 100000000000000000 constant;
tensor "y" bytes 100000000000000000 output;
operator "op" inputs 2 outputs 2 groups 100000000000000000 mvms 1 moves 1 matrix "w" reads "x" writes "y";
segment 0 { CIM.write_xb(a[0], "op"[0:100000000000000000, 0:1, 0:1]); parallel { stage "op" {
Mov(main, buffer, "x"[0:100000000000000000]);
CIM.read_xb(a[0..11], "op"[0:100000000000000000, 0:1, 0:1], mvms 1);
Mov(buffer, a[0..99999999999999999], "y"[0:100000000000000000]);
} } }
"""
    report = verify(parse_program(text), toy_chip())
    assert {violation.rule for violation in report.violations} == {"capacity", "result", "stage"}


def _fields(program):
    return {name: getattr(program, name) for name in program.__dataclass_fields__}
