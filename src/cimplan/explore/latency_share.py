"""What the time of a schedule goes to: every tick belongs to exactly one kind, so that the parts add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cimplan.cost.problem import HOST, Problem
from cimplan.plan.schedule import Schedule

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LatencyShare:
    """The makespan in parts, in nanoseconds; they add up to it.

    Attributes
    ----------
    host_ns : float
        The host computes, the accelerator does not.
    both_ns : float
        Both compute at the same time.
    cim_ns : float
        The accelerator computes, the host does not.
    transfer_ns : float
        Neither computes; data move over the bus.
    idle_ns : float
        Nothing at all happens; 0 where no operator waits without need.
    """

    host_ns: float
    both_ns: float
    cim_ns: float
    transfer_ns: float
    idle_ns: float

    @property
    def total_ns(self) -> float:
        """The makespan."""
        return self.host_ns + self.both_ns + self.cim_ns + self.transfer_ns + self.idle_ns


def latency_share(problem: Problem, schedule: Schedule) -> LatencyShare:
    """Return what the makespan of a schedule goes to."""
    finish = schedule.finish(problem)
    places = [options[choice].place for options, choice in zip(problem.options, schedule.chosen, strict=True)]
    host: list[Span] = []
    cim: list[Span] = []
    for start, end, place in zip(schedule.start, finish, places, strict=True):
        (host if place == HOST else cim).append((start, end))
    moves = [
        (finish[edge.source], finish[edge.source] + edge.transfer)
        for edge in problem.dependencies
        if places[edge.source] != places[edge.target]
    ]
    ticks = _ticks_by_kind((host, cim, moves), max(finish, default=0))
    tick_ns = problem.tick_ns
    return LatencyShare(
        host_ns=sum(ticks.get((True, False, moving), 0) for moving in (False, True)) * tick_ns,
        both_ns=sum(ticks.get((True, True, moving), 0) for moving in (False, True)) * tick_ns,
        cim_ns=sum(ticks.get((False, True, moving), 0) for moving in (False, True)) * tick_ns,
        transfer_ns=ticks.get((False, False, True), 0) * tick_ns,
        idle_ns=ticks.get((False, False, False), 0) * tick_ns,
    )


def _ticks_by_kind(kinds: Iterable[list[Span]], makespan: int) -> dict[tuple[bool, ...], int]:
    """Return for how many ticks of the makespan each combination of kinds is under way."""
    changes: list[tuple[int, int, int]] = []
    count = 0
    for number, spans in enumerate(kinds):
        count += 1
        for start, end in spans:
            changes += [(start, number, 1), (end, number, -1)]
    changes.sort()
    under_way = [0] * count
    found: dict[tuple[bool, ...], int] = {}
    now = 0
    for moment, number, change in [*changes, (makespan, 0, 0)]:
        until = min(moment, makespan)
        if until > now:
            state = tuple(active > 0 for active in under_way)
            found[state] = found.get(state, 0) + until - now
            now = until
        under_way[number] += change
    return found
