"""``cimplan check``: whether a plan file holds what it says, its proof included."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cimplan.cli.console import emit_json, facts
from cimplan.cli.options import JsonOption
from cimplan.cli.plans import dual_mode_plan


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)],
    search_nodes: Annotated[
        int | None,
        typer.Option(
            "--search-nodes",
            min=0,
            metavar="N",
            help="Nodes that verifying a proof may take where its tables are not enough  [default: 1000000]",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check a plan of `partition` or `compile` again: every time and count in it, and the proof of its bound.

    No solver takes part. Exit code 1: the plan holds, but its proof takes more search. 2: it does not hold.
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
        result, lines = _partition(plan, search_nodes)
    if json:
        emit_json(result)
    else:
        facts(lines)
    if result["proof"] == "incomplete":
        raise typer.Exit(1)


def _partition(path: Path, search_nodes: int | None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    from cimplan.errors import InputError
    from cimplan.plan.certificate_check import DEFAULT_SEARCH_NODES
    from cimplan.plan.plan import Plan
    from cimplan.units import format_duration

    plan = Plan.read(path)
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
    if plan.certificate is None:
        return result, [*lines, ("proof", f"none in the file: the method {plan.method!r} gives no certificate")]
    report = plan.verify_proof(search_nodes=DEFAULT_SEARCH_NODES if search_nodes is None else search_nodes)
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
    budget = f"no plan within {plan.crossbars_available} crossbars is quicker than {format_duration(proven_ns)}"
    said = f"the file says {format_duration(plan.lower_bound_ns)}"
    if verified:
        best = ": this one is optimal" if plan.status == "optimal" else ""
        lines.append(("proof", f"verified: {budget}{best}"))
    else:
        lines.append(("proof", f"incomplete: {budget}, {said}; more nodes may verify it (--search-nodes)"))
    return result, lines
