"""Every operator of an optimised graph says which nodes of the user's file it stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cimplan as cp
from cimplan.api.fixing import placed
from cimplan.cost.estimate import estimate
from cimplan.cost.layout import fold_reorders
from cimplan.cost.profile import optimised_graph
from cimplan.errors import InputError
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.quantise import quantise


def weight(name: str, *shape: int) -> onnx.TensorProto:
    data = np.random.default_rng([1, *name.encode()]).normal(size=shape) * 0.1
    return numpy_helper.from_array(data.astype(np.float32), name)


def residual_network() -> onnx.ModelProto:
    """Return convolutions with Relu, a sum of two branches, SiLU, and a Gemm written as MatMul and Add."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["t1"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["t1"], ["t2"], name="stem_act"),
        helper.make_node("Conv", ["t2", "w2"], ["t3"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["t2", "w3"], ["t4"], name="right", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["t3", "t4"], ["t5"], name="join"),
        helper.make_node("Relu", ["t5"], ["t6"], name="join_act"),
        helper.make_node("Sigmoid", ["t6"], ["t7"], name="gate"),
        helper.make_node("Mul", ["t6", "t7"], ["t8"], name="silu"),
        helper.make_node("GlobalAveragePool", ["t8"], ["t9"], name="pool"),
        helper.make_node("Flatten", ["t9"], ["t10"], name="flat"),
        helper.make_node("MatMul", ["t10", "w4"], ["t11"], name="fc"),
        helper.make_node("Add", ["t11", "b4"], ["y"], name="fc_bias"),
    ]
    weights = [weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 16, 16, 3, 3), weight("w3", 16, 16, 3, 3)]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [*weights, weight("w4", 16, 8), weight("b4", 8)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def without_names(net: onnx.ModelProto) -> onnx.ModelProto:
    for node in net.graph.node:
        node.name = ""
    return net


def optimised(net: onnx.ModelProto, path: Path) -> OperatorGraph:
    onnx.save(net, path)
    return optimised_graph(path)[0]


def by_node(graph: OperatorGraph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for op in graph.operators:
        for node in op.file_nodes:
            found.setdefault(node, []).append(op.op_type)
    return found


def test_a_fused_operator_stands_for_all_that_was_fused(tmp_path: Path) -> None:
    graph = optimised(residual_network(), tmp_path / "m.onnx")
    found = by_node(graph)
    # Every node of the file is found again, in one operator.
    assert set(found) == {node.name for node in residual_network().graph.node}
    assert all(len(types) == 1 for types in found.values())
    together = {op.file_nodes for op in graph.operators}
    assert ("stem", "stem_act") in together
    assert ("fc", "fc_bias") in together
    assert ("gate", "silu") in together
    # One of the two convolutions takes the sum and its Relu with it, or both stay apart.
    joined = next(op for op in graph.operators if "join" in op.file_nodes)
    assert set(joined.file_nodes) <= {"left", "right", "join", "join_act"}
    for op in graph.operators:
        if op.work is not None:
            assert {"stem", "left", "right", "fc"} & set(op.file_nodes)


def test_nodes_without_names_are_known_by_what_they_make(tmp_path: Path) -> None:
    graph = optimised(without_names(residual_network()), tmp_path / "m.onnx")
    assert set(by_node(graph)) == {name for node in residual_network().graph.node for name in node.output}
    assert {("t1", "t2"), ("t7", "t8"), ("t9",)} <= {op.file_nodes for op in graph.operators}


def test_a_quantised_convolution_stands_for_its_quantisers_too(tmp_path: Path) -> None:
    onnx.save(residual_network(), tmp_path / "float.onnx")
    quantise(tmp_path / "float.onnx", tmp_path / "int8.onnx")
    graph, _ = optimised_graph(tmp_path / "int8.onnx")
    convolutions = {"stem": 0, "left": 0, "right": 0}
    for op in graph.operators:
        for name in convolutions.keys() & set(op.file_nodes):
            assert op.op_type == "QLinearConv" and len(op.file_nodes) >= 4
            convolutions[name] += 1
    assert set(convolutions.values()) == {1}


def test_each_of_several_convolutions_with_relu_stands_for_its_own_nodes_alone(tmp_path: Path) -> None:
    """ONNX Runtime fuses a Relu first and then calls the blocked convolution after the result of the Relu."""
    nodes, weights = [], []
    for index, (before, after) in enumerate([(3, 16), (16, 20), (20, 32)]):
        padded, pads = f"r{index - 1}" if index else "x", [1, 1, 1, 1]
        if index == 2:
            nodes.append(helper.make_node("Pad", [padded, "pads"], ["p2"], name="pad2"))
            padded, pads = "p2", [0, 0, 0, 0]
        nodes.append(helper.make_node("Conv", [padded, f"w{index}"], [f"c{index}"], name=f"conv{index}", pads=pads))
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"], name=f"relu{index}"))
        weights.append(weight(f"w{index}", after, before, 3, 3))
    weights.append(numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("r2", TensorProto.FLOAT, [1, 32, 12, 12])],
        weights,
    )
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    found = fold_reorders(estimate(path, "cortex-a72").graph()).graph
    expected = [("conv0", "relu0"), ("conv1", "relu1"), ("pad2", "conv2", "relu2")]
    assert [op.file_nodes for op in found.operators] == expected


@pytest.mark.parametrize("change", [lambda net: net, without_names])
def test_a_plan_says_it_and_takes_the_names_of_the_file(
    change: Callable[[onnx.ModelProto], onnx.ModelProto], tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(change(residual_network()), path)
    names = [node.name or node.output[0] for node in onnx.load(path).graph.node]
    profile = estimate(path, "cortex-a72")
    plan = cp.partition(path, "rram-256", profile, fix={names[0]: "host", names[10]: "cim"})
    place = {node: item.place for item in plan.operators for node in item.file_nodes}
    assert place[names[0]] == "host" and place[names[1]] == "host"
    assert place[names[10]] == "cim"
    assert [item["file_nodes"] for item in plan.to_json()["operators"]] == [
        list(op.file_nodes) for op in fold_reorders(profile.graph()).graph.operators
    ]


def test_a_shared_node_is_refused_with_the_operators_it_is_in(tmp_path: Path) -> None:
    onnx.save(residual_network(), tmp_path / "float.onnx")
    quantise(tmp_path / "float.onnx", tmp_path / "int8.onnx")
    from cimplan.api.partitioning import cost

    costed = cost(tmp_path / "int8.onnx", "rram-256", estimate(tmp_path / "int8.onnx", "cortex-a72"))
    shared = next(
        node
        for op in costed.graph.operators
        for node in op.file_nodes
        if sum(node in other.file_nodes for other in costed.graph.operators) > 1
    )
    with pytest.raises(InputError, match=r"several operators share.*Fix one of them: '"):
        placed(costed, {shared: "host"})


def test_two_names_of_one_operator_must_agree(tmp_path: Path) -> None:
    onnx.save(residual_network(), tmp_path / "m.onnx")
    from cimplan.api.partitioning import cost

    costed = cost(tmp_path / "m.onnx", "rram-256", estimate(tmp_path / "m.onnx", "cortex-a72"))
    assert len(placed(costed, {"fc": "cim", "fc_bias": "CIM"})) == 1
    with pytest.raises(InputError, match="placed twice"):
        placed(costed, {"fc": "cim", "fc_bias": "host"})
    with pytest.raises(InputError, match=r"unknown operator.*nearest.*'stem"):
        placed(costed, {"stam": "cim"})
