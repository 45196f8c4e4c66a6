"""The network's own inputs and outputs: over the bus where that is charged, for nothing where it is free."""

from __future__ import annotations

import numpy as np
import pytest
from cost_cases import chip, save_graph, small_profile
from onnx import TensorProto, helper, numpy_helper

from cimplan.api.partitioning import cost, estimate, partition
from cimplan.cost.build import build_problem
from cimplan.cost.problem import CIM
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor
from cimplan.hardware import from_description, parse, with_overrides
from cimplan.plan.plan import Plan
from cimplan.plan.summary import summary


def lone_product(rows=1024, inputs=1024, outputs=1024):
    """One MatMul of 4 MB in and out: float32."""
    tensors = [
        Tensor("x", "float32", (rows, inputs)),
        Tensor("w", "float32", (inputs, outputs), True),
        Tensor("y", "float32", (rows, outputs)),
    ]
    op = Operator("product", "MatMul", "", ("x", "w"), ("y",), MatrixWork(outputs, inputs, rows), weight_input="w")
    return OperatorGraph("lone", (op,), {tensor.name: tensor for tensor in tensors}, ("x", "w"), ("y",))


def test_a_lone_product_pays_for_its_input_and_its_output():
    profile = small_profile((3e7,), lone_product())
    free, charged = (
        partition(None, chip(network_io=rule, bandwidth="20.48GB/s", crossbars=10**4), profile)
        for rule in ("free", "charged")
    )
    crossing = 2 * 4 * 1024**2
    assert charged.makespan_ns - free.makespan_ns == pytest.approx(crossing / 20.48, abs=1)
    assert (free.network_io, charged.network_io) == ("free", "charged")
    assert [plan.operators[0].network_bytes for plan in (free, charged)] == [0, crossing]
    # A weight that the model lists as an input is none.
    assert "w" in lone_product().inputs


def test_at_the_bandwidths_of_the_paper_a_speed_up_of_6_3_becomes_about_3_2():
    accelerator = {"mvm_latency": "50ns", "internal_bandwidth": "20.48GB/s", "rows": 256, "columns": 256}
    profile = small_profile((6.3 * (1024 * 50 + 2 * 4 * 1024**2 / 20.48),), lone_product())
    plans = [
        partition(None, chip(network_io=rule, bandwidth="20.48GB/s", crossbars=100, **accelerator), profile)
        for rule in ("free", "charged")
    ]
    assert [plan.speedup for plan in plans] == [pytest.approx(6.3, rel=0.01), pytest.approx(3.3, rel=0.04)]


def test_only_what_the_network_gives_and_takes_crosses():
    network = build_problem(small_profile(), chip(network_io="charged"))
    free = build_problem(small_profile(), chip(network_io="free"))
    # conv reads the input of 192 bytes at 4 GB/s; gemm's output goes on to another operator, not to the outside.
    assert [op.network_bytes for op in network.operators] == [192, 0, 0, 0, 0]
    assert network.by_name["conv"].cim_ns == free.by_name["conv"].cim_ns + 48
    assert network.problem.names == free.problem.names
    assert network.problem.dependencies == free.problem.dependencies
    assert network.host_only_ns == free.host_only_ns


def test_a_file_that_says_nothing_is_charged_and_every_summary_says_so():
    description = chip(network_io="charged").to_description()
    del description["bus"]["network_io"]
    silent = from_description(description)
    assert silent.bus.network_io == "charged"
    plan = partition(None, silent, small_profile())
    assert plan.network_io == "charged"
    assert dict(summary(plan))["network i/o"].startswith("charged: ")
    free = partition(None, chip(), small_profile())
    assert dict(summary(free))["network i/o"].startswith("free")


def test_another_rule_is_refused_with_the_two_there_are():
    text = "schema_version: 1\nname: n\nbus:\n  bandwidth: 1GB/s\n  network_io: sometimes\n"
    with pytest.raises(Exception, match="'charged' or 'free'"):
        parse(text)


def test_overriding_the_bandwidth_keeps_the_rule():
    narrow = with_overrides(chip(network_io="free"), bus_bandwidth_gbps=1.0)
    assert narrow.bus.network_io == "free"
    assert with_overrides(narrow, network_io="charged").bus.network_io == "charged"


def test_a_plan_keeps_its_rule_in_its_file_and_is_checked(tmp_path):
    plan = partition(None, chip(network_io="charged"), small_profile())
    plan.write(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert again == plan
    assert any(operator.place == CIM and operator.network_bytes for operator in again.operators)


def test_float_weights_are_remarked_and_quantised_ones_are_not(tmp_path):
    weights = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    product = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = save_graph(tmp_path / "float.onnx", product)
    plan = partition(path, "rram-256", estimate(path))
    (remark,) = plan.remarks
    assert remark.startswith("1 operator has float32 weights, crossbars hold 8 bits")
    assert "`cimplan quantize MODEL -o INT8.onnx`" in remark
    assert ("remark", remark) in summary(plan)
    wide = with_overrides(
        cost(path, "rram-256", estimate(path)).hardware, accelerator={"weight_bits": 32, "cells_per_weight": 4}
    )
    assert partition(path, wide, estimate(path)).remarks == ()
    assert partition(None, chip(), small_profile()).remarks == ()
