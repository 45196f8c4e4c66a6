"""Static int8 quantisation through ONNX Runtime's own quantiser, whose work is checked before the file appears."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cimplan.errors import InputError
from cimplan.files import replacing, scratch_folder
from cimplan.graph.calibration import Calibration, Sample, calibration_from, random_calibration
from cimplan.graph.external import require_external_data
from cimplan.graph.nodes import TensorType, dtype_code
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.quantisable import (
    PASSING,
    WIDENED,
    Placeholders,
    brought_into_form,
    is_mask,
    named,
    needs_folding,
    not_finite,
    separated,
)
from cimplan.graph.quantised import (
    Fidelity,
    KeptFloat,
    Weighted,
    compare,
    in_bodies,
    no_8_bit_form,
    weighted_operators,
    without_8_bit_weights,
)
from cimplan.graph.read import RANDOM, all_tensors, graph_from_model, read_graph
from cimplan.graph.runtime_words import runtime_words
from cimplan.graph.skim import read_skeleton

if TYPE_CHECKING:
    import onnx

CALIBRATION_KEY = "cimplan.calibration"
"""Key of the model's metadata that says where the ranges come from."""

REVISION: Final = 2
"""Counts the changes after which the same network gives another file."""

_LARGEST_BYTES = 2_000_000_000
_ONE_PIECE_BYTES = 1_500_000_000
_NO_SHAPES: Mapping[str, tuple[int, ...]] = {}
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Quantisation:
    """A quantised model, as checked.

    Attributes
    ----------
    calibration : Calibration
        The samples and their origin.
    outputs : tuple of Fidelity
        How near every output comes to the float model's on the calibration data.
    quantised : int
        Operators whose weights are stored in 8 bits.
    kept_float : tuple of KeptFloat
        Operators with constant weights of which there is no 8-bit form, each with the reason.
    """

    calibration: Calibration
    outputs: tuple[Fidelity, ...]
    quantised: int
    kept_float: tuple[KeptFloat, ...] = ()


def quantise(
    source: Path,
    target: Path,
    *,
    calibration: Path | None = None,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Sample | None = None,
) -> Quantisation:
    """Quantise a float network to 8 bits: unsigned activations, signed weights, one scale per tensor, QDQ form.

    A copy is brought into the form that the quantiser reads first (`cimplan.graph.quantisable`), and batch
    normalisations are folded into their convolutions, as ONNX Runtime's own pre-processing does. Before the file
    appears, ONNX Runtime has loaded it, every operator with constant weights has them as 8-bit initializers or stands
    in a list with the reason, and its outputs are compared with those of the float model.

    The same input gives the same file. The source is not changed; the target is written whole or not at all.

    Parameters
    ----------
    source, target : Path
        The float model, and the file to write.
    calibration : Path, optional
        A folder of samples (`calibration_from`). Without it the ranges come from seeded random data, which is fine
        for timing and planning and useless for accuracy; the target's metadata say so under `CALIBRATION_KEY`.
    seed : int
        Seed of the random data.
    shapes : mapping of str to tuple of int
        Shapes of inputs the model leaves open, for calibration only: the target leaves them open too.
    values : mapping of str to array, optional
        Inputs whose value matters, for calibration with random data.

    Returns
    -------
    Quantisation
        The samples and their origin, and what the checks found.

    Raises
    ------
    InputError
        If the model cannot be read, is quantised already, leaves a shape open or is too large; if the calibration
        data do not fit it; if a weight is not finite; or if a check fails.
    """
    values = values or {}
    graph = read_graph(source, shapes=shapes, values=values)
    _check_source(graph, source)
    require_external_data(all_tensors(read_skeleton(source).graph), source)
    if target.exists() and target.samefile(source):
        raise InputError("would overwrite the float model", where=str(target), fix="Choose another output file")
    inputs = {name: TensorType(graph.tensors[name].dtype, graph.tensors[name].shape) for name in graph.inputs}
    data = (
        calibration_from(calibration, inputs)
        if calibration is not None
        else random_calibration(inputs, seed, values=values)
    )
    with replacing(target) as temporary:
        return _run(source, temporary, data, shapes, values, large=_weight_bytes(graph) > _ONE_PIECE_BYTES)


def _check_source(graph: OperatorGraph, source: Path) -> None:
    """Refuse models that are quantised already or too large for ONNX Runtime's quantiser."""
    for operator in graph.operators:
        if _is_quantised(operator.op_type):
            raise InputError(
                "is quantised already",
                where=str(source),
                why=f"the node {operator.name!r} is a {operator.op_type}",
                fix="Use it as it is, or give the float model",
            )
    if not any(operator.work for operator in graph.operators):
        raise InputError(
            "holds nothing to quantise",
            where=str(source),
            why="it has no convolution and no matrix product",
            fix="Plan it as it is",
        )
    size = _weight_bytes(graph)
    # Weights shrink four times; the quantiser writes one protobuf message, which may not exceed 2 GB.
    if size // 4 > _LARGEST_BYTES:
        raise InputError(
            f"has {size / 1e9:.1f} GB of weights, more than an ONNX file in one piece can hold at 8 bits",
            where=str(source),
            fix="Quantise it with the tool that made it",
        )


def _weight_bytes(graph: OperatorGraph) -> int:
    return sum(tensor.size_bytes for tensor in graph.tensors.values() if tensor.constant)


def _is_quantised(op_type: str) -> bool:
    return (
        op_type in ("QuantizeLinear", "DequantizeLinear", "QGemm", "QAttention")
        or op_type.startswith(("QLinear", "DynamicQuantize", "MatMulInteger", "ConvInteger"))
        or op_type in ("MatMulNBits", "MatMulBnb4")
    )


class _Samples:
    """Hands the samples to the quantiser one by one; its interface is the quantiser's."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._next: Iterator[Sample] = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample, or None after the last."""
        sample = next(self._next, None)
        return _Feed(sample) if sample is not None else None

    def rewind(self) -> None:
        """Start again."""
        self._next = iter(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self._samples)


class _Feed(dict[str, Any]):
    """A sample of a network without inputs is one, too, where the quantiser looks for the end of the data."""

    def __bool__(self) -> bool:
        return True


def _run(
    source: Path,
    target: Path,
    data: Calibration,
    shapes: Mapping[str, tuple[int, ...]],
    values: Sample,
    *,
    large: bool,
) -> Quantisation:
    """Quantise into `target`, which exists and is the caller's to remove, and check it."""
    import onnx

    # The quantiser leaves files beside its input while it works, so it is given the model in a folder of its own.
    with _quiet(), _refusals_of(source), scratch_folder("quantise") as folder:
        model, graph = _prepared(source, Path(folder), shapes, values, large=large)
        weighted = weighted_operators(model, graph)
        reasons = {item.name: no_8_bit_form(item) for item in weighted}
        kept = [KeptFloat(item.name, item.op_type, reasons[item.name]) for item in weighted if reasons[item.name]]
        kept.extend(in_bodies(model))
        wanted = [item for item in weighted if not reasons[item.name]]
        if not wanted:
            raise InputError(
                "holds nothing to quantise",
                where=str(source),
                why="; ".join(_said(kept)) or "no operator has constant weights",
                fix="Plan it as it is, or export it with its weights as constants",
            )
        excluded = _not_to_quantise(model, wanted, source)
        separated(model)
        named(model)
        places = {node.name: list(node.input) for node in model.graph.node}
        names = Placeholders(model)
        quantised = _quantised(model, Path(folder), data, names, excluded, large=large)
        float_still = without_8_bit_weights(
            quantised, {names.of_node[item.name]: places[item.name].index(item.weight) for item in wanted}
        )
        names.restore(quantised)
        if float_still:
            raise _left_in_float([item.name for item in wanted if names.of_node[item.name] in float_still], source)
        entry = quantised.metadata_props.add()
        entry.key, entry.value = CALIBRATION_KEY, data.origin
        onnx.save(quantised, target)
        random = any(operator.op_type in RANDOM for operator in graph.operators)
        outputs = compare(_runnable(source, Path(folder)), target, data.samples, random=random, where=str(source))
    return Quantisation(data, outputs, len(wanted), tuple(kept))


def _runnable(source: Path, folder: Path) -> Path:
    """Return the float model, or a copy that holds its small tensors, whose values ONNX Runtime may need to load it."""
    import onnx

    if all(tensor.data_location != onnx.TensorProto.EXTERNAL for tensor in all_tensors(read_skeleton(source).graph)):
        return source
    copy = folder / "source.onnx"
    onnx.save(onnx.load(source), copy, save_as_external_data=True, location="source.data")
    return copy


def _said(kept: Sequence[KeptFloat]) -> list[str]:
    return [f"{item.name!r}: {item.reason}" for item in kept[:_NAMES_SHOWN]]


def _left_in_float(names: Sequence[str], source: Path) -> InputError:
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    return InputError(
        "ONNX Runtime's quantiser leaves weights in float",
        where=str(source),
        why=f"{len(names)} operators with constant weights did not become 8-bit: {shown}",
        fix="Quantise the network with the tool that made it",
    )


def _prepared(
    source: Path, folder: Path, shapes: Mapping[str, tuple[int, ...]], values: Sample, *, large: bool
) -> tuple[onnx.ModelProto, OperatorGraph]:
    """Return the float model in the form that the quantiser reads, and its operators."""
    import onnx

    model = onnx.load(source)
    graph = graph_from_model(model, shapes=shapes, values=values)
    used = {graph.tensors[operator.weight_input].dtype for operator in graph.operators if operator.weight_input}
    for end in model.graph.output:
        # A model may leave the types of its outputs open; what becomes float32 inside is cast back to them.
        kind = end.type.WhichOneof("value") or "tensor_type"
        if end.name in graph.tensors and kind == "tensor_type" and not end.type.tensor_type.elem_type:
            end.type.tensor_type.elem_type = dtype_code(graph.tensors[end.name].dtype)
    model = brought_into_form(model, used & WIDENED)
    named(model)
    graph = graph_from_model(model, shapes=shapes, values=values)
    weights = [
        operator.weight_input
        for operator in graph.operators
        if operator.work and operator.work.stationary == "constant"
    ]
    if not large and needs_folding(model, weights):
        written = folder / "float.onnx"
        onnx.save(model, written)
        model = onnx.load(_folded(written))
        named(model)
        graph = graph_from_model(model, shapes=shapes, values=values)
    return model, graph


def _not_to_quantise(model: onnx.ModelProto, weighted: Sequence[Weighted], source: Path) -> set[str]:
    """Return the nodes that stay in float because no 8-bit range holds what they read, such as an attention mask.

    These read a constant that is not finite, or as large as the masks that exporters write, or what such nodes make of
    it, up to the Softmax or whatever else bounds it.

    Raises
    ------
    InputError
        If a weight, or the bias of one, is not finite.
    """
    faults = {tensor.name: fault for tensor in model.graph.initializer if (fault := not_finite(tensor))}
    for operator in weighted:
        for name in (operator.weight, *operator.others):
            if name in faults:
                raise InputError(
                    f"the weight {name!r} holds {faults[name]}",
                    where=f"{source}: node {operator.name!r}",
                    why="there is no scale for it",
                    fix="Repair or export the model again; training that diverges leaves such weights",
                )
    wide = faults.keys() | {tensor.name for tensor in model.graph.initializer if is_mask(tensor)}
    products = {operator.name for operator in weighted}
    kept: set[str] = set()
    for node in model.graph.node:  # in topological order
        if node.name not in products and any(name in wide for name in node.input):
            kept.add(node.name)
            if node.op_type in PASSING:
                wide |= set(node.output)
    return kept


def _quantised(
    model: onnx.ModelProto, folder: Path, data: Calibration, names: Placeholders, excluded: set[str], *, large: bool
) -> onnx.ModelProto:
    """Let ONNX Runtime quantise a model with placeholders for names."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    CalibrationDataReader.register(_Samples)
    inside, written = folder / "model.onnx", folder / "quantised.onnx"
    onnx.save(model, inside, save_as_external_data=large, location="weights" if large else None)
    samples = [_Feed({names.of_tensor[name]: value for name, value in sample.items()}) for sample in data.samples]
    quantize_static(
        inside,
        written,
        _Samples(samples),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=sorted(names.of_node[name] for name in excluded),
        use_external_data_format=large,
    )
    return onnx.load(written)


@contextlib.contextmanager
def _refusals_of(source: Path) -> Iterator[None]:
    """Turn what ONNX Runtime and its quantiser raise into an error of ours."""
    import onnx
    from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped, unused-ignore]
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    refusals = (
        *(state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NotImplemented),
        *(state.RuntimeException, state.NoSuchFile, state.EPFail, DecodeError, EncodeError),
        *(onnx.checker.ValidationError, onnx.shape_inference.InferenceError),
        *(ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, OSError, RuntimeError),
        *(TypeError, ValueError),
    )
    try:
        yield
    except refusals as error:
        raise InputError(
            "ONNX Runtime cannot quantise the model",
            where=str(source),
            why=f"it says: {runtime_words(error)}",
            fix="Check that ONNX Runtime runs the model",
        ) from error


def _folded(path: Path) -> Path:
    """Let ONNX Runtime fold batch normalisations; its basic level keeps to standard operators."""
    import onnxruntime

    folded = path.with_name("folded.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return folded


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the advice of the quantiser and of ONNX Runtime off the terminal."""
    import onnxruntime

    def drop(_: logging.LogRecord) -> bool:
        return False

    root = logging.getLogger()
    handlers = list(root.handlers)
    silent = logging.NullHandler()
    # With a handler in place the first warning of the quantiser does not install one that prints.
    root.addHandler(silent)
    root.addFilter(drop)
    onnxruntime.set_default_logger_severity(4)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        onnxruntime.set_default_logger_severity(2)
        root.removeFilter(drop)
        root.removeHandler(silent)
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
