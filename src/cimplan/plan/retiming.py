"""What would the makespan be if one operator ran elsewhere? Exact re-timing of many single moves at once.

The choices of all other operators stay, and so does the order on the host, in which a moved operator takes the
position of its planned start. So the answer is what this plan loses or gains by the move, not what the best plan
after the move would be: an upper bound on that.

All moves are timed in one pass over the operators: each step handles one operator for every move as a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cimplan.cost.problem import HOST, Problem
from cimplan.limits import watch
from cimplan.plan.schedule import Schedule

_MOVES_AT_ONCE: Final = 512
"""Bounds the memory: operators x moves x 9 bytes."""

_Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Move:
    """One operator takes another of its options.

    Attributes
    ----------
    operator : int
        Index of the operator.
    option : int
        Index of the option it takes instead.
    """

    operator: int
    option: int


def makespans_after(problem: Problem, schedule: Schedule, moves: Sequence[Move]) -> list[int]:
    """Return the makespan in ticks after each move, every move on its own.

    Parameters
    ----------
    problem : Problem
        Costs; the crossbar budget plays no part.
    schedule : Schedule
        A valid schedule.
    moves : sequence of Move
        Moves to time.

    Returns
    -------
    list of int
        Makespan in ticks of the semi-active schedule with the same choices, the move, and the same host order.
    """
    return [makespan for some in makespans_in_turn(problem, schedule, moves) for makespan in some]


def makespans_in_turn(problem: Problem, schedule: Schedule, moves: Sequence[Move]) -> Iterator[list[int]]:
    """Return the makespans of `makespans_after` in several lists, each as soon as it is known."""
    for first in range(0, len(moves), _MOVES_AT_ONCE):
        yield _makespans(problem, schedule, moves[first : first + _MOVES_AT_ONCE])


def _makespans(problem: Problem, schedule: Schedule, moves: Sequence[Move]) -> list[int]:
    count, width = len(problem), len(moves)
    places = problem.places()
    code = {place: number for number, place in enumerate(places)}
    host = code.get(HOST, -1)

    place = np.empty((count, width), dtype=np.int16)
    duration = np.empty((count, width), dtype=np.int64)
    for index, (options, choice) in enumerate(zip(problem.options, schedule.chosen, strict=True)):
        place[index] = code[options[choice].place]
        duration[index] = options[choice].duration
    for column, move in enumerate(moves):
        option = problem.options[move.operator][move.option]
        place[move.operator, column] = code[option.place]
        duration[move.operator, column] = option.duration

    incoming: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for edge in problem.dependencies:
        incoming[edge.target].append((edge.source, edge.transfer))

    finish = np.zeros((count, width), dtype=np.int64)
    free = np.zeros((problem.host_cores, width), dtype=np.int64)
    last_start = np.zeros(width, dtype=np.int64)
    # By planned start, ties in topological order: also topological after any one move, and the host's order.
    for index in sorted(range(count), key=lambda v: (schedule.start[v], v)):
        watch()
        start: _Ticks = np.zeros(width, dtype=np.int64)
        for source, transfer in incoming[index]:
            arrival = finish[source]
            if transfer:
                arrival = arrival + transfer * (place[source] != place[index])
            np.maximum(start, arrival, out=start)
        on_host = (place[index] == host) & (duration[index] > 0)
        if on_host.any():
            core = free.argmin(axis=0)
            columns = np.arange(width)
            turn = np.maximum(free[core, columns], last_start)
            start = np.where(on_host, np.maximum(start, turn), start)
            finish[index] = start + duration[index]
            free[core[on_host], columns[on_host]] = finish[index][on_host]
            last_start = np.where(on_host, start, last_start)
        else:
            finish[index] = start + duration[index]
    return [int(value) for value in (finish.max(axis=0) if count else np.zeros(width, dtype=np.int64))]
