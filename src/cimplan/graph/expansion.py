"""How many nodes the functions of a model expand to, counted before anything is expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError
from cimplan.graph.nodes import domain_of

if TYPE_CHECKING:
    import onnx

MOST_NODES: Final = 200_000
"""Nodes after expansion; large language models have some ten thousand."""

Key = tuple[str, str, str]


def require_bounded_functions(model: onnx.ModelProto, where: str) -> None:
    """Refuse a model whose functions expand to more than `MOST_NODES` nodes, or call themselves.

    A function that calls another twice, which calls a third twice, and so on, doubles with every line of the file.

    Raises
    ------
    InputError
        Says how many nodes there would be, or which function calls itself.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[Key, int] = {}
    open_keys: set[Key] = set()
    stack: list[tuple[Key, bool]] = [(key, False) for key in functions]
    while stack:
        key, done = stack.pop()
        calls = [call for call in _calls(functions[key].node) if call in functions]
        if done:
            open_keys.discard(key)
            own = sum(1 for _ in _calls(functions[key].node))
            sizes[key] = own + sum(sizes[call] for call in calls)
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
    nodes = sum(1 + sizes.get(call, 0) for call in _calls(model.graph.node))
    if nodes > MOST_NODES:
        raise InputError(
            f"the functions of the model expand to {nodes:,} nodes"
            if nodes < 10**15
            else "the functions of the model expand to more nodes than any machine holds",
            where=where,
            why=f"they call each other again and again; at most {MOST_NODES:,} nodes are read",
            fix="Export the model without nested functions, or split it",
        )


def _calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[Key]:
    """Yield what each node is of, those of subgraphs too."""
    for node in nodes:
        yield domain_of(node), node.op_type, node.overload
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _calls(graph.node)
