"""From a recording of runs to a host profile: the same way here and for what a board has sent.

The profiler counts whole microseconds, rounded down, and slows the network: half a microsecond is added to each time,
an operator's estimate is the mean of the middle half of its runs, and all are scaled by one factor, the wall time of
plain runs over the sum of profiled ones, both as the mean of their fastest quarter. Only runs that nothing has
disturbed count (`cimplan.cost.disturbance`), where there are enough of them.
"""

from __future__ import annotations

import base64
import binascii
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from cimplan.cost.disturbance import Block, judge
from cimplan.cost.naming import with_file_nodes, with_stable_names
from cimplan.cost.profile_file import (
    SCHEMA_VERSION,
    Count,
    HostProfile,
    MachineRecord,
    Measurement,
    ModelRecord,
    Nanoseconds,
    Record,
    Shape,
    Spread,
    Timing,
    check,
    explain,
    record_of,
)
from cimplan.errors import InputError
from cimplan.files import scratch_folder
from cimplan.graph.wire import MalformedError, Node, nodes_of

if TYPE_CHECKING:
    from cimplan.graph.operators import OperatorGraph

PROFILER_RESOLUTION_NS = 1000.0

_AGAIN = "Measure again with the program that `cimplan profile --script` writes"
_LARGEST_GRAPH_BYTES = 1 << 28


def _tuple_of(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Times = Annotated[tuple[Nanoseconds, ...], BeforeValidator(_tuple_of)]
Counts = Annotated[tuple[Count, ...], BeforeValidator(_tuple_of)]
DescribedTensor = Annotated[tuple[str, Shape], BeforeValidator(_tuple_of)]


class BlockRecord(Record):
    """Runs of one kind, one after another; see `cimplan.cost.disturbance.Block`."""

    kind: Literal["original", "profiled", "plain"]
    wall_ns: Times
    waited_ns: Times
    reference_ns: Nanoseconds


class RunsRecord(Record):
    """What was run and how long it took; see `cimplan.cost.runs.Recording`."""

    nodes: Annotated[int, Field(ge=1)]
    seed: int
    filling: Literal["random", "zeros", "ones"]
    count: Annotated[int, Field(ge=1)]
    exactly: bool
    dropped: Count
    blocks: Annotated[tuple[BlockRecord, ...], BeforeValidator(_tuple_of)]
    kernel_us: Annotated[tuple[Counts, ...], BeforeValidator(_tuple_of)]
    run_us: Counts
    tensors: dict[str, DescribedTensor]
    graph: str


class RecordingFile(Record):
    """A file of the program that measures without cimplan: what a host profile is made from.

    `file_graph` is the model's file without its weights, packed like the optimised graph; it says which of the file's
    nodes an operator stands for. It may be left out.
    """

    schema_version: Literal[1]
    cimplan_version: str
    origin: Literal["measured"]
    model: ModelRecord
    machine: MachineRecord
    shapes: dict[str, Shape] = Field(default_factory=dict)
    values: dict[str, str] = Field(default_factory=dict)
    file_graph: str = ""
    recording: RunsRecord


@dataclass(frozen=True)
class _Chosen:
    """The runs that count, and what is said of them."""

    profiled: list[int]
    plain: list[float]
    original: list[float]
    left_out: int
    reason: str


def profile_from_values(value: Any, where: str) -> HostProfile:
    """Return the host profile of a recording, given as the values of its file.

    Raises
    ------
    InputError
        If an entry is wrong or missing, or the recording contradicts itself.
    """
    try:
        found = RecordingFile.model_validate(value)
    except ValidationError as error:
        raise explain(error.errors(include_url=False)[0], value, where) from error
    return profile_of(found, where)


def profile_of(found: RecordingFile, where: str, *, known_reference_ns: float = 0.0) -> HostProfile:
    """Return the host profile of a recording.

    Parameters
    ----------
    found : RecordingFile
        What was recorded.
    where : str
        Names it in errors.
    known_reference_ns : float
        Best time of the reference loop known from earlier on the same machine, 0 if none is.

    Raises
    ------
    InputError
        If the recording contradicts itself, or its graph cannot be read.
    """
    recording = found.recording
    _require_whole(recording, where)
    graph, nodes = _graph_of(found, where)
    chosen = _choose(recording, known_reference_ns)
    raw_ns = {
        name: [recording.kernel_us[run][index] * 1000.0 for run in chosen.profiled]
        for name, index in node_of_operator(graph, nodes, where).items()
    }
    profile = _profile(found, graph, raw_ns, chosen)
    check(profile, where)
    return profile


def _require_whole(recording: RunsRecord, where: str) -> None:
    if not {"plain", "profiled"} <= {block.kind for block in recording.blocks if block.wall_ns}:
        raise InputError("holds no runs", where=f"{where}, recording.blocks", fix=_AGAIN)
    runs = sum(len(block.wall_ns) for block in recording.blocks if block.kind == "profiled")
    if len(recording.kernel_us) != runs or len(recording.run_us) != runs:
        raise InputError(
            "has not as many times of operators as runs", where=f"{where}, recording.kernel_us", fix=_AGAIN
        )
    for run, (times, whole) in enumerate(zip(recording.kernel_us, recording.run_us, strict=True)):
        place = f"{where}, recording.kernel_us[{run}]"
        if len(times) != recording.nodes:
            raise InputError("has not as many times as operators", where=place, fix=_AGAIN)
        if sum(times) > whole + recording.nodes:
            raise InputError("the times of the operators are more than the run", where=place, fix=_AGAIN)
    for block in recording.blocks:
        if block.waited_ns and len(block.waited_ns) != len(block.wall_ns):
            raise InputError("has not as many waits as runs", where=f"{where}, recording.blocks", fix=_AGAIN)


def _graph_of(found: RecordingFile, where: str) -> tuple[OperatorGraph, list[Node]]:
    from cimplan.graph.layout import network_of, network_shapes
    from cimplan.graph.read import read_graph

    bare = _unpacked(found.recording.graph, f"{where}, recording.graph")
    nodes = nodes_of(io.BytesIO(bare), len(bare))
    if len(nodes) != found.recording.nodes:
        raise InputError("holds no whole graph", where=f"{where}, recording.graph", fix=_AGAIN)
    with scratch_folder("graph") as folder:
        path = folder / "graph.onnx"
        try:
            path.write_bytes(bare)
            graph = read_graph(path, shapes=found.shapes, recorded=found.recording.tensors, where=where)
            graph = with_stable_names(replace(graph, name=Path(found.model.name).stem or "model"))
            if found.file_graph:
                path.write_bytes(_unpacked(found.file_graph, f"{where}, file_graph"))
                graph = with_file_nodes(network_of(graph, path), path)
            else:
                graph = network_shapes(graph)
        except InputError as error:
            if str(folder) not in error.where:
                raise
            # Nobody knows the file it was unpacked to.
            raise InputError(error.what, where=f"{where}, the graph in it", why=error.why, fix=_AGAIN) from error
    return graph, nodes


def _unpacked(packed: str, where: str) -> bytes:
    """Return a packed graph, if it is one.

    Raises
    ------
    InputError
        If it is not, or is not whole.
    """
    inflate = zlib.decompressobj()
    try:
        bare = inflate.decompress(base64.b64decode(packed, validate=True), _LARGEST_GRAPH_BYTES)
        nodes_of(io.BytesIO(bare), len(bare))
    except (binascii.Error, zlib.error, ValueError, MalformedError) as error:
        raise InputError("holds no graph", where=where, why=str(error), fix=_AGAIN) from error
    if not inflate.eof:
        raise InputError("holds no whole graph", where=where, fix=_AGAIN)
    return bare


def node_of_operator(graph: OperatorGraph, nodes: list[Node], where: str) -> dict[str, int]:
    """Return the node of each operator; they are matched by what they make."""
    index_of = {node.outputs[0]: index for index, node in enumerate(nodes) if node.outputs}
    found: dict[str, int] = {}
    for op in graph.operators:
        index = index_of.get(op.outputs[0]) if op.outputs else None
        if index is None:
            raise InputError(
                "an operator is not in the graph that was profiled", where=f"{where}, {op.name!r}", fix=_AGAIN
            )
        found[op.name] = index
    return found


def _choose(recording: RunsRecord, known_reference_ns: float) -> _Chosen:
    blocks = [
        Block(block.kind, list(block.wall_ns), list(block.waited_ns), block.reference_ns) for block in recording.blocks
    ]
    walls = {kind: [wall for block in blocks if block.kind == kind for wall in block.wall_ns] for kind in _KINDS}
    verdicts = {
        kind: judge(blocks, kind, recording.count, known_ns=known_reference_ns, exactly=recording.exactly)
        for kind in _KINDS
    }
    plain, original = ([walls[kind][run] for run in verdicts[kind].chosen] for kind in ("plain", "original"))
    return _Chosen(
        profiled=verdicts["profiled"].chosen,
        plain=plain,
        original=original,
        left_out=sum(len(walls[kind]) - verdicts[kind].undisturbed for kind in ("plain", "profiled")),
        reason=verdicts["plain"].reason or verdicts["profiled"].reason,
    )


_KINDS = ("plain", "profiled", "original")


def _profile(
    found: RecordingFile, graph: OperatorGraph, raw_ns: Mapping[str, list[float]], chosen: _Chosen
) -> HostProfile:
    half = PROFILER_RESOLUTION_NS / 2
    estimates = estimates_of(graph, raw_ns)
    timed = [raw_ns[name] for name, estimate in estimates.items() if estimate]
    unprofiled = spread(chosen.plain)
    # A network of free views only has nothing to scale.
    profiled = spread([sum(run) + half * len(run) for run in zip(*timed, strict=True)]) if timed else unprofiled
    scale = unprofiled.fastest_quarter_ns / max(profiled.fastest_quarter_ns, 1.0)
    recording = found.recording
    notes = [
        "the profiler counts whole microseconds, rounded down, so half of one was added to each time; "
        f"profiling changes times, so all were multiplied by {scale:.4g} = unprofiled / profiled wall time"
    ]
    if chosen.reason:
        notes.append(f"the machine was busy: {chosen.reason}; measure again when it is quiet")
    elif chosen.left_out:
        notes.append(f"{chosen.left_out} runs that other work has disturbed do not count")
    if recording.filling != "random":
        notes.append(f"the model refused random inputs and was fed with {recording.filling}")
    measurement = Measurement(
        runs=unprofiled.runs,
        dropped_runs=recording.dropped,
        disturbed_runs=chosen.left_out,
        disturbed=chosen.reason,
        seed=recording.seed,
        inputs=recording.filling,
        profiled=profiled,
        unprofiled=unprofiled,
        original=spread(chosen.original) if chosen.original else None,
        scale=scale,
        resolution_ns=PROFILER_RESOLUTION_NS,
    )
    profile = profile_with(
        found.model, found.machine, graph, estimates, raw_ns, measurement, notes, found.cimplan_version
    )
    return profile.model_copy(update={"values": found.values})


def estimates_of(graph: OperatorGraph, raw_ns: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the unscaled time of each operator in nanoseconds, 0 for a view that never took a microsecond."""
    estimates: dict[str, float] = {}
    for op in graph.operators:
        free = op.view and max(raw_ns[op.name]) < PROFILER_RESOLUTION_NS
        estimates[op.name] = 0.0 if free else midmean(raw_ns[op.name]) + PROFILER_RESOLUTION_NS / 2
    return estimates


def profile_with(
    model: ModelRecord,
    machine: MachineRecord,
    graph: OperatorGraph,
    estimates: Mapping[str, float],
    raw_ns: Mapping[str, list[float]],
    measurement: Measurement,
    notes: list[str],
    cimplan_version: str,
) -> HostProfile:
    """Return a measured profile: unscaled estimates of each operator, 0 for a free view, and its raw times."""
    return HostProfile.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "cimplan_version": cimplan_version,
            "origin": "measured",
            "model": model,
            "machine": machine,
            "measurement": measurement,
            "notes": tuple(notes),
            "graph": record_of(graph),
            "times": {
                name: Timing(
                    host_ns=estimate * measurement.scale,
                    kind="measured" if estimate else "free (view)",
                    raw=spread(raw_ns[name]),
                )
                for name, estimate in estimates.items()
            },
        }
    )


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
