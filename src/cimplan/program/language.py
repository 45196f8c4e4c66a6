"""What a meta-operator program is made of.

A program declares the chip it was made for, the tensors that flow and the operators that run, and then lists
segments. A segment first prepares the chip (write-back, switches, weights, preloads) and then runs its operators as a
pipeline inside ``parallel { }``, each operator as one `Stage`. All values are immutable; the line of a statement is
kept beside it and takes no part in equality.

Orientation: a weight matrix has N inputs (rows) and M outputs (columns), as everywhere in cimplan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

LANGUAGE_VERSION = 1

COMPUTE: Literal["TOC"] = "TOC"
MEMORY: Literal["TOM"] = "TOM"

Mode = Literal["TOC", "TOM"]
Place = Literal["main", "buffer"]
TensorKind = Literal["input", "constant", "value", "output"]


@dataclass(frozen=True, slots=True)
class Indices:
    """A list of numbers written as inclusive ranges, such as ``[0..31,40]``; the order matters.

    Attributes
    ----------
    ranges : tuple of (int, int)
        First and last number of each range, first <= last.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indices:
        """Return the shortest ranges that list the numbers in their order."""
        ranges: list[tuple[int, int]] = []
        for number in numbers:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1] = (ranges[-1][0], number)
            else:
                ranges.append((number, number))
        return cls(tuple(ranges))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    @property
    def largest(self) -> int:
        """The largest number, -1 of an empty list."""
        return max((last for _, last in self.ranges), default=-1)

    def repeats(self) -> bool:
        """Return whether a number is listed more than once; does not expand the ranges."""
        ordered = sorted(self.ranges)
        return any(later[0] <= earlier[1] for earlier, later in pairwise(ordered))


@dataclass(frozen=True, slots=True)
class Bytes:
    """A half-open range of the bytes of a tensor, written ``"name"[start:stop]``.

    Tensors are laid out feature by feature (channel by channel), so that a slice of the outputs of a matrix is one
    range.
    """

    tensor: str
    start: int
    stop: int

    @property
    def size_bytes(self) -> int:
        """Length of the range."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of the matrix of an operator, written ``"name"[0..15]``.

    Tile ``(group, column, row)`` has the number ``(group * columns + column) * rows + row`` of the operator's grid.
    """

    operator: str
    tiles: Indices


@dataclass(frozen=True, slots=True)
class ChipFacts:
    """What the program assumes of the chip; the verifier compares it with the chip it is given.

    Attributes
    ----------
    name : str
        Name of the hardware description.
    arrays : int
        Arrays on the chip.
    rows, columns, columns_per_weight : int
        Geometry of an array.
    array_bytes : int
        Bytes one array holds in memory mode.
    """

    name: str
    arrays: int
    rows: int
    columns: int
    columns_per_weight: int
    array_bytes: int
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TensorDecl:
    """A tensor: inputs and constants are in main memory at the start, outputs must be there at the end."""

    name: str
    size_bytes: int
    kind: TensorKind = "value"
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OperatorDecl:
    """A matrix operator with whatever element-wise work rides along with it.

    Attributes
    ----------
    name : str
        Unique among the operators.
    inputs, outputs : int
        N and M of one matrix: its rows and columns in weights.
    groups : int
        Independent matrices.
    mvms : int
        Input vectors each matrix is multiplied with.
    grid : tuple of int
        Tiles along groups, columns and rows. Tiles are balanced: tile r of R covers the rows from ``r * N // R``
        to ``(r + 1) * N // R``.
    matrix : str
        Tensor that the arrays hold: a constant (weights), or a value written at run time.
    reads : tuple of str
        Tensors multiplied with the matrix.
    adds : tuple of str
        Further tensors that the riding element-wise work needs, such as the other side of a residual addition.
    writes : tuple of str
        Tensors produced.
    """

    name: str
    inputs: int
    outputs: int
    groups: int
    mvms: int
    grid: tuple[int, int, int]
    matrix: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    adds: tuple[str, ...] = ()
    line: int = field(default=0, compare=False, repr=False)

    @property
    def tiles(self) -> int:
        """Tiles of the whole operator: the arrays one copy of its matrix takes."""
        groups, columns, rows = self.grid
        return groups * columns * rows


@dataclass(frozen=True, slots=True)
class Switch:
    """``CM.switch(TOC|TOM, a[…])``: change the mode of arrays; what they held is lost."""

    mode: Mode
    arrays: Indices
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WriteMatrix:
    """``CIM.write_xb(a[…], "op"[…])``: write tiles of a matrix into computing arrays.

    Array number i of the list gets tile number ``i mod len(tiles)``; more arrays than tiles make copies. A constant
    matrix comes from main memory; any other must have been fetched into the buffer of the stage.
    """

    arrays: Indices
    tiles: Tiles
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Multiply:
    """``CIM.read_xb(a[…], "op"[…], mvms n)``: multiply all n input vectors with the tiles the arrays hold.

    Copies of a tile share the vectors among them. The results, partial sums where not all rows of a column are done,
    are then in the buffer of the stage.
    """

    arrays: Indices
    tiles: Tiles
    mvms: int
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MemoryRead:
    """``MEM.read(a[…], "t"[i:j])``: bring bytes from memory arrays into the buffer of the stage."""

    arrays: Indices
    data: Bytes
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """``MEM.write(a[…], "t"[i:j])``: put bytes from the buffer of the stage into memory arrays, spread evenly."""

    arrays: Indices
    data: Bytes
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MemoryDrop:
    """``MEM.drop(a[…])``: forget what memory arrays hold."""

    arrays: Indices
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Move:
    """``Mov(from, to, "t"[i:j])``: move bytes between main memory, memory arrays and the buffer of a stage.

    `add` marks partial sums that are added to what main memory holds already. Bytes that enter several arrays are
    spread evenly over them in order.
    """

    source: Place | Indices
    target: Place | Indices
    data: Bytes
    add: bool = False
    line: int = field(default=0, compare=False, repr=False)


StageStatement = MemoryRead | MemoryWrite | Move | WriteMatrix | Multiply
PrepareStatement = Move | MemoryDrop | Switch | WriteMatrix


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator at work in the pipeline of a segment; its statements stand in the order of the data flow."""

    operator: str
    body: tuple[StageStatement, ...]
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the network that is on the chip at the same time.

    Attributes
    ----------
    index : int
        Position in the program, from 0.
    prepare : tuple of statement
        What happens before the pipeline starts, one after another.
    stages : tuple of Stage
        The pipeline, producers before consumers.
    """

    index: int
    prepare: tuple[PrepareStatement, ...]
    stages: tuple[Stage, ...]
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program.

    Attributes
    ----------
    model : str
        Name of the network.
    tool : str
        What made the program, with its version.
    chip : ChipFacts
        The chip it was made for.
    memory_first : Indices
        Arrays that are in memory mode when the program starts; all others compute.
    tensors, operators : tuple
        Declarations.
    segments : tuple of Segment
        In the order they run.
    """

    model: str
    tool: str
    chip: ChipFacts
    tensors: tuple[TensorDecl, ...]
    operators: tuple[OperatorDecl, ...]
    segments: tuple[Segment, ...]
    memory_first: Indices = Indices()
    version: int = LANGUAGE_VERSION
