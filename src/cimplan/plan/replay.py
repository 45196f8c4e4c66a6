"""Timing replay: run a plan's choices through simulated hardware and watch the clock.

The replay knows of a schedule only which option each operator takes and in which order the host takes its
operators. Everything else happens by events, as on the machine: an operator finishes, its data move over the bus if
they have to, an operator whose data are there starts on its crossbars at once or waits for its turn on the host.

Nothing waits longer than it must, so no operator starts later than in the schedule; where the schedule is optimal
the replay ends on the same tick.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import InternalError
from cimplan.plan.schedule import Schedule


@dataclass(frozen=True, slots=True)
class BusTransfer:
    """Data moved between two places.

    Attributes
    ----------
    source, target : int
        Operator indices.
    start, finish : int
        Ticks; the transfer starts when its source finishes. Transfers may overlap, as in the problem.
    size_bytes : int
        Bytes moved.
    """

    source: int
    target: int
    start: int
    finish: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Replay:
    """What happened.

    Attributes
    ----------
    schedule : Schedule
        The same choices with the starts as they happened.
    finish : tuple of int
        Finish of each operator in ticks.
    makespan : int
        When the last operator finished.
    core : tuple of int
        Host core of each operator; -1 for those that were not on the host or took no time.
    transfers : tuple of BusTransfer
        In the order of their start, then of the operators.
    host_busy : int
        Ticks the host's cores worked, added up.
    """

    schedule: Schedule
    finish: tuple[int, ...]
    makespan: int
    core: tuple[int, ...]
    transfers: tuple[BusTransfer, ...]
    host_busy: int


def host_order(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Return the operators that occupy the host, in the order the schedule starts them."""
    occupied = [
        (start, index)
        for index, (start, options, choice) in enumerate(
            zip(schedule.start, problem.options, schedule.chosen, strict=True)
        )
        if options[choice].place == HOST and options[choice].duration > 0
    ]
    return tuple(index for _, index in sorted(occupied))


def replay(problem: Problem, schedule: Schedule) -> Replay:
    """Simulate a schedule's choices and host order.

    Parameters
    ----------
    problem : Problem
        Costs.
    schedule : Schedule
        Choices, and starts of which only the order on the host is used. Operators enter the host strictly in this
        order: with several cores, none overtakes one that has not started.

    Returns
    -------
    Replay
        Starts, finishes, cores and transfers as they happened.

    Raises
    ------
    InternalError
        If the order on the host contradicts the dependencies, so that the host waits for ever.
    """
    return _Simulation(problem, schedule).run()


class _Simulation:
    """The state of the machine while the clock runs: events, the host's queue and cores, data still missing."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        count = len(problem)
        self.problem = problem
        self.schedule = schedule
        self.option = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
        self.outgoing: list[list[int]] = [[] for _ in range(count)]
        self.missing = [0] * count
        for number, edge in enumerate(problem.dependencies):
            self.outgoing[edge.source].append(number)
            self.missing[edge.target] += 1
        self.queue = deque(host_order(problem, schedule))
        self.queued = frozenset(self.queue)
        # Cores beyond the operators stay idle; a file may say that there are billions.
        self.free_cores = list(range(min(problem.host_cores, count)))
        self.start = [-1] * count
        self.finish = [-1] * count
        self.core = [-1] * count
        self.transfers: list[BusTransfer] = []
        self.arrived: set[int] = set()
        # An event is (time, 0 = operator finishes | 1 = data arrive, operator or dependency).
        self.events: list[tuple[int, int, int]] = []

    def run(self) -> Replay:
        """Let the clock run until nothing happens any more."""
        for index, missing in enumerate(self.missing):
            if missing == 0:
                self._data_complete(index, 0)
        self._dispatch(0)
        while self.events:
            now, kind, number = heapq.heappop(self.events)
            if kind == 0:
                self._finished(number, now)
            else:
                self._arrived(number, now)
            self._dispatch(now)
        if any(finish < 0 for finish in self.finish):
            stuck = [self.problem.names[index] for index in self.queue]
            raise InternalError(
                "the replay of the plan stops before its end",
                why=f"the host waits for ever for operator {stuck[0]!r}: its order contradicts the dependencies",
            )
        return Replay(
            schedule=Schedule(self.schedule.chosen, tuple(self.start)),
            finish=tuple(self.finish),
            makespan=max(self.finish, default=0),
            core=tuple(self.core),
            transfers=tuple(sorted(self.transfers, key=lambda move: (move.start, move.source, move.target))),
            host_busy=sum(self.option[index].duration for index in self.queued),
        )

    def _data_complete(self, index: int, now: int) -> None:
        if index in self.queued:
            self.arrived.add(index)
        else:
            self._begin(index, now)

    def _dispatch(self, now: int) -> None:
        """Let the host take the next operators of its queue while their data are there and cores are free."""
        while self.queue and self.free_cores and self.queue[0] in self.arrived:
            index = self.queue.popleft()
            self.core[index] = heapq.heappop(self.free_cores)
            self._begin(index, now)

    def _begin(self, index: int, now: int) -> None:
        self.start[index] = now
        heapq.heappush(self.events, (now + self.option[index].duration, 0, index))

    def _finished(self, index: int, now: int) -> None:
        self.finish[index] = now
        if self.core[index] >= 0:
            heapq.heappush(self.free_cores, self.core[index])
        for number in self.outgoing[index]:
            edge = self.problem.dependencies[number]
            if self.option[index].place == self.option[edge.target].place:
                self._arrived(number, now)
            else:
                end = now + edge.transfer
                self.transfers.append(BusTransfer(index, edge.target, now, end, edge.size_bytes))
                heapq.heappush(self.events, (end, 1, number))

    def _arrived(self, number: int, now: int) -> None:
        target = self.problem.dependencies[number].target
        self.missing[target] -= 1
        if self.missing[target] == 0:
            self._data_complete(target, now)
