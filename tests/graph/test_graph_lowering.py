"""The lowering to matrix work is the arithmetic the operator really does.

For random convolutions and products, the result is computed again from nothing but matrix-vector products of the
size the lowering states, and compared with ONNX Runtime's.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graph_models import Array, integers, model, session_options, value, weight
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cimplan.graph.lowering import documentation
from cimplan.graph.operators import MatrixWork, Operator
from cimplan.graph.read import graph_from_model

M = "com.microsoft"


def run(net: onnx.ModelProto, **feeds: Array) -> Array:
    session = ort.InferenceSession(net.SerializeToString(), session_options(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def lowered(net: onnx.ModelProto, index: int = 0) -> Operator:
    return graph_from_model(net).operators[index]


def work_of(net: onnx.ModelProto, index: int = 0) -> MatrixWork:
    work = lowered(net, index).work
    assert work is not None
    return work


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    same = auto_pad.startswith("SAME")
    # ONNX Runtime refuses SAME with dilation; that pair has a test of its own.
    dilations = [1] * rank if same else draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank)) if auto_pad == "NOTSET" else None
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    return {
        "batch": draw(st.integers(1, 2)),
        "groups": draw(st.integers(1, 3)),
        "group_inputs": draw(st.integers(1, 3)),
        "group_outputs": draw(st.integers(1, 3)),
        "spatial": [r + draw(st.integers(0, 4)) for r in reach],
        "kernel": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
        "dilations": dilations,
        "pads": pads,
        "auto_pad": auto_pad,
        "named_kernel": draw(st.booleans()),
    }


def _attributes(case: dict[str, Any]) -> dict[str, Any]:
    attributes = {"group": case["groups"], "strides": case["strides"], "dilations": case["dilations"]}
    if case["named_kernel"]:
        attributes["kernel_shape"] = case["kernel"]
    if case["pads"] is not None:
        attributes["pads"] = case["pads"]
    else:
        attributes["auto_pad"] = case["auto_pad"]
    return attributes


@given(convolutions())
@settings(deadline=None, max_examples=120)
def test_convolution_is_the_matrix_product_it_is_lowered_to(case: dict[str, Any]) -> None:
    channels = case["groups"] * case["group_inputs"]
    w = weight("w", case["groups"] * case["group_outputs"], case["group_inputs"], *case["kernel"])
    x_shape = [case["batch"], channels, *case["spatial"]]
    net = model([helper.make_node("Conv", ["x", "w"], ["y"], **_attributes(case))], {"x": x_shape}, ["y"], [w])
    x = np.random.default_rng(1).normal(size=x_shape).astype(np.float32)
    y = run(net, x=x)
    operator = lowered(net)
    work = operator.work
    assert work is not None and work.stationary == "constant" and operator.weight_input == "w"

    # Brute force: collect the input vector of every output position, then multiply.
    extents = y.shape[2:]
    pads = case["pads"]
    if pads is None:
        total = [
            max((o - 1) * s + d * (k - 1) + 1 - i, 0) if case["auto_pad"] != "VALID" else 0
            for o, s, d, k, i in zip(
                extents, case["strides"], case["dilations"], case["kernel"], case["spatial"], strict=True
            )
        ]
        small = [t // 2 for t in total]
        large = [t - s for t, s in zip(total, small, strict=True)]
        pads = small + large if case["auto_pad"] == "SAME_UPPER" else large + small
    rank = len(extents)
    padded = np.pad(x, [(0, 0), (0, 0), *((pads[a], pads[a + rank]) for a in range(rank))])
    vectors = []
    for sample, position in itertools.product(range(case["batch"]), itertools.product(*map(range, extents))):
        window = tuple(
            slice(p * s, p * s + d * (k - 1) + 1, d)
            for p, s, d, k in zip(position, case["strides"], case["dilations"], case["kernel"], strict=True)
        )
        vectors.append(padded[(sample, slice(None), *window)].reshape(case["groups"], -1))
    columns = np.stack(vectors, axis=1)  # (groups, vectors, inputs)
    matrices = onnx.numpy_helper.to_array(w).reshape(case["groups"], case["group_outputs"], -1)
    assert (work.groups, work.mvms, work.inputs) == columns.shape
    assert (work.groups, work.outputs, work.inputs) == matrices.shape
    product = np.einsum("gvn,gmn->gmv", columns, matrices).reshape(-1, case["batch"], *extents).swapaxes(0, 1)
    np.testing.assert_allclose(product, y, rtol=1e-4, atol=1e-5)


@given(convolutions())
@settings(deadline=None, max_examples=80)
def test_transposed_convolution_is_the_matrix_product_it_is_lowered_to(case: dict[str, Any]) -> None:
    case = case | {"auto_pad": "NOTSET", "pads": None}
    groups, n, m = case["groups"], case["group_inputs"], case["group_outputs"]
    w = weight("w", groups * n, m, *case["kernel"])
    x_shape = [case["batch"], groups * n, *case["spatial"]]
    attributes = {"group": groups, "strides": case["strides"], "dilations": case["dilations"]}
    net = model([helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": x_shape}, ["y"], [w])
    x = np.random.default_rng(1).normal(size=x_shape).astype(np.float32)
    work = work_of(net)

    vectors = x.reshape(case["batch"], groups, n, -1).transpose(1, 0, 3, 2).reshape(groups, -1, n)
    matrices = onnx.numpy_helper.to_array(w).reshape(groups, n, -1)
    assert (work.groups, work.mvms, work.inputs) == vectors.shape
    assert (work.groups, work.inputs, work.outputs) == matrices.shape
    products = (vectors @ matrices).reshape(groups, case["batch"], *case["spatial"], m, *case["kernel"])
    extents = [
        (i - 1) * s + d * (k - 1) + 1
        for i, s, d, k in zip(case["spatial"], case["strides"], case["dilations"], case["kernel"], strict=True)
    ]
    y = np.zeros((case["batch"], groups, m, *extents), np.float64)
    for position in itertools.product(*map(range, case["spatial"])):
        for tap in itertools.product(*map(range, case["kernel"])):
            place = tuple(
                p * s + t * d for p, t, s, d in zip(position, tap, case["strides"], case["dilations"], strict=True)
            )
            part = products[(slice(None), slice(None), *position, slice(None), *tap)]
            y[(slice(None), slice(None), slice(None), *place)] += part.swapaxes(0, 1)
    np.testing.assert_allclose(y.reshape(case["batch"], groups * m, *extents), run(net, x=x), rtol=1e-4, atol=1e-5)


def test_transposed_convolution_with_output_padding_and_same_padding_costs_the_same() -> None:
    w = weight("w", 3, 4, 3, 3)
    for extra in ({}, {"output_padding": [1, 1]}, {"auto_pad": "SAME_UPPER"}, {"pads": [1, 1, 1, 1]}):
        node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **extra)
        assert work_of(model([node], {"x": [2, 3, 5, 7]}, ["y"], [w])) == MatrixWork(36, 3, 70)


@given(
    rows=st.integers(1, 4),
    inner=st.integers(1, 4),
    columns=st.integers(1, 4),
    trans_a=st.booleans(),
    trans_b=st.booleans(),
    constant=st.sampled_from(["a", "b", "both", "none"]),
)
@settings(deadline=None, max_examples=60)
def test_gemm_dimensions(rows: int, inner: int, columns: int, trans_a: bool, trans_b: bool, constant: str) -> None:
    shapes = {"a": [inner, rows] if trans_a else [rows, inner], "b": [columns, inner] if trans_b else [inner, columns]}
    constants = {"a": "a", "b": "b", "both": "ab", "none": ""}[constant]
    net = model(
        [helper.make_node("Gemm", ["a", "b", "c"], ["y"], transA=int(trans_a), transB=int(trans_b))],
        {name: shape for name, shape in shapes.items() if name not in constants},
        ["y"],
        [*(weight(name, *shapes[name]) for name in constants), weight("c", columns)],
    )
    operator = lowered(net)
    work = operator.work
    assert work is not None and work.inputs == inner and work.groups == 1
    assert work.macs == rows * inner * columns
    if constant == "a":
        assert (work.outputs, work.mvms, operator.weight_input) == (rows, columns, "a")
    else:
        assert (work.outputs, work.mvms, operator.weight_input) == (columns, rows, "b")
    assert work.stationary == ("activation" if constant == "none" else "constant")
    assert bool(operator.no_work_reason) == (constant == "none")


@st.composite
def products(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    rows, inner, columns = (draw(st.integers(1, 4)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))

    def leading() -> list[int]:
        kept = batch[draw(st.integers(0, len(batch))) :]
        return [size if draw(st.booleans()) else 1 for size in kept]

    a = [inner] if draw(st.integers(0, 4)) == 0 else [*leading(), rows, inner]
    b = [inner] if draw(st.integers(0, 4)) == 0 else [*leading(), inner, columns]
    return a, b


@given(products(), st.sampled_from(["a", "b", "none"]))
@settings(deadline=None, max_examples=150)
def test_matmul_counts_and_dimensions(shapes: tuple[list[int], list[int]], constant: str) -> None:
    sizes = dict(zip("ab", shapes, strict=True))
    net = model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        {name: shape for name, shape in sizes.items() if name != constant},
        ["y"],
        [weight(constant, *sizes[constant])] if constant in sizes else [],
    )
    graph = graph_from_model(net)
    work = graph.operators[0].work
    y = np.matmul(np.zeros(sizes["a"]), np.zeros(sizes["b"]))
    assert graph.tensors["y"].shape == y.shape
    assert work is not None
    assert work.macs == y.size * sizes["a"][-1]
    assert work.stationary == ("activation" if constant == "none" else "constant")
    # Every element of the stationary operand sits in exactly one of the matrices.
    assert work.weights == math.prod(sizes["a" if constant == "a" else "b"])


def test_matmul_with_weights_on_the_left_swaps_the_roles() -> None:
    net = model([helper.make_node("MatMul", ["w", "x"], ["y"])], {"x": [2, 8, 5]}, ["y"], [weight("w", 6, 8)])
    operator = lowered(net)
    assert operator.work == MatrixWork(outputs=6, inputs=8, mvms=10)
    assert operator.weight_input == "w"


def test_matmul_with_batched_weights_is_several_matrices() -> None:
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [3, 2, 5, 8]}, ["y"], [weight("w", 2, 8, 6)])
    assert work_of(net) == MatrixWork(outputs=6, inputs=8, mvms=15, groups=2)


def test_product_of_two_activations_is_not_weight_stationary() -> None:
    net = model([helper.make_node("MatMul", ["q", "k"], ["y"])], {"q": [2, 4, 5, 8], "k": [2, 4, 8, 5]}, ["y"])
    operator = lowered(net)
    assert operator.work == MatrixWork(outputs=5, inputs=8, mvms=5, groups=8, stationary="activation")
    assert operator.no_work_reason == "multiplies two activations: there are no weights to keep in the array"


def test_convolution_without_kernel_shape_takes_it_from_the_weight() -> None:
    net = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 2, 9, 9]}, ["y"], [weight("w", 4, 2, 3, 5)])
    assert work_of(net) == MatrixWork(outputs=4, inputs=30, mvms=35)


def test_a_kernel_of_1_by_7_keeps_its_height_and_width() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 7], pads=[0, 3, 0, 3], strides=[1, 2])
    graph = graph_from_model(model([node], {"x": [1, 2, 11, 20]}, ["y"], [weight("w", 4, 2, 1, 7)]))
    assert graph.tensors["y"].shape == (1, 4, 11, 10)
    assert graph.operators[0].work == MatrixWork(outputs=4, inputs=14, mvms=110)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_with_dilation_keeps_the_extent(auto_pad: str) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, dilations=[2, 3], strides=[2, 1])
    graph = graph_from_model(model([node], {"x": [1, 2, 11, 20]}, ["y"], [weight("w", 4, 2, 3, 3)]))
    assert graph.tensors["y"].shape == (1, 4, 6, 20)
    fused = helper.make_node(
        "FusedConv", ["x", "w"], ["y"], domain=M, auto_pad=auto_pad, dilations=[2, 3], strides=[2, 1]
    )
    graph = graph_from_model(model([fused], {"x": [1, 2, 11, 20]}, ["y"], [weight("w", 4, 2, 3, 3)]))
    assert graph.tensors["y"].shape == (1, 4, 6, 20)


def test_depthwise_convolution_is_a_matrix_per_channel() -> None:
    net = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], group=8, pads=[1, 1, 1, 1])],
        {"x": [2, 8, 5, 5]},
        ["y"],
        [weight("w", 16, 1, 3, 3)],
    )
    assert work_of(net) == MatrixWork(outputs=2, inputs=9, mvms=50, groups=8)


def test_convolution_with_computed_weights_says_so() -> None:
    nodes = [helper.make_node("Relu", ["v"], ["w"]), helper.make_node("Conv", ["x", "w"], ["y"])]
    operator = lowered(model(nodes, {"x": [1, 2, 5, 5], "v": [3, 2, 3, 3]}, ["y"]), 1)
    assert operator.work is not None and operator.work.stationary == "activation"
    assert operator.no_work_reason == "its weights are computed during inference"


@pytest.mark.parametrize("path", [(), ("Identity",), ("Transpose", "Transpose"), ("Identity", "Identity", "Identity")])
def test_weights_behind_dequantisation_and_layout_changes_are_constant(path: tuple[str, ...]) -> None:
    initializers = [integers("w8", np.ones((6, 4, 3, 3)), "int8"), onnx.numpy_helper.from_array(np.float32(0.1), "s")]
    nodes = [helper.make_node("DequantizeLinear", ["w8", "s"], ["w_0"])]
    for step, op in enumerate(path):
        attributes = {"perm": [1, 0, 2, 3]} if op == "Transpose" else {}
        nodes.append(helper.make_node(op, [f"w_{step}"], [f"w_{step + 1}"], **attributes))
    nodes.append(helper.make_node("Conv", ["x", f"w_{len(path)}"], ["y"]))
    graph = graph_from_model(model(nodes, {"x": [1, 4, 8, 8]}, ["y"], initializers))
    conv = graph.operators[-1]
    assert conv.work == MatrixWork(outputs=6, inputs=36, mvms=36)
    assert conv.weight_input == f"w_{len(path)}"
    # The nodes on the way stay operators, with an edge each.
    assert len(graph.operators) == len(nodes) and len(graph.edges) == len(nodes) - 1
    assert [tensor.name for tensor in graph.activation_inputs(conv)] == ["x"]


def test_what_makes_constants_from_constants_says_so() -> None:
    shape = onnx.numpy_helper.from_array(np.array([8, 6], np.int64), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    graph = graph_from_model(model(nodes, {"x": [3, 8]}, ["y"], [shape]))
    assert [operator.no_work_reason for operator in graph.operators] == [
        "makes a constant, from constants alone",
        "",
        "not a product with a weight matrix",
    ]


def _constant(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["w"], **attributes)


def test_weights_as_constant_nodes() -> None:
    net = model(
        [_constant(value=weight("t", 8, 6)), helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [3, 8]}, ["y"]
    )
    graph = graph_from_model(net)
    assert [operator.op_type for operator in graph.operators] == ["Constant", "MatMul"]
    assert graph.operators[1].work == MatrixWork(outputs=6, inputs=8, mvms=3)
    assert graph.operators[0].no_work_reason == "a constant"


@pytest.mark.parametrize(
    ("attributes", "dtype", "shape"),
    [
        ({"value_float": 1.5}, "float32", ()),
        ({"value_floats": [1.5, 2.5, 3.5]}, "float32", (3,)),
        ({"value_int": 3}, "int64", ()),
        ({"value_ints": [3, 4]}, "int64", (2,)),
        ({"value_string": "a"}, "string", ()),
        ({"value_strings": ["a", "b"]}, "string", (2,)),
        (
            {
                "sparse_value": helper.make_sparse_tensor(
                    onnx.numpy_helper.from_array(np.ones(2, np.float32), "v"),
                    onnx.numpy_helper.from_array(np.array([[0, 1], [2, 2]], np.int64), "i"),
                    [4, 5],
                )
            },
            "float32",
            (4, 5),
        ),
    ],
)
def test_every_form_of_a_constant_node(attributes: dict[str, Any], dtype: str, shape: tuple[int, ...]) -> None:
    net = model([_constant(**attributes), helper.make_node("Identity", ["w"], ["y"])], {}, ["y"])
    tensor = graph_from_model(net).tensors["w"]
    assert (tensor.dtype, tensor.shape, tensor.constant) == (dtype, shape, True)


def test_sparse_initializers_are_weights() -> None:
    sparse = helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"),
        onnx.numpy_helper.from_array(np.array([1, 9], np.int64), "w_i"),
        [8, 6],
    )
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [3, 8]}, ["y"], sparse_initializer=[sparse])
    assert work_of(net) == MatrixWork(outputs=6, inputs=8, mvms=3)


U8 = TensorProto.UINT8
_SCALE = [onnx.numpy_helper.from_array(np.float32(0.1), "s"), integers("z", 128, "uint8")]
QUANTISED = {
    "QLinearConv": (
        helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], pads=[1, 1, 1, 1]),
        value("x", [2, 4, 8, 8], U8),
        integers("w", np.ones((6, 4, 3, 3)), "uint8"),
        MatrixWork(6, 36, 128),
    ),
    "QLinearConv, channels last": (
        helper.make_node(
            "QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], domain=M, channels_last=1, pads=[1, 1, 1, 1]
        ),
        value("x", [2, 8, 9, 4], U8),
        integers("w", np.ones((6, 4, 3, 3)), "uint8"),
        MatrixWork(6, 36, 144),
    ),
    "ConvInteger": (
        helper.make_node("ConvInteger", ["x", "w", "z", "z"], ["y"], group=2),
        value("x", [1, 4, 8, 8], U8),
        integers("w", np.ones((6, 2, 3, 3)), "uint8"),
        MatrixWork(3, 18, 36, 2),
    ),
    "MatMulInteger": (
        helper.make_node("MatMulInteger", ["x", "w", "z", "z"], ["y"]),
        value("x", [2, 3, 8], U8),
        integers("w", np.ones((8, 6)), "uint8"),
        MatrixWork(6, 8, 6),
    ),
    "QLinearMatMul": (
        helper.make_node("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"]),
        value("x", [2, 3, 8], U8),
        integers("w", np.ones((8, 6)), "uint8"),
        MatrixWork(6, 8, 6),
    ),
    "QGemm": (
        helper.make_node("QGemm", ["x", "s", "z", "w", "s", "z", "", "s", "z"], ["y"], domain=M, transB=1),
        value("x", [3, 8], U8),
        integers("w", np.ones((6, 8)), "uint8"),
        MatrixWork(6, 8, 3),
    ),
    "DynamicQuantizeMatMul": (
        helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "z"], ["y"], domain=M),
        value("x", [2, 3, 8]),
        integers("w", np.ones((8, 6)), "uint8"),
        MatrixWork(6, 8, 6),
    ),
    "MatMulNBits": (
        helper.make_node("MatMulNBits", ["x", "w", "scales"], ["y"], domain=M, K=64, N=6, bits=4, block_size=32),
        value("x", [2, 3, 64]),
        integers("w", np.ones((6, 2, 16)), "uint8"),
        MatrixWork(6, 64, 6),
    ),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_operators_are_lowered(name: str) -> None:
    node, x, w, expected = QUANTISED[name]
    net = model([node], [x], ["y"], [w, *_SCALE, weight("scales", 12)])
    operator = lowered(net)
    assert operator.work == expected
    assert operator.weight_input == "w" and operator.no_work_reason == ""


@pytest.mark.parametrize(
    ("node", "shapes", "reason"),
    [
        (helper.make_node("Relu", ["x"], ["y"]), {"x": [2, 3]}, "not a product with a weight matrix"),
        (helper.make_node("Flatten", ["x"], ["y"]), {"x": [2, 3]}, "only renames data"),
        (helper.make_node("Einsum", ["x", "x"], ["y"], equation="ij,ij->ij"), {"x": [2, 3]}, "not a product of two"),
        (helper.make_node("Einsum", ["x"], ["y"], equation="ij->ji"), {"x": [2, 3]}, "not a product of two"),
        (
            helper.make_node("Attention", ["x", "w"], ["y"], domain=M, num_heads=2),
            {"x": [2, 5, 8], "w": [8, 24]},
            "fused attention",
        ),
    ],
)
def test_what_is_not_lowered_has_its_reason(node: onnx.NodeProto, shapes: dict[str, list[int]], reason: str) -> None:
    operator = lowered(model([node], shapes, ["y"]))
    assert operator.work is None
    assert reason in operator.no_work_reason
    assert operator.view == (node.op_type == "Flatten")


def test_every_lowering_is_documented() -> None:
    texts = documentation()
    assert {"Conv", "ConvTranspose", "Gemm", "MatMul"} <= {name for names, _ in texts for name in names.split(", ")}
    assert all(len(text) > 60 for _, text in texts)
