"""Shapes of operators that work element by element, and of simple data movement."""

from __future__ import annotations

from collections.abc import Callable

from cimplan.graph.nodes import NodeView, RuleError, TensorType
from cimplan.graph.rules.products import broadcast


def like_first(node: NodeView) -> list[TensorType]:
    """Output as input 0."""
    return [node.type(0)]


def broadcasting(*operands: int) -> Callable[[NodeView], list[TensorType]]:
    """Return the rule of an operator whose output has the broadcast shape of some inputs, and the last one's type."""

    def rule(node: NodeView) -> list[TensorType]:
        return [TensorType(node.dtype(operands[-1]), broadcast(*(node.shape(index) for index in operands)))]

    return rule


def quantised_concat(node: NodeView) -> list[TensorType]:
    """QLinearConcat: scale and zero point of the output, then (x, scale, zero point) of each input."""
    shapes = [node.shape(index) for index in range(2, len(node.inputs), 3)]
    if not shapes:
        raise RuleError("joins nothing")
    rank = len(shapes[0])
    axis = node.integer("axis")
    if not -rank <= axis < rank or any(len(shape) != rank for shape in shapes):
        raise RuleError(f"joins shapes {', '.join(map(str, shapes))} along axis {axis}")
    axis %= rank
    joined = (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])
    return [TensorType(node.dtype(2), joined)]


def quantise(node: NodeView) -> list[TensorType]:
    """QuantizeLinear: the type of the zero point, else uint8."""
    return [TensorType(node.dtype(2) if node.has_input(2) else "uint8", node.shape(0))]


def dequantise(node: NodeView) -> list[TensorType]:
    """DequantizeLinear: the type of the scale."""
    return [TensorType(node.dtype(1), node.shape(0))]


def reduction(node: NodeView) -> list[TensorType]:
    """QLinearReduceMean: axes and keepdims as attributes."""
    shape = node.shape(0)
    rank = len(shape)
    axes = {axis % rank for axis in node.integers("axes", range(rank))} if rank else set()
    keep = node.integer("keepdims", 1)
    reduced = (1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)
    return [TensorType(node.dtype(0), tuple(reduced))]


def pad(node: NodeView) -> list[TensorType]:
    """Pad of com.microsoft: pads as input 1."""
    shape, pads = node.shape(0), node.value(1)
    if pads is None or pads.size != 2 * len(shape):
        raise RuleError("has pads that are not known before inference")
    begin, end = pads.reshape(2, -1)
    return [TensorType(node.dtype(0), tuple(int(s + b + e) for s, b, e in zip(shape, begin, end, strict=True)))]


def halve_last(node: NodeView) -> list[TensorType]:
    """BiasSplitGelu: one half gates the other."""
    shape = node.shape(0)
    if not shape or shape[-1] % 2:
        raise RuleError(f"splits shape {shape} in halves")
    return [TensorType(node.dtype(0), (*shape[:-1], shape[-1] // 2))]


def expand_dims(node: NodeView) -> list[TensorType]:
    """ExpandDims: the axis is input 1."""
    shape, axis = node.shape(0), node.value(1)
    if axis is None or axis.size != 1:
        raise RuleError("has an axis that is not known before inference")
    place = int(axis.reshape(())) % (len(shape) + 1)
    return [TensorType(node.dtype(0), (*shape[:place], 1, *shape[place:]))]
