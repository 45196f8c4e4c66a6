"""Facts about a plan that follow from its problem and its choices: regions, and what the host alone would take."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from cimplan.cost.problem import HOST, Problem


@dataclass(frozen=True, slots=True)
class Region:
    """A maximal group of operators at one place that hang together by dependencies.

    Attributes
    ----------
    place : str
        Where the operators run.
    operators : tuple of int
        Their indices, ascending.
    """

    place: str
    operators: tuple[int, ...]


def regions(problem: Problem, places: Sequence[str]) -> tuple[Region, ...]:
    """Return the regions, in the order of their first operators.

    Parameters
    ----------
    problem : Problem
        Gives the dependencies.
    places : sequence of str
        The place of each operator.
    """
    root = list(range(len(problem)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = root[root[index]]
            index = root[index]
        return index

    for edge in problem.dependencies:
        if places[edge.source] == places[edge.target]:
            first, second = sorted((find(edge.source), find(edge.target)))
            root[second] = first
    members: dict[int, list[int]] = {}
    for index in range(len(problem)):
        members.setdefault(find(index), []).append(index)
    return tuple(Region(places[first], tuple(found)) for first, found in sorted(members.items()))


def host_only_makespan(problem: Problem) -> int | None:
    """Return the ticks the host alone takes, or None if some operator cannot run on it.

    On one core this is the sum of all host times. On several it is a list schedule (longest remaining path first),
    as a runtime would make it, and not necessarily the best.
    """
    duration: list[int] = []
    for options in problem.options:
        on_host = [option.duration for option in options if option.place == HOST]
        if not on_host:
            return None
        duration.append(min(on_host))
    if problem.host_cores == 1:
        return sum(duration)
    return _list_schedule(problem, duration)


def _list_schedule(problem: Problem, duration: Sequence[int]) -> int:
    outgoing: list[list[int]] = [[] for _ in duration]
    missing = [0] * len(duration)
    for edge in problem.dependencies:
        outgoing[edge.source].append(edge.target)
        missing[edge.target] += 1
    remaining = list(duration)
    for index in reversed(range(len(duration))):
        remaining[index] += max((remaining[target] for target in outgoing[index]), default=0)

    ready = [(-remaining[index], index) for index, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    running: list[tuple[int, int]] = []
    now = 0
    while ready or running:
        while ready and len(running) < problem.host_cores:
            _, index = heapq.heappop(ready)
            heapq.heappush(running, (now + duration[index], index))
        now, index = heapq.heappop(running)
        for target in outgoing[index]:
            missing[target] -= 1
            if missing[target] == 0:
                heapq.heappush(ready, (-remaining[target], target))
    return now
