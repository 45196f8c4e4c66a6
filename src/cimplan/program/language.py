"""What a meta-operator program is made of.

A program declares the chip it was made for, the tensors that flow and the operators that run, and then lists
segments. A segment first prepares the chip (switches, weights, preloads), then runs its operators as a pipeline inside
``parallel { }``, each operator as one `Stage`, and at last writes back what must leave the arrays. All values are
immutable; the line of a statement is kept beside it and takes no part in equality.

Orientation: a weight matrix has N inputs (rows) and M outputs (columns), as everywhere in cimplan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Literal

LANGUAGE_VERSION = 1

COMPUTE: Literal["TOC"] = "TOC"
MEMORY: Literal["TOM"] = "TOM"

Mode = Literal["TOC", "TOM"]
Place = Literal["main", "buffer"]
Packing = Literal["block_diagonal", "one_per_group"]
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
        return chain.from_iterable(range(first, last + 1) for first, last in self.ranges)

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
class Box:
    """A box of the weights of an operator, written ``[groups, inputs, outputs]``, each as ``first:end``, half-open."""

    groups: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]

    @property
    def weights(self) -> int:
        """Number of weights in it."""
        return (
            (self.groups[1] - self.groups[0]) * (self.inputs[1] - self.inputs[0]) * (self.outputs[1] - self.outputs[0])
        )


@dataclass(frozen=True, slots=True)
class Tiles:
    """Weights of an operator that lie in arrays, written ``"name"[0:1, 0:640, 0:80]…`` with one box or more.

    `cimplan.program.tiling` says which array of a list holds which part of a box.
    """

    operator: str
    boxes: tuple[Box, ...]


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
        Rows and columns of one matrix, in weights.
    groups : int
        Independent matrices of this size.
    mvms : int
        Input vectors each matrix is multiplied with.
    moved_bytes : int
        Bytes of the multiplied operand, which element-wise work may have made smaller (pooling) than the tensors that
        `reads` names, or the reading of the plan larger (im2col).
    matrix : tuple of str
        What the arrays hold: one constant, or the tensors a run-time matrix is made of.
    reads : tuple of str
        Tensors multiplied with the matrix.
    adds : tuple of str
        Further tensors that the riding element-wise work needs, such as the other side of a residual addition.
    writes : str
        The tensor produced.
    """

    name: str
    inputs: int
    outputs: int
    groups: int
    mvms: int
    moved_bytes: int
    matrix: tuple[str, ...]
    reads: tuple[str, ...]
    writes: str
    adds: tuple[str, ...] = ()
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Switch:
    """``CM.switch(TOC|TOM, a[…])``: change the mode of arrays; what they held is lost."""

    mode: Mode
    arrays: Indices
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class WriteMatrix:
    """``CIM.write_xb(a[…], "op"[…])``: write weights into computing arrays.

    Where the boxes take n arrays, array number i of the list holds what array ``i mod n`` holds: more arrays than n
    make copies. A constant matrix comes from main memory; any other must be in the buffer of the stage.
    """

    arrays: Indices
    tiles: Tiles
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Multiply:
    """``CIM.read_xb(a[…], "op"[…], mvms n)``: multiply all n input vectors with the weights the arrays hold.

    Copies share the vectors among them. The results are then in the buffer of the stage; they are partial sums as
    long as not all inputs of a column are done, and continue what an earlier segment left, which must be in the buffer.
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

    Bytes that enter several arrays are spread evenly over them in order.
    """

    source: Place | Indices
    target: Place | Indices
    data: Bytes
    line: int = field(default=0, compare=False, repr=False)


StageStatement = MemoryRead | MemoryWrite | Move | WriteMatrix | Multiply
PrepareStatement = Move | MemoryDrop | Switch | WriteMatrix
FinishStatement = Move | MemoryDrop


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
    finish : tuple of statement
        What happens after the pipeline has drained: results written back, arrays emptied.
    """

    index: int
    prepare: tuple[PrepareStatement, ...]
    stages: tuple[Stage, ...]
    finish: tuple[FinishStatement, ...] = ()
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
    packing : {"block_diagonal", "one_per_group"}
        How the small matrices of grouped work lie in arrays, see `cimplan.program.tiling`.
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
    packing: Packing = "block_diagonal"
    version: int = LANGUAGE_VERSION
