"""Plans as files for other tools.

`FORMATS` names those of partition plans, `DUAL_MODE_FORMATS` those of dual-mode plans; each writer takes a plan and a
path and returns the paths it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.plan.plan import Plan

Writer = Callable[["Plan", Path], tuple[Path, ...]]
DualModeWriter = Callable[["DualModePlan", Path], tuple[Path, ...]]


def _trace(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Timeline for Perfetto (Chrome trace-event JSON)."""
    from cimplan.export.trace import write_trace

    return write_trace(plan, path)


def _csv(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Tables of operators and transfers (CSV)."""
    from cimplan.export.tables import write_csv

    return write_csv(plan, path)


FORMATS: Mapping[str, Writer] = {"csv": _csv, "trace": _trace}
"""Name of a format to its writer; the first line of a writer's docstring describes the format."""


def _dual_mode_trace(plan: DualModePlan, path: Path) -> tuple[Path, ...]:
    """Timeline for Perfetto (Chrome trace-event JSON)."""
    from cimplan.export.dual_mode_trace import write_trace

    return write_trace(plan, path)


def _dual_mode_csv(plan: DualModePlan, path: Path) -> tuple[Path, ...]:
    """Tables of segments, parts and arrays in memory mode (CSV)."""
    from cimplan.export.dual_mode_tables import write_csv

    return write_csv(plan, path)


def _program(plan: DualModePlan, path: Path) -> tuple[Path, ...]:
    """Meta-operator program (text), verified."""
    from cimplan.errors import InputError, InternalError
    from cimplan.files import write_text
    from cimplan.program.checked import checked_program
    from cimplan.program.printer import print_program

    try:
        program = checked_program(plan).program
    except InternalError as error:
        # `compile` verifies the program before there is a plan: this one has been edited since.
        raise InputError(
            "the plan makes no program that passes the verifier",
            where=error.where,
            why=error.why,
            fix="Make the plan again with `cimplan compile` rather than editing it",
        ) from error
    write_text(path, print_program(program))
    return (path,)


DUAL_MODE_FORMATS: Mapping[str, DualModeWriter] = {
    "csv": _dual_mode_csv,
    "program": _program,
    "trace": _dual_mode_trace,
}
"""The same for dual-mode plans."""
