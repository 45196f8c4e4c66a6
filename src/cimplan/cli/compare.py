"""``cimplan compare``: every method on the same costs, for crossbar accelerators and for dual-mode chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.console import emit, emit_json, note, printable, table, terminating, working
from cimplan.cli.dual_mode_options import (
    ArraysOption,
    CostModelOption,
    PiecesOption,
    ReadingOption,
    SetOption,
    SplitOption,
    UncoveredOption,
    choose,
)
from cimplan.cli.options import (
    DimOption,
    HardwareOption,
    JsonOption,
    MeasureOption,
    QuietOption,
    ShapeOption,
    ValueOption,
    load_model,
)
from cimplan.cli.partition import (
    BusOption,
    CrossbarsOption,
    LatencyOption,
    ModelOrNothing,
    ProfileOption,
    SeedOption,
    ThreadsOption,
    costed_network,
    factor,
    showing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cimplan.api.interrupts import Interrupts
    from cimplan.hardware.schema import Hardware
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.plan.plan import Plan

_SAME = {"ilp-highs": "ilp"}
"""Names of methods that are another one's under a second name, which is enough to run."""


@terminating()
def compare(
    model: ModelOrNothing = None,
    hardware: HardwareOption = "rram-256",
    profile: ProfileOption = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="A,B,…", help="Methods to compare; all usable ones if left out.")
    ] = None,
    crossbars: CrossbarsOption = None,
    mvm_latency: LatencyOption = None,
    bus_bandwidth: BusOption = None,
    cost_model: CostModelOption = None,
    reading: ReadingOption = None,
    arrays: ArraysOption = None,
    set_fields: SetOption = None,
    split_size: SplitOption = None,
    segment_pieces: PiecesOption = None,
    allow_uncovered: UncoveredOption = False,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit", metavar="10s", help="Of each method; one that is stopped shows its best plan and bound."
        ),
    ] = "30s",
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    measure_for: MeasureOption = None,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    list_methods: Annotated[bool, typer.Option("--list", help="List the methods and stop.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every method on the same costs, each checked, in one table; the hardware decides which methods there are."""
    from cimplan.hardware import load as load_hardware
    from cimplan.units import check_seconds, parse_duration_ns

    if list_methods:
        _list(as_json=json)
        return
    chip = load_hardware(hardware)
    limit_s = None if time_limit is None else parse_duration_ns(time_limit) / 1e9
    check_seconds(limit_s, "time limit")
    for_crossbars = {
        "--profile": profile,
        "--crossbars": crossbars,
        "--mvm-latency": mvm_latency,
        "--bus-bandwidth": bus_bandwidth,
        "--measure-for": measure_for,
    }
    for_dual_mode = {
        "--cost-model": cost_model,
        "--reading": reading,
        "--arrays": arrays,
        "--set": set_fields,
        "--split-size": split_size,
        "--segment-pieces": segment_pieces,
        "--allow-uncovered": allow_uncovered or None,
    }
    if chip.accelerator is None:
        _refuse(for_crossbars, chip, "a dual-mode chip")
        chosen = choose(chip, cost_model, reading, arrays, set_fields)
        _compare_dual_mode(
            model, chosen.hardware, _names(methods, _dual_mode_methods()), chosen.readings, split_size, segment_pieces,
            limit_s, shape, dim, value, allow_uncovered=allow_uncovered, as_json=json, quiet=quiet,
        )  # fmt: skip
        return
    _refuse(for_dual_mode, chip, "a crossbar accelerator")
    from cimplan.api.interrupts import interrupts
    from cimplan.api.partitioning import solve
    from cimplan.errors import CimplanError
    from cimplan.partition.methods import METHODS
    from cimplan.plan.summary import network_io

    names = _names(methods, {name: method.available() for name, method in METHODS.items()})
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
    )

    def compared(name: str) -> dict[str, Any]:
        with working(f"solving with {name}", quiet=quiet or json) as doing:
            show = showing(doing, costed.problem.tick_ns)
            try:
                plan = solve(costed, method=name, time_limit_s=limit_s, seed=seed, on_solution=show)
            except CimplanError as error:
                return {"method": name, "status": "failed", "error": str(error)}
            return {"method": name, "error": "", **_comparable(plan)}

    with interrupts() as noticed:
        rows = _rows(names, compared, noticed)
        if json:
            disturbed = costed.profile.disturbed
            named = {
                "model": costed.graph.name,
                "hardware": costed.hardware.name,
                "network_io": costed.network_io,
                "profile_disturbed": disturbed,
            }
            emit_json({**named, "methods": rows})
        else:
            _print(rows)
            emit(f"network i/o: {network_io(costed.network_io)}")
            measurement = costed.profile.measurement
            if measurement is not None and measurement.disturbed:
                emit(f"the host's measurement was disturbed: {measurement.disturbed}; profile again when it is quiet")


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    from cimplan.plan.proof import INTERRUPTED
    from cimplan.plan.words import status_words
    from cimplan.units import format_duration

    table(
        ("method", "latency", "speed-up", "5 to 95 %", "gap", "crossbars", "on cim", "status", "solve"),
        (
            (
                row["method"],
                format_duration(row["makespan_ns"]),
                factor(row["speedup"]),
                "" if row["speedup_range"] is None else "{:.2f} to {:.2f}".format(*row["speedup_range"]),
                f"{100 * row['gap']:.2f} %",
                row["crossbars_used"],
                row["operators_on_cim"],
                status_words(row["status"], row["solver_claims"], row["claims_of"])
                + (", interrupted" if row["stopped"] == INTERRUPTED else ""),
                f"{row['solve_s']:.3f} s",
            )
            if not row["error"]
            else (row["method"], "-", "-", "-", "-", "-", "-", "failed", "-")
            for row in rows
        ),
        right=(1, 2, 3, 4, 5, 6, 8),
    )
    _note_errors(rows)
    for row in rows:
        if row.get("schedule_of"):
            note(f"{row['method']}: found no schedule before it was stopped; shown is that of {row['schedule_of']}")


def _compare_dual_mode(
    model: str | None,
    hardware: Hardware,
    names: Sequence[str],
    readings: Mapping[str, str],
    split_size: list[int] | None,
    segment_pieces: int | None,
    limit_s: float | None,
    shape: list[str] | None,
    dim: list[str] | None,
    value: list[str] | None,
    *,
    allow_uncovered: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from cimplan.api.compiling import compile_plan
    from cimplan.api.interrupts import interrupts
    from cimplan.errors import InputError, InternalError

    if model is None:
        raise InputError("no model is given", fix="Name an ONNX file or a reference network such as zoo:resnet18")
    found = load_model(model, shape, dim, value)

    def compared(name: str) -> dict[str, Any]:
        with working(f"compiling with {name}", quiet=quiet or as_json) as tell:
            try:
                plan = compile_plan(
                    found,
                    hardware,
                    method=name,
                    readings=readings,
                    split_sizes=tuple(split_size) if split_size else None,
                    segment_pieces=segment_pieces,
                    time_limit_s=limit_s,
                    allow_uncovered=allow_uncovered,
                    progress=tell,
                )
            except InternalError as error:
                return {"method": name, "status": "failed", "error": str(error)}
        told[name] = plan.status
        return {"method": name, "error": "", **_comparable_dual_mode(plan)}

    told: dict[str, str] = {}
    with interrupts() as noticed:
        rows = _rows(names, compared, noticed)
        if as_json:
            emit_json({"model": found.name, "hardware": hardware.name, "methods": rows})
        else:
            _print_dual_mode(rows, told)


def _print_dual_mode(rows: Sequence[Mapping[str, Any]], told: Mapping[str, str]) -> None:
    from cimplan.units import format_duration

    table(
        ("method", "cycles", "latency", "speed-up", "gap", "segments", "memory", "status", "compile"),
        (
            (
                row["method"],
                f"{row['latency_cycles']:,}",
                format_duration(row["latency_ns"]),
                f"{row['speedup']:.3f} x",
                f"{100 * row['gap']:.2f} %",
                f"{row['segments']:,}",
                f"{100 * row['memory_share']:.1f} %",
                told[row["method"]],
                f"{row['compile_s']:.2f} s",
            )
            if not row["error"]
            else (row["method"], "-", "-", "-", "-", "-", "-", "failed", "-")
            for row in rows
        ),
        right=(1, 2, 3, 4, 5, 6, 8),
    )
    _note_errors(rows)
    for item in next((row["uncovered"] for row in rows if not row["error"]), ()):
        note(f"uncovered: {printable(item['name'])} ({item['op_type']}): {item['reason']}")


def _rows(names: Sequence[str], row: Callable[[str], dict[str, Any]], noticed: Interrupts) -> list[dict[str, Any]]:
    """Return the row of each method; Ctrl-C means all that are left, and keeps the rows that are there."""
    rows: list[dict[str, Any]] = []
    for position, name in enumerate(names):
        try:
            rows.append(row(name))
        except KeyboardInterrupt:
            if not rows:
                raise
        # A method answers Ctrl-C with its best plan so far, if it has one.
        if noticed.pressed:
            left = ", ".join(names[position + 1 :])
            note(f"cimplan: interrupted during {name}" + (f"; not run: {left}" if left else ""))
            break
    noticed.hold()
    return rows


def _list(*, as_json: bool) -> None:
    from cimplan.partition.methods import METHODS

    listed = [
        ("partition", item.name, item.description + (f", the same as {_SAME[item.name]}" if item.name in _SAME else ""))
        for item in METHODS.values()
    ]
    listed += [("compile", name, description) for name, description in _dual_mode_descriptions().items()]
    if as_json:
        emit_json([{"name": name, "for": command, "description": text} for command, name, text in listed])
    else:
        table(("for", "method", "description"), listed)


def _dual_mode_descriptions() -> dict[str, str]:
    from cimplan.dualmode.methods import METHODS

    return {name: method.description for name, method in METHODS.items()}


def _dual_mode_methods() -> dict[str, bool]:
    return dict.fromkeys(_dual_mode_descriptions(), True)


def _names(methods: str | None, known: Mapping[str, bool]) -> list[str]:
    """Return the methods the user named, or all usable ones, each once; `known` says of each whether it is."""
    from cimplan.errors import InputError, did_you_mean

    usable = [name for name, usable in known.items() if usable and _SAME.get(name) not in known]
    names = list(dict.fromkeys(methods.split(","))) if methods else usable
    for name in names:
        if name not in known:
            raise InputError(f"there is no method {name!r}", where="--methods", fix=did_you_mean(name, known))
    return names


def _refuse(options: Mapping[str, object], chip: Hardware, kind: str) -> None:
    from cimplan.errors import InputError

    for option, value in options.items():
        if value is not None:
            raise InputError(
                "the option does not apply to this hardware",
                where=option,
                why=f"{chip.name!r} is {kind}",
                fix=f"Drop {option}, or choose other hardware with --hardware",
            )


def _comparable(plan: Plan) -> dict[str, Any]:
    from cimplan.plan.proof import STOPPED
    from cimplan.plan.summary import SCHEDULE_OF
    from cimplan.plan.words import word_of

    stopped = plan.statistics.get(STOPPED, "")
    kept = (
        "status",
        "solver_claims",
        "makespan_ns",
        "lower_bound_ns",
        "gap",
        "speedup",
        "crossbars_used",
        "solve_s",
        "checked",
    )
    spread = ("speedup_range", "placement_robust_share")
    on_cim = sum(count.operators for place, count in plan.counts.places.items() if place != "host")
    standing_in = plan.statistics.get(SCHEDULE_OF, "")
    return {name: getattr(plan, name) for name in kept + spread} | {
        "operators_on_cim": on_cim,
        "claims_of": word_of(plan.method, plan.statistics),
        "schedule_of": standing_in,
        "stopped": stopped,
    }


def _comparable_dual_mode(plan: DualModePlan) -> dict[str, Any]:
    dropped = ("model", "hardware", "method")
    kept = {name: value for name, value in plan.summary().items() if name not in dropped}
    return kept | {"segments": len(plan.segments)}


def _note_errors(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        if row["error"]:
            note(f"{row['method']}: {printable(row['error'])}")
