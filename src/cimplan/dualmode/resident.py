"""The resident cost model (ours, beyond the published one): memory arrays serve only bytes that lie in them.

What a segment moves passes main memory, shared by its operators, except for what memory arrays hold:

- results made in the segment and read in it: every read of a held byte is saved, and its way to main memory too if
  nothing after the segment needs it;
- an input that several operators of the segment read: all reads but the first;
- one tensor that stays in the same arrays over a boundary: all reads of the segment after it.

A held byte takes room for the whole segment (an array holds its capacity and no more), and its arrays have to serve
all accesses to it, filling included, at their rate:

    T >= OP_i / (Com_i · op)                                        for every part
    T >= (bytes moved - sum over stores of saved accesses · held bytes) / D_main
    T >= accesses · held bytes / (arrays · D_cim)                   for every store
    held bytes <= arrays · capacity

What is needed after the segment is written through to main memory while it runs, so nothing is written back later.
Weights pass main memory once: while they are written where that is charged by bandwidth, else while the segment runs.

For a given T the least memory arrays follow greedily, because the bytes a store saves grow with its arrays by equal
steps and a last smaller one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from cimplan.dualmode.curve import Cycles, best_curve, best_level
from cimplan.dualmode.rates import NEVER, Level, Rates, ceil_div
from cimplan.dualmode.split import PartSize
from cimplan.dualmode.variants import Allocation, StoreCount, Variant
from cimplan.dualmode.windows import PieceNetwork, Window


class Item(NamedTuple):
    """A tensor that memory arrays can hold during a segment.

    Attributes
    ----------
    size_bytes : int
        Its bytes, as far as they can be held.
    saves : int
        Accesses to main memory that each held byte saves.
    accesses : int
        Accesses that the arrays serve for each held byte, filling included.
    source : int or None
        Part that makes it; None if it comes from outside.
    readers : tuple of int
        Parts that read it from the arrays.
    kept_from_previous, kept_for_next : bool
        Whether it stays over a boundary.
    """

    size_bytes: int
    saves: int
    accesses: int
    source: int | None
    readers: tuple[int, ...]
    kept_from_previous: bool = False
    kept_for_next: bool = False


class ResidentSegment(NamedTuple):
    """What the run time of a segment follows from.

    Attributes
    ----------
    parts : tuple of PartSize
        In topological order.
    main_bytes : int
        Bytes that pass main memory if nothing but `forced` is held.
    forced : tuple of Item
        Tensors that are held whole.
    items : tuple of Item
        Tensors that may be held, whole or in part.
    """

    parts: tuple[PartSize, ...]
    main_bytes: int
    forced: tuple[Item, ...] = ()
    items: tuple[Item, ...] = ()


class ResidentModel:
    """Run times of segments under the resident cost model."""

    states = 2

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self._capacity = rates.chip.array_bytes
        self._cim_numerator, self._cim_denominator = rates.cim.as_integer_ratio()
        self._main_numerator, self._main_denominator = rates.main.as_integer_ratio()
        self._levels: dict[tuple[tuple[PartSize, ...], bool], list[Level]] = {}

    def variants(self, network: PieceNetwork, window: Window, *, memory: bool) -> list[Variant]:
        """Return the ways to run a window: with and without data that stay before it and after it."""
        moved = sum(self._main_bytes(size) for size in window.sizes)
        if not memory:
            return [Variant(ResidentSegment(window.sizes, moved))]
        view = _View(network, window)
        stays_in = view.carried_in()
        results = view.results(counts_outputs=self.rates.readings.data_moved != "inputs")
        inputs = view.inputs()
        found = []
        for enters in (0, 1) if stays_in is not None else (0,):
            before = inputs
            forced: tuple[Item, ...] = ()
            if enters and stays_in is not None:
                forced = (stays_in,)
                before = tuple(item for item in inputs if item.readers[0] not in stays_in.readers)
            found.append(self._variant(window, moved, forced, (*results, *before), enters, 0))
            stays_out = view.carried_out(stays_in if enters else None)
            if stays_out is not None:
                held = tuple(item for item in forced if not stays_out.kept_from_previous)
                others = tuple(item for item in (*results, *before) if not _same_tensor(item, stays_out))
                found.append(self._variant(window, moved, (*held, stays_out), others, enters, 1))
        return found

    def _main_bytes(self, size: PartSize) -> int:
        moved = self.rates.moved_bytes(size)
        readings = self.rates.readings
        if readings.data_moved == "inputs_outputs_weights" and readings.weight_writes in ("main_bandwidth", "both"):
            moved -= size.weight_bytes
        return moved

    def _variant(
        self, window: Window, moved: int, forced: tuple[Item, ...], items: tuple[Item, ...], enters: int, leaves: int
    ) -> Variant:
        moved -= sum(item.saves * item.size_bytes for item in forced)
        return Variant(ResidentSegment(window.sizes, moved, forced, items), enters, leaves)

    def levels(self, parts: tuple[PartSize, ...], *, duplicate: bool) -> list[Level]:
        """Return `Rates.levels`, remembered."""
        key = (parts, duplicate)
        if key not in self._levels:
            self._levels[key] = self.rates.levels(parts, duplicate=duplicate)
        return self._levels[key]

    def held(self, item: Item, arrays: int, cycles: int) -> int:
        """Return the bytes of a tensor that some arrays hold and serve within some cycles."""
        return min(item.size_bytes, arrays * self._step(item, cycles))

    def _step(self, item: Item, cycles: int) -> int:
        """Return the bytes that one array holds and serves within some cycles."""
        return min(self._capacity, self._cim_numerator * cycles // (self._cim_denominator * item.accesses))

    def _whole_cycles(self, item: Item) -> int:
        """Return how long an array serves all accesses to its whole content."""
        return ceil_div(self._capacity * item.accesses * self._cim_denominator, self._cim_numerator)

    def _forced(self, segment: ResidentSegment) -> tuple[int, int]:
        """Return the arrays of the tensors held whole, and the run time their accesses take at least."""
        cim = self.rates.cim
        arrays = cycles = 0
        for item in segment.forced:
            count = ceil_div(item.size_bytes, self.rates.chip.array_bytes)
            arrays += count
            cycles = max(cycles, ceil_div(item.accesses * item.size_bytes * cim.denominator, count * cim.numerator))
        return arrays, cycles

    def _gains(self, items: Sequence[Item], cycles: int, limit: int) -> list[tuple[int, int, int]]:
        """Return what arrays save within some cycles, best first: bytes each, how many arrays, of which item."""
        gains: list[tuple[int, int, int]] = []
        for index, item in enumerate(items):
            step = self._step(item, cycles)
            if not step or not item.saves:
                continue
            whole, rest = divmod(item.size_bytes, step)
            if whole:
                gains.append((-item.saves * step, index, whole))
            if rest:
                gains.append((-item.saves * rest, index, 1))
        gains.sort()
        taken = []
        for gain, index, count in gains:
            if limit <= 0:
                break
            taken.append((-gain, min(count, limit), index))
            limit -= count
        return taken

    def _enough(self, segment: ResidentSegment, arrays: int, cycles: int) -> bool:
        saved = sum(gain * count for gain, count, _ in self._gains(segment.items, cycles, arrays))
        return (segment.main_bytes - saved) * self._main_denominator <= cycles * self._main_numerator

    def memory_steps(self, segment: ResidentSegment, *, limit: int, enough_cycles: int) -> Iterator[tuple[int, int]]:
        """Yield (arrays in memory mode, shortest run time moving data alone), with growing arrays."""
        fixed, least = self._forced(segment)
        if fixed > limit:
            return
        last = max(least, self.rates.main_cycles(segment.main_bytes))
        yield fixed, last
        # Savings if no array were too slow to serve what it holds: a bound that is mostly reached.
        groups = self._gains(segment.items, NEVER, limit - fixed)
        quick = [gain for gain, count, _ in groups for _ in range(count)]
        # From here on an array serves its whole content in time, so that the bound is reached.
        in_time = max((self._whole_cycles(item) for item in segment.items), default=0)
        saved = 0
        for more, gain in enumerate(quick, start=1):
            if last <= max(enough_cycles, least, 1):
                return
            saved += gain
            cycles = max(least, 1, self.rates.main_cycles(max(0, segment.main_bytes - saved)))
            if cycles < in_time and not self._enough(segment, more, cycles):
                low, high = cycles, last
                while low + 1 < high:
                    middle = (low + high) // 2
                    low, high = (low, middle) if self._enough(segment, more, middle) else (middle, high)
                cycles = high
            if cycles < last:
                last = cycles
                yield fixed + more, cycles
        if last > max(enough_cycles, least, 1):
            yield from self._slow_steps(segment, fixed, len(quick), limit, last, max(enough_cycles, least, 1))

    def _slow_steps(
        self, segment: ResidentSegment, fixed: int, used: int, limit: int, last: int, enough: int
    ) -> Iterator[tuple[int, int]]:
        """Go on where all items fit but arrays are too slow for what they hold: more arrays share the accesses."""
        for more in range(used + 1, limit - fixed + 1):
            if not segment.items or last <= enough:
                return
            low, high = enough - 1, last
            while low + 1 < high:
                middle = (low + high) // 2
                low, high = (low, middle) if self._enough(segment, more, middle) else (middle, high)
            if high == last:
                # Not even one more array helps; beyond what every item can use, none will.
                if more > sum(ceil_div(item.size_bytes, max(1, self._step(item, last - 1))) for item in segment.items):
                    return
                continue
            last = high
            yield fixed + more, last

    def floor(self, segment: Hashable, *, duplicate: bool) -> int:
        """Return a lower bound of the curve: computing and writing alone, with all arrays."""
        levels = self.levels(cast(ResidentSegment, segment).parts, duplicate=duplicate)
        return levels[-1].cycles + levels[-1].write_cycles if levels else NEVER

    def curve(self, segment: Hashable, *, modes: int, duplicate: bool) -> Cycles:
        """Return the least T + T_write for 0 … `modes` - 1 arrays in memory mode."""
        case = cast(ResidentSegment, segment)
        levels = self.levels(case.parts, duplicate=duplicate)
        moving = np.full(modes, NEVER, dtype=np.int64)
        if levels:
            limit = min(modes - 1, self.rates.chip.arrays - levels[0].arrays)
            for arrays, cycles in self.memory_steps(case, limit=limit, enough_cycles=levels[-1].cycles):
                moving[arrays] = cycles
            np.minimum.accumulate(moving, out=moving)
        return best_curve(levels, moving, self.rates.chip.arrays)

    def relaxed(self, window: Window, *, modes: int) -> Cycles:
        """Return a bound of T + T_write of every window that ends with this one: as if moving data took no time."""
        return best_curve(
            self.levels(window.sizes, duplicate=True), np.zeros(modes, dtype=np.int64), self.rates.chip.arrays
        )

    def allocate(self, variant: Variant, memory_mode: int, *, duplicate: bool) -> Allocation:
        """Return the arrays with which a variant reaches its curve at `memory_mode`."""
        case = cast(ResidentSegment, variant.segment)
        rates = self.rates
        levels = self.levels(case.parts, duplicate=duplicate)
        steps = list(self.memory_steps(case, limit=memory_mode, enough_cycles=levels[-1].cycles))
        level = best_level(levels, steps[-1][1], memory_mode, rates.chip.arrays)
        arrays, moving = next((step for step in steps if step[1] <= level.cycles), steps[-1])
        cycles = max(moving, level.cycles)
        compute = tuple(rates.compute_arrays(part, cycles) if duplicate else part.arrays for part in case.parts)
        part_cycles = tuple(rates.compute_cycles(part, count) for part, count in zip(case.parts, compute, strict=True))
        counts = [0] * len(case.items)
        for _, count, index in self._gains(case.items, cycles, arrays - self._forced(case)[0]):
            counts[index] += count
        stores: list[StoreCount] = []
        inputs = [0] * len(case.parts)
        outputs = [0] * len(case.parts)
        whole = [(item, ceil_div(item.size_bytes, rates.chip.array_bytes)) for item in case.forced]
        slowest = max(part_cycles)
        left = case.main_bytes
        for item, count in (*whole, *zip(case.items, counts, strict=True)):
            if not count:
                continue
            held = item.size_bytes if item in case.forced else self.held(item, count, cycles)
            if item not in case.forced:
                left -= item.saves * held
            slowest = max(slowest, ceil_div(item.accesses * held * rates.cim.denominator, count * rates.cim.numerator))
            stores.append(
                StoreCount(
                    source=item.source,
                    target=item.readers[0] if len(item.readers) == 1 else None,
                    arrays=count,
                    held_bytes=held,
                    kept_from_previous=item.kept_from_previous,
                    kept_for_next=item.kept_for_next,
                    readers=item.readers,
                )
            )
            for reader in item.readers:
                inputs[reader] += count
            if item.source is not None:
                outputs[item.source] += count
        return Allocation(
            cycles=max(slowest, rates.main_cycles(left)),
            write_cycles=rates.write_cycles(case.parts, max(compute)),
            compute=compute,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            part_cycles=part_cycles,
            stores=tuple(stores),
        )


def _same_tensor(one: Item, other: Item) -> bool:
    if one.source is not None or other.source is not None:
        return one.source == other.source
    return bool(set(one.readers) & set(other.readers))


class _View:
    """What a window makes, reads and passes on."""

    def __init__(self, network: PieceNetwork, window: Window) -> None:
        self._network = network
        self._window = window
        self._first = window.ranges[0].operator
        last = window.ranges[-1]
        done = last.end == network.splits[last.operator].pieces
        self._next = last.operator + (1 if done else 0)

    def results(self, *, counts_outputs: bool) -> tuple[Item, ...]:
        """Return the results that are made and read in the window."""
        items = []
        for part, (span, size) in enumerate(zip(self._window.ranges, self._window.sizes, strict=True)):
            readers = tuple(
                reader for reader in range(part + 1, len(self._window.ranges)) if self._flow(part, reader) > 0
            )
            if not readers:
                continue
            held = min(self._flow(part, reader) for reader in readers)
            ends_here = not self._network.needed_after(span.operator, self._window.ranges[-1])
            saves = len(readers) + (1 if ends_here and counts_outputs else 0)
            items.append(Item(min(held, size.output_bytes), saves, 1 + len(readers), part, readers))
        return tuple(items)

    def inputs(self) -> tuple[Item, ...]:
        """Return the tensors from outside that several parts read whole."""
        groups: dict[str, list[int]] = {}
        for part in range(len(self._window.ranges)):
            if self._reads_whole(part) and self._source(part) is None:
                groups.setdefault(self._operand(part), []).append(part)
        items = []
        for readers in groups.values():
            alike = [part for part in readers if self._input_bytes(part) == self._input_bytes(readers[0])]
            if len(alike) > 1:
                items.append(self._input_item(tuple(alike)))
        return tuple(items)

    def carried_in(self) -> Item | None:
        """Return the input of the first part, if it can stay in memory arrays from the segment before."""
        if not self._reads_whole(0):
            return None
        operand, size = self._operand(0), self._input_bytes(0)
        readers = tuple(part for part in range(len(self._window.ranges)) if self._is_reader(part, operand, size))
        return Item(size, len(readers), len(readers), None, readers, kept_from_previous=True)

    def carried_out(self, stays_in: Item | None) -> Item | None:
        """Return the input of what follows the window, if it can stay in memory arrays for it."""
        network = self._network
        if self._next >= len(network.operators) or len(network.operators[self._next].reads) != 1:
            return None
        following = network.operators[self._next]
        if stays_in is not None and self._is_reader(0, following.operand, following.input_bytes):
            return stays_in._replace(kept_for_next=True)
        made = self._maker(following.reads[0], following.input_bytes)
        if made is not None:
            readers = tuple(
                part
                for part in range(made + 1, len(self._window.ranges))
                if self._flow(made, part) >= following.input_bytes
            )
            return Item(following.input_bytes, len(readers), 1 + len(readers), made, readers, kept_for_next=True)
        readers = tuple(
            part
            for part in range(len(self._window.ranges))
            if self._is_reader(part, following.operand, following.input_bytes) and self._source(part) is None
        )
        return self._input_item(readers)._replace(kept_for_next=True) if readers else None

    def _input_item(self, readers: tuple[int, ...]) -> Item:
        """Return an input that the first reader brings in and the others find in the arrays."""
        return Item(self._input_bytes(readers[0]), len(readers) - 1, len(readers), None, readers)

    def _operand(self, part: int) -> str:
        return self._network.operators[self._window.ranges[part].operator].operand

    def _input_bytes(self, part: int) -> int:
        return self._network.operators[self._window.ranges[part].operator].input_bytes

    def _is_reader(self, part: int, operand: str, size: int) -> bool:
        return self._reads_whole(part) and self._operand(part) == operand and self._input_bytes(part) == size

    def _reads_whole(self, part: int) -> bool:
        """Return whether a part reads all of one tensor."""
        span = self._window.ranges[part]
        split = self._network.splits[span.operator]
        if len(self._network.operators[span.operator].reads) != 1:
            return False
        return split.reads_whole or (span.first == 0 and span.end == split.pieces)

    def _source(self, part: int) -> int | None:
        """Return the part of the window that a part reads from, if there is one."""
        for source in self._network.operators[self._window.ranges[part].operator].reads:
            if source >= self._first:
                return source - self._first
        return None

    def _maker(self, operator: int, size: int) -> int | None:
        """Return the part that makes all of an operator's result, if the window does."""
        part = operator - self._first
        if not 0 <= part < len(self._window.ranges):
            return None
        span = self._window.ranges[part]
        whole = span.first == 0 and span.end == self._network.splits[span.operator].pieces
        return part if whole and self._window.sizes[part].output_bytes >= size else None

    def _flow(self, source: int, reader: int) -> int:
        """Return the bytes that go from one part to another."""
        operator = self._window.ranges[reader].operator
        reads = self._network.operators[operator].reads
        made = self._window.ranges[source].operator
        if made not in reads:
            return 0
        incoming = self._window.sizes[reader].input_bytes
        if len(reads) > 1:
            total = self._network.read_totals[operator]
            if not total:
                return 0
            incoming = incoming * self._network.operators[made].output_bytes // total
        return min(self._window.sizes[source].output_bytes, incoming)
