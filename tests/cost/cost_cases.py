"""Small networks, profiles and accelerators, made by hand for the tests of this room."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from cimplan import hardware
from cimplan.cost import profile_file
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor

SPREAD = {
    "runs": 3,
    "median_ns": 1000.0,
    "lower_quartile_ns": 1000.0,
    "upper_quartile_ns": 1000.0,
    "least_ns": 1000.0,
    "fastest_quarter_ns": 1000.0,
    "most_ns": 1000.0,
}


def accelerator(**fields):
    """Return an accelerator of 64x32 crossbars at 2 GB/s and 100 ns, with changes named as in a file."""
    return chip(**fields).accelerator


def chip(*, bandwidth="4GB/s", cores=1, network_io="free", **fields):
    value = {
        "schema_version": 1,
        "name": "case",
        "host": {"cores": cores},
        "bus": {"bandwidth": bandwidth, "network_io": network_io},
        "accelerator": {
            "crossbars": 10,
            "rows": 64,
            "columns": 32,
            "mvm_latency": "100ns",
            "internal_bandwidth": "2GB/s",
        }
        | fields,
    }
    return hardware.from_description(value)


def small_graph():
    """Return conv -> relu -> reshape -> gemm, and a product of two activations beside it.

    conv: int8 3x8x8 to 40x8x8 by 3x3: M 40, N 27, 64 MVMs; 192 bytes in, 2560 out.
    gemm: 2560 to 10, float32 out.
    """
    tensors = [
        Tensor("x", "uint8", (1, 3, 8, 8)),
        Tensor("w", "int8", (40, 3, 3, 3), True),
        Tensor("c", "uint8", (1, 40, 8, 8)),
        Tensor("r", "uint8", (1, 40, 8, 8)),
        Tensor("v", "uint8", (1, 2560)),
        Tensor("w2", "int8", (2560, 10), True),
        Tensor("y", "float32", (1, 10)),
        Tensor("z", "float32", (10, 10)),
    ]
    operators = (
        Operator("conv", "QLinearConv", "", ("x", "w"), ("c",), MatrixWork(40, 27, 64), weight_input="w"),
        Operator("relu", "Relu", "", ("c",), ("r",), no_work_reason="not a product with a weight matrix"),
        Operator("reshape", "Reshape", "", ("r",), ("v",), no_work_reason="only renames data", view=True),
        Operator("gemm", "QGemm", "com.microsoft", ("v", "w2"), ("y",), MatrixWork(10, 2560, 1), weight_input="w2"),
        Operator(
            "outer",
            "MatMul",
            "",
            ("y", "y"),
            ("z",),
            MatrixWork(10, 1, 10, 1, "activation"),
            no_work_reason="multiplies two activations",
            weight_input="y",
        ),
    )
    return OperatorGraph("small", operators, {tensor.name: tensor for tensor in tensors}, ("x",), ("z",))


def small_profile(times=(9000.4, 2000.0, 0.0, 5000.0, 700.0), graph=None):
    """Return a measured profile of a graph, by default of `small_graph`."""
    graph = graph or small_graph()
    kinds = ["free (view)" if op.view and not ns else "measured" for op, ns in zip(graph.operators, times, strict=True)]
    value = profile_file.HostProfile.model_validate(
        {
            "schema_version": 1,
            "cimplan_version": "0",
            "origin": "measured",
            "model": {"name": "small.onnx", "sha256": "0" * 64, "size_bytes": 1},
            "machine": {"cpu": "a", "architecture": "b", "system": "c", "threads": 1},
            "graph": profile_file.record_of(graph),
            "times": {
                op.name: {"host_ns": float(ns), "kind": kind, "raw": SPREAD}
                for op, ns, kind in zip(graph.operators, times, kinds, strict=True)
            },
        }
    )
    profile_file.check(value, "case")
    return value


def save_small_model(path, *, batch=1, channels=4, seed=0, dtype=TensorProto.FLOAT):
    """Save conv (no name) -> relu -> flatten -> gemm as ONNX, with random weights."""
    rng = np.random.default_rng(seed)

    def weights(name, *shape):
        return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="activation"),
            helper.make_node("Flatten", ["r"], ["f"], name="flat"),
            helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], name="head"),
        ],
        "small",
        [helper.make_tensor_value_info("x", dtype, [batch, 3, 16, 16])],
        [helper.make_tensor_value_info("y", dtype, [batch, 5])],
        [weights("w1", channels, 3, 3, 3), weights("w2", channels * 256, 5), weights("b2", 5)],
    )
    return save_graph(path, graph)


def save_graph(path, graph):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    save(model, path)
    return path
