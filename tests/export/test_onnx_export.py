"""Annotated ONNX passes the checker and computes the same; the parts run one after another and compute the same."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from cimplan.api.partitioning import cost, estimate
from cimplan.cost.layout import fold_reorders
from cimplan.cost.problem import CIM, HOST
from cimplan.cost.profile import optimised_graph
from cimplan.errors import InputError
from cimplan.export.matching import match_operators
from cimplan.export.onnx import MANIFEST, segments, write_onnx, write_parts
from cimplan.files import sha256_of
from cimplan.graph.operators import OperatorGraph
from cimplan.plan.context import context_of
from cimplan.plan.document import OperatorPart
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.replay import replay
from cimplan.plan.schedule import Schedule, Solution


def network() -> onnx.ModelProto:
    """Branches, a skip, a captured tensor in an If, and matrix work of both kinds."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    def branch(name: str, node: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(node, ["c"], [f"{name}_out"], name=name)], name, [], [output])

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["b"], name="act"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["d"], name="right"),
        helper.make_node(
            "If", ["flag"], ["g"], name="either", then_branch=branch("yes", "Tanh"), else_branch=branch("no", "Neg")
        ),
        helper.make_node("Add", ["g", "d"], ["e"], name="join"),
        helper.make_node("ReduceMean", ["e"], ["f"], name="pool", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["f", "w3"], ["scores"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 12, 12]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5]),
            helper.make_tensor_value_info("e", TensorProto.FLOAT, [1, 8, 12, 12]),
        ],
        [weight("w0", 8, 3, 3, 3), weight("w1", 8, 8, 3, 3), weight("w2", 8, 8, 1, 1), weight("w3", 8, 5)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


FEED = {"image": np.random.default_rng(1).normal(size=(1, 3, 12, 12)).astype(np.float32), "flag": np.array(True)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(network(), path)
    return path


def plan_with(model: Path, seed: int) -> Plan:
    """Return a plan with random places, so that regions interleave."""
    costed = cost(model, profile=estimate(model))
    rng = random.Random(seed)
    chosen = tuple(rng.randrange(len(options)) for options in costed.problem.options)
    order = Schedule(chosen, tuple(range(len(chosen))))
    schedule = replay(costed.problem, order).schedule
    return plan_from(costed.problem, Solution("random", "feasible", schedule), context_of(costed))


def run(path: Path, feed: dict[str, Any]) -> dict[str, Any]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def reorders_now(operator: OperatorPart, nodes: dict[str, dict[str, str]]) -> list[str]:
    """Return the reorders of an operator by the names they have this time; there are as many as in the plan."""
    found = [name for name, entries in nodes.items() if entries["cimplan.operator"] == operator.name]
    assert len(found) == len(operator.reorders)
    return found


def test_placement_stands_in_the_metadata_of_each_node(model: Path, tmp_path: Path) -> None:
    plan, before = plan_with(model, 1), sha256_of(model)
    (path,) = write_onnx(plan, tmp_path / "annotated.onnx", model=model)
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    found = {node.name: {entry.key: entry.value for entry in node.metadata_props} for node in proto.graph.node}
    beside = {name: found.pop(name) for name in list(found) if "cimplan.operator" in found[name]}
    assert {name: entries["cimplan.place"] for name, entries in found.items()} == plan.assignment
    # Reorders of the host's layout go with the operator that stands for them.
    assert sorted(beside) == sorted(name for operator in plan.operators for name in reorders_now(operator, beside))
    for entries in beside.values():
        assert entries["cimplan.place"] == plan.assignment[entries["cimplan.operator"]]
    for operator in plan.operators:
        assert float(found[operator.name]["cimplan.start_ns"]) == operator.start_ns
        assert int(found[operator.name]["cimplan.crossbars"]) == operator.crossbars
        region = plan.regions[int(found[operator.name]["cimplan.region"])]
        assert operator.name in region.operators
    whole = {entry.key: entry.value for entry in proto.metadata_props}
    assert float(whole["cimplan.makespan_ns"]) == plan.makespan_ns
    assert sha256_of(model) == before, "the model is only read"
    for name, value in run(model, FEED).items():
        np.testing.assert_allclose(run(path, FEED)[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_run_one_after_another_and_compute_the_same(model: Path, tmp_path: Path, seed: int) -> None:
    plan = plan_with(model, seed)
    manifest_path, *files = write_parts(plan, tmp_path / "parts", model=model)
    manifest = json.loads(manifest_path.read_text())
    assert manifest_path.name == MANIFEST
    assert [entry["file"] for entry in manifest["parts"]] == [path.name for path in files]
    assert sorted(name for entry in manifest["parts"] for name in entry["operators"]) == sorted(plan.assignment)
    assert sum(entry["crossbars"] for entry in manifest["parts"]) == plan.crossbars_used
    values = dict(FEED)
    for entry, path in zip(manifest["parts"], files, strict=True):
        proto = onnx.load(path)
        onnx.checker.check_model(proto)
        assert {plan.assignment[name] for name in entry["operators"]} == {entry["place"]}
        assert [value.name for value in proto.graph.input] == entry["inputs"]
        values |= run(path, {name: values[name] for name in entry["inputs"]})
    expected = run(model, FEED)
    assert manifest["outputs"] == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-5, atol=1e-5)


def test_a_region_around_another_is_split_so_that_it_can_run(model: Path) -> None:
    for seed in range(8):
        plan = plan_with(model, seed)
        number = {
            name: index
            for index, part in enumerate(segments(plan))
            for v in part.operators
            for name in [plan.operators[v].name]
        }
        assert sorted(number) == sorted(plan.assignment)
        for edge in plan.dependencies:
            assert number[edge.source] <= number[edge.target]
            if plan.assignment[edge.source] != plan.assignment[edge.target]:
                assert number[edge.source] < number[edge.target]


def test_another_model_and_another_graph_are_refused(model: Path, tmp_path: Path) -> None:
    plan = plan_with(model, 1)
    other = tmp_path / "other.onnx"
    changed = network()
    changed.graph.node[5].op_type = "Mul"
    onnx.save(changed, other)
    target = tmp_path / "out.onnx"
    with pytest.raises(InputError, match=r"other\.onnx: the plan is not of this model"):
        write_onnx(plan, target, model=other)
    blind = plan.model_copy(update={"inputs": {}})
    with pytest.raises(InputError, match=r"optimised graph is not the one that was planned"):
        write_onnx(blind, target, model=other)
    with pytest.raises(InputError, match="would be overwritten"):
        write_onnx(plan, model, model=model)
    with pytest.raises(InputError, match="there is no such file"):
        write_onnx(plan, target, model=tmp_path / "none.onnx")
    assert not target.exists()


def renamed(graph: OperatorGraph, names: dict[str, str]) -> OperatorGraph:
    return replace(
        graph, operators=tuple(replace(item, name=names.get(item.name, item.name)) for item in graph.operators)
    )


def with_names(plan: Plan, names: dict[str, str]) -> Plan:
    return plan.model_copy(
        update={
            "operators": tuple(
                item.model_copy(update={"name": names.get(item.name, item.name)}) for item in plan.operators
            ),
            "dependencies": tuple(
                edge.model_copy(
                    update={
                        "source": names.get(edge.source, edge.source),
                        "target": names.get(edge.target, edge.target),
                    }
                )
                for edge in plan.dependencies
            ),
        }
    )


def test_operators_are_found_by_what_flows_when_counters_differ(model: Path) -> None:
    made, (whole, _) = plan_with(model, 1), optimised_graph(model)
    graph = fold_reorders(whole).graph
    joins = {"join": "twin", "pool": "twin_2"}
    plan, straight = with_names(made, joins), renamed(graph, joins)
    crossed = renamed(graph, {"join": "twin_2", "pool": "twin"})
    turned = {"twin": "twin_2", "twin_2": "twin"}
    assert [turned.get(name, name) for name in match_operators(plan, straight)] == match_operators(plan, crossed)
    other = dict(zip(["join", "pool"], ["pool", "join"], strict=True))
    with pytest.raises(InputError, match="not the one that was planned"):
        match_operators(made, renamed(graph, other))
    with pytest.raises(InputError, match="operator 'join'"):
        match_operators(made, renamed(graph, {"join": "another"}))


def test_places_become_safe_file_names(model: Path, tmp_path: Path) -> None:
    plan = plan_with(model, 2)
    _, *files = write_parts(plan, tmp_path / "parts", model=model)
    assert all(path.name.endswith(("_host.onnx", "_cim.onnx")) for path in files)
    assert {HOST, CIM} >= set(plan.assignment.values())
