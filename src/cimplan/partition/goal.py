"""What a partial schedule must still be able to reach to be worth following."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

import numpy as np

from cimplan.partition.suffix import TradeOffs
from cimplan.partition.tables import Floor, Integers

Bounds: TypeAlias = Iterable[tuple[int, Floor | None]]
"""Pairs of ticks so far and what remains from there, None for nothing: the makespan is at least each sum."""


_COMPARISONS = 2**20
"""Comparisons that are made at once."""


NEVER = 2**62
"""Rank of what is not worthwhile."""

PARTS = 2**16
"""Parts in which the gaps of a budget curve are counted."""


def chunks(rows: int, columns: int) -> Iterator[slice]:
    """Yield parts of the rows of a table that is too large to be looked at at once."""
    step = max(1, _COMPARISONS // columns)
    for begin in range(0, rows, step):
        yield slice(begin, begin + step)


class Goal(Protocol):
    """What to look for.

    Attributes
    ----------
    budget : int
        Crossbars that no schedule may exceed.
    deadline : float or None
        `time.perf_counter` at which to give up.
    divers : int
        Labels of a state that a dive follows together.
    ranks_change : bool
        Whether ranks change when the goal asks for less.
    """

    budget: int
    deadline: float | None
    divers: int
    ranks_change: bool

    @property
    def most(self) -> int:
        """Rank below which everything worthwhile lies."""

    def improve(self, found: Iterable[tuple[int, int]]) -> bool:
        """Ask only for what beats results, each a makespan and crossbars, too; return whether that asks for less."""

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether a partial schedule that uses so many crossbars may lead to something better."""

    def latest(self, used: int) -> int:
        """Return before how many ticks any schedule that uses so many crossbars must end."""

    def ranks(
        self, used: list[int], start: list[int], busy: list[int], latest: list[int], after: TradeOffs
    ) -> list[int]:
        """Return how good what comes of partial schedules can be: less is better, `NEVER` is not worthwhile.

        Parameters
        ----------
        used : list of int
            Crossbars of each.
        start, busy : list of int
            Ticks from which on the path and the load of what follows count.
        latest : list of int
            Ticks before which the schedule does not end, whatever follows.
        after : TradeOffs
            What follows.
        """


class OneBudget:
    """Schedules within a budget that end before a known one; their makespans are the ranks."""

    divers = 4
    ranks_change = False

    def __init__(self, budget: int, below: int, deadline: float | None = None) -> None:
        self.budget, self.deadline = budget, deadline
        self.below = below

    @property
    def most(self) -> int:
        """The known makespan."""
        return self.below

    def improve(self, found: Iterable[tuple[int, int]]) -> bool:
        """Take a quicker result for the known makespan."""
        before = self.below
        self.below = min([before, *(makespan for makespan, _ in found)])
        return self.below < before

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether every bound leaves room."""
        left = self.budget - used
        if left < 0:
            return False
        for ticks, floor in bounds:  # noqa: SIM110 - a generator takes twice as long
            if (ticks if floor is None else ticks + floor.at(left)) >= self.below:
                return False
        return True

    def latest(self, used: int) -> int:
        """Return the known makespan if that is within the budget."""
        return self.below if used <= self.budget else 0

    def ranks(
        self, used: list[int], start: list[int], busy: list[int], latest: list[int], after: TradeOffs
    ) -> list[int]:
        """Return the least makespan of each that is within the budget and less than the known one."""
        found = []
        for crossbars, begin, work, end in zip(used, start, busy, latest, strict=True):
            least = after.within(self.budget - crossbars).least(begin, work) if end < self.below else None
            found.append(NEVER if least is None or least >= self.below else max(least, end))
        return found


class EveryBudget:
    """Schedules that beat the best known one of their budget, for all budgets at once.

    Parameters
    ----------
    below : numpy.ndarray of int64
        The best known makespan for 0, 1, 2, … crossbars; never rising.
    proven : numpy.ndarray of int64, optional
        Makespans that are proven not to be beaten. Ranks count in parts of what lies between.
    """

    divers = 256
    ranks_change = True

    @property
    def most(self) -> int:
        """No rank: `ranks` knows what is worthwhile."""
        return NEVER

    def __init__(self, below: Integers, deadline: float | None = None, proven: Integers | None = None) -> None:
        self.budget, self.deadline = len(below) - 1, deadline
        self.below = below
        proven = np.zeros_like(below) if proven is None else proven
        # One entry more, for everything beyond the largest budget: nothing is worthwhile there.
        self._known, self._proven = np.append(below, 0), np.append(proven, 0)
        self._latest = np.maximum.accumulate(below[::-1])[::-1]
        self._step = np.maximum(1, -(-(self._known - self._proven) // PARTS))
        self._most: dict[tuple[Floor | None, int], int] = {}

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether every bound leaves room at some budget."""
        if used > self.budget:
            return False
        # Whether there is room for all bounds at the same budget would cost more to find out than it saves.
        for ticks, floor in bounds:  # noqa: SIM110 - a generator takes twice as long
            if ticks >= self._room(floor, used):
                return False
        return True

    def latest(self, used: int) -> int:
        """Return the greatest known makespan of so many crossbars or more."""
        return int(self._latest[used]) if used <= self.budget else 0

    def ranks(
        self, used: list[int], start: list[int], busy: list[int], latest: list[int], after: TradeOffs
    ) -> list[int]:
        """Return how far between bound and best known makespan each may end, at the budget where that is least."""
        crossbars, path, load = after.columns
        most, fewest = self.latest(min(used)), min(used)
        likely = (path < most - min(start)) & (load < most - min(busy)) & (crossbars <= self.budget - fewest)
        crossbars, path, load = crossbars[likely], path[likely], load[likely]
        if not len(load):
            return [NEVER] * len(used)
        found: list[int] = []
        table = np.array([used, start, busy, latest], dtype=np.int64).T
        for rows in chunks(len(used), len(load)):
            taken, begin, work, end = (table[rows, column, None] for column in range(4))
            ends = np.maximum(np.maximum(begin + path, work + load), end)
            total = np.minimum(taken + crossbars, self.budget + 1)
            parts = (ends - self._proven[total]) // self._step[total]
            parts[ends >= self._known[total]] = NEVER
            found += parts.min(axis=1).tolist()
        return found

    def within(self, rank: int) -> Integers:
        """Return, for each budget, before how many ticks a schedule ends that has a rank below some number."""
        within: Integers = np.minimum(self._known, self._proven + rank * self._step)
        return within[:-1]

    def improve(self, found: Iterable[tuple[int, int]]) -> bool:
        """Take results for all budgets at which they are quicker."""
        before = self._known.sum()
        for makespan, crossbars in found:
            better = self._known[crossbars:-1]
            np.minimum(better, makespan, out=better)
        return bool(self._known.sum() < before)

    def _rooms(self, floor: Floor | None, used: int) -> Integers:
        """Return, for each budget that leaves so many crossbars, below how many ticks there is room."""
        below = self.below[used:]
        return below if floor is None else below - floor.whole(self.budget)[: len(below)]

    def _room(self, floor: Floor | None, used: int) -> int:
        """Return below how many ticks there is room at some budget."""
        room = self._most.get((floor, used))
        if room is None:
            room = self._most[floor, used] = int(self._rooms(floor, used).max())
        return room
