"""A network small enough to measure in a moment, with work for host and crossbars."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_network(channels: int = 32) -> onnx.ModelProto:
    """Two convolutions in parallel between two in series, and a fully connected end: 5 operators of matrix work."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.2, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["d"], name="right"),
        helper.make_node("Add", ["c", "d"], ["e"], name="join"),
        helper.make_node("ReduceMean", ["e"], ["f"], name="pool", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["f", "w3"], ["scores"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [
            weight("w0", channels, 3, 3, 3),
            weight("w1", channels, channels, 3, 3),
            weight("w2", channels, channels, 1, 1),
            weight("w3", channels, 10),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
