"""``cimplan explore``: sweeps over a design space, their status, and their results."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cimplan.cli.console import emit, emit_json, facts, note, printable, table, working
from cimplan.cli.options import JsonOption, QuietOption

if TYPE_CHECKING:
    from cimplan.explore.engine import Engine
    from cimplan.explore.space import LoadedSpace
    from cimplan.explore.sweep import Status

_RUN = "run"
_FRONT_SHOWN = 20
_REASONS_SHOWN = 5
_LINE_EVERY_S = 15
_NETWORK_IO = "bus.network_io"


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
    from cimplan.limits import OutOfTimeError

    if output is not None:
        check_path(output)
    loaded = load_space(space)
    with ExitStack() as stack:
        opened = stack.enter_context(Store(store))
        engine = stack.enter_context(_engine(workers, dask))
        show = stack.enter_context(_progress(loaded.space.name, quiet=quiet or json))
        try:
            result = run_sweep(
                loaded, opened, engine=engine, retry_failed=retry_failed, progress=show.status, say=show.text
            )
        except KeyboardInterrupt:
            note("cimplan: interrupted; what was computed is kept, and the same command goes on from there")
            raise typer.Exit(130) from None
        except OutOfTimeError:
            note("cimplan: what was computed until the time limit is kept, and the same command goes on from there")
            raise
        where = opened.where
    if output is not None:
        write(result.rows, result.columns, output)
    front = pareto(result.rows, loaded.space.objectives)
    status = result.status
    if json:
        emit_json(
            {
                "sweep": result.sweep,
                "name": loaded.space.name,
                "points": status.done,
                "reused": status.reused,
                "failed": status.failed,
                "elapsed_s": status.elapsed_s,
                "network_io": [*loaded.space.axes().get(_NETWORK_IO, (_rule(loaded),))],
                "pareto": front,
            }
        )
        return
    emit(f"{printable(loaded.space.name)}: {status.done} points, {status.failed} failed")
    facts(
        (
            ("computed now", f"{status.done - status.reused} in {status.elapsed_s:.1f} s"),
            ("reused", str(status.reused) if status.reused else ""),
            ("store", where),
            ("pareto", f"{len(front)} points over {', '.join(loaded.space.objectives)}"),
            ("network i/o", _network_io(loaded)),
        )
    )
    _print_rows(front[:_FRONT_SHOWN], result.columns)
    if len(front) > _FRONT_SHOWN:
        emit(f"  and {len(front) - _FRONT_SHOWN} more")
    _note_failures(result.rows)
    if output is not None:
        emit(f"wrote {output}")


@app.command("status")
def show_status(store: StoreOption = _DEFAULT_STORE, json: JsonOption = False) -> None:
    """Show the sweeps of a store and how far they are."""
    _require_extra()
    from cimplan.explore.store import Store

    with Store(store, must_exist=True) as opened:
        sweeps = opened.sweeps()
    if json:
        emit_json(
            [
                {
                    "sweep": item.sweep,
                    "name": item.name,
                    "started": _moment(item.started),
                    "resumed": _moment(item.resumed),
                    "last_activity": None if item.last_activity is None else _moment(item.last_activity),
                    "running": item.running,
                    "total": item.total,
                    "done": item.done,
                    "by_status": item.counts,
                    "rate_per_s": item.rate_per_s,
                    "remaining_s": item.remaining_s,
                    "computed_again": item.computed_again,
                }
                for item in sweeps
            ]
        )
        return
    table(
        ("sweep", "name", "state", "done", "of", "failed", "started", "last point", "a second", "left"),
        (
            (
                item.sweep[:12],
                item.name,
                "running" if item.running else "complete" if item.done >= item.total else "stopped",
                item.done,
                item.total,
                item.counts.get("failed", 0),
                _moment(item.started),
                "" if item.last_activity is None else _moment(item.last_activity),
                f"{item.rate_per_s:.1f}" if item.running and item.rate_per_s else "",
                "" if item.remaining_s is None else f"{item.remaining_s:.0f} s",
            )
            for item in sweeps
        ),
        right=(3, 4, 5, 8, 9),
    )


@app.command("export")
def export_results(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .csv or .parquet.")],
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="ID|NAME", help="Which sweep; the only one if left out.")
    ] = None,
    store: StoreOption = _DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write the finished points of a sweep as a table."""
    _require_extra()
    from cimplan.errors import InputError
    from cimplan.explore.store import Store
    from cimplan.explore.tables import check_path, write

    check_path(output)
    with Store(store, must_exist=True) as opened:
        sweeps = opened.sweeps()
        found = [item for item in sweeps if sweep is None or sweep == item.name or _is_id(sweep, item.sweep)]
        if len(found) != 1:
            known = ", ".join(f"{item.name} ({item.sweep[:12]})" for item in sweeps) or "none"
            raise InputError(
                "no sweep fits" if not found else "several sweeps fit", where="--sweep", fix=f"Sweeps: {known}"
            )
        chosen = found[0]
        rows = opened.rows(chosen.sweep)
    write(rows, chosen.columns, output)
    if json:
        emit_json({"output": str(output), "points": len(rows)})
    else:
        emit(f"wrote {output} ({len(rows)} of {chosen.total} points)")


def _is_id(text: str, sweep: str) -> bool:
    return len(text) >= 6 and sweep.startswith(text)


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


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


@contextmanager
def _engine(workers: int | None, dask: str | None) -> Iterator[Engine]:
    from cimplan.errors import InputError
    from cimplan.explore.engine import LocalEngine

    if dask is None:
        yield LocalEngine(workers)
        return
    if workers is not None:
        raise InputError(
            "--workers does not go with --dask", why="the cluster has its own workers", fix="Leave --workers out"
        )
    from cimplan.explore.dask_engine import DaskEngine

    engine = DaskEngine(dask)
    try:
        yield engine
    finally:
        engine.close()


@dataclass
class _Progress:
    """Shows how far a sweep is: on a terminal in place, elsewhere as a line now and then."""

    name: str
    tell: Callable[[str], None]
    lines: bool
    said: float = field(default_factory=time.monotonic)

    def text(self, text: str) -> None:
        """Show what is going on."""
        self.tell(text)

    def status(self, status: Status) -> None:
        """Show how far it is."""
        text = _progress_text(status)
        self.tell(text)
        if self.lines and time.monotonic() - self.said >= _LINE_EVERY_S:
            note(f"{printable(self.name)}: {text}")
            self.said = time.monotonic()


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[_Progress]:
    with working("exploring", quiet=quiet) as tell:
        yield _Progress(name, tell, lines=not quiet and not sys.stderr.isatty())


def _progress_text(status: Status) -> str:
    from cimplan.units import format_duration

    text = f"{status.done} of {status.total} points"
    if status.rate_per_s:
        text += f", {status.rate_per_s:.3g} a second"
    if status.remaining_s is not None and status.done < status.total:
        text += f", {format_duration(round(status.remaining_s) * 1e9)} left"
    return text + (f", {status.failed} failed" if status.failed else "")


def _network_io(loaded: LoadedSpace) -> str:
    """Return the rule of the hardware; empty where it varies, as the table names it then."""
    from cimplan.plan.summary import network_io

    return "" if _NETWORK_IO in loaded.space.axes() else network_io(_rule(loaded))


def _rule(loaded: LoadedSpace) -> Literal["charged", "free"]:
    bus = loaded.hardware.bus
    return "free" if bus is None else bus.network_io


def _note_failures(rows: list[dict[str, Any]]) -> None:
    """Say why points failed: each reason once, the most frequent first."""
    reasons = Counter(row["error"] for row in rows if row["status"] == "failed").most_common()
    for reason, count in reasons[:_REASONS_SHOWN]:
        note(f"{count} failed: {printable(reason)}")
    if len(reasons) > _REASONS_SHOWN:
        note(f"and {len(reasons) - _REASONS_SHOWN} more reasons, in the column error")


def _print_rows(rows: list[dict[str, Any]], columns: list[tuple[str, str]]) -> None:
    from cimplan.units import format_duration

    if not rows:
        return
    skipped = {"error", "status", "makespan_ns", "lower_bound_ns", "gap", "host_only_ns", "speedup"}
    # What is the same everywhere, or said twice, tells nothing.
    skipped |= {"method"} if len({row["method"] for row in rows}) == 1 else set()
    skipped |= {"crossbars_available"} if "accelerator.crossbars" in dict(columns) else set()
    names = [name for name, _ in columns if name not in skipped]
    numbers = [index for index, name in enumerate(names) if dict(columns)[name] in ("whole", "decimal")]
    table(
        (*names, "latency", "speed-up"),
        (
            (
                *(_cell(row.get(name)) for name in names),
                format_duration(row["makespan_ns"]),
                "" if row["speedup"] is None else f"{row['speedup']:.2f} x",
            )
            for row in rows
        ),
        right=(*numbers, len(names), len(names) + 1),
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
