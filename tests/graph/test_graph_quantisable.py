"""What other exporters write becomes int8 all the same: one case for each way to write a weight, a name or a type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graph_models import model, save, value, weight
from onnx import TensorProto, helper, numpy_helper

from cimplan.graph.quantise import quantise

MATRIX = (TensorProto.INT8, TensorProto.UINT8)


def local_function() -> onnx.ModelProto:
    net = model(
        [helper.make_node("Dense", ["x", "w"], ["y"], domain="own")], {"x": [1, 16]}, ["y"], [weight("w", 16, 16)]
    )
    body = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    net.functions.append(helper.make_function("own", "Dense", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)]))
    net.opset_import.append(helper.make_opsetid("own", 1))
    return net


def product(**fields: object) -> onnx.ModelProto:
    initializers = [] if fields else [weight("w", 16, 16)]
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 16]}, ["y"], initializers, **fields)


def sparse() -> onnx.ModelProto:
    values = numpy_helper.from_array(np.array([0.5, -1, 2], np.float32), "w")
    places = numpy_helper.from_array(np.array([3, 40, 255]), "w_places")
    return product(sparse_initializer=[helper.make_sparse_tensor(values, places, [16, 16])])


def overridable() -> onnx.ModelProto:
    net = product()
    net.graph.input.append(value("w", [16, 16]))
    return net


def constant_node() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight("", 16, 16)),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    return model(nodes, {"x": [1, 16]}, ["y"])


def computed_weight() -> onnx.ModelProto:
    nodes = [helper.make_node("Transpose", ["v"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, {"x": [1, 16]}, ["y"], [weight("v", 16, 16)])


def other_float(kind: int, dtype: str) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        return model(nodes, [value("x", [1, 16], kind)], ["y"], [weight("w", 16, 16, dtype=dtype)])

    return build


def shared_bias() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["b0"]),
        helper.make_node("Relu", ["b0"], ["b1"]),
        helper.make_node("Conv", ["b1", "v", "b"], ["y"]),
    ]
    return model(nodes, {"x": [1, 4, 6, 6]}, ["y"], [weight("w", 4, 4, 3, 3), weight("v", 4, 4, 3, 3), weight("b", 4)])


def names_with_the_quantisers_endings() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["x_scale"]),
        helper.make_node("Relu", ["x_scale"], ["w_quantized"]),
        helper.make_node("MatMul", ["w_quantized", "x_zero_point"], ["x_QuantizeLinear_Output"]),
    ]
    weights = [weight("w", 16, 16), weight("x_zero_point", 16, 16)]
    return model(nodes, {"x": [1, 16]}, ["x_QuantizeLinear_Output", "x_scale"], weights)


def output_that_feeds_a_relu() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    return model(nodes, {"x": [1, 16]}, ["y", "z"], [weight("w", 16, 16)])


def no_inputs() -> onnx.ModelProto:
    nodes = [
        helper.make_node("RandomNormal", [], ["x"], shape=[1, 16]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    return model(nodes, {}, ["y"], [weight("w", 16, 16)])


def domain_by_its_long_name() -> onnx.ModelProto:
    net = product()
    net.graph.node[0].domain = "ai.onnx"
    return net


BUILDERS = [
    *(local_function, sparse, overridable, constant_node, computed_weight, shared_bias),
    *(names_with_the_quantisers_endings, output_that_feeds_a_relu, no_inputs, domain_by_its_long_name),
    other_float(TensorProto.FLOAT16, "float16"),
    other_float(TensorProto.DOUBLE, "float64"),
]


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_it_loads_keeps_its_ends_and_has_no_float_weights(tmp_path: Path, build: Callable[[], onnx.ModelProto]) -> None:
    source, target = save(build(), tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    found = quantise(source, target)
    matrices = [tensor.data_type for tensor in onnx.load(target).graph.initializer if len(tensor.dims) > 1]
    assert len(matrices) == found.quantised >= 1 and set(matrices) <= set(MATRIX)
    before, after = (ort.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in (source, target))
    for ends in ("get_inputs", "get_outputs"):
        assert [(end.name, end.type) for end in getattr(after, ends)()] == [
            (end.name, end.type) for end in getattr(before, ends)()
        ]
    # 8 bits give some 30 dB; what is computed wrongly gives next to none.
    assert all(item.sqnr_db is None or item.sqnr_db > 20 for item in found.outputs)
    assert [item.reason for item in found.outputs if item.sqnr_db is None] == (
        ["it differs from run to run"] if build is no_inputs else []
    )
