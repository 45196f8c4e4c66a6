"""What a plan file says beyond its schedule is refused where it contradicts the rest of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError
from cimplan.partition.exact import solve
from cimplan.plan.plan import Plan, plan_from


def made() -> Plan:
    options = (
        (Option(HOST, 3),),
        (Option(HOST, 9), Option(CIM, 2, 2), Option(CIM, 4, 1)),
        (Option(HOST, 2),),
        (Option(HOST, 5), Option(CIM, 1, 1)),
    )
    edges = (Dependency(0, 1, 1), Dependency(0, 2, 1), Dependency(1, 3, 1), Dependency(2, 3, 1))
    problem = Problem(("a", "b", "c", "d"), options, edges, 2)
    return plan_from(problem, solve(problem, curve=True))


def changed(plan: Plan, path: str, value: Any) -> dict[str, Any]:
    """Return the content of a plan file with one value in it changed."""
    data = plan.to_json()
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    part: Any = data
    for step in steps:
        part = part[step]
    assert part[last] != value
    part[last] = value
    return data


def refused(plan: Plan, path: str, value: Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        Plan.from_json(changed(plan, path, value), "plan.json")
    assert where in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("operators.0.host_ns", 77.0, "operators[0].host_ns"),
        ("operators.0.host_ns", None, "operators[0].host_ns"),
        ("operators.1.cim_ns", 1.0, "operators[1].cim_ns"),
        ("operators.0.core", 9, "operators[0].core"),
        ("operators.0.core", None, "operators[0].core"),
        ("operators.0.gain_ns", float("nan"), "operators[0].gain_ns"),
        ("operators.1.gain_ns", float("inf"), "operators[1].gain_ns"),
        ("host_only_ns", 18_000_000.0, "host_only_ns"),
        ("host_only_ns", None, "host_only_ns"),
        ("speedup", 7.0, "speedup"),
        ("solve_s", float("inf"), "solve_s"),
        ("curve.0.solver_claims", "feasible", "curve[0].solver_claims"),
        ("status", "feasible", "status"),
        ("solver_claims", "feasible", "the plan does not hold"),
        ("proof.verdict", "none", "proof.verdict"),
        ("proof.bound_ns", 1e6, "proof"),
        ("certificate", None, "proof.verdict"),
        pytest.param("certificate.lower_bound", 10**400, "certificate.lower_bound", id="huge"),
        pytest.param("certificate.lower_bound", -(10**400), "certificate.lower_bound", id="less than none"),
        ("certificate.lower_bound", 1, "proof"),
        ("tick_ns", 5e-324, "is not a whole number of ticks"),
        ("tick_ns", 2.0**-60, "the solver's clock"),
    ],
)
def test_a_claim_that_contradicts_the_rest_is_refused(path: str, value: Any, where: str) -> None:
    refused(made(), path, value, where)


def test_nothing_is_verified_without_a_certificate() -> None:
    plan = made()
    data = changed(plan, "certificate", None)
    data["proof"] = {"verdict": "none", "bound_ns": 0.0, "notes": []}
    assert Plan.from_json(data, "plan.json").proof.verdict == "none"
    data["proof"]["bound_ns"] = plan.lower_bound_ns
    with pytest.raises(InputError, match="bound_ns"):
        Plan.from_json(data, "plan.json")


def test_two_operators_do_not_share_a_core() -> None:
    problem = Problem(("a", "b"), ((Option(HOST, 3),), (Option(HOST, 4),)), (), 0, 2)
    plan = plan_from(problem, solve(problem))
    assert [operator.core for operator in plan.operators] == [0, 1]
    refused(plan, "operators.1.core", 0, "operators[1].core")


def test_a_plan_of_very_many_parts_is_not_even_validated() -> None:
    data = made().to_json()
    data["regions"] = [[]] * 1_000_000
    with pytest.raises(InputError, match="more than 1000000 objects"):
        Plan.from_json(data, "plan.json")


def test_places_without_number_are_refused() -> None:
    plan = made()
    data = plan.to_json()
    more = ({"place": f"p{number}", "duration_ns": 9.0, "crossbars": 9, "label": ""} for number in range(200))
    data["operators"][1]["options"] += more
    with pytest.raises(InputError, match="at most 100 places"):
        Plan.from_json(data, "plan.json")


def test_no_point_of_a_curve_beats_the_longest_path() -> None:
    plan = made()
    data = plan.to_json()
    data["curve"].append({"crossbars": 99, "makespan_ns": 1.0, "lower_bound_ns": 1.0, "status": "optimal"})
    with pytest.raises(InputError, match="even with all crossbars"):
        Plan.from_json(data, "plan.json")


def test_a_plan_is_read_and_written_by_a_name_in_text(tmp_path: Path) -> None:
    plan = made()
    plan.write(str(tmp_path / "plan.json"))
    assert Plan.read(str(tmp_path / "plan.json")) == plan
    assert json.loads((tmp_path / "plan.json").read_text())["proof"]["verdict"] == "verified"
