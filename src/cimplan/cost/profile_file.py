"""The host profile: what a network costs on a host, in a file that travels.

A profile holds the structure of the graph as it runs on the host, a time for every operator, and what was measured
where. Planning needs nothing else, least of all the model. Orientation: M = outputs (columns), N = inputs (rows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from cimplan.errors import InputError, did_you_mean
from cimplan.files import read_json, require_version, sha256_of, write_text
from cimplan.graph.bounds import check_sizes
from cimplan.graph.operators import BITS_OF_DTYPE, MatrixWork, Operator, OperatorGraph, Recurrence, Tensor

SCHEMA_VERSION: Literal[1] = 1

TimeKind = Literal["measured", "estimated", "free (view)"]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Shape = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_as_tuple)]
Nanoseconds = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """Base of the parts of the file: immutable, nothing unknown, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TensorRecord(Record):
    """A tensor: ONNX-style type name, shape, and whether it is known before inference."""

    dtype: str
    shape: Shape
    constant: bool = False


class RecurrenceRecord(Record):
    """Recurrent product of an operator: N inputs of its matrix, steps, products one after another in each step."""

    inputs: Count
    steps: Count
    rounds_per_step: Annotated[int, Field(ge=1, le=2)] = 1


class WorkRecord(Record):
    """Matrix work of an operator: M outputs, N inputs, MVMs per inference, independent groups."""

    outputs: Count
    inputs: Count
    mvms: Count
    groups: Count = 1
    stationary: Literal["constant", "activation"] = "constant"
    recurrence: RecurrenceRecord | None = None


class OperatorRecord(Record):
    """An operator of the graph as it runs on the host."""

    name: str = Field(min_length=1)
    op_type: str
    domain: str = ""
    inputs: Names
    outputs: Names
    work: WorkRecord | None = None
    no_work_reason: str = ""
    view: bool = False
    weight_input: str = ""
    unlowered: bool = False
    body_weight_bytes: Count = 0
    file_nodes: Names = ()


class GraphRecord(Record):
    """The graph: operators in topological order and every tensor they name."""

    name: str
    inputs: Names
    outputs: Names
    operators: Annotated[tuple[OperatorRecord, ...], BeforeValidator(_as_tuple)]
    tensors: dict[str, TensorRecord]


class Spread(Record):
    """How the raw times of one thing lie over the runs, in nanoseconds, before scaling."""

    runs: Annotated[int, Field(ge=1)]
    median_ns: Nanoseconds
    lower_quartile_ns: Nanoseconds
    upper_quartile_ns: Nanoseconds
    least_ns: Nanoseconds
    fastest_quarter_ns: Nanoseconds
    most_ns: Nanoseconds


class Timing(Record):
    """What one operator costs on the host.

    `host_ns` is what plans use: the scaled time, or 0 with the kind "free (view)".
    """

    host_ns: Nanoseconds
    kind: TimeKind
    raw: Spread | None = None


class ModelRecord(Record):
    """Which model file was profiled; the name is without its folder."""

    name: str
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    size_bytes: Count


class MachineRecord(Record):
    """Where, with what and when."""

    cpu: str
    architecture: str
    system: str
    threads: Annotated[int, Field(ge=1)]
    onnxruntime: str = ""
    onnx: str = ""
    numpy: str = ""
    python: str = ""
    date: str = ""


class Measurement(Record):
    """How the raw times were taken and scaled.

    Attributes
    ----------
    runs, dropped_runs : int
        Runs that count for each figure, and runs dropped for warming up.
    disturbed_runs : int
        Runs that other work has disturbed.
    disturbed : str
        How other work has disturbed the runs that count, for a person; empty if it has not.
    seed : int
        Seed of the random inputs.
    inputs : {"random", "zeros", "ones", "unknown"}
        What the model was fed with; zeros and ones only where it refused random values, unknown of an imported profile.
    profiled : Spread
        Sum of the times of all operators, run by run, with profiling.
    unprofiled : Spread or None
        Wall time of the same graph without profiling; None for an imported profile, which has no such runs.
    original : Spread or None
        Wall time of the original model with all optimisations: the same graph before it was saved.
    scale : float
        Fastest quarter of `unprofiled` over fastest quarter of `profiled`; every operator's time was multiplied by it.
    resolution_ns : float
        Resolution of the profiler's clock.
    """

    runs: Annotated[int, Field(ge=1)]
    dropped_runs: Count
    disturbed_runs: Count = 0
    disturbed: str = ""
    seed: int
    inputs: Literal["random", "zeros", "ones", "unknown"]
    profiled: Spread
    unprofiled: Spread | None = None
    original: Spread | None = None
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    resolution_ns: Nanoseconds


class HostProfile(Record):
    """A host profile file."""

    schema_version: Literal[1]
    cimplan_version: str
    origin: Literal["measured", "estimated"]
    model: ModelRecord
    machine: MachineRecord
    measurement: Measurement | None = None
    notes: Names = ()
    values: dict[str, str] = Field(default_factory=dict)
    graph_record: GraphRecord = Field(alias="graph")
    times: dict[str, Timing]

    @cached_property
    def host_ns(self) -> Mapping[str, float]:
        """Time of each operator by name, in topological order."""
        return {op.name: self.times[op.name].host_ns for op in self.graph_record.operators}

    @property
    def disturbed(self) -> bool:
        """Whether other work has slowed the runs that count."""
        return self.measurement is not None and bool(self.measurement.disturbed)

    @property
    def total_ns(self) -> float:
        """Time of the whole network on the host alone, one operator after another."""
        return math.fsum(self.host_ns.values())

    def graph(self) -> OperatorGraph:
        """Return the operator graph; no model file is needed."""
        record = self.graph_record
        return OperatorGraph(
            name=record.name,
            operators=tuple(_operator(op) for op in record.operators),
            tensors={name: Tensor(name, t.dtype, t.shape, t.constant) for name, t in record.tensors.items()},
            inputs=record.inputs,
            outputs=record.outputs,
        )

    def matches(self, path: Path) -> bool:
        """Return whether a model file is the one that was profiled."""
        return sha256_of(path) == self.model.sha256

    def require_model(self, path: Path, where: str = "profile") -> None:
        """Refuse a model file that is not the one that was profiled.

        Raises
        ------
        InputError
            With both hashes.
        """
        found = sha256_of(path)
        if found != self.model.sha256:
            raise InputError(
                f"the profile is not of the model {path.name!r}",
                where=where,
                why=f"it is of {self.model.name!r} with SHA-256 {self.model.sha256 or 'unknown'}, "
                f"and this model has {found}",
                fix="Profile this model with `cimplan profile`, or drop --profile",
            )

    def require_shapes(self, shapes: Mapping[str, tuple[int, ...]], where: str = "profile") -> None:
        """Refuse input shapes other than those that were profiled.

        Raises
        ------
        InputError
            If the network has no such input, or it was profiled with another shape.
        """
        graph = self.graph_record
        for name, shape in shapes.items():
            if name not in graph.inputs:
                raise InputError(
                    f"the profiled network has no input {name!r}", where=where, fix=did_you_mean(name, graph.inputs)
                )
            profiled = graph.tensors[name].shape
            if profiled != shape:
                raise InputError(
                    f"the profile is not of the shape {list(shape)}",
                    where=where,
                    why=f"input {name!r} was profiled as {list(profiled)}",
                    fix="Profile the model again with this shape, or drop --shape",
                )

    def require_values(self, values: Mapping[str, str], where: str = "profile") -> None:
        """Refuse values of inputs other than those that were profiled with, as `graph.values.described` writes them.

        Raises
        ------
        InputError
            Names the input and both values.
        """
        for name, value in values.items():
            if self.values.get(name) != value:
                raise InputError(
                    f"the profile was not made with this value of {name!r}",
                    where=where,
                    why=f"it was made with {self.values.get(name, 'one of its own')}, and this is {value}",
                    fix="Profile the model again with this value, or drop --value",
                )

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_text(path, self.to_json())

    def to_json(self) -> str:
        """Return the content of the file."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True) + "\n"


def record_of(graph: OperatorGraph) -> GraphRecord:
    """Return a graph as it stands in the file."""
    return GraphRecord(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        operators=tuple(
            OperatorRecord(
                name=op.name,
                op_type=op.op_type,
                domain=op.domain,
                inputs=op.inputs,
                outputs=op.outputs,
                work=None if op.work is None else WorkRecord.model_validate(asdict(op.work)),
                no_work_reason=op.no_work_reason,
                view=op.view,
                weight_input=op.weight_input,
                unlowered=op.unlowered,
                body_weight_bytes=op.body_weight_bytes,
                file_nodes=op.file_nodes,
            )
            for op in graph.operators
        ),
        tensors={
            name: TensorRecord(dtype=tensor.dtype, shape=tensor.shape, constant=tensor.constant)
            for name, tensor in graph.tensors.items()
        },
    )


def load(path: Path) -> HostProfile:
    """Read a profile file and check that it is whole.

    Raises
    ------
    InputError
        If it cannot be read, is too large, has a wrong or missing entry, or contradicts itself.
    """
    return from_value(read_json(path, "profile"), str(path))


def from_value(value: Any, where: str) -> HostProfile:
    """Return the profile of parsed JSON; `where` names it in errors.

    Raises
    ------
    InputError
        If an entry is wrong or missing, or the profile contradicts itself.
    """
    if isinstance(value, dict) and "recording" in value:
        from cimplan.cost.recorded import profile_from_values

        return profile_from_values(value, where)
    if not isinstance(value, dict) or "times" not in value or "graph" not in value:
        raise InputError(
            "is not a host profile", where=where, why="it lacks graph or times", fix="Make one with `cimplan profile`"
        )
    require_version(value, SCHEMA_VERSION, kind="profile", where=where, remake="Make it again with `cimplan profile`")
    try:
        profile = HostProfile.model_validate(value)
    except ValidationError as error:
        raise explain(error.errors(include_url=False)[0], value, where) from error
    check(profile, where)
    return profile


def check(profile: HostProfile, where: str) -> None:
    """Refuse a profile whose parts do not fit together.

    Raises
    ------
    InputError
        Names the operator or tensor, or says that there are none.
    """
    graph = profile.graph_record
    for name in (*graph.inputs, *graph.outputs):
        if name not in graph.tensors:
            raise InputError(f"the tensor {name!r} is missing", where=where, fix="Profile the model again")
    for name, tensor in graph.tensors.items():
        if tensor.dtype not in BITS_OF_DTYPE:
            raise InputError(
                f"the tensor type {tensor.dtype!r} is not known",
                where=f"{where}, tensor {name!r}",
                fix=did_you_mean(tensor.dtype, BITS_OF_DTYPE),
            )
    check_sizes(profile.graph(), where)
    produced = {name for op in graph.operators for name in op.outputs}
    # What operators make of constants alone is constant too, and still made by an operator.
    constants = {name for name, tensor in graph.tensors.items() if tensor.constant}
    known = (constants - produced) | set(graph.inputs)
    seen: set[str] = set()
    for op in graph.operators:
        place = f"{where}, operator {op.name!r}"
        if op.name in seen:
            raise InputError("two operators have the same name", where=place, fix="Profile the model again")
        seen.add(op.name)
        for name in (*op.inputs, *op.outputs):
            if name not in graph.tensors:
                raise InputError(f"the tensor {name!r} is missing", where=place, fix="Profile the model again")
        for name in op.inputs:
            if name not in known:
                why = f"{name!r} is made later" if name in produced else f"nothing makes {name!r}"
                raise InputError(
                    "operators are not in topological order", where=place, why=why, fix="Profile the model again"
                )
        for name in op.outputs:
            if name in known:
                raise InputError(f"the tensor {name!r} is made twice", where=place, fix="Profile the model again")
            known.add(name)
    require_times(profile, where)
    for name in profile.times:
        if name not in seen:
            raise InputError(
                "a time is given for an unknown operator", where=f"{where}, {name!r}", fix="Profile the model again"
            )
    if not graph.operators:
        raise InputError("the profile has no operators", where=where, fix="Profile a model with `cimplan profile`")


def require_times(profile: HostProfile, where: str = "profile") -> None:
    """Refuse a profile that has no time for some operator.

    Raises
    ------
    InputError
        Names the first such operator and counts them.
    """
    missing = [op.name for op in profile.graph_record.operators if op.name not in profile.times]
    if missing:
        raise InputError(
            f"the profile has no time for {len(missing)} of {len(profile.graph_record.operators)} operators",
            where=f"{where}, operator {missing[0]!r}",
            fix="Profile the model again with `cimplan profile`",
        )
    for op in profile.graph_record.operators:
        timing = profile.times[op.name]
        if timing.kind == "free (view)":
            if not op.view or timing.host_ns:
                raise InputError(
                    "only a view may be free, and only at 0 ns",
                    where=f"{where}, operator {op.name!r}",
                    fix="Profile the model again",
                )
        elif timing.host_ns <= 0:
            raise InputError(
                "the time of an operator that does work must be positive",
                where=f"{where}, operator {op.name!r}",
                fix="Profile the model again",
            )


def _operator(op: OperatorRecord) -> Operator:
    return Operator(
        name=op.name,
        op_type=op.op_type,
        domain=op.domain,
        inputs=op.inputs,
        outputs=op.outputs,
        work=None if op.work is None else _work(op.work),
        no_work_reason=op.no_work_reason,
        view=op.view,
        weight_input=op.weight_input,
        unlowered=op.unlowered,
        body_weight_bytes=op.body_weight_bytes,
        file_nodes=op.file_nodes,
    )


def _work(work: WorkRecord) -> MatrixWork:
    again = work.recurrence
    recurrence = None if again is None else Recurrence(again.inputs, again.steps, again.rounds_per_step)
    return MatrixWork(work.outputs, work.inputs, work.mvms, work.groups, work.stationary, recurrence)


def explain(fault: ErrorDetails, value: Any, where: str) -> InputError:
    """Return the error that says where in a profile's values a fault is."""
    path = ""
    owner = ""
    for part in fault["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        value = _inside(value, part)
        if isinstance(value, dict) and isinstance(value.get("name"), str) and "op_type" in value:
            owner = f" (operator {value['name']!r})"
    kind = fault["type"]
    if kind == "missing":
        what, why = "an entry of the profile is missing", ""
    elif kind == "extra_forbidden":
        what, why = "an entry of the profile is not known", "it may be from a newer cimplan"
    else:
        shown = repr(fault["input"])
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        what = "an entry of the profile is not valid"
        why = f"{fault['msg'][:1].lower()}{fault['msg'][1:]}, and this is {shown}"
    return InputError(what, where=f"{where}, {path}{owner}", why=why, fix="Profile the model again")


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None
