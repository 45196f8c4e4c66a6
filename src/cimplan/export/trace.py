"""A plan as a Chrome trace: a JSON file that opens in Perfetto and chrome://tracing.

Every unit of the machine is a track on which bars never overlap: each host core, each concurrent crossbar group,
each lane of the bus. Arrows lead from an operator over a transfer to the operator that waits for it; a counter shows
the crossbars in use. Times are microseconds, process and thread numbers integers, as the format asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cimplan.cost.problem import CIM, HOST
from cimplan.files import write_json
from cimplan.plan.document import OperatorPart, TransferPart
from cimplan.plan.plan import Plan
from cimplan.plan.timeline import BUS, Row, timeline

_TITLES: Final = {HOST: "host", CIM: "crossbars", BUS: "bus"}
_NS_PER_US: Final = 1000.0


def trace(plan: Plan) -> dict[str, Any]:
    """Return the trace of a plan as JSON values.

    Parameters
    ----------
    plan : Plan
        Any plan.

    Returns
    -------
    dict
        ``traceEvents``: metadata first, then complete events, flows and counters sorted by time.
    """
    rows = timeline(plan)
    process = {place: number for number, place in enumerate(dict.fromkeys(row.place for row in rows), start=1)}
    track = {id(row): (process[row.place], thread) for thread, row in enumerate(rows, start=1)}
    timed = [
        *_bars(plan, rows, track),
        *_flows(plan, rows, track),
        *_crossbars_in_use(plan, process),
    ]
    timed.sort(key=lambda event: (event["ts"], _ORDER[event["ph"]]))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"cimplan {plan.tool_version}",
            "schema_version": str(plan.schema_version),
            "model": plan.model,
            "hardware": plan.hardware,
            "method": plan.method,
            "status": plan.status,
            "solver_claims": plan.solver_claims,
            **({"fixes": ", ".join(f"{name}={place}" for name, place in plan.fixes.items())} if plan.fixes else {}),
            "makespan_ns": str(plan.makespan_ns),
            **{f"{kind}_sha256": digest for kind, digest in plan.inputs.items()},
        },
        "traceEvents": [*_names(rows, process, track), *timed],
    }


def write_trace(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Write the trace of a plan, whole or not at all, and return the path."""
    write_json(path, trace(plan), indent=None)
    return (path,)


# At one moment: a bar must be open when an arrow touches it, so bars come before arrows.
_ORDER: Final = {"X": 0, "s": 1, "t": 2, "f": 3, "C": 4}


def _names(rows: Sequence[Row], process: dict[str, int], track: dict[int, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    def metadata(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}

    for place, pid in process.items():
        yield metadata("process_name", pid, 0, {"name": _TITLES.get(place, place)})
        yield metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for row in rows:
        pid, tid = track[id(row)]
        yield metadata("thread_name", pid, tid, {"name": row.title})
        yield metadata("thread_sort_index", pid, tid, {"sort_index": tid})


def _bars(plan: Plan, rows: Sequence[Row], track: dict[int, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        pid, tid = track[id(row)]
        for bar in row.bars:
            yield {
                "ph": "X",
                "name": bar.name,
                "cat": "transfer" if isinstance(bar.what, TransferPart) else "operator",
                "pid": pid,
                "tid": tid,
                "ts": bar.start_ns / _NS_PER_US,
                "dur": (bar.finish_ns - bar.start_ns) / _NS_PER_US,
                "args": _details(plan, bar.what),
            }


def _details(plan: Plan, what: OperatorPart | TransferPart) -> dict[str, Any]:
    if isinstance(what, TransferPart):
        return {"source": what.source, "target": what.target, "size_bytes": what.size_bytes}
    details: dict[str, Any] = {"op_type": what.op_type, "reason": what.reason, "time": plan.times.cim}
    if what.place == HOST:
        details["time"] = what.host_time
    else:
        details["crossbars"] = what.crossbars
    if what.label:
        details["option"] = what.label
    return details


def _flows(plan: Plan, rows: Sequence[Row], track: dict[int, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Yield an arrow per transfer: from its source, through the bar on the bus, to its target's start."""
    where = {bar.name: (track[id(row)], bar) for row in rows if row.place != BUS for bar in row.bars}
    number = 0
    for row in rows:
        if row.place != BUS:
            continue
        for bar in row.bars:
            if not isinstance(bar.what, TransferPart):
                continue
            number += 1
            source_track, source = where[bar.what.source]
            target_track, target = where[bar.what.target]
            # The arrow leaves within the source's last tick: at its very end the bar is closed, and viewers look for
            # the bar that is open.
            leaves_ns = max(source.start_ns, source.finish_ns - plan.tick_ns)
            steps: tuple[tuple[str, tuple[int, int], float, dict[str, str]], ...] = (
                ("s", source_track, leaves_ns, {}),
                ("t", track[id(row)], bar.start_ns, {}),
                # "e": the arrow ends in the bar that begins here, not in the next one.
                ("f", target_track, target.start_ns, {"bp": "e"}),
            )
            for phase, (pid, tid), moment_ns, extra in steps:
                yield {
                    "ph": phase,
                    "id": number,
                    "name": "transfer",
                    "cat": "transfer",
                    "pid": pid,
                    "tid": tid,
                    "ts": moment_ns / _NS_PER_US,
                    **extra,
                }


def _crossbars_in_use(plan: Plan, process: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the counter of crossbars that compute; an operator's crossbars hold its weights all the time."""
    pid = next((number for place, number in process.items() if place not in (HOST, BUS)), None)
    if pid is None:
        return
    change: dict[float, int] = {0.0: 0}
    for operator in plan.operators:
        if operator.crossbars and operator.finish_ns > operator.start_ns:
            change[operator.start_ns] = change.get(operator.start_ns, 0) + operator.crossbars
            change[operator.finish_ns] = change.get(operator.finish_ns, 0) - operator.crossbars
    in_use = 0
    for moment_ns in sorted(change):
        in_use += change[moment_ns]
        yield {
            "ph": "C",
            "name": "crossbars in use",
            "pid": pid,
            "tid": 0,
            "ts": moment_ns / _NS_PER_US,
            "args": {"crossbars": in_use},
        }
