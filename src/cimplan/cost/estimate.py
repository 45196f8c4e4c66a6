"""An estimated host profile, for a host that is not at hand: openly derived, labelled, never measured.

Each operator gets the larger of a compute time and a memory time, plus a fixed overhead: a roofline per operator
class. The numbers are in a YAML file of the package, each with its source; `docs/arm-estimate.md` derives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cimplan.cost.profile_file import HostProfile, MachineRecord, ModelRecord, Timing, record_of
from cimplan.errors import InputError, InternalError, did_you_mean
from cimplan.graph.operators import BITS_OF_DTYPE, Operator, OperatorGraph
from cimplan.graph.values import described
from cimplan.hardware import document
from cimplan.hardware.quantities import BandwidthGbps, DurationNs, FrequencyHz, SizeBytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cimplan.graph.values import Values

_QUANTISED_BITS = 8

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MatrixRates(_Record):
    """How fast one core multiplies: peak multiply-accumulates a cycle, and what is lost around them."""

    signed_weights_macs_per_cycle: Positive
    unsigned_weights_macs_per_cycle: Positive
    float32_macs_per_cycle: Positive
    efficiency: Annotated[float, Field(gt=0, le=1)]
    depthwise_efficiency: Annotated[float, Field(gt=0, le=1)]
    requantise_cycles_per_output: Positive
    gather_cycles_per_byte: Positive


class ElementwiseRate(_Record):
    """Cycles per element of the operators of one class."""

    operators: Names
    cycles: Positive
    per: Literal["input", "output"]
    source: str


class HostEstimate(_Record):
    """The parameters of an estimated host."""

    schema_version: Literal[1]
    name: str
    cpu: str
    architecture: str
    clock_hz: FrequencyHz = Field(alias="clock")
    overhead_ns: DurationNs = Field(alias="overhead_per_operator")
    main_bandwidth_gbps: BandwidthGbps = Field(alias="main_bandwidth")
    l2_bytes: SizeBytes = Field(alias="l2_size")
    l2_bytes_per_cycle: Positive
    matrix: MatrixRates
    elementwise: Annotated[
        tuple[ElementwiseRate, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ]
    default_cycles: Positive
    sources: dict[str, str]

    @cached_property
    def rates(self) -> dict[str, ElementwiseRate]:
        """Class of each operator type."""
        return {op_type: rate for rate in self.elementwise for op_type in rate.operators}


@dataclass(frozen=True, slots=True)
class EstimatedTime:
    """An operator's estimate and its parts, in nanoseconds."""

    overhead_ns: float
    compute_ns: float
    memory_ns: float

    @property
    def total_ns(self) -> float:
        """Overhead plus the larger of the other two."""
        return self.overhead_ns + max(self.compute_ns, self.memory_ns)


def names() -> tuple[str, ...]:
    """Return the hosts that can be estimated."""
    folder = resources.files("cimplan.cost") / "hosts"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def text_of(name: str) -> str:
    """Return the parameters of a host as YAML text, with their sources.

    Raises
    ------
    InputError
        If the host is not known.
    """
    if name not in names():
        raise InputError(f"there is no estimate for the host {name!r}", fix=did_you_mean(name, names()))
    return (resources.files("cimplan.cost") / "hosts" / f"{name}.yaml").read_text(encoding="utf-8")


def parameters(name: str) -> HostEstimate:
    """Return the parameters of a host.

    Raises
    ------
    InputError
        If the host is not known.
    """
    found = document.parse(text_of(name), f"host {name}")
    try:
        return HostEstimate.model_validate(found.value)
    except ValidationError as error:
        raise InternalError("the parameters of an estimated host are not valid", where=name, why=str(error)) from error


def estimate(
    source: Path | HostProfile,
    host: str,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
) -> HostProfile:
    """Return the estimated profile of a network on a host that is not at hand.

    Parameters
    ----------
    source : Path or HostProfile
        A model file, which ONNX Runtime optimises and runs once here for its shapes; or any profile of the model,
        whose graph is taken as it is.
    host : str
        Name of an estimated host, such as ``cortex-a72``.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    values : mapping of str to array, optional
        Inputs that are not random but given.

    Returns
    -------
    HostProfile
        With origin "estimated".

    Raises
    ------
    InputError
        If the host is not known or the model cannot be read or run here.
    """
    rates = parameters(host)
    if isinstance(source, HostProfile):
        return _profile(source.graph(), source.model, rates, source.machine.architecture)
    from cimplan.cost.profile import model_record, optimised_graph

    graph, architecture = optimised_graph(source, shapes=shapes, values=values)
    profile = _profile(graph, model_record(source), rates, architecture)
    return profile.model_copy(update={"values": described(values or {})})


def estimate_operator(graph: OperatorGraph, op: Operator, rates: HostEstimate) -> EstimatedTime:
    """Return what one operator is estimated to take.

    Memory: all bytes it reads and writes, at the bandwidth of the second-level cache if they fit into it, else of
    main memory. Compute: multiply-accumulates at their rate for matrix work, elements at their class's rate for the
    rest.
    """
    names_in = dict.fromkeys(op.inputs)
    size = sum(graph.tensors[name].size_bytes for name in (*names_in, *op.outputs))
    cycle_ns = 1e9 / rates.clock_hz
    if size <= rates.l2_bytes:
        memory_ns = size / rates.l2_bytes_per_cycle * cycle_ns
    else:
        memory_ns = size / rates.main_bandwidth_gbps
    outputs = sum(graph.tensors[name].elements for name in op.outputs)
    inputs = sum(graph.tensors[name].elements for name in names_in if not graph.tensors[name].constant)
    if op.work is not None:
        cycles = _matrix_cycles(graph, op, outputs, rates.matrix)
    else:
        rate = rates.rates.get(op.op_type)
        if rate is None:
            cycles = rates.default_cycles * outputs
        else:
            cycles = rate.cycles * (inputs if rate.per == "input" else outputs)
    return EstimatedTime(rates.overhead_ns, cycles * cycle_ns, memory_ns)


def _matrix_cycles(graph: OperatorGraph, op: Operator, outputs: int, rates: MatrixRates) -> float:
    work = op.work
    if work is None:
        return 0.0
    stationary = graph.tensors[op.weight_input].dtype if op.weight_input in graph.tensors else ""
    moving = [tensor for tensor in graph.activation_inputs(op) if tensor.name != op.weight_input]
    moving_bits = BITS_OF_DTYPE[moving[0].dtype] if moving else 32
    quantised = BITS_OF_DTYPE.get(stationary, moving_bits) <= _QUANTISED_BITS
    signed = quantised and stationary == "int8"
    if signed:
        peak = rates.signed_weights_macs_per_cycle
    elif quantised:
        peak = rates.unsigned_weights_macs_per_cycle
    else:
        peak = rates.float32_macs_per_cycle
    # A group with one output cannot reuse what it loads: depthwise convolution. Its rate includes requantising.
    if work.groups > 1 and work.outputs == 1:
        return work.macs / (peak * rates.depthwise_efficiency)
    cycles = work.macs / (peak * rates.efficiency)
    if quantised:
        cycles += rates.requantise_cycles_per_output * outputs
    patches = work.inputs * work.mvms * work.groups
    if not signed and patches > sum(tensor.elements for tensor in moving):
        # More matrix inputs than elements: patches of a convolution, copied before the product.
        cycles += rates.gather_cycles_per_byte * patches * moving_bits / 8
    return cycles


def _profile(graph: OperatorGraph, model: ModelRecord, rates: HostEstimate, architecture: str) -> HostProfile:
    times: dict[str, Timing] = {}
    for op in graph.operators:
        if op.view:
            times[op.name] = Timing(host_ns=0.0, kind="free (view)")
        else:
            times[op.name] = Timing(host_ns=estimate_operator(graph, op, rates).total_ns, kind="estimated")
    value: dict[str, Any] = {
        "schema_version": 1,
        "cimplan_version": _own_version(),
        "origin": "estimated",
        "model": model,
        "machine": MachineRecord(cpu=rates.cpu, architecture=rates.architecture, system="none: estimated", threads=1),
        "notes": (
            f"estimated, never measured: a roofline per operator class with the parameters of {rates.name}",
            f"the graph is as ONNX Runtime optimises it on {architecture}; on {rates.architecture} it may differ",
        ),
        "graph": record_of(graph),
        "times": times,
    }
    return HostProfile.model_validate(value)


def _own_version() -> str:
    from cimplan.cost.profile import package_version

    return package_version("cimplan")
