"""What has been written and what has been multiplied: sets of ranges that grow while a program is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Range = tuple[int, int]


class Ranges:
    """A set of whole numbers kept as disjoint ascending half-open ranges."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, *ranges: Range) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    @classmethod
    def single(cls, start: int, stop: int) -> Ranges:
        """Return the numbers from start to stop, without stop; quicker than adding them."""
        ranges = cls()
        if start < stop:
            ranges._starts.append(start)
            ranges._stops.append(stop)
        return ranges

    def __iter__(self) -> Iterator[Range]:
        return iter(zip(self._starts, self._stops, strict=True))

    def add(self, start: int, stop: int) -> None:
        """Put in the numbers from start to stop, without stop."""
        if start >= stop:
            return
        low = bisect_left(self._stops, start)
        high = bisect_right(self._starts, stop)
        if low < high:
            start = min(start, self._starts[low])
            stop = max(stop, self._stops[high - 1])
        self._starts[low:high] = [start]
        self._stops[low:high] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Take out the numbers from start to stop, without stop."""
        if start >= stop:
            return
        low = bisect_right(self._stops, start)
        high = bisect_left(self._starts, stop)
        if low >= high:
            return
        left, right = self._starts[low], self._stops[high - 1]
        kept = [(left, start)] if left < start else []
        if stop < right:
            kept.append((stop, right))
        self._starts[low:high] = [first for first, _ in kept]
        self._stops[low:high] = [last for _, last in kept]

    def gap(self, start: int, stop: int) -> Range | None:
        """Return the first stretch between start and stop that is missing, None if all is there."""
        at = bisect_right(self._stops, start)
        if start >= stop:
            return None
        if at == len(self._starts) or self._starts[at] >= stop:
            return (start, stop)
        if self._starts[at] > start:
            return (start, self._starts[at])
        if self._stops[at] < stop:
            following = self._starts[at + 1] if at + 1 < len(self._starts) else stop
            return (self._stops[at], min(following, stop))
        return None


class Products:
    """Which inputs of which outputs of an operator have been multiplied.

    Parameters
    ----------
    inputs : int
        Inputs of each output.
    outputs : int
        Outputs, counted through all groups.
    """

    __slots__ = ("_done", "_full", "_outputs", "_starts")

    def __init__(self, inputs: int, outputs: int) -> None:
        self._full: tuple[Range, ...] = ((0, inputs),)
        self._outputs = outputs
        self._starts = [0]
        self._done: list[tuple[Range, ...]] = [()]

    def add(self, span: Range, inputs: Range) -> bool:
        """Multiply inputs for a span of outputs; return False if some of it was done before."""
        fresh = True
        for at in self._cut(span):
            before = self._done[at]
            if any(start < inputs[1] and inputs[0] < stop for start, stop in before):
                fresh = False
            merged = Ranges(*before, inputs)
            self._done[at] = tuple(merged)
        return fresh

    def begun(self, span: Range) -> list[Range]:
        """Return the outputs in a span of which some inputs, but perhaps not all, have been multiplied."""
        return [(self._starts[at], self._stop(at)) for at in self._cut(span) if self._done[at]]

    def unfinished(self, span: Range) -> Range | None:
        """Return the first outputs in a span that lack inputs, None if all are complete."""
        for at in self._cut(span):
            if self._done[at] != self._full:
                return (self._starts[at], self._stop(at))
        return None

    def _stop(self, at: int) -> int:
        return self._starts[at + 1] if at + 1 < len(self._starts) else self._outputs

    def _cut(self, span: Range) -> range:
        start, stop = span
        if start >= stop:
            return range(0)
        return range(self._border(start), self._border(stop))

    def _border(self, output: int) -> int:
        """Return the index of the stretch that begins at an output, cutting one in two where needed."""
        at = bisect_left(self._starts, output)
        if output < self._outputs and (at == len(self._starts) or self._starts[at] != output):
            self._starts.insert(at, output)
            self._done.insert(at, self._done[at - 1])
        return at
