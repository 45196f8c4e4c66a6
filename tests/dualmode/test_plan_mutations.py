"""The checker catches what is changed in a sound plan."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from dual_networks import random_chip, random_graph, random_readings

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.options import CompileOptions
from cimplan.errors import InternalError
from cimplan.graph.operators import OperatorGraph
from cimplan.plan.dual_mode import DualModePlan
from cimplan.plan.dual_mode_check import checked, find_faults

# What no cycle, byte or array follows from.
FREE = {
    "compile_s",
    "checked",
    "statistics",
    "schema_version",
    "kind",
    "split_size",
    "limits",
    "all_compute_cycles",
    "lower_bound_cycles",
    "buffer_bytes",
}


RANGES = {"placement", "to_memory", "to_compute"}


def plans(seed: int, count: int, cost_model: str) -> list[tuple[OperatorGraph, DualModePlan]]:
    rng = Random(seed)
    found: list[tuple[OperatorGraph, DualModePlan]] = []
    while len(found) < count:
        graph = random_graph(rng, rng.randint(3, 8))
        plan = compile_graph(graph, random_chip(rng), CompileOptions(random_readings(rng, cost_model=cost_model)))
        if any(segment.stores for segment in plan.segments):
            found.append((graph, plan))
    return found


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every whole number in segments and operators."""
    if isinstance(value, dict):
        return [p for key, entry in value.items() if key not in FREE for p in numbers(entry, (*path, key))]
    if isinstance(value, list):
        return [p for index, entry in enumerate(value) for p in numbers(entry, (*path, index))]
    return [path] if isinstance(value, int) and not isinstance(value, bool) else []


@pytest.mark.parametrize("cost_model", ["published", "resident"])
def test_every_number_of_a_segment_is_checked(cost_model: str) -> None:
    rng = Random(6)
    tried = 0
    for graph, plan in plans(21, 12, cost_model):
        document = plan.to_json()
        paths = [*numbers(document["segments"], ("segments",)), ("latency_cycles",)]
        # Another array that nothing uses is as good; whether one has two roles is tested below.
        paths = [path for path in paths if not (len(path) > 2 and path[-3] in RANGES and path[-1] == 0)]
        if cost_model == "resident":
            # Holding a byte less may leave the run time as it is, and is then a plan as sound as this one.
            paths = [path for path in paths if path[-1] != "held_bytes"]
        for path in rng.sample(paths, min(40, len(paths))):
            changed = deepcopy(document)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] += rng.choice([1, -1, 3])
            tried += 1
            assert find_faults(DualModePlan.from_json(changed), graph), path
    assert tried > 300


def test_an_array_with_two_roles_is_refused() -> None:
    for graph, plan in plans(28, 8, "published"):
        document = plan.to_json()
        for segment in document["segments"]:
            for store in segment["stores"]:
                changed = deepcopy(store["placement"])
                store["placement"] = segment["parts"][0]["placement"]
                faults = find_faults(DualModePlan.from_json(document), graph)
                assert any("two roles" in fault.what for fault in faults)
                assert any("in compute mode" in fault.what for fault in faults)
                store["placement"] = changed


@pytest.mark.parametrize("field", ["inputs", "outputs", "mvms", "groups", "input_bytes"])
def test_extents_of_operators_are_checked(field: str) -> None:
    for graph, plan in plans(22, 5, "published"):
        document = plan.to_json()
        for index in range(len(plan.operators)):
            changed = deepcopy(document)
            changed["operators"][index][field] += 8
            assert find_faults(DualModePlan.from_json(changed), graph)


@pytest.mark.parametrize("field", ["op_per_cycle", "memory_bytes_per_cycle", "main_bytes_per_cycle", "rows", "arrays"])
def test_another_chip_is_noticed(field: str) -> None:
    noticed = 0
    cases = plans(23, 10, "published")
    for graph, plan in cases:
        value = getattr(plan.chip, field)
        changed = plan.to_json()
        changed["chip"][field] = max(1, value // 3)
        noticed += bool(find_faults(DualModePlan.from_json(changed), graph))
    assert noticed >= 5


def test_segments_in_another_order_are_refused() -> None:
    refused = 0
    for graph, plan in plans(24, 20, "published"):
        if len(plan.segments) < 2:
            continue
        document = plan.to_json()
        document["segments"].reverse()
        faults = find_faults(DualModePlan.from_json(document), graph)
        refused += any("runs before" in fault.what for fault in faults)
    assert refused >= 3


def test_a_segment_left_out_or_run_twice_is_refused() -> None:
    for graph, plan in plans(25, 8, "resident"):
        document = plan.to_json()
        for change in (lambda segments: segments.pop(), lambda segments: segments.append(segments[-1])):
            changed = deepcopy(document)
            change(changed["segments"])
            faults = find_faults(DualModePlan.from_json(changed), graph)
            assert any("exactly once" in fault.what or "no segments" in fault.what for fault in faults)


def test_the_plan_of_another_network_is_refused() -> None:
    (_, plan), (other, _) = plans(26, 2, "published")
    faults = find_faults(plan, other)
    assert any("not the matrix work" in fault.what or "extents" in fault.what for fault in faults)


def test_a_refused_plan_is_an_internal_error_that_says_where() -> None:
    graph, plan = plans(27, 1, "published")[0]
    document = plan.to_json()
    document["segments"][0]["cycles"] += 1
    with pytest.raises(InternalError, match=r"segment 0: running takes \d+ cycles"):
        checked(DualModePlan.from_json(document), graph)
