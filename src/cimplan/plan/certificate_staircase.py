"""The lower left border of points in a plane: what is left to compare when a third number is sorted."""

from __future__ import annotations

from bisect import bisect_right


class Staircase:
    """Points of which none is as small as another in both coordinates."""

    def __init__(self) -> None:
        self._xs: list[int] = []
        self._ys: list[int] = []

    def take(self, x: int, y: int) -> bool:
        """Take a point unless one that is here is nowhere larger; tell whether it was taken."""
        xs, ys = self._xs, self._ys
        at = bisect_right(xs, x)
        if at and ys[at - 1] <= y:
            return False
        last = at
        while last < len(xs) and ys[last] >= y:
            last += 1
        first = at - 1 if at and xs[at - 1] == x else at
        xs[first:last] = [x]
        ys[first:last] = [y]
        return True
