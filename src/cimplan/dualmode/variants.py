"""What a cost model offers the segmentation: for each window of pieces, the ways to run it as one segment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from cimplan.dualmode.curve import Cycles
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.windows import PieceNetwork, Window


class Variant(NamedTuple):
    """One way to run a window as a segment, before arrays are handed out.

    Attributes
    ----------
    segment : hashable
        What the run time follows from; segments alike are solved once.
    enters, leaves : int
        1 if data stay in memory arrays over the boundary before or after the segment, else 0. Neighbours must agree.
    after_cycles : int
        T_back, paid after the segment.
    written_back : tuple of (int, int)
        Parts whose results are written back, and their bytes.
    """

    segment: Hashable
    enters: int = 0
    leaves: int = 0
    after_cycles: int = 0
    written_back: tuple[tuple[int, int], ...] = ()


class StoreCount(NamedTuple):
    """Memory arrays of one role in a segment, before they have numbers.

    Attributes
    ----------
    source, target : int or None
        As in `cimplan.plan.dual_mode.Store`, but parts of the segment instead of operators.
    arrays, held_bytes : int
        How many, and what lies in them.
    kept_from_previous, kept_for_next : bool
        Whether the data stay over a boundary.
    readers : tuple of int
        Parts that read them; where bytes are held and `source` is None, the data are what these read.
    """

    source: int | None
    target: int | None
    arrays: int
    held_bytes: int
    kept_from_previous: bool = False
    kept_for_next: bool = False
    readers: tuple[int, ...] = ()


class Allocation(NamedTuple):
    """Arrays of a segment, as counts.

    Attributes
    ----------
    cycles, write_cycles : int
        T and T_write.
    compute : tuple of int
        Computing arrays of each part.
    inputs, outputs : tuple of int
        Memory arrays of each part on either side.
    part_cycles : tuple of int
        L of each part.
    stores : tuple of StoreCount
        All memory arrays.
    """

    cycles: int
    write_cycles: int
    compute: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    part_cycles: tuple[int, ...]
    stores: tuple[StoreCount, ...]


class SegmentModel(Protocol):
    """A cost model, as the segmentation sees it.

    Attributes
    ----------
    rates : Rates
        The chip.
    states : int
        1, or 2 if data may stay in memory arrays over a boundary.
    """

    rates: Rates
    states: int

    def variants(self, network: PieceNetwork, window: Window, *, memory: bool) -> Sequence[Variant]:
        """Return the ways to run a window; without `memory`, those without arrays in memory mode."""
        ...

    def curve(self, segment: Hashable, *, modes: int, duplicate: bool) -> Cycles:
        """Return the least T + T_write for 0 … `modes` - 1 arrays in memory mode."""
        ...

    def floor(self, segment: Hashable, *, duplicate: bool) -> int:
        """Return a lower bound of the curve that only grows when pieces are added."""
        ...

    def relaxed(self, window: Window, *, modes: int) -> Cycles:
        """Return a lower bound of T + T_write of every window that ends with this one, for each number of arrays."""
        ...

    def allocate(self, variant: Variant, memory_mode: int, *, duplicate: bool) -> Allocation:
        """Return the arrays with which a variant reaches its curve at `memory_mode`."""
        ...
