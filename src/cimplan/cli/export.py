"""``cimplan export``: a plan in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cimplan.cli.console import emit

if TYPE_CHECKING:
    from cimplan.plan.dual_mode import DualModePlan


def export(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="trace (Perfetto), csv, or program (dual-mode).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
) -> None:
    """Write a plan of `partition` or `compile` as a timeline, a table, or a program."""
    from cimplan.errors import InputError, did_you_mean
    from cimplan.export import DUAL_MODE_FORMATS, FORMATS
    from cimplan.files import read_json

    known = sorted({*FORMATS, *DUAL_MODE_FORMATS})
    if to not in known:
        raise InputError(f"there is no format {to!r}", where="--to", fix=did_you_mean(to, known))
    value = read_json(plan, "plan")
    kind = value.get("kind") if isinstance(value, dict) else None
    dual_mode = kind == "dual_mode_plan"
    if kind == "partition-plan" or dual_mode:
        for_kind, command = (DUAL_MODE_FORMATS, "compile") if dual_mode else (FORMATS, "partition")
        if to not in for_kind:
            raise InputError(
                f"a plan of `cimplan {command}` cannot be written as {to!r}",
                where=str(plan),
                fix=f"Choose one of: {', '.join(sorted(for_kind))}",
            )
    if dual_mode:
        written = DUAL_MODE_FORMATS[to](_dual_mode_plan(value, plan), output)
    else:
        from cimplan.plan.plan import Plan

        written = FORMATS[to](Plan.read(plan), output)
    for path in written:
        emit(f"wrote {path}")


def _dual_mode_plan(value: object, path: Path) -> DualModePlan:
    """Return the plan of a file that still holds what it says."""
    from cimplan.errors import InputError
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.plan.dual_mode_check import find_faults

    plan = DualModePlan.from_json(value, where=str(path))
    faults = find_faults(plan)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(
            "the plan does not hold what it says",
            where=str(path),
            why=f"{faults[0]}{more}",
            fix="Compile the model again rather than editing the plan",
        )
    return plan
