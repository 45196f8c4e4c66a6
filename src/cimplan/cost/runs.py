"""Recording what a network takes on this machine, operator by operator.

Profiled and plain runs take turns in blocks of one session each, and every block stands between two timings of a
reference loop; what other work has disturbed is measured again while there is time.

Beside the standard library only numpy and ONNX Runtime are needed: the program that `cimplan profile --script` writes
holds this module.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cimplan.cost.disturbance import LEAST_UNDISTURBED, Block, judge
from cimplan.cost.session import Prepared, open_session, runner
from cimplan.errors import InternalError
from cimplan.graph.wire import INNER_NAME, OUTER_NAME, Node, skeleton

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnxruntime as ort

    from cimplan.cost.session import Feed

    Progress = Callable[[int, int], None]

KERNEL_SUFFIX = "_kernel_time"
_LARGEST_SKELETON_BYTES = 1 << 30
_DTYPE_OF_EVENT = {
    "float": "float32",
    "double": "float64",
    # Packed types are called after what a byte holds.
    "int4x2": "int4",
    "uint4x2": "uint4",
    "int2x4": "int2",
    "uint2x4": "uint2",
    "float4e2m1x2": "float4e2m1",
}

_MOST_TIMES_AGAIN = 3
_PATIENCE = 0.2
"""Share of the time after which runs that stay disturbed, taken so many times over, are given up."""

_LEAST_SUM = 0.9
_MOST_BETWEEN_NODES_US = 200
_WARM_UP_RUNS = 2
_MOST_RUNS = 400
_MOST_EVENTS = 60_000
_MOST_BLOCKS = 16
_OPENING_SHARE = 0.2
_ORIGINAL_SHARE = 0.2
_LONG_BLOCK_NS = 1e9
"""Load that comes and goes is found by block; blocks are not to be much longer, where runs are shorter."""


@dataclass
class Recording:
    """What was run and how long it took; plain values only, so that it can be written as JSON.

    Attributes
    ----------
    nodes : int
        Nodes of the optimised graph.
    seed, filling
        Of the inputs: "random", "zeros" or "ones".
    count : int
        Runs of each kind that are to count.
    exactly : bool
        Whether the user asked for so many.
    dropped : int
        Profiled runs that came first and were not recorded.
    blocks : list of Block
        In the order of time.
    kernel_us : list of list of int
        Of each profiled run, over all blocks, the profiler's whole microseconds of each node of the network.
    run_us : list of int
        Of each of these runs, the profiler's time of the run.
    tensors : dict of str to (dtype, shape)
        Tensors that nodes of the network read or wrote.
    graph : str
        The optimised graph without weights, compressed, in base 64.
    """

    nodes: int
    seed: int
    filling: str
    count: int = 0
    exactly: bool = False
    dropped: int = 0
    blocks: list[Block] = field(default_factory=list)
    kernel_us: list[list[int]] = field(default_factory=list)
    run_us: list[int] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    graph: str = ""

    def to_values(self) -> dict[str, Any]:
        """Return the recording as values for JSON."""
        return asdict(self)


def record(
    prepared: Prepared,
    folder: Path,
    *,
    threads: int,
    seed: int,
    budget_s: float,
    runs: int | None = None,
    known_reference_ns: float = 0.0,
    progress: Progress | None = None,
) -> Recording:
    """Run a prepared network until enough runs are undisturbed, or the time is used up.

    Parameters
    ----------
    prepared : Prepared
        Its session of the original model is let go once it has run, so that one session holds the weights at a time.
    folder : Path
        For the profiler's files.
    threads : int
        As in `open_session`.
    seed : int
        That the feed was made with.
    budget_s : float
        Rough time for all.
    runs : int, optional
        Runs of each kind that are to count; as many as fit the time if left out, at least `LEAST_UNDISTURBED`.
    known_reference_ns : float
        Best time of the reference loop known from earlier on this machine, 0 if none is.
    progress : callable, optional
        Told the runs that count so far, and how many are to.
    """
    ends = time.perf_counter() + budget_s
    found = Recording(len(prepared.nodes), seed, prepared.filling, exactly=runs is not None)
    found.graph = packed_skeleton(prepared.saved)
    run_ns = max(timed_run(prepared.original, prepared.feed), 1.0)
    # A profiled and a plain run make a round.
    rounds = budget_s * 1e9 * (1 - _OPENING_SHARE - _ORIGINAL_SHARE) / (2 * run_ns)
    found.count = count = runs or max(
        LEAST_UNDISTURBED, int(min(rounds, _MOST_RUNS, _MOST_EVENTS // max(len(prepared.nodes), 1)))
    )
    originals = min(count, max(LEAST_UNDISTURBED, int(budget_s * 1e9 * _ORIGINAL_SHARE / run_ns)))
    found.blocks.append(_block("original", prepared.original, prepared.feed, originals, threads))
    prepared.original = None
    by_opening = budget_s * 1e9 * _OPENING_SHARE / max(prepared.opening_ns, 1.0)
    blocks = max(1, min(_MOST_BLOCKS, int(by_opening)))
    size = max(1, min(-(-count // blocks), max(LEAST_UNDISTURBED, int(_LONG_BLOCK_NS / run_ns))))
    done = {"profiled": 0, "plain": 0}
    while True:
        left = max(1, count - min(done.values()))
        _round(prepared, folder, found, min(size, left), threads)
        if progress is not None:
            progress(min(count, *done.values()), count)
        for kind in done:
            done[kind] = judge(found.blocks, kind, count, known_ns=known_reference_ns).undisturbed
        ran = sum(len(block.wall_ns) for block in found.blocks if block.kind == "plain")
        enough = ran >= (count if runs else min(count, LEAST_UNDISTURBED))
        now = time.perf_counter()
        if min(done.values()) >= count or (enough and now > ends):
            break
        if ran >= _MOST_TIMES_AGAIN * count and now > ends - (1 - _PATIENCE) * budget_s:
            break
    _require_sum(found)
    if progress is not None:
        progress(count, count)
    return found


def packed_skeleton(path: Path) -> str:
    """Return a model without its weights, compressed, in base 64."""
    with path.open("rb") as stream:
        bare = skeleton(stream, path.stat().st_size, _LARGEST_SKELETON_BYTES)
    return base64.b64encode(zlib.compress(bare, 9)).decode("ascii")


def _require_sum(found: Recording) -> None:
    """Refuse times of operators that are less than the run in every run: then some event was not counted.

    What ONNX Runtime and its profiler do between two nodes is in the run and in no node.
    """
    between_us = _MOST_BETWEEN_NODES_US * (found.nodes + 1)
    best = max((sum(times) + between_us) / max(run, 1) for times, run in zip(found.kernel_us, found.run_us))  # noqa: B905
    if best < _LEAST_SUM:
        raise InternalError(
            "the times of the operators do not add up to the run", why=f"they are {100 * best:.0f} % of it at most"
        )


def recorded_tensors(prepared: Prepared, folder: Path) -> dict[str, Any]:
    """Run a prepared network once, untimed; return type and shape of the tensors that its nodes read or wrote."""
    session = open_session(prepared.renamed, threads=1, optimise=False, profile_to=folder / "profile")
    runner(session, prepared.feed)()
    found = Recording(len(prepared.nodes), 0, prepared.filling)
    read_events(Path(session.end_profiling()), prepared.nodes, found, 0)
    return found.tensors


def _round(prepared: Prepared, folder: Path, found: Recording, size: int, threads: int) -> None:
    """Run one session: first with the profiler, then without."""
    session = open_session(prepared.renamed, threads=threads, optimise=False, profile_to=folder / "profile")
    run = runner(session, prepared.feed)
    for _ in range(_WARM_UP_RUNS):
        run()
    found.dropped += _WARM_UP_RUNS
    found.blocks.append(_block("profiled", session, prepared.feed, size, threads))
    events = Path(session.end_profiling())
    read_events(events, prepared.nodes, found, _WARM_UP_RUNS)
    events.unlink()
    run()
    found.blocks.append(_block("plain", session, prepared.feed, size, threads))


def _block(kind: str, session: ort.InferenceSession, feed: Feed, runs: int, threads: int) -> Block:
    block = Block(kind, reference_ns=reference_loop_ns())
    waits = _WaitingClock(threads)
    run = runner(session, feed)
    for _ in range(runs):
        before = waits.read()
        start = time.perf_counter_ns()
        run()
        wall = float(time.perf_counter_ns() - start)
        block.wall_ns.append(wall)
        if before is not None:
            block.waited_ns.append(waits.waited(before, wall))
    if len(block.waited_ns) < runs:
        block.waited_ns = []
    block.reference_ns = max(block.reference_ns, reference_loop_ns())
    return block


def timed_run(session: ort.InferenceSession, feed: Feed) -> float:
    """Run once and return the wall time in nanoseconds."""
    run = runner(session, feed)
    start = time.perf_counter_ns()
    run()
    return float(time.perf_counter_ns() - start)


class _WaitingClock:
    """How long this process waits for a processor although it wants one.

    One thread waits as long as its wall time exceeds its processor time. With more threads that says nothing, as they
    also wait for each other; there the kernel's own count is taken, where it keeps one.
    """

    _TASKS = Path("/proc/self/task")
    _COARSE_S = 1e-5

    def __init__(self, threads: int) -> None:
        self.single = threads == 1
        self.known = (
            time.get_clock_info("thread_time").resolution <= self._COARSE_S
            if self.single
            else self._delays() is not None
        )

    def read(self) -> float | None:
        """Return the clock, None if there is none."""
        if not self.known:
            return None
        return float(time.thread_time_ns()) if self.single else self._delays()

    def waited(self, before: float, wall_ns: float) -> float:
        """Return how much of a run was waiting, from what `read` gave before it."""
        now = self.read()
        if now is None:
            return 0.0
        waited = wall_ns - (now - before) if self.single else now - before
        return min(max(waited, 0.0), wall_ns)

    def _delays(self) -> float | None:
        """Return how long all threads have stood in the queues of the processors."""
        total = 0
        try:
            for task in self._TASKS.iterdir():
                total += int((task / "schedstat").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            return None
        return float(total)


_REFERENCE: list[Any] = []


def reference_loop_ns() -> float:
    """Return the time of a loop of fixed work: arithmetic in the nearest cache, and copies beyond it; best of some."""
    if not _REFERENCE:
        _REFERENCE.extend((np.linspace(0.5, 1.5, 4096, dtype=np.float32), np.empty(4096, np.float32)))
        _REFERENCE.extend((np.ones(1 << 18, np.float32), np.empty(1 << 18, np.float32)))
    small, result, large, copy = _REFERENCE
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter_ns()
        for _ in range(100):
            np.multiply(small, small, out=result)
            np.sqrt(result, out=result)
        for _ in range(2):
            np.copyto(copy, large)
        best = min(best, float(time.perf_counter_ns() - start))
    return best


def read_events(path: Path, nodes: list[Node], found: Recording, skip: int) -> None:
    """Add what the profiler's file of a renamed graph says to a recording.

    Parameters
    ----------
    path : Path
        The file ONNX Runtime wrote.
    nodes : list of Node
        The nodes of the graph, in the order of its file.
    found : Recording
        Gets the times of each run and the tensors.
    skip : int
        Runs at the start that do not count.

    Raises
    ------
    InternalError
        If an event is of no node, or the times of the nodes are more than the run.
    """
    events = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    times = [0] * len(nodes)
    run = 0
    # Events stand in the order in which they end: those of a run before the run itself.
    for event in events:
        if event["name"] == "model_run":
            if run >= skip:
                if sum(times) > event["dur"] + len(nodes):
                    raise InternalError(
                        "the times of the operators are more than the run",
                        why=f"they add up to {sum(times)} us, the run took {event['dur']} us",
                    )
                found.kernel_us.append(times)
                found.run_us.append(event["dur"])
            run += 1
            times = [0] * len(nodes)
            continue
        if event.get("cat") != "Node" or not event["name"].endswith(KERNEL_SUFFIX):
            continue
        name = event["name"][: -len(KERNEL_SUFFIX)]
        if name.startswith(INNER_NAME):
            continue  # it runs within the time of the node that holds it
        number = name[len(OUTER_NAME) :] if name.startswith(OUTER_NAME) else ""
        index = int(number) if number.isdigit() else len(nodes)
        if index >= len(nodes) or nodes[index].op_type != event["args"].get("op_name"):
            raise InternalError("the profiler tells of a node that is not in the graph", where=name)
        times[index] += event["dur"]
        node = nodes[index]
        for names, shapes in ((node.inputs, "input_type_shape"), (node.outputs, "output_type_shape")):
            described = event["args"].get(shapes, [])
            if len(described) == len(names):
                for tensor, one in zip(names, described):  # noqa: B905 (Python 3.8 has no strict=)
                    found.tensors.setdefault(tensor, described_tensor(one))


def described_tensor(one: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of a tensor that the profiler describes."""
    kind, shape = next(iter(one.items()))
    return _DTYPE_OF_EVENT.get(kind.lower(), kind.lower()), tuple(shape)
