"""``cimplan compile``: a network on a chip whose arrays compute or remember."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.console import emit, emit_json, facts, printable, table, terminating, working
from cimplan.cli.dual_mode_options import (
    ArraysOption,
    ChipOption,
    CostModelOption,
    PiecesOption,
    ReadingOption,
    SetOption,
    SplitOption,
    UncoveredOption,
    choose,
)
from cimplan.cli.limited import left_s, seconds_of
from cimplan.cli.options import (
    DimOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    QuietOption,
    ShapeOption,
    ValueOption,
    files_named,
    load_model,
)

if TYPE_CHECKING:
    from cimplan.api.compiling import Compiled
    from cimplan.dualmode.explain import Explanation
    from cimplan.plan.dual_mode import DualModePlan, Segment

_ROWS = 24
"""Rows of the table of segments, unless all are asked for."""

_NAMES = 3
"""Operators named in a row; the others are counted."""


@terminating()
def compile_model(
    model: ModelArgument,
    hardware: ChipOption = "dynaplasia",
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="See `cimplan compare --list`.")] = "exact",
    cost_model: CostModelOption = None,
    reading: ReadingOption = None,
    arrays: ArraysOption = None,
    set_fields: SetOption = None,
    split_size: SplitOption = None,
    segment_pieces: PiecesOption = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="10s", help="End then, with the best plan and bound so far."),
    ] = None,
    allow_uncovered: UncoveredOption = False,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    output: OutputOption = None,
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="Also write the meta-operator program.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what bounds each segment and which change would help.")
    ] = False,
    all_segments: Annotated[bool, typer.Option("--all", help="List every segment.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cut a network into segments and decide which arrays compute and which remember in each, and write the program."""
    from cimplan.api.compiling import compile as compile_network
    from cimplan.errors import InputError
    from cimplan.files import check_writable
    from cimplan.limits import TimeLimitError, time_limit_error

    limit_s = seconds_of(time_limit)
    for path in (output, program):
        if path is not None:
            check_writable(path, *files_named(model, hardware))
    if output is not None and output == program:
        raise InputError("plan and program would go to the same file", where=str(output), fix="Choose two files")
    chosen = choose(hardware, cost_model, reading, arrays, set_fields)
    with working("compiling", quiet=quiet or json) as tell:
        try:
            compiled = compile_network(
                load_model(model, shape, dim, value),
                chosen.hardware,
                method=method,
                readings=chosen.readings,
                split_sizes=tuple(split_size) if split_size else None,
                segment_pieces=segment_pieces,
                time_limit_s=left_s(limit_s),
                allow_uncovered=allow_uncovered,
                progress=tell,
            )
        except TimeLimitError:
            if limit_s is None:
                raise
            raise time_limit_error(limit_s) from None  # the limit as it was given, not what was left of it
        explanation = None
        if explain:
            from cimplan.dualmode.explain import explain as explain_plan

            tell("explaining")
            explanation = explain_plan(compiled.plan)
    if output is not None:
        compiled.plan.save(output)
    if program is not None:
        compiled.write_program(program)
    if json:
        answer = compiled.plan.summary() | {
            "program_verified": compiled.program is not None,
            "program_statements": compiled.statements,
        }
        emit_json(answer if explanation is None else answer | {"explanation": explanation.to_json()})
        return
    _print(compiled, all_segments=all_segments)
    if explanation is not None:
        _print_explanation(explanation, compiled.plan, all_segments=all_segments)
    for path in (output, program):
        if path is not None:
            emit(f"wrote {path}")


def _print(compiled: Compiled, *, all_segments: bool) -> None:
    plan = compiled.plan
    emit(
        f"{printable(plan.model)} on {printable(plan.hardware)}, method {plan.method}, "
        f"cost model {plan.readings.cost_model}: {plan.status}"
    )
    facts(_facts(compiled))
    emit()
    rows = list(_segment_rows(plan))
    shown = rows if all_segments or len(rows) <= _ROWS + 4 else rows[:_ROWS]
    table(
        ("segments", "compute", "memory", "run", "switch", "write", "write back", "operators"),
        shown,
        right=(0, 1, 2, 3, 4, 5, 6),
    )
    if len(shown) < len(rows):
        emit(f"  … {len(rows) - len(shown):,} more rows; --all lists them, `cimplan export --to csv` writes them")


_EXPLAINED = 8
"""Kinds of segments and operators in the tuning report, unless all are asked for."""


def _print_explanation(explanation: Explanation, plan: DualModePlan, *, all_segments: bool) -> None:
    most = None if all_segments else _EXPLAINED
    emit()
    emit("Where the time goes, by what bounds the segments")
    facts(
        (bound.replace("_", " "), f"{cycles:,} cycles, {100 * cycles / plan.latency_cycles:.1f} %")
        for bound, cycles in explanation.time_by_bound.items()
    )
    emit()
    emit("Findings")
    for finding in explanation.findings:
        emit(f"  - {printable(finding)}")
    if explanation.what_if:
        emit()
        emit("What a change of the chip would gain, with the same pieces")
        table(
            ("change", "cycles", "saves"),
            ((item.change, f"{item.latency_cycles:,}", f"{100 * item.gain:.2f} %") for item in explanation.what_if),
            right=(1, 2),
        )
    emit()
    emit("Kinds of segments that take most of the time")
    table(
        ("first", "alike", "cycles each", "bound by", "slowest", "one array more", "idle", "balance"),
        (
            (
                item.number,
                item.count,
                f"{item.total_cycles:,}",
                item.bound.replace("_", " "),
                item.slowest,
                f"-{item.gain_of_array:,} ({item.role_of_array})" if item.gain_of_array else "no gain",
                item.idle_arrays,
                f"{100 * item.balance:.0f} %",
            )
            for item in explanation.segments[:most]
        ),
        right=(0, 1, 2, 6, 7),
    )
    emit()
    emit("Operators of the lowest arithmetic intensity")
    table(
        ("operator", "operations a byte", "arrays", "segments", "leans to"),
        (
            (item.name, f"{item.intensity:.3g}", f"{item.arrays:,}", f"{item.segments:,}", item.leaning)
            for item in sorted(explanation.operators, key=lambda item: item.intensity)[:most]
        ),
        right=(1, 2, 3),
    )


def _facts(compiled: Compiled) -> list[tuple[str, str]]:
    plan = compiled.plan
    split = plan.split()
    gap = f"gap {100 * plan.gap:.2f} %"
    if plan.status == "optimal":
        gap = "met: proven optimal for these pieces"
    pieces = f"pieces of at most {plan.split_size} {'array' if plan.split_size == 1 else 'arrays'}"
    return [
        ("latency", _cycles(plan, plan.latency_cycles)),
        ("all compute", f"{_cycles(plan, plan.all_compute_cycles)}, with its own best pieces"),
        ("speed-up", f"{plan.speedup:.3f} x over all arrays computing"),
        ("lower bound", f"{_cycles(plan, plan.lower_bound_cycles)}, {gap}"),
        ("segments", f"{len(plan.segments):,} of {len(plan.operators):,} matrix operators, {pieces}"),
        ("memory", f"{100 * plan.memory_share():.1f} % of the arrays hold data, weighted with time"),
        *(
            (title, f"{split[key]:,} cycles, {100 * split[key] / plan.latency_cycles:.1f} %")
            for title, key in (
                ("running", "compute"),
                ("switching", "switch"),
                ("writing weights", "write"),
                ("writing back", "write_back"),
            )
        ),
        ("uncovered", _uncovered(plan)),
        ("compiled in", f"{plan.compile_s:.2f} s"),
        (
            "checked",
            "yes, every cycle recomputed from the allocation"
            if plan.checked
            else "no: the time limit came first; write the plan with -o and run `cimplan check` on it",
        ),
        (
            "program",
            "none: the time limit or Ctrl-C came before it was verified"
            if compiled.program is None
            else f"{compiled.statements:,} statements, verified",
        ),
    ]


def _uncovered(plan: DualModePlan) -> str:
    """Say what matrix work takes no time in this plan because no array computes it; empty if there is none."""
    if not plan.uncovered:
        return ""
    names = ", ".join(f"{item.name} ({item.op_type})" for item in plan.uncovered[:_NAMES])
    more = f" and {len(plan.uncovered) - _NAMES} more" if len(plan.uncovered) > _NAMES else ""
    return f"{names}{more}: matrix work that no array computes and no figure here includes"


def _cycles(plan: DualModePlan, cycles: int) -> str:
    from cimplan.units import format_duration

    return f"{cycles:,} cycles, {format_duration(cycles * plan.chip.cycle_ns)}"


def _segment_rows(plan: DualModePlan) -> Iterator[Sequence[Any]]:
    """Yield a row for each run of segments that look alike."""

    def look(item: tuple[int, Segment]) -> tuple[Any, ...]:
        segment = item[1]
        return (
            segment.compute_arrays,
            segment.memory_arrays,
            segment.cycles,
            segment.switch_cycles,
            segment.write_cycles,
            segment.write_back_cycles,
            tuple(part.operator for part in segment.parts),
        )

    for (*numbers, operators), run in groupby(enumerate(plan.segments), key=look):
        first, *rest = (index for index, _ in run)
        names = [plan.operators[number].name for number in operators]
        more = len(names) - _NAMES
        yield (
            f"{first}-{rest[-1]}" if rest else f"{first}",
            *(f"{number:,}" for number in numbers),
            ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else ""),
        )
