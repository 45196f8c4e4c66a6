"""Operator names that a person can use again: the model's own, without what ONNX Runtime adds to them.

When ONNX Runtime fuses operators or changes their layout it appends counters and layout marks to node names
(``conv1_token_7``, ``conv1_nchwc``), and the counters differ from session to session. A placement the user fixed by
name, or a plan to start from, must not depend on them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cimplan.graph.operators import OperatorGraph

if TYPE_CHECKING:
    import onnx

_NOT_JSON_SAFE = re.compile(r'["\\\x00-\x1f]')
_ADDED = re.compile(r"(?:_token_\d+|_nchwc|_nhwc)+$")


def with_stable_names(graph: OperatorGraph) -> OperatorGraph:
    """Return the graph with the marks of ONNX Runtime taken off its operators' names.

    Operators that would have the same name are numbered in the order of the graph, the first without a number.
    """
    bases = [_ADDED.sub("", op.name) or op.op_type for op in graph.operators]
    used = set(bases)
    seen: set[str] = set()
    names: list[str] = []
    for base in bases:
        name, number = base, 1
        while name in seen or (number > 1 and name in used):
            number += 1
            name = f"{base}_{number}"
        seen.add(name)
        names.append(name)
    return replace(
        graph, operators=tuple(replace(op, name=name) for op, name in zip(graph.operators, names, strict=True))
    )


def make_json_safe(graph: onnx.GraphProto) -> bool:
    """Replace quotes, backslashes and control characters in the node names of a graph and of its subgraphs.

    ONNX Runtime writes node names into its profile as they are, and such a name would make that file no JSON.

    Parameters
    ----------
    graph : onnx.GraphProto
        Changed in place, always in the same way: the names do not depend on anything but the graph.

    Returns
    -------
    bool
        Whether there was such a name.
    """
    used = {node.name for node in graph.node}
    found = False
    for node in graph.node:
        if _NOT_JSON_SAFE.search(node.name):
            base = name = _NOT_JSON_SAFE.sub("_", node.name)
            number = 1
            while name in used:
                number += 1
                name = f"{base}_{number}"
            used.add(name)
            node.name = name
            found = True
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                found = make_json_safe(inner) or found
    return found
