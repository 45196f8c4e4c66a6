"""A plan as rows of bars: what a trace, a plot or a report draws."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from cimplan.cost.problem import CIM, HOST
from cimplan.plan.document import OperatorPart, TransferPart
from cimplan.plan.lanes import lanes
from cimplan.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that takes time.

    Attributes
    ----------
    name : str
        Operator, or "source → target" of a transfer.
    start_ns, finish_ns : float
        Where the bar begins and ends.
    what : OperatorPart or TransferPart
        Everything else about it.
    """

    name: str
    start_ns: float
    finish_ns: float
    what: OperatorPart | TransferPart


@dataclass(frozen=True, slots=True)
class Row:
    """One unit of the machine that does one thing at a time.

    Attributes
    ----------
    place : str
        "host", "cim", another accelerator, or "bus".
    lane : int
        Number of the row among those of its place, from 0.
    title : str
        For people.
    bars : tuple of Bar
        Sorted by start; none overlaps another.
    """

    place: str
    lane: int
    title: str
    bars: tuple[Bar, ...]


BUS = "bus"


def timeline(plan: Plan) -> tuple[Row, ...]:
    """Return the rows of a plan: host cores first, then crossbar groups, then bus lanes.

    Operators of the host that take no time, and those on crossbars or data on the bus that overlap in time, are
    dealt to as few rows as possible so that bars of a row never overlap.
    """
    problem = plan.problem()
    places = problem.places()
    rows: list[Row] = []
    for place in [*(name for name in places if name == HOST), *(name for name in places if name != HOST)]:
        bars = [
            Bar(operator.name, operator.start_ns, operator.finish_ns, operator)
            for operator in plan.operators
            if operator.place == place
        ]
        rows += _rows(plan, place, bars)
    moves = [Bar(f"{move.source} → {move.target}", move.start_ns, move.finish_ns, move) for move in plan.transfers]
    return (*rows, *_rows(plan, BUS, moves))


def _rows(plan: Plan, place: str, bars: list[Bar]) -> list[Row]:
    spans = [(round(bar.start_ns / plan.tick_ns), round(bar.finish_ns / plan.tick_ns)) for bar in bars]
    lane_of = lanes(spans) if place != HOST else _host_lanes(plan, bars, spans)
    count = max(lane_of, default=-1) + 1
    rows = []
    for lane in range(count):
        mine = [(span, bar) for span, bar, number in zip(spans, bars, lane_of, strict=True) if number == lane]
        mine.sort(key=lambda item: item[0])
        rows.append(Row(place, lane, _title(plan, place, lane), tuple(bar for _, bar in mine)))
    return rows


def _host_lanes(plan: Plan, bars: list[Bar], spans: list[tuple[int, int]]) -> list[int]:
    """Keep operators on their cores; those without duration go wherever they do not stand inside another bar."""
    cores = [bar.what.core if isinstance(bar.what, OperatorPart) else None for bar in bars]
    busy: list[list[tuple[int, int]]] = [[] for _ in range(plan.host_cores)]
    for core, span in zip(cores, spans, strict=True):
        if core is not None:
            busy[core].append(span)
    for taken in busy:
        taken.sort()
    return [
        core
        if core is not None
        else next((lane for lane, taken in enumerate(busy) if not _inside(taken, start)), plan.host_cores)
        for core, (start, _) in zip(cores, spans, strict=True)
    ]


def _inside(taken: list[tuple[int, int]], moment: int) -> bool:
    """Tell whether a moment lies strictly inside one of the sorted spans."""
    before = bisect_left(taken, (moment, moment)) - 1
    return before >= 0 and moment < taken[before][1]


def _title(plan: Plan, place: str, lane: int) -> str:
    if place == HOST and lane >= plan.host_cores:
        return "host, no time"
    if place == HOST:
        return f"host core {lane}" if plan.host_cores > 1 else HOST
    name = "crossbar group" if place == CIM else f"{place} lane" if place != BUS else "bus lane"
    return f"{name} {lane}"
