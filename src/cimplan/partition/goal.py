"""What a partial schedule must still be able to reach to be worth following."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol, TypeAlias

import numpy as np

from cimplan.partition.tables import Floor, Integers

Bounds: TypeAlias = Iterable[tuple[int, Floor | None]]
"""Pairs of ticks so far and what remains from there, None for nothing: the makespan is at least each sum."""


class OutOfTimeError(Exception):
    """The time limit has passed; caught inside the exact method."""


def watch(deadline: float | None) -> None:
    """Raise if a `time.perf_counter` has passed.

    Raises
    ------
    OutOfTimeError
        If so.
    """
    if deadline is not None and time.perf_counter() > deadline:
        raise OutOfTimeError


class Goal(Protocol):
    """What to look for.

    Attributes
    ----------
    budget : int
        Crossbars that no schedule may exceed.
    deadline : float or None
        `time.perf_counter` at which to give up.
    """

    budget: int
    deadline: float | None

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether a partial schedule that uses so many crossbars may lead to something better."""


class OneBudget:
    """Schedules within a budget that end before a known one."""

    def __init__(self, budget: int, below: int, deadline: float | None = None) -> None:
        self.budget, self.deadline = budget, deadline
        self.below = below

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether every bound leaves room."""
        left = self.budget - used
        if left < 0:
            return False
        return all((ticks if floor is None else ticks + floor.at(left)) < self.below for ticks, floor in bounds)


class EveryBudget:
    """Schedules that beat the best known one of their budget, for all budgets at once.

    Parameters
    ----------
    below : numpy.ndarray of int64
        The best known makespan for 0, 1, 2, … crossbars; never rising.
    """

    def __init__(self, below: Integers, deadline: float | None = None) -> None:
        self.budget, self.deadline = len(below) - 1, deadline
        self.below = below
        self._most: dict[tuple[Floor | None, int], int] = {}
        self._likely: dict[int, int] = {}

    def worthwhile(self, used: int, bounds: Bounds) -> bool:
        """Return whether at some budget every bound leaves room."""
        if used > self.budget:
            return False
        bounds = list(bounds)
        # Most questions are answered without arrays: no budget has room for one of the bounds alone,
        # or the budget that had room the last time has room again.
        if any(ticks >= self._room(floor, used) for ticks, floor in bounds):
            return False
        likely = self._likely.get(used)
        if likely is not None:
            below = self.below[likely]
            if all((ticks if floor is None else ticks + floor.at(likely - used)) < below for ticks, floor in bounds):
                return True
        alive = np.ones(len(self.below) - used, dtype=bool)
        for ticks, floor in bounds:
            alive &= self._rooms(floor, used) > ticks
        found = int(alive.argmax())
        if not alive[found]:
            return False
        self._likely[used] = used + found
        return True

    def _rooms(self, floor: Floor | None, used: int) -> Integers:
        """Return, for each budget that leaves so many crossbars, below how many ticks there is room."""
        below = self.below[used:]
        return below if floor is None else below - floor.whole(self.budget)[: len(below)]

    def _room(self, floor: Floor | None, used: int) -> int:
        """Return below how many ticks there is room at some budget."""
        key = (floor, used)
        if key not in self._most:
            self._most[key] = int(self._rooms(floor, used).max())
        return self._most[key]
