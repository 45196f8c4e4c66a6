"""Running a network on this machine with ONNX Runtime, and reading what its profiler says."""

from __future__ import annotations

import json
import platform
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from cimplan.errors import InputError, did_you_mean
from cimplan.graph.binding import names_a_size, unresolved_error
from cimplan.graph.runtime_words import runtime_words

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILER_RESOLUTION_NS = 1000.0

ORT_ERRORS: tuple[type[Exception], ...] = tuple(
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
)
"""ONNX Runtime's errors, which have no common base."""

_FIX = "Check the file with onnx.checker.check_model, or export the model again"
_ONLY_ERRORS = 3
_KERNEL_SUFFIX = "_kernel_time"
_ELEMENTS_LIMIT = 2**31
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
_DTYPE_OF_EVENT = {"float": "float32", "double": "float64"}

Filling = Literal["random", "zeros", "ones"]
Feed = dict[str, NDArray[Any]]


@dataclass
class KernelTimes:
    """What the profiler recorded of one session.

    Attributes
    ----------
    by_node : dict of int to list of float
        Nanoseconds of each run that counts, by the node's position in the file; 0 where a run skipped the node.
    tensors : dict of str to (dtype, shape)
        Every tensor a node read or wrote.
    """

    by_node: dict[int, list[float]] = field(default_factory=dict)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """A node of the graph file: its name, type and the tensors it names, absent ones left out."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def open_session(
    path: Path,
    *,
    threads: int,
    optimise: bool,
    save_to: Path | None = None,
    profile_to: Path | None = None,
    sizes: Mapping[str, int] | None = None,
    external: bool = False,
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
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    for name, size in (sizes or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    if save_to is not None:
        options.optimized_model_filepath = str(save_to)
        if external:
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", f"{save_to.name}.data"
            )
            options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "0")
    if profile_to is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile_to)
    ort.set_default_logger_severity(_ONLY_ERRORS)
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS as error:
        raise InputError(
            "ONNX Runtime cannot load the model on this machine",
            where=str(path),
            why=f"it says: {runtime_words(error)}",
            fix=_FIX,
        ) from error


def symbolic_sizes(session: ort.InferenceSession, shapes: Mapping[str, tuple[int, ...]], where: str) -> dict[str, int]:
    """Return the sizes that given input shapes mean for the model's symbolic dimensions; `where` names it in errors.

    Raises
    ------
    InputError
        If a shape names no input, does not fit it, leaves a dimension open, or two shapes disagree.
    """
    inputs = {value.name: value for value in session.get_inputs()}
    for name in shapes:
        if name not in inputs:
            raise InputError(f"the model has no input {name!r}", where=where, fix=did_you_mean(name, inputs))
    sizes: dict[str, int] = {}
    unresolved = []
    for name, value in inputs.items():
        given = shapes.get(name)
        declared = tuple(size if isinstance(size, int) or names_a_size(size) else None for size in value.shape)
        if given is not None and len(given) != len(declared):
            raise InputError(
                f"the shape {list(given)} does not fit",
                where=f"{where}: input {name!r}",
                why=f"the model declares {value.shape}",
            )
        for position, size in enumerate(declared):
            if isinstance(size, int):
                if given is not None and given[position] != size:
                    raise InputError(
                        f"the shape {list(given)} does not fit",
                        where=f"{where}: input {name!r}",
                        why=f"the model declares {value.shape}",
                    )
                continue
            if given is None:
                unresolved.append((name, declared, [part if isinstance(part, int) else None for part in declared]))
                break
            if size and sizes.setdefault(size, given[position]) != given[position]:
                raise InputError(
                    f"the dimension {size!r} is given as {sizes[size]} and as {given[position]}",
                    where=f"{where}: input {name!r}",
                )
    if unresolved:
        raise unresolved_error(unresolved, where)
    return sizes


def make_feed(
    session: ort.InferenceSession, shapes: Mapping[str, tuple[int, ...]], filling: Filling, seed: int, where: str
) -> Feed:
    """Return inputs of the right type and shape; whole numbers wider than a byte stay 0 or 1, as they may be indices.

    `where` names the model in errors.

    Raises
    ------
    InputError
        If an input is not a numeric tensor or has too many elements.
    """
    random = np.random.default_rng(seed)
    feed: Feed = {}
    for value in session.get_inputs():
        dtype = _NUMPY_OF_TYPE.get(value.type)
        if dtype is None:
            raise InputError(
                f"cannot make an input of type {value.type}",
                where=f"{where}: input {value.name!r}",
                why="it is not numeric",
            )
        shape = shapes.get(value.name, tuple(value.shape))
        if np.prod(shape, dtype=float) > _ELEMENTS_LIMIT:
            raise InputError(f"the input of shape {list(shape)} is too large", where=f"{where}: input {value.name!r}")
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


def working_feed(
    session: ort.InferenceSession, shapes: Mapping[str, tuple[int, ...]], seed: int, where: str
) -> tuple[Filling, Feed]:
    """Return inputs the model accepts: random ones, else zeros, else ones.

    Raises
    ------
    InputError
        With the node and ONNX Runtime's reason for refusing the random ones.
    """
    first: Exception | None = None
    fillings: tuple[Filling, ...] = ("random", "zeros", "ones")
    for filling in fillings:
        feed = make_feed(session, shapes, filling, seed, where)
        try:
            session.run(None, feed)
        except ORT_ERRORS as error:
            first = first or error
        else:
            return filling, feed
    reason = runtime_words(first) if first else ""
    raise InputError(
        "the model fails on this machine", where=where, why=f"ONNX Runtime says: {reason}", fix=_FIX
    ) from first


def timed_run(session: ort.InferenceSession, feed: Feed) -> float:
    """Run once and return the wall time in nanoseconds."""
    start = time.perf_counter_ns()
    session.run(None, feed)
    return float(time.perf_counter_ns() - start)


def read_kernel_times(path: Path, nodes: list[Node], counts: Callable[[int], bool]) -> KernelTimes:
    """Read the profiler's file.

    Parameters
    ----------
    path : Path
        The file ONNX Runtime wrote.
    nodes : list of Node
        The nodes of the graph file, in its order.
    counts : callable
        Tells of a run, numbered from 0, whether its times count.
    """
    events = json.loads(path.read_text(encoding="utf-8"))
    starts = sorted(event["ts"] for event in events if event["name"] == "model_run")
    kept = [run for run in range(len(starts)) if counts(run)]
    column = {run: index for index, run in enumerate(kept)}
    found = KernelTimes({index: [0.0] * len(kept) for index in range(len(nodes))})
    for index, event in _kernel_events(events, nodes):
        arguments = event["args"]
        node = nodes[index]
        for names, shapes in ((node.inputs, "input_type_shape"), (node.outputs, "output_type_shape")):
            described = arguments.get(shapes, [])
            if len(described) == len(names):
                for name, described_one in zip(names, described, strict=True):
                    found.tensors.setdefault(name, _type_and_shape(described_one))
        run = column.get(bisect_right(starts, event["ts"]) - 1)
        if run is not None:
            found.by_node[index][run] += event["dur"] * 1000.0
    return found


def _kernel_events(events: list[dict[str, Any]], nodes: list[Node]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the events of the graph's own nodes; those of subgraphs are inside the node that holds them."""
    position = {node.name: index for index, node in enumerate(nodes) if node.name}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(_KERNEL_SUFFIX):
            continue
        name = event["name"].removesuffix(_KERNEL_SUFFIX)
        op_type = event["args"].get("op_name", "")
        index = position.get(name)
        if index is None and name == f"{op_type}_{event['args'].get('node_index')}":
            # ONNX Runtime calls a node without a name by its type and its position in the file.
            index = int(event["args"]["node_index"])
            if index >= len(nodes) or nodes[index].name:
                continue
        if index is not None and nodes[index].op_type == op_type:
            yield index, event


def _type_and_shape(described: dict[str, list[int]]) -> tuple[str, tuple[int, ...]]:
    kind, shape = next(iter(described.items()))
    return _DTYPE_OF_EVENT.get(kind, kind), tuple(shape)


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
