"""When each array of a dual-mode chip computes and when it remembers, over a whole plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from cimplan.plan.dual_mode import ArrayRange, DualModePlan, array_numbers, array_ranges

Mode = Literal["compute", "memory"]

COMPUTE: Final[Mode] = "compute"
MEMORY: Final[Mode] = "memory"


@dataclass(frozen=True, slots=True)
class ModeSpan:
    """A time in which an array keeps its mode; the switch that ends it belongs to the next span.

    Attributes
    ----------
    mode : {"compute", "memory"}
        What the array is set to, whether or not it is used.
    first, end : int
        Segments, `end` exclusive.
    """

    mode: Mode
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class ArrayGroup:
    """Arrays that have the same modes all the time.

    Attributes
    ----------
    arrays : tuple of ArrayRange
        Their numbers.
    spans : tuple of ModeSpan
        Without gaps, from the first segment to the last; neighbours differ in mode.
    """

    arrays: tuple[ArrayRange, ...]
    spans: tuple[ModeSpan, ...]


def segment_starts(plan: DualModePlan) -> list[int]:
    """Return the cycle at which each segment begins, its switches included, and at last the end of the plan."""
    starts = [0]
    for segment in plan.segments:
        starts.append(starts[-1] + segment.total_cycles)
    return starts


def mode_history(plan: DualModePlan) -> tuple[ArrayGroup, ...]:
    """Return the modes of all arrays, those with the same history together, in the order of their first array.

    Every array begins in compute mode.
    """
    current: list[Mode] = [COMPUTE] * plan.chip.arrays
    since = [0] * plan.chip.arrays
    spans: list[list[ModeSpan]] = [[] for _ in range(plan.chip.arrays)]
    for index, segment in enumerate(plan.segments):
        switched: tuple[tuple[tuple[ArrayRange, ...], Mode], ...] = (
            (segment.to_compute, COMPUTE),
            (segment.to_memory, MEMORY),
        )
        for ranges, mode in switched:
            for array in array_numbers(ranges):
                if since[array] < index:
                    spans[array].append(ModeSpan(current[array], since[array], index))
                current[array], since[array] = mode, index
    for array in range(plan.chip.arrays):
        spans[array].append(ModeSpan(current[array], since[array], len(plan.segments)))
    groups: dict[tuple[ModeSpan, ...], list[int]] = {}
    for array, found in enumerate(spans):
        groups.setdefault(tuple(found), []).append(array)
    return tuple(ArrayGroup(array_ranges(arrays), found) for found, arrays in groups.items())


def ranges_text(ranges: tuple[ArrayRange, ...]) -> str:
    """Return array numbers for people: ``0-15, 40``."""
    return ", ".join(str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in ranges)
