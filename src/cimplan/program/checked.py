"""The program of a plan, verified: what every program that leaves the tool has passed."""

from __future__ import annotations

from typing import NamedTuple

from cimplan.errors import InternalError
from cimplan.limits import watch
from cimplan.plan.dual_mode import DualModePlan
from cimplan.program.generate import generate
from cimplan.program.language import Program
from cimplan.program.summary import disagreements
from cimplan.program.verifier import verify


class CheckedProgram(NamedTuple):
    """A program that obeys the rules of its chip and does what its plan says.

    Attributes
    ----------
    program : Program
        The program.
    statements : int
        How many statements the verifier has looked at.
    """

    program: Program
    statements: int


def checked_program(plan: DualModePlan) -> CheckedProgram:
    """Return the program of a plan.

    Raises
    ------
    InternalError
        If the verifier finds a fault in it, or it does something else than the plan says.
    """
    watch()
    program = generate(plan)
    report = verify(program, plan.chip)
    faults = [str(violation) for violation in report.violations] or disagreements(program, plan)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InternalError(
            "the generated program is faulty", where=plan.model, why=faults[0] + more, fix="Please report this"
        )
    return CheckedProgram(program, report.statements)
