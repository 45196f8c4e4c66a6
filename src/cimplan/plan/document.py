"""The parts of a plan file. Times are nanoseconds, sizes bytes; operators are named as in the model.

Orientation where it matters: M = outputs (crossbar columns), N = inputs (crossbar rows).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cimplan.plan.certificate import Certificate

TimeKind = Literal["measured", "modelled", "estimated", "simulated", "free (view)", "unknown"]
"""Where a number comes from: measured on a machine; computed from a model of the hardware; estimated from published
figures of a processor that is not at hand; simulated by replaying the plan; or nothing because the operator only
renames data."""

Nanoseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """Base of everything in a plan file: unknown keys are refused, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OptionPart(Part):
    """One way the operator could run."""

    place: Name = Field(description='"host", "cim", or another accelerator.')
    duration_ns: Nanoseconds = Field(description="From start to finish, without transfers.")
    crossbars: Count = Field(description="Crossbars occupied during the whole inference.")
    label: str = Field(default="", description="What tells this option from another at the same place.")


class OperatorPart(Part):
    """One operator: where it runs, when, and why there."""

    name: Name
    op_type: str = Field(description="As in ONNX.")
    place: Name = Field(description='"host", "cim", or another accelerator.')
    start_ns: Nanoseconds
    finish_ns: Nanoseconds
    crossbars: Count = Field(description="Crossbars the operator occupies; 0 on the host.")
    label: str = Field(default="", description="The chosen option's label.")
    core: Count | None = Field(default=None, description="Host core; null on an accelerator or without duration.")
    host_ns: Nanoseconds | None = Field(description="Duration on the host; null if it cannot run there.")
    cim_ns: Nanoseconds | None = Field(description="Least duration on an accelerator; null if it cannot run there.")
    host_time: TimeKind = Field(default="unknown", description="Where `host_ns` comes from.")
    reorders: tuple[Name, ...] = Field(
        default=(),
        description="Nodes of the optimised graph that the operator stands for too: they change the host's layout.",
    )
    reorder_ns: Nanoseconds = Field(default=0.0, description="The part of `host_ns` that changes the host's layout.")
    network_bytes: Count = Field(
        default=0,
        description="Inputs and outputs of the network that cross the bus while the operator is on an accelerator; "
        "their time is in its options there.",
    )
    gain_ns: Finite | None = Field(
        description=(
            "How much the plan's latency would grow if only this operator moved to its best other place, the order "
            "on the host kept; negative if it would shrink; null if there is no other place, or no time to compute it."
        )
    )
    reason: str = Field(description="Why the operator is at its place, for people.")
    file_nodes: tuple[str, ...] = Field(
        default=(),
        description="Nodes of the model file that the operator stands for; empty for what the host's optimiser added, "
        "and where the profile does not say.",
    )
    options: tuple[OptionPart, ...] = Field(min_length=1, description="All options the method could choose from.")
    ruled_out: tuple[OptionPart, ...] | None = Field(
        default=None,
        description="Options that the user's fixed place has ruled out; null in files that do not record them.",
    )


class DependencyPart(Part):
    """Data that flow between two operators."""

    source: Name
    target: Name
    transfer_ns: Nanoseconds = Field(description="Time between the two if they run at different places.")
    size_bytes: Count
    reorder_ns: Nanoseconds = Field(
        default=0.0, description="The part of `transfer_ns` that changes the host's layout; the rest is on the bus."
    )


class TransferPart(Part):
    """Data that the plan moves over the bus."""

    source: Name
    target: Name
    size_bytes: Count
    start_ns: Nanoseconds = Field(description="When the source finishes.")
    finish_ns: Nanoseconds


class RegionPart(Part):
    """A maximal group of operators at one place that hang together by dependencies."""

    place: Name
    operators: tuple[Name, ...] = Field(min_length=1)
    crossbars: Count
    start_ns: Nanoseconds
    finish_ns: Nanoseconds


class PlaceCount(Part):
    """What one place does in the plan."""

    operators: Count
    regions: Count
    busy_ns: Nanoseconds = Field(description="Durations of its operators added up.")


class Counts(Part):
    """Counts a person would otherwise add up by hand."""

    operators: Count
    with_choice: Count = Field(description="Operators that can run at more than one place.")
    places: dict[str, PlaceCount]
    regions: Count
    transfers: Count
    transfer_bytes: Count
    transfer_ns: Nanoseconds = Field(description="Times of all transfers added up; transfers may overlap.")


Claim = Literal["optimal", "feasible"]
"""What is said of a schedule: that none is quicker, or only that it holds."""


class ProofPart(Part):
    """What became of the proof of a lower bound when it was verified without the solver."""

    verdict: Literal["verified", "incomplete", "none"] = Field(
        description=(
            "verified: the lower bound holds, by the certificate alone, or without one by sums over the costs; "
            "incomplete: only `bound_ns` could be verified, the rest is the method's word; none: all of it is."
        )
    )
    bound_ns: Nanoseconds = Field(description="The bound that was verified.")
    notes: tuple[str, ...] = Field(default=(), description="What it rests on.")


class SchedulePart(Part):
    """A schedule beside the plan's own, one entry for each operator of the plan."""

    options: tuple[Count, ...] = Field(description="Which of its options each takes; those ruled out come last.")
    starts: tuple[Count, ...] = Field(description="When each starts, in ticks.")


class CurvePart(Part):
    """From this many crossbars on, this latency."""

    crossbars: Count
    makespan_ns: Nanoseconds
    lower_bound_ns: Nanoseconds = Field(description="Latency no plan beats up to the crossbars of the next point.")
    status: Claim = Field(description="optimal: makespan and lower bound are equal, and both have been verified.")
    solver_claims: Claim = Field(description="optimal: makespan and lower bound are equal, by the method's word.")
    schedule: SchedulePart | None = Field(default=None, description="What reaches the latency; null: not recorded.")


class FreePart(Part):
    """The best plan known without the user's fixed places, on the same costs and crossbars."""

    makespan_ns: Nanoseconds
    lower_bound_ns: Nanoseconds
    status: Claim = Field(description="As of the plan.")
    solver_claims: Claim = Field(description="As of the plan.")
    schedule: SchedulePart
    certificate: Certificate | None = Field(default=None, description="Proof of the lower bound, in ticks.")
    proof: ProofPart


class TimeKinds(Part):
    """Where the times of the plan come from."""

    host: TimeKind = "unknown"
    cim: TimeKind = "modelled"
    transfer: TimeKind = "modelled"
    makespan: TimeKind = "simulated"


class ProfilePart(Part):
    """The host profile the plan was made with."""

    kind: TimeKind = "unknown"
    machine: str = Field(default="", description="The processor.")
    threads: int | None = Field(default=None, ge=1)
    scale_factor: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Unprofiled wall time over profiled time; the host times are scaled by it.",
    )
    runtime: str = Field(default="", description="Name and version of what ran the model.")
    values: dict[str, str] = Field(default_factory=dict, description="Values of inputs that the user gave.")
    date: str = Field(default="", description="When it was measured, as in ISO 8601.")
    disturbed: str = Field(
        default="", description="How other work has disturbed the measurement, for people; empty if it has not."
    )
    mismatch: str = Field(
        default="", description="How the processor differs from the host of the hardware file; empty if it fits."
    )
    input_shapes: dict[str, tuple[Count, ...]] = Field(
        default_factory=dict, description="Shape of each input of the network that the times are for."
    )
