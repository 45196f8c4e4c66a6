"""What a fold still has to take at least, within every number of crossbars: `certificate_ahead` for several budgets.

A price per crossbar is good for one budget. Here the least further time, and the least further work of the host, is
known exactly for each number of crossbars that are left, by a (min, +) convolution of the tables from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cimplan.cost.problem import Option
from cimplan.plan.certificate import Point
from cimplan.plan.certificate_parts import Parts, host_time
from cimplan.plan.effort import Effort, TooLargeError

Integers: TypeAlias = NDArray[np.int64]

_MOST = 2**53
"""More ticks than any problem has; what is longer than that is as good as never."""

_MOST_CROSSBARS = 100_000
"""Budgets that are looked at together."""


class Floors:
    """Least further time and host work after each cut, for each number of crossbars left.

    Parameters
    ----------
    parts : Parts
        A certificate whose tables have been verified.
    effort : Effort
        For the tables.

    Raises
    ------
    OutOfEffortError
        If they are too large.
    """

    def __init__(self, parts: Parts, effort: Effort) -> None:
        self._budget = parts.certificate.budget
        if self._budget > _MOST_CROSSBARS:
            raise TooLargeError
        fillers = sum(len(parts.problem.options[v]) for group in parts.groups for v in group.operators)
        effort.spend_steps((parts.entries + fillers) * (8 + self._budget // 128))
        self._time = self._least(parts, lambda point: point.time, parts.waits.delay)
        self._host = self._least(parts, lambda point: point.host_time, lambda _, option: host_time(option))
        steps = parts.targets.steps
        self._budgets = np.array([step.budget for step in steps], dtype=np.int64)
        self._bounds = np.array([min(step.bound, _MOST) for step in steps], dtype=np.int64)
        self._rooms: dict[tuple[int, int, int], tuple[tuple[int, int], ...]] = {}

    def room(self, number: int, option: int, crossbars: int, time: int, host_free: int) -> bool:
        """Tell whether what follows a cut may still end before the bound of some step.

        Parameters
        ----------
        number, option : int
            The block that follows, and the option of the cut before it.
        crossbars, time, host_free : int
            Taken so far; the finish of the cut; when the host can have done all work so far.
        """
        if crossbars > self._budget:
            return False
        key = number, option, crossbars
        rooms = self._rooms.get(key)
        if rooms is None:
            rooms = self._rooms[key] = self._rooms_after(number, option, crossbars)
        return any(time < by_time and host_free < by_host for by_time, by_host in rooms)

    def _rooms_after(self, number: int, option: int, crossbars: int) -> tuple[tuple[int, int], ...]:
        """Return, per step, below what finish and host there is room; only what no other step allows anyway."""
        if option not in self._time[number]:
            return ()
        fitting = self._budgets >= crossbars
        left = self._budgets[fitting] - crossbars
        by_time = self._bounds[fitting] - self._time[number][option][left]
        by_host = self._bounds[fitting] - self._host[number][option][left]
        kept: list[tuple[int, int]] = []
        pairs = zip(by_time.tolist(), by_host.tolist(), strict=True)
        for pair in sorted(((a, b) for a, b in pairs if a > 0 and b > 0), reverse=True):
            if not kept or pair[1] > kept[-1][1]:
                kept.append(pair)
        return tuple(kept)

    def _least(
        self, parts: Parts, weight: Callable[[Point], int], filler: Callable[[int, Option], int]
    ) -> list[dict[int, Integers]]:
        """Return, for each block and the end, the least weight to come, by option of the cut before it."""
        last = {to_option: np.zeros(self._budget + 1, dtype=np.int64) for _, to_option, _ in parts.tables[-1]}
        found = [last]
        for number in reversed(range(len(parts.tables))):
            here: dict[int, Integers] = {}
            for from_option, to_option, points in parts.tables[number]:
                rest = found[-1].get(to_option)
                if rest is None:
                    continue
                mine = here.setdefault(from_option, np.full(self._budget + 1, _MOST, dtype=np.int64))
                for point in points:
                    _lower(mine, rest, point.crossbars, weight(point))
            released = [v for group in parts.released.get(number, ()) for v in group.operators]
            for v in released:
                for option, values in here.items():
                    grown = np.full(self._budget + 1, _MOST, dtype=np.int64)
                    for choice in parts.problem.options[v]:
                        _lower(grown, values, choice.crossbars, filler(number, choice))
                    here[option] = grown
            found.append(here)
        return found[::-1]


def _lower(values: Integers, rest: Integers, crossbars: int, ticks: int) -> None:
    """Lower values to what takes some crossbars and ticks, and then the rest."""
    if crossbars < 0 or ticks < 0:  # no honest table has these, and they would break the order of the steps
        raise TooLargeError
    if crossbars < len(values):
        part = values[crossbars:]
        np.minimum(part, rest[: len(part)] + min(ticks, _MOST), out=part)
