"""What `quantise` checks before a file appears, each against something else that knows the answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from graph_models import feeds_of, model, run_all, save, small_cnn, weight
from onnx import TensorProto, helper, numpy_helper

from cimplan.errors import InputError
from cimplan.graph.quantise import quantise
from cimplan.graph.quantised import without_8_bit_weights


def test_the_ratio_is_that_of_the_two_networks_on_the_samples(tmp_path: Path) -> None:
    x = feeds_of(small_cnn())["x"]
    np.save(tmp_path / "0.npy", x)
    np.save(tmp_path / "1.npy", x[:, :, ::-1])
    target = tmp_path / "int8.onnx"
    (found,) = quantise(save(small_cnn(), tmp_path / "net.onnx"), target, calibration=tmp_path).outputs
    signal = noise = 0.0
    for sample in (x, x[:, :, ::-1]):
        wanted = run_all(small_cnn(), {"x": sample})["y"].astype(float)
        given = run_all(onnx.load(target), {"x": sample})["y"].astype(float)
        signal, noise = signal + (wanted**2).sum(), noise + ((wanted - given) ** 2).sum()
    assert found.name == "y"
    assert found.sqnr_db == pytest.approx(10 * np.log10(signal / noise), abs=0.5)
    assert found.sqnr_db > 15


def test_weights_left_in_float_are_found(tmp_path: Path) -> None:
    target = tmp_path / "int8.onnx"
    done = quantise(save(small_cnn(), tmp_path / "net.onnx"), target)
    net = onnx.load(target)
    places = {node.name: 1 for node in net.graph.node if node.op_type in ("Conv", "Gemm")}
    assert done.quantised == len(places) == 5
    assert without_8_bit_weights(net, places) == set()
    spoilt = next(node for node in net.graph.node if node.op_type == "Conv")
    net.graph.initializer.append(weight("still_float", 20, 3, 3, 3))
    spoilt.input[1] = "still_float"
    assert without_8_bit_weights(net, places) == {spoilt.name}


def test_operators_without_an_8_bit_form_are_listed_with_the_reason(tmp_path: Path) -> None:
    net = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("LSTM", ["h", "wl", "rl"], ["y"], hidden_size=4, name="memory"),
        ],
        {"x": [3, 1, 8]},
        ["y"],
        [weight("w", 8, 6), weight("wl", 1, 16, 6), weight("rl", 1, 16, 4)],
    )
    done = quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx")
    assert done.quantised == 1
    assert [(item.name, item.op_type) for item in done.kept_float] == [("memory", "LSTM")]
    assert "LSTM" in done.kept_float[0].reason


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["w1", "bf"])
def test_weights_and_biases_that_are_not_finite_are_refused_by_name(tmp_path: Path, name: str, bad: float) -> None:
    net = small_cnn()
    tensor = next(item for item in net.graph.initializer if item.name == name)
    values = numpy_helper.to_array(tensor).copy()
    values.flat[0] = bad
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    with pytest.raises(InputError, match=repr(name)):
        quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx")
    assert not (tmp_path / "int8.onnx").exists()


@pytest.mark.parametrize("blocked", [-np.inf, np.finfo(np.float32).min])
def test_a_mask_stays_in_float_and_the_rest_becomes_int8(tmp_path: Path, blocked: float) -> None:
    net = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["s"]),
            helper.make_node("Add", ["s", "mask"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["y"]),
        ],
        {"x": [2, 8]},
        ["y"],
        [weight("w", 8, 4), numpy_helper.from_array(np.array([0, 0, 0, blocked], np.float32), "mask")],
    )
    done = quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx")
    assert done.quantised == 1
    assert done.outputs[0].sqnr_db is not None and done.outputs[0].sqnr_db > 20
    assert run_all(onnx.load(tmp_path / "int8.onnx"), {"x": np.ones((2, 8), np.float32)})["y"][0, 3] == 0


def test_values_of_inputs_stand_in_the_random_data(tmp_path: Path) -> None:
    net = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Gather", ["h", "row"], ["y"], axis=0),
        ],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 8]),
            helper.make_tensor_value_info("row", TensorProto.INT64, [1]),
        ],
        ["y"],
        [weight("w", 8, 4)],
    )
    done = quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx", values={"row": np.array([6])})
    assert done.calibration.samples[0]["row"].tolist() == [6]


def test_an_input_that_is_too_large_to_draw_is_refused(tmp_path: Path) -> None:
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2**32, 8]}, ["y"], [weight("w", 8, 4)])
    with pytest.raises(InputError, match="too large"):
        quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx")
