"""Functions that a model brings along: what has to hold of their calls before any library expands them.

ONNX Runtime ends the process on calls that do not fit, and both it and the inliner of onnx expand whatever they are
given: a kilobyte of functions that call each other twice stands for a billion operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError

if TYPE_CHECKING:
    import onnx

    Key = tuple[str, str]

MOST_NODES: Final = 1_000_000
"""Operators that the functions of a model may expand to."""

MOST_DEPTH: Final = 100
"""Functions that may call each other in a row: libraries go down by recursion."""

_FIX = "Check the file with onnx.checker.check_model, or export the model again"


def require_calls(model: onnx.ModelProto, where: str) -> None:
    """Refuse a model whose calls of its own functions do not fit them, never end, or expand to too much.

    Parameters
    ----------
    model : onnx.ModelProto
        The model; its weights are not needed.
    where : str
        What errors call it.

    Raises
    ------
    InputError
        Names the function.
    """
    functions = {(held.domain, held.name): held for held in model.functions}
    if not functions:
        return
    calls: dict[Key, list[Key]] = {}
    sizes: dict[Key, int] = {}
    main = ("", "")
    for key, nodes in ((main, model.graph.node), *((key, held.node) for key, held in functions.items())):
        inner = list(_all_nodes(nodes))
        for node in inner:
            held = functions.get((node.domain, node.op_type))
            if held is not None:
                _require_ends(node, held, where)
        calls[key] = [(node.domain, node.op_type) for node in inner if (node.domain, node.op_type) in functions]
        sizes[key] = len(inner)
    _require_end(calls, sizes, main, where)


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
                fix=_FIX,
            )


def _require_end(calls: dict[Key, list[Key]], sizes: dict[Key, int], main: Key, where: str) -> None:
    """Count what each function expands to, from those that call none on; a ring has no such order."""
    expanded: dict[Key, int] = {}
    depth: dict[Key, int] = {}
    path: dict[Key, None] = {}
    waiting = [(main, False)]
    while waiting:
        key, done = waiting.pop()
        if key in expanded:
            continue
        if done:
            path.pop(key)
            expanded[key] = sizes[key] + sum(expanded[called] for called in calls[key])
            depth[key] = 1 + max((depth[called] for called in calls[key]), default=0)
            if expanded[key] > MOST_NODES or depth[key] > MOST_DEPTH:
                much = f"more than {MOST_NODES:,} operators" if expanded[key] > MOST_NODES else "too many levels"
                raise InputError(
                    f"the functions of the model expand to {much}",
                    where=f"{where}: function {key[1]!r}" if key[1] else where,
                    fix="Export the model without functions",
                )
            continue
        if key in path:
            raise InputError(
                f"the function {key[1]!r} calls itself", where=where, why="it would be expanded without end", fix=_FIX
            )
        path[key] = None
        waiting.append((key, True))
        waiting.extend((called, False) for called in dict.fromkeys(calls[key]) if called not in expanded)


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of the graphs in their attributes."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)
