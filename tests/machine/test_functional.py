"""Programs run on numbers give what ONNX Runtime gives."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.methods import METHODS
from cimplan.dualmode.options import CompileOptions
from cimplan.errors import InputError, NoAnswerError
from cimplan.graph.quantise import quantise
from cimplan.graph.read import graph_from_model
from cimplan.hardware import load
from cimplan.hardware.schema import DualModeChip
from cimplan.machine.functional import Simulation, simulate
from cimplan.program.generate import generate
from cimplan.zoo import build


def small_chip(arrays: int = 24, columns_per_weight: int = 2) -> DualModeChip:
    return DualModeChip.model_validate(
        {
            "arrays": arrays,
            "rows": 16,
            "columns": 16,
            "columns_per_weight": columns_per_weight,
            "op_per_cycle": 40.0,
            "memory_bytes_per_cycle": 4.0,
            "main_bytes_per_cycle": 8.0,
            "buffer": "1kB",
            "switch_to_compute_cycles": 1,
            "switch_to_memory_cycles": 1,
            "write_cycles": 2,
            "write_back_bytes_per_cycle": 8.0,
            "clock": "100MHz",
            "cell_bits": 8,
        }
    )


def run(
    model: onnx.ModelProto,
    chip: DualModeChip,
    *,
    method: str = "exact",
    seed: int = 0,
    split_sizes: tuple[int, ...] | None = None,
) -> Simulation:
    options = CompileOptions(method=method, split_sizes=split_sizes)
    plan = compile_graph(graph_from_model(model), chip, options, hardware="small")
    generator = np.random.default_rng(seed)
    inputs = {
        entry.name: generator.standard_normal([d.dim_value for d in entry.type.tensor_type.shape.dim]).astype("f4")
        for entry in model.graph.input
    }
    return simulate(generate(plan), chip, model, inputs)


class Net:
    """Builds small float models."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(self.rng.standard_normal(shape).astype("f4"), name))
        return name

    def add(self, op_type: str, *inputs: str, **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"{op_type}{len(self.nodes)}", **attributes))
        return name

    def model(self, inputs: dict[str, list[int]], output: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [onnx.ValueInfoProto(name=output)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


CONVOLUTIONS = [
    {"channels": 3, "filters": 5, "kernel": (3, 3), "pads": [1, 1, 1, 1]},
    {"channels": 4, "filters": 6, "kernel": (1, 5), "strides": [2, 1], "group": 2},
    {"channels": 6, "filters": 6, "kernel": (3, 3), "group": 6, "pads": [1, 0, 2, 1]},
    {"channels": 2, "filters": 3, "kernel": (3, 2), "dilations": [2, 1]},
    {"channels": 3, "filters": 4, "kernel": (4, 4), "auto_pad": "SAME_UPPER", "strides": [2, 3]},
    {"channels": 3, "filters": 4, "kernel": (4, 2), "auto_pad": "SAME_LOWER", "strides": [3, 1]},
    {"channels": 3, "filters": 2, "kernel": (3, 3), "auto_pad": "VALID"},
    {"channels": 5, "filters": 4, "kernel": (3,), "pads": [1, 1]},
    {"channels": 2, "filters": 3, "kernel": (2, 2, 2)},
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions(case):
    case = dict(case)
    channels, filters, kernel = case.pop("channels"), case.pop("filters"), case.pop("kernel")
    net = Net(1)
    shape = [2, channels, *(7,) * len(kernel)]
    weight = net.weight(filters, channels // case.get("group", 1), *kernel)
    hidden = net.add("Relu", net.add("Conv", "x", weight, net.weight(filters), **case))
    output = net.add("Conv", hidden, net.weight(3, filters, *(1,) * len(kernel)))
    assert run(net.model({"x": shape}, output), small_chip()).agrees()


@pytest.mark.parametrize(
    ("left", "right", "held"),
    [
        ([5, 7], [7, 9], "right"),
        ([2, 3, 5, 7], [7, 9], "right"),
        ([2, 3, 5, 7], [3, 7, 9], "right"),
        ([2, 1, 5, 7], [2, 1, 7, 9], "right"),
        ([4, 1, 5, 7], [3, 7, 9], "right"),
        ([5, 7], [7, 9], "left"),
        ([9, 7], [2, 3, 7, 5], "left"),
        ([3, 9, 7], [2, 1, 7, 5], "left"),
        ([7], [7, 9], "right"),
        ([3, 5, 7], [7], "right"),
        ([5, 40], [40, 33], "right"),
    ],
    ids=str,
)
def test_products_with_weights_on_either_side(left, right, held):
    net = Net(2)
    moving = left if held == "right" else right
    weight = net.weight(*(right if held == "right" else left))
    operands = ("x", weight) if held == "right" else (weight, "x")
    output = net.add("Relu", net.add("MatMul", *operands))
    assert run(net.model({"x": moving}, output), small_chip()).agrees()


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_gemm(transposed):
    net = Net(3)
    shape = [7, 5] if transposed[0] else [5, 7]
    weight = net.weight(*([9, 7] if transposed[1] else [7, 9]))
    attributes = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.5, "beta": 2.0}
    output = net.add("Gemm", "x", weight, net.weight(9), **attributes)
    assert run(net.model({"x": shape}, output), small_chip()).agrees()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_attention(method):
    """Products of two activations: the second operand is written into arrays while the program runs."""
    net = Net(4)
    query, key, value = (net.add("MatMul", "x", net.weight(2, 12, 6)) for _ in range(3))
    scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
    output = net.add("Add", net.add("MatMul", mixed, net.weight(6, 12)), "x")
    assert run(net.model({"x": [2, 8, 12]}, output), small_chip(), method=method).agrees()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(sorted(METHODS)), st.sampled_from([8, 24, 60]))
def test_random_chains(seed, method, arrays):
    rng = Random(seed)
    net = Net(seed)
    values = [("x", 12)]
    for _ in range(rng.randint(1, 6)):
        source, width = rng.choice(values[-2:])
        outputs = rng.choice([4, 12, 33])
        name = net.add("MatMul", source, net.weight(width, outputs))
        same = [other for other, size in values if size == outputs]
        if same and rng.random() < 0.5:
            name = net.add("Add", name, rng.choice(same))
        values.append((net.add("Tanh", name), outputs))
    simulation = run(net.model({"x": [rng.choice([1, 6]), 12]}, values[-1][0]), small_chip(arrays), method=method)
    assert simulation.agrees()


def test_a_reference_network_agrees_with_onnx_runtime():
    chip = load("dynaplasia").dual_mode
    simulation = run(build("mobilenet_v2"), chip, split_sizes=(32,))
    assert simulation.agrees()


def test_a_difference_is_seen():
    net = Net(5)
    simulation = run(net.model({"x": [4, 12]}, net.add("MatMul", "x", net.weight(12, 9))), small_chip())
    (name,) = simulation.outputs
    wrong = simulation.outputs[name].copy()
    wrong[3, 8] += np.abs(wrong).max() * 0.01
    assert not Simulation({name: wrong}, simulation.reference).agrees()


def _plan_of(model, chip):
    return compile_graph(graph_from_model(model), chip, CompileOptions(), hardware="small")


def test_a_program_of_another_network_is_refused():
    one, other = Net(6), Net(6)
    model = one.model({"x": [4, 12]}, one.add("MatMul", "x", one.weight(12, 9)))
    larger = other.model({"x": [4, 12]}, other.add("MatMul", "x", other.weight(12, 10)))
    program = generate(_plan_of(model, small_chip()))
    with pytest.raises(NoAnswerError, match="not one of this network"):
        simulate(program, small_chip(), larger, {"x": np.zeros((4, 12), "f4")})


def test_a_program_that_breaks_rules_is_not_run():
    net = Net(7)
    model = net.model({"x": [4, 12]}, net.add("MatMul", "x", net.weight(12, 9)))
    program = generate(_plan_of(model, small_chip()))
    with pytest.raises(NoAnswerError, match="line 4"):
        simulate(program, small_chip(arrays=23), model, {"x": np.zeros((4, 12), "f4")})


def test_missing_inputs_and_unknown_operators_are_named():
    net = Net(8)
    model = net.model({"x": [4, 12]}, net.add("MatMul", "x", net.weight(12, 9)))
    with pytest.raises(InputError, match="'x'"):
        simulate(generate(_plan_of(model, small_chip())), small_chip(), model, {})
    net = Net(9)
    model = net.model({"x": [1, 3, 4, 4]}, net.add("ConvTranspose", "x", net.weight(3, 2, 2, 2)))
    with pytest.raises(InputError, match="ConvTranspose"):
        simulate(generate(_plan_of(model, small_chip())), small_chip(), model, {"x": np.zeros((1, 3, 4, 4), "f4")})


def test_a_quantised_network(tmp_path):
    """Weights behind DequantizeLinear: a last bit may round the other way, no more."""
    net = Net(10)
    hidden = net.add("Relu", net.add("Conv", "x", net.weight(6, 3, 3, 3), net.weight(6), pads=[1, 1, 1, 1]))
    model = net.model({"x": [1, 3, 8, 8]}, net.add("Conv", hidden, net.weight(4, 6, 3, 3)))
    onnx.save(model, tmp_path / "float.onnx")
    quantise(tmp_path / "float.onnx", tmp_path / "int8.onnx")
    quantised = onnx.load(tmp_path / "int8.onnx")
    assert any(node.op_type == "DequantizeLinear" for node in quantised.graph.node)
    assert run(quantised, small_chip()).agrees(tolerance=2 / 127)
