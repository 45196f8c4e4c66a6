"""`cimplan check`: what a plan file says, and the proof in it, again."""

from __future__ import annotations

import json

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


def test_a_proof_that_takes_more_search_than_allowed_is_incomplete(cimplan, changed):
    path = changed(
        certificate=lambda certificate: certificate | {"lower_bound": certificate["lower_bound"] + 1, "exhausted": True}
    )
    run = cimplan("check", path, "--search-nodes", 0)
    assert run.code == 1
    assert "incomplete" in run.out


def test_a_plan_without_a_proof_says_so(cimplan, changed):
    path = changed(certificate=lambda _: None, method=lambda _: "heft")
    run = cimplan("check", path)
    assert run.code == 0
    assert "'heft' gives no certificate" in run.out


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
