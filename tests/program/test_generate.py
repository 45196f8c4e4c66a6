"""Programs of random plans keep every rule."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from toy_plans import toy_plan

from cimplan.program.generate import generate
from cimplan.program.parser import parse_program
from cimplan.program.printer import print_program
from cimplan.program.verifier import verify


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32))
def test_the_program_of_any_plan_keeps_all_rules(seed):
    plan = toy_plan(seed)
    program = generate(plan)
    text = print_program(program)
    assert parse_program(text) == program
    report = verify(program, plan.chip)
    assert report.ok, f"{report.violations}\n{text}"
