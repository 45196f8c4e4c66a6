"""``cimplan check``: whether a plan file holds what it says, its proof included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.console import emit, emit_json, facts, printable
from cimplan.cli.options import DimOption, JsonOption, ShapeOption, ValueOption, parse_dims, parse_shapes, parse_values
from cimplan.cli.partition import BusOption, LatencyOption
from cimplan.cli.plans import dual_mode_plan

if TYPE_CHECKING:
    from cimplan.plan.certificate_check import CertificateReport
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.plan.plan import Plan
    from cimplan.plan.verification import Proof, Verification

Facts = list[tuple[str, str]]

_NO_BOUND = "claims no lower bound"

_MOST = 20
"""Things of a kind that are listed."""


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="What it was made of: compare its costs with these.")
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", metavar="NAME|FILE", help="The same; the preset that the plan names if left out."),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="The same; needs no model beside it.")
    ] = None,
    mvm_latency: LatencyOption = None,
    bus_bandwidth: BusOption = None,
    shape: ShapeOption = None,
    dim: DimOption = None,
    value: ValueOption = None,
    effort: Annotated[
        int,
        typer.Option(
            "--effort",
            min=0,
            metavar="N",
            help="How many times the usual effort verifying the proof may take; 0: none",
        ),
    ] = 1,
    json: JsonOption = False,
) -> None:
    """Check a plan of `partition` or `compile` again: its schedule, all that follows from it, and its proofs.

    No solver takes part. With --model, --hardware and --profile the costs are rebuilt and compared; without them all
    is said for the costs in the file. Exit code 0: everything that the file claims was proven. 1: it holds, but not
    all of it could be proven, or its costs are not those of the files given. 2: it does not hold.
    """
    from cimplan.api.checking import compare_costs
    from cimplan.files import read_json
    from cimplan.plan.plan import Plan
    from cimplan.units import parse_bandwidth_gbps, parse_duration_ns

    content = read_json(plan, "plan")
    if isinstance(content, dict) and content.get("kind") == "dual_mode_plan":
        _refuse_files(model, hardware, profile, mvm_latency, bus_bandwidth, shape, dim, value)
        result, lines, listed = _dual_mode(dual_mode_plan(content, plan), plan)
    else:
        result, lines, listed = _partition(content, plan, effort)
        if model is not None or hardware is not None or profile is not None:
            rebuilt = Plan.from_json(content, str(plan))
            found = compare_costs(
                rebuilt,
                model,
                hardware,
                profile,
                mvm_latency_ns=None if mvm_latency is None else parse_duration_ns(mvm_latency),
                bus_bandwidth_gbps=None if bus_bandwidth is None else parse_bandwidth_gbps(bus_bandwidth),
                shapes=parse_shapes(shape),
                dims=parse_dims(dim),
                values=parse_values(value),
            )
            result |= {"costs": "differ" if found else "matched", "differences": found[:_MOST]}
            lines.append(("costs", _costs(found)))
            listed = [*listed, *(f"costs: {difference}" for difference in found[:_MOST])]
        else:
            _refuse_files(None, None, None, mvm_latency, bus_bandwidth, shape, dim, value)
            lines.append(("costs", "not compared: all this is for the costs in this file"))
    if json:
        emit_json(result)
    else:
        facts(lines)
        for line in listed:
            emit(f"  {printable(line)}")
    if not result["proven"] or result["costs"] == "differ":
        raise typer.Exit(1)


def _refuse_files(*given: object) -> None:
    from cimplan.errors import InputError

    names = ("--model", "--hardware", "--profile", "--mvm-latency", "--bus-bandwidth", "--shape", "--dim", "--value")
    for name, value in zip(names, given, strict=True):
        if value is not None:
            raise InputError(
                f"{name} has nothing to go with",
                why="costs are rebuilt for plans of `cimplan partition`, from --model, --hardware and --profile",
                fix=f"Drop {name}",
            )


def _costs(found: list[str]) -> str:
    if not found:
        return "matched: those of the files given"
    more = f", the first {_MOST} are listed" if len(found) > _MOST else ""
    count = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    return f"differ from those of the files given: {count}{more}"


def _partition(value: object, path: Path, effort: int) -> tuple[dict[str, Any], Facts, list[str]]:
    from cimplan.errors import InputError
    from cimplan.plan.certificate_check import DEFAULT_NODES, DEFAULT_SEARCH_NODES
    from cimplan.plan.plan import Plan
    from cimplan.plan.words import fixes_words
    from cimplan.units import format_duration

    plan = Plan.from_json(value, str(path))
    try:
        found = plan.verification(nodes=effort * DEFAULT_NODES, search_nodes=effort * DEFAULT_SEARCH_NODES)
    except InputError as error:
        raise InputError(error.what, where=f"{path}: {error.where}", why=error.why, fix=error.fix) from error
    proof = found.proof
    result: dict[str, Any] = {
        "plan": str(path),
        "status": proof.status,
        "solver_claims": plan.solver_claims,
        "makespan_ns": plan.makespan_ns,
        "lower_bound_ns": plan.lower_bound_ns,
        "proof": proof.verdict,
        "proven_ns": proof.bound_ns,
        "proven": found.complete,
        "costs": "not compared",
        "fixes": plan.fixes,
        "without_fixes": None if found.without_fixes is None else _free_json(plan, found.without_fixes),
        "curve": {"points": len(found.curve), "proven": len(found.curve) - len(found.curve_open)},
        "differences": list(found.differences[:_MOST]),
        "nodes": found.nodes,
        "notes": [] if proof.report is None else list(proof.report.notes),
    }
    lines = [
        ("holds", "every start, transfer and crossbar, and the replay ends at the same time"),
        ("latency", format_duration(plan.makespan_ns)),
        ("fixed", fixes_words(plan)),
        ("proof", _proof(plan, found)),
        ("price", _free(plan, found)),
        ("curve", _curve(plan, found)),
        ("reasons", _reasons(found)),
        ("as said", _not_known()),
    ]
    return result, lines, list(found.differences[:_MOST])


def _free_json(plan: Plan, proof: Proof) -> dict[str, Any]:
    free = plan.without_fixes
    if free is None:
        return {}
    return {
        "status": proof.status,
        "solver_claims": free.solver_claims,
        "makespan_ns": free.makespan_ns,
        "lower_bound_ns": free.lower_bound_ns,
        "proof": proof.verdict,
    }


def _proof(plan: Plan, found: Verification) -> str:
    from cimplan.plan.words import word_of
    from cimplan.units import format_duration

    proof = found.proof
    if proof.verdict == "verified":
        return _verified(plan, proof)
    if proof.report is not None:
        return _incomplete(plan, proof.report, proof.bound_ns)
    if not plan.lower_bound_ns:
        return f"none in the file, which {_NO_BOUND}"
    word = word_of(plan.method, plan.statistics)
    whose = repr(plan.method) + ("" if word in ("the exact method", repr(plan.method)) else f" ({word})")
    claims = ", and that this plan is optimal," if plan.solver_claims == "optimal" else ""
    return f"none in the file: its lower bound of {format_duration(plan.lower_bound_ns)}{claims} is the word of {whose}"


def _verified(plan: Plan, proof: Proof) -> str:
    if not proof.bound_ns:
        return "verified, but of a lower bound of 0"
    best = f": this one is optimal{_under(plan)}" if proof.status == "optimal" else ""
    return f"verified: {_quickest(plan, proof.bound_ns)}{best}"


def _under(plan: Plan) -> str:
    if not plan.fixes:
        return ""
    return " with this operator fixed" if len(plan.fixes) == 1 else " with these operators fixed"


def _incomplete(plan: Plan, report: CertificateReport, proven_ns: float) -> str:
    from cimplan.units import format_duration

    said = f"the file says {format_duration(plan.lower_bound_ns)}"
    proven = _quickest(plan, proven_ns) if proven_ns else "nothing could be verified"
    if not plan.lower_bound_ns:
        return f"incomplete: {proven}; the file {_NO_BOUND}"
    if report.verified:
        return f"incomplete: {proven}; {said}, and no effort will prove that: its certificate claims less"
    if report.final:
        return f"incomplete: {proven}; {said}, and no effort will prove that: {report.notes[-1]}"
    within = "" if proven_ns else " within this effort"
    return f"incomplete: {proven}{within}; {said}, and more effort may prove that (--effort): {report.notes[-1]}"


def _quickest(plan: Plan, proven_ns: float) -> str:
    from cimplan.units import format_duration

    crossbars = f"{plan.crossbars_available} crossbar" + ("" if plan.crossbars_available == 1 else "s")
    return f"no plan within {crossbars} is quicker than {format_duration(proven_ns)}{_under(plan)}"


def _free(plan: Plan, found: Verification) -> str:
    from cimplan.plan.words import price_of_fixes
    from cimplan.units import format_duration

    free = plan.without_fixes
    if free is None or found.without_fixes is None:
        return price_of_fixes(plan)
    price = format_duration(max(0.0, plan.makespan_ns - free.makespan_ns))
    without = format_duration(free.makespan_ns)
    if found.without_fixes.status == "optimal":
        return f"{price}, verified: without them {without} is optimal"
    return f"at least {price}: without them {without} is possible, and whether more is was not proven"


def _curve(plan: Plan, found: Verification) -> str:
    if not found.curve:
        return ""
    points = "1 point" if len(found.curve) == 1 else f"{len(found.curve)} points"
    left = len(found.curve_open)
    if not left:
        optimal = sum(point.status == "optimal" for point in found.curve)
        return f"verified: {points}, {optimal} of them optimal"
    first = plan.curve[found.curve_open[0]].crossbars
    why = found.curve_steps.notes[0] if found.curve_steps.notes else "the file has no proof or schedule for it"
    more = "" if found.curve_steps.final else ", and more effort may (--effort)"
    return f"incomplete: {left} of {points} not proven{more}; the first, at {first} crossbars: {why}"


def _reasons(found: Verification) -> str:
    if found.differences:
        count = len(found.differences)
        return f"{count} do not follow from the file" if count > 1 else "1 does not follow from the file"
    left = f"; not checked: {', '.join(found.unknown)}" if found.unknown else ""
    return f"recomputed, with all gains{left}"


def _not_known() -> str:
    return (
        "names, types, kinds of times, sizes in bytes, why an operator is not supported, what noise means, "
        "what the method reports"
    )


def _dual_mode(found: DualModePlan, path: Path) -> tuple[dict[str, Any], Facts, list[str]]:
    claims = "optimal" if found.lower_bound_cycles == found.latency_cycles else "feasible"
    proven = not found.lower_bound_cycles
    result: dict[str, Any] = {
        "plan": str(path),
        "status": "feasible",
        "solver_claims": claims,
        "latency_cycles": found.latency_cycles,
        "lower_bound_cycles": found.lower_bound_cycles,
        "all_compute_cycles": found.all_compute_cycles,
        "proof": "none",
        "proven": proven,
        "costs": "not compared",
        "not_proven": ["all_compute_cycles"] if proven else ["lower_bound_cycles", "all_compute_cycles"],
    }
    optimal = ", and so that this plan is optimal for its pieces," if claims == "optimal" else ""
    bound = f"that no plan takes less than {found.lower_bound_cycles} cycles{optimal} is the word of {found.method!r}"
    lines = [
        ("holds", "every count, byte and cycle, and the modes of all arrays"),
        ("latency", f"{found.latency_cycles} cycles"),
        ("proof", "none in the file: plans for dual-mode chips carry no certificate"),
        ("bound", "" if proven else f"not proven: {bound}"),
        (
            "speed",
            f"not proven: the all-compute plan of {found.all_compute_cycles} cycles, of which the file has no schedule",
        ),
        ("costs", "not compared: all this is for the network and the chip in this file"),
    ]
    return result, lines, []
