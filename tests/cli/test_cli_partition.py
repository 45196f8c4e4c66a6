"""The main job on the command line, from a model file to a plan, a timeline and a table."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from cimplan.cli.partition import _gap
from cimplan.plan.document import CurvePart
from cimplan.plan.plan import Plan

pytestmark = pytest.mark.filterwarnings("default")

STABLE_KEYS = {
    "model",
    "hardware",
    "method",
    "status",
    "makespan_ns",
    "lower_bound_ns",
    "gap",
    "host_only_ns",
    "speedup",
    "crossbars_used",
    "crossbars_available",
    "solve_s",
    "operators",
    "checked",
}


def supported_operator(cimplan, profile_file) -> str:
    operators = cimplan("partition", "--profile", profile_file, "--json").json["operators"]
    return next(item["name"] for item in operators if item["cim_ns"] is not None)


def test_a_model_file_becomes_a_proven_checked_plan(cimplan, model_file, profile_file, tmp_path):
    plan_file = tmp_path / "plan.json"
    run = cimplan("partition", model_file, "--profile", profile_file, "--crossbars", 9, "--json", "-o", plan_file)
    assert run.code == 0, run.err
    plan = run.json
    assert plan.keys() >= STABLE_KEYS
    assert plan["status"] == "optimal"
    assert plan["gap"] == 0
    assert plan["lower_bound_ns"] == plan["makespan_ns"] <= plan["host_only_ns"]
    assert plan["checked"] is True
    operator = plan["operators"][0]
    assert operator.keys() >= {"name", "op_type", "place", "start_ns", "finish_ns", "crossbars", "reason"}
    assert Plan.read(plan_file).makespan_ns == plan["makespan_ns"]


def test_the_summary_says_what_a_person_wants_to_know(cimplan, model_file, profile_file):
    run = cimplan("partition", model_file, "--profile", profile_file)
    assert run.code == 0
    for fact in ("host only", "this plan", "speed-up", "lower bound", "crossbars", "regions", "transfers", "checked"):
        assert fact in run.out


def test_a_saved_profile_plans_without_the_model(cimplan, profile_file):
    run = cimplan("partition", "--profile", profile_file, "--json")
    assert run.code == 0
    assert run.json["status"] == "optimal"


def test_the_curve_falls_as_crossbars_grow(cimplan, profile_file):
    run = cimplan("partition", "--profile", profile_file, "--curve", "--json")
    curve = run.json["curve"]
    assert curve[0]["crossbars"] == 0
    assert curve[0]["makespan_ns"] == run.json["host_only_ns"]
    assert all(point["status"] == "optimal" for point in curve)
    latencies = [point["makespan_ns"] for point in curve]
    assert latencies == sorted(latencies, reverse=True)


def test_the_table_of_the_curve_says_how_good_each_point_is(cimplan, profile_file):
    run = cimplan("partition", "--profile", profile_file, "--curve")
    header = next(line for line in run.out.splitlines() if line.startswith("crossbars  "))
    assert header.split() == ["crossbars", "latency", "speed-up", "lower", "bound", "gap", "status"]
    assert "0.00 %  optimal" in run.out


def test_a_gap_is_never_rounded_away():
    def point(bound_ns: float) -> CurvePart:
        status = "optimal" if bound_ns == 1e6 else "feasible"
        return CurvePart(crossbars=1, makespan_ns=1e6, lower_bound_ns=bound_ns, status=status, solver_claims=status)

    assert [_gap(point(bound)) for bound in (1e6, 999_999, 990_000, 0)] == ["0.00 %", "< 0.01 %", "1.00 %", "100.00 %"]


def test_a_method_with_two_names_is_compared_once(cimplan, profile_file):
    listed = [item["name"] for item in cimplan("compare", "--list", "--json").json if item["for"] == "partition"]
    assert {"ilp", "ilp-highs"} <= set(listed)
    assert "the same as ilp" in cimplan("compare", "--list").out
    rows = cimplan("compare", "--profile", profile_file, "--time-limit", "5s", "--json").json["methods"]
    found = [row["method"] for row in rows]
    assert "ilp" in found and "ilp-highs" not in found
    asked = cimplan("compare", "--profile", profile_file, "--methods", "ilp-highs", "--json").json["methods"]
    assert [row["method"] for row in asked] == ["ilp-highs"]


def test_a_fixed_placement_is_honoured(cimplan, profile_file):
    name = supported_operator(cimplan, profile_file)
    for place in ("host", "cim"):
        plan = cimplan("partition", "--profile", profile_file, "--fix", f"{name}={place}", "--json").json
        assert {item["name"]: item["place"] for item in plan["operators"]}[name] == place
    for word, place in (("cpu", "host"), ("HOST", "host"), ("Cim", "cim")):
        plan = cimplan("partition", "--profile", profile_file, "--fix", f"{name}={word}", "--json").json
        assert {item["name"]: item["place"] for item in plan["operators"]}[name] == place


def test_an_infeasible_question_says_demand_limit_and_a_change(cimplan, profile_file):
    name = supported_operator(cimplan, profile_file)
    run = cimplan("partition", "--profile", profile_file, "--crossbars", 0, "--fix", f"{name}=cim")
    assert run.code == 1
    assert run.out == ""
    assert "crossbar" in run.err
    assert "--crossbars" in run.err or "--fix" in run.err


def test_every_method_is_compared_on_the_same_costs(cimplan, profile_file):
    run = cimplan("compare", "--profile", profile_file, "--methods", "exact,cp-sat,ilp,greedy,cpu-only", "--json")
    assert run.code == 0, run.err
    rows = {row["method"]: row for row in run.json["methods"]}
    assert not any(row["error"] for row in rows.values())
    assert rows["exact"]["makespan_ns"] == rows["cp-sat"]["makespan_ns"] == rows["ilp"]["makespan_ns"]
    assert rows["greedy"]["makespan_ns"] >= rows["exact"]["makespan_ns"]
    assert rows["cpu-only"]["speedup"] == 1


def test_a_comparison_says_whose_schedule_a_stopped_method_shows(cimplan, tmp_path):
    profile = tmp_path / "host.json"
    assert cimplan("profile", "zoo:yolov5n", "--estimate", "cortex-a72", "-o", profile).code == 0
    asked = ("compare", "--profile", profile, "--methods", "ilp,greedy", "--time-limit", "1ms")
    run = cimplan(*asked)
    assert "ilp: found no schedule before it was stopped; shown is that of greedy" in run.err
    assert [row["schedule_of"] for row in cimplan(*asked, "--json").json["methods"]] == ["greedy", ""]


def test_a_plan_becomes_a_timeline_and_a_table(cimplan, profile_file, tmp_path):
    plan_file, trace, table = tmp_path / "plan.json", tmp_path / "trace.json", tmp_path / "plan.csv"
    assert cimplan("partition", "--profile", profile_file, "-o", plan_file).code == 0
    assert cimplan("export", plan_file, "--to", "trace", "-o", trace).code == 0
    answer = cimplan("export", plan_file, "--to", "csv", "-o", table, "--json").json
    assert answer["written"] == [str(table), str(tmp_path / "plan.transfers.csv")]
    assert "wrote" in (said := cimplan("export", plan_file, "--to", "csv", "-o", table).out)
    assert "plan.transfers.csv" in said
    assert json.loads(trace.read_text())["traceEvents"]
    assert table.read_text().startswith("name,")


def test_inspect_shows_lowered_sizes_and_reasons(cimplan, model_file):
    run = cimplan("inspect", model_file, "--json")
    assert run.code == 0
    rows = {row["name"]: row for row in run.json["operators"]}
    assert (rows["left"]["outputs"], rows["left"]["inputs"], rows["left"]["mvms"]) == (32, 288, 576)
    assert rows["left"]["crossbars"] == 2
    assert rows["act"]["crossbars"] is None
    assert rows["act"]["reason"]
    assert cimplan("inspect", model_file).code == 0


def test_quantize_makes_an_int8_model_that_plans(cimplan, model_file, tmp_path):
    target = tmp_path / "int8.onnx"
    before = model_file.read_bytes()
    assert cimplan("quantize", model_file, "-o", target).code == 0
    assert model_file.read_bytes() == before
    run = cimplan("inspect", target, "--json")
    assert "QuantizeLinear" in {row["op_type"] for row in run.json["operators"]}


def test_the_same_input_gives_the_same_plan(cimplan, profile_file):
    plans = [cimplan("partition", "--profile", profile_file, "--crossbars", 3, "--json").json for _ in range(2)]
    for plan in plans:
        plan["solve_s"] = 0
        plan["statistics"] = {}
    assert plans[0] == plans[1]


def test_a_warm_start_is_taken(cimplan, profile_file, tmp_path: Path):
    plan_file = tmp_path / "plan.json"
    cimplan("partition", "--profile", profile_file, "--method", "greedy", "-o", plan_file)
    run = cimplan("partition", "--profile", profile_file, "--warm-start", plan_file, "--json")
    assert run.code == 0, run.err
    assert run.json["status"] == "optimal"


def test_a_plan_becomes_annotated_onnx_and_parts(cimplan, model_file, profile_file, tmp_path):
    plan_file, annotated, folder = tmp_path / "plan.json", tmp_path / "annotated.onnx", tmp_path / "parts"
    assert cimplan("partition", model_file, "--profile", profile_file, "-o", plan_file).code == 0
    run = cimplan("export", plan_file, "--to", "onnx", "--model", model_file, "-o", annotated)
    assert run.code == 0, run.err
    places = {
        entry.value
        for node in onnx.load(annotated).graph.node
        for entry in node.metadata_props
        if entry.key.endswith("place")
    }
    assert places <= {"host", "cim"} and places
    assert cimplan("export", plan_file, "--to", "onnx", "--model", model_file, "--parts", "-o", folder).code == 0
    assert list(folder.glob("*.onnx"))
    assert cimplan("export", plan_file, "--to", "onnx", "-o", annotated).code == 2
    assert cimplan("export", plan_file, "--to", "csv", "--parts", "-o", tmp_path / "x.csv").code == 2
