"""What `inspect` says of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cimplan.api.inspection import inspect_model
from cimplan.api.models import load


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(shape, 0.1, np.float32), name)


def save(path: Path, nodes: list[onnx.NodeProto], x: list[int], weights: list[onnx.TensorProto]) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_weight_that_two_operators_share_is_stored_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    found = inspect_model(
        load(save(tmp_path / "m.onnx", nodes, [1, 32, 8, 8], [weight("w", 32, 32, 3, 3)])), "rram-256"
    )
    assert found.weight_bytes == 32 * 32 * 3 * 3 * 4
    assert [row.weight_bytes for row in found.rows] == [36864, 36864]


def test_weights_inside_control_flow_are_counted_and_named_as_not_planned(tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w_{name}"], [f"out_{name}"])],
            name,
            [],
            [helper.make_tensor_value_info(f"out_{name}", TensorProto.FLOAT, [4, 8])],
            [weight(f"w_{name}", 16, 8)],
        )

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a"), else_branch=branch("b"), name="choice"),
    ]
    found = inspect_model(load(save(tmp_path / "m.onnx", nodes, [4, 16], [])), "rram-256")
    inside = 2 * 16 * 8 * 4
    assert (found.weight_bytes, found.not_planned_bytes) == (inside, inside)
    row = found.rows[-1]
    assert row.crossbars is None
    assert "2 matrix operators and 1.024 kB of constants inside are not planned" in row.reason
    assert found.to_json()["not_planned_bytes"] == inside


def test_recurrent_operators_show_both_their_matrices(tmp_path: Path) -> None:
    node = helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=4)
    path = save(tmp_path / "m.onnx", [node], [5, 2, 6], [weight("w", 1, 12, 6), weight("r", 1, 12, 4)])
    (row,) = inspect_model(load(path), "rram-256").rows
    assert row.lowered == "12 x 6 + 12 x 4" and row.steps == 5
    assert row.macs == 5 * 2 * 12 * (6 + 4)
    assert row.crossbars is None and "accelerator.gate_latency" in row.reason
