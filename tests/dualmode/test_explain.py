from __future__ import annotations

import json
from random import Random

import pytest
from dual_networks import Sketch, chip, random_chip, random_graph, random_readings
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.explain import explain
from cimplan.dualmode.options import CompileOptions, make_readings


@given(st.integers(0, 10**9), st.sampled_from(["exact", "all_compute", "greedy", "layer_by_layer"]))
@settings(deadline=None, max_examples=40)
def test_every_plan_can_be_explained(seed: int, method: str) -> None:
    rng = Random(seed)
    graph = random_graph(rng, rng.randint(1, 6))
    plan = compile_graph(graph, random_chip(rng), CompileOptions(random_readings(rng), method))
    found = explain(plan, what_if=False)
    assert sum(report.count for report in found.segments) == len(plan.segments)
    assert sum(found.time_by_bound.values()) == plan.latency_cycles
    assert all(0 < report.balance <= 1 for report in found.segments)
    assert found.findings
    json.dumps(found.to_json(), allow_nan=False)


def test_what_an_array_gains_is_what_compiling_for_it_gains() -> None:
    # One operator in one segment: the array the report asks for is the one that a larger chip adds.
    net = Sketch("one")
    graph = net.graph(net.matmul(net.input("x", 30, 16), 2))
    small = chip(arrays=3, op_per_cycle=8.0, memory_bytes_per_cycle=1.0, main_bytes_per_cycle=90.0, write_cycles=0)
    options = CompileOptions(make_readings(weight_writes="free"))
    plan = compile_graph(graph, small, options)
    assert len(plan.segments) == 1
    found = explain(plan)
    assert found.segments[0].bound == "compute"
    assert found.best_array is not None
    assert found.best_array.role_of_array == "compute"
    larger = compile_graph(graph, small.model_copy(update={"arrays": 4}), options)
    assert found.best_array.gain_of_array == plan.latency_cycles - larger.latency_cycles > 0
    what_if = {entry.field: entry for entry in found.what_if if entry.value == 4}
    assert what_if["arrays"].latency_cycles == larger.latency_cycles


@pytest.mark.parametrize(
    ("changes", "readings", "bound"),
    [
        ({"op_per_cycle": 0.5}, {"weight_writes": "free"}, "compute"),
        ({"op_per_cycle": 1e6, "main_bytes_per_cycle": 0.1}, {"weight_writes": "free"}, "bandwidth"),
        ({"op_per_cycle": 1e6, "main_bytes_per_cycle": 1e6, "write_cycles": 500}, {}, "writing"),
    ],
)
def test_what_bounds_a_segment_is_named(changes: dict[str, float], readings: dict[str, str], bound: str) -> None:
    net = Sketch("one")
    graph = net.graph(net.matmul(net.input("x", 30, 16), 2))
    plan = compile_graph(graph, chip(**changes), CompileOptions(make_readings(**readings)))
    assert [report.bound for report in explain(plan, what_if=False).segments] == [bound]


def test_a_limit_that_costs_something_is_named() -> None:
    rng = Random(3)
    named = 0
    for _ in range(20):
        plan = compile_graph(random_graph(rng, 6), random_chip(rng), CompileOptions(segment_pieces=1))
        if plan.gap > 0:
            assert any("the limit of 1 pieces" in finding for finding in explain(plan, what_if=False).findings)
            named += 1
    assert named > 0
