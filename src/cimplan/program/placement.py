"""Where the data are while a program is generated: batches of bytes in memory arrays, and main memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cimplan.plan.dual_mode import NETWORK, DualModePlan, Segment, Store, array_numbers
from cimplan.program.coverage import Products, Ranges
from cimplan.program.language import Box, Bytes, Indices
from cimplan.program.naming import Names
from cimplan.program.tiling import Range, output_spans, spread


@dataclass(frozen=True, slots=True)
class Batch:
    """Bytes that were put into arrays together, spread evenly over them."""

    arrays: Indices
    data: Bytes


@dataclass(slots=True)
class StoreUse:
    """A store of the segment at hand.

    Attributes
    ----------
    store : Store
        As the plan has it.
    tensor : str or None
        What it holds; None where the arrays buffer whatever their target moves.
    arrays : Indices
        Its arrays.
    batches : list of Batch
        What lies in it.
    filled : bool
        Whether anything was ever put into it.
    """

    store: Store
    tensor: str | None
    arrays: Indices
    batches: list[Batch]
    filled: bool = False


class Placement:
    """Follows the data through the segments of a plan.

    Parameters
    ----------
    plan : DualModePlan
        The plan.
    names : Names
        Its declarations.
    """

    def __init__(self, plan: DualModePlan, names: Names) -> None:
        self._plan = plan
        self._names = names
        self.main: dict[str, Ranges] = {}
        for tensor in names.tensors:
            self.main[tensor.name] = Ranges()
            if tensor.kind in ("input", "constant"):
                self.main[tensor.name].add(0, names.sizes[tensor.name])
        self._results = {decl.writes for decl in names.operators}
        self._uses: list[StoreUse] = []
        self._used_bytes: dict[int, int] = {}
        self._present: set[int] = set()
        self._last_segment: dict[int, int] = {}
        for index, segment in enumerate(plan.segments):
            for part in segment.parts:
                self._last_segment[part.operator] = index
        self._products = [Products(op.inputs, op.groups * op.outputs) for op in plan.operators]

    def begin(self, index: int, segment: Segment) -> list[Batch]:
        """Enter a segment; return what was kept from the one before and has no store here."""
        kept = [batch for use in self._uses for batch in use.batches]
        claimed: list[Batch] = []
        self._uses = []
        self._present = {part.operator for part in segment.parts}
        for store in segment.stores:
            arrays = Indices.of(array_numbers(store.placement))
            tensor = self._tensor_of(store)
            mine = set(arrays)
            batches = [batch for batch in kept if batch.data.tensor == tensor and mine.issuperset(batch.arrays)]
            claimed.extend(batches)
            self._uses.append(StoreUse(store, tensor, arrays, batches, filled=bool(batches)))
        lost = [batch for batch in kept if batch not in claimed]
        for batch in lost:
            for array in batch.arrays:
                self._used_bytes.pop(array, None)
        return lost

    def _tensor_of(self, store: Store) -> str | None:
        if store.source is None:
            return None
        if store.source != NETWORK:
            return self._names.operators[store.source].writes
        # The input of the network that most of its readers in this segment share.
        readers = [store.target] if store.target is not None else sorted(self._present)
        votes: dict[str, int] = {}
        for reader in readers:
            decl = self._names.operators[reader]
            for tensor in dict.fromkeys((*decl.reads, *decl.matrix)):
                if tensor not in self._names.constants and not self._made(tensor):
                    votes[tensor] = votes.get(tensor, 0) + 1
        return max(votes, key=lambda tensor: votes[tensor], default=None)

    def _made(self, tensor: str) -> bool:
        return tensor in self._results

    def buffers_of(self, operator: int) -> list[StoreUse]:
        """Return arrays that may take what an operator reads from main memory."""
        return [
            use
            for use in self._uses
            if use.store.target in (None, operator) and not use.filled and use.store.source not in self._present
        ]

    def stores_of(self, operator: int) -> Iterator[StoreUse]:
        """Yield the stores of the segment that take an operator's result."""
        for use in self._uses:
            if use.store.source == operator:
                yield use

    def read_elsewhere(self, operator: int) -> bool:
        """Whether an operator of the segment reads a result and may not read it from every array that holds it."""
        readers = self._present.intersection(self._names.readers.get(self._names.operators[operator].writes, ()))
        for use in self.stores_of(operator):
            target = use.store.target
            if target is not None and readers - {target}:
                return True
        return False

    def writes_through(self, index: int, operator: int) -> bool:
        """Whether a result in arrays goes to main memory while the segment runs, because a later one needs it there."""
        if any(entry.operator == operator for entry in self._plan.segments[index].write_backs):
            return False
        uses = list(self.stores_of(operator))
        kept = bool(uses) and all(self._serves_next(index, use) for use in uses)
        return self._needed_after(index + 1 if kept else index, operator)

    def readable(self, operator: int, tensor: str) -> Iterator[Batch]:
        """Yield what an operator may read of a tensor from arrays of this segment."""
        for use in self._uses:
            if use.store.target in (None, operator) or use.store.source == operator:
                for batch in use.batches:
                    if batch.data.tensor == tensor:
                        yield batch

    def put(self, use: StoreUse, data: Bytes) -> Batch | None:
        """Put as much of a range into a store as fits; return what was put."""
        count = len(use.arrays)
        fullest = max(self._used_bytes.get(array, 0) for array in use.arrays)
        room = min(count * (self._plan.chip.array_bytes - fullest), data.size_bytes)
        if room <= 0:
            return None
        batch = Batch(use.arrays, Bytes(data.tensor, data.start, data.start + room))
        for array, (first, last) in zip(use.arrays, spread(room, count), strict=True):
            self._used_bytes[array] = self._used_bytes.get(array, 0) + last - first
        use.filled = True
        use.batches.append(batch)
        return batch

    def partial_sums(self, operator: int, boxes: tuple[Box, ...]) -> list[Range]:
        """Return the bytes of the result of which an earlier segment left partial sums."""
        decl = self._names.operators[operator]
        size = self._names.sizes[decl.writes]
        outputs = decl.groups * decl.outputs
        begun = Ranges()
        for box in boxes:
            for span in output_spans(decl, box):
                for first, last in self._products[operator].begun(span):
                    begun.add(size * first // outputs, size * last // outputs)
        return list(begun)

    def multiplied(self, operator: int, boxes: tuple[Box, ...], begun: list[Range]) -> None:
        """Note that boxes have been multiplied; partial sums stored before are old now."""
        decl = self._names.operators[operator]
        for box in boxes:
            for span in output_spans(decl, box):
                self._products[operator].add(span, box.inputs)
        for start, stop in begun:
            self.main[decl.writes].remove(start, stop)
            for use in self._uses:
                if use.tensor == decl.writes:
                    use.batches = [rest for batch in use.batches for rest in _outside(batch, start, stop)]

    def leaving(self, index: int, segment: Segment) -> Iterator[Batch]:
        """Yield what must be written back after a segment: needed later, not in main memory, not kept."""
        written = {entry.operator for entry in segment.write_backs}
        for use in self._uses:
            for batch in use.batches:
                tensor = batch.data.tensor
                maker = use.store.source
                if maker is None or maker == NETWORK or not self.main[tensor].gap(batch.data.start, batch.data.stop):
                    continue
                if maker in written or (not self._serves_next(index, use) and self._needed_after(index, maker)):
                    yield batch

    def _serves_next(self, index: int, use: StoreUse) -> bool:
        """Whether a store stays for the next segment, and all who read it there may."""
        if not use.store.kept_for_next or index + 1 >= len(self._plan.segments):
            return False
        following = self._plan.segments[index + 1]
        tensor = self._names.operators[use.store.source].writes if use.store.source is not None else ""
        readers = {part.operator for part in following.parts}.intersection(self._names.readers.get(tensor, ()))
        arrays = set(use.arrays)
        for store in following.stores:
            if store.source == use.store.source and arrays.issubset(array_numbers(store.placement)):
                return store.target is None or readers <= {store.target}
        return False

    def _needed_after(self, index: int, operator: int) -> bool:
        decl = self._names.operators[operator]
        if self._plan.operators[operator].leaves or self._last_segment[operator] > index:
            return True
        readers = self._names.readers.get(decl.writes, ())
        return not readers or any(self._last_segment[reader] > index for reader in readers)

    def end(self) -> list[int]:
        """Leave a segment; return the arrays to be emptied."""
        dropped: set[int] = set()
        for use in self._uses:
            if use.store.kept_for_next and use.batches:
                continue
            if use.filled:
                dropped.update(use.arrays)
            use.batches = []
        for array in dropped:
            self._used_bytes.pop(array, None)
        return sorted(dropped)


def _outside(batch: Batch, start: int, stop: int) -> Iterator[Batch]:
    """Yield what is left of a batch without the bytes from start to stop."""
    data = batch.data
    for low, high in ((data.start, min(start, data.stop)), (max(stop, data.start), data.stop)):
        if low < high:
            yield Batch(batch.arrays, Bytes(data.tensor, low, high))
