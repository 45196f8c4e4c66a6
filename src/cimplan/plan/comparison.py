"""Whether the costs in a plan are those of a model, a hardware description and a host profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from cimplan.cost.problem import HOST, Problem
from cimplan.units import format_duration

if TYPE_CHECKING:
    from cimplan.plan.build import PlanContext
    from cimplan.plan.document import OperatorPart, OptionPart
    from cimplan.plan.plan import Plan

MOST_SHOWN: Final = 20
"""Differences that are listed."""

_Options = tuple[tuple[str, float, int, str], ...]


def differences(plan: Plan, problem: Problem, context: PlanContext) -> list[str]:
    """Return in what a plan differs from costs that were made anew; empty if in nothing.

    Parameters
    ----------
    plan : Plan
        The plan; its budget is the question it answers, and not compared.
    problem : Problem
        The problem before any operator is fixed, as the model, the hardware and the profile give it.
    context : PlanContext
        Names, kinds of times and hashes that go with it.
    """
    return [
        *_network(plan, problem, context),
        *_dependencies(plan, problem, context),
        *_sums(plan, problem),
        *_context(plan, context),
    ]


def _network(plan: Plan, problem: Problem, context: PlanContext) -> Iterator[str]:
    """Yield differences between operators, by name."""
    index = {name: number for number, name in enumerate(problem.names)}
    known = {operator.name: operator for operator in plan.operators}
    for name in problem.names:
        if name not in known:
            yield f"operator {name!r} is missing in the plan"
    for operator in plan.operators:
        if operator.name not in index:
            yield f"operator {operator.name!r} is not in the network"
            continue
        number = index[operator.name]
        where = f"operator {operator.name!r}"
        if context.op_types and operator.op_type != context.op_types[number]:
            yield f"{where}: its type is {operator.op_type!r}, rebuilt {context.op_types[number]!r}"
        kind = context.host_times.get(operator.name, context.profile.kind)
        if operator.host_time != kind:
            yield f"{where}: its host time is {operator.host_time!r}, rebuilt {kind!r}"
        for name, found, rebuilt in (
            ("reorder_ns", operator.reorder_ns, context.reorder_ns.get(operator.name, 0.0)),
            ("network_bytes", operator.network_bytes, context.network_bytes.get(operator.name, 0)),
            ("file_nodes", operator.file_nodes, context.file_nodes.get(operator.name, ())),
            ("reorders", operator.reorders, context.reorders.get(operator.name, ())),
        ):
            if name in operator.model_fields_set and found != rebuilt:
                yield f"{where}: {name} is {found!r}, rebuilt {rebuilt!r}"
        yield from _options(plan, operator, _of_problem(problem, number), where)
        why = context.unsupported.get(operator.name, "")
        only = operator.gain_ns is None and operator.place == HOST
        if only and why and operator.reason != f"only on {HOST}: {why}":
            yield f"{where}: its reason is {operator.reason!r}, rebuilt 'only on {HOST}: {why}'"
    if [name for name in problem.names if name in known] != [op.name for op in plan.operators if op.name in index]:
        yield "the operators are in another order"


def _of_problem(problem: Problem, number: int) -> _Options:
    return tuple(
        (option.place, option.duration * problem.tick_ns, option.crossbars, option.label)
        for option in problem.options[number]
    )


def _of_plan(parts: tuple[OptionPart, ...] | None) -> _Options:
    return tuple((part.place, part.duration_ns, part.crossbars, part.label) for part in parts or ())


def _options(plan: Plan, operator: OperatorPart, rebuilt: _Options, where: str) -> Iterator[str]:
    """Yield differences between the options of an operator; those that a fix has ruled out included."""
    fixed = plan.fixes.get(operator.name)
    expected = tuple(option for option in rebuilt if fixed is None or option[0] == fixed)
    found = _of_plan(operator.options)
    if sorted(found) != sorted(expected):
        yield f"{where}: its options are {_shown(found)}, rebuilt {_shown(expected)}"
    elif found != expected:
        yield f"{where}: its options are in another order"
    out = tuple(option for option in rebuilt if option not in expected)
    if operator.ruled_out is not None and _of_plan(operator.ruled_out) != out:
        yield f"{where}: ruled out are {_shown(_of_plan(operator.ruled_out))}, rebuilt {_shown(out)}"
    for name, given, there in (
        ("host_ns", operator.host_ns, [option[1] for option in rebuilt if option[0] == HOST]),
        ("cim_ns", operator.cim_ns, [option[1] for option in rebuilt if option[0] != HOST]),
    ):
        if given != min(there, default=None):
            yield f"{where}: {name} is {given!r}, rebuilt {min(there, default=None)!r}"


def _shown(options: _Options) -> str:
    each = (
        f"{place} {format_duration(duration)}" + (f" on {crossbars}" if crossbars else "")
        for place, duration, crossbars, _ in options
    )
    return ", ".join(each) or "none"


def _dependencies(plan: Plan, problem: Problem, context: PlanContext) -> Iterator[str]:
    """Yield differences between dependencies, by their ends."""
    rebuilt = {
        (problem.names[edge.source], problem.names[edge.target]): (edge.transfer * problem.tick_ns, edge.size_bytes)
        for edge in problem.dependencies
    }
    found = {(edge.source, edge.target): (edge.transfer_ns, edge.size_bytes) for edge in plan.dependencies}
    for ends, (transfer, size) in rebuilt.items():
        where = f"dependency {ends[0]!r} to {ends[1]!r}"
        if ends not in found:
            yield f"{where} is missing in the plan"
        elif found[ends] != (transfer, size):
            yield (
                f"{where}: {format_duration(found[ends][0])} for {found[ends][1]} bytes, "
                f"rebuilt {format_duration(transfer)} for {size}"
            )
    reorders = dict(zip(rebuilt, context.transfer_reorder_ns or (0.0,) * len(rebuilt), strict=True))
    for edge in plan.dependencies:
        reorder_ns = reorders.get((edge.source, edge.target), edge.reorder_ns)
        if "reorder_ns" in edge.model_fields_set and edge.reorder_ns != reorder_ns:
            where = f"dependency {edge.source!r} to {edge.target!r}"
            yield f"{where}: reorder_ns is {edge.reorder_ns!r}, rebuilt {reorder_ns!r}"
    for ends in found:
        if ends not in rebuilt:
            yield f"dependency {ends[0]!r} to {ends[1]!r} is not in the network"


def _sums(plan: Plan, problem: Problem) -> Iterator[str]:
    for name, found, rebuilt in (
        ("host_cores", plan.host_cores, problem.host_cores),
        ("tick_ns", plan.tick_ns, problem.tick_ns),
    ):
        if found != rebuilt:
            yield f"{name} is {found!r}, rebuilt {rebuilt!r}"


def _context(plan: Plan, context: PlanContext) -> Iterator[str]:
    """Yield differences between hashes and names; the name of a model is what people call it, and not compared."""
    yield from _hashes(plan.inputs, context.inputs)
    if plan.hardware != context.hardware:
        yield f"the hardware is {plan.hardware!r}, rebuilt {context.hardware!r}"
    for name in type(plan.profile).model_fields:
        found, rebuilt = getattr(plan.profile, name), getattr(context.profile, name)
        if name in plan.profile.model_fields_set and found != rebuilt:
            yield f"profile.{name} is {found!r}, rebuilt {rebuilt!r}"
    if "network_io" in plan.model_fields_set and plan.network_io != context.network_io:
        yield f"network_io is {plan.network_io!r}, rebuilt {context.network_io!r}"
    if plan.times.host != context.profile.kind:
        yield f"times.host is {plan.times.host!r}, rebuilt {context.profile.kind!r}"


def _hashes(found: Mapping[str, str], rebuilt: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*found, *rebuilt}):
        if found.get(name) != rebuilt.get(name):
            yield f"inputs.{name}: the SHA-256 is {found.get(name, 'not there')}, rebuilt {rebuilt.get(name, 'none')}"
