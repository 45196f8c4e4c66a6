"""Functions that a model brings along: whether they can be expanded, found out before any library tries.

A kilobyte of functions that call each other twice stands for a billion nodes, and ONNX Runtime ends the process on a
call that does not fit its function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError
from cimplan.graph.nodes import domain_of

if TYPE_CHECKING:
    import onnx

MOST_NODES: Final = 200_000
"""Nodes after expansion; large language models have some ten thousand."""

MOST_LEVELS: Final = 100
"""Functions that call each other in a row: libraries go down by recursion."""

Key = tuple[str, str, str]


def require_bounded_functions(model: onnx.ModelProto, where: str) -> None:
    """Refuse a model whose functions expand to more than `MOST_NODES` nodes, call themselves, or get too much.

    A function that calls another twice, which calls a third twice, and so on, doubles with every line of the file.

    Raises
    ------
    InputError
        Says how many nodes there would be, which function calls itself, or which call does not fit its function.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    for nodes in (model.graph.node, *(f.node for f in model.functions)) if functions else ():
        for node in _all_nodes(nodes):
            if (function := functions.get(_key(node))) is not None:
                _require_ends(node, function, where)
    sizes: dict[Key, int] = {}
    levels: dict[Key, int] = {}
    open_keys: set[Key] = set()
    stack: list[tuple[Key, bool]] = [(key, False) for key in functions]
    while stack:
        key, done = stack.pop()
        calls = [call for call in _calls(functions[key].node) if call in functions]
        if done:
            open_keys.discard(key)
            own = sum(1 for _ in _calls(functions[key].node))
            sizes[key] = own + sum(sizes[call] for call in calls)
            levels[key] = 1 + max((levels[call] for call in calls), default=0)
            if levels[key] > MOST_LEVELS:
                raise InputError(
                    f"more than {MOST_LEVELS} functions of the model call each other in a row",
                    where=f"{where}: function {key[1]!r}",
                    fix="Export the model without nested functions",
                )
            continue
        if key in sizes:
            continue
        if key in open_keys:
            continue
        open_keys.add(key)
        stack.append((key, True))
        for call in dict.fromkeys(calls):
            if call in open_keys:
                raise InputError(
                    f"the function {call[1]!r} calls itself",
                    where=where,
                    why="functions of a model are replaced by their nodes, which would never end",
                    fix="Export the model again",
                )
            if call not in sizes:
                stack.append((call, False))
    total = sum(1 + sizes.get(call, 0) for call in _calls(model.graph.node))
    if functions and total > MOST_NODES:
        raise InputError(
            f"the functions of the model expand to {total:,} nodes"
            if total < 10**15
            else "the functions of the model expand to more nodes than any machine holds",
            where=where,
            why=f"they call each other again and again; at most {MOST_NODES:,} nodes are read",
            fix="Export the model without nested functions, or split it",
        )


def _require_ends(node: onnx.NodeProto, function: onnx.FunctionProto, where: str) -> None:
    for given, taken, what in (
        (len(node.input), len(function.input), "inputs"),
        (len(node.output), len(function.output), "outputs"),
    ):
        if given > taken:
            raise InputError(
                f"calls the function {node.op_type!r} with {given} {what}",
                where=f"{where}: node {node.name or node.op_type!r}",
                why=f"the model defines it with {taken}",
                fix="Check the file with onnx.checker.check_model, or export the model again",
            )


def _key(node: onnx.NodeProto) -> Key:
    return domain_of(node), node.op_type, node.overload


def _calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[Key]:
    """Yield what each node is of, those of subgraphs too."""
    return map(_key, _all_nodes(nodes))


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _all_nodes(graph.node)
