"""``cimplan inspect``, ``quantize`` and ``profile``: what a model is, in int8, and what it costs on this host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.console import emit, emit_json, facts, printable, table, working
from cimplan.cli.options import (
    DimOption,
    HardwareOption,
    JsonOption,
    MeasureOption,
    ModelArgument,
    QuietOption,
    ShapeOption,
    ValueOption,
    files_named,
    load_model,
    parse_dims,
    parse_shapes,
    parse_values,
)
from cimplan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cimplan.api.models import Model
    from cimplan.cost.profile_file import Spread


def inspect(
    model: ModelArgument,
    hardware: HardwareOption = "rram-256",
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show operators, shapes, MACs, lowered sizes, crossbars needed, and why an operator is not supported."""
    from cimplan.api.inspection import inspect_model
    from cimplan.units import format_size

    with working("reading the model", quiet=quiet or json):
        found = inspect_model(load_model(model, shape, dim, value), hardware)
    if json:
        emit_json(found.to_json())
        return
    table(
        ("operator", "type", "output", "MACs", "M x N", "MVMs", "crossbars", "on cim"),
        (
            (
                row.name,
                row.op_type,
                "; ".join("x".join(map(str, shape)) for shape in row.output_shapes),
                f"{row.macs:,}" if row.macs else "",
                row.lowered,
                f"{row.mvms:,}" if row.mvms else "",
                "" if row.crossbars is None else f"{row.crossbars:,}",
                row.reason or "yes",
            )
            for row in found.rows
        ),
        right=(3, 4, 5, 6),
    )
    emit()
    facts(
        (
            ("model", found.model),
            ("operators", f"{len(found.rows)}, of which {found.supported} can run on {found.hardware}"),
            ("MACs", f"{found.macs:,}"),
            ("constants", format_size(found.weight_bytes)),
            (
                "not planned",
                f"{format_size(found.not_planned_bytes)} of constants inside control flow, which runs on the host whole"
                if found.not_planned_bytes
                else "",
            ),
            ("crossbars", f"{found.crossbars:,} for everything supported, {found.available:,} available"),
            ("remark", found.remark),
        )
    )


def quantize(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="ONNX file to write.")],
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration", metavar="DIR", help="Folder of .npy or .npz inputs; seeded random data if left out."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of random calibration data.")] = 0,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Quantise a float model to int8 (static, through ONNX Runtime's own quantiser), and check the result."""
    from cimplan.api.models import quantize as quantise

    with working("quantising", quiet=quiet or json):
        found = quantise(
            model,
            output,
            calibration=calibration,
            seed=seed,
            shapes=parse_shapes(shape),
            dims=parse_dims(dim),
            values=parse_values(value),
        )
    if json:
        emit_json(
            {
                "model": model,
                "output": str(output),
                "calibration": str(calibration or "random"),
                "samples": len(found.calibration.samples),
                "operators_quantised": found.quantised,
                "kept_float": [
                    {"name": item.name, "op_type": item.op_type, "reason": item.reason} for item in found.kept_float
                ],
                "outputs": [
                    {"name": item.name, "sqnr_db": item.sqnr_db, "reason": item.reason} for item in found.outputs
                ],
            }
        )
        return
    emit(f"wrote {output}")
    facts((("weights", _weights_told(found.quantised, len(found.kept_float))),))
    for item in found.kept_float:
        emit(f"  in float: {printable(item.name)} ({item.op_type}), {printable(item.reason)}")
    table(
        ("output", "signal to noise"),
        ((item.name, item.reason if item.sqnr_db is None else f"{item.sqnr_db:.1f} dB") for item in found.outputs),
    )
    drowned = [item.name for item in found.outputs if item.sqnr_db is not None and item.sqnr_db < 0]
    if drowned:
        emit(
            f"  note: more noise than signal in {', '.join(map(printable, drowned))}: too coarse for any use but timing"
        )
    if calibration is None:
        emit("  calibrated and compared on random data: good for planning, not for accuracy (give --calibration DIR)")


def _weights_told(quantised: int, kept: int) -> str:
    rest = f", of {kept} in float" if kept else ""
    return f"of {quantised} operator{'s' if quantised != 1 else ''} in 8 bits{rest}"


def profile(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Profile to write.", show_default=False)
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, max=1024, help="Threads within an operator; 1 if left out.")
    ] = None,
    measure_for: MeasureOption = None,
    estimate: Annotated[
        str | None,
        typer.Option("--estimate", metavar="PROCESSOR", help="Estimate a processor instead of measuring this one."),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE.py",
            help="Write a program that measures on a board with onnxruntime and numpy only, instead of measuring here.",
        ),
    ] = None,
    from_ort_profile: Annotated[
        Path | None,
        typer.Option(
            "--from-ort-profile", metavar="FILE", help="Take the times from a file of ONNX Runtime's own profiler."
        ),
    ] = None,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure every operator of a model on this machine; the file travels."""
    from cimplan.api import partitioning
    from cimplan.api.profiles import import_profile
    from cimplan.files import check_writable
    from cimplan.units import format_duration, parse_duration_ns

    measure_s = None if measure_for is None else parse_duration_ns(measure_for) / 1e9
    if script is not None:
        others = {"--output": output, "--estimate": estimate, "--from-ort-profile": from_ort_profile}
        _refuse_beside("--script", others, "the program measures on another machine, and writes the profile there")
        found = load_model(model, shape, dim, value)
        _write_script(found, script, threads or 1, measure_s, json=json, quiet=quiet)
        return
    if output is None:
        raise InputError("there is no file to write", fix="Give --output FILE, or --script FILE.py")
    if from_ort_profile is not None:
        others = {"--estimate": estimate, "--measure-for": measure_for}
        _refuse_beside("--from-ort-profile", others, "the times are those of the file")
    check_writable(output, *files_named(model), from_ort_profile)
    with working("preparing", quiet=quiet or json) as tell:
        found = load_model(model, shape, dim, value)
        if estimate is not None:
            result = partitioning.estimate(found, estimate)
        elif from_ort_profile is not None:
            result = import_profile(found, from_ort_profile, threads=threads)
        else:
            result = partitioning.profile(found, threads=threads or 1, measure_s=measure_s, fresh=True, progress=tell)
    result.save(output)
    measurement = result.measurement
    unprofiled = None if measurement is None else measurement.unprofiled
    summary: dict[str, Any] = {
        "model": result.model.name,
        "output": str(output),
        "origin": result.origin,
        "machine": result.machine.cpu,
        "threads": result.machine.threads,
        "operators": len(result.times),
        "total_ns": result.total_ns,
        "scale": None if measurement is None else measurement.scale,
        "runs": None if measurement is None else measurement.runs,
        "disturbed": result.disturbed,
        "disturbed_runs": None if measurement is None else measurement.disturbed_runs,
        "quartiles_ns": None if measurement is None or unprofiled is None else _quartiles(unprofiled),
    }
    if json:
        emit_json(summary)
        return
    emit(f"wrote {output}")
    slowest = sorted(result.host_ns.items(), key=lambda item: -item[1])[:5]
    facts(
        (
            (
                "host",
                f"{result.machine.cpu or 'processor not known'}, {result.machine.threads} thread(s), {result.origin}",
            ),
            ("latency", f"{format_duration(result.total_ns)} in {len(result.times)} operators"),
            (
                "measurement",
                ""
                if measurement is None
                else f"{measurement.runs} runs after {measurement.dropped_runs} dropped; "
                + (
                    "not scaled, as there are no plain runs"
                    if unprofiled is None
                    else f"profiled times scaled by {measurement.scale:.3f} to the unprofiled latency"
                ),
            ),
            (
                "spread",
                "not known: the times are estimated"
                if result.origin == "estimated"
                else ""
                if unprofiled is None
                else "quartiles of plain runs " + " and ".join(map(format_duration, _quartiles(unprofiled))),
            ),
            ("disturbed", "" if measurement is None or not result.disturbed else f"{measurement.disturbed}"),
            ("slowest", ", ".join(f"{printable(name)} {format_duration(time)}" for name, time in slowest)),
        )
    )
    for remark in result.notes:
        emit(f"  note: {printable(remark)}")


def _quartiles(spread: Spread) -> tuple[float, float]:
    return spread.lower_quartile_ns, spread.upper_quartile_ns


def _refuse_beside(option: str, others: Mapping[str, object], why: str) -> None:
    """Refuse options that do not go with another."""
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name} does not go with {option}", why=why, fix="Leave one of the two out")


def _write_script(
    model: Model, script: Path, threads: int, measure_s: float | None, *, json: bool, quiet: bool
) -> None:
    from cimplan.api.profiles import profile_script
    from cimplan.files import check_writable, write_text

    check_writable(script, model.path)
    with working("reading the model", quiet=quiet or json):
        write_text(script, profile_script(model, threads=threads, measure_s=measure_s))
    if json:
        emit_json({"model": model.name, "output": str(script), "file": str(model.path)})
        return
    emit(f"wrote {script}")
    emit(f"  copy it and {printable(str(model.path))} to the board, and run there: python3 {script.name} -o host.json")
    emit("  it needs onnxruntime and numpy; `cimplan partition --profile host.json` takes what it writes")
