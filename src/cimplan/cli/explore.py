"""``cimplan explore``: sweeps over a design space, their status, and their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from cimplan.cli.console import emit, emit_json, facts, note, printable, table, working
from cimplan.cli.options import JsonOption, QuietOption

if TYPE_CHECKING:
    from cimplan.explore.engine import Engine
    from cimplan.explore.sweep import Status

_RUN = "run"


class _RunByDefault(TyperGroup):
    """Takes ``explore SPACE.yaml`` for ``explore run SPACE.yaml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    help="Explore a design space: `explore SPACE.yaml` runs or resumes a sweep.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

StoreOption = Annotated[
    str, typer.Option("--store", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE.")
]
_DEFAULT_STORE = "sqlite:///cimplan.db"


@app.command(_RUN)
def run(
    space: Annotated[Path, typer.Argument(metavar="SPACE.yaml", help="Description of the space.", show_default=False)],
    store: StoreOption = _DEFAULT_STORE,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="Local processes; one per core if left out.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on this Dask cluster instead.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed points again.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the table (.csv or .parquet).")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a sweep, or resume it where it stopped: finished points are never computed again."""
    _require_extra()
    from cimplan.explore.search import pareto
    from cimplan.explore.space import load_space
    from cimplan.explore.store import Store
    from cimplan.explore.sweep import run_sweep
    from cimplan.explore.tables import check_path, write

    if output is not None:
        check_path(output)
    loaded = load_space(space)
    engine = _engine(workers, dask)
    try:
        with Store(store) as opened, working("exploring", quiet=quiet or json) as tell:
            result = run_sweep(
                loaded,
                opened,
                engine=engine,
                retry_failed=retry_failed,
                progress=lambda status: tell(_progress_text(status)),
                say=tell,
            )
    finally:
        if hasattr(engine, "close"):
            engine.close()
    if output is not None:
        write(result.rows, output)
    front = pareto(result.rows, loaded.space.objectives)
    status = result.status
    if json:
        emit_json(
            {
                "sweep": result.sweep,
                "points": status.done,
                "reused": status.reused,
                "failed": status.failed,
                "elapsed_s": status.elapsed_s,
                "pareto": front,
            }
        )
        return
    emit(f"{printable(loaded.space.name)}: {status.done} points, {status.failed} failed")
    facts(
        (
            ("computed now", f"{status.done - status.reused} in {status.elapsed_s:.1f} s"),
            ("reused", str(status.reused) if status.reused else ""),
            ("store", store),
            ("pareto", f"{len(front)} points over {', '.join(loaded.space.objectives)}"),
        )
    )
    _print_rows(front[:20])
    reasons = {row["error"] for row in result.rows if row.get("status") == "failed"}
    for reason in sorted(reasons)[:5]:
        note(f"failed: {printable(reason)}")
    if output is not None:
        emit(f"wrote {output}")


@app.command("status")
def show_status(store: StoreOption = _DEFAULT_STORE, json: JsonOption = False) -> None:
    """Show the sweeps of a store and how far they are."""
    _require_extra()
    from cimplan.explore.store import Store

    with Store(store, must_exist=True) as opened:
        sweeps = opened.sweeps()
    rows = [
        {
            "sweep": item["sweep"],
            "name": item["name"],
            "started": item["started"],
            "total": item["total"],
            "done": sum(item["counts"].values()),
            "by_status": item["counts"],
        }
        for item in sweeps
    ]
    if json:
        emit_json(rows)
        return
    table(
        ("sweep", "name", "started", "done", "of", "by status"),
        (
            (
                row["sweep"][:12],
                row["name"],
                row["started"],
                row["done"],
                row["total"],
                ", ".join(f"{count} {name}" for name, count in sorted(row["by_status"].items())),
            )
            for row in rows
        ),
        right=(3, 4),
    )


@app.command("export")
def export_results(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .csv or .parquet.")],
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="ID|NAME", help="Which sweep; the only one if left out.")
    ] = None,
    store: StoreOption = _DEFAULT_STORE,
) -> None:
    """Write the finished points of a sweep as a table."""
    _require_extra()
    from cimplan.errors import InputError
    from cimplan.explore.store import Store
    from cimplan.explore.tables import check_path, write

    check_path(output)
    with Store(store, must_exist=True) as opened:
        found = [item for item in opened.sweeps() if sweep is None or item["name"] == sweep or _is_id(sweep, item)]
        if len(found) != 1:
            known = ", ".join(f"{item['name']} ({item['sweep'][:12]})" for item in opened.sweeps()) or "none"
            raise InputError(
                "no sweep fits" if not found else "several sweeps fit", where="--sweep", fix=f"Sweeps: {known}"
            )
        rows = opened.rows(found[0]["sweep"])
    write(rows, output)
    emit(f"wrote {output} ({len(rows)} points)")


def _is_id(text: str, sweep: dict[str, Any]) -> bool:
    return len(text) >= 6 and str(sweep["sweep"]).startswith(text)


def _require_extra() -> None:
    from importlib.util import find_spec

    from cimplan.errors import InputError

    missing = [name for name in ("sqlalchemy", "polars", "optuna") if find_spec(name) is None]
    if missing:
        raise InputError(
            "exploration needs the extra explore",
            why=f"not installed: {', '.join(missing)}",
            fix="pip install 'cimplan[explore]'",
        )


def _engine(workers: int | None, dask: str | None) -> Engine:
    from cimplan.errors import InputError
    from cimplan.explore.engine import DaskEngine, LocalEngine

    if dask is None:
        return LocalEngine(workers)
    if workers is not None:
        raise InputError("--workers does not go with --dask", why="the cluster has its own workers")
    return DaskEngine(dask)


def _progress_text(status: Status) -> str:
    text = f"{status.done} of {status.total} points"
    if status.rate_per_s:
        text += f", {status.rate_per_s:.1f} a second"
    if status.remaining_s is not None and status.done < status.total:
        text += f", {status.remaining_s:.0f} s left"
    return text + (f", {status.failed} failed" if status.failed else "")


def _print_rows(rows: list[dict[str, Any]]) -> None:
    from cimplan.units import format_duration

    if not rows:
        return
    skipped = {"error", "status", "makespan_ns", "lower_bound_ns", "gap", "host_only_ns", "speedup", "method"}
    names = [name for name in rows[0] if name not in skipped and rows[0][name] is not None]
    table(
        (*names, "latency", "speed-up"),
        (
            (
                *(row[name] for name in names),
                format_duration(row["makespan_ns"]),
                "" if row["speedup"] is None else f"{row['speedup']:.2f} x",
            )
            for row in rows
        ),
        right=range(1, len(names) + 2),
    )
