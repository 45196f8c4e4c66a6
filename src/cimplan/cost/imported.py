"""A host profile from the file that ONNX Runtime's own profiler wrote, and its model.

The file names nodes of the graph that ran, which is not in it. So the model is optimised here, at each of ONNX
Runtime's levels, until one gives the very nodes of the file. Events of bodies (If, Loop, Scan) are told from those of
the network by order: events stand as they end, so what stands before the end of a body's execution and began within it
is the body's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cimplan.cost.naming import with_file_nodes, with_stable_names
from cimplan.cost.profile import input_sizes, model_record, package_version, weights_beside
from cimplan.cost.profile_file import HostProfile, MachineRecord, Measurement, check
from cimplan.cost.recorded import PROFILER_RESOLUTION_NS, estimates_of, node_of_operator, profile_with, spread
from cimplan.errors import InputError
from cimplan.files import read_json, scratch_folder
from cimplan.graph.layout import network_of, without_marks
from cimplan.graph.wire import MalformedError, Node, nodes_of

if TYPE_CHECKING:
    from cimplan.graph.operators import OperatorGraph

LEVELS: Final = ("ORT_ENABLE_ALL", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_BASIC", "ORT_DISABLE_ALL")
"""Levels of optimisation that a profile may have been taken with, the default first."""

_EXECUTION = "SequentialExecutor::Execute"
_RUN = "model_run"
_CPU = "CPUExecutionProvider"
_DROPPED_RUNS = 2
_LONGEST_US = 2**52
_KIND = "profile of ONNX Runtime"
_ANOTHER = "Measure the model with `cimplan profile`, or with the program that `cimplan profile --script` writes"


@dataclass(frozen=True)
class _Event:
    """What the profiler says of one execution of a node, or of a run."""

    name: str
    node: bool
    start_us: int
    took_us: int
    op_type: str
    number: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    threads: int


@dataclass(frozen=True)
class _Run:
    """The nodes of the network in one run, in the order in which they ended."""

    took_us: int
    nodes: tuple[_Event, ...]


def import_profile(
    path: Path, events: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, threads: int | None = None
) -> HostProfile:
    """Return the host profile of a model from a file of ONNX Runtime's profiler.

    Parameters
    ----------
    path : Path
        The model that was profiled; it is loaded here, and not run.
    events : Path
        What ``SessionOptions.enable_profiling`` has written.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    threads : int, optional
        Threads within an operator; what the file says of them if left out.

    Returns
    -------
    HostProfile
        With origin "measured". Its times contain what profiling costs, as the file has no other runs, and nothing is
        known of the machine.

    Raises
    ------
    InputError
        If the file is not such a profile, was not taken on the CPU, or is not of this model as ONNX Runtime optimises
        it here.
    """
    where = str(events)
    runs = _runs(read_json(events, _KIND), where)
    dropped = min(_DROPPED_RUNS, len(runs) - 1)
    given = dict(shapes or {})
    graph, nodes, matched = _matched(path, runs, given, where)
    times_us = [[run.nodes[position].took_us for position in order] for run, order in zip(runs, matched, strict=True)]
    raw_ns = {
        name: [times[index] * 1000.0 for times in times_us[dropped:]]
        for name, index in node_of_operator(graph, nodes, where).items()
    }
    estimates = estimates_of(graph, raw_ns)
    half = PROFILER_RESOLUTION_NS / 2
    timed = [raw_ns[name] for name, estimate in estimates.items() if estimate]
    sums = [sum(run) + half * len(run) for run in zip(*timed, strict=True)] if timed else [0.0]
    notes = [
        "imported from ONNX Runtime's profiler, which counts whole microseconds, rounded down, so half of one was "
        "added to each time; there are no runs without it, so the times contain what profiling costs",
        "whether other work has disturbed the runs is not known"
        + (", and there is only one, whose caches were cold" if len(runs) == 1 else ""),
    ]
    counted = threads or max((event.threads for run in runs for event in run.nodes), default=1)
    profile = profile_with(
        model_record(path),
        MachineRecord(cpu="", architecture="", system="", threads=counted),
        graph,
        estimates,
        raw_ns,
        Measurement(
            runs=len(runs) - dropped,
            dropped_runs=dropped,
            seed=0,
            inputs="unknown",
            profiled=spread(sums),
            scale=1.0,
            resolution_ns=PROFILER_RESOLUTION_NS,
        ),
        notes,
        package_version("cimplan"),
    )
    check(profile, where)
    return profile


def _runs(value: Any, where: str) -> list[_Run]:
    """Return the runs in a profiler's file.

    Raises
    ------
    InputError
        If it is no such file, or holds no run whose events can be told apart.
    """
    if not isinstance(value, list) or not value:
        raise InputError(f"is not a {_KIND}", where=where, why="it is not a list of events", fix=_ANOTHER)
    runs: list[_Run] = []
    pending: list[_Event] = []
    executed: list[_Event] | None = None
    for number, entry in enumerate(value):
        event = _event(entry, f"{where}, [{number}]")
        if event is None:
            continue
        if event.node:
            pending.append(event)
        elif event.name == _EXECUTION:
            # The last execution before the end of a run is that of the network; all others were of bodies.
            executed = []
            while pending and pending[-1].start_us >= event.start_us:
                executed.append(pending.pop())
        else:
            if executed is None or pending:
                raise _side_by_side(f"{where}, [{number}]")
            runs.append(_Run(event.took_us, tuple(reversed(executed))))
            executed = None
    if not any(run.nodes for run in runs):
        raise InputError(
            f"is not a {_KIND}", where=where, why="it holds no run", fix="Run the session before its profiling ends"
        )
    for number, run in enumerate(runs):
        _require_sequence(run, f"{where}, run {number}")
        took = sum(event.took_us for event in run.nodes)
        if took > run.took_us + len(run.nodes):
            why = f"they add up to {took} us, the run took {run.took_us} us"
            raise InputError("the times of the nodes are more than the run", where=f"{where}, run {number}", why=why)
    return runs


def _require_sequence(run: _Run, where: str) -> None:
    """Refuse a run whose nodes ran side by side: the time of one is then not what it costs alone."""
    events = sorted(run.nodes, key=lambda event: event.start_us)
    for before, after in pairwise(events):
        # Start and duration are rounded down each.
        if after.start_us + 1 < before.start_us + before.took_us:
            raise _side_by_side(f"{where}, {after.name!r}")


def _side_by_side(where: str) -> InputError:
    return InputError(
        "the nodes of a run cannot be told from others",
        where=where,
        why="the profile was taken with nodes or runs side by side",
        fix="Profile with the execution mode ORT_SEQUENTIAL, and one run after another",
    )


def _event(entry: Any, where: str) -> _Event | None:
    """Return an event that matters, None for another.

    Raises
    ------
    InputError
        If an entry is not as ONNX Runtime writes it, or a node did not run on the CPU.
    """
    from cimplan.cost.runs import KERNEL_SUFFIX, described_tensor

    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise InputError(f"is not a {_KIND}", where=where, why="an event has no name", fix=_ANOTHER)
    node = entry.get("cat") == "Node" and name.endswith(KERNEL_SUFFIX)
    if not node and name not in (_EXECUTION, _RUN):
        return None
    times: list[Any] = [entry.get(key) for key in ("ts", "dur")]
    if not all(isinstance(time, int) and 0 <= time <= _LONGEST_US for time in times):
        why = "ts and dur of an event are not whole microseconds"
        raise InputError(f"is not a {_KIND}", where=where, why=why, fix=_ANOTHER)
    arguments: Any = entry.get("args", {}) if node else {}
    if not isinstance(arguments, dict) or (node and not isinstance(arguments.get("op_name"), str)):
        raise InputError(f"is not a {_KIND}", where=where, why="a node has no op_name", fix=_ANOTHER)
    if node and arguments.get("provider", _CPU) != _CPU:
        raise InputError(
            "a node did not run on the CPU",
            where=f"{where}, {name.removesuffix(KERNEL_SUFFIX)!r}",
            why=f"it ran on {arguments['provider']}",
            fix=f"Profile a session with providers=[{_CPU!r}]",
        )
    described: list[tuple[tuple[str, tuple[int, ...]], ...]] = []
    for key in ("input_type_shape", "output_type_shape"):
        tensors = arguments.get(key, [])
        if not isinstance(tensors, list) or not all(_describes(one) for one in tensors):
            why = f"{key} of a node holds no types and shapes"
            raise InputError(f"is not a {_KIND}", where=where, why=why, fix=_ANOTHER)
        described.append(tuple(described_tensor(one) for one in tensors))
    statistics = arguments.get("thread_scheduling_stats")
    others = statistics.get("sub_threads") if isinstance(statistics, dict) else None
    return _Event(
        name=name.removesuffix(KERNEL_SUFFIX),
        node=node,
        start_us=times[0],
        took_us=times[1],
        op_type=arguments.get("op_name", ""),
        number=str(arguments.get("node_index", "")),
        inputs=described[0],
        outputs=described[1],
        threads=1 + (len(others) if isinstance(others, dict) else 0),
    )


def _describes(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and len(one) == 1
        and all(
            isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape) for shape in one.values()
        )
    )


def _matched(
    path: Path, runs: list[_Run], shapes: Mapping[str, tuple[int, ...]], where: str
) -> tuple[OperatorGraph, list[Node], list[list[int]]]:
    """Return the graph whose nodes those of the file are, and for each run the event of each node."""
    from cimplan.cost.session import open_session
    from cimplan.graph.read import read_graph

    external = weights_beside(path)
    sizes = input_sizes(path, 1, shapes)
    closest: tuple[int, str] | None = None
    with scratch_folder("graph") as name:
        for level in LEVELS:
            saved = Path(name) / f"{level}.onnx"
            open_session(path, threads=1, optimise=True, save_to=saved, sizes=sizes, external=external, level=level)
            nodes = _nodes(saved, path)
            faults = [_fault(nodes, run) for run in runs]
            missing = max((count for count, _ in faults), default=0)
            if missing:
                said = next(text for count, text in faults if count == missing)
                closest = min(closest or (missing, said), (missing, said))
                continue
            matched = [_order(nodes, run, where) for run in runs]
            recorded = _tensors(nodes, runs[-1], matched[-1])
            called = f"{path}, as ONNX Runtime optimises it"
            graph = read_graph(saved, shapes=shapes, recorded=recorded, where=called)
            named = with_file_nodes(with_stable_names(replace(network_of(graph, path), name=path.stem)), path)
            return named, nodes, matched
    raise InputError(
        f"the profile is not of the model {path.name!r} as ONNX Runtime optimises it here",
        where=where,
        why="" if closest is None else f"at the nearest level {closest[0]} nodes differ: {closest[1]}",
        fix="Import it where it was taken, with the same onnxruntime; or measure with the program that "
        "`cimplan profile --script` writes",
    )


def _nodes(saved: Path, path: Path) -> list[Node]:
    try:
        with saved.open("rb") as stream:
            return nodes_of(stream, saved.stat().st_size)
    except (MalformedError, OSError) as error:
        raise InputError("ONNX Runtime cannot save the graph of the model", where=str(path), why=str(error)) from error


def _keys(nodes: list[Node]) -> list[tuple[str, str]]:
    return [(without_marks(node.name), node.op_type) for node in nodes]


def _event_key(event: _Event, known: set[tuple[str, str]]) -> tuple[str, str]:
    """Return name and type of an event's node; ONNX Runtime calls a node without a name by its type and its index."""
    key = (without_marks(event.name), event.op_type)
    if key not in known and event.name == f"{event.op_type}_{event.number}":
        return "", event.op_type
    return key


def _fault(nodes: list[Node], run: _Run) -> tuple[int, str]:
    """Return how many nodes of a run and of the graph are not each other's, and the first of them."""
    keys = _keys(nodes)
    known = set(keys)
    wanted, found = Counter(keys), Counter(_event_key(event, known) for event in run.nodes)
    lacking, extra = wanted - found, found - wanted
    first = next(iter([*extra, *lacking]), ("", ""))
    side = "only the profile has" if extra else "the profile has no"
    return max(lacking.total(), extra.total()), f"{side} {first[1]} {first[0]!r}"


def _order(nodes: list[Node], run: _Run, where: str) -> list[int]:
    """Return the position in a run of each node's event.

    Nodes with the same name and type are matched in their order, which is that in which ONNX Runtime runs them; the
    order of all nodes shows whether that holds.
    """
    keys = _keys(nodes)
    known = set(keys)
    events = [_event_key(event, known) for event in run.nodes]
    if events == keys:
        return list(range(len(nodes)))
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise InputError(
            "the nodes of the profile cannot be told apart",
            where=where,
            why=f"several {twice[1]} nodes are called {twice[0]!r}, and the nodes ran in another order than here",
            fix="Give the nodes of the model names of their own",
        )
    position = {key: number for number, key in enumerate(events)}
    return [position[key] for key in keys]


def _tensors(nodes: list[Node], run: _Run, order: list[int]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return type and shape of the tensors that the nodes of a run read or wrote."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for node, position in zip(nodes, order, strict=True):
        event = run.nodes[position]
        for names, described in ((node.inputs, event.inputs), (node.outputs, event.outputs)):
            if len(names) == len(described):
                for name, tensor in zip(names, described, strict=True):
                    found.setdefault(name, tensor)
    return found
