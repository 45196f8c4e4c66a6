"""``cimplan export``: a plan in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cimplan.cli.console import emit


def export(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="Such as trace (Perfetto) or csv.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
) -> None:
    """Write a plan as a timeline, a table, or a program."""
    from cimplan.errors import InputError, did_you_mean
    from cimplan.export import FORMATS
    from cimplan.plan.plan import Plan

    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}", where="--to", fix=did_you_mean(to, FORMATS))
    for written in FORMATS[to](Plan.read(plan), output):
        emit(f"wrote {written}")
