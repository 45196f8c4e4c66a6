"""Quantisation through ONNX Runtime: repeatable, quiet, and clear about what it cannot do."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graph_models import (
    feeds_of,
    integers,
    model,
    optimise,
    run_all,
    save,
    session_options,
    small_cnn,
    transformer_block,
    value,
    weight,
)
from onnx import TensorProto, helper

from cimplan.errors import InputError
from cimplan.graph.quantise import CALIBRATION_KEY, quantise
from cimplan.graph.read import graph_from_model, read_graph


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return save(small_cnn(), folder / "net.onnx")


def test_the_quantised_network_is_int8_and_close_to_the_float_one(tmp_path: Path, source: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    x = feeds_of(small_cnn())["x"]
    np.save(samples / "0.npy", x)
    target = tmp_path / "int8.onnx"
    quantise(source, target, calibration=samples)
    graph = read_graph(target)
    assert {operator.op_type for operator in graph.operators} >= {"QuantizeLinear", "DequantizeLinear", "Conv"}
    net = onnx.load(target)
    kinds = {
        tensor.name: tensor.data_type
        for tensor in net.graph.initializer
        if tensor.name.endswith(("_quantized", "_zero_point"))
    }
    assert kinds["w1_quantized"] == TensorProto.INT8 and kinds["x_zero_point"] == TensorProto.UINT8
    expected = run_all(small_cnn(), {"x": x})["y"]
    assert np.abs(run_all(net, {"x": x})["y"] - expected).max() < 0.1 * np.abs(expected).max() + 1e-3
    executed = read_graph(optimise(target, tmp_path / "optimised.onnx"))
    assert sum(operator.op_type == "QLinearConv" for operator in executed.operators) == 4
    assert all(operator.work.stationary == "constant" for operator in executed.operators if operator.work)


def test_same_input_same_file_and_another_seed_another(tmp_path: Path, source: Path) -> None:
    contents = []
    for index, seed in enumerate((0, 0, 1)):
        target = tmp_path / f"{index}.onnx"
        quantise(source, target, seed=seed)
        contents.append(target.read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_the_file_says_where_its_ranges_come_from(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "int8.onnx"
    assert quantise(source, target, seed=3).calibration.origin == "random data, seed 3"
    assert {entry.key: entry.value for entry in onnx.load(target).metadata_props}[
        CALIBRATION_KEY
    ] == "random data, seed 3"
    np.savez(tmp_path / "a.npz", x=feeds_of(small_cnn())["x"])
    assert quantise(source, target, calibration=tmp_path).calibration.origin == f"1 sample from {tmp_path.name}"


def test_samples_set_the_ranges(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    np.savez(folder / "a.npz", x=np.full((1, 3, 32, 32), 2.0, np.float32))
    np.savez(folder / "b.npz", x=np.full((1, 3, 32, 32), -8.2, np.float32))
    quantise(source, tmp_path / "int8.onnx", calibration=folder)
    scales = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "int8.onnx").graph.initializer
    }
    assert scales["x_scale"] == pytest.approx(10.2 / 255, rel=1e-6)


def test_nothing_is_printed_changed_or_left_behind(
    tmp_path: Path, source: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(tmp_path)
    # ONNX Runtime's quantiser keeps a file of this name beside its input while it works.
    bystander = source.with_name("net-inferred.onnx")
    bystander.write_bytes(b"precious")
    before = source.read_bytes()
    root = logging.getLogger()
    handlers, filters = list(root.handlers), list(root.filters)
    quantise(source, tmp_path / "int8.onnx")
    out = capfd.readouterr()
    assert (out.out, out.err) == ("", "")
    assert source.read_bytes() == before and bystander.read_bytes() == b"precious"
    assert (root.handlers, root.filters) == (handlers, filters)
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "int8.onnx", "tmp"]
    assert sorted(path.name for path in source.parent.iterdir()) == ["net-inferred.onnx", "net.onnx"]


def test_the_source_is_never_overwritten(tmp_path: Path, source: Path) -> None:
    link = tmp_path / "link.onnx"
    link.symlink_to(source)
    for target in (source, link):
        with pytest.raises(InputError, match="would overwrite the float model"):
            quantise(source, target)


def test_what_is_quantised_already_is_refused(tmp_path: Path, source: Path) -> None:
    quantise(source, tmp_path / "int8.onnx")
    optimise(tmp_path / "int8.onnx", tmp_path / "optimised.onnx")
    for name in ("int8.onnx", "optimised.onnx"):
        with pytest.raises(InputError, match="quantised already"):
            quantise(tmp_path / name, tmp_path / "again.onnx")
    assert not (tmp_path / "again.onnx").exists()


def test_what_has_nothing_to_quantise_is_refused(tmp_path: Path) -> None:
    path = save(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"]), tmp_path / "net.onnx")
    with pytest.raises(InputError, match="nothing to quantise"):
        quantise(path, tmp_path / "int8.onnx")


def test_a_dynamic_network_needs_shapes_and_stays_dynamic(tmp_path: Path) -> None:
    path = save(small_cnn("batch"), tmp_path / "net.onnx")
    with pytest.raises(InputError, match="--shape x=1,3,32,32"):
        quantise(path, tmp_path / "int8.onnx")
    quantise(path, tmp_path / "int8.onnx", shapes={"x": (2, 3, 32, 32)})
    assert onnx.load(tmp_path / "int8.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_integer_inputs_are_drawn_too(tmp_path: Path) -> None:
    path = save(transformer_block(), tmp_path / "net.onnx")
    quantise(path, tmp_path / "int8.onnx")
    assert any(operator.op_type == "QuantizeLinear" for operator in read_graph(tmp_path / "int8.onnx").operators)


def test_external_data_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        small_cnn(),
        folder / "net.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
        convert_attribute=True,
    )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    quantise(folder / "net.onnx", tmp_path / "int8.onnx")
    quantise(save(small_cnn(), tmp_path / "whole.onnx"), tmp_path / "whole8.onnx")
    found, expected = (
        {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in onnx.load(path).graph.initializer}
        for path in (tmp_path / "int8.onnx", tmp_path / "whole8.onnx")
    )
    assert found == expected
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_missing_external_data_are_reported(tmp_path: Path) -> None:
    onnx.save(small_cnn(), tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=100)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InputError, match=r"weights are missing.*'w.bin'"):
        quantise(tmp_path / "net.onnx", tmp_path / "int8.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx"]


def test_batch_normalisation_is_folded_first(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"]),
    ]
    constants = [weight("w", 4, 3, 3, 3), *(weight(name, 4) for name in "gbm"), integers("v", [1] * 4, "float32")]
    path = save(model(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants), tmp_path / "net.onnx")
    quantise(path, tmp_path / "int8.onnx")
    executed = [
        operator.op_type for operator in read_graph(optimise(tmp_path / "int8.onnx", tmp_path / "o.onnx")).operators
    ]
    assert "QLinearConv" in executed and "BatchNormalization" not in executed


def _write(name: str, **arrays: np.ndarray) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        if name.endswith(".npz"):
            np.savez(folder / name, **arrays)
        else:
            np.save(folder / name, next(iter(arrays.values())))

    return write


GOOD = np.zeros((1, 3, 32, 32), np.float32)
BAD_SAMPLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no samples": (lambda folder: None, "holds no calibration data"),
    "wrong shape": (_write("a.npy", x=GOOD[0]), r"'x' has shape \(3, 32, 32\) in place of \(1, 3, 32, 32\)"),
    "wrong type": (_write("a.npy", x=GOOD.astype(np.float64)), "'x' is float64 in place of float32"),
    "wrong name": (_write("a.npz", images=GOOD), "'images' is no input of the model"),
    "missing input": (_write("a.npz"), "lacks an array for the input 'x'"),
    "not finite": (_write("a.npy", x=GOOD * np.nan), "not finite"),
    "text": (lambda folder: (folder / "a.npy").write_text("1 2 3"), "not a NumPy file of numbers"),
    "broken archive": (lambda folder: (folder / "a.npz").write_bytes(b"PK\3\4"), "not a NumPy file of numbers"),
    "objects": (_write("a.npy", x=np.array([{"a": 1}], dtype=object)), "not a NumPy file of numbers"),
}


@pytest.mark.parametrize("fault", BAD_SAMPLES)
def test_samples_that_do_not_fit_are_refused(tmp_path: Path, source: Path, fault: str) -> None:
    write, message = BAD_SAMPLES[fault]
    folder = tmp_path / "samples"
    folder.mkdir()
    write(folder)
    with pytest.raises(InputError, match=message):
        quantise(source, tmp_path / "int8.onnx", calibration=folder)
    assert not (tmp_path / "int8.onnx").exists()


def test_one_array_for_two_inputs_is_refused(tmp_path: Path) -> None:
    net = model([helper.make_node("MatMul", ["a", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])],
                {"a": [2, 4], "b": [2, 4]}, ["y"], [weight("w", 4, 4)])  # fmt: skip
    path = save(net, tmp_path / "net.onnx")
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros((2, 4), np.float32))
    with pytest.raises(InputError, match="one array for a model with 2 inputs"):
        quantise(path, tmp_path / "int8.onnx", calibration=folder)
    with pytest.raises(InputError, match="is not a folder"):
        quantise(path, tmp_path / "int8.onnx", calibration=tmp_path / "absent")


def test_an_input_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Identity", ["s"], ["t"])]
    net = model(nodes, [value("x", [2, 4]), value("s", [1], TensorProto.STRING)], ["y", "t"], [weight("w", 4, 4)])
    with pytest.raises(InputError, match=r"'s'.*type string"):
        quantise(save(net, tmp_path / "net.onnx"), tmp_path / "int8.onnx")


def test_quantised_network_runs(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "int8.onnx"
    quantise(source, target)
    session = ort.InferenceSession(str(target), session_options(), providers=["CPUExecutionProvider"])
    assert session.run(None, feeds_of(small_cnn()))[0].shape == graph_from_model(small_cnn()).tensors["y"].shape
