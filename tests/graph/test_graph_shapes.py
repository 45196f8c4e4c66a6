"""Every tensor has the shape that a real run gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from graph_models import (
    blocked_cnn,
    feeds_of,
    integers,
    model,
    optimise,
    run_all,
    save,
    small_cnn,
    transformer_block,
    value,
    weight,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cimplan.errors import InputError
from cimplan.graph.nodes import NodeView, TensorType
from cimplan.graph.operators import MatrixWork, OperatorGraph
from cimplan.graph.quantise import quantise
from cimplan.graph.read import graph_from_model, read_graph
from cimplan.graph.rules import RULES

NETWORKS = {"small_cnn": small_cnn, "blocked_cnn": blocked_cnn, "transformer": transformer_block}


def assert_shapes_of_a_run(graph: OperatorGraph, net: onnx.ModelProto) -> None:
    results = run_all(net, feeds_of(net))
    assert results
    for name, result in results.items():
        assert name in graph.tensors, name
        tensor = graph.tensors[name]
        assert (tensor.dtype, tensor.shape) == (str(result.dtype), result.shape), name


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_optimised_graphs_have_the_shapes_of_a_real_run(tmp_path: Path, name: str, level: str, int8: bool) -> None:
    source = save(NETWORKS[name](), tmp_path / "net.onnx")
    if int8:
        quantise(source, tmp_path / "int8.onnx")
        source = tmp_path / "int8.onnx"
    path = optimise(source, tmp_path / "optimised.onnx", level)
    net = onnx.load(path)
    graph = read_graph(path)
    assert len(graph.operators) == len(net.graph.node)
    assert_shapes_of_a_run(graph, net)


def test_the_test_networks_exercise_the_operators_of_onnx_runtime(tmp_path: Path) -> None:
    seen = set()
    for name, build in NETWORKS.items():
        source = save(build(), tmp_path / f"{name}.onnx")
        quantise(source, tmp_path / f"{name}8.onnx")
        for path in (source, tmp_path / f"{name}8.onnx"):
            graph = read_graph(optimise(path, tmp_path / "optimised.onnx"))
            seen |= {f"{operator.domain}.{operator.op_type}" for operator in graph.operators}
    wanted = "QLinearConv QLinearAdd QLinearMul QLinearSigmoid QLinearConcat QGemm QLinearGlobalAveragePool NhwcMaxPool"
    assert {f"com.microsoft.{name}" for name in wanted.split()} <= seen
    assert {"com.microsoft.SkipLayerNormalization", "com.microsoft.Gelu", "com.microsoft.FusedMatMul"} & seen
    assert any(name.startswith("com.microsoft.nchwc.") for name in seen) or not _blocked_processor(tmp_path)


def _blocked_processor(tmp_path: Path) -> bool:
    net = onnx.load(optimise(save(blocked_cnn(), tmp_path / "probe.onnx"), tmp_path / "probed.onnx"))
    return any(node.domain == "com.microsoft.nchwc" for node in net.graph.node)


M = "com.microsoft"


def _single(op: str, inputs: list[str], outputs: list[str], domain: str = M, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def _scales(*names: str) -> list[onnx.TensorProto]:
    return [
        tensor
        for name in names
        for tensor in (
            onnx.numpy_helper.from_array(np.float32(0.02), f"{name}_s"),
            onnx.numpy_helper.from_array(np.uint8(128), f"{name}_z"),
        )
    ]


def _q(name: str) -> list[str]:
    return [name, f"{name}_s", f"{name}_z"]


U8 = TensorProto.UINT8
SINGLE_OPERATORS: dict[str, tuple[onnx.NodeProto, list[onnx.ValueInfoProto], list[onnx.TensorProto]]] = {
    "QLinearAdd broadcasts": (
        _single("QLinearAdd", [*_q("a"), *_q("b"), "y_s", "y_z"], ["y"]),
        [value("a", [2, 3, 4], U8), value("b", [3, 1], U8)],
        _scales("a", "b", "y"),
    ),
    "QLinearMul broadcasts": (
        _single("QLinearMul", [*_q("a"), *_q("b"), "y_s", "y_z"], ["y"]),
        [value("a", [4], U8), value("b", [2, 3, 4], U8)],
        _scales("a", "b", "y"),
    ),
    "QLinearLeakyRelu": (
        _single("QLinearLeakyRelu", [*_q("a"), "y_s", "y_z"], ["y"], alpha=0.1),
        [value("a", [2, 5], U8)],
        _scales("a", "y"),
    ),
    "QLinearConcat on a negative axis": (
        _single("QLinearConcat", ["y_s", "y_z", *_q("a"), *_q("b")], ["y"], axis=-1),
        [value("a", [2, 3], U8), value("b", [2, 5], U8)],
        _scales("a", "b", "y"),
    ),
    "QLinearAveragePool with ceil_mode": (
        _single(
            "QLinearAveragePool",
            [*_q("a"), "y_s", "y_z"],
            ["y"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[0, 0, 1, 1],
            ceil_mode=1,
        ),
        [value("a", [1, 4, 8, 9], U8)],
        _scales("a", "y"),
    ),
    "QLinearAveragePool with channels last": (
        _single(
            "QLinearAveragePool",
            [*_q("a"), "y_s", "y_z"],
            ["y"],
            kernel_shape=[2, 3],
            channels_last=1,
        ),
        [value("a", [1, 8, 9, 4], U8)],
        _scales("a", "y"),
    ),
    "QLinearGlobalAveragePool with channels last": (
        _single("QLinearGlobalAveragePool", [*_q("a"), "y_s", "y_z"], ["y"], channels_last=1),
        [value("a", [2, 8, 9, 4], U8)],
        _scales("a", "y"),
    ),
    "QLinearSoftmax": (
        _single("QLinearSoftmax", [*_q("a"), "y_s", "y_z"], ["y"], axis=-1, opset=13),
        [value("a", [2, 8], U8)],
        _scales("a", "y"),
    ),
    "QLinearWhere": (
        _single("QLinearWhere", ["c", *_q("a"), *_q("b"), "y_s", "y_z"], ["y"]),
        [value("c", [3, 1], TensorProto.BOOL), value("a", [2, 1, 4], U8), value("b", [3, 4], U8)],
        _scales("a", "b", "y"),
    ),
    "NhwcMaxPool": (
        _single("NhwcMaxPool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        [value("a", [1, 9, 8, 4], U8)],
        [],
    ),
    "QLinearConv with channels last": (
        _single(
            "QLinearConv",
            [*_q("a"), *_q("w"), "y_s", "y_z"],
            ["y"],
            channels_last=1,
            strides=[2, 1],
            pads=[1, 0, 1, 0],
        ),
        [value("a", [1, 9, 8, 4], U8)],
        [*_scales("a", "w", "y"), integers("w", np.ones((6, 4, 3, 2)), "uint8")],
    ),
    "QGemm with float output": (
        _single("QGemm", [*_q("a"), *_q("w"), ""], ["y"], transB=1),
        [value("a", [3, 8], U8)],
        [*_scales("a", "w"), integers("w", np.ones((6, 8)), "uint8")],
    ),
    "DynamicQuantizeMatMul": (
        _single("DynamicQuantizeMatMul", ["x", "w", "w_s", "w_z"], ["y"]),
        [value("x", [2, 3, 8])],
        [*_scales("w"), integers("w", np.ones((8, 6)), "uint8")],
    ),
    "MatMulIntegerToFloat": (
        _single("MatMulIntegerToFloat", ["a", "w", "a_s", "w_s", "a_z", "w_z"], ["y"]),
        [value("a", [2, 3, 8], U8)],
        [*_scales("a", "w"), integers("w", np.ones((8, 6)), "uint8")],
    ),
    "FusedConv with auto_pad": (
        _single(
            "FusedConv", ["x", "w"], ["y"], activation="Relu", auto_pad="SAME_UPPER", strides=[2, 2], dilations=[1, 1]
        ),
        [value("x", [1, 4, 9, 8])],
        [weight("w", 6, 4, 3, 3)],
    ),
    "FusedGemm": (
        _single("FusedGemm", ["x", "w"], ["y"], activation="Relu", transA=1),
        [value("x", [8, 3])],
        [weight("w", 8, 6)],
    ),
    "FusedMatMul with both transposed": (
        _single("FusedMatMul", ["a", "b"], ["y"], transA=1, transB=1, alpha=0.5),
        [value("a", [2, 8, 3]), value("b", [1, 6, 8])],
        [],
    ),
    "FusedMatMul with transposed batch": (
        _single("FusedMatMul", ["a", "b"], ["y"], transBatchA=1),
        [value("a", [3, 2, 8]), value("b", [2, 8, 6])],
        [],
    ),
    "BiasGelu": (_single("BiasGelu", ["x", "b"], ["y"]), [value("x", [2, 3, 8])], [weight("b", 8)]),
    "FastGelu": (_single("FastGelu", ["x"], ["y"]), [value("x", [2, 3, 8])], []),
    "QuickGelu": (_single("QuickGelu", ["x"], ["y"]), [value("x", [2, 3, 8])], []),
    "SkipLayerNormalization with its sum": (
        _single("SkipLayerNormalization", ["x", "s", "g", "b"], ["y", "", "", "sum"]),
        [value("x", [2, 3, 8]), value("s", [2, 3, 8])],
        [weight("g", 8), weight("b", 8)],
    ),
    "LayerNormalization of ONNX Runtime before opset 17": (
        _single("LayerNormalization", ["x", "g", "b"], ["y"], domain="", axis=-1),
        [value("x", [2, 3, 8])],
        [weight("g", 8), weight("b", 8)],
    ),
    "EmbedLayerNormalization": (
        _single("EmbedLayerNormalization", ["i", "", "words", "places", "", "g", "b"], ["y", "mask"]),
        [value("i", [2, 5], TensorProto.INT32)],
        [weight("words", 20, 8), weight("places", 10, 8), weight("g", 8), weight("b", 8)],
    ),
    "Attention": (
        _single("Attention", ["x", "w", "b"], ["y"], num_heads=2),
        [value("x", [2, 5, 8])],
        [weight("w", 8, 24), weight("b", 24)],
    ),
    "Attention with a cache": (
        _single("Attention", ["x", "w", "b", "", "past"], ["y", "present"], num_heads=2, unidirectional=1),
        [value("x", [2, 5, 8]), value("past", [2, 2, 2, 3, 4])],
        [weight("w", 8, 24), weight("b", 24)],
    ),
    "QAttention": (
        _single("QAttention", ["a", "w", "b", "a_s", "w_s", "", "a_z", "w_z"], ["y"], num_heads=2),
        [value("a", [2, 5, 8], U8)],
        [*_scales("a", "w"), integers("w", np.ones((8, 24)), "uint8"), weight("b", 24)],
    ),
    "MultiHeadAttention": (
        _single("MultiHeadAttention", ["q", "k", "v"], ["y"], num_heads=2),
        [value("q", [2, 5, 8]), value("k", [2, 7, 8]), value("v", [2, 7, 8])],
        [],
    ),
    "MatMulNBits": (
        _single("MatMulNBits", ["x", "w", "s"], ["y"], K=64, N=6, bits=4, block_size=32),
        [value("x", [2, 3, 64])],
        [integers("w", np.ones((6, 2, 16)), "uint8"), weight("s", 12)],
    ),
    "Pad of com.microsoft": (
        _single("Pad", ["x", "p"], ["y"]),
        [value("x", [2, 3])],
        [integers("p", [0, 1, 2, 3])],
    ),
}


@pytest.mark.parametrize("case", SINGLE_OPERATORS)
def test_operators_of_onnx_runtime_have_the_shape_of_a_real_run(case: str) -> None:
    node, inputs, initializers = SINGLE_OPERATORS[case]
    opset = 11 if "before opset 17" in case else 17
    net = model([node], inputs, [name for name in node.output if name], initializers, opset=opset)
    assert_shapes_of_a_run(graph_from_model(net), net)


def test_dynamic_dimension_is_asked_for_and_named() -> None:
    net = small_cnn("batch")
    with pytest.raises(InputError) as caught:
        graph_from_model(net)
    message = str(caught.value)
    assert "batch" in message and "'x'" in message and "--shape x=1,3,32,32" in message
    assert caught.value.exit_code == 2


def test_unnamed_and_absent_dimensions_are_asked_for_too() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(InputError, match=r"dimension 1 \(unnamed\).*--shape x=2,N, with numbers"):
        graph_from_model(model([relu], {"x": [2, None]}, ["y"]))
    with pytest.raises(InputError, match=r"the shape of the input 'x'.*--shape x=1,3,224,224"):
        graph_from_model(model([relu], {"x": None}, ["y"]))
    with pytest.raises(InputError, match=r"--shape x=1,length,N, with numbers for the names"):
        graph_from_model(model([relu], {"x": ["batch", "length", None]}, ["y"]))
    with pytest.raises(InputError, match=r"dimension 0 \(unnamed\)"):
        graph_from_model(model([relu], {"x": [-1, 4]}, ["y"]))


@pytest.mark.parametrize("sign", ["?", "-1", "None", "unknown", ""])
def test_sizes_without_a_name_are_not_one_size(sign: str) -> None:
    """Paddle writes a question mark for every size it does not know."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    net = model([relu], {"x": [sign, 3, sign, sign]}, ["y"], value_info=[value("z", [sign])])
    assert graph_from_model(net, shapes={"x": (1, 3, 48, 192)}).tensors["y"].shape == (1, 3, 48, 192)
    with pytest.raises(InputError, match=r"dimensions 0 \(unnamed\), 2 .*and 3 .*--shape x=1,3,224,224"):
        graph_from_model(net)


def test_sizes_with_a_name_that_an_exporter_made_up_are_one_size() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    for name in ("unk__12", "p2o.DynamicDimension.0", "batch * 2"):
        with pytest.raises(InputError, match="is given as 1 and as 2"):
            graph_from_model(model([relu], {"x": [name, name]}, ["y"]), shapes={"x": (1, 2)})
    net = model([relu], {"x": ["unk__1", "unk__2"]}, ["y"])
    assert graph_from_model(net, shapes={"x": (1, 2)}).tensors["y"].shape == (1, 2)


def test_a_given_shape_sets_a_dynamic_dimension_everywhere() -> None:
    net = model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        {"a": ["n", 4], "b": ["n", 4]},
        ["y"],
        value_info=[value("z", ["n"])],
    )
    graph = graph_from_model(net, shapes={"a": (7, 4)})
    assert graph.tensors["b"].shape == graph.tensors["y"].shape == (7, 4)
    with pytest.raises(InputError, match="'n' is given as 7 and as 8"):
        graph_from_model(net, shapes={"a": (7, 4), "b": (8, 4)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1, 3, 32, 32)}, "no input of the model.*Known names: x"),
        ({"x": (1, 3, 32)}, "has 3 dimensions"),
        ({"x": (1, 4, 32, 32)}, "fixes dimension 1 at 3"),
        ({"x": (-1, 3, 32, 32)}, "not a whole number"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        graph_from_model(small_cnn("batch"), shapes=shapes)


def test_batch_reaches_every_tensor() -> None:
    graph = graph_from_model(small_cnn("batch"), shapes={"x": (5, 3, 32, 32)})
    assert graph.tensors["y"].shape == (5, 10)
    first = graph.operators[0].work
    assert first is not None and first.mvms == 5 * 16 * 16


def test_shapes_computed_inside_the_network_are_followed() -> None:
    # What exporters write for x.view(x.size(0), -1) and for an upsampling to another tensor's size.
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Slice", ["s", "two", "four"], ["hw"]),
        helper.make_node("Mul", ["hw", "factor"], ["hw2"]),
        helper.make_node("Cast", ["hw2"], ["hw3"], to=TensorProto.INT64),
        helper.make_node("Slice", ["s", "start", "two"], ["nc"]),
        helper.make_node("Concat", ["nc", "hw3"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["up"], mode="nearest"),
        helper.make_node("ConstantOfShape", ["target2"], ["zeros"]),
        helper.make_node("Range", ["from", "to", "step"], ["r"]),
        helper.make_node("Expand", ["zeros", "hw2"], ["expanded"]),
    ]
    initializers = [
        *(integers("zero", 0), integers("axis", [0]), integers("minus", [-1]), integers("two", [2])),
        *(integers("four", [4]), integers("factor", [2, 3]), integers("start", [0]), integers("target2", [6, 1])),
        *(integers("from", 0), integers("to", 10), integers("step", 3)),
    ]
    nodes[-1] = helper.make_node("Expand", ["zeros", "six"], ["expanded"])
    initializers.append(integers("six", [1, 6, 5]))
    net = model(nodes, {"x": [2, 3, 6, 5]}, ["flat", "up", "zeros", "r", "expanded"], initializers)
    graph = graph_from_model(net)
    assert graph.tensors["flat"].shape == (2, 90)
    assert graph.tensors["up"].shape == (2, 3, 12, 15)
    assert_shapes_of_a_run(graph, net)


def test_shapes_are_followed_through_an_optimised_graph() -> None:
    # An operator onnx does not know sits in front of a chain that onnx could infer.
    nodes = [
        helper.make_node("QuickGelu", ["x"], ["q"], domain=M),
        helper.make_node("Shape", ["q"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["c"], axis=0),
        helper.make_node("Concat", ["c", "minus"], ["t"], axis=0),
        helper.make_node("Reshape", ["q", "t"], ["y"]),
    ]
    net = model(nodes, {"x": [2, 3, 4]}, ["y"], [integers("one", [1]), integers("minus", [-1])])
    assert graph_from_model(net).tensors["y"].shape == (3, 8)


def test_recorded_shapes_fill_what_cannot_be_inferred() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["nz"]),
        helper.make_node("Transpose", ["nz"], ["t"], perm=[1, 0]),
        helper.make_node("Mystery", ["t"], ["y"], domain="org.example"),
    ]
    net = model(nodes, {"x": ["batch", 3]}, ["y"])
    with pytest.raises(InputError, match="as many elements as the data happen to give"):
        graph_from_model(net, shapes={"x": (2, 3)})
    recorded = {"x": ("float32", (2, 3)), "nz": ("int64", (2, 6)), "y": ("float32", (4,))}
    graph = graph_from_model(net, recorded=recorded)
    assert graph.tensors["t"].shape == (6, 2)
    assert graph.tensors["y"].shape == (4,)


def test_an_operator_without_rule_is_named() -> None:
    net = model([helper.make_node("Mystery", ["x"], ["y"], name="odd", domain="org.example")], {"x": [2]}, ["y"])
    with pytest.raises(InputError, match=r"node 'odd'.*'y' is unknown.*org.example.Mystery.*no shape rule.*value_info"):
        graph_from_model(net)


def test_a_declared_shape_serves_where_there_is_no_rule() -> None:
    net = model(
        [helper.make_node("Mystery", ["x"], ["m"], domain="org.example"), helper.make_node("Relu", ["m"], ["y"])],
        {"x": ["n"]},
        ["y"],
        value_info=[value("m", ["n", 5])],
    )
    assert graph_from_model(net, shapes={"x": (3,)}).tensors["y"].shape == (3, 5)


def test_stale_declarations_of_an_optimiser_do_not_win() -> None:
    net = model(
        [helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        {"x": [2, 3]},
        ["y"],
        value_info=[value("m", [9, 9])],
    )
    assert graph_from_model(net).tensors["m"].shape == (2, 3)


def test_an_output_nobody_reads_may_stay_unknown() -> None:
    net = model(
        [
            helper.make_node("Unique", ["x"], ["values", "first", "back"], axis=0),
            helper.make_node("Relu", ["x"], ["y"]),
        ],
        {"x": [4]},
        ["y"],
    )
    graph = graph_from_model(net)
    assert graph.operators[0].outputs == () and "values" not in graph.tensors


def test_operators_onnx_defines_by_functions_have_shapes() -> None:
    nodes = [
        helper.make_node("Gelu", ["x"], ["a"]),
        helper.make_node("HardSwish", ["a"], ["b"]),
        helper.make_node("MeanVarianceNormalization", ["b"], ["c"], axes=[0, 2]),
        helper.make_node("LayerNormalization", ["c", "g"], ["y"]),
    ]
    net = model(nodes, {"x": [2, 3, 8]}, ["y"], [weight("g", 8)], opset=20)
    assert {graph_from_model(net).tensors[name].shape for name in "abcy"} == {(2, 3, 8)}


def test_a_window_larger_than_its_input_is_refused() -> None:
    net = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="big")], {"x": [1, 1, 2, 2]}, ["y"], [weight("w", 1, 1, 5, 5)]
    )
    with pytest.raises(InputError, match="node 'big'"):
        graph_from_model(net)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    net = model([helper.make_node("Add", ["x", "w"], ["y"], name="sum")], {"x": [2, 3]}, ["y"], [weight("w", 4)])
    with pytest.raises(InputError, match=r"node 'sum'.*does not fit its inputs \(Incompatible.*export the model again"):
        graph_from_model(net)


def test_a_sequence_is_refused_with_its_reason() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=0),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    with pytest.raises(InputError, match="makes a sequence; only tensors can be planned"):
        graph_from_model(model(nodes, {"x": [2, 3]}, ["y"], [integers("i", 0)]))
    given = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    with pytest.raises(InputError, match="'x' is not a tensor but sequence"):
        graph_from_model(model([helper.make_node("SequenceLength", ["x"], ["y"])], [given], ["y"]))


@st.composite
def poolings(draw: st.DrawFn) -> tuple[str, list[int], dict[str, object]]:
    rank = draw(st.integers(1, 3))
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    attributes: dict[str, object] = {
        "kernel_shape": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
    }
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, size - 1)) for size in kernel + kernel]
        attributes["ceil_mode"] = draw(st.integers(0, 1))
    else:
        attributes["auto_pad"] = auto_pad
    op = draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    return op, [1, 2, *(size + draw(st.integers(0, 6)) for size in kernel)], attributes


@given(poolings())
@settings(deadline=None, max_examples=150)
def test_poolings_have_the_shape_of_a_real_run(case: tuple[str, list[int], dict[str, object]]) -> None:
    op, shape, attributes = case
    net = model([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": shape}, ["y"], opset=18)
    assert_shapes_of_a_run(graph_from_model(net), net)


@given(poolings())
@settings(deadline=None, max_examples=60)
def test_own_window_rule_agrees_with_a_real_run(case: tuple[str, list[int], dict[str, object]]) -> None:
    _, shape, attributes = case
    net = model([helper.make_node("MaxPool", ["x"], ["y"], **attributes)], {"x": shape}, ["y"], opset=18)
    view = NodeView(net.graph.node[0], {"x": TensorType("float32", tuple(shape))}.get)
    assert RULES["com.microsoft.nchwc", "MaxPool"](view)[0].shape == run_all(net, feeds_of(net))["y"].shape


@given(
    spatial=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pad=st.integers(0, 1),
    form=st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID", "output_padding", "output_shape"]),
)
@settings(deadline=None, max_examples=100)
def test_transposed_convolutions_have_the_shape_of_a_real_run(
    spatial: list[int], kernel: int, stride: int, dilation: int, pad: int, form: str
) -> None:
    rank = len(spatial)
    attributes: dict[str, object] = {"strides": [stride] * rank, "dilations": [dilation] * rank}
    if form == "pads":
        assume(all((size - 1) * stride + dilation * (kernel - 1) + 1 - 2 * pad > 0 for size in spatial))
        attributes["pads"] = [pad] * 2 * rank
    elif form == "output_padding":
        attributes["output_padding"] = [stride - 1] * rank
    elif form == "output_shape":
        attributes["output_shape"] = [(size - 1) * stride + dilation * (kernel - 1) + 1 for size in spatial]
    else:
        attributes["auto_pad"] = form
    net = model(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)],
        {"x": [1, 2, *spatial]},
        ["y"],
        [weight("w", 2, 3, *[kernel] * rank)],
    )
    assert_shapes_of_a_run(graph_from_model(net), net)


def test_internal_channels_last_operators_are_standard_operators_turned() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], domain="com.ms.internal.nhwc", group=2, pads=[1, 0, 1, 0]),
        helper.make_node("MaxPool", ["c"], ["p"], domain="com.ms.internal.nhwc", kernel_shape=[2, 3], strides=[2, 1]),
        helper.make_node("GlobalAveragePool", ["p"], ["y"], domain="com.ms.internal.nhwc"),
    ]
    graph = graph_from_model(model(nodes, {"x": [2, 8, 9, 4]}, ["y"], [weight("w", 6, 2, 3, 3)]))
    assert [graph.tensors[name].shape for name in "cpy"] == [(2, 8, 7, 6), (2, 4, 5, 6), (2, 1, 1, 6)]
    assert graph.operators[0].work == MatrixWork(outputs=3, inputs=18, mvms=2 * 56, groups=2)


@pytest.mark.parametrize("block", [8, 16])
def test_blocked_operators_without_an_onnx_runtime_that_makes_them(block: int) -> None:
    """What ONNX Runtime writes on other processors: 20 channels become 24 or 32."""
    padded = -(-20 // block) * block
    nchwc = "com.microsoft.nchwc"
    nodes = [
        helper.make_node("ReorderInput", ["x"], ["b"], domain=nchwc),
        helper.make_node("Conv", ["b", "w"], ["c"], domain=nchwc, group=padded, pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Upsample", ["c"], ["u"], domain=nchwc, scales=[1, 1, 2, 2]),
        helper.make_node("AveragePool", ["u"], ["a"], domain=nchwc, kernel_shape=[2, 2]),
        helper.make_node("ReorderOutput", ["a"], ["n"], domain=nchwc, channels=20),
        helper.make_node("ReorderOutput", ["a"], ["l"], domain=nchwc, channels=20, channels_last=1),
    ]
    net = model(nodes, {"x": [1, 20, 6, 6]}, ["n", "l"], [weight("w", padded, 1, 3, 3)])
    net.opset_import.append(helper.make_opsetid(nchwc, 1))
    graph = graph_from_model(net)
    shapes = [graph.tensors[name].shape for name in "bcuanl"]
    assert shapes[:2] == [(1, padded, 6, 6), (1, padded, 3, 3)]
    assert shapes[2:4] == [(1, padded, 6, 6), (1, padded, 5, 5)]
    assert shapes[4:] == [(1, 20, 5, 5), (1, 5, 5, 20)]
    assert graph.operators[1].work == MatrixWork(outputs=1, inputs=9, mvms=9, groups=padded)
