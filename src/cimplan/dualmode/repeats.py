"""Parts of a network that are alike, and how the segmentation profits from them.

Windows that differ only in where they lie share one key, so they are solved once. And where the network repeats (the
pieces of one operator, the blocks of a transformer) the table of costs becomes periodic: once its last rows equal
earlier ones up to a constant, and what follows is alike, the following rows are the earlier ones plus that constant.
This is exact, because the recurrence depends on nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable

import numpy as np

from cimplan.dualmode.curve import Cycles
from cimplan.dualmode.rates import NEVER
from cimplan.dualmode.windows import PieceNetwork
from cimplan.plan.dual_mode import NETWORK


class Signatures:
    """Keys that are equal for windows which differ only in where they lie."""

    def __init__(self, network: PieceNetwork) -> None:
        self._network = network
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, first: int, end: int, first_operator: int, last_operator: int) -> Hashable:
        """Return the key of the window of pieces `first` to `end` (exclusive)."""
        network = self._network
        pair = (first_operator, last_operator)
        structure = self._known.get(pair)
        if structure is None:
            structure = self._known[pair] = self._structure(first_operator, last_operator)
        low = first - network.offsets[first_operator]
        high = end - network.offsets[last_operator]
        last = network.splits[last_operator]
        if first_operator == last_operator:
            return (structure, last.kind_of(low, high), low == 0, high == last.pieces)
        split = network.splits[first_operator]
        return (structure, split.kind_of(low, split.pieces), low == 0, last.kind_of(0, high), high == last.pieces)

    def _structure(self, first: int, last: int) -> int:
        """Return a number for the operators of a window, their edges, and the one that follows."""
        network = self._network
        members: list[Hashable] = []
        seen: dict[str, int] = {}
        for index in range(first, min(last + 2, len(network.operators))):
            op = network.operators[index]
            use = network.last_use[index]
            members.append(
                (
                    id(network.splits[index]),
                    tuple(source - first if source >= first else NETWORK for source in op.reads),
                    (use > last) + (use >= last),
                    seen.setdefault(op.operand, index - first),
                    network.read_totals[index],
                )
            )
        return self._numbers.setdefault((last - first, tuple(members)), len(self._numbers))


class CostTable:
    """The rows of the dynamic programme: those computed, and those known to repeat.

    Parameters
    ----------
    states, modes : int
        Shape of a row.
    """

    def __init__(self, states: int, modes: int) -> None:
        self._states = states
        self._modes = modes
        self._rows: dict[int, tuple[Cycles, Cycles]] = {}
        self._ends: list[int] = []
        self._repeats: list[tuple[int, int, int]] = []
        self._forms: dict[bytes, int] = {}
        self._profile: list[tuple[int, int]] = []

    def empty_row(self) -> Cycles:
        """Return a row in which nothing is reached."""
        return np.full((self._states, self._modes), NEVER, dtype=np.int64)

    def add(self, best: Cycles, ready: Cycles) -> None:
        """Add the next row: costs as reached, and after switching."""
        least = int(best.min())
        form = np.where(best < NEVER, best - least, NEVER).tobytes()
        self._rows[len(self._profile)] = (best, ready)
        self._profile.append((self._forms.setdefault(form, len(self._forms)), least))

    def row(self, number: int) -> tuple[Cycles, Cycles]:
        """Return a row: costs as reached, and after switching."""
        found = self._rows.get(number)
        if found is None:
            place = bisect_left(self._ends, number)
            start, period, gain = self._repeats[place]
            rounds, within = divmod(number - start - 1, period)
            best, ready = self.row(start - period + 1 + within)
            grown = (rounds + 1) * gain
            found = (np.where(best < NEVER, best + grown, NEVER), np.where(ready < NEVER, ready + grown, NEVER))
            self._rows[number] = found
        return found

    def last_rows(self, count: int) -> Hashable:
        """Return a key that is equal where the last rows are equal up to a constant."""
        profile = self._profile[-count:]
        floor = profile[-1][1]
        return tuple((form, least - floor) for form, least in profile)

    def repeat(self, earlier: int, until: int) -> None:
        """Add rows up to `until` that go on as after row `earlier`, up to the constant between it and the last row."""
        end = len(self._profile) - 1
        period = end - earlier
        gain = self._profile[end][1] - self._profile[earlier][1]
        self._ends.append(until)
        self._repeats.append((end, period, gain))
        for number in range(end + 1, until + 1):
            form, least = self._profile[number - period]
            self._profile.append((form, least + gain))


class Repeats:
    """Finds out where the network, and with it the table, repeats.

    Parameters
    ----------
    network : PieceNetwork
        The pieces.
    arrays : int
        Arrays of the chip.
    """

    def __init__(self, network: PieceNetwork, arrays: int) -> None:
        self._network = network
        self._arrays = arrays
        self._operator = -1
        self._run: dict[Hashable, int] = {}
        self._run_reach = 0
        self._blocks: dict[Hashable, int] = {}
        self._smallest = [int(split.piece_arrays.min()) for split in network.splits]
        self._reach = arrays // min(self._smallest) + 1
        self._alike = _operator_keys(network)

    def fill(self, table: CostTable, end: int) -> int:
        """Look at row `end`, just made; if what follows repeats, add it. Return the last row that is made."""
        network = self._network
        while self._operator < 0 or end > network.offsets[self._operator + 1]:
            self._operator += 1
            self._run = {}
            self._run_reach = self._arrays // self._smallest[self._operator] + 1
        if end == network.offsets[self._operator + 1]:
            return self._fill_blocks(table, end)
        return self._fill_run(table, end)

    def _fill_run(self, table: CostTable, end: int) -> int:
        """Fill the rest of an operator's pieces. Its last ones differ, and segments of them reach back to its first."""
        split = self._network.splits[self._operator]
        offset = self._network.offsets[self._operator]
        done = end - offset
        run_end = self._network.offsets[self._operator + 1] - split.tail
        if done < self._run_reach + split.period or end >= run_end - 1:
            return end
        earlier = self._run.setdefault((done % split.period, table.last_rows(self._run_reach)), end)
        if earlier == end or earlier - offset < self._run_reach:
            return end
        table.repeat(earlier, run_end)
        return run_end

    def _fill_blocks(self, table: CostTable, end: int) -> int:
        """Fill the operators that follow, if they are like those after an earlier operator with the same costs."""
        following = self._operator + 1
        if end < self._reach or following >= len(self._alike):
            return end
        earlier = self._blocks.setdefault((self._alike[following], table.last_rows(self._reach)), following)
        if earlier == following:
            return end
        matched = 0
        while following + matched < len(self._alike) and (
            self._alike[earlier + matched] == self._alike[following + matched]
        ):
            matched += 1
        # Segments that reach back over the boundary must be alike too: their operators are those before it.
        reach = self._operators_back(end)
        if earlier - reach < 0:
            return end
        alike_before = all(self._alike[earlier - back] == self._alike[following - back] for back in range(1, reach + 1))
        # A segment looks at the operator after it.
        if matched < 2 or not alike_before:
            return end
        block_end = self._network.offsets[following + matched - 1]
        table.repeat(self._network.offsets[earlier], block_end)
        return block_end

    def _operators_back(self, end: int) -> int:
        """Return how many operators before a boundary a segment that crosses it can reach."""
        count = 0
        offsets = self._network.offsets
        operator = self._operator
        while operator >= 0 and end - offsets[operator + 1] < self._reach:
            count += 1
            operator -= 1
        return count


def _operator_keys(network: PieceNetwork) -> list[Hashable]:
    """Return for each operator a key of all that a segment with it depends on, in relative terms."""
    keys: list[Hashable] = []
    last_reader: dict[str, int] = {}
    for index, op in enumerate(network.operators):
        use = network.last_use[index]
        keys.append(
            (
                id(network.splits[index]),
                tuple(index - source if source != NETWORK else None for source in op.reads),
                use - index if use < len(network.operators) else None,
                index - last_reader[op.operand] if op.operand in last_reader else None,
                network.read_totals[index],
            )
        )
        last_reader[op.operand] = index
    return keys
