"""Operator names that a person can use again: the model's own, without what ONNX Runtime adds to them.

When ONNX Runtime fuses operators or changes their layout it appends counters and layout marks to node names
(``conv1_token_7``, ``conv1_nchwc``), and the counters differ from session to session. A placement the user fixed by
name, or a plan to start from, must not depend on them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cimplan.graph.layout import without_marks
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.origins import file_nodes
from cimplan.graph.skim import read_skeleton


def with_stable_names(graph: OperatorGraph) -> OperatorGraph:
    """Return the graph with the marks of ONNX Runtime taken off its operators' names.

    Operators that would have the same name are numbered in the order of the graph, the first without a number.
    """
    bases = [without_marks(op.name) or op.op_type for op in graph.operators]
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


def with_file_nodes(graph: OperatorGraph, path: Path) -> OperatorGraph:
    """Return an optimised graph whose operators say which nodes of the model's file they stand for.

    Raises
    ------
    InputError
        If the file is no ONNX model.
    """
    found = file_nodes(graph, read_skeleton(path), str(path))
    return replace(graph, operators=tuple(replace(op, file_nodes=found.get(op.name, ())) for op in graph.operators))
