"""``cimplan export``: a plan in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cimplan.cli.console import emit, emit_json
from cimplan.cli.options import DimOption, JsonOption, ShapeOption, ValueOption, files_named, load_model
from cimplan.cli.plans import dual_mode_plan

_ONNX = "onnx"
"""The one format that needs the model beside the plan."""


def export(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="trace (Perfetto), csv, onnx, or program (dual-mode). csv writes more tables beside FILE: for X.csv "
            "X.transfers.csv, of a dual-mode plan X.parts.csv and X.stores.csv.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The planned model; needed for onnx.")
    ] = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="With onnx: one file per part and a manifest, in the folder FILE.")
    ] = False,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    json: JsonOption = False,
) -> None:
    """Write a plan of `partition` or `compile` as a timeline, a table, annotated ONNX, or a program."""
    from cimplan.errors import InputError, did_you_mean
    from cimplan.export import DUAL_MODE_FORMATS, FORMATS
    from cimplan.files import check_writable, read_json

    known = sorted({*FORMATS, *DUAL_MODE_FORMATS, _ONNX})
    if to not in known:
        raise InputError(f"there is no format {to!r}", where="--to", fix=did_you_mean(to, known))
    content = read_json(plan, "plan")
    kind = content.get("kind") if isinstance(content, dict) else None
    dual_mode = kind == "dual_mode_plan"
    if to != _ONNX and (model is not None or parts):
        raise InputError("--model and --parts go with --to onnx only", fix="Leave them out, or choose --to onnx")
    if kind == "partition-plan" or dual_mode:
        for_kind, command = (DUAL_MODE_FORMATS, "compile") if dual_mode else ((*FORMATS, _ONNX), "partition")
        if to not in for_kind:
            raise InputError(
                f"a plan of `cimplan {command}` cannot be written as {to!r}",
                where=str(plan),
                fix=f"Choose one of: {', '.join(sorted(for_kind))}",
            )
    if not parts:
        for path in _paths(output, to, dual_mode=dual_mode):
            check_writable(path, plan, *files_named(model))
    if dual_mode:
        written = DUAL_MODE_FORMATS[to](dual_mode_plan(content, plan), output)
    elif to == _ONNX:
        written = _annotated(plan, output, model, shape, dim, value, parts=parts)
    else:
        from cimplan.plan.plan import Plan

        found = Plan.read(plan)  # refuses what is no plan at all, before the format is looked for
        written = FORMATS[to](found, output)
    if json:
        emit_json({"plan": str(plan), "format": to, "written": [str(path) for path in written]})
        return
    for path in written:
        emit(f"wrote {path}")


def _paths(output: Path, to: str, *, dual_mode: bool) -> tuple[Path, ...]:
    """Return every file that an export writes."""
    from cimplan.export import dual_mode_tables, tables

    if to != "csv":
        return (output,)
    beside = (dual_mode_tables.PARTS, dual_mode_tables.STORES) if dual_mode else (tables.TRANSFERS,)
    return tables.paths_of(output, beside)


def _annotated(
    plan: Path,
    output: Path,
    model: str | None,
    shape: list[str] | None,
    dim: list[str] | None,
    value: list[str] | None,
    *,
    parts: bool,
) -> tuple[Path, ...]:
    from cimplan.errors import InputError
    from cimplan.export.onnx import write_onnx, write_parts
    from cimplan.plan.plan import Plan

    if model is None:
        raise InputError("--to onnx needs the model", why="a plan holds no weights", fix="Give --model MODEL")
    found = load_model(model, shape, dim, value)
    write = write_parts if parts else write_onnx
    return write(Plan.read(plan), output, model=found.path, shapes=found.shapes, values=found.values)
