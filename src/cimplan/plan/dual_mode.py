"""The dual-mode plan: segments of a network, the arrays that compute or remember in each, and every cycle of it.

Orientation: a weight matrix has K inputs (array rows) and N outputs (array columns) and meets M input vectors; in
the words of `MatrixWork`: `inputs`, `outputs` and `mvms`. Bytes are bytes, cycles are whole cycles of the chip.

A plan runs its segments one after another. Before a segment runs, arrays switch their mode, then weights are
written; while it runs, its operators form a pipeline and take as long as the slowest; after it, results that lie in
memory arrays and are needed later are written back. Nothing of this overlaps:

    latency = sum over segments of switch + write + run + write-back cycles
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from cimplan.errors import InputError
from cimplan.files import read_json, require_version, write_json
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode_readings import Readings as Readings

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA_VERSION: Final = 1
NETWORK: Final = -1
"""Stands for the network's inputs where an operator's index is expected."""

DualModeStatus = Literal["optimal", "feasible"]
ArrayRange = tuple[int, int]
"""Consecutive arrays: the first one's number and how many."""


@dataclass(frozen=True, slots=True)
class Uncovered:
    """An operator with matrix work that the arrays do not compute; a plan holds one only where that was asked for.

    Attributes
    ----------
    name, op_type : str
        As in the graph.
    reason : str
        Why.
    """

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class MatrixOperator:
    """A matrix operator of the network, with the element-wise work that rides along with it.

    Attributes
    ----------
    name, op_type : str
        As in the operator graph.
    inputs, outputs, mvms, groups : int
        K, N, M, and the number of independent matrices of this size.
    stationary : {"constant", "activation"}
        Whether the matrix held by the arrays is known before inference or made during it.
    input_bytes : int
        Bytes of the moving operand, by the reading.
    output_bytes, weight_bytes : int
        Bytes of the result and of the stationary operand.
    reads : tuple of int
        Operators whose results reach this one's moving operand; `NETWORK` for the network's inputs. Sorted.
    waits_for : tuple of int
        Every operator that must be done before: `reads`, and those whose results reach the stationary operand or the
        element-wise work riding along. Without `NETWORK`. Sorted.
    riders : tuple of str
        Names of the operators that ride along.
    leaves : bool
        Whether its result is an output of the network.
    operand : str
        The tensor its moving operand comes from; operators with the same one read the same data.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    name: str
    op_type: str
    inputs: int
    outputs: int
    mvms: int
    groups: int
    stationary: Literal["constant", "activation"]
    input_bytes: int
    output_bytes: int
    weight_bytes: int
    reads: tuple[int, ...]
    waits_for: tuple[int, ...]
    riders: tuple[str, ...] = ()
    leaves: bool = False
    operand: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A box of an operator's weights: groups, rows (inputs) and columns (outputs), each as first and count."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    groups: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Part:
    """What one segment does of one operator. Pieces of an operator that share a segment are one part.

    Attributes
    ----------
    operator : int
        Index into `DualModePlan.operators`.
    blocks : tuple of Block
        The weights it covers, disjoint.
    arrays : int
        Arrays that hold these weights once.
    operations : int
        Multiplications and additions.
    input_bytes, output_bytes, weight_bytes : int
        Bytes of the part: each by itself, whether or not the reading counts it as moved. Partial sums made in an
        earlier segment and read here count as input.
    compute_arrays : int
        Com, arrays in compute mode: `arrays` or more.
    input_arrays, output_arrays : int
        Arrays in memory mode that hold its inputs or its results; shared ones count on both sides.
    cycles : int
        L, of this part alone; under the resident cost model its computing alone, since data are moved for all parts.
    placement : tuple of ArrayRange
        Its compute arrays. The first `arrays` of them, in ascending order, hold the first copy of the weights, the
        next `arrays` the second, and so on.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    operator: int
    blocks: tuple[Block, ...]
    arrays: int
    operations: int
    input_bytes: int
    output_bytes: int
    weight_bytes: int
    compute_arrays: int
    input_arrays: int
    output_arrays: int
    cycles: int
    placement: tuple[ArrayRange, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Arrays in memory mode with one role in a segment.

    Attributes
    ----------
    source : int or None
        Operator whose result they hold, `NETWORK` for an input of the network; None where the arrays buffer whatever
        `target` moves (the published cost model does not say which bytes).
    target : int or None
        Operator of the segment that reads them; None for none or (resident cost model) every reader in the segment.
    arrays : int
        How many.
    held_bytes : int
        Bytes that lie in them; 0 where `source` is None.
    kept_from_previous, kept_for_next : bool
        Whether the data are already there from the segment before, and whether they stay for the next: the same
        arrays, not written in between.
    placement : tuple of ArrayRange
        The arrays.
    readers : tuple of int
        Operators of the segment that read them.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    source: int | None
    target: int | None
    arrays: int
    held_bytes: int
    placement: tuple[ArrayRange, ...]
    kept_from_previous: bool = False
    kept_for_next: bool = False
    readers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteBack:
    """A result that leaves memory arrays after the segment, because a later one needs it."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    operator: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that run as a pipeline, all resident on the chip.

    Attributes
    ----------
    parts : tuple of Part
        In topological order.
    stores : tuple of Store
        Every use of an array in memory mode.
    memory_mode_arrays : int
        Arrays in memory mode, those of `stores` and idle ones that nothing made switch.
    to_memory, to_compute : tuple of ArrayRange
        Arrays that switch before this segment.
    write_backs : tuple of WriteBack
        Results written back after this segment.
    cycles : int
        T, the slowest part; also bounded by main memory where its bandwidth is shared.
    switch_cycles, write_cycles, write_back_cycles : int
        What is paid besides.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    parts: tuple[Part, ...]
    stores: tuple[Store, ...]
    memory_mode_arrays: int
    to_memory: tuple[ArrayRange, ...]
    to_compute: tuple[ArrayRange, ...]
    write_backs: tuple[WriteBack, ...]
    cycles: int
    switch_cycles: int
    write_cycles: int
    write_back_cycles: int

    @property
    def compute_arrays(self) -> int:
        """Arrays that compute."""
        return sum(part.compute_arrays for part in self.parts)

    @property
    def memory_arrays(self) -> int:
        """Arrays in memory mode that hold something."""
        return sum(store.arrays for store in self.stores)

    @property
    def total_cycles(self) -> int:
        """Switching, writing, running and writing back."""
        return self.switch_cycles + self.write_cycles + self.cycles + self.write_back_cycles


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits under which the plan was sought; None means none.

    Attributes
    ----------
    segment_pieces : int or None
        Largest number of pieces in one segment.
    time_limit_s : float or None
        Wall seconds for the search.
    split_sizes : tuple of int
        Sizes of pieces, in arrays, that were tried; the best one is `DualModePlan.split_size`.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    segment_pieces: int | None = None
    time_limit_s: float | None = None
    split_sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class DualModePlan:
    """A network compiled for a dual-mode chip.

    Attributes
    ----------
    model, model_sha256 : str
        Name of the network and the hash of its file; the hash is empty for a network that has no file.
    hardware, hardware_sha256 : str
        Name of the hardware description and its hash.
    chip : DualModeChip
        The numbers the cycles follow from.
    method : str
        Registry name of the method.
    readings : Readings
        How the cost model was read.
    limits : Limits
        Under which limits.
    operators : tuple of MatrixOperator
        The matrix work of the network in topological order.
    segments : tuple of Segment
        In the order they run.
    split_size : int
        Arrays that a piece of an operator takes at most.
    status : {"optimal", "feasible"}
        "optimal" if no segmentation and allocation with the tried split sizes is faster.
    latency_cycles : int
        All segments.
    lower_bound_cycles : int
        No plan with the tried split sizes takes less; below `latency_cycles` only where a limit cost something.
    all_compute_cycles : int
        The best plan without arrays in memory mode, on the same costs and with its own best split size.
    compile_s : float
        Wall seconds.
    checked : bool
        Whether the independent checker passed it.
    tool_version : str
        Version of cimplan.
    statistics : mapping of str to int or float
        What the search reports of its work.
    uncovered : tuple of Uncovered
        Operators with matrix work that no array computes: they take no time in this plan.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    model: str
    hardware: str
    chip: DualModeChip
    method: str
    readings: Readings
    limits: Limits
    operators: tuple[MatrixOperator, ...]
    segments: tuple[Segment, ...]
    split_size: int
    status: DualModeStatus
    latency_cycles: int
    lower_bound_cycles: int
    all_compute_cycles: int
    compile_s: float
    checked: bool = False
    model_sha256: str = ""
    hardware_sha256: str = ""
    tool_version: str = ""
    statistics: Mapping[str, int | float] = field(default_factory=dict)
    uncovered: tuple[Uncovered, ...] = ()
    schema_version: Literal[1] = 1
    kind: Literal["dual_mode_plan"] = "dual_mode_plan"

    @property
    def speedup(self) -> float:
        """All-compute cycles over these cycles."""
        return self.all_compute_cycles / self.latency_cycles

    @property
    def gap(self) -> float:
        """Distance to the lower bound as a share of the latency."""
        return (self.latency_cycles - self.lower_bound_cycles) / self.latency_cycles

    @property
    def latency_ns(self) -> float:
        """The latency in time."""
        return self.latency_cycles * self.chip.cycle_ns

    def split(self) -> dict[str, int]:
        """Return the latency split into compute, switch, write and write-back cycles."""
        return {
            "compute": sum(segment.cycles for segment in self.segments),
            "switch": sum(segment.switch_cycles for segment in self.segments),
            "write": sum(segment.write_cycles for segment in self.segments),
            "write_back": sum(segment.write_back_cycles for segment in self.segments),
        }

    def memory_share(self) -> float:
        """Return the share of arrays that remember, weighted with the cycles of each segment."""
        cycles = sum(segment.total_cycles for segment in self.segments)
        used = sum(segment.memory_arrays * segment.total_cycles for segment in self.segments)
        return used / (cycles * self.chip.arrays)

    def summary(self) -> dict[str, Any]:
        """Return what ``cimplan compile --json`` prints; its keys are stable."""
        return {
            "model": self.model,
            "hardware": self.hardware,
            "method": self.method,
            "cost_model": self.readings.cost_model,
            "status": self.status,
            "latency_cycles": self.latency_cycles,
            "latency_ns": self.latency_ns,
            "lower_bound_cycles": self.lower_bound_cycles,
            "gap": self.gap,
            "all_compute_cycles": self.all_compute_cycles,
            "speedup": self.speedup,
            "cycles": self.split(),
            "memory_share": self.memory_share(),
            "split_size": self.split_size,
            "segments": [
                {
                    "operators": [self.operators[part.operator].name for part in segment.parts],
                    "compute_arrays": segment.compute_arrays,
                    "memory_arrays": segment.memory_arrays,
                    "cycles": segment.cycles,
                    "switch_cycles": segment.switch_cycles,
                    "write_cycles": segment.write_cycles,
                    "write_back_cycles": segment.write_back_cycles,
                }
                for segment in self.segments
            ],
            "uncovered": [asdict(item) for item in self.uncovered],
            "compile_s": self.compile_s,
            "checked": self.checked,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values; `from_json` reads it back unchanged."""
        dumped: dict[str, Any] = _adapter().dump_python(self, mode="json", by_alias=True)
        return dumped

    @classmethod
    def from_json(cls, value: Any, *, where: str = "") -> DualModePlan:
        """Read a plan from JSON values.

        Raises
        ------
        InputError
            If it is not a dual-mode plan of this version, with the path of the first bad field.
        """
        from pydantic import ValidationError

        if isinstance(value, dict):
            remake = "Make it again with `cimplan compile`"
            require_version(value, SCHEMA_VERSION, kind="dual-mode plan", where=where, remake=remake)
        try:
            return _adapter().validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(step) for step in first["loc"])
            raise InputError(
                f"is not a dual-mode plan: {first['msg']}",
                where=f"{where}:{path}" if where else path,
                fix="Compile the model again rather than editing the plan",
            ) from (error)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, whole or not at all."""
        write_json(Path(path), self.to_json(), indent=None)

    @classmethod
    def load(cls, path: str | Path) -> DualModePlan:
        """Read a plan file.

        Raises
        ------
        InputError
            If it cannot be read or is not a dual-mode plan.
        """
        return cls.from_json(read_json(Path(path), "dual-mode plan"), where=str(path))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan file."""
    return _adapter().json_schema(mode="validation")


def array_ranges(arrays: Iterable[int]) -> tuple[ArrayRange, ...]:
    """Return array numbers as sorted ranges of first and count."""
    ranges: list[ArrayRange] = []
    for array in sorted(arrays):
        if ranges and sum(ranges[-1]) == array:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((array, 1))
    return tuple(ranges)


def array_numbers(ranges: Iterable[ArrayRange]) -> tuple[int, ...]:
    """Return the array numbers of ranges, in their order."""
    return tuple(itertools.chain.from_iterable(range(first, first + count) for first, count in ranges))


@cache
def _adapter() -> TypeAdapter[DualModePlan]:
    from pydantic import TypeAdapter

    return TypeAdapter(DualModePlan)
