"""What the blocks after a cut take at least, for every number of crossbars left: the tables folded from the end.

`certificate_ahead` gives such bounds at a price per crossbar; here they are exact, as falling steps, because the
search of `certificate_search` has to close a difference of a thousandth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate import Point
from cimplan.plan.certificate_parts import Parts

NEVER = 2**62
"""Ticks of what cannot be done within the crossbars left."""

_MOST_STEPS = 1024


@dataclass(frozen=True)
class Steps:
    """A falling function of the crossbars left: the last step that fits counts.

    Attributes
    ----------
    steps : tuple of (int, int)
        (crossbars, ticks), crossbars rising and ticks falling, both strictly.
    """

    steps: tuple[tuple[int, int], ...]

    @staticmethod
    def least(pairs: Iterable[tuple[int, int]]) -> Steps:
        """Return the least ticks of (crossbars, ticks) pairs; with very many steps, a function slightly below."""
        kept: list[tuple[int, int]] = []
        for crossbars, ticks in sorted(pairs):
            if not kept or ticks < kept[-1][1]:
                kept.append((crossbars, ticks))
        while len(kept) > _MOST_STEPS:
            # Two steps in one: the fewer crossbars and the fewer ticks of both.
            kept = [(kept[i][0], kept[min(i + 1, len(kept) - 1)][1]) for i in range(0, len(kept), 2)]
        return Steps(tuple(kept))

    def at(self, crossbars_left: int) -> int:
        """Return the least ticks within a number of crossbars."""
        position = bisect_right(self._crossbars, crossbars_left)
        return self.steps[position - 1][1] if position else NEVER

    def after(self, crossbars: int, ticks: int) -> Iterable[tuple[int, int]]:
        """Yield the steps that remain when something else is done too."""
        return ((crossbars + more, ticks + further) for more, further in self.steps)

    def or_greater(self, other: Steps) -> Steps:
        """Return the greater of two functions."""
        corners = {crossbars for steps in (self, other) for crossbars, _ in steps.steps}
        pairs = ((crossbars, max(self.at(crossbars), other.at(crossbars))) for crossbars in corners)
        return Steps.least(pair for pair in pairs if pair[1] < NEVER)

    @cached_property
    def _crossbars(self) -> tuple[int, ...]:
        return tuple(crossbars for crossbars, _ in self.steps)


NOTHING = Steps(((0, 0),))


@dataclass(frozen=True)
class Suffix:
    """Bounds on what follows each cut.

    Attributes
    ----------
    time, load : tuple of mapping of int to Steps
        Entry k holds, per option of the cut before block k, the ticks from its finish to the end of the spine, and
        from the moment when the host has done all work of the spine until then, to the end. The last entry is the end.
    deadline : int
        Number of the first cut that follows all fillers, or the number of cuts.
    """

    time: tuple[Mapping[int, Steps], ...]
    load: tuple[Mapping[int, Steps], ...]
    deadline: int

    def ends(self, number: int, end: Sequence[Option] | None) -> tuple[list[Steps], list[Steps]]:
        """Return what is left from the start of the end of a block, for each of its options: time, and host load."""
        if end is None:
            return [NOTHING], [NOTHING]
        times, loads = [], []
        for b, option in enumerate(end):
            time = self.time[number + 1].get(b, _NO_WAY)
            load = self.load[number + 1].get(b, _NO_WAY)
            idle = option.place == HOST or number == self.deadline
            if number == self.deadline:
                load = load.or_greater(time)
            times.append(Steps.least(time.after(option.crossbars, option.duration)))
            loads.append(Steps.least(load.after(option.crossbars, option.duration if idle else 0)))
        return times, loads


_NO_WAY = Steps(())


def suffix(parts: Parts, first: int) -> Suffix:
    """Fold the tables from the end back to a block.

    Parameters
    ----------
    parts : Parts
        The certificate; its tables have been verified.
    first : int
        Number of the block.
    """
    count = len(parts.certificate.blocks)
    deadline = max((group.due for group in parts.groups), default=count - 1)
    time: list[Mapping[int, Steps]] = [{-1: NOTHING}]
    load: list[Mapping[int, Steps]] = [{-1: NOTHING}]
    for number in reversed(range(count)):
        end = parts.boundary(number)[1]
        options = None if end is None else parts.problem.options[end]
        times: dict[int, list[tuple[int, int]]] = {}
        loads: dict[int, list[tuple[int, int]]] = {}
        for a, b, points in parts.points(number) if number >= first else ():
            then_time, then_load = time[-1].get(b, _NO_WAY), load[-1].get(b, _NO_WAY)
            if number == deadline:
                then_load = then_load.or_greater(then_time)
            option = None if options is None else options[b]
            for point in points:
                host_time = _until_idle(point, option) if number == deadline else point.host_time
                times.setdefault(a, []).extend(then_time.after(point.crossbars, point.time))
                loads.setdefault(a, []).extend(then_load.after(point.crossbars, host_time))
        time.append({a: Steps.least(pairs) for a, pairs in times.items()})
        load.append({a: Steps.least(pairs) for a, pairs in loads.items()})
    return Suffix(tuple(reversed(time)), tuple(reversed(load)), deadline)


def _until_idle(point: Point, end: Option | None) -> int:
    """Return the host's time for a block whose end starts when all that came before is done, till that end's finish."""
    if end is None or end.place == HOST:
        return point.host_time
    return point.host_time + end.duration
