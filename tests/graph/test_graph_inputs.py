"""What a user says of a network's inputs: named sizes, values, nothing at all; and what errors advise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import integers, model, save, value, weight
from onnx import TensorProto, helper

import cimplan as cp
from cimplan.errors import InputError
from cimplan.graph.read import graph_from_model, read_graph


def valued() -> onnx.ModelProto:
    """Return a network whose shapes depend on the value of its input n."""
    nodes = [
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Gather", ["table", "r"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"], name="head"),
    ]
    constants = [integers("zero", 0), integers("one", 1), weight("table", 50, 8), weight("w", 8, 4)]
    return model(nodes, [value("n", [], TensorProto.INT64)], ["y"], constants)


def named() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "z"], ["y"])]
    return model(nodes, {"x": ["atoms", 8], "z": ["atoms", 4]}, ["y"], [weight("w", 8, 4)])


def test_shapes_may_depend_on_a_value_that_is_given(tmp_path: Path) -> None:
    path = save(valued(), tmp_path / "m.onnx")
    found = cp.load(path, values={"n": 20})
    assert found.graph.tensors["y"].shape == (20, 4)
    with pytest.raises(InputError, match="--value NAME=VALUE"):
        _ = cp.load(path).graph


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"m": 3}, "no input of the model.*Known names: n"),
        ({"n": 2.5}, "does not fit the type"),
        ({"n": "many"}, "does not fit"),
        ({"n": [1, 2, 3]}, "does not fit"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        cp.load(save(valued(), tmp_path / "m.onnx"), values=values)


def test_one_number_fills_an_input_of_known_shape(tmp_path: Path) -> None:
    found = cp.load(save(named(), tmp_path / "m.onnx"), dims={"atoms": 3}, values={"z": 1.5})
    np.testing.assert_array_equal(found.values["z"], np.full((3, 4), 1.5, np.float32))
    listed = cp.load(save(named(), tmp_path / "m.onnx"), shapes={"z": (3, 4)}, values={"z": list(range(12))})
    assert listed.values["z"].shape == (3, 4)


def test_a_named_dimension_is_set_once_for_all_inputs(tmp_path: Path) -> None:
    path = save(named(), tmp_path / "m.onnx")
    assert cp.load(path, dims={"atoms": 100}).shapes == {"x": (100, 8), "z": (100, 4)}
    assert cp.load(path, dims={"atoms": 0}).graph.tensors["y"].shape == (0, 4)
    with pytest.raises(InputError, match=r"no input has a dimension named 'atom'.*Did you mean 'atoms'"):
        cp.load(path, dims={"atom": 100})
    with pytest.raises(InputError, match="'atoms' is given as 100 and as 7"):
        cp.load(path, dims={"atoms": 100}, shapes={"x": (7, 8)})
    with pytest.raises(InputError, match="--dim atoms=N"):
        _ = cp.load(path).graph


def test_an_input_without_elements_is_planned_as_it_is() -> None:
    nodes = [helper.make_node("Concat", ["past", "x"], ["c"], axis=1), helper.make_node("MatMul", ["c", "w"], ["y"])]
    net = model(nodes, {"past": [1, 0, 8], "x": [1, 4, 8]}, ["y"], [weight("w", 8, 4)])
    assert graph_from_model(net).tensors["y"].shape == (1, 4, 4)
    assert graph_from_model(net, shapes={"past": (1, 0, 8)}).tensors["y"].shape == (1, 4, 4)


@pytest.mark.parametrize("opset", [11, 13])
def test_a_view_is_read_alike_before_and_after_axes_became_an_input(opset: int) -> None:
    axes = {"axes": [0]} if opset < 13 else {}
    second = [] if opset < 13 else ["zero1"]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", *second], ["b"], **axes),
        helper.make_node("Concat", ["b", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["v"]),
        helper.make_node("MatMul", ["v", "w"], ["y"]),
    ]
    constants = [integers("zero", 0), integers("zero1", [0]), integers("rest", [-1]), weight("w", 32, 4)]
    net = model(nodes, {"x": [3, 2, 4, 4]}, ["y"], constants, opset=opset)
    assert graph_from_model(net).tensors["y"].shape == (3, 4)


def nested_functions(depth: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("m", 1)]
    functions = [helper.make_function("m", "F0", ["a"], ["o"], [helper.make_node("Relu", ["a"], ["o"])], opsets)]
    for level in range(1, depth + 1):
        calls = [
            helper.make_node(f"F{level - 1}", ["a"], ["t"], domain="m"),
            helper.make_node(f"F{level - 1}", ["t"], ["o"], domain="m"),
        ]
        functions.append(helper.make_function("m", f"F{level}", ["a"], ["o"], calls, opsets))
    graph = helper.make_graph(
        [helper.make_node(f"F{depth}", ["x"], ["y"], domain="m")], "bomb", [value("x", [1, 4])], [value("y", None)]
    )
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


def test_functions_that_expand_without_bounds_are_refused_at_once(tmp_path: Path) -> None:
    path = save(nested_functions(60), tmp_path / "bomb.onnx")
    with pytest.raises(InputError, match="expand to more nodes than any machine holds"):
        read_graph(path)
    with pytest.raises(InputError, match="expand to"):
        cp.profile(path)
    assert len(graph_from_model(nested_functions(5)).operators) == 2**5


def test_a_function_that_calls_itself_is_refused() -> None:
    net = nested_functions(2)
    net.functions[0].node.add(op_type="F2", domain="m", input=["a"], output=["z"])
    with pytest.raises(InputError, match="calls itself"):
        graph_from_model(net)


def test_maps_and_sequences_are_refused_with_advice_that_helps() -> None:
    split = helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)
    joined = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    with pytest.raises(InputError, match=r"only tensors can be planned.*extract_model"):
        graph_from_model(model([split, joined], {"x": [2, 4]}, ["y"]))
    net = model([split], {"x": [2, 4]}, ["s"])
    net.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    with pytest.raises(InputError, match=r"'s' is not a tensor.*extract_model"):
        graph_from_model(net)


def test_a_foreign_operator_is_read_once_its_output_is_declared() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["a"], domain="acme"), helper.make_node("MatMul", ["a", "w"], ["y"])]
    net = model(nodes, {"x": [2, 8]}, ["y"], [weight("w", 8, 4)])
    with pytest.raises(InputError, match="value_info of the model"):
        graph_from_model(net)
    net.graph.value_info.append(value("a", [2, 8]))
    first, _ = graph_from_model(net).operators
    assert first.unlowered and "not known" in first.no_work_reason


@pytest.mark.parametrize("code", ["BFLOAT16", "FLOAT8E4M3FN"])
def test_outputs_of_types_that_numpy_lacks_are_measured(code: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="mm"),
        helper.make_node("Cast", ["y"], ["q"], to=TensorProto.DataType.Value(code)),
    ]
    path = save(model(nodes, {"x": [4, 8]}, ["q"], [weight("w", 8, 4)], opset=19), tmp_path / "m.onnx")
    profile = cp.profile(path, measure_s=0.05, fresh=True)
    assert profile.graph().tensors["q"].dtype == code.lower()


def test_values_are_used_in_measuring_and_kept_in_profile_and_plan(tmp_path: Path) -> None:
    path = save(valued(), tmp_path / "m.onnx")
    found = cp.load(path, values={"n": 20})
    profile = cp.profile(found, measure_s=0.05, fresh=True)
    assert profile.values == {"n": "20"}
    assert profile.graph().tensors["y"].shape == (20, 4)
    plan = cp.partition(found, "rram-256", profile)
    assert plan.profile.values == {"n": "20"}
    with pytest.raises(InputError, match="not made with this value of 'n'"):
        cp.partition(cp.load(path, values={"n": 21}), "rram-256", profile)
