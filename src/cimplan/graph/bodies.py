"""What is inside control flow: products and constants of the subgraphs of If, Loop and Scan, which are not planned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cimplan.graph.nodes import RuleError, domain_of, dtype_name
from cimplan.graph.operators import BITS_OF_DTYPE
from cimplan.operator_types import CONTROL_FLOW, KNOWN_DOMAINS, TABLE
from cimplan.units import format_size

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class Body:
    """The subgraphs of one node, with the subgraphs inside them.

    Attributes
    ----------
    products : int
        Nodes that do, or may do, matrix work.
    weight_bytes : int
        Constants that the subgraphs hold themselves: initializers and Constant nodes.
    """

    products: int
    weight_bytes: int

    @property
    def remark(self) -> str:
        """What a reason adds about them; empty if nothing there would be planned outside."""
        if not self.products:
            return ""
        operators = "1 matrix operator" if self.products == 1 else f"{self.products} matrix operators"
        return f"; {operators} and {format_size(self.weight_bytes)} of constants inside are not planned"


def body_of(node: onnx.NodeProto) -> Body | None:
    """Return what the subgraphs of a node hold; None if it has none."""
    graphs = list(_subgraphs(node))
    if not graphs:
        return None
    nodes = [inner for graph in graphs for inner in graph.node]
    return Body(
        products=sum(_multiplies(inner) for inner in nodes),
        weight_bytes=sum(_size_bytes(tensor) for graph in graphs for tensor in _constants(graph)),
    )


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield graph
            for inner in graph.node:
                yield from _subgraphs(inner)


def _multiplies(node: onnx.NodeProto) -> bool:
    row = TABLE.get((domain_of(node), node.op_type))
    if row is None:
        return domain_of(node) not in KNOWN_DOMAINS
    return row.reason != CONTROL_FLOW


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from (sparse.values for sparse in graph.sparse_initializer)
    for node in graph.node:
        if node.op_type == "Constant" and domain_of(node) == "":
            yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _size_bytes(tensor: onnx.TensorProto) -> int:
    try:
        bits = BITS_OF_DTYPE.get(dtype_name(tensor.data_type), 0)
    except RuleError:
        return 0
    elements = math.prod(max(int(size), 0) for size in tensor.dims)
    return -(-elements * bits // 8)
