"""What a fold still has to take at least, so that hopeless labels need not be kept.

Every crossbar is given a price, in ticks. Whatever the rest of the fold does within the crossbars that are left, its
time is at least the least (time + price of the crossbars used) minus the price of all crossbars left: the Lagrangian
relaxation of the budget. The same holds for the host's time. Any price gives a valid bound; a good one is found by
bisection, and a price of 0 is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cimplan.cost.problem import Option
from cimplan.plan.certificate import Point
from cimplan.plan.certificate_parts import Parts, Table, host_time
from cimplan.plan.effort import Effort


@dataclass(frozen=True, slots=True)
class Ahead:
    """Least further cost from each block on, at one price.

    Attributes
    ----------
    price : int
        Ticks per crossbar.
    least : tuple of mapping
        For each block, and the end: option of its start cut to the least cost from there on, prices included.
    crossbars : int
        Crossbars that the least cost from the beginning takes.
    """

    price: int
    least: tuple[Mapping[int, int], ...]
    crossbars: int

    def from_block(self, number: int, option: int, crossbars_left: int) -> int:
        """Return the least that blocks from `number` on add, within the crossbars left."""
        return self.least[number][option] - self.price * crossbars_left


def time_ahead(parts: Parts, crossbars_left: int, effort: Effort) -> list[Ahead]:
    """Return bounds on the time still to come: that of the blocks, and what long fillers delay.

    The latter holds also where a fold does not count it: no filler of which a block knows has started before it.
    """

    def priced(price: int) -> Ahead:
        effort.spend_steps(_size(parts))
        extra = _fillers(parts, len(parts.tables), price, parts.waits.delay)
        return _priced(parts.tables, price, lambda point: point.time, extra)

    return _with_good_price(priced, crossbars_left)


def host_ahead(parts: Parts, crossbars_left: int, effort: Effort) -> list[Ahead]:
    """Return bounds on the host's work still to come (e grows by it at least)."""

    def priced(price: int) -> Ahead:
        effort.spend_steps(_size(parts))
        extra = _fillers(parts, len(parts.tables), price, lambda _, option: host_time(option))
        return _priced(parts.tables, price, lambda point: point.host_time, extra)

    return _with_good_price(priced, crossbars_left)


def _size(parts: Parts) -> int:
    """Return how many steps one price takes."""
    return (parts.entries + sum(len(parts.problem.options[v]) for g in parts.groups for v in g.operators)) // 8


def _with_good_price(priced: Callable[[int], Ahead], crossbars_left: int) -> list[Ahead]:
    """Return the bounds at price 0 and at a price where the crossbars used pass those that are left."""
    free = priced(0)
    if free.crossbars <= crossbars_left:
        return [free]
    low, high = 0, 1
    best = priced(high)
    while best.crossbars > crossbars_left and high < 2**62:
        low, high = high, 2 * high
        best = priced(high)
    while high - low > 1:
        middle = (low + high) // 2
        found = priced(middle)
        if found.crossbars > crossbars_left:
            low = middle
        else:
            high, best = middle, found
    return [free, best]


def _fillers(parts: Parts, blocks: int, price: int, weight: Callable[[int, Option], int]) -> list[tuple[int, int]]:
    """Return (cost, crossbars) of the fillers released at each block when each operator takes its cheapest option."""
    extra = [(0, 0)] * blocks
    for group in parts.groups:
        for v in group.operators:
            cost, crossbars = min(
                (price * option.crossbars + weight(group.released, option), option.crossbars)
                for option in parts.problem.options[v]
            )
            before = extra[group.released]
            extra[group.released] = (before[0] + cost, before[1] + crossbars)
    return extra


def _priced(
    tables: Sequence[Table], price: int, weight: Callable[[Point], int], extra: Sequence[tuple[int, int]]
) -> Ahead:
    after: dict[int, tuple[int, int]] = {}
    least: list[dict[int, int]] = []
    for number in reversed(range(len(tables))):
        here: dict[int, tuple[int, int]] = {}
        for from_option, to_option, points in tables[number]:
            rest = (0, 0) if number == len(tables) - 1 else after.get(to_option)
            if rest is None or not points:
                continue
            cost, crossbars = min((weight(point) + price * point.crossbars, point.crossbars) for point in points)
            found = (cost + rest[0] + extra[number][0], crossbars + rest[1] + extra[number][1])
            if from_option not in here or found < here[from_option]:
                here[from_option] = found
        least.append({option: cost for option, (cost, _) in here.items()})
        after = here
    least.reverse()
    last = {to_option: 0 for _, to_option, _ in tables[-1]}
    return Ahead(price, (*least, last), after.get(-1, (0, 0))[1])
