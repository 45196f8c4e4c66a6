"""A network as ONNX Runtime runs it on this machine: opened, fed, optimised, and its nodes given names of ours.

ONNX Runtime optimises the model once and saves the result, and that graph is what is profiled and planned. Its nodes
get names of ours first, those inside bodies too, so that an event of the profiler belongs to one node for sure.

Beside the standard library only numpy and ONNX Runtime are needed: the program that `cimplan profile --script` writes
holds this module.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from cimplan.errors import InputError, InternalError
from cimplan.graph.runtime_words import runtime_words
from cimplan.graph.wire import Editor, MalformedError, Node, nodes_of, weights_moved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Feed = dict[str, NDArray[Any]]

ORT_ERRORS: tuple[type[Exception], ...] = (
    *(
        getattr(ort_state, name)
        for name in (
            "EPFail",
            "EngineError",
            "Fail",
            "InvalidArgument",
            "InvalidGraph",
            "InvalidProtobuf",
            "ModelLoaded",
            "NoModel",
            "NoSuchFile",
            "NotImplemented",
            "RuntimeException",
        )
        if hasattr(ort_state, name)
    ),
    # Where the message quotes a name that is no text.
    UnicodeDecodeError,
)
"""ONNX Runtime's errors, which have no common base."""

_FIX = "Check the file with onnx.checker.check_model, or export the model again"
_ONLY_ERRORS = 3
_ELEMENTS_LIMIT = 2**28
"""Of one input: two gigabytes while random numbers are made for it."""

_RANK_LIMIT = 64
"""Of an array of numpy."""

_LARGE_BYTES = 1 << 25
"""Size of a model from which on its weights are laid beside it, where sessions share them."""

_LEAST_MOVED_BYTES = 1 << 16
_KEPT_INSIDE_BYTES = "1024"
"""Tensors up to this size stay in the graph file when weights are saved beside it: shapes are computed from them."""

_NUMPY_OF_TYPE: Mapping[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32,
    "tensor(uint32)": np.uint32,
    "tensor(int64)": np.int64,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}


@dataclass
class Prepared:
    """The optimised graph on disk and what is needed to run it.

    Attributes
    ----------
    saved, renamed : Path
        The optimised graph with its own names, and with names of ours.
    original : InferenceSession or None
        The model as it is; a caller that is done with it may let it go.
    nodes : list of Node
        Nodes of the optimised graph.
    filling : str
        What the feed is made of.
    feed : dict of str to array
        The inputs.
    opening_ns : float
        How long ONNX Runtime takes to open the model.
    """

    saved: Path
    renamed: Path
    original: Any
    nodes: list[Node]
    filling: str
    feed: Feed
    opening_ns: float


def open_session(
    path: Path,
    *,
    threads: int,
    optimise: bool,
    save_to: Path | None = None,
    profile_to: Path | None = None,
    sizes: Mapping[str, int] | None = None,
    external: bool = False,
    level: str = "",
    where: str = "",
) -> ort.InferenceSession:
    """Open a model for the CPU.

    Parameters
    ----------
    path : Path
        The model file.
    threads : int
        Threads within an operator; operators run one after another.
    optimise : bool
        With all of ONNX Runtime's optimisations, layout included, or with none.
    save_to : Path, optional
        Where to save the graph that runs.
    profile_to : Path, optional
        Turns the profiler on; the start of its file's name.
    sizes : mapping of str to int, optional
        Sizes of symbolic dimensions.
    external : bool
        Whether to save weights beside the graph, which a graph above 2 GB needs.
    level : str, optional
        Name of ONNX Runtime's level of optimisation, in place of `optimise`.
    where : str
        What errors call the model; its path if left out.

    Raises
    ------
    InputError
        With ONNX Runtime's reason, if it cannot load the model.
    """
    options = ort.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS + 1
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    level = level or ("ORT_ENABLE_ALL" if optimise else "ORT_DISABLE_ALL")
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    for name, size in (sizes or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    if save_to is not None:
        options.optimized_model_filepath = str(save_to)
        if external:
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", f"{save_to.name}.data"
            )
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_min_size_in_bytes", _KEPT_INSIDE_BYTES
            )
    if profile_to is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile_to)
    ort.set_default_logger_severity(_ONLY_ERRORS)
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS as error:
        raise InputError(
            "ONNX Runtime cannot load the model on this machine",
            where=where or str(path),
            why=f"it says: {runtime_words(error)}",
            fix=_FIX,
        ) from error


def make_feed(
    session: ort.InferenceSession,
    shapes: Mapping[str, tuple[int, ...]],
    filling: str,
    seed: int,
    where: str,
    values: Feed | None = None,
) -> Feed:
    """Return inputs of the right type and shape; whole numbers wider than a byte stay 0 or 1, as they may be indices.

    `where` names the model in errors; `values` holds inputs that are not made but given.

    Raises
    ------
    InputError
        If an input is not a numeric tensor or has too many elements.
    """
    random = np.random.default_rng(seed)
    feed: Feed = {}
    for value in session.get_inputs():
        if values and value.name in values:
            feed[value.name] = values[value.name]
            continue
        dtype = _NUMPY_OF_TYPE.get(value.type)
        if dtype is None:
            raise InputError(
                f"cannot make an input of type {value.type}",
                where=f"{where}: input {value.name!r}",
                why="it is not numeric",
                fix="Export the model with numeric inputs",
            )
        shape = shapes.get(value.name, tuple(value.shape))
        if np.prod(shape, dtype=float) > _ELEMENTS_LIMIT or len(shape) > _RANK_LIMIT:
            raise InputError(
                f"the input of shape {list(shape)} is too large",
                where=f"{where}: input {value.name!r}",
                why=f"inputs are made of at most {_ELEMENTS_LIMIT:,} elements in {_RANK_LIMIT} dimensions",
                fix="Give a smaller shape with --shape",
            )
        kind = np.dtype(dtype)
        if filling != "random":
            feed[value.name] = np.full(shape, filling == "ones", dtype=kind)
        elif kind.kind == "f":
            feed[value.name] = random.random(shape).astype(kind)
        elif kind.itemsize == 1 and kind.kind in "iu":
            limits = np.iinfo(kind)
            feed[value.name] = random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
        else:
            feed[value.name] = random.integers(0, 2, shape).astype(kind)
    return feed


def runner(session: ort.InferenceSession, feed: Feed) -> Callable[[], object]:
    """Return what runs a network once; its outputs are not looked at, and may be of types that numpy lacks."""
    outputs = session.get_outputs()
    if all(value.type in _NUMPY_OF_TYPE or not value.type.startswith("tensor(") for value in outputs):
        return lambda: session.run(None, feed)
    # bfloat16, float8, int4: ONNX Runtime cannot turn them into arrays.
    names = [value.name for value in outputs]
    given = {name: ort.OrtValue.ortvalue_from_numpy(value) for name, value in feed.items()}
    return lambda: session.run_with_ort_values(names, given)


def working_feed(
    session: ort.InferenceSession,
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    where: str,
    values: Feed | None = None,
) -> tuple[str, Feed]:
    """Return inputs the model accepts: random ones, else zeros, else ones.

    Raises
    ------
    InputError
        With the node and ONNX Runtime's reason for refusing the random ones.
    """
    first: Exception | None = None
    for filling in ("random", "zeros", "ones"):
        feed = make_feed(session, shapes, filling, seed, where, values)
        try:
            runner(session, feed)()
        except ORT_ERRORS as error:
            first = first or error
        else:
            return filling, feed
    reason = runtime_words(first) if first else ""
    raise InputError(
        "the model fails on this machine",
        where=where,
        why=f"ONNX Runtime says: {reason}",
        fix="If it depends on the values of its inputs, give them with --value NAME=VALUE; else check the sizes given, "
        "or export the model again",
    ) from first


def prepare(
    path: Path,
    folder: Path,
    *,
    threads: int,
    shapes: Mapping[str, tuple[int, ...]],
    sizes: Mapping[str, int],
    external: bool,
    seed: int,
    verify: Callable[[ort.InferenceSession], object] | None = None,
    values: Feed | None = None,
    rewrite: Callable[[Path, Feed], object] | None = None,
) -> Prepared:
    """Optimise a model, save the result, and find inputs it accepts.

    Parameters
    ----------
    path, folder : Path
        The model, and where to save.
    threads, sizes, external
        As in `open_session`.
    shapes : mapping of str to tuple of int
        Shapes of inputs the model leaves open.
    seed : int
        Of random inputs.
    verify : callable, optional
        Refuses a session whose inputs are not as they should be, before it runs.
    values : dict of str to array, optional
        Inputs whose value is given; the others are made.
    rewrite : callable, optional
        May write the saved graph in another way that computes the same; it is given inputs to see that.

    Raises
    ------
    InputError
        If the model cannot be loaded or run, or there is nothing to run.
    """
    saved = folder / "optimised.onnx"
    opened = path
    if not external and path.stat().st_size >= _LARGE_BYTES:
        opened, external = _with_weights_beside(path, folder), True
    began = time.perf_counter_ns()
    original = open_session(
        opened, threads=threads, optimise=True, save_to=saved, sizes=sizes, external=external, where=str(path)
    )
    opening_ns = float(time.perf_counter_ns() - began)
    if verify is not None:
        verify(original)
    filling, feed = working_feed(original, shapes, seed, str(path), values)
    if not saved.is_file():
        raise InternalError("ONNX Runtime did not save the optimised graph", where=path.name)
    edited, renamed = folder / "edited.onnx", folder / "renamed.onnx"
    try:
        # Initializers that the model lists as inputs, and that ONNX Runtime folded away, are no inputs.
        _edit(saved, edited, Editor(inputs=set(feed)))
        edited.replace(saved)
        if rewrite is not None:
            rewrite(saved, feed)
        _edit(saved, renamed, Editor(rename=True))
        with saved.open("rb") as stream:
            nodes = nodes_of(stream, saved.stat().st_size)
    except MalformedError as error:
        raise InternalError("the graph that ONNX Runtime saved is no model", where=path.name, why=str(error)) from error
    if not nodes:
        raise InputError(
            "there is nothing to plan",
            where=str(path),
            why="ONNX Runtime needs no operator to run it: its outputs are inputs or constants",
            fix="Give a model whose outputs depend on its inputs",
        )
    return Prepared(saved, renamed, original, nodes, filling, feed, opening_ns)


def _with_weights_beside(path: Path, folder: Path) -> Path:
    """Return a copy of a model whose large weights lie in a file beside it."""
    copy = folder / "model.onnx"
    data_name = "model.weights"
    try:
        with path.open("rb") as stream:
            model, data = weights_moved(
                stream, path.stat().st_size, data_name=data_name, least_bytes=_LEAST_MOVED_BYTES
            )
            for edited, target in ((model, copy), (data, folder / data_name)):
                with target.open("wb") as out:
                    for chunk in edited.chunks(stream):
                        out.write(chunk)
    except MalformedError:
        return path  # ONNX Runtime says what is wrong with it
    return copy


def _edit(source: Path, target: Path, editor: Editor) -> None:
    with source.open("rb") as stream, target.open("wb") as out:
        for chunk in editor.edit(stream, source.stat().st_size).chunks(stream):
            out.write(chunk)


def cpu_name() -> str:
    """Return what the processor calls itself, or the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines) if value.strip()}
    for key in ("model name", "Model", "Hardware", "cpu model"):
        if fields.get(key):
            return " ".join(fields[key].split())
    return platform.processor() or platform.machine() or "unknown"


def machine_values(threads: int) -> dict[str, Any]:
    """Return where, with what and when a measurement runs, as in a profile."""
    return {
        "cpu": cpu_name(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "threads": threads,
        "onnxruntime": ort.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
    }
