"""The chip as the verifier sees it: modes and contents of arrays, main memory, and moves between them."""

from __future__ import annotations

from cimplan.hardware.schema import DualModeChip
from cimplan.program.coverage import Ranges
from cimplan.program.language import Bytes, Indices, MemoryDrop, Move, Switch
from cimplan.program.printer import quote
from cimplan.program.state import Held, Loaded, OperatorState, TensorState
from cimplan.program.tiling import spread
from cimplan.program.violations import Rule, Violation

VIOLATION_LIMIT = 200


class TooManyError(Exception):
    """Stops the symbolic run when enough has been found."""


class SymbolicChip:
    """Arrays and main memory while a program is read, with the rules that concern them alone.

    Parameters
    ----------
    chip : DualModeChip
        The chip.
    """

    def __init__(self, chip: DualModeChip) -> None:
        self.chip = chip
        self.violations: list[Violation] = []
        self.computes = [True] * chip.arrays
        self.contents: list[Loaded | Held | None] = [None] * chip.arrays
        self.tensors: dict[str, TensorState] = {}
        self.operators: dict[str, OperatorState] = {}

    def report(self, line: int, rule: Rule, message: str, cause: int = 0) -> None:
        """Record a violation."""
        self.violations.append(Violation(line, rule, message, cause))
        if len(self.violations) >= VIOLATION_LIMIT:
            raise TooManyError

    def known(self, arrays: Indices, line: int) -> bool:
        """Whether a list of arrays is there, in range and without repeats."""
        if not arrays.ranges:
            return self.refuse(line, "array", "no array is given")
        if arrays.largest >= len(self.computes):
            return self.refuse(
                line, "array", f"there is no array {arrays.largest}; the chip has 0 to {len(self.computes) - 1}"
            )
        if arrays.repeats():
            return self.refuse(line, "array", "an array is given twice")
        return True

    def refuse(self, line: int, rule: Rule, message: str, cause: int = 0) -> bool:
        """Record a violation and return False."""
        self.report(line, rule, message, cause)
        return False

    def in_mode(self, arrays: Indices, compute: bool, line: int) -> bool:
        """Whether arrays exist and are all in compute (or memory) mode; reports what is wrong."""
        if not self.known(arrays, line):
            return False
        if all(self.computes[first : last + 1].count(compute) == last + 1 - first for first, last in arrays.ranges):
            return True
        wrong = [array for array in arrays if self.computes[array] is not compute]
        found, needed = ("memory", "compute") if compute else ("compute", "memory")
        self.report(line, "mode", f"array {_numbers(wrong)} is in {found} mode and is used in {needed} mode")
        return False

    def switch(self, statement: Switch) -> None:
        """Change the mode of arrays; what they held is gone."""
        if not self.known(statement.arrays, statement.line):
            return
        compute = statement.mode == "TOC"
        idle = [array for array in statement.arrays if self.computes[array] is compute]
        if idle:
            mode = "compute" if compute else "memory"
            self.report(statement.line, "switch", f"array {_numbers(idle)} is in {mode} mode already")
        for array in statement.arrays:
            self._empty(array, statement.line)
            self.computes[array] = compute

    def _empty(self, array: int, line: int) -> None:
        content = self.contents[array]
        if isinstance(content, Held):
            self.tensors[content.tensor].lost_line = line
        self.contents[array] = None

    def drop(self, statement: MemoryDrop) -> None:
        """Empty arrays in memory mode."""
        if not self.in_mode(statement.arrays, False, statement.line):
            return
        for array in statement.arrays:
            if self.contents[array] is None:
                self.report(statement.line, "data", f"array {array} holds nothing that could be dropped")
            self._empty(array, statement.line)

    def within(self, data: Bytes, line: int) -> TensorState | None:
        """Return the tensor of a range that lies within it."""
        state = self.tensors.get(data.tensor)
        if state is None:
            self.report(line, "declaration", f"tensor {quote(data.tensor)} is not declared")
            return None
        if data.stop > state.decl.size_bytes:
            self.report(
                line,
                "data",
                f"{quote(data.tensor)} has {state.decl.size_bytes} bytes, not {data.stop}",
                state.decl.line,
            )
            return None
        return state

    def in_main(self, state: TensorState, data: Bytes, line: int) -> None:
        """Report bytes that are not in main memory."""
        gap = state.main.gap(data.start, data.stop)
        if gap:
            self.report(line, "data", f"{byte_range(data.tensor, gap)} is not in main memory", state.lost_line)

    def in_arrays(self, state: TensorState, arrays: Indices, data: Bytes, line: int) -> None:
        """Report bytes that are not in the given arrays, and arrays that hold something else."""
        found: list[tuple[int, int]] = []
        for array in arrays:
            content = self.contents[array]
            if not isinstance(content, Held) or content.tensor != data.tensor:
                what = quote(content.tensor) if isinstance(content, Held) else "nothing"
                self.report(line, "data", f"array {array} holds {what}, not {quote(data.tensor)}", state.lost_line)
                return
            found.extend(content.ranges)
        held = found[0] if len(found) == 1 else None
        if held and held[0] <= data.start and data.stop <= held[1]:
            return
        reach = data.start
        for start, stop in sorted(found):
            if start > reach:
                break
            reach = max(reach, stop)
        if reach < data.stop:
            self.report(line, "data", f"{byte_range(data.tensor, (reach, data.stop))} is not in these arrays")

    def into_arrays(self, arrays: Indices, data: Bytes, line: int) -> None:
        """Spread bytes over arrays."""
        slices = spread(data.size_bytes, len(arrays))
        for array, (first, last) in zip(arrays, slices, strict=True):
            start, stop = data.start + first, data.start + last
            held = self.contents[array]
            if not isinstance(held, Held):
                held = Held(data.tensor, Ranges.single(start, stop), stop - start, line)
                self.contents[array] = held
            elif held.tensor == data.tensor:
                held.ranges.add(start, stop)
                held.size_bytes = sum(end - begin for begin, end in held.ranges)
            else:
                self.report(
                    line,
                    "role",
                    f"array {array} still holds {quote(held.tensor)}; drop it before {quote(data.tensor)} goes there",
                    held.line,
                )
                return
            if held.size_bytes > self.chip.array_bytes:
                self.report(
                    line,
                    "capacity",
                    f"array {array} would hold {held.size_bytes} bytes; it has room for {self.chip.array_bytes}",
                )
                return

    def move(self, statement: Move) -> None:
        """A move outside a stage: between main memory and arrays, or between arrays."""
        line, data = statement.line, statement.data
        state = self.within(data, line)
        if state is None:
            return
        source, target = statement.source, statement.target
        if "buffer" in (source, target):
            self.report(line, "stage", "the buffer belongs to a stage and cannot be used outside one")
            return
        if source == target:
            self.report(line, "stage", "source and target are the same")
            return
        if isinstance(source, Indices):
            if not self.in_mode(source, False, line):
                return
            self.in_arrays(state, source, data, line)
        else:
            self.in_main(state, data, line)
        if isinstance(target, Indices):
            if self.in_mode(target, False, line):
                self.into_arrays(target, data, line)
        else:
            state.main.add(data.start, data.stop)


def byte_range(tensor: str, gap: tuple[int, int]) -> str:
    """Return a range of bytes as it stands in a program."""
    return f"{quote(tensor)}[{gap[0]}:{gap[1]}]"


def _numbers(arrays: list[int]) -> str:
    shown = ", ".join(str(array) for array in arrays[:5])
    return shown if len(arrays) <= 5 else f"{shown}, … ({len(arrays)} arrays)"
