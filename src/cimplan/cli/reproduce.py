"""``cimplan reproduce``: the tables and figures of a paper, beside the printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from cimplan.cli.console import emit, emit_json, printable, table, working
from cimplan.cli.options import JsonOption, QuietOption
from cimplan.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Request:
    """What a user asks of a reproduction.

    Attributes
    ----------
    hosts : sequence of str
        As written; empty for the reproduction's own choice.
    only : sequence of str
        Parts; empty for all.
    output : Path or None
        Folder for files; None for the reproduction's own choice, or no files with `json`.
    time_limit_s : float or None
        Of one instance; None for the paper's own.
    json, quiet : bool
        As on the command line.
    """

    hosts: Sequence[str]
    only: Sequence[str]
    output: Path | None
    time_limit_s: float | None
    json: bool
    quiet: bool


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="klein2026 or cmswitch.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="measured|arm-estimate|PROFILE",
            help="klein2026: this machine, an estimated Cortex-A72, a profile, or a folder of profiles; repeatable. "
            "Both of the first if left out.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PART",
            help="klein2026: table1, figure3, figure4, figure5, open-question; cmswitch: end-to-end, sequence, batch, "
            "allocation, vgg16, switching, compile-time, readings, programs; repeatable. All if left out.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for page, tables, figures; the paper's name if left out."
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="600s", help="Of one instance or compile; the paper's if left out."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compute the tables and figures of a paper again, beside its printed numbers.

    Writes a page (index.html), CSV, SVG and PNG into a folder; with --json it prints, and writes files only with -o.
    """
    if paper not in REPRODUCTIONS:
        raise InputError(f"there is no reproduction of {paper!r}", fix=did_you_mean(paper, REPRODUCTIONS))
    from cimplan.units import check_seconds, parse_duration_ns

    limit_s = None if time_limit is None else parse_duration_ns(time_limit) / 1e9
    check_seconds(limit_s, "time limit")
    REPRODUCTIONS[paper](Request(host or (), only or (), output, limit_s, json, quiet))


def _klein2026(request: Request) -> None:
    from cimplan.explore.klein2026 import models_needed, parse_parts
    from cimplan.explore.klein2026 import reproduce as compute
    from cimplan.explore.published import TIME_LIMIT_S
    from cimplan.explore.reproduction_hosts import DEFAULT_HOSTS, find_hosts
    from cimplan.report.klein2026 import prepare_folder, require_extras, write_report
    from cimplan.report.klein2026_tables import to_json

    parts = parse_parts(request.only)
    folder = request.output if request.output is not None or request.json else Path("klein2026")
    if folder is not None:
        require_extras()
    with working("reproducing", quiet=request.quiet or request.json) as tell:
        hosts = find_hosts(request.hosts or DEFAULT_HOSTS, models_needed(parts), say=tell)
        # Only now: bad input leaves no empty folder behind.
        if folder is not None:
            prepare_folder(folder)
        result = compute(hosts, parts, time_limit_s=request.time_limit_s or TIME_LIMIT_S, say=tell)
        written = [] if folder is None else write_report(result, folder)
    value = to_json(result)
    if request.json:
        emit_json(value)
        return
    _print_klein2026(value)
    if written:
        emit()
        emit(f"wrote {len(written)} files; open {printable(str(written[0]))}")


def _cmswitch(request: Request) -> None:
    from cimplan.api.compiling import DEFAULT_CHIP
    from cimplan.cli.reproduce_cmswitch import print_cmswitch
    from cimplan.explore.cmswitch import reproduce as compute
    from cimplan.explore.cmswitch_cases import parse_parts
    from cimplan.hardware import load
    from cimplan.report.cmswitch import write_report
    from cimplan.report.cmswitch_tables import to_json
    from cimplan.report.klein2026 import prepare_folder, require_extras

    if request.hosts:
        raise InputError(
            "this reproduction has no host", where="--host", why="it is about a chip alone", fix="Leave --host out"
        )
    parts = parse_parts(request.only)
    folder = request.output if request.output is not None or request.json else Path("cmswitch")
    if folder is not None:
        require_extras()
        prepare_folder(folder)
    with working("reproducing", quiet=request.quiet or request.json) as tell:
        result = compute(load(DEFAULT_CHIP), parts, time_limit_s=request.time_limit_s, say=tell)
        written = [] if folder is None else write_report(result, folder)
    value = to_json(result)
    if request.json:
        emit_json(value)
        return
    print_cmswitch(value)
    if written:
        emit()
        emit(f"wrote {len(written)} files; open {printable(str(written[0]))}")


def _print_klein2026(value: Mapping[str, Any]) -> None:
    for item in value["hosts"]:
        emit(f"{item['host']}: {printable(item['processor'])}, times {item['origin']}, beside {item['published_host']}")
    if "table1" in value:
        emit()
        emit("Table I (in brackets: published)")
        table(
            ("network", "operators", "variables", "constraints", "mean solve s", "mean gap %", "optimal"),
            (
                (
                    row["model"],
                    f"{row['operators']} ({row['published']['operators']})",
                    f"{row['decision_variables']} ({row['published']['decision_variables']})",
                    f"{row['constraints']} ({row['published']['constraints']})",
                    f"{row['solve_s']:.3f} ({row['published']['solve_text']})",
                    f"{100 * row['gap']:.2f} ({100 * row['published']['gap']:.2f})",
                    f"{sum(one['optimal'] for one in row['hosts'])} of {sum(one['instances'] for one in row['hosts'])}",
                )
                for row in value["table1"]
            ),
            right=range(1, 7),
        )
    for name, title in (
        ("figure3", "Figure 3: speed-up of ResNet-18"),
        ("figure4", "Figure 4: speed-up at 50 ns per MVM"),
    ):
        if name in value:
            emit()
            emit(f"{title} (in brackets: published)")
            _print_by_budget(value[name], "speedup", "published_speedup", "{:.1f}")
    if "figure5" in value:
        emit()
        emit("Figure 5: operators of YOLOv5n on the crossbars (in brackets: published)")
        _print_by_budget(value["figure5"], "operators_on_cim", "published_operators_on_cim", "{:.0f}")
    if value.get("open_question"):
        _print_question(value["open_question"])


def _print_by_budget(rows: Sequence[Mapping[str, Any]], ours: str, published: str, number: str) -> None:
    lines: dict[tuple[str, str, float], dict[int, str]] = {}
    for row in rows:
        beside = row[published]
        text = number.format(row[ours]) + (f" ({number.format(beside)})" if beside is not None else "")
        lines.setdefault((row["host"], row["model"], row["mvm_latency_ns"]), {})[row["crossbars"]] = text
    budgets = sorted({row["crossbars"] for row in rows})
    table(
        ("host", "network", "MVM", *(f"{budget} crossbars" for budget in budgets)),
        (
            (host, model, f"{latency:g} ns", *(line.get(budget, "–") for budget in budgets))
            for (host, model, latency), line in lines.items()
        ),
        right=range(2, 3 + len(budgets)),
    )


def _print_question(question: Mapping[str, Any]) -> None:
    emit()
    emit("Open question: speed-ups that equation (1) allows when host time goes with MACs, and the published ones")
    table(
        ("network", "crossbars", "MACs that fit", "at most", "published ARM", "published x86"),
        (
            (
                f"{row['model']} ({row['crossbars_of_everything']})",
                row["crossbars"],
                f"{100 * row['largest_share_of_macs']:.1f} %",
                _bound(row["bound_if_time_even_over_macs"]),
                row["published_arm"],
                row["published_x86"],
            )
            for row in question["networks"]
        ),
        right=range(1, 6),
    )


def _bound(value: float | None) -> str:
    return "no bound" if value is None or value >= 1000 else f"{value:.1f}"


Runner = Callable[[Request], None]

REPRODUCTIONS: Final[Mapping[str, Runner]] = MappingProxyType({"klein2026": _klein2026, "cmswitch": _cmswitch})
"""Papers by the name on the command line; another one is a function and a line here."""
