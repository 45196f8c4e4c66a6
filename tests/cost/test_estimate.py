"""The estimated host: derived, labelled, sourced, and never mistaken for a measurement."""

from __future__ import annotations

import pytest
import yaml
from cost_cases import chip, save_small_model, small_graph, small_profile

from cimplan.cost import estimate, profile, profile_file
from cimplan.cost.build import build_problem
from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor

A72 = estimate.parameters("cortex-a72")


def test_every_number_of_the_host_has_a_source():
    value = yaml.safe_load(estimate.text_of("cortex-a72"))
    assert estimate.names() == ("cortex-a72",)
    numbers = {name for name in value if name not in ("schema_version", "name", "cpu", "architecture")}
    numbers -= {"matrix", "elementwise", "sources"}
    numbers |= {f"matrix.{name}" for name in value["matrix"]}
    assert numbers == set(value["sources"])
    assert all(rate["source"] for rate in value["elementwise"])
    listed = [name for rate in value["elementwise"] for name in rate["operators"]]
    assert len(listed) == len(set(listed))


def test_an_unknown_host_is_refused():
    with pytest.raises(InputError, match="Did you mean 'cortex-a72'"):
        estimate.estimate(small_profile(), "cortex-a27")


def _one(op_type, inputs, output, work=None, weight=""):
    tensors = {tensor.name: tensor for tensor in (*inputs, output)}
    op = Operator("op", op_type, "", tuple(t.name for t in inputs), (output.name,), work, weight_input=weight)
    return OperatorGraph("g", (op,), tensors, (inputs[0].name,), (output.name,)), op


def _times(*args):
    return estimate.estimate_operator(*_one(*args), A72)


def test_an_int8_product_by_hand():
    x, w, y = Tensor("x", "uint8", (100, 64)), Tensor("w", "int8", (64, 32), True), Tensor("y", "uint8", (100, 32))
    found = _times("QLinearMatMul", [x, w], y, MatrixWork(32, 64, 100), "w")
    # 204,800 products at 8 a cycle and 85 %, and 1.25 cycles for each of 3,200 results, at 1.5 GHz
    assert found.compute_ns == pytest.approx((204_800 / 6.8 + 1.25 * 3_200) / 1.5)
    assert found.memory_ns == pytest.approx((6_400 + 2_048 + 3_200) / 8 / 1.5)
    assert found.total_ns == 3000 + found.compute_ns


def test_products_differ_by_type_of_weights_and_shape():
    def cycles(kind, weights, work, elements=6_400):
        x, w, y = Tensor("x", kind, (elements,)), Tensor("w", weights, (1,), True), Tensor("y", "float32", (1,))
        return _times("MatMul", [x, w], y, work, "w").compute_ns * 1.5

    plain, depthwise, convolution = MatrixWork(32, 64, 100), MatrixWork(1, 9, 100, 32), MatrixWork(32, 576, 100)
    assert cycles("int8", "int8", plain) == pytest.approx(204_800 / 6.8 + 1.25)
    assert cycles("uint8", "uint8", plain) == pytest.approx(204_800 / 3.4 + 1.25)
    assert cycles("float32", "float32", plain) == pytest.approx(204_800 / 3.4)
    assert cycles("uint8", "int8", depthwise, 3_200) == pytest.approx(28_800 / 4)
    assert cycles("float32", "float32", depthwise, 3_200) == pytest.approx(28_800 / 2)
    # 3x3 patches of a convolution: nine elements copied for one, except by the kernels for int8 weights
    assert cycles("float32", "float32", convolution) == pytest.approx(1_843_200 / 3.4 + 0.25 * 4 * 57_600)
    assert cycles("uint8", "uint8", convolution) == pytest.approx(1_843_200 / 3.4 + 1.25 + 0.25 * 57_600)
    assert cycles("uint8", "int8", convolution) == pytest.approx(1_843_200 / 6.8 + 1.25)


def test_large_tensors_are_bound_by_main_memory():
    x, y = Tensor("x", "float32", (1000, 1000)), Tensor("y", "float32", (1000, 1000))
    found = _times("Relu", [x], y)
    assert found.memory_ns == pytest.approx(8_000_000 / 4.844)
    assert found.total_ns == 3000 + found.memory_ns > 3000 + found.compute_ns


def test_classes_count_inputs_or_outputs_and_unknown_types_have_a_default():
    x, y = Tensor("x", "uint8", (1000,)), Tensor("y", "uint8", (10,))
    assert _times("ReduceMean", [x], y).compute_ns == pytest.approx(1000 / 1.5)
    assert _times("Softmax", [x], y).compute_ns == pytest.approx(8 * 10 / 1.5)
    assert _times("NoSuchType", [x], y).compute_ns == pytest.approx(4 * 10 / 1.5)


def test_an_estimate_is_labelled_in_every_place(tmp_path):
    found = estimate.estimate(small_profile(), "cortex-a72")
    assert found.origin == "estimated"
    assert found.measurement is None
    assert {timing.kind for timing in found.times.values()} == {"estimated", "free (view)"}
    assert "never measured" in found.notes[0]
    assert found.graph() == small_graph()
    assert found.model == small_profile().model
    found.save(tmp_path / "a72.json")
    assert profile_file.load(tmp_path / "a72.json") == found
    network = build_problem(found, chip())
    assert network.origin == "estimated"
    assert network.by_name["conv"].host_kind == "estimated"


def test_a_model_is_estimated_on_its_optimised_graph(tmp_path):
    path = save_small_model(tmp_path / "m.onnx", batch="N")
    found = estimate.estimate(path, "cortex-a72", shapes={"x": (1, 3, 16, 16)})
    assert found.model.name == "m.onnx"
    measured = profile.measure(path, runs=1, shapes={"x": (1, 3, 16, 16)})
    assert found.graph() == measured.graph()
    assert found.times == estimate.estimate(measured, "cortex-a72").times
    assert all(timing.host_ns >= 3000 for timing in found.times.values() if timing.kind == "estimated")
