"""What a quantised model is checked for: every weight in 8 bits, and results near those of the float model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cimplan.errors import InputError
from cimplan.graph.calibration import Sample
from cimplan.graph.nodes import domain_of, words
from cimplan.graph.quantisable import bodies

if TYPE_CHECKING:
    import onnx
    import onnxruntime as ort

    from cimplan.graph.operators import OperatorGraph

_IN_BODIES: Final = frozenset(words("Conv ConvTranspose Gemm MatMul"))
# Operators with weights that are lowered to no matrix work, or not always.
_OTHER_WEIGHTED: Final = frozenset(
    words(
        "RNN LSTM GRU Einsum DeformConv Attention MultiHeadAttention GroupQueryAttention PackedAttention "
        "LongformerAttention MoE FusedConv NhwcFusedConv FusedGemm GemmFastGelu FusedMatMul"
    )
)
_MATRIX_RANK: Final = 2
IDENTICAL: Final = "identical"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How near an output of the quantised model comes to that of the float model on the calibration data.

    Attributes
    ----------
    name : str
        The output.
    sqnr_db : float or None
        Signal-to-quantisation-noise ratio, 10·log10(Σ float² / Σ (float − quantised)²) over all samples, in decibels.
    reason : str
        Why there is no ratio: "identical" where nothing differs; empty where there is one.
    """

    name: str
    sqnr_db: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KeptFloat:
    """An operator with constant weights that stays in float.

    Attributes
    ----------
    name, op_type : str
        As in the model; of operators inside functions as they are called once expanded.
    reason : str
        Why there is no 8-bit form of it.
    """

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Weighted:
    """An operator with constant weights in a float model: its node's name, its weight, and its other constants."""

    name: str
    op_type: str
    weight: str
    dtype: str
    others: tuple[str, ...] = ()


def weighted_operators(model: onnx.ModelProto, graph: OperatorGraph) -> tuple[Weighted, ...]:
    """Return the operators of a float model's main graph that have constant weights.

    Parameters
    ----------
    model : onnx.ModelProto
        With a name of its own for every node.
    graph : OperatorGraph
        The same model as operators.
    """
    inputs = {node.name: tuple(filter(None, node.input)) for node in model.graph.node}
    found = []
    for operator in graph.operators:
        tensors = [graph.tensors[name] for name in dict.fromkeys(inputs.get(operator.name, ()))]
        constants = [item for item in tensors if item.constant]
        weight = operator.weight_input if operator.work and operator.work.stationary == "constant" else ""
        if not weight and operator.op_type in _OTHER_WEIGHTED:
            weight = next((item.name for item in constants if len(item.shape) >= _MATRIX_RANK), "")
        if weight:
            others = tuple(item.name for item in constants if item.name != weight)
            found.append(Weighted(operator.name, operator.op_type, weight, graph.tensors[weight].dtype, others))
    return tuple(found)


def in_bodies(model: onnx.ModelProto) -> Iterator[KeptFloat]:
    """Yield the operators with constant weights that stand in the bodies of control flow, which stay in float."""

    def walk(graph: onnx.GraphProto, known: frozenset[str], holder: str) -> Iterator[KeptFloat]:
        constants = known | {tensor.name for tensor in graph.initializer}
        constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
        for node in graph.node:
            if holder and node.op_type in _IN_BODIES and constants.intersection(node.input[:2]):
                yield KeptFloat(
                    node.name or node.output[0],
                    node.op_type,
                    f"it stands in the body of {holder}, which ONNX Runtime's static quantiser does not enter",
                )
            for body in bodies(node):
                yield from walk(body, constants, f"the {node.op_type} {node.name or node.output[0]!r}")

    yield from walk(model.graph, frozenset(), "")


def no_8_bit_form(operator: Weighted) -> str:
    """Return why ONNX Runtime's static quantiser has no 8-bit form of an operator; empty if it has one."""
    from onnxruntime.quantization.registry import QDQRegistry

    if operator.op_type not in QDQRegistry:
        return f"ONNX Runtime's static quantiser knows no 8-bit form of {operator.op_type}"
    if operator.dtype != "float32":
        return f"its weights are {operator.dtype}"
    return ""


def without_8_bit_weights(model: onnx.ModelProto, places: Mapping[str, int]) -> set[str]:
    """Return the nodes whose weights are no 8-bit initializers in a quantised model.

    `places` gives the position of the weight among the inputs of each node that has one.
    """
    import onnx

    stored = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    }
    dequantised = {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and domain_of(node) == "" and node.input[0] in stored
    }
    inputs = {node.name: node.input for node in model.graph.node}
    return {name for name, place in places.items() if name not in inputs or inputs[name][place] not in dequantised}


def compare(
    source: Path, quantised: Path, samples: Sequence[Sample], *, random: bool, where: str
) -> tuple[Fidelity, ...]:
    """Run both models on the same samples; what ONNX Runtime raises is the caller's to explain.

    Parameters
    ----------
    source, quantised : Path
        The float and the quantised model.
    samples : sequence of mapping of str to array
        By the names of the inputs, which both models share.
    random : bool
        Whether the float model may give something else in every run; what does is not compared.
    where : str
        The float model, for messages.

    Raises
    ------
    InputError
        If the quantised model has other outputs, or gives values that are not finite where the float model's are.
    """
    first, second = _session(source), _session(quantised)
    names = [output.name for output in first.get_outputs()]
    types = [(output.name, output.type) for output in first.get_outputs()]
    if [(output.name, output.type) for output in second.get_outputs()] != types:
        raise InputError("the quantised model has other outputs than the float one", where=where)
    signal, noise = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    reasons: dict[str, str] = {}
    for number, sample in enumerate(samples):
        expected = first.run(None, dict(sample))
        if random and number == 0:
            for name, value, again in zip(names, expected, first.run(None, dict(sample)), strict=True):
                if not np.array_equal(np.asarray(value), np.asarray(again)):
                    reasons[name] = "it differs from run to run"
        # An output that is listed twice counts once.
        pairs = {
            name: (value, other)
            for name, value, other in zip(names, expected, second.run(None, dict(sample)), strict=True)
        }
        for name, (value, other) in pairs.items():
            if name not in reasons and (reason := _difference(name, value, other, signal, noise, where)):
                reasons[name] = reason
    return tuple(_fidelity(name, signal[name], noise[name], reasons.get(name, "")) for name in dict.fromkeys(names))


def _fidelity(name: str, signal: float, noise: float, reason: str) -> Fidelity:
    if reason or noise == 0:
        return Fidelity(name, None, reason or IDENTICAL)
    if signal == 0:
        return Fidelity(name, None, "the float model gives zeros only")
    return Fidelity(name, 10 * float(np.log10(signal / noise)))


def _difference(
    name: str, value: Any, other: Any, signal: dict[str, float], noise: dict[str, float], model: str
) -> str:
    """Add the signal and the noise of one output of one sample; return why they cannot be told, if so."""
    if not (isinstance(value, np.ndarray) and isinstance(other, np.ndarray)) or value.dtype.kind not in "fiub":
        return "it is no tensor of numbers"
    if value.shape != other.shape:
        # What a network finds, such as the boxes of a detector, may differ in number.
        return "its shape depends on the data"
    wanted, given = value.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.isfinite(given[finite]).all():
        raise InputError(
            "the quantised model gives values that are not finite",
            where=f"{model}: output {name!r}",
            why="a range of the calibration, or a constant, is not finite or too wide for 8 bits",
            fix="Give calibration data that keep every tensor finite (--calibration DIR)",
        )
    wanted, given = wanted[finite], given[finite]
    signal[name] += float(np.square(wanted).sum())
    noise[name] += float(np.square(wanted - given).sum())
    return ""


def _session(path: Path) -> ort.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
