"""``cimplan check``: whether a plan file holds what it says, its proof included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.console import emit_json, facts
from cimplan.cli.options import JsonOption
from cimplan.cli.plans import dual_mode_plan

if TYPE_CHECKING:
    from cimplan.plan.certificate_check import CertificateReport
    from cimplan.plan.plan import Plan


_NO_BOUND = "claims no lower bound"


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
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
    """Check a plan of `partition` or `compile` again: its schedule, what follows from it, and the proof of its bound.

    No solver takes part. What nothing else in the file determines is not checked: reasons and gains, the times of the
    method, and the points of a curve for other budgets. Exit code 1: the plan holds, but not all of its bound could be
    proven. 2: it does not hold.
    """
    from cimplan.files import read_json

    value = read_json(plan, "plan")
    if isinstance(value, dict) and value.get("kind") == "dual_mode_plan":
        found = dual_mode_plan(value, plan)
        result: dict[str, Any] = {
            "plan": str(plan),
            "status": found.status,
            "latency_cycles": found.latency_cycles,
            "lower_bound_cycles": found.lower_bound_cycles,
            "proof": "none",
        }
        lines = [
            ("holds", "every count, byte and cycle, and the modes of all arrays"),
            ("latency", f"{found.latency_cycles} cycles"),
            ("proof", "none in the file: plans for dual-mode chips carry no certificate"),
        ]
    else:
        result, lines = _partition(value, plan, effort)
    if json:
        emit_json(result)
    else:
        facts(lines)
    if result["proof"] == "incomplete":
        raise typer.Exit(1)


def _partition(value: object, path: Path, effort: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    from cimplan.errors import InputError
    from cimplan.plan.certificate_check import DEFAULT_NODES, DEFAULT_SEARCH_NODES
    from cimplan.plan.plan import Plan
    from cimplan.units import format_duration

    plan = Plan.from_json(value, str(path))
    result: dict[str, Any] = {
        "plan": str(path),
        "status": plan.status,
        "makespan_ns": plan.makespan_ns,
        "lower_bound_ns": plan.lower_bound_ns,
        "proof": "none",
    }
    lines = [
        ("holds", "every start, transfer and crossbar, and the replay ends at the same time"),
        ("latency", format_duration(plan.makespan_ns)),
    ]
    others = [point for point in plan.curve if point.makespan_ns != plan.makespan_ns]
    if others:
        points = "1 point" if len(others) == 1 else f"{len(others)} points"
        lines.append(
            ("curve", f"not checked: {points} for other budgets, of which the file has neither plan nor proof")
        )
    if plan.certificate is None:
        return result, [*lines, ("proof", _no_certificate(plan))]
    report = plan.verify_proof(nodes=effort * DEFAULT_NODES, search_nodes=effort * DEFAULT_SEARCH_NODES)
    if report.verdict == "refuted":
        raise InputError(
            "the proof in the plan is wrong",
            where=f"{path}: certificate",
            why="; ".join(report.notes[:3]),
            fix="Make the plan again rather than editing it",
        )
    proven_ns = report.bound * plan.tick_ns
    verified = report.verified and proven_ns >= plan.lower_bound_ns
    result |= {
        "proof": "verified" if verified else "incomplete",
        "proven_ns": proven_ns,
        "nodes": report.nodes,
        "notes": list(report.notes),
    }
    shown = _verified(plan, proven_ns) if verified else _incomplete(plan, report, proven_ns)
    return result, [*lines, ("proof", shown)]


def _no_certificate(plan: Plan) -> str:
    from cimplan.units import format_duration

    if not plan.lower_bound_ns:
        return f"none in the file, which {_NO_BOUND}"
    return f"none in the file: its lower bound of {format_duration(plan.lower_bound_ns)} is the word of {plan.method!r}"


def _verified(plan: Plan, proven_ns: float) -> str:
    if not proven_ns:
        return "verified, but of a lower bound of 0"
    best = ": this one is optimal" if plan.status == "optimal" else ""
    return f"verified: {_quickest(plan, proven_ns)}{best}"


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
    return f"no plan within {crossbars} is quicker than {format_duration(proven_ns)}"
