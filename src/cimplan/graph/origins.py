"""Which nodes of the user's file each operator of an optimised graph stands for.

ONNX Runtime fuses operators, changes their layout and moves what is between them. Most tensors keep their names through
that: an operator stands for everything between the tensors it reads and those it makes. Where a tensor got a new name
(blocked and channels-last layouts), the operator is called after the node or the tensor of the file it began as; what
was fused behind it follows from the data: a single reader of its result, all of whose other inputs the operator has. A
product is never fused behind another operator, and a Pad only into what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cimplan.errors import InputError
from cimplan.graph.attention import PROJECTION, SPLIT
from cimplan.graph.nodes import captured_names, domain_of
from cimplan.graph.operators import Operator, OperatorGraph
from cimplan.graph.structure import unique_names
from cimplan.operator_types import TABLE

if TYPE_CHECKING:
    import onnx

# What ONNX Runtime appends to the name of what it changes, and the numbers of operators of one name.
_MARKS = re.compile(r"(?:_token_\d+|_nchwc|_nhwc|/\w*Fusion/?|/\w*Fused\w*/?)+$")
# What the optimiser puts between operators without computing anything new.
_SAME_DATA = frozenset(
    {"ReorderInput", "ReorderOutput", "Transpose", "Reshape", "Identity", "Cast", "QuantizeLinear", "DequantizeLinear"}
)
# What is fused, if at all, into the operator that reads its result.
_WITH_WHAT_FOLLOWS = frozenset({"DequantizeLinear", "Pad"})
_NUMBER = re.compile(r"_\d+$")


def file_nodes(graph: OperatorGraph, model: onnx.ModelProto, where: str) -> dict[str, tuple[str, ...]]:
    """Return for each operator the names of the file's nodes it stands for, in the order of the file.

    Parameters
    ----------
    graph : OperatorGraph
        The model as it was optimised.
    model : onnx.ModelProto
        The user's model; weights are not looked at.
    where : str
        The model, for errors.

    Returns
    -------
    dict of str to tuple of str
        By operator name. Names are those `read_graph` gives to nodes. Empty for what the optimiser added, and where
        nothing tells. A node stands in several if they share it, such as one DequantizeLinear with three readers.
    """
    try:
        return _Trace(graph, model, where).run()
    except InputError:  # a node without name and output: reading says so
        return {}


class _Trace:
    def __init__(self, graph: OperatorGraph, model: onnx.ModelProto, where: str) -> None:
        nodes = list(model.graph.node)
        self._graph = graph
        self._nodes = nodes
        self._names = unique_names([node.name or next(filter(None, node.output), "") for node in nodes], where)
        self._reads = [tuple(dict.fromkeys([*filter(None, node.input), *captured_names(node)])) for node in nodes]
        self._maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
        self._readers: dict[str, list[int]] = {}
        for index, reads in enumerate(self._reads):
            for name in reads:
                self._readers.setdefault(name, []).append(index)
        self._results = {value.name for value in model.graph.output}
        self._constant = self._constants(model)
        self._by_name = {name: index for index, name in enumerate(self._names)}
        self._made_by_name = {name for op in graph.operators for name in op.outputs}
        self._claimed = {self._began_as(op) for op in graph.operators} - {None}
        # Of each tensor of the optimised graph the tensor of the file that it is, in whatever layout.
        self._is: dict[str, str] = {name: name for name in graph.inputs}
        self._there: set[str] = set(graph.inputs)
        # Results of operators that nothing names yet, and those operators.
        self._unknown: dict[str, str] = {}

    def _constants(self, model: onnx.ModelProto) -> set[str]:
        constants = {tensor.name for tensor in model.graph.initializer}
        constants |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        for node, reads in zip(self._nodes, self._reads, strict=True):
            if all(name in constants for name in reads):
                constants.update(filter(None, node.output))
        return constants

    def run(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[int]] = {op.name: set() for op in self._graph.operators}
        for op in self._graph.operators:
            self._settle(op, found)
            for output in op.outputs:
                self._trace(op, output, found[op.name])
        for name in found:
            # Parts of an attention that was split stand for what the whole does.
            whole = name.removesuffix(PROJECTION).removesuffix(SPLIT)
            if whole != name and whole in found:
                found[name] = found[whole]
        return {name: tuple(self._names[index] for index in sorted(covered)) for name, covered in found.items()}

    def _settle(self, op: Operator, found: dict[str, set[int]]) -> None:
        """Say what an operator without a name was, from the first node of one that reads its result.

        What that node reads and nothing has made yet is the result.
        """
        began = self._began_as(op)
        if began is None:
            return
        unknown = [name for name in op.inputs if name in self._unknown]
        missing = [name for name in self._reads[began] if name not in self._there and name not in self._constant]
        if len(unknown) == len(missing) == 1:
            self._between(missing[0], found[self._unknown.pop(unknown[0])])
            self._remember(unknown[0], missing[0])

    def _trace(self, op: Operator, output: str, covered: set[int]) -> None:
        """Add the nodes between what an operator reads and one of its outputs."""
        if output in self._maker:
            if output not in self._there:
                self._between(output, covered)
            self._remember(output, output)
            return
        began = self._began_as(op)
        if began is None or output != op.outputs[0]:
            carried = [self._is[name] for name in op.inputs if name in self._is]
            if op.op_type in _SAME_DATA and len(carried) == 1:
                self._is[output] = carried[0]
            elif output == op.outputs[0]:
                self._unknown[output] = op.name
            return
        last = next(filter(None, self._nodes[began].output), "")
        if last in self._there:
            self._is[output] = last
            return
        covered = self._between(last, covered)
        for index in self._fused_behind(op, last, covered):
            covered.add(index)
            last = next(filter(None, self._nodes[index].output), "")
        self._remember(output, last)

    def _remember(self, output: str, name: str) -> None:
        self._is[output] = name
        self._there.add(name)

    def _between(self, name: str, covered: set[int]) -> set[int]:
        """Add the nodes that a tensor is made by, back to the tensors that are there."""
        waiting = [name]
        while waiting:
            maker = self._maker.get(waiting.pop())
            if maker is None or maker in covered:
                continue
            covered.add(maker)
            waiting += [read for read in self._reads[maker] if read not in self._there]
        return covered

    def _began_as(self, op: Operator) -> int | None:
        """Return the node of the file that an operator is called after, by its own name or that of its result."""
        for name in (op.name, _MARKS.sub("", op.name), _MARKS.sub("", _NUMBER.sub("", op.name))):
            if name in self._maker and not self._makes_constants(self._maker[name]):
                return self._maker[name]
            if name in self._by_name:
                return self._by_name[name]
        return None

    def _makes_constants(self, index: int) -> bool:
        return all(name in self._constant for name in self._nodes[index].output if name)

    def _fused_behind(self, op: Operator, last: str, covered: set[int]) -> Iterator[int]:
        """Yield the nodes behind an operator's first one that were fused into it."""
        has = {self._is[name] for name in op.inputs if name in self._is} | self._constant
        own = {name for index in covered for name in self._nodes[index].output}
        while last not in self._results and len(readers := self._readers.get(last, [])) == 1:
            (reader,) = readers
            node = self._nodes[reader]
            outputs = [name for name in node.output if name]
            domain = domain_of(node)
            if (
                reader in self._claimed
                or (domain, node.op_type) in TABLE
                or (domain == "" and node.op_type in _WITH_WHAT_FOLLOWS)
                or len(outputs) != 1
                or outputs[0] in self._made_by_name
                or not all(name in has or name in own for name in self._reads[reader])
            ):
                return
            yield reader
            last = outputs[0]
            own.add(last)
