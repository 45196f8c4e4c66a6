"""A dual-mode plan as a Chrome trace: a JSON file that opens in Perfetto and chrome://tracing.

Tracks, on which bars never overlap: the segments; their phases (switch, write weights, run, write back); the operators
of the running segment, as many tracks as the busiest segment has; and the arrays, those that always have the same mode
on one track, whose bars say whether they compute or remember. Counters show how many arrays compute, hold data, and
idle. Times are microseconds, process and thread numbers integers, as the format asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cimplan.files import write_json
from cimplan.plan.dual_mode import DualModePlan, Segment
from cimplan.plan.mode_history import ArrayGroup, mode_history, ranges_text, segment_starts

_SEGMENTS: Final = 1
_OPERATORS: Final = 2
_ARRAYS: Final = 3
_PROCESSES: Final = {_SEGMENTS: "segments", _OPERATORS: "operators", _ARRAYS: "arrays"}
_NS_PER_US: Final = 1000.0

Event = dict[str, Any]


def trace(plan: DualModePlan) -> dict[str, Any]:
    """Return the trace of a plan as JSON values.

    Parameters
    ----------
    plan : DualModePlan
        Any plan.

    Returns
    -------
    dict
        ``traceEvents``: metadata first, then complete events and counters sorted by time.
    """
    writer = _Writer(plan)
    timed = [*writer.segments(), *writer.operators(), *writer.modes(), *writer.counters()]
    timed.sort(key=lambda event: (event["ts"], event["ph"] == "C"))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"cimplan {plan.tool_version}".strip(),
            "schema_version": str(plan.schema_version),
            "model": plan.model,
            "hardware": plan.hardware,
            "method": plan.method,
            "cost_model": plan.readings.cost_model,
            "status": plan.status,
            "latency_cycles": str(plan.latency_cycles),
            "cycle_ns": str(plan.chip.cycle_ns),
            "model_sha256": plan.model_sha256,
            "hardware_sha256": plan.hardware_sha256,
        },
        "traceEvents": [*writer.names(), *timed],
    }


def write_trace(plan: DualModePlan, path: Path) -> tuple[Path, ...]:
    """Write the trace of a plan, whole or not at all, and return the path."""
    write_json(path, trace(plan), indent=None)
    return (path,)


class _Writer:
    def __init__(self, plan: DualModePlan) -> None:
        self._plan = plan
        self._starts = segment_starts(plan)
        self._groups: tuple[ArrayGroup, ...] = mode_history(plan)
        self._us = plan.chip.cycle_ns / _NS_PER_US

    def names(self) -> Iterator[Event]:
        for pid, title in _PROCESSES.items():
            yield _metadata("process_name", pid, 0, name=title)
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        widest = max(len(segment.parts) for segment in self._plan.segments)
        titles = [
            (_SEGMENTS, ["segment", "phase"]),
            (_OPERATORS, [f"operator {number}" for number in range(1, widest + 1)]),
            (_ARRAYS, [f"arrays {ranges_text(group.arrays)}" for group in self._groups]),
        ]
        for pid, tracks in titles:
            for tid, title in enumerate(tracks, start=1):
                yield _metadata("thread_name", pid, tid, name=title)
                yield _metadata("thread_sort_index", pid, tid, sort_index=tid)

    def segments(self) -> Iterator[Event]:
        names = [op.name for op in self._plan.operators]
        for index, segment in enumerate(self._plan.segments):
            start = self._starts[index]
            about = {
                "operators": ", ".join(names[part.operator] for part in segment.parts),
                "compute_arrays": segment.compute_arrays,
                "memory_arrays": segment.memory_arrays,
            }
            yield self._bar(_SEGMENTS, 1, f"segment {index}", start, segment.total_cycles, about)
            for name, cycles, args in _phases(segment, names):
                if cycles:
                    yield self._bar(_SEGMENTS, 2, name, start, cycles, args)
                start += cycles

    def operators(self) -> Iterator[Event]:
        for index, segment in enumerate(self._plan.segments):
            start = self._starts[index] + segment.switch_cycles + segment.write_cycles
            for lane, part in enumerate(segment.parts, start=1):
                about = {
                    "op_type": self._plan.operators[part.operator].op_type,
                    "compute_arrays": part.compute_arrays,
                    "input_arrays": part.input_arrays,
                    "output_arrays": part.output_arrays,
                    "arrays": ranges_text(part.placement),
                }
                yield self._bar(_OPERATORS, lane, self._plan.operators[part.operator].name, start, part.cycles, about)

    def modes(self) -> Iterator[Event]:
        for tid, group in enumerate(self._groups, start=1):
            for span in group.spans:
                start = self._starts[span.first]
                about = {"segments": f"{span.first}-{span.end - 1}"}
                yield self._bar(_ARRAYS, tid, span.mode, start, self._starts[span.end] - start, about)

    def counters(self) -> Iterator[Event]:
        """Yield the number of arrays of each role wherever it changes."""
        before: tuple[int, int] | None = None
        for start, segment in zip(self._starts, self._plan.segments, strict=False):
            now = (segment.compute_arrays, segment.memory_arrays)
            if now != before:
                yield self._counter(start, *now)
            before = now
        yield self._counter(self._starts[-1], 0, 0)

    def _counter(self, cycle: int, compute: int, memory: int) -> Event:
        idle = self._plan.chip.arrays - compute - memory
        args = {"compute": compute, "memory": memory, "idle": idle}
        return {"ph": "C", "name": "arrays in use", "pid": _ARRAYS, "tid": 0, "ts": cycle * self._us, "args": args}

    def _bar(self, pid: int, tid: int, name: str, start: int, cycles: int, args: dict[str, Any]) -> Event:
        # Both ends are rounded in the same way, so that a bar ends exactly where the next one begins.
        moment = start * self._us
        return {
            "ph": "X",
            "name": name,
            "cat": _PROCESSES[pid],
            "pid": pid,
            "tid": tid,
            "ts": moment,
            "dur": (start + cycles) * self._us - moment,
            "args": {**args, "cycles": cycles},
        }


def _phases(segment: Segment, names: list[str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield what a segment spends its cycles on, in the order in which it happens."""
    yield (
        "switch",
        segment.switch_cycles,
        {"to_compute": ranges_text(segment.to_compute), "to_memory": ranges_text(segment.to_memory)},
    )
    yield "write weights", segment.write_cycles, {}
    yield "run", segment.cycles, {}
    yield (
        "write back",
        segment.write_back_cycles,
        {"results": ", ".join(f"{names[item.operator]}: {item.size_bytes} bytes" for item in segment.write_backs)},
    )


def _metadata(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}
