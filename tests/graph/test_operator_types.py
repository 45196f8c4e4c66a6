"""The table of operator types, and the lowering of recurrent operators, Einsum and transposed convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graph_models import Array, model, session_options, weight
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork, Operator, Recurrence
from cimplan.graph.read import graph_from_model
from cimplan.hardware.schema import MATRIX_OPERATORS
from cimplan.operator_types import OFFLOADABLE, TABLE

M = "com.microsoft"


def lowered(net: onnx.ModelProto) -> Operator:
    return graph_from_model(net).operators[-1]


def run(net: onnx.ModelProto, **feeds: Array) -> Array:
    session = ort.InferenceSession(net.SerializeToString(), session_options(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def test_hardware_files_may_name_what_the_table_lowers_and_nothing_else() -> None:
    assert MATRIX_OPERATORS == OFFLOADABLE
    assert set(OFFLOADABLE) == {name for (_, name), row in TABLE.items() if row.lowering != "none"}
    assert {"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "MatMulNBits", "MatMulBnb4", "Einsum", "NhwcConv"} <= set(
        OFFLOADABLE
    )
    assert {"GemmFastGelu", "QLinearConvTranspose", "ConvTranspose", "QLinearConv", "Gemm"} <= set(OFFLOADABLE)
    assert not {"MultiHeadAttention", "If", "Loop", "MoE"} & set(OFFLOADABLE)
    assert all(row.reason for row in TABLE.values() if row.lowering == "none")


# --- recurrent operators -------------------------------------------------------------------------------------------


def recurrent(
    kind: str, *, steps: int, batch: int, inputs: int, hidden: int, directions: int = 1, **attributes: Any
) -> onnx.ModelProto:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    attributes["direction"] = "bidirectional" if directions == 2 else attributes.get("direction", "forward")
    node = helper.make_node(kind, ["x", "w", "r"], ["", "h"], hidden_size=hidden, name="cell", **attributes)
    weights = [weight("w", directions, gates * hidden, inputs), weight("r", directions, gates * hidden, hidden)]
    return model([node], {"x": [steps, batch, inputs]}, ["h"], weights)


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (
            recurrent("LSTM", steps=7, batch=2, inputs=5, hidden=3, directions=2),
            MatrixWork(4 * 3, 5, 7 * 2, 2, recurrence=Recurrence(3, 7, 1)),
        ),
        (
            recurrent("GRU", steps=7, batch=2, inputs=5, hidden=3, linear_before_reset=1, direction="reverse"),
            MatrixWork(3 * 3, 5, 7 * 2, 1, recurrence=Recurrence(3, 7, 1)),
        ),
        (
            recurrent("GRU", steps=7, batch=2, inputs=5, hidden=3),
            MatrixWork(3 * 3, 5, 7 * 2, 1, recurrence=Recurrence(3, 7, 2)),
        ),
        (recurrent("RNN", steps=1, batch=1, inputs=4, hidden=6), MatrixWork(6, 4, 1, recurrence=Recurrence(6, 1, 1))),
    ],
)
def test_recurrent_operators_are_an_input_product_and_one_step_by_step(
    net: onnx.ModelProto, expected: MatrixWork
) -> None:
    operator = lowered(net)
    assert operator.work == expected
    assert operator.weight_input == "w" and operator.no_work_reason == ""


def test_the_macs_of_an_lstm_are_those_of_its_equations() -> None:
    steps, batch, inputs, hidden, directions = 7, 2, 5, 3, 2
    net = recurrent("LSTM", steps=steps, batch=batch, inputs=inputs, hidden=hidden, directions=directions)
    work = lowered(net).work
    assert work is not None
    # Each of i, o, f, c in each step, for each sequence and direction: hidden rows against x and against h.
    macs = sum(hidden * (inputs + hidden) for _ in range(directions * steps * batch) for _gate in "iofc")
    weights = sum(math.prod(tensor.dims) for tensor in net.graph.initializer)
    assert (work.macs, work.weights) == (macs, weights)


def test_a_batch_first_lstm_has_as_many_steps_as_its_second_dimension() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, layout=1)
    net = model([node], {"x": [2, 7, 5]}, ["y"], [weight("w", 1, 12, 5), weight("r", 1, 12, 3)])
    assert lowered(net).work == MatrixWork(12, 5, 14, 1, recurrence=Recurrence(3, 7))


def test_a_dynamically_quantised_lstm_keeps_its_weights_transposed() -> None:
    scales = [weight("ws", 1), weight("rs", 1)]
    zeros = [onnx.numpy_helper.from_array(np.zeros(1, np.int8), name) for name in ("wz", "rz")]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"],
        ["y"],
        hidden_size=3,
        domain=M,
    )
    weights = [weight("w", 1, 5, 12, dtype="int8"), weight("r", 1, 3, 12, dtype="int8")]
    operator = lowered(model([node], {"x": [7, 2, 5]}, ["y"], [*weights, *scales, *zeros]))
    assert operator.work == MatrixWork(12, 5, 14, 1, recurrence=Recurrence(3, 7))


def test_recurrent_weights_that_are_computed_are_not_stationary() -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)
    operator = lowered(model([node], {"x": [7, 2, 5], "r": [1, 12, 3]}, ["y"], [weight("w", 1, 12, 5)]))
    assert operator.work is not None and operator.work.stationary == "activation"
    assert "computed during inference" in operator.no_work_reason


def test_recurrent_weights_of_another_size_are_refused() -> None:
    node = helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=3)
    net = model([node], {"x": [7, 2, 5]}, ["y"], [weight("w", 1, 9, 5), weight("r", 1, 9, 4)])
    with pytest.raises(InputError):
        graph_from_model(net)


# --- Einsum --------------------------------------------------------------------------------------------------------


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, dict[str, int], str, str]:
    """Draw an equation that is a matrix product: sizes of its labels, those of the weights, and those summed over."""
    roles = {role: draw(st.integers(least, 2)) for role, least in (("batch", 0), ("rows", 0), ("sum", 1), ("cols", 0))}
    letters = iter(draw(st.permutations("abcdefgh")))
    labels = {role: [next(letters) for _ in range(count)] for role, count in roles.items()}
    sizes = {label: draw(st.integers(2, 4)) for names in labels.values() for label in names}
    left = draw(st.permutations([*labels["batch"], *labels["rows"], *labels["sum"]]))
    right = draw(st.permutations([*labels["batch"], *labels["sum"], *labels["cols"]]))
    out = draw(st.permutations([*labels["batch"], *labels["rows"], *labels["cols"]]))
    return f"{''.join(left)},{''.join(right)}->{''.join(out)}", sizes, "".join(right), "".join(labels["sum"])


@given(contractions(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_einsum_is_the_matrix_product_it_is_lowered_to(
    case: tuple[str, dict[str, int], str, str], weights_first: bool
) -> None:
    equation, sizes, weight_labels, summed = case
    left, rest = equation.split(",")
    if weights_first:
        equation = f"{weight_labels},{left}->{rest.split('->')[1]}"
    node = helper.make_node("Einsum", ["w", "x"] if weights_first else ["x", "w"], ["y"], equation=equation)
    w = weight("w", *(sizes[label] for label in weight_labels))
    x_shape = [sizes[label] for label in left]
    net = model([node], {"x": x_shape}, ["y"], [w])
    operator = lowered(net)
    work = operator.work
    assert work is not None and work.stationary == "constant" and operator.weight_input == "w"

    def size(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    # Every combination of labels is one multiplication, every element of w is stored once, and an output element
    # adds up what is summed over.
    assert work.macs == size(set(left) | set(weight_labels))
    assert work.weights == size(set(weight_labels))
    assert work.inputs == size(set(summed))
    result = run(net, x=np.ones(x_shape, np.float32))
    assert result.size == work.outputs * work.mvms * work.groups


@pytest.mark.parametrize(
    ("equation", "x", "w", "expected"),
    [
        ("bi,io->bo", [3, 5], [5, 7], MatrixWork(7, 5, 3)),
        ("bi,oi->bo", [3, 5], [7, 5], MatrixWork(7, 5, 3)),
        ("bthd,hde->bte", [2, 3, 4, 5], [4, 5, 7], MatrixWork(7, 20, 6)),
        ("...i,io->...o", [2, 3, 5], [5, 7], MatrixWork(7, 5, 6)),
        ("gbi,gio->gbo", [4, 3, 5], [4, 5, 7], MatrixWork(7, 5, 3, 4)),
        (" b i , i o ", [3, 5], [5, 7], MatrixWork(7, 5, 3)),
        ("ij,ij->", [3, 5], [3, 5], MatrixWork(1, 15, 1)),
    ],
)
def test_equations_people_write(equation: str, x: list[int], w: list[int], expected: MatrixWork) -> None:
    net = model([helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)], {"x": x}, ["y"], [weight("w", *w)])
    assert lowered(net).work == expected


@pytest.mark.parametrize("equation", ["bi,io->bio", "bi,io->b", "ii,io->o", "bi,io->i"])
def test_other_equations_are_no_matrix_product(equation: str) -> None:
    x = [5, 5] if equation.startswith("ii") else [3, 5]
    net = model(
        [helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)], {"x": x}, ["y"], [weight("w", 5, 7)]
    )
    operator = lowered(net)
    assert operator.work is None and "equation" in operator.no_work_reason


# --- convolutions, transposed --------------------------------------------------------------------------------------


@st.composite
def transposed(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 2))
    auto_pad = draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    attributes: dict[str, Any] = {"strides": strides, "auto_pad": auto_pad, "kernel_shape": kernel}
    attributes["output_padding"] = [draw(st.integers(0, max(stride - 1, 0))) for stride in strides]
    if auto_pad == "NOTSET":
        attributes["dilations"] = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
        attributes["pads"] = draw(st.lists(st.integers(0, 1), min_size=2 * rank, max_size=2 * rank))
    return attributes | {"spatial": draw(st.lists(st.integers(2, 4), min_size=rank, max_size=rank))}


@given(transposed())
@settings(deadline=None, max_examples=80)
def test_transposed_convolutions_have_the_shape_of_a_run(case: dict[str, Any]) -> None:
    spatial = case.pop("spatial")
    net = model(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **case)],
        {"x": [1, 2, *spatial]},
        ["y"],
        [weight("w", 2, 3, *case["kernel_shape"])],
    )
    try:
        expected = run(net, x=np.ones([1, 2, *spatial], np.float32)).shape
    except Exception:  # ONNX Runtime refuses it; nothing to compare with
        return
    graph = graph_from_model(net)
    assert graph.tensors["y"].shape == expected


def test_same_padding_of_a_transposed_convolution_includes_output_padding() -> None:
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER", output_padding=[1, 1]
    )
    net = model([node], {"x": [1, 8, 4, 4]}, ["y"], [weight("w", 8, 16, 3, 3)])
    assert graph_from_model(net).tensors["y"].shape == (1, 16, 8, 8)
    assert run(net, x=np.ones([1, 8, 4, 4], np.float32)).shape == (1, 16, 8, 8)


def test_a_quantised_transposed_convolution_is_lowered_like_a_float_one() -> None:
    scale = weight("s", 1)
    zero = onnx.numpy_helper.from_array(np.zeros((), np.uint8), "z")
    node = helper.make_node(
        "QLinearConvTranspose", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], domain=M, strides=[2, 2]
    )
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 8, 4, 4])
    net = model([node], [x], ["y"], [weight("w", 8, 16, 3, 3, dtype="uint8"), scale, zero])
    graph = graph_from_model(net)
    assert graph.tensors["y"].shape == (1, 16, 9, 9) and graph.tensors["y"].dtype == "uint8"
    assert graph.operators[0].work == MatrixWork(16 * 9, 8, 16)


def test_the_page_of_operators_is_what_the_table_says() -> None:
    from pathlib import Path

    from cimplan.graph.operator_page import page

    text = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    assert text == page(), "write cimplan.graph.operator_page.page() to docs/operators.md"
    assert all(row.title in text for row in TABLE.values())
