"""Which arrays take which role, so that as few as possible switch.

Arrays are interchangeable, so going from m to m' arrays in memory mode needs |m - m'| switches and no more. Data that
stay over a boundary must lie in arrays that are in memory mode on both sides; which arrays leave memory mode is
chosen among the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from cimplan.dualmode.variants import Allocation
from cimplan.plan.dual_mode import ArrayRange, array_numbers, array_ranges


class Placer:
    """Hands out arrays segment by segment. All arrays start in compute mode; computing ones are taken from below."""

    def __init__(self, arrays: int) -> None:
        self._arrays = arrays
        self._memory: set[int] = set()
        self._kept: tuple[ArrayRange, ...] = ()

    def place(
        self, allocation: Allocation, memory_mode: int
    ) -> tuple[
        tuple[ArrayRange, ...], tuple[ArrayRange, ...], list[tuple[ArrayRange, ...]], list[tuple[ArrayRange, ...]]
    ]:
        """Return the arrays of one segment.

        Parameters
        ----------
        allocation : Allocation
            Counts of the segment.
        memory_mode : int
            Arrays in memory mode, used or idle.

        Returns
        -------
        tuple
            Arrays that switch to memory, arrays that switch to compute, the arrays of each part, and of each store.
        """
        kept = set(array_numbers(self._kept))
        before = set(self._memory)
        if memory_mode >= len(before):
            computing = [array for array in range(self._arrays - 1, -1, -1) if array not in before]
            now = before | set(computing[: memory_mode - len(before)])
        else:
            droppable = sorted(before - kept)
            now = before - set(droppable[: len(before) - memory_mode])
        to_memory, to_compute = array_ranges(now - before), array_ranges(before - now)
        free = [array for array in range(self._arrays) if array not in now]
        parts: list[tuple[ArrayRange, ...]] = []
        for count in allocation.compute:
            parts.append(array_ranges(free[:count]))
            free = free[count:]
        stores = self._stores(allocation, now, kept)
        self._memory = now
        self._kept = next(
            (ranges for store, ranges in zip(allocation.stores, stores, strict=True) if store.kept_for_next), ()
        )
        return to_memory, to_compute, parts, stores

    def _stores(self, allocation: Allocation, now: set[int], kept: set[int]) -> list[tuple[ArrayRange, ...]]:
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
