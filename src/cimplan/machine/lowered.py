"""Matrix operators as the arrays compute them: matrices, input vectors, and results put back into tensors.

All values are NumPy arrays; a matrix is (groups, inputs, outputs), vectors are (groups, inputs, vectors) and products
(groups, outputs, vectors). The order of inputs, outputs and vectors is that of `cimplan.graph.lowering`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import onnx

from cimplan.errors import InputError

Values = np.ndarray[Any, Any]
KNOWN = ("Conv", "Gemm", "MatMul")


class Lowering(Protocol):
    """How one operator is computed in arrays."""

    def vectors(self) -> Values:
        """Return what the matrix is multiplied with."""
        ...

    def result(self, products: Values) -> Values:
        """Return the operator's output."""
        ...


def lowering(node: onnx.NodeProto, inputs: Sequence[Values | None], weight: int) -> Lowering:
    """Return how a node is computed in arrays.

    Parameters
    ----------
    node : onnx.NodeProto
        A Conv, Gemm or MatMul.
    inputs : sequence of array or None
        Values of its inputs in their order.
    weight : int
        Which input the arrays hold.

    Raises
    ------
    InputError
        If the machine does not compute this type of operator.
    """
    given = [value for value in inputs if value is not None]
    require_known(node, weight)
    if node.op_type == "Conv":
        return _Convolution(node, given)
    if node.op_type == "Gemm":
        return _Gemm(node, given, weight)
    return _Product(given[0], given[1], weight)


def require_known(node: onnx.NodeProto, weight: int) -> None:
    """Raise if the machine does not compute a node with that input held by the arrays.

    Raises
    ------
    InputError
        With what the machine computes.
    """
    if node.domain in ("", "ai.onnx") and node.op_type in KNOWN and (weight == 1 or node.op_type != "Conv"):
        return
    raise InputError(
        f"the functional machine does not compute {node.op_type}",
        where=node.name or node.output[0],
        why=f"it knows {', '.join(KNOWN)}, in float or between QuantizeLinear and DequantizeLinear",
        fix="Export the model in one of these forms",
    )


def held_matrix(node: onnx.NodeProto, value: Values, weight: int) -> Values:
    """Return the matrix that arrays hold of an operator.

    Parameters
    ----------
    node : onnx.NodeProto
        A node that `lowering` knows.
    value : array
        The tensor that the matrix is made of.
    weight : int
        Which input of the node that is.
    """
    if node.op_type == "Conv":
        groups = _number(node, "group", 1)
        return value.reshape(groups, value.shape[0] // groups, -1).transpose(0, 2, 1)
    if node.op_type == "Gemm" and _number(node, "transB" if weight else "transA", 0):
        value = value.T
    if value.ndim == 1:
        value = value[:, None] if weight else value[None, :]
    if weight == 0:
        value = np.swapaxes(value, -1, -2)
    return value.reshape(-1, *value.shape[-2:])


class _Product:
    """MatMul with NumPy's broadcasting; the matrix may stand on either side."""

    def __init__(self, left: Values, right: Values, weight: int) -> None:
        self._row_vector, self._column_vector = left.ndim == 1, right.ndim == 1
        left = left[None, :] if left.ndim == 1 else left
        right = right[:, None] if right.ndim == 1 else right
        self._held_left = weight == 0
        if self._held_left:
            # Y = W X is Yᵀ = Xᵀ Wᵀ.
            left, right = np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2)
        self._left, self._right = left, right
        self._batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        # Leading dimensions of the matrix are groups; what only the other side has multiplies the vectors.
        rank = len(self._batch)
        own = (1,) * (rank - (right.ndim - 2)) + right.shape[:-2]
        self._grouped = [axis for axis in range(rank) if own[axis] > 1]
        self._spread = [axis for axis in range(rank) if own[axis] <= 1]

    def vectors(self) -> Values:
        left = np.broadcast_to(self._left, (*self._batch, *self._left.shape[-2:]))
        rank = len(self._batch)
        ordered = left.transpose(*self._grouped, rank + 1, *self._spread, rank)
        return ordered.reshape(math.prod(self._batch[a] for a in self._grouped), left.shape[-1], -1)

    def result(self, products: Values) -> Values:
        rank = len(self._batch)
        grouped = [self._batch[axis] for axis in self._grouped]
        spread = [self._batch[axis] for axis in self._spread]
        rows, columns = self._left.shape[-2], self._right.shape[-1]
        shaped = products.reshape(*grouped, columns, *spread, rows)
        # Axes now: grouped, column, spread, row. Put the batch back in order, then row and column.
        place = {axis: number for number, axis in enumerate(self._grouped)}
        place |= {axis: len(grouped) + 1 + number for number, axis in enumerate(self._spread)}
        order = [*(place[axis] for axis in range(rank)), len(shaped.shape) - 1, len(grouped)]
        value: Values = shaped.transpose(order)
        if self._held_left:
            value = np.swapaxes(value, -1, -2)
        if self._column_vector:
            value = value[..., 0]
        if self._row_vector:
            value = value[..., 0] if self._column_vector else value[..., 0, :]
        return value


class _Gemm:
    """Y = alpha · A' · B' + beta · C; the bias is added outside the arrays."""

    def __init__(self, node: onnx.NodeProto, inputs: Sequence[Values], weight: int) -> None:
        left = inputs[0].T if _number(node, "transA", 0) else inputs[0]
        right = inputs[1].T if _number(node, "transB", 0) else inputs[1]
        self._product = _Product(left, right, weight)
        self._alpha, self._beta = _float(node, "alpha", 1.0), _float(node, "beta", 1.0)
        self._bias = inputs[2] if len(inputs) > 2 else None

    def vectors(self) -> Values:
        return self._product.vectors()

    def result(self, products: Values) -> Values:
        value = self._alpha * self._product.result(products)
        return value if self._bias is None else value + self._beta * self._bias


class _Convolution:
    """Conv of any rank by im2col, with groups, strides, dilations and padding."""

    def __init__(self, node: onnx.NodeProto, inputs: Sequence[Values]) -> None:
        self._image, self._weight = inputs[0], inputs[1]
        self._bias = inputs[2] if len(inputs) > 2 else None
        rank = self._image.ndim - 2
        self._groups = _number(node, "group", 1)
        self._strides = _numbers(node, "strides") or [1] * rank
        self._dilations = _numbers(node, "dilations") or [1] * rank
        self._kernel = list(self._weight.shape[2:])
        self._pads = self._padding(node, rank)
        self._spatial = [
            (size + before + after - (dilation * (kernel - 1) + 1)) // stride + 1
            for size, kernel, stride, dilation, (before, after) in zip(
                self._image.shape[2:], self._kernel, self._strides, self._dilations, self._pads, strict=True
            )
        ]

    def _padding(self, node: onnx.NodeProto, rank: int) -> list[tuple[int, int]]:
        mode = next((a.s.decode() for a in node.attribute if a.name == "auto_pad"), "NOTSET")
        if mode in ("NOTSET", "VALID"):
            pads = _numbers(node, "pads") if mode == "NOTSET" else []
            pads = pads or [0] * (2 * rank)
            return list(zip(pads[:rank], pads[rank:], strict=True))
        padding = []
        for size, kernel, stride, dilation in zip(
            self._image.shape[2:], self._kernel, self._strides, self._dilations, strict=True
        ):
            needed = max(0, (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size)
            small = needed // 2
            padding.append((small, needed - small) if mode == "SAME_UPPER" else (needed - small, small))
        return padding

    def vectors(self) -> Values:
        padded = np.pad(self._image, [(0, 0), (0, 0), *self._pads])
        extents = [dilation * (kernel - 1) + 1 for kernel, dilation in zip(self._kernel, self._dilations, strict=True)]
        axes = tuple(range(2, padded.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=axes)
        rank = len(extents)
        at = (slice(None), slice(None), *(slice(None, None, stride) for stride in self._strides))
        inside = tuple(slice(None, None, dilation) for dilation in self._dilations)
        windows = windows[(*at, *inside)]
        # (batch, channel, positions…, kernel…) to (channel, kernel…, batch, positions…)
        order = (1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
        vectors = windows.transpose(order)
        return vectors.reshape(self._groups, -1, self._image.shape[0] * math.prod(self._spatial))

    def result(self, products: Values) -> Values:
        channels = self._weight.shape[0]
        value = products.reshape(channels, self._image.shape[0], *self._spatial).swapaxes(0, 1)
        return value if self._bias is None else value + self._bias.reshape(1, channels, *(1,) * len(self._spatial))


def _number(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _float(node: onnx.NodeProto, name: str, default: float) -> float:
    return next((attribute.f for attribute in node.attribute if attribute.name == name), default)


def _numbers(node: onnx.NodeProto, name: str) -> list[int]:
    return next((list(attribute.ints) for attribute in node.attribute if attribute.name == name), [])
