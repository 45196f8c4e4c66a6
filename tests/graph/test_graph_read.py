"""Reading: the operator graph mirrors the file, and a file that is wrong is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from graph_models import integers, model, save, small_cnn, value, weight
from onnx import TensorProto, helper

from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork
from cimplan.graph.read import graph_from_model, read_graph

LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("light_*.onnx"))
# Published counts: MMAC of the convolutions and fully connected layers.
LIGHT_MMAC = {"light_resnet50": 4089, "light_vgg19": 19632, "light_squeezenet": 349, "light_bvlc_alexnet": 655}


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_the_light_models_of_onnx_are_read(path: Path) -> None:
    net = onnx.load(path)
    graph = read_graph(path)
    assert len(graph.operators) == len(net.graph.node)
    work = [operator for operator in graph.operators if operator.work is not None]
    assert work and all(operator.work.stationary == "constant" for operator in work if operator.work)
    assert [operator.op_type for operator in work] == [
        node.op_type for node in net.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")
    ]
    macs = sum(operator.work.macs for operator in work if operator.work)
    assert macs > 1e8
    if path.stem in LIGHT_MMAC:
        assert round(macs / 1e6) == LIGHT_MMAC[path.stem]


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9


def test_operators_keep_names_order_and_tensors() -> None:
    net = small_cnn()
    graph = graph_from_model(net)
    assert graph.name == "net" and graph.inputs == ("x",) and graph.outputs == ("y",)
    assert [operator.op_type for operator in graph.operators] == [node.op_type for node in net.graph.node]
    resize = next(operator for operator in graph.operators if operator.op_type == "Resize")
    assert resize.inputs == ("lr", "scales")
    assert all(name in graph.tensors for operator in graph.operators for name in (*operator.inputs, *operator.outputs))
    assert graph.tensors["w1"].constant and not graph.tensors["c1"].constant
    assert graph.weight_bytes(graph.operators[0]) == 4 * (20 * 27 + 20)
    assert graph.activation_inputs(graph.operators[0])[0].size_bytes == 4 * 3 * 32 * 32


def test_reading_changes_neither_model_nor_file(tmp_path: Path) -> None:
    net = small_cnn("batch")
    before = net.SerializeToString(deterministic=True)
    graph_from_model(net, shapes={"x": (1, 3, 32, 32)})
    assert net.SerializeToString(deterministic=True) == before
    path = save(net, tmp_path / "net.onnx")
    content, time = path.read_bytes(), path.stat().st_mtime_ns
    read_graph(path, shapes={"x": (1, 3, 32, 32)})
    assert path.read_bytes() == content and path.stat().st_mtime_ns == time
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_model_give_the_same_graph(tmp_path: Path) -> None:
    net = small_cnn()
    from_file = read_graph(save(net, tmp_path / "net.onnx"))
    in_memory = graph_from_model(net)
    assert (from_file.operators, from_file.tensors) == (in_memory.operators, in_memory.tensors)


def test_nodes_out_of_order_are_sorted_and_ties_keep_the_files_order() -> None:
    nodes = [
        helper.make_node("Add", ["b", "a"], ["y"], name="last"),
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Neg", ["x"], ["b"], name="second"),
    ]
    graph = graph_from_model(model(nodes, {"x": [2]}, ["y"]))
    assert [operator.name for operator in graph.operators] == ["first", "second", "last"]
    assert [(edge.source, edge.target, edge.size_bytes) for edge in graph.edges] == [(0, 2, 8), (1, 2, 8)]


def test_names_are_unique_and_the_same_every_time() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="n"),
        helper.make_node("Relu", ["a"], ["b"], name="n"),
        helper.make_node("Relu", ["b"], ["n_2"]),
        helper.make_node("Relu", ["n_2"], ["n"], name="n"),
    ]
    graph = graph_from_model(model(nodes, {"x": [2]}, ["n"]))
    assert [operator.name for operator in graph.operators] == ["n", "n_3", "n_2", "n_4"]


def test_initializers_listed_as_inputs_are_weights() -> None:
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [3, 8], "w": [8, 6]}, ["y"], [weight("w", 8, 6)])
    net.ir_version = 3
    graph = graph_from_model(net)
    assert graph.inputs == ("x",) and graph.tensors["w"].constant


def test_nodes_fed_by_constants_only_stay_operators() -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    constants = [integers("c", [3], "uint8"), onnx.numpy_helper.from_array(np.float32(0.1), "s")]
    graph = graph_from_model(model(nodes, {"x": [2, 4]}, ["y"], constants))
    assert [operator.op_type for operator in graph.operators] == ["DequantizeLinear", "Mul"]
    assert [(edge.source, edge.target) for edge in graph.edges] == [(0, 1)]
    assert graph.tensors["d"].constant and not graph.tensors["y"].constant


def test_random_numbers_are_not_constants() -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["w"], shape=[8, 6]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = graph_from_model(model(nodes, {"x": [3, 8]}, ["y"]))
    assert graph.operators[1].work == MatrixWork(6, 8, 3, stationary="activation")


def _branch(name: str, operator: str) -> onnx.GraphProto:
    node = helper.make_node(operator, ["outer"], [name])
    return helper.make_graph([node], name, [], [value(name, [2, 3])])


def test_if_is_one_operator_that_reads_what_its_branches_capture() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["outer"]),
        helper.make_node(
            "If", ["c"], ["y"], name="choice", then_branch=_branch("t", "Neg"), else_branch=_branch("e", "Abs")
        ),
    ]
    net = model(nodes, [value("x", [2, 3]), value("c", [], TensorProto.BOOL)], ["y"])
    graph = graph_from_model(net)
    choice = graph.operators[1]
    assert choice.inputs == ("c", "outer")
    assert choice.work is None and "control flow" in choice.no_work_reason
    assert [(edge.source, edge.target, edge.tensors) for edge in graph.edges] == [(0, 1, ("outer",))]
    assert graph.tensors["y"].shape == (2, 3)


@pytest.mark.parametrize(("size", "expected"), [(1, (3,)), (2, (2, 3))])
def test_an_if_whose_condition_follows_from_shapes_has_the_shape_of_the_branch_taken(
    size: int, expected: tuple[int, ...]
) -> None:
    # What exporters write for x.squeeze(0).
    then = helper.make_graph([helper.make_node("Squeeze", ["x", "axes"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["e"])], "else", [], [value("e", None)])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Equal", ["s", "one"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    net = model(nodes, {"x": [size, 3]}, ["y"], [integers("one", [1]), integers("axes", [0])])
    assert graph_from_model(net).tensors["y"].shape == expected


def test_operators_of_onnx_runtime_in_a_branch_have_shapes() -> None:
    then = helper.make_graph(
        [helper.make_node("Gelu", ["x"], ["t"], domain="com.microsoft")], "then", [], [value("t", None)]
    )
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["e"])], "else", [], [value("e", None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    net = model([node], [value("x", [2, 3]), value("c", [], TensorProto.BOOL)], ["y"])
    assert graph_from_model(net).tensors["y"].shape == (2, 3)


def test_an_if_whose_branches_differ_is_refused_with_its_reason() -> None:
    then = helper.make_graph([helper.make_node("Flatten", ["x"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["e"])], "else", [], [value("e", None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    net = model([node], [value("x", [2, 3, 4]), value("c", [], TensorProto.BOOL)], ["y"])
    with pytest.raises(InputError, match=r"'y' is unknown.*profile"):
        graph_from_model(net)


def test_loop_is_one_operator() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("MatMul", ["state", "w"], ["next"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("state", [2, 4])],
        [value("go_on", [], TensorProto.BOOL), value("next", [2, 4])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    net = model([node], {"x": [2, 4]}, ["y"], [integers("n", 3), weight("w", 4, 4)])
    operator = graph_from_model(net).operators[0]
    assert operator.inputs == ("n", "x", "w") and operator.work is None


def test_functions_of_the_model_are_expanded() -> None:
    body = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Relu", ["m"], ["r"])]
    function = helper.make_function("local", "Dense", ["a", "b"], ["r"], body, [helper.make_opsetid("", 17)])
    net = model(
        [helper.make_node("Dense", ["x", "w"], ["y"], domain="local")], {"x": [3, 8]}, ["y"], [weight("w", 8, 6)]
    )
    net.functions.append(function)
    net.opset_import.append(helper.make_opsetid("local", 1))
    graph = graph_from_model(net)
    assert [operator.op_type for operator in graph.operators] == ["MatMul", "Relu"]
    assert graph.operators[0].work == MatrixWork(6, 8, 3)


def _with(change: Callable[[onnx.GraphProto], object]) -> onnx.ModelProto:
    net = model(
        [helper.make_node("Relu", ["x"], ["a"], name="one"), helper.make_node("Neg", ["a"], ["y"], name="two")],
        {"x": [2]},
        ["y"],
        [weight("w", 2), weight("v", 2)],
    )
    change(net.graph)
    return net


def _set(graph: onnx.GraphProto, index: int, name: str) -> None:
    graph.node[index].input[0] = name


FAULTS: dict[str, tuple[Callable[[onnx.GraphProto], object], str]] = {
    "a cycle": (lambda graph: _set(graph, 0, "y"), r"has a cycle.*one.*two"),
    "a node that reads itself": (lambda graph: _set(graph, 0, "a"), r"has a cycle.*one -> one"),
    "a missing producer": (
        lambda graph: _set(graph, 1, "ghost"),
        r"node 'two': reads the tensor 'ghost', which nothing",
    ),
    "a tensor made twice": (
        lambda graph: graph.node[1].output.append("a"),
        r"node 'two': the tensor 'a' is made twice",
    ),
    "an input made again": (lambda graph: graph.node[1].output.append("x"), r"'x' is made twice.*input or initializer"),
    "an output nobody makes": (
        lambda graph: graph.output.append(helper.make_empty_tensor_value_info("z")),
        r"output 'z' is made by nothing",
    ),
    "no nodes": (lambda graph: graph.ClearField("node"), "holds no operators"),
    "two initializers of one name": (lambda graph: graph.initializer.append(weight("w", 3)), "two initializers"),
    "two inputs of one name": (lambda graph: graph.input.append(value("x", [3])), "two inputs"),
    "a negative weight size": (lambda graph: graph.initializer[0].dims.append(-3), r"'w' has a negative size"),
    "an unknown element type": (
        lambda graph: setattr(graph.initializer[0], "data_type", 99),
        r"'w' has the unknown element type 99",
    ),
    "an undefined element type": (lambda graph: setattr(graph.initializer[0], "data_type", 0), "no element type"),
    "a node without name and outputs": (
        lambda graph: graph.node.append(helper.make_node("Relu", ["x"], [])),
        "neither a name nor an output",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_graph_that_is_not_well_formed_is_refused(fault: str) -> None:
    change, message = FAULTS[fault]
    with pytest.raises(InputError, match=message):
        graph_from_model(_with(change))


def test_a_model_without_operator_set_is_refused() -> None:
    net = small_cnn()
    del net.opset_import[:]
    with pytest.raises(InputError, match="which version of the ONNX operators"):
        graph_from_model(net)


@pytest.mark.parametrize(
    ("node", "shapes"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"], group=3), [4, 2, 3, 3]),
        (helper.make_node("Conv", ["x", "w"], ["y"], strides=[0, 1]), [4, 2, 3, 3]),
        (helper.make_node("Conv", ["x", "w"], ["y"], strides=[1]), [4, 2, 3, 3]),
        (helper.make_node("Conv", ["x"], ["y"]), [4, 2, 3, 3]),
        (helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", group="two"), [4, 2, 3, 3]),
        (helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", pads=[1]), [4, 2, 3, 3]),
        (helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft"), [7, 7]),
        (helper.make_node("FusedGemm", ["x", "w"], ["y"], domain="com.microsoft"), [7, 7]),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=0), [2, 4, 3, 3]),
    ],
)
def test_a_node_that_contradicts_its_operator_is_refused_by_name(node: onnx.NodeProto, shapes: list[int]) -> None:
    node.name = "faulty"
    with pytest.raises(InputError, match="'faulty'"):
        graph_from_model(model([node], {"x": [1, 2, 8, 8]}, ["y"], [weight("w", *shapes)]))


def _scalar(name: str, dtype: type) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.ones((), dtype), name)


@pytest.mark.parametrize(
    ("node", "weights", "message"),
    [
        ("Conv", [4, 5, 3, 3], r"3 channels.*\(4, 5, 3, 3\).*5 channels"),
        ("ConvInteger", [4, 5, 3, 3], r"3 channels.*5 channels"),
        ("QLinearConv", [4, 5, 3, 3], r"3 channels.*5 channels"),
        ("ConvTranspose", [4, 5, 3, 3], r"3 channels.*4 channels"),
        ("Conv", [4, 3, 9, 9], r"larger than its input.*\(1, 3, 8, 8\)"),
        ("Conv", [4, 3, 3, 3], r"kernel is \(5, 5\).*\(4, 3, 3, 3\)"),
    ],
)
def test_a_convolution_whose_weight_does_not_fit_its_input_is_refused(
    node: str, weights: list[int], message: str
) -> None:
    kernel = {"kernel_shape": [5, 5]} if "kernel is" in message else {}
    integer = node in ("ConvInteger", "QLinearConv")
    reads = ["x", "s", "z", "w", "s", "z", "s", "z"] if node == "QLinearConv" else ["x", "w"]
    net = model([helper.make_node(node, reads, ["y"], name="faulty", **kernel)], {"x": [1, 3, 8, 8]}, ["y"])
    if integer:
        net.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    constants = {"s": _scalar("s", np.float32), "z": _scalar("z", np.uint8)}
    constants["w"] = onnx.numpy_helper.from_array(np.ones(weights, np.uint8 if integer else np.float32), "w")
    net.graph.initializer.extend(constants[name] for name in dict.fromkeys(reads[1:]))
    with pytest.raises(InputError, match=f"node 'faulty'.*{message}.*export the model again"):
        graph_from_model(net)


def test_large_graphs_are_read(tmp_path: Path) -> None:
    # 10,000 nodes; the benchmark, not this test, looks at the clock.
    nodes = [helper.make_node("Relu", ["x"], ["t0"])]
    for index in range(0, 9_998, 2):
        nodes.append(helper.make_node("QuickGelu", [f"t{index}"], [f"t{index + 1}"], domain="com.microsoft"))
        nodes.append(helper.make_node("Add", [f"t{index + 1}", "t0"], [f"t{index + 2}"]))
    nodes.append(helper.make_node("Neg", [f"t{9_998}"], ["y"]))
    graph = read_graph(save(model(nodes, {"x": [2, 3]}, ["y"]), tmp_path / "large.onnx"))
    assert len(graph.operators) == 10_000 and graph.tensors["y"].shape == (2, 3)
