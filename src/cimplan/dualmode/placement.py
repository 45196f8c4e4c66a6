"""Which arrays take which role, so that as few as possible switch.

Arrays are interchangeable, so going from m to m' arrays in memory mode needs |m - m'| switches and no more. Data that
stay over a boundary must lie in arrays that are in memory mode on both sides; which arrays leave memory mode is
chosen among the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from cimplan.dualmode.variants import Allocation
from cimplan.plan.dual_mode import ArrayRange, array_numbers, array_ranges


class Placed(NamedTuple):
    """The arrays of one segment.

    Attributes
    ----------
    to_memory, to_compute : tuple of ArrayRange
        Arrays that switch before it.
    parts, stores : tuple of tuple of ArrayRange
        The arrays of each part and of each store.
    """

    to_memory: tuple[ArrayRange, ...]
    to_compute: tuple[ArrayRange, ...]
    parts: tuple[tuple[ArrayRange, ...], ...]
    stores: tuple[tuple[ArrayRange, ...], ...]


class Placer:
    """Hands out arrays segment by segment. All arrays start in compute mode; computing ones are taken from below."""

    def __init__(self, arrays: int) -> None:
        self._arrays = arrays
        self._memory: frozenset[int] = frozenset()
        self._kept: tuple[ArrayRange, ...] = ()
        self._known: dict[Hashable, tuple[Placed, frozenset[int], tuple[ArrayRange, ...]]] = {}

    def place(self, allocation: Allocation, memory_mode: int) -> Placed:
        """Return the arrays of the next segment.

        Parameters
        ----------
        allocation : Allocation
            Counts of the segment.
        memory_mode : int
            Arrays in memory mode, used or idle.
        """
        # A long network comes to the same situation again and again.
        key = (allocation, memory_mode, self._memory, self._kept)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._place(allocation, memory_mode)
        placed, self._memory, self._kept = found
        return placed

    def _place(self, allocation: Allocation, memory_mode: int) -> tuple[Placed, frozenset[int], tuple[ArrayRange, ...]]:
        kept = set(array_numbers(self._kept))
        before = self._memory
        if memory_mode >= len(before):
            computing = [array for array in range(self._arrays - 1, -1, -1) if array not in before]
            now = before | set(computing[: memory_mode - len(before)])
        else:
            droppable = sorted(before - kept)
            now = before - set(droppable[: len(before) - memory_mode])
        free = [array for array in range(self._arrays) if array not in now]
        parts: list[tuple[ArrayRange, ...]] = []
        for count in allocation.compute:
            parts.append(array_ranges(free[:count]))
            free = free[count:]
        stores = self._stores(allocation, now, kept)
        stays = next(
            (ranges for store, ranges in zip(allocation.stores, stores, strict=True) if store.kept_for_next), ()
        )
        return Placed(array_ranges(now - before), array_ranges(before - now), tuple(parts), tuple(stores)), now, stays

    def _stores(self, allocation: Allocation, now: frozenset[int], kept: set[int]) -> list[tuple[ArrayRange, ...]]:
        # From above, so that arrays which leave memory mode, taken from below, seldom hold what stays.
        free = sorted(now - kept, reverse=True)
        placed: dict[int, tuple[ArrayRange, ...]] = {}
        order = sorted(range(len(allocation.stores)), key=lambda index: not allocation.stores[index].kept_for_next)
        for index in order:
            store = allocation.stores[index]
            if store.kept_from_previous:
                placed[index] = self._kept
            else:
                placed[index] = array_ranges(free[: store.arrays])
                free = free[store.arrays :]
        return [placed[index] for index in range(len(allocation.stores))]


def switch_cycles(to_memory: Sequence[ArrayRange], to_compute: Sequence[ArrayRange], each: tuple[int, int]) -> int:
    """Return T_switch of arrays that switch; `each` is the cycles to memory and to compute of one array."""
    return each[0] * sum(count for _, count in to_memory) + each[1] * sum(count for _, count in to_compute)
