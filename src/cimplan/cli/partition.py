"""``cimplan partition``: the plan of one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cimplan import limits
from cimplan.cli import guard
from cimplan.cli.console import emit, emit_json, facts, note, printable, table, terminating, working
from cimplan.cli.limited import left_s, seconds_of
from cimplan.cli.options import (
    DimOption,
    HardwareOption,
    JsonOption,
    MeasureOption,
    OutputOption,
    QuietOption,
    ShapeOption,
    ValueOption,
    files_named,
    load_model,
    parse_fixes,
    parse_shapes,
)

if TYPE_CHECKING:
    from cimplan.cli.console import Doing
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.partition.progress import Progress, ProgressCallback
    from cimplan.plan.document import CurvePart, OperatorPart
    from cimplan.plan.plan import Plan

ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="Saved host profile; this machine is measured if left out."),
]
ModelOrNothing = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]", help="ONNX file, or zoo:NAME; may be left out with --profile.", show_default=False
    ),
]
CrossbarsOption = Annotated[
    int | None, typer.Option("--crossbars", metavar="N", min=0, max=10**9, help="Crossbars available.")
]
LatencyOption = Annotated[str | None, typer.Option("--mvm-latency", metavar="50ns", help="Latency of one MVM.")]
BusOption = Annotated[
    str | None, typer.Option("--bus-bandwidth", metavar="10GB/s", help="Bandwidth of the shared bus.")
]
FixOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="NODE=host|cim",
        help="Place an operator yourself, by its name as --all lists it, or by the name of a node of the file that it "
        "stands for; repeatable.",
    ),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="10s",
        help="End then, with the best plan and bound so far: reading, measuring, solving and verifying together.",
    ),
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads of the host measurement.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of methods with randomness.")]

_NODES = 4
"""Nodes of the file that a row names; the others are counted."""


@terminating()
def partition(
    model: ModelOrNothing = None,
    hardware: HardwareOption = "rram-256",
    profile: ProfileOption = None,
    crossbars: CrossbarsOption = None,
    mvm_latency: LatencyOption = None,
    bus_bandwidth: BusOption = None,
    fix: FixOption = None,
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="See `cimplan compare --list`.")] = "exact",
    time_limit: TimeOption = None,
    seed: SeedOption = 0,
    warm_start: Annotated[
        Path | None, typer.Option("--warm-start", metavar="PLAN", help="Plan of the same network to start from.")
    ] = None,
    curve: Annotated[bool, typer.Option("--curve", help="Also the optimum of every crossbar budget.")] = False,
    threads: ThreadsOption = 1,
    measure_for: MeasureOption = None,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    output: OutputOption = None,
    all_operators: Annotated[bool, typer.Option("--all", help="List every operator with its reason.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Decide which operators run on the crossbars and when, with the least end-to-end latency.

    Ctrl-C (or SIGTERM) ends it with the best plan so far, also while its proof is verified; the summary says so.
    """
    from cimplan.api.fixing import fixed, placed
    from cimplan.api.interrupts import interrupts
    from cimplan.api.partitioning import solve
    from cimplan.files import check_writable
    from cimplan.plan.plan import Plan
    from cimplan.plan.summary import interruption

    fixes = parse_fixes(fix)
    limit_s = seconds_of(time_limit)
    if output is not None:
        check_writable(output, *files_named(model, hardware), profile, warm_start)
    with limits.time_limit(limit_s, spent_s=guard.spent_s()):
        start = None if warm_start is None else Plan.read(warm_start)
        costed = costed_network(
            model,
            hardware,
            profile,
            crossbars,
            mvm_latency,
            bus_bandwidth,
            threads,
            measure_for,
            shape,
            dim,
            value,
            quiet or json,
            limit_s,
        )
    if start is not None:
        _require_start(start, fixed(costed.problem, placed(costed, fixes)), str(warm_start))
    with interrupts() as noticed:
        with working("solving", quiet=quiet or json) as doing:
            plan = solve(
                costed,
                fix=fixes,
                method=method,
                time_limit_s=left_s(limit_s),
                seed=seed,
                warm_start=start,
                curve=curve,
                on_solution=showing(doing, costed.problem.tick_ns),
            )
            noticed.hold()
        if output is not None:
            plan.write(output)
        if json:
            emit_json(plan.to_json())
        else:
            _print(plan, all_operators=all_operators)
            if output is not None:
                emit(f"wrote {output}")
        if cut := interruption(plan):
            note(f"cimplan: {cut}")


def _require_start(plan: Plan, problem: Problem, where: str) -> None:
    """Refuse a plan to start from that does not fit the problem, by the name of its file."""
    from cimplan.errors import InputError

    try:
        plan.schedule_for(problem)
    except InputError as error:
        place = f"{where}: {error.where}" if error.where else where
        raise InputError(error.what, where=place, why=error.why, fix=error.fix) from error


def costed_network(
    model: str | None,
    hardware: str,
    profile: Path | None,
    crossbars: int | None,
    mvm_latency: str | None,
    bus_bandwidth: str | None,
    threads: int,
    measure_for: str | None,
    shape: list[str] | None,
    dim: list[str] | None,
    value: list[str] | None,
    quiet: bool,
    limit_s: float | None = None,
) -> CostedNetwork:
    """Return what the options ask for, costed."""
    from cimplan.api.partitioning import cost, measuring_s
    from cimplan.cost.profile_file import load as load_profile
    from cimplan.errors import InputError
    from cimplan.hardware import load as load_hardware
    from cimplan.units import parse_bandwidth_gbps, parse_duration_ns

    if profile is not None and measure_for is not None:
        raise InputError(
            "--measure-for does not go with --profile",
            why="a saved profile is not measured again",
            fix="Leave one of the two out",
        )
    latency_ns = None if mvm_latency is None else parse_duration_ns(mvm_latency)
    bandwidth_gbps = None if bus_bandwidth is None else parse_bandwidth_gbps(bus_bandwidth)
    measure_s = measuring_s(limit_s) if measure_for is None else parse_duration_ns(measure_for) / 1e9
    chip = load_hardware(hardware)
    with working("reading the model", quiet=quiet) as tell:
        found = None if model is None else load_model(model, shape, dim, value)
        if found is None and profile is not None:
            # Without a model the shapes are those of the profile, and others cannot be had from it.
            load_profile(profile).require_shapes(parse_shapes(shape), str(profile))
            if dim or value:
                raise InputError(
                    "--dim and --value need the model",
                    why="a profile does not hold what they name",
                    fix="Give the model beside --profile",
                )
        return cost(
            found,
            chip,
            profile,
            crossbars=crossbars,
            mvm_latency_ns=latency_ns,
            bus_bandwidth_gbps=bandwidth_gbps,
            threads=threads,
            measure_s=measure_s,
            progress=tell,
        )


def showing(doing: Doing, tick_ns: float) -> ProgressCallback:
    """Return what shows the progress of a solve, and of the verification after it."""
    from cimplan.api.partitioning import VERIFYING

    def show(state: Progress) -> None:
        if state.phase == VERIFYING:
            doing.turn_to(f"{VERIFYING} (Ctrl-C skips that)")
            doing(_progress_text(state, tick_ns, ""))
        else:
            doing(_progress_text(state, tick_ns, state.phase))

    return show


def _progress_text(state: Progress, tick_ns: float, phase: str) -> str:
    from cimplan.units import format_duration

    parts = [phase]
    if state.makespan is not None:
        parts.append(f"latency {format_duration(state.makespan * tick_ns)}")
    if state.gap is not None:
        parts.append(f"gap {100 * state.gap:.2f} %")
    return ", ".join(part for part in parts if part)


def _stands_for(item: OperatorPart) -> str:
    """Return the nodes of the file an operator stands for, where that is more than its name says."""
    if item.file_nodes == (item.name,):
        return ""
    more = len(item.file_nodes) - _NODES
    return ", ".join(item.file_nodes[:_NODES]) + (f" and {more} more" if more > 0 else "")


def factor(value: float | None) -> str:
    """Return a speed-up for people; empty if there is none."""
    return "" if value is None else f"{value:.2f} x"


def _gap(point: CurvePart) -> str:
    """Return the gap of a point, never as nothing where there is one."""
    gap = 1 - point.lower_bound_ns / point.makespan_ns if point.makespan_ns else 0.0
    return "< 0.01 %" if 0 < gap < 1e-4 else f"{100 * gap:.2f} %"


def _print(plan: Plan, *, all_operators: bool) -> None:
    from cimplan.plan.summary import summary, top_reasons
    from cimplan.plan.words import plan_status, status_words, word_of
    from cimplan.units import format_duration

    emit(f"{printable(plan.model)} on {printable(plan.hardware)}, method {plan.method}: {printable(plan_status(plan))}")
    facts(summary(plan))
    if plan.curve:
        word = word_of(plan.method, plan.statistics)
        emit()
        table(
            ("crossbars", "latency", "speed-up", "lower bound", "gap", "status"),
            (
                (
                    point.crossbars,
                    format_duration(point.makespan_ns),
                    factor(plan.host_only_ns / point.makespan_ns if plan.host_only_ns and point.makespan_ns else None),
                    format_duration(point.lower_bound_ns) if point.lower_bound_ns else "none",
                    _gap(point),
                    status_words(point.status, point.solver_claims, word),
                )
                for point in plan.curve
            ),
            right=(0, 1, 2, 3, 4),
        )
    emit()
    if all_operators:
        table(
            ("operator", "type", "place", "start", "finish", "crossbars", "reason", "nodes of the file"),
            (
                (
                    item.name,
                    item.op_type,
                    item.place,
                    format_duration(item.start_ns),
                    format_duration(item.finish_ns),
                    item.crossbars or "",
                    item.reason,
                    _stands_for(item),
                )
                for item in plan.operators
            ),
            right=(3, 4, 5),
        )
    else:
        for line in top_reasons(plan):
            emit(f"  {printable(line)}")
