"""Find the operators of a plan in a graph that was optimised again.

ONNX Runtime names the nodes it makes by counters, and does not always count in the same order; operators of one name
are numbered by their order in the graph (see `cimplan.cost.naming`). So a name alone may mean another operator; what
an operator is follows from its type and from what flows into and out of it. Both graphs are coloured by that until
nothing changes (colour refinement), operators of one colour are matched, by name where possible, and the result must
keep every dependency with its size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cimplan.errors import InputError
from cimplan.graph.operators import OperatorGraph
from cimplan.plan.plan import Plan

_NUMBER: Final = re.compile(r"_\d+$")


@dataclass(frozen=True)
class _Shape:
    """A graph without its names: types, names where they can be trusted, and (source, target, bytes) of each edge."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]


def match_operators(plan: Plan, graph: OperatorGraph) -> list[str]:
    """Return the name in the graph of each operator of a plan.

    Parameters
    ----------
    plan : Plan
        A plan.
    graph : OperatorGraph
        The same model, optimised again.

    Raises
    ------
    InputError
        If the graph has other operators or dependencies than the plan.
    """
    index = {operator.name: number for number, operator in enumerate(plan.operators)}
    planned = _Shape(
        tuple(index),
        tuple(operator.op_type for operator in plan.operators),
        tuple((index[edge.source], index[edge.target], edge.size_bytes) for edge in plan.dependencies),
    )
    found = _Shape(
        tuple(operator.name for operator in graph.operators),
        tuple(operator.op_type for operator in graph.operators),
        tuple((edge.source, edge.target, edge.size_bytes) for edge in graph.edges),
    )
    matched = _match(planned, found)
    if matched is None:
        made = plan.profile.runtime or "another ONNX Runtime"
        strange = next((name for name in planned.names if name not in set(found.names)), "")
        raise InputError(
            "the model's optimised graph is not the one that was planned",
            where=f"operator {strange!r}" if strange else plan.model,
            why=f"the plan has {len(planned.names)} operators and {len(planned.edges)} dependencies in a graph made by "
            f"{made}; here there are {len(found.names)} and {len(found.edges)}",
            fix="Profile and plan the model again on this machine",
        )
    return [found.names[number] for number in matched]


def _match(planned: _Shape, found: _Shape) -> list[int] | None:
    if len(planned.names) != len(found.names) or len(planned.edges) != len(found.edges):
        return None
    colours: dict[object, int] = {}
    first, second = _first_colours(planned, colours), _first_colours(found, colours)
    while True:
        colours = {}
        refined = _refined(planned, first, colours), _refined(found, second, colours)
        if len(set(refined[0])) == len(set(first)):
            break
        first, second = refined
    if sorted(first) != sorted(second):
        return None
    classes: dict[int, list[int]] = {}
    for number, colour in enumerate(second):
        classes.setdefault(colour, []).append(number)
    by_name = {name: number for number, name in enumerate(found.names)}
    matched = [-1] * len(first)
    for number, name in enumerate(planned.names):
        same = by_name.get(name, -1)
        if same >= 0 and second[same] == first[number]:
            matched[number] = same
            classes[second[same]].remove(same)
    for number, colour in enumerate(first):
        if matched[number] < 0:
            matched[number] = classes[colour].pop(0)
    kept = {(matched[source], matched[target], size) for source, target, size in planned.edges}
    return matched if kept == set(found.edges) else None


def _first_colours(shape: _Shape, colours: dict[object, int]) -> list[int]:
    # Operators of one name are told apart by what is around them, not by their number.
    return [
        colours.setdefault((op_type, _NUMBER.sub("", name)), len(colours))
        for name, op_type in zip(shape.names, shape.types, strict=True)
    ]


def _refined(shape: _Shape, colour: Sequence[int], colours: dict[object, int]) -> list[int]:
    """Return colours that also tell operators apart by the colours around them and the bytes on the edges."""
    around: list[list[tuple[int, int, int]]] = [[] for _ in colour]
    for source, target, size in shape.edges:
        around[target].append((0, colour[source], size))
        around[source].append((1, colour[target], size))
    return [
        colours.setdefault((mine, tuple(sorted(others))), len(colours))
        for mine, others in zip(colour, around, strict=True)
    ]
