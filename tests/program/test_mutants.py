"""Every faulty program is caught, with the line."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from mutate import Faults, Mutant
from toy_plans import toy_plan

from cimplan.program.generate import generate
from cimplan.program.parser import parse_program
from cimplan.program.printer import print_program
from cimplan.program.verifier import verify

PER_KIND = 12


def _mutants() -> list[tuple[Mutant, int]]:
    """Return up to `PER_KIND` mutants of every kind, from different programs."""
    found: dict[str, list[tuple[Mutant, int]]] = {}
    for seed in range(120):
        rng = Random(seed)
        plan = toy_plan(seed)
        program = generate(plan)
        chosen: dict[str, list[Mutant]] = {}
        for mutant in Faults(program, plan.chip, rng).all():
            chosen.setdefault(mutant.kind, []).append(mutant)
        for kind, mutants in chosen.items():
            if len(found.setdefault(kind, [])) < PER_KIND:
                found[kind].append((rng.choice(mutants), seed))
    return [mutant for kind in sorted(found) for mutant in found[kind]]


MUTANTS = _mutants()


def test_there_are_enough_mutants_of_enough_kinds():
    kinds = Counter(mutant.kind for mutant, _ in MUTANTS)
    assert len(kinds) == len([name for name in dir(Faults) if name.startswith("fault_")])
    assert min(kinds.values()) >= 3, kinds
    assert len(MUTANTS) >= 200


@pytest.mark.parametrize(("mutant", "seed"), [pytest.param(m, s, id=f"{m.kind}-{s}") for m, s in MUTANTS])
def test_a_mutant_is_caught_in_its_line(mutant, seed):
    text = print_program(mutant.program)
    report = verify(parse_program(text), toy_plan(seed).chip)
    told = "\n".join(f"{number:4} {line}" for number, line in enumerate(text.splitlines(), 1))
    message = f"expected one of {sorted(mutant.lines)}, got {[str(v) for v in report.violations]}\n{told}"
    assert not report.ok, message
    if mutant.first:
        assert report.violations[0].line in mutant.lines, message
    else:
        assert {violation.line for violation in report.violations} & mutant.lines, message
