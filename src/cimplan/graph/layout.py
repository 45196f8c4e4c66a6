"""The network behind a layout of the host: true shapes of a graph that ONNX Runtime has turned to blocks.

For float convolutions on x86, ONNX Runtime keeps activations in blocks of 8 or 16 channels, after the processor
(domain com.microsoft.nchwc), and pads channels to whole blocks: 20 channels become 24 or 32, in weights, biases and
depthwise groups too. That is how the host computes, and not what the network is: crossbars and buses see 20.

The channels of a blocked tensor follow from where it enters or leaves the layout (ReorderInput reads and ReorderOutput
writes the true shape), from operators that keep channels (poolings, elementwise operators, depthwise convolutions, a
tensor that is added), from operators that ONNX Runtime blocks only where nothing is padded (concatenations, grouped
convolutions), and, between two convolutions, from the model file: a blocked node is called after the tensor of the
file that it makes. What follows from none of these keeps the size it has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor
from cimplan.operator_types import NCHWC

REORDER_INPUT = "ReorderInput"
REORDER_OUTPUT = "ReorderOutput"

_ADDED = re.compile(r"(?:_token_\d+|_nchwc|_nhwc)+$")
_RANK = 4
_NOTHING_NAMED: Mapping[str, tuple[int, ...]] = {}


def without_marks(name: str) -> str:
    """Return a node's name without the counters and layout marks that ONNX Runtime appends to it."""
    return _ADDED.sub("", name)


def is_reorder(op: Operator, op_type: str) -> bool:
    """Return whether an operator is the reorder of this type, into or out of blocks."""
    return op.domain == NCHWC and op.op_type == op_type


def blocked_tensors(graph: OperatorGraph) -> frozenset[str]:
    """Return the tensors that the host keeps in blocks of channels.

    All that blocked operators make, but for what ReorderOutput turns back; and what other operators make of blocked
    tensors: ONNX Runtime leaves only such operators among them as give each element, or each channel, the same place.
    """
    blocked: set[str] = set()
    for op in graph.operators:
        if is_reorder(op, REORDER_OUTPUT):
            continue
        if op.domain == NCHWC or any(name in blocked for name in op.inputs):
            blocked.update(name for name in op.outputs if len(graph.tensors[name].shape) == _RANK)
    return frozenset(blocked)


@contextmanager
def well_formed(graph: OperatorGraph) -> Iterator[None]:
    """Refuse a graph whose blocked operators name tensors, or have shapes, that ONNX Runtime never writes.

    Raises
    ------
    InputError
        In place of what trips over them: such a graph comes from a file that was edited.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            "the graph contradicts itself",
            where=f"graph {graph.name!r}",
            why="an operator on channels in blocks does not fit its tensors",
            fix="Make the profile again with `cimplan profile` rather than editing it",
        ) from error


def network_shapes(graph: OperatorGraph, named: Mapping[str, tuple[int, ...]] = _NOTHING_NAMED) -> OperatorGraph:
    """Return a graph with the shapes and the matrix work of the network, whatever blocks its host keeps channels in.

    Parameters
    ----------
    graph : OperatorGraph
        As ONNX Runtime optimised it. A graph that is right already comes back equal.
    named : mapping of str to tuple of int
        Shapes of tensors of the model file, by their names there.

    Raises
    ------
    InputError
        If the graph contradicts itself.
    """
    blocked = blocked_tensors(graph)
    if not blocked:
        return graph
    with well_formed(graph):
        return _with_network_shapes(graph, named, blocked)


def _with_network_shapes(
    graph: OperatorGraph, named: Mapping[str, tuple[int, ...]], blocked: frozenset[str]
) -> OperatorGraph:
    channels = _Channels(graph, blocked, named)
    tensors = dict(graph.tensors)
    for name in blocked:
        tensors[name] = _with_channels(tensors[name], channels.of(name))
    operators = []
    for op in graph.operators:
        changed = op
        if op.domain == NCHWC and op.work is not None:
            changed = _true_convolution(graph, op, op.work, tensors)
        operators.append(changed)
    return replace(graph, operators=tuple(operators), tensors=tensors)


def open_channels(graph: OperatorGraph) -> bool:
    """Return whether the channels of some tensor do not follow from reorders alone, so that the file may help."""
    blocked = blocked_tensors(graph)
    with well_formed(graph):
        return bool(blocked) and _Channels(graph, blocked, _NOTHING_NAMED).open


def network_of(graph: OperatorGraph, model: Path) -> OperatorGraph:
    """Return `network_shapes` of a graph with what its model file says, which is read only where that can help.

    Parameters
    ----------
    graph : OperatorGraph
        As ONNX Runtime optimised the model.
    model : Path
        The model file; it is only read, and without its weights.
    """
    if not open_channels(graph):
        return network_shapes(graph)
    from cimplan.graph.read import read_graph

    blocked = blocked_tensors(graph)
    # What is not in blocks has its true shape, and says what the file leaves open.
    recorded = {
        name: (tensor.dtype, tensor.shape)
        for name, tensor in graph.tensors.items()
        if name not in blocked and not tensor.constant
    }
    try:
        file = read_graph(model, recorded=recorded)
    except InputError:
        # A model whose shapes only a run tells still runs.
        return network_shapes(graph)
    return network_shapes(graph, {name: tensor.shape for name, tensor in file.tensors.items()})


def _with_channels(tensor: Tensor, channels: int) -> Tensor:
    return replace(tensor, shape=(tensor.shape[0], channels, *tensor.shape[2:]))


def _is_depthwise(weight: Tensor, work: MatrixWork) -> bool:
    """Tell a depthwise convolution, whose groups are padded; other grouped ones have nothing to pad."""
    return work.groups > 1 and weight.shape[1] == 1 and weight.shape[0] == work.groups


def _true_convolution(graph: OperatorGraph, op: Operator, work: MatrixWork, tensors: dict[str, Tensor]) -> Operator:
    """Return a blocked convolution with the matrix work of its true channels; set its weight and bias in `tensors`."""
    weight = graph.tensors[op.weight_input]
    made, read = tensors[op.outputs[0]].shape[1], tensors[op.inputs[0]].shape[1]
    padded, kernel = weight.shape[0], weight.shape[2:]
    depthwise = _is_depthwise(weight, work)
    if work.groups > 1 and not depthwise:
        return op
    if depthwise:
        work = replace(work, groups=made, inputs=math.prod(kernel))
        shape: tuple[int, ...] = (made, 1, *kernel)
    else:
        work = replace(work, outputs=made, inputs=read * math.prod(kernel))
        shape = (made, read, *kernel)
    tensors[op.weight_input] = replace(weight, shape=shape)
    for name in op.inputs:
        if tensors[name].constant and graph.tensors[name].shape == (padded,):
            tensors[name] = replace(tensors[name], shape=(made,))
    return replace(op, work=work)


class _Channels:
    """The true channels of the blocked tensors of a graph: classes of tensors with equal channels, some known."""

    def __init__(self, graph: OperatorGraph, blocked: frozenset[str], named: Mapping[str, tuple[int, ...]]) -> None:
        self.graph = graph
        self.blocked = blocked
        self._parent = {name: name for name in blocked}
        for op in graph.operators:
            for one, other in self._equal(op):
                self._parent[self._root(one)] = self._root(other)
        self._known: dict[str, int] = {}
        # What is read and written says more than what the file calls alike, and that more than what is usual.
        self._learn(self._reordered)
        self._learn(lambda op: self._named(op, named))
        self.open = any(self._root(name) not in self._known for name in blocked)
        self._learn(self._unpadded)

    def _learn(self, tell: Callable[[Operator], Iterable[tuple[str, int]]]) -> None:
        for op in self.graph.operators:
            for name, channels in tell(op):
                self._known.setdefault(self._root(name), channels)

    def of(self, name: str) -> int:
        """Return the channels of a blocked tensor; as they are where nothing is known."""
        padded = self.graph.tensors[name].shape[1]
        known = self._known.get(self._root(name), padded)
        return known if 0 < known <= padded else padded

    def _root(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def _padded(self, name: str) -> int:
        return self.graph.tensors[name].shape[1]

    def _equal(self, op: Operator) -> Iterator[tuple[str, str]]:
        """Yield pairs of tensors that have the same channels because of an operator."""
        made = [name for name in op.outputs if name in self.blocked]
        read = [name for name in op.inputs if name in self.blocked]
        if not made or not read or op.op_type in (REORDER_INPUT, "Concat"):
            return
        if (
            op.domain == NCHWC
            and op.work is not None
            and not _is_depthwise(self.graph.tensors[op.weight_input], op.work)
        ):
            # The other blocked input is a tensor that is added to what the convolution makes.
            read = [name for name in op.inputs[1:] if name in self.blocked]
        for name in (*read, *made[1:]):
            if self._padded(name) == self._padded(made[0]):
                yield name, made[0]

    def _reordered(self, op: Operator) -> Iterator[tuple[str, int]]:
        """Yield the blocked tensor of a reorder with the channels of its plain one."""
        tensors = self.graph.tensors
        if is_reorder(op, REORDER_INPUT):
            yield op.outputs[0], _plain_channels(tensors[op.inputs[0]].shape, tensors[op.outputs[0]].shape)
        elif is_reorder(op, REORDER_OUTPUT) and op.inputs[0] in self.blocked:
            yield op.inputs[0], _plain_channels(tensors[op.outputs[0]].shape, tensors[op.inputs[0]].shape)

    def _named(self, op: Operator, named: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
        """Yield what a node makes with the channels of the tensor of the file that it is called after, if they fit."""
        shape = named.get(without_marks(op.name))
        if shape is None or op.domain != NCHWC or op.outputs[0] not in self.blocked:
            return
        made = self.graph.tensors[op.outputs[0]].shape
        if len(shape) == len(made) and (shape[0], *shape[2:]) == (made[0], *made[2:]) and 0 < shape[1] <= made[1]:
            yield op.outputs[0], shape[1]

    def _unpadded(self, op: Operator) -> Iterator[tuple[str, int]]:
        """Yield the tensors of operators that ONNX Runtime blocks only where all channels are whole blocks."""
        if op.domain != NCHWC:
            whole = op.op_type == "Concat"
        else:
            work, weight = op.work, self.graph.tensors.get(op.weight_input)
            whole = work is not None and weight is not None and work.groups > 1 and not _is_depthwise(weight, work)
        if whole:
            for name in (*op.inputs, *op.outputs):
                if name in self.blocked:
                    yield name, self._padded(name)


def _plain_channels(plain: tuple[int, ...], blocked: tuple[int, ...]) -> int:
    """Return the channels of a tensor in the order NCHW or NHWC, told apart by the extents of its blocked form."""
    if len(plain) != _RANK:
        return blocked[1]
    return plain[1] if plain[2:] == blocked[2:] else plain[-1]
