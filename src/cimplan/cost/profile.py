"""Measuring what a network costs on this host, operator by operator, with ONNX Runtime.

What is profiled is the graph that is planned: ONNX Runtime optimises the model once and saves the result, and that
graph is then run without further optimisation, so that names match one to one. Runs come in blocks that take turns
between three sessions (profiled, unprofiled, original), so that a disturbance of the machine hits all alike; the first
run of a block is dropped, as its caches are cold. The profiler counts whole microseconds, rounded down, and slows the
network: half a microsecond is added to each time, an operator's estimate is the mean of the middle half of its runs,
and all are scaled by one factor, the wall time of unprofiled runs over the sum of profiled ones, both as the mean of
their fastest quarter. Medians would do on a quiet machine; on a busy one whole runs are interrupted, most of them, and
the fastest quarter is what the network itself takes.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from cimplan.cost.naming import make_json_safe, with_stable_names
from cimplan.cost.profile_file import (
    HostProfile,
    MachineRecord,
    Measurement,
    ModelRecord,
    Spread,
    Timing,
    load,
    record_of,
)
from cimplan.errors import InputError, InternalError
from cimplan.files import sha256_of
from cimplan.graph.operators import OperatorGraph

if TYPE_CHECKING:
    import onnxruntime as ort

    from cimplan.cost.host import Feed, Node

Progress = Callable[[int, int], None]
"""Called with the runs done and the runs in all."""

_BLOCK_RUNS = 5
_WARM_UP_RUNS = 2
_LEAST_RUNS = 5
_MOST_RUNS = 400
TIME_BUDGET_S = 10.0
"""Rough time of a measurement unless told otherwise."""

_MOST_EVENTS = 60_000
_MOST_THREADS = 1024
_EXTERNAL_FROM_BYTES = 2**30
_BUSY_RATIO = 1.25


def measure(
    path: Path,
    *,
    threads: int = 1,
    runs: int | None = None,
    time_budget_s: float = TIME_BUDGET_S,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    progress: Progress | None = None,
) -> HostProfile:
    """Measure a model on this machine.

    Parameters
    ----------
    path : Path
        An ONNX model file; it is only read.
    threads : int
        Threads an operator may use.
    runs : int, optional
        Runs that count for each figure; by default as many as fit `time_budget_s`, between 5 and 400.
    time_budget_s : float
        Rough time for all runs together.
    seed : int
        Of the random inputs.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    progress : callable, optional
        Called now and then with runs done and runs in all.

    Returns
    -------
    HostProfile
        With origin "measured".

    Raises
    ------
    InputError
        If the model cannot be read or run here, or an input's shape is not known.
    """
    if not 1 <= threads <= _MOST_THREADS or (runs is not None and runs < 1):
        raise InputError(f"threads must be from 1 to {_MOST_THREADS}, and runs at least 1")
    from cimplan.cost import host

    given = dict(shapes or {})
    with tempfile.TemporaryDirectory(prefix="cimplan-profile-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        prepared = _prepare(path, folder, threads, given, seed)
        plain = host.open_session(prepared.saved, threads=threads, optimise=False)
        profiled = host.open_session(prepared.saved, threads=threads, optimise=False, profile_to=folder / "profile")
        # One run of each, not counted, tells how many fit the time.
        estimate_ns = sum(host.timed_run(session, prepared.feed) for session in (plain, profiled, prepared.original))
        count = runs or _runs_that_fit(time_budget_s, estimate_ns, len(prepared.nodes))
        walls: tuple[list[float], list[float]] = ([], [])
        counted: set[int] = set()
        done = 1  # the profiled session has run once
        while len(counted) < count:
            block = min(_BLOCK_RUNS, count - len(counted))
            for sink, session in zip(walls, (plain, prepared.original), strict=True):
                times = [host.timed_run(session, prepared.feed) for _ in range(block + _drops(len(counted)))]
                sink.extend(times[-block:])
            for _ in range(block + _drops(len(counted))):
                profiled.run(None, prepared.feed)
                done += 1
            counted.update(range(done - block, done))
            if progress is not None:
                progress(len(counted), count)
        events = Path(profiled.end_profiling())
        recorded = host.read_kernel_times(events, prepared.nodes, counted.__contains__)
        graph = _read_graph(prepared.saved, recorded.tensors, given, path)
        raw_ns = _times_of_operators(graph, prepared.nodes, recorded.by_node, path.name)
        return _profile(
            path,
            graph,
            raw_ns,
            _machine(threads),
            walls,
            seed=seed,
            filling=prepared.filling,
            dropped=done - len(counted),
        )


def cached_or_measure(
    path: Path,
    *,
    threads: int = 1,
    time_budget_s: float = TIME_BUDGET_S,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    progress: Progress | None = None,
) -> HostProfile:
    """Return the profile of a model on this machine, measured once and kept in the cache.

    The key is the model's content, the shapes, threads, time budget, processor and versions; a cached file that no
    longer reads is measured again. Arguments as for `measure`.

    Raises
    ------
    InputError
        As `measure`.
    """
    from cimplan.cache import cached_file
    from cimplan.cost import host

    model_hash = _hash(path)
    given = ",".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in sorted((shapes or {}).items()))
    versions = [f"{package}={package_version(package)}" for package in ("onnxruntime", "cimplan")]
    effort = (f"threads={threads}", f"budget={time_budget_s:g}s")
    key = "|".join((path.stem, "profile", model_hash, given, *effort, host.cpu_name(), platform.machine(), *versions))

    def make(target: Path) -> None:
        profile = measure(path, threads=threads, time_budget_s=time_budget_s, shapes=shapes, progress=progress)
        target.write_text(profile.to_json(), encoding="utf-8")

    cached = cached_file(key, ".json", make)
    try:
        return load(cached)
    except InputError:
        cached.unlink(missing_ok=True)
        return load(cached_file(key, ".json", make))


def optimised_graph(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, save_to: Path | None = None
) -> tuple[OperatorGraph, str]:
    """Return the graph as ONNX Runtime optimises it here, and this machine's architecture.

    The model runs once, for its shapes; nothing is timed. With `save_to` the graph is also written there as ONNX:
    the same one, because ONNX Runtime may name fused nodes differently the next time.

    Raises
    ------
    InputError
        If the model cannot be read or run here, or an input's shape is not known.
    """
    from cimplan.cost import host

    with tempfile.TemporaryDirectory(prefix="cimplan-graph-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        given = dict(shapes or {})
        prepared = _prepare(path, folder, 1, given, 0)
        session = host.open_session(prepared.saved, threads=1, optimise=False, profile_to=folder / "profile")
        session.run(None, prepared.feed)
        recorded = host.read_kernel_times(Path(session.end_profiling()), prepared.nodes, lambda _: True)
        if save_to is not None:
            shutil.copyfile(prepared.saved, save_to)
        return _read_graph(prepared.saved, recorded.tensors, given, path), platform.machine()


class _Prepared:
    """The optimised graph on disk and what is needed to run it."""

    def __init__(
        self, saved: Path, original: ort.InferenceSession, nodes: list[Node], filling: str, feed: Feed
    ) -> None:
        self.saved = saved
        self.original = original
        self.nodes = nodes
        self.filling = filling
        self.feed = feed


def _prepare(path: Path, folder: Path, threads: int, shapes: Mapping[str, tuple[int, ...]], seed: int) -> _Prepared:
    from cimplan.cost import host

    size, beside = _weights(path)
    # A model that keeps weights beside itself must have all of them beside the saved graph too.
    external = beside or size >= _EXTERNAL_FROM_BYTES
    saved = folder / "optimised.onnx"
    sizes: dict[str, int] = {}
    if shapes:
        sizes = host.symbolic_sizes(host.open_session(path, threads=threads, optimise=False), shapes, str(path))
    original = host.open_session(path, threads=threads, optimise=True, save_to=saved, sizes=sizes, external=external)
    host.symbolic_sizes(original, shapes, str(path))
    filling, feed = host.working_feed(original, shapes, seed, str(path))
    if not saved.is_file():
        raise InternalError("ONNX Runtime did not save the optimised graph", where=path.name)
    nodes = _nodes(saved, set(feed))
    if not nodes:
        raise InputError(
            "there is nothing to plan",
            where=str(path),
            why="ONNX Runtime needs no operator to run it: its outputs are inputs or constants",
        )
    return _Prepared(saved, original, nodes, filling, feed)


def _nodes(saved: Path, fed: set[str]) -> list[Node]:
    """Return the nodes of the optimised graph; its inputs are made those of the model, its names fit for JSON."""
    from cimplan.cost.host import Node
    from cimplan.graph.skim import read_skeleton

    graph = read_skeleton(saved).graph
    initializers = {tensor.name for tensor in graph.initializer}
    if {value.name for value in graph.input} - initializers - fed:
        _drop_inputs(saved, initializers | fed)
    if make_json_safe(graph):
        _make_names_json_safe(saved)
    return [
        Node(node.name, node.op_type, tuple(filter(None, node.input)), tuple(filter(None, node.output)))
        for node in graph.node
    ]


def _make_names_json_safe(saved: Path) -> None:
    import onnx

    model = onnx.load(saved, load_external_data=False)
    make_json_safe(model.graph)
    onnx.save(model, saved)


def _drop_inputs(saved: Path, known: set[str]) -> None:
    """Drop inputs without a value: initializers that the model lists as inputs, which ONNX Runtime folded away."""
    import onnx

    model = onnx.load(saved, load_external_data=False)
    kept = [value for value in model.graph.input if value.name in known]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    onnx.save(model, saved)


def _read_graph(
    saved: Path,
    recorded: Mapping[str, tuple[str, tuple[int, ...]]],
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
) -> OperatorGraph:
    """Return the graph saved for a model, under the model's name also in errors."""
    from dataclasses import replace

    from cimplan.graph.read import read_graph

    graph = read_graph(saved, shapes=shapes, recorded=recorded, where=f"{path}, as ONNX Runtime optimises it")
    return with_stable_names(replace(graph, name=path.stem))


def _times_of_operators(
    graph: OperatorGraph, nodes: list[Node], by_node: Mapping[int, list[float]], where: str
) -> dict[str, list[float]]:
    """Return the raw times of each operator in nanoseconds; operators and nodes are matched by what they make."""
    index_of = {node.outputs[0]: index for index, node in enumerate(nodes) if node.outputs}
    found: dict[str, list[float]] = {}
    for op in graph.operators:
        index = index_of.get(op.outputs[0]) if op.outputs else None
        if index is None:
            raise InternalError("an operator is not in the graph that was profiled", where=f"{where}, {op.name!r}")
        found[op.name] = by_node[index]
    return found


def _profile(
    path: Path,
    graph: OperatorGraph,
    raw_ns: Mapping[str, list[float]],
    machine: MachineRecord,
    walls: tuple[list[float], list[float]],
    *,
    seed: int,
    filling: str,
    dropped: int,
) -> HostProfile:
    from cimplan.cost.host import PROFILER_RESOLUTION_NS

    half = PROFILER_RESOLUTION_NS / 2
    estimates: dict[str, float] = {}
    for op in graph.operators:
        free = op.view and max(raw_ns[op.name]) < PROFILER_RESOLUTION_NS
        estimates[op.name] = 0.0 if free else midmean(raw_ns[op.name]) + half
    timed = [raw_ns[name] for name, estimate in estimates.items() if estimate]
    unprofiled, original = (spread(times) for times in walls)
    # A network of free views only has nothing to scale.
    profiled = spread([sum(run) + half * len(run) for run in zip(*timed, strict=True)]) if timed else unprofiled
    scale = unprofiled.fastest_quarter_ns / profiled.fastest_quarter_ns
    notes = [
        "the profiler counts whole microseconds, rounded down, so half of one was added to each time; "
        f"profiling changes times, so all were multiplied by {scale:.4g} = unprofiled / profiled wall time"
    ]
    if unprofiled.upper_quartile_ns > _BUSY_RATIO * unprofiled.lower_quartile_ns:
        notes.append(
            "the machine was busy: a quarter of the runs took more than "
            f"{unprofiled.upper_quartile_ns / unprofiled.lower_quartile_ns:.2f} times what the fastest quarter took"
        )
    if filling != "random":
        notes.append(f"the model refused random inputs and was fed with {filling}")
    return HostProfile.model_validate(
        {
            "schema_version": 1,
            "cimplan_version": package_version("cimplan"),
            "origin": "measured",
            "model": model_record(path),
            "machine": machine,
            "measurement": Measurement(
                runs=unprofiled.runs,
                dropped_runs=dropped,
                seed=seed,
                inputs=filling,  # type: ignore[arg-type]
                profiled=profiled,
                unprofiled=unprofiled,
                original=original,
                scale=scale,
                resolution_ns=PROFILER_RESOLUTION_NS,
            ),
            "notes": tuple(notes),
            "graph": record_of(graph),
            "times": {
                name: Timing(
                    host_ns=estimate * scale,
                    kind="measured" if estimate else "free (view)",
                    raw=spread(raw_ns[name]),
                )
                for name, estimate in estimates.items()
            },
        }
    )


def model_record(path: Path) -> ModelRecord:
    """Return which file a model is."""
    return ModelRecord(name=path.name, sha256=_hash(path), size_bytes=path.stat().st_size)


def midmean(times: list[float]) -> float:
    """Return the mean of the middle half: as robust as the median, and finer than the clock's resolution."""
    ordered = sorted(times)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def fastest_quarter(times: list[float]) -> float:
    """Return the mean of the fastest quarter: what remains when other work interrupts most runs."""
    fastest = sorted(times)[: -(-len(times) // 4)]
    return sum(fastest) / len(fastest)


def spread(times: list[float]) -> Spread:
    """Return how times lie over the runs."""
    lower, _, upper = quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return Spread(
        runs=len(times),
        median_ns=median(times),
        lower_quartile_ns=lower,
        upper_quartile_ns=upper,
        least_ns=min(times),
        fastest_quarter_ns=fastest_quarter(times),
        most_ns=max(times),
    )


def _runs_that_fit(time_budget_s: float, round_ns: float, nodes: int) -> int:
    by_time = time_budget_s * 1e9 / max(round_ns, 1.0) * _BLOCK_RUNS / (_BLOCK_RUNS + 1)
    return max(_LEAST_RUNS, min(int(by_time), _MOST_RUNS, _MOST_EVENTS // max(nodes, 1)))


def _drops(counted: int) -> int:
    """Return how many runs to drop at the start of a block: the first block warms up the session."""
    return _WARM_UP_RUNS if counted == 0 else 1


def _machine(threads: int) -> MachineRecord:
    from cimplan.cost.host import cpu_name

    return MachineRecord(
        cpu=cpu_name(),
        architecture=platform.machine(),
        system=platform.system(),
        threads=threads,
        onnxruntime=package_version("onnxruntime"),
        onnx=package_version("onnx"),
        numpy=package_version("numpy"),
        python=platform.python_version(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def package_version(package: str) -> str:
    """Return the version of an installed package, empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise InputError("cannot read the model", where=str(path), why=str(error.strerror)) from error


def _weights(path: Path) -> tuple[int, bool]:
    """Check a model before ONNX Runtime opens it; return its size with external data, and whether it has such data.

    ONNX Runtime would open any file a model names as external data; the check keeps that to the model's folder.
    """
    from cimplan.graph.external import require_external_data
    from cimplan.graph.read import all_tensors
    from cimplan.graph.skim import read_skeleton

    beside = require_external_data(all_tensors(read_skeleton(path).graph), path)
    return path.stat().st_size + sum(data.stat().st_size for data in beside), bool(beside)


__all__ = [
    "HostProfile",
    "Progress",
    "cached_or_measure",
    "fastest_quarter",
    "load",
    "measure",
    "midmean",
    "model_record",
    "optimised_graph",
    "package_version",
    "spread",
]
