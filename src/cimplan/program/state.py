"""What is where while a program is read: modes and contents of arrays, main memory, the buffer of a stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from cimplan.program.coverage import Products, Ranges
from cimplan.program.language import Box, OperatorDecl, TensorDecl


@dataclass(slots=True)
class TensorState:
    """A tensor: which of its bytes are in main memory, who makes it, where some of it was lost last."""

    decl: TensorDecl
    main: Ranges = field(default_factory=Ranges)
    maker: OperatorDecl | None = None
    lost_line: int = 0


@dataclass(slots=True)
class OperatorState:
    """An operator: which of its weights have been multiplied, and in which segment it has had its stage."""

    decl: OperatorDecl
    products: Products
    last_segment: int = -1


@dataclass(slots=True)
class Loaded:
    """What a computing array holds: tile number `index` of the boxes of an operator."""

    operator: str
    boxes: tuple[Box, ...]
    index: int
    segment: int
    line: int


@dataclass(slots=True)
class Held:
    """What an array in memory mode holds: bytes of one tensor."""

    tensor: str
    ranges: Ranges
    size_bytes: int
    line: int


@dataclass(slots=True)
class StageState:
    """One stage while it is read.

    Attributes
    ----------
    fetched : dict of str to Ranges
        Bytes of tensors brought into the buffer.
    produced, saved : Ranges
        Bytes of the result that the multiplications made, and those that were put somewhere.
    multiply_line : int
        Line of the last multiplication.
    """

    operator: OperatorDecl
    fetched: dict[str, Ranges] = field(default_factory=dict)
    produced: Ranges = field(default_factory=Ranges)
    saved: Ranges = field(default_factory=Ranges)
    multiply_line: int = 0

    def fetch(self, tensor: str, start: int, stop: int) -> None:
        """Bring bytes into the buffer."""
        self.fetched.setdefault(tensor, Ranges()).add(start, stop)

    def missing(self, tensor: str, start: int, stop: int) -> tuple[int, int] | None:
        """Return the first bytes of a range that are not in the buffer."""
        found = self.fetched.get(tensor)
        if found is None:
            return (start, stop) if start < stop else None
        return found.gap(start, stop)
