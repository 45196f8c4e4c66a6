"""Operators that networks of other people hold, from the file to a plan: `inspect` and `partition` agree on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import cimplan as cp
from cimplan import hardware
from cimplan.api.inspection import inspect_model
from cimplan.cost.estimate import estimate
from cimplan.graph.attention import split_attention

M = "com.microsoft"
GATED = hardware.from_description(
    {
        "schema_version": 1,
        "name": "gated",
        "bus": {"bandwidth": "20GB/s"},
        "accelerator": {
            "crossbars": 200,
            "rows": 256,
            "columns": 256,
            "mvm_latency": "50ns",
            "gate_latency": "100ns",
            "internal_bandwidth": "20GB/s",
        },
    }
)


def weight(name: str, *shape: int, dtype: str = "float32") -> onnx.TensorProto:
    random = np.random.default_rng([1, *name.encode()])
    data = random.normal(size=shape) * 0.1 if dtype == "float32" else random.integers(0, 250, size=shape)
    return numpy_helper.from_array(data.astype(dtype), name)


def scalar(name: str, value: Any, dtype: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def net(nodes: list[onnx.NodeProto], x: list[int], weights: list[onnx.TensorProto], opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(M, 1)], ir_version=10
    )


def lstm() -> onnx.ModelProto:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=32, direction="bidirectional", name="cell")
    return net([node], [20, 1, 40], [weight("w", 2, 128, 40), weight("r", 2, 128, 32)])


def gru() -> onnx.ModelProto:
    node = helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=32, name="cell")
    return net([node], [20, 1, 40], [weight("w", 1, 96, 40), weight("r", 1, 96, 32)])


def dynamic_lstm() -> onnx.ModelProto:
    nodes = [
        helper.make_node(
            "DynamicQuantizeLSTM",
            ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"],
            ["", "y"],
            hidden_size=32,
            domain=M,
            name="cell",
        )
    ]
    weights = [weight("w", 1, 40, 128, dtype="uint8"), weight("r", 1, 32, 128, dtype="uint8")]
    scales = [scalar("ws", [0.01], "float32"), scalar("rs", [0.01], "float32")]
    return net(nodes, [20, 1, 40], [*weights, *scales, scalar("wz", [125], "uint8"), scalar("rz", [125], "uint8")])


def einsum() -> onnx.ModelProto:
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation="bthd,hde->bte", name="e")
    return net([node], [1, 6, 4, 16], [weight("w", 4, 16, 64)])


def nbits() -> onnx.ModelProto:
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], K=64, N=48, bits=4, block_size=32, domain=M, name="packed"
    )
    return net([node], [4, 64], [weight("w", 48, 2, 16, dtype="uint8"), weight("s", 48 * 2)])


def int4_blocks() -> onnx.ModelProto:
    packed = helper.make_tensor("w", TensorProto.INT4, [64, 48], np.arange(64 * 48) % 8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=0, block_size=32, name="dq"),
        helper.make_node("MatMul", ["x", "f"], ["y"], name="mm"),
    ]
    return net(nodes, [4, 64], [packed, weight("s", 2, 48)], opset=21)


def int8_blocks() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], name="dq"),
        helper.make_node("MatMul", ["x", "f"], ["y"], name="mm"),
    ]
    weights = [weight("w", 64, 48, dtype="uint8"), scalar("s", 0.01, "float32"), scalar("z", 125, "uint8")]
    return net(nodes, [4, 64], weights)


@pytest.mark.parametrize("build", [lstm, gru, dynamic_lstm, einsum, nbits, int4_blocks, int8_blocks])
def test_inspect_and_partition_agree_and_the_plan_offloads(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build(), path)
    (row,) = _matrix_rows(path)
    profile = estimate(path, "cortex-a72")  # ONNX Runtime runs it once, for its graph and shapes
    (operator,) = (op for op in profile.graph().operators if op.work is not None)
    work = operator.work
    assert work is not None
    assert (row.macs, row.outputs, row.inputs, row.mvms) == (work.macs, work.outputs, work.inputs, work.mvms)
    assert row.name in operator.file_nodes
    plan = cp.partition(path, GATED, profile, fix={row.name: "cim"})
    (planned,) = (item for item in plan.operators if item.name == operator.name)
    assert planned.place == "cim" and planned.crossbars == row.crossbars


def _matrix_rows(path: Path) -> list[Any]:
    return [row for row in inspect_model(cp.load(path), GATED).rows if row.macs]


# --- attention -----------------------------------------------------------------------------------------------------


def attention(mask: list[int] | None = None, *, past: bool = False) -> onnx.ModelProto:
    inputs = ["x", "w", "b", "m" if mask else "", "p" if past else ""]
    while not inputs[-1]:
        inputs.pop()
    nodes = [
        helper.make_node(
            "Attention", inputs, ["a", *(["present"] if past else [])], name="attn", domain=M, num_heads=4
        ),
        helper.make_node("MatMul", ["a", "wo"], ["y"], name="out"),
    ]
    model = net(nodes, [2, 8, 32], [weight("w", 32, 96), weight("b", 96), weight("wo", 32, 16)])
    if mask:
        model.graph.input.append(helper.make_tensor_value_info("m", TensorProto.INT32, mask))
    if past:
        model.graph.input.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [2, 2, 4, 3, 8]))
        model.graph.output.append(helper.make_tensor_value_info("present", TensorProto.FLOAT, None))
    return model


def quantised_attention() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"], name="q"),
        helper.make_node(
            "QAttention", ["xq", "w", "b", "xs", "ws", "", "xz", "wz"], ["a"], name="attn", domain=M, num_heads=4
        ),
        helper.make_node("MatMul", ["a", "wo"], ["y"], name="out"),
    ]
    scales = [scalar("ws", 0.01, "float32"), scalar("wz", 125, "uint8")]
    return net(nodes, [2, 8, 32], [weight("w", 32, 96, dtype="uint8"), weight("b", 96), *scales, weight("wo", 32, 16)])


def run(model: onnx.ModelProto, **feeds: Any) -> Any:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], feeds)[0]


@pytest.mark.parametrize("build", [attention, lambda: attention([2, 8]), quantised_attention])
def test_a_split_attention_computes_the_same(build: Any) -> None:
    whole, split = build(), build()
    assert split_attention(split)
    feeds: dict[str, Any] = {"x": np.random.default_rng(3).normal(size=(2, 8, 32)).astype(np.float32)}
    if any(value.name == "m" for value in whole.graph.input):
        feeds["m"] = np.array([[1] * 8, [1] * 5 + [0] * 3], np.int32)
    np.testing.assert_allclose(run(split, **feeds), run(whole, **feeds), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", [attention, lambda: attention([2, 8]), quantised_attention])
def test_the_projection_of_an_attention_is_an_operator_of_its_own(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build(), path)
    profile = estimate(path, "cortex-a72")
    graph = profile.graph()
    projection = next(op for op in graph.operators if op.name == "attn/projection")
    # 96 outputs for query, key and value, 32 inputs, one vector for each of 2 x 8 positions.
    assert projection.work is not None
    assert (projection.work.outputs, projection.work.inputs, projection.work.mvms) == (96, 32, 16)
    core = next(op for op in graph.operators if op.op_type == "MultiHeadAttention")
    assert core.work is None and core.unlowered
    assert projection.file_nodes == core.file_nodes == ("attn",)
    assert {row.name for row in _matrix_rows(path)} == {op.name for op in graph.operators if op.work is not None}
    plan = cp.partition(path, GATED, profile, fix={"attn/projection": "cim"})
    assert next(item for item in plan.operators if item.name == "attn/projection").crossbars == 1


def test_an_attention_that_keeps_earlier_keys_stays_whole(tmp_path: Path) -> None:
    model = attention(past=True)
    assert not split_attention(model)
    onnx.save(model, tmp_path / "m.onnx")
    row = next(row for row in inspect_model(cp.load(tmp_path / "m.onnx"), GATED).rows if row.name == "attn")
    assert row.crossbars is None and "cannot be split" in row.reason
