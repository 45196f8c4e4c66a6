"""`cimplan check`: what a plan file says, and the proof in it, again."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from dataclasses import replace

import pytest


@pytest.fixture
def plan_file(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    options = ("--hardware", "rram-256-arm", "--crossbars", 20, "-o", path)
    assert cimplan("partition", "zoo:mobilenet_v2", *options).code == 0
    return path


@pytest.fixture
def changed(plan_file):
    """Write the plan again with something changed in it."""

    def change(**fields):
        plan = json.loads(plan_file.read_text())
        for key, value in fields.items():
            plan[key] = value(plan[key])
        plan_file.write_text(json.dumps(plan))
        return plan_file

    return change


def test_a_proof_is_verified_from_the_file_alone(cimplan, plan_file):
    run = cimplan("check", plan_file)
    assert run.code == 0
    assert "proof    verified: no plan within 20 crossbars is quicker than" in run.out
    found = cimplan("check", plan_file, "--json").json
    assert (found["proof"], found["proven_ns"]) == ("verified", found["makespan_ns"])


def test_a_proof_that_claims_one_tick_more_is_refused(cimplan, changed):
    path = changed(certificate=lambda certificate: certificate | {"lower_bound": certificate["lower_bound"] + 1})
    run = cimplan("check", path)
    assert run.code == 2
    assert "the proof in the plan is wrong" in run.err


def test_a_plan_that_says_less_than_its_schedule_takes_is_refused(cimplan, changed):
    run = cimplan("check", changed(makespan_ns=lambda ns: ns - 1))
    assert run.code == 2
    assert "the plan does not hold" in run.err


def test_a_proof_that_takes_more_effort_than_allowed_is_incomplete(cimplan, plan_file):
    run = cimplan("check", plan_file, "--effort", 0)
    assert run.code == 1
    assert "incomplete: nothing could be verified within this effort; the file says" in run.out
    assert "more effort may prove that (--effort)" in run.out
    assert cimplan("check", plan_file, "--effort", 0, "--json").json["proven_ns"] == 0


def test_a_certificate_that_claims_less_than_the_file_is_incomplete(cimplan, changed):
    path = changed(
        certificate=lambda certificate: certificate | {"lower_bound": certificate["lower_bound"] - 1},
        proof=lambda proof: proof | {"verdict": "incomplete", "bound_ns": 0.0},
    )
    run = cimplan("check", path)
    assert run.code == 1
    assert "incomplete: no plan within 20 crossbars is quicker than" in run.out
    assert "no effort will prove that: its certificate claims less" in run.out


def test_a_certificate_of_nothing_proves_nothing(cimplan, changed):
    path = changed(
        certificate=lambda certificate: certificate | {"lower_bound": 0},
        proof=lambda proof: proof | {"verdict": "incomplete", "bound_ns": 0.0},
    )
    run = cimplan("check", path)
    assert run.code == 1
    assert "0 ns" not in run.out
    assert "incomplete: nothing could be verified; the file says" in run.out


@pytest.mark.parametrize(
    ("method", "said"),
    [("heft", "none in the file, which claims no lower bound"), ("ilp", "is the word of 'ilp' (HiGHS)")],
)
def test_a_plan_without_a_proof_says_so(cimplan, changed, method, said):
    claims = (
        {}
        if method == "ilp"
        else {
            "status": lambda _: "feasible",
            "solver_claims": lambda _: "feasible",
            "lower_bound_ns": lambda _: 0.0,
            "gap": lambda _: 1.0,
        }
    )
    path = changed(
        certificate=lambda _: None,
        method=lambda _: method,
        proof=lambda _: {"verdict": "none", "bound_ns": 0.0, "notes": []},
        **claims,
    )
    run = cimplan("check", path)
    assert run.code == (1 if method == "ilp" else 0)  # a file that claims nothing owes no proof
    assert said in run.out
    found = cimplan("check", path, "--json").json
    claims = "optimal" if method == "ilp" else "feasible"
    assert (found["status"], found["solver_claims"], found["proof"]) == ("feasible", claims, "none")


def test_what_claims_no_bound_says_so_even_with_a_certificate(cimplan, changed):
    path = changed(
        status=lambda _: "feasible",
        solver_claims=lambda _: "feasible",
        lower_bound_ns=lambda _: 0.0,
        gap=lambda _: 1.0,
        proof=lambda _: {"verdict": "incomplete", "bound_ns": 0.0, "notes": []},
    )
    run = cimplan("check", path, "--effort", 0)
    assert run.code == 1
    assert "incomplete: nothing could be verified; the file claims no lower bound" in run.out


def test_one_crossbar_is_not_several(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    options = ("--hardware", "rram-256-arm", "--crossbars", 1, "-o", path)
    assert cimplan("partition", "zoo:mobilenet_v2", *options).code == 0
    assert "no plan within 1 crossbar is quicker" in cimplan("check", path).out


def test_points_of_a_curve_that_the_file_does_not_prove_are_named(cimplan, changed):
    def curve(_):
        plan = json.loads(path.read_text())
        host = plan["host_only_ns"]
        return [
            {"crossbars": at, "makespan_ns": ns, "lower_bound_ns": ns, "status": "optimal"}
            for at, ns in ((0, host), (1, plan["makespan_ns"] + 1.0), (20, plan["makespan_ns"]))
        ]

    path = changed()
    run = cimplan("check", changed(curve=curve))
    assert run.code == 1
    assert "incomplete: 3 of 3 points not proven; the first, at 0 crossbars" in run.out


def test_taking_the_proof_out_of_a_plan_does_not_improve_its_exit_code(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    options = ("--hardware", "rram-256-arm", "--method", "cpu-only", "--crossbars", 20, "-o", path)
    assert cimplan("partition", "zoo:mobilenet_v2", *options).code == 0
    plan = json.loads(path.read_text())
    # The host alone, said to be optimal by the exact method, with nothing that proves it.
    plan |= {
        "method": "exact",
        "status": "optimal",
        "solver_claims": "optimal",
        "lower_bound_ns": plan["makespan_ns"],
        "gap": 0.0,
        "certificate": None,
        "proof": {"verdict": "none", "bound_ns": 0.0, "notes": []},
    }
    path.write_text(json.dumps(plan))
    run = cimplan("check", path)
    assert run.code == 1
    assert "none in the file: its lower bound of" in run.out and "optimal" not in run.out.split("proof")[0]
    found = cimplan("check", path, "--json").json
    assert (found["status"], found["solver_claims"], found["proof"]) == ("feasible", "optimal", "none")


def test_costs_of_another_network_are_found_and_not_known_without_it(cimplan, plan_file):
    plain = cimplan("check", plan_file)
    assert "not compared: all this is for the costs in this file" in plain.out
    assert cimplan("check", plan_file, "--json").json["costs"] == "not compared"
    same = cimplan("check", plan_file, "--model", "zoo:mobilenet_v2", "--hardware", "rram-256-arm")
    assert same.code == 0 and "costs    matched" in same.out
    assert cimplan("check", plan_file, "--model", "zoo:mobilenet_v2", "--json").json["costs"] == "matched"
    faster = cimplan("check", plan_file, "--model", "zoo:mobilenet_v2", "--mvm-latency", "10ns", "--json")
    assert faster.code == 1
    assert faster.json["costs"] == "differ" and any("cim_ns is" in line for line in faster.json["differences"])


def test_operators_that_stand_for_other_nodes_of_the_file_are_found(cimplan, plan_file, tmp_path):
    plan = json.loads(plan_file.read_text())
    one, other = [item for item in plan["operators"] if item["file_nodes"] and item["place"] == "cim"][:2]
    one["file_nodes"], other["file_nodes"] = other["file_nodes"], one["file_nodes"]
    path = tmp_path / "swapped.json"
    path.write_text(json.dumps(plan))
    found = cimplan("check", path, "--model", "zoo:mobilenet_v2", "--json")
    assert found.code == 1 and found.json["costs"] == "differ"
    assert [line.split(" is ")[0] for line in found.json["differences"]] == [
        f"operator {item['name']!r}: file_nodes" for item in (one, other)
    ]


def test_dropped_dependencies_are_found_by_the_model(cimplan, tmp_path):
    from cimplan.api.partitioning import cost
    from cimplan.partition.exact import solve
    from cimplan.plan.plan import build_plan

    costed = cost("zoo:mobilenet_v2", "rram-256-arm", crossbars=20)
    edges = costed.problem.dependencies
    ends = Counter(edge.target for edge in edges)
    skip = next(edge for edge in edges if ends[edge.target] > 1 and edge.target - edge.source > 1)
    fewer = replace(costed.problem, dependencies=tuple(edge for edge in edges if edge is not skip))
    path = tmp_path / "plan.json"
    build_plan(costed, solve(fewer), problem=fewer).write(path)
    assert cimplan("check", path).code == 0  # for the costs in the file it is what it says
    run = cimplan("check", path, "--model", "zoo:mobilenet_v2")
    assert run.code == 1
    assert "differ from those of the files given: 1 difference" in run.out
    assert "is missing in the plan" in run.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hardware", "rram-256-arm"), "hardware alone does not give the costs"),
        (("--model", "zoo:mobilenet_v2", "--hardware", "rram-256"), "cannot be rebuilt without a profile"),
        (("--mvm-latency", "10ns"), "--mvm-latency has nothing to go with"),
    ],
)
def test_what_does_not_suffice_to_rebuild_the_costs_is_asked_for(cimplan, plan_file, options, said):
    run = cimplan("check", plan_file, *options)
    assert run.code == 2
    assert said in run.err


def test_what_the_user_has_fixed_is_recorded_and_said_with_its_price(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    asked = ("partition", "zoo:mobilenet_v2", "--hardware", "rram-256-arm", "--crossbars", 20)
    free = cimplan(*asked, "--json").json
    name = next(one["name"] for one in free["operators"] if one["place"] == "cim")
    made = cimplan(*asked, "--fix", f"{name}=host", "-o", path)
    assert made.code == 0
    assert "optimal with 1 operator fixed" in made.out and "proven optimal with this operator fixed" in made.out
    plan = json.loads(path.read_text())
    assert plan["fixes"] == {name: "host"}
    assert plan["without_fixes"]["makespan_ns"] == free["makespan_ns"] < plan["makespan_ns"]
    run = cimplan("check", path, "--model", "zoo:mobilenet_v2")
    assert run.code == 0, run.out
    assert "with this operator fixed: this one is optimal with this operator fixed" in run.out
    assert "verified: without them" in run.out
    plan["without_fixes"]["lower_bound_ns"] += 1
    path.write_text(json.dumps(plan))
    assert cimplan("check", path).code == 2


def test_fixes_of_a_plan_that_does_not_record_them_are_seen(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    asked = ("partition", "zoo:mobilenet_v2", "--hardware", "rram-256-arm", "--crossbars", 20, "--json")
    name = next(one["name"] for one in cimplan(*asked).json["operators"] if one["place"] == "cim")
    assert cimplan(*asked, "--fix", f"{name}=host", "-o", path).code == 0
    plan = json.loads(path.read_text())
    for key in ("fixes", "without_fixes", "solver_claims"):
        del plan[key]
    for operator in plan["operators"]:
        del operator["ruled_out"]
    path.write_text(json.dumps(plan))
    run = cimplan("check", path)
    assert run.code == 0
    assert f"fixed    1 operator: {name} on host" in run.out
    assert "this one is optimal with this operator fixed" in run.out
    assert "not known" in run.out


def test_a_curve_is_verified_and_one_that_the_file_refutes_is_not(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    asked = ("partition", "zoo:mobilenet_v2", "--hardware", "rram-256-arm", "--crossbars", 20, "--curve", "-o", path)
    assert cimplan(*asked).code == 0
    run = cimplan("check", path)
    assert run.code == 0
    assert "curve    verified:" in run.out
    plan = json.loads(path.read_text())
    here = next(point for point in plan["curve"][::-1] if point["crossbars"] <= 20)
    here |= {"crossbars": 0, "schedule": None}
    plan["curve"] = [here]
    path.write_text(json.dumps(plan))
    run = cimplan("check", path)
    assert run.code == 2
    assert "without crossbars the host alone takes" in run.err


def test_a_dual_mode_plan_says_what_is_not_proven(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    asked = ("compile", "zoo:resnet18", "--hardware", "dynaplasia", "-o", path)
    assert cimplan(*asked).code == 0
    run = cimplan("check", path)
    assert run.code == 1
    assert "is the word of" in run.out and "not proven: the all-compute plan" in run.out
    found = cimplan("check", path, "--json").json
    assert (found["status"], found["proof"]) == ("feasible", "none")
    assert found["not_proven"] == ["lower_bound_cycles", "all_compute_cycles"]


def test_a_plan_may_come_through_a_pipe(cimplan, plan_file, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(plan_file.read_bytes()))
    writer.start()
    run = cimplan("check", pipe)  # read once: nothing would come a second time
    writer.join()
    assert run.code == 0
    assert "verified" in run.out


def test_a_dual_mode_plan_is_checked_too(cimplan, tmp_path):
    path = tmp_path / "plan.json"
    assert cimplan("compile", "zoo:resnet18", "--hardware", "dynaplasia", "-o", path).code == 0
    assert "every count, byte and cycle" in cimplan("check", path).out
    assert cimplan("check", path, "--json").json["proof"] == "none"
    plan = json.loads(path.read_text())
    plan["latency_cycles"] -= 1
    path.write_text(json.dumps(plan))
    assert cimplan("check", path).code == 2


def test_what_is_no_plan_is_refused(cimplan, tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[]")
    run = cimplan("check", path)
    assert run.code == 2
    assert "is not a partition plan" in run.err


@pytest.mark.parametrize("to", ["trace", "csv", "program", "onnx"])
@pytest.mark.parametrize("content", ["[]", "{}", '{"kind": "partition_plan"}', '{"kind": ["dual_mode_plan"]}'])
def test_a_file_of_no_known_kind_is_exported_to_no_format(cimplan, model_file, tmp_path, to, content):
    path = tmp_path / "plan.json"
    path.write_text(content)
    model = ("--model", model_file) if to == "onnx" else ()
    run = cimplan("export", path, "--to", to, "-o", tmp_path / "out", *model)
    assert run.code == 2
    assert "is not a partition plan" in run.err
    assert not (tmp_path / "out").exists()
