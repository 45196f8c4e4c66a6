"""The main job through the Python interface: reference networks measured here, planned and checked."""

from __future__ import annotations

import pytest

import cimplan as cp
from cimplan.api import partitioning
from cimplan.plan.check import check
from cimplan.plan.replay import replay
from cimplan.plan.summary import summary

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

BUDGETS = (25, 50, 100, 200)
LATENCIES_NS = (50.0, 1000.0)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet_v2", "yolov5n"])
def test_reference_networks_are_planned_and_checked_on_this_host(name):
    """Host times differ from run to run, so YOLOv5n alone gets a time limit instead of a promise of a proof."""
    profile = cp.profile(f"zoo:{name}", measure_s=1)
    assert profile.origin == "measured"
    found = {}
    for crossbars in BUDGETS:
        for latency_ns in LATENCIES_NS:
            limit_s = 20 if name == "yolov5n" else None
            plan = cp.partition(
                None, profile=profile, crossbars=crossbars, mvm_latency_ns=latency_ns, time_limit_s=limit_s
            )
            assert plan.checked
            assert plan.gap < 0.02
            assert plan.status == "optimal" or name == "yolov5n"
            assert (plan.status == "optimal") == (plan.lower_bound_ns == plan.makespan_ns)
            # Check and replay once more, from the plan alone.
            problem, schedule = plan.problem(), plan.ticks()
            bound = round(plan.lower_bound_ns / plan.tick_ns)
            assert check(problem, schedule, status=plan.status, lower_bound=bound).passed
            assert replay(problem, schedule).makespan * plan.tick_ns == plan.makespan_ns
            found[crossbars, latency_ns] = plan
    # More crossbars or faster MVMs never make the optimum worse: no plan may beat the bound of an easier question.
    for (crossbars, latency_ns), plan in found.items():
        for (more, faster_ns), easier in found.items():
            if more >= crossbars and faster_ns <= latency_ns:
                assert easier.lower_bound_ns <= plan.makespan_ns


def test_an_estimated_host_is_never_called_measured():
    plan = cp.partition("zoo:mobilenet_v2", "rram-256-arm", crossbars=50)
    assert plan.times.host == "estimated"
    assert "estimated" in dict(summary(plan))["times"]


def test_costs_can_be_reused_for_many_questions():
    costed = partitioning.cost("zoo:mobilenet_v2", "rram-256-arm", crossbars=100)
    free = partitioning.solve(costed)
    stem = next(item.name for item in free.operators if item.place == "cim")
    held = partitioning.solve(costed, fix={stem: "host"})
    assert held.assignment[stem] == "host"
    assert partitioning.solve(costed, fix={stem: "Host"}).assignment == held.assignment
    assert held.makespan_ns >= free.makespan_ns
    assert free.assignment.keys() == set(costed.problem.names)


def test_a_wider_bus_never_hurts():
    slow, fast = (
        cp.partition("zoo:mobilenet_v2", "rram-256-arm", crossbars=60, bus_bandwidth_gbps=bandwidth)
        for bandwidth in (1.0, 16.0)
    )
    assert fast.makespan_ns <= slow.makespan_ns


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_times_that_are_not_positive_and_finite_are_refused_before_anything_is_measured(seconds):
    costed = partitioning.cost("zoo:mobilenet_v2", "rram-256-arm")
    for ask in (
        lambda: cp.partition("no such file", time_limit_s=seconds),
        lambda: partitioning.solve(costed, time_limit_s=seconds),
        lambda: cp.profile("no such file", measure_s=seconds),
    ):
        with pytest.raises(cp.InputError, match="must be positive and finite"):
            ask()


@pytest.mark.parametrize("method", ["ilp", "ilp-scip"])
def test_an_ilp_stopped_before_it_finds_anything_does_not_come_back_empty_handed(method):
    costed = partitioning.cost("zoo:yolov5n", "rram-256-arm", crossbars=100)
    stopped = partitioning.solve(costed, method=method, time_limit_s=1e-3)
    greedy = partitioning.solve(costed, method="greedy")
    assert stopped.makespan_ns == greedy.makespan_ns < greedy.host_only_ns
    assert 0 < stopped.lower_bound_ns < stopped.makespan_ns
    assert stopped.checked
    assert "greedy" in dict(summary(stopped))["schedule"]
    assert not dict(summary(greedy))["schedule"]
    assert partitioning.solve(costed, method="cpu-only").assignment == dict.fromkeys(costed.problem.names, "host")
