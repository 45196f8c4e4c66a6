"""The published cost model: memory arrays raise the bandwidth of everything an operator moves.

    L_i = max(OP_i / (Com_i · op), B_i / (Mem_i · D_cim + D_main)),   T = max L_i
    sum (Com_i + Mem_i) - sum shared_e <= N

For a given T the least Com_i and Mem_i are closed forms, feasibility is monotone in T, and both sides are independent
of each other until they meet in N. A memory array that holds a producer's results for a consumer counts for both.

Results in shared arrays that are needed after the segment have to leave them. Whether the producers of such results
may share is one decision a segment: if they may, all of their results in the segment are written back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from cimplan.dualmode.curve import Cycles, best_curve, best_level
from cimplan.dualmode.matching import SharingEdge, largest_sharing
from cimplan.dualmode.rates import NEVER, Level, Rates, ceil_div
from cimplan.dualmode.split import PartSize
from cimplan.dualmode.variants import Allocation, StoreCount, Variant
from cimplan.dualmode.windows import PieceNetwork, Window


class PublishedSegment(NamedTuple):
    """What the run time of a segment follows from.

    Attributes
    ----------
    parts : tuple of PartSize
        In topological order.
    sharing : tuple of SharingEdge
        Pairs of parts that may share memory arrays, and how many the data between them fill.
    memory : bool
        Whether arrays in memory mode may be used.
    """

    parts: tuple[PartSize, ...]
    sharing: tuple[SharingEdge, ...]
    memory: bool = True


class MemoryStep(NamedTuple):
    """The shortest run time that some arrays in memory mode allow, and who has how many.

    Attributes
    ----------
    cycles : int
        Run time, moving data alone.
    arrays : int
        Arrays in memory mode, shared ones counted once.
    per_part : tuple of int
        Mem of each part, shared ones included.
    shared : tuple of int
        Arrays shared on each edge of `PublishedSegment.sharing`.
    """

    cycles: int
    arrays: int
    per_part: tuple[int, ...]
    shared: tuple[int, ...]


class PublishedModel:
    """Run times of segments under the published cost model."""

    states = 1

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self._levels: dict[tuple[tuple[PartSize, ...], bool], list[Level]] = {}

    def variants(self, network: PieceNetwork, window: Window, *, memory: bool) -> list[Variant]:
        """Return the ways to run a window: without write-back, and with it if that lets more producers share."""
        if not memory:
            return [Variant(PublishedSegment(window.sizes, (), memory=False))]
        capacity = self.rates.chip.array_bytes
        first = window.ranges[0].operator
        sharing: list[SharingEdge] = []
        free: list[SharingEdge] = []
        late: dict[int, int] = {}
        for consumer, (operator, _, _) in enumerate(window.ranges):
            for source in network.operators[operator].reads:
                producer = source - first
                if producer < 0:
                    continue
                flow = min(window.sizes[producer].output_bytes, window.sizes[consumer].input_bytes)
                edge = (producer, consumer, ceil_div(flow, capacity))
                sharing.append(edge)
                if network.needed_after(source, window.ranges[-1]):
                    late[producer] = window.sizes[producer].output_bytes
                else:
                    free.append(edge)
        found = [Variant(PublishedSegment(window.sizes, tuple(free)))]
        if late:
            after = self.rates.write_back_cycles(sum(late.values()))
            found.append(
                Variant(
                    PublishedSegment(window.sizes, tuple(sharing)),
                    after_cycles=after,
                    written_back=tuple(sorted(late.items())),
                )
            )
        return found

    def bandwidth(self, parts: Sequence[PartSize]) -> list[tuple[int, int, int]]:
        """Return need, base and step of each part, so that L = ⌈need / (base + step · Mem)⌉.

        Where main memory is shared, each part has of it in proportion to the bytes it moves.
        """
        rates = self.rates
        moved = [rates.moved_bytes(part) for part in parts]
        scale = rates.main.denominator * rates.cim.denominator
        base = rates.main.numerator * rates.cim.denominator
        step = rates.cim.numerator * rates.main.denominator
        if rates.readings.main_bandwidth == "each":
            return [(size * scale, base, step) for size in moved]
        total = sum(moved)
        return [(size * scale * total, base * size, step * total) for size in moved]

    def memory_steps(self, segment: PublishedSegment, *, limit: int, enough_cycles: int = 1) -> Iterator[MemoryStep]:
        """Walk down the run times that more and more memory arrays allow.

        Parameters
        ----------
        segment : PublishedSegment
            The segment.
        limit : int
            Most arrays in memory mode.
        enough_cycles : int
            Run time below which nothing is gained.

        Yields
        ------
        MemoryStep
            Strictly shorter run times; the arrays never become fewer, because an array more shares at most one more.
        """
        needs = self.bandwidth(segment.parts)
        memory = [0] * len(needs)
        cycles = [ceil_div(need, base) if need else 0 for need, base, _ in needs]
        while True:
            slowest = max(cycles)
            shared = largest_sharing(memory, segment.sharing) if segment.sharing else []
            arrays = sum(memory) - sum(shared)
            if arrays > limit:
                return
            yield MemoryStep(slowest, arrays, tuple(memory), tuple(shared))
            if slowest <= enough_cycles or slowest <= 1 or not segment.memory:
                return
            for index, (need, base, step) in enumerate(needs):
                if cycles[index] == slowest:
                    memory[index] = ceil_div(need - base * (slowest - 1), step * (slowest - 1))
                    cycles[index] = ceil_div(need, base + step * memory[index])

    def levels(self, parts: tuple[PartSize, ...], *, duplicate: bool) -> list[Level]:
        """Return `Rates.levels`, remembered."""
        key = (parts, duplicate)
        if key not in self._levels:
            self._levels[key] = self.rates.levels(parts, duplicate=duplicate)
        return self._levels[key]

    def floor(self, segment: Hashable, *, duplicate: bool) -> int:
        """Return a lower bound of the curve: computing and writing alone, with all arrays."""
        levels = self.levels(cast(PublishedSegment, segment).parts, duplicate=duplicate)
        return levels[-1].cycles + levels[-1].write_cycles if levels else NEVER

    def curve(self, segment: Hashable, *, modes: int, duplicate: bool) -> Cycles:
        """Return the least T + T_write for 0 … `modes` - 1 arrays in memory mode."""
        case = cast(PublishedSegment, segment)
        levels = self.levels(case.parts, duplicate=duplicate)
        moving = np.full(modes, NEVER, dtype=np.int64)
        if levels:
            limit = min(modes - 1, self.rates.chip.arrays - levels[0].arrays)
            for step in self.memory_steps(case, limit=limit, enough_cycles=levels[-1].cycles):
                moving[step.arrays] = step.cycles
            np.minimum.accumulate(moving, out=moving)
        return best_curve(levels, moving, self.rates.chip.arrays)

    def relaxed(self, window: Window, *, modes: int) -> Cycles:
        """Return a bound of T + T_write of every window that ends with this one.

        Leaving parts away frees their arrays and what they move, so a longer window never runs faster; what its
        parts share at most is half of what they ask for.
        """
        levels = self.levels(window.sizes, duplicate=True)
        moving = np.full(modes, NEVER, dtype=np.int64)
        case = PublishedSegment(window.sizes, ())
        if levels:
            for step in self.memory_steps(case, limit=2 * (modes - 1), enough_cycles=levels[-1].cycles):
                arrays = ceil_div(step.arrays, 2)
                moving[arrays] = min(int(moving[arrays]), step.cycles)
            np.minimum.accumulate(moving, out=moving)
        return best_curve(levels, moving, self.rates.chip.arrays)

    def allocate(self, variant: Variant, memory_mode: int, *, duplicate: bool) -> Allocation:
        """Return the arrays with which a variant reaches its curve at `memory_mode`."""
        case = cast(PublishedSegment, variant.segment)
        rates = self.rates
        parts = case.parts
        levels = self.levels(parts, duplicate=duplicate)
        steps = list(self.memory_steps(case, limit=memory_mode, enough_cycles=levels[-1].cycles))
        level = best_level(levels, steps[-1].cycles, memory_mode, rates.chip.arrays)
        # The first step that is fast enough has the fewest arrays in memory mode.
        step = next((step for step in steps if step.cycles <= level.cycles), steps[-1])
        cycles = max(step.cycles, level.cycles)
        compute = (
            tuple(rates.compute_arrays(part, cycles) for part in parts)
            if duplicate
            else tuple(part.arrays for part in parts)
        )
        outputs = [0] * len(parts)
        shared_in = [0] * len(parts)
        stores: list[StoreCount] = []
        for (producer, consumer, _), amount in zip(case.sharing, step.shared, strict=True):
            if amount:
                outputs[producer] += amount
                shared_in[consumer] += amount
                held = min(amount * rates.chip.array_bytes, parts[producer].output_bytes, parts[consumer].input_bytes)
                stores.append(StoreCount(producer, consumer, amount, held, readers=(consumer,)))
        inputs = tuple(total - out for total, out in zip(step.per_part, outputs, strict=True))
        for index, count in enumerate(inputs):
            if count > shared_in[index]:
                stores.append(StoreCount(None, index, count - shared_in[index], 0, readers=(index,)))
        part_cycles = []
        for part, count, (need, base, gain), held in zip(
            parts, compute, self.bandwidth(parts), step.per_part, strict=True
        ):
            moving = ceil_div(need, base + gain * held) if need else 0
            part_cycles.append(max(rates.compute_cycles(part, count), moving))
        return Allocation(
            cycles=max(part_cycles),
            write_cycles=rates.write_cycles(parts, max(compute)),
            compute=compute,
            inputs=inputs,
            outputs=tuple(outputs),
            part_cycles=tuple(part_cycles),
            stores=tuple(stores),
        )
