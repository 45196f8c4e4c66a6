"""Static int8 quantisation through ONNX Runtime's own quantiser."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cimplan.errors import InputError
from cimplan.files import replacing
from cimplan.graph.calibration import Calibration, Sample, calibration_from, random_calibration
from cimplan.graph.external import require_external_data
from cimplan.graph.nodes import TensorType
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.read import all_tensors, read_graph
from cimplan.graph.runtime_words import runtime_words
from cimplan.graph.skim import read_skeleton

CALIBRATION_KEY = "cimplan.calibration"
"""Key of the model's metadata that says where the ranges come from."""

_LARGEST_BYTES = 2_000_000_000
_ONE_PIECE_BYTES = 1_500_000_000
_NO_SHAPES: Mapping[str, tuple[int, ...]] = {}


def quantise(
    source: Path,
    target: Path,
    *,
    calibration: Path | None = None,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
) -> Calibration:
    """Quantise a float network to 8 bits: unsigned activations, signed weights, one scale per tensor, QDQ form.

    Batch normalisations are folded into their convolutions first, as ONNX Runtime's own pre-processing does.
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

    Returns
    -------
    Calibration
        The samples and their origin.

    Raises
    ------
    InputError
        If the model cannot be read, is quantised already, leaves a shape open or is too large, or if the
        calibration data do not fit it.
    """
    graph = read_graph(source, shapes=shapes)
    _check_source(graph, source)
    require_external_data(all_tensors(read_skeleton(source).graph), source)
    if target.exists() and target.samefile(source):
        raise InputError("would overwrite the float model", where=str(target), fix="Choose another output file")
    inputs = {name: TensorType(graph.tensors[name].dtype, graph.tensors[name].shape) for name in graph.inputs}
    data = calibration_from(calibration, inputs) if calibration is not None else random_calibration(inputs, seed)
    large = _weight_bytes(graph) > _ONE_PIECE_BYTES
    fold = not large and any(operator.op_type == "BatchNormalization" for operator in graph.operators)
    with replacing(target) as temporary:
        _run(source, temporary, data, large=large, fold=fold)
    return data


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
            "holds nothing to quantise", where=str(source), why="it has no convolution and no matrix product"
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
        return dict(sample) if sample is not None else None

    def rewind(self) -> None:
        """Start again."""
        self._next = iter(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self._samples)


def _run(source: Path, target: Path, data: Calibration, *, large: bool, fold: bool) -> None:
    """Quantise into `target`, which exists and is the caller's to remove.

    The quantiser leaves files beside its input while it works, so it is given the model in a folder of its own.
    """
    import onnx
    from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped, unused-ignore]
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    CalibrationDataReader.register(_Samples)
    refusals = (
        *(state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NotImplemented),
        *(state.RuntimeException, state.NoSuchFile, DecodeError, EncodeError, onnx.checker.ValidationError),
        *(onnx.shape_inference.InferenceError, ArithmeticError, AttributeError, LookupError),
        *(NotImplementedError, OSError, RuntimeError, TypeError, ValueError),
    )
    try:
        with _quiet(), tempfile.TemporaryDirectory(prefix="cimplan-") as folder:
            written = Path(folder) / "quantised.onnx"
            inside = _in_folder(source, Path(folder))
            quantize_static(
                _folded(inside) if fold else inside,
                written,
                _Samples(data.samples),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                use_external_data_format=large,
            )
            model = onnx.load(written)
            entry = model.metadata_props.add()
            entry.key, entry.value = CALIBRATION_KEY, data.origin
            onnx.save(model, target)
    except refusals as error:
        raise InputError(
            "ONNX Runtime cannot quantise the model",
            where=str(source),
            why=f"it says: {runtime_words(error)}",
            fix="Check that ONNX Runtime runs the model",
        ) from error


def _in_folder(source: Path, folder: Path) -> Path:
    """Return a path in a folder under which the model, with its external data, can be read."""
    import onnx

    inside = folder / "model.onnx"
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in read_skeleton(source).graph.initializer):
        onnx.save(onnx.load(source), inside, save_as_external_data=True, location="weights")
        return inside
    try:
        inside.symlink_to(source.resolve())
    except OSError:  # file systems without links
        shutil.copyfile(source, inside)
    return inside


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
