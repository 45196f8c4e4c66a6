"""Lanes of a timeline: bars that overlap in time go to different lanes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


def lanes(bars: Iterable[tuple[int, int]]) -> list[int]:
    """Return a lane for each bar so that no two bars of a lane overlap, with the fewest lanes.

    Parameters
    ----------
    bars : iterable of tuple of int
        Start and finish of each bar; a bar may follow another in its lane at once.

    Returns
    -------
    list of int
        Lane of each bar, from 0; earlier bars get lower lanes.
    """
    listed = list(bars)
    found = [0] * len(listed)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    # Greedy colouring by start is optimal for intervals. Among bars of one start the empty ones go first, so that
    # a bar without length never stands inside another one.
    for index in sorted(range(len(listed)), key=lambda bar: (*listed[bar], bar)):
        start, finish = listed[index]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        found[index] = lane
        heapq.heappush(busy, (finish, lane))
    return found
