"""From a host profile and a hardware description to the partition problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from cimplan.cost.crossbar import CrossbarCost, crossbar_cost, unsupported_reason
from cimplan.cost.layout import FOR_THE_HOST, NOT_NEEDED, LayoutFold, ReorderTimes, fold_reorders
from cimplan.cost.problem import CIM, HORIZON_LIMIT_TICKS, HOST, Dependency, Option, Problem
from cimplan.cost.profile_file import HostProfile, TimeKind, require_times
from cimplan.cost.transfer import network_bytes, transfer_ns
from cimplan.errors import InputError
from cimplan.graph.layout import network_shapes
from cimplan.graph.operators import OperatorGraph
from cimplan.hardware.schema import Accelerator, Bus, Hardware

# Durations are rounded up to ticks; what floating-point noise adds above a whole tick does not count.
_NOISE_TICKS = 1e-6


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """What one operator costs at each place.

    Attributes
    ----------
    name, op_type : str
        As in the graph.
    host_ns : float
        Time on the host, with the reorders that it needs there.
    host_kind : {"measured", "estimated", "free (view)"}
        Where that time is from.
    cim : CrossbarCost or None
        Cost on the accelerator, "modelled" always; None if it cannot run there.
    reason_unsupported : str
        Why it cannot, for a person; empty if it can.
    reorder_ns : float
        The part of `host_ns` that turns tensors between the layouts of the host (`cimplan.cost.layout`).
    network_bytes : int
        Inputs and outputs of the network that cross the bus while it runs on the accelerator, where that is charged.
    label : str
        What tells its option on the accelerator from others there.
    """

    name: str
    op_type: str
    host_ns: float
    host_kind: TimeKind
    cim: CrossbarCost | None
    reason_unsupported: str
    reorder_ns: float = 0.0
    network_bytes: int = 0
    label: str = ""

    @property
    def cim_ns(self) -> float | None:
        """Time on the accelerator, None if it cannot run there."""
        return None if self.cim is None else self.cim.total_ns

    @property
    def crossbars(self) -> int:
        """Crossbars it would occupy, 0 if it cannot run there."""
        return 0 if self.cim is None else self.cim.crossbars


@dataclass(frozen=True)
class CostedNetwork:
    """A network with all its costs: what a partition method solves and a report explains.

    Attributes
    ----------
    problem : Problem
        Options, dependencies, budget, in ticks.
    graph : OperatorGraph
        The graph that is planned; its operators stand in the order of `problem.names`. Shapes are those of the
        network, and reorders between layouts of the host belong to the operators that need them.
    operators : tuple of OperatorCost
        In the same order.
    hardware : Hardware
        The description the costs are for.
    profile : HostProfile
        Where the host times are from.
    stands_for : mapping of str to tuple of str
        By operator: the operators of the profile that it stands for, itself among them.
    reorder_ns : tuple of float
        Per dependency: the part of its transfer that turns tensors between the layouts of the host.
    """

    problem: Problem
    graph: OperatorGraph
    operators: tuple[OperatorCost, ...]
    hardware: Hardware
    profile: HostProfile
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reorder_ns: tuple[float, ...] = ()

    @property
    def origin(self) -> str:
        """Where the host times are from: "measured" or "estimated"."""
        return self.profile.origin

    @property
    def network_io(self) -> Literal["charged", "free"]:
        """Whether inputs and outputs of the network cross the bus."""
        return "free" if self.hardware.bus is None else self.hardware.bus.network_io

    @property
    def host_only_ns(self) -> float:
        """Latency of the host alone, all operators one after another."""
        return math.fsum(operator.host_ns for operator in self.operators)

    @property
    def crossbars_of_everything(self) -> int:
        """Crossbars that offloading all that is supported would take."""
        return sum(operator.crossbars for operator in self.operators)

    @cached_property
    def by_name(self) -> Mapping[str, OperatorCost]:
        """Costs by operator name."""
        return {operator.name: operator for operator in self.operators}


def build_problem(profile: HostProfile, hardware: Hardware, *, budget: int | None = None) -> CostedNetwork:
    """Return the partition problem of a profiled network on given hardware.

    Durations are rounded up to whole ticks of 1 ns, or of the least power of ten nanoseconds with which the horizon
    fits the solvers' clock. Every option is kept however many crossbars it takes: the budget may change later.

    Parameters
    ----------
    profile : HostProfile
        Times on the host and the graph.
    hardware : Hardware
        Must have an accelerator.
    budget : int, optional
        Crossbars available; the accelerator's count by default.

    Raises
    ------
    InputError
        If the hardware has no accelerator, the profile lacks an operator's time, or the budget is negative.
    """
    accelerator, bus = hardware.accelerator, hardware.bus
    if accelerator is None or bus is None:
        raise InputError(
            "this hardware has no crossbar accelerator to partition for",
            where=f"hardware {hardware.name!r}",
            why="it is a dual-mode chip" if hardware.dual_mode else "",
            fix="Use `cimplan compile` for it, or choose another with --hardware",
        )
    if budget is not None and budget < 0:
        raise InputError(f"the crossbar budget must not be negative, and is {budget}")
    require_times(profile)
    whole = network_shapes(profile.graph())
    fold = fold_reorders(whole)
    graph = fold.graph
    operators = _operators(profile, fold, accelerator, bus)
    reorders = fold.reorders(
        {operator.name for operator in operators if operator.cim is not None},
        {operator.name for operator in operators if operator.cim and operator.cim.total_ns < operator.host_ns},
        ReorderTimes.of(whole, profile.host_ns),
    )
    turning = tuple(reorders(edge) for edge in graph.edges)
    transfers = [transfer_ns(edge, bus) + more for edge, more in zip(graph.edges, turning, strict=True)]
    tick_ns = _tick_ns(operators, transfers)
    problem = Problem(
        names=tuple(operator.name for operator in operators),
        options=tuple(_options(operator, tick_ns) for operator in operators),
        dependencies=tuple(
            Dependency(edge.source, edge.target, _ticks(transfer, tick_ns), edge.size_bytes)
            for edge, transfer in zip(graph.edges, transfers, strict=True)
        ),
        budget=accelerator.crossbars if budget is None else budget,
        host_cores=hardware.host.cores,
        tick_ns=tick_ns,
    )
    return CostedNetwork(problem, graph, tuple(operators), hardware, profile, fold.stands_for, turning)


def planned_operators(profile: HostProfile) -> tuple[str, ...]:
    """Return the names of the operators that a plan of a profiled network places, in their order."""
    return tuple(op.name for op in fold_reorders(network_shapes(profile.graph())).graph.operators)


def _operators(profile: HostProfile, fold: LayoutFold, accelerator: Accelerator, bus: Bus) -> list[OperatorCost]:
    """Return what each operator costs at each place."""
    graph, host_ns = fold.graph, profile.host_ns
    reasons = {op.name: unsupported_reason(op, accelerator) for op in graph.operators}
    off_host = fold.off_host({name for name, reason in reasons.items() if not reason})
    operators: list[OperatorCost] = []
    for op in graph.operators:
        reason, cim, label = reasons[op.name], None, ""
        if op.name in off_host:
            reason, cim, label = "", CrossbarCost(0, 0.0, 0.0, 0.0), NOT_NEEDED
        elif op.name in fold.shared:
            reason = FOR_THE_HOST
        elif not reason and op.work is not None:
            cim = crossbar_cost(graph, op, op.work, accelerator)
        crossing = 0
        if cim is not None and bus.network_io == "charged":
            crossing = network_bytes(graph, op)
            cim = replace(cim, network_ns=crossing / bus.bandwidth_gbps)
        turning = math.fsum(host_ns[name] * share for name, share in fold.shares.get(op.name, {}).items())
        timing = profile.times[op.name]
        operators.append(
            OperatorCost(
                name=op.name,
                op_type=op.op_type,
                host_ns=timing.host_ns + turning,
                host_kind=timing.kind,
                cim=cim,
                reason_unsupported=reason,
                reorder_ns=timing.host_ns if op.name in fold.shared else turning,
                network_bytes=crossing,
                label=label,
            )
        )
    return operators


def _options(operator: OperatorCost, tick_ns: float) -> tuple[Option, ...]:
    host = Option(HOST, _ticks(operator.host_ns, tick_ns))
    if operator.cim is None:
        return (host,)
    return host, Option(CIM, _ticks(operator.cim.total_ns, tick_ns), operator.cim.crossbars, operator.label)


def _ticks(time_ns: float, tick_ns: float) -> int:
    """Return a time in ticks, rounded up; positive if the time is. Monotone in the time."""
    return max(1, math.ceil(time_ns / tick_ns - _NOISE_TICKS)) if time_ns > 0 else 0


def _tick_ns(operators: list[OperatorCost], transfers: list[float]) -> float:
    """Return the finest power of ten, at least 1 ns, with which all times added up fit the solvers' clock."""
    times = [max(operator.host_ns, operator.cim_ns or 0.0) for operator in operators] + transfers
    tick_ns = 1.0
    while math.fsum(times) / tick_ns + len(times) > HORIZON_LIMIT_TICKS:
        tick_ns *= 10
    return tick_ns
