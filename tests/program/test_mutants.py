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

PER_KIND = 6
KINDS = sorted(name for name in dir(Faults) if name.startswith("fault_"))


def _mutants() -> list[tuple[Mutant, int]]:
    """Return `PER_KIND` mutants of every kind, each from another program."""
    found: dict[str, list[tuple[Mutant, int]]] = {kind: [] for kind in KINDS}
    for seed in range(400):
        lacking = [kind for kind in KINDS if len(found[kind]) < PER_KIND]
        if not lacking:
            break
        rng = Random(seed)
        plan = toy_plan(seed)
        faults = Faults(generate(plan), plan.chip, rng)
        for kind in lacking:
            mutants = list(faults.of_kind(kind))
            if mutants:
                found[kind].append((rng.choice(mutants), seed))
    return [mutant for kind in KINDS for mutant in found[kind]]


MUTANTS = _mutants()


def test_there_are_enough_mutants_of_every_kind():
    kinds = Counter(f"fault_{mutant.kind}" for mutant, _ in MUTANTS)
    assert kinds == dict.fromkeys(KINDS, PER_KIND)
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
