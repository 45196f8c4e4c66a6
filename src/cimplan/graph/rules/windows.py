"""Shapes of convolutions and poolings, of any rank, in NCHW, NHWC and ONNX Runtime's blocked NCHWc layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cimplan.graph.nodes import NodeView, RuleError, TensorType
from cimplan.operator_types import INTERNAL_NHWC


def channels_last(node: NodeView) -> bool:
    """Return whether a convolution or pooling keeps its channels in the last dimension."""
    return node.domain == INTERNAL_NHWC or node.op_type.startswith("Nhwc") or node.integer("channels_last", 0) == 1


@dataclass(frozen=True, slots=True)
class Layout:
    """An activation's dimensions whatever their order.

    Attributes
    ----------
    batch, channels : int
        N and C.
    spatial : tuple of int
        The other dimensions: (W), (H, W) or (D, H, W).
    last : bool
        True for channels last.
    """

    batch: int
    channels: int
    spatial: tuple[int, ...]
    last: bool

    @classmethod
    def of(cls, shape: tuple[int, ...], last: bool) -> Layout:
        """Read a shape; raises `RuleError` if it has fewer than two dimensions."""
        if len(shape) < 2:
            raise RuleError(f"has an input of shape {shape}, without batch and channels")
        if last:
            return cls(shape[0], shape[-1], shape[1:-1], last)
        return cls(shape[0], shape[1], shape[2:], last)

    def shape(self, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return a shape in the same order with other channels and extents."""
        return (self.batch, *spatial, channels) if self.last else (self.batch, channels, *spatial)


def window_extents(node: NodeView, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output extents of a sliding window.

    ``floor((in + pads - dilation * (kernel - 1) - 1) / stride) + 1``; ceil under `ceil_mode`, where a window must
    start inside the input or its leading padding; ``ceil(in / stride)`` under `auto_pad` SAME, whatever the dilation.

    Parameters
    ----------
    node : NodeView
        Gives strides, dilations, pads, auto_pad, ceil_mode.
    spatial, kernel : tuple of int
        Input and kernel extents, in the same order.

    Raises
    ------
    RuleError
        If the attributes do not fit the rank.
    """
    rank = len(spatial)
    strides = node.integers("strides", [1] * rank)
    dilations = node.integers("dilations", [1] * rank)
    pads = node.integers("pads", [0] * 2 * rank)
    auto_pad = node.text("auto_pad", "NOTSET") or "NOTSET"
    if not (len(kernel) == len(strides) == len(dilations) == rank and len(pads) == 2 * rank):
        raise RuleError(f"has kernel, strides, dilations or pads that do not fit {rank} spatial dimensions")
    if any(value < 1 for value in (*strides, *dilations)):
        raise RuleError("has a stride or dilation below 1")
    extents = []
    for axis, size in enumerate(spatial):
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            extents.append(-(-size // strides[axis]))
            continue
        begin, end = (0, 0) if auto_pad == "VALID" else (pads[axis], pads[axis + rank])
        reach = size + begin + end - dilations[axis] * (kernel[axis] - 1) - 1
        if node.integer("ceil_mode", 0):
            extent = -(-reach // strides[axis]) + 1
            if (extent - 1) * strides[axis] >= size + begin:
                extent -= 1
        else:
            extent = reach // strides[axis] + 1
        if extent < 1:
            raise RuleError(f"slides a window of {kernel} over an input of {spatial}, which is too small")
        extents.append(extent)
    return tuple(extents)


def _convolution(node: NodeView, data: int, weight: int, dtype: str) -> list[TensorType]:
    layout = Layout.of(node.shape(data), channels_last(node))
    filters = node.shape(weight)
    # Layout changes keep the weights in the order (C_out, C_in / groups, …) except for the two fp16 operators.
    ohwi = node.op_type in ("NhwcConv", "NhwcFusedConv") and node.domain == "com.microsoft"
    kernel = filters[1:-1] if ohwi else filters[2:]
    if len(filters) != len(layout.spatial) + 2:
        raise RuleError(f"has a weight of shape {filters} for an input of shape {node.shape(data)}")
    return [TensorType(dtype, layout.shape(filters[0], window_extents(node, layout.spatial, kernel)))]


def convolution(node: NodeView) -> list[TensorType]:
    """Float convolutions: inputs X, W, B, and Z to add."""
    return _convolution(node, 0, 1, node.dtype(0))


def quantised_convolution(node: NodeView) -> list[TensorType]:
    """QLinearConv: inputs x, its scale and zero point, w, its scale and zero point, y's scale and zero point, B."""
    return _convolution(node, 0, 3, node.dtype(7) if node.has_input(7) else node.dtype(0))


def transposed_extents(node: NodeView, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output extents of a transposed convolution, as ONNX Runtime computes them.

    ``stride * (in - 1) + output_padding + dilation * (kernel - 1) + 1 - pads``. Under `auto_pad` SAME pads are what is
    left over ``in * stride``, if anything is; `output_shape` says the extents themselves.

    Parameters
    ----------
    node : NodeView
        Gives strides, dilations, pads, output_padding, output_shape, auto_pad.
    spatial, kernel : tuple of int
        Input and kernel extents, in the same order.

    Raises
    ------
    RuleError
        If the attributes do not fit the rank.
    """
    rank = len(spatial)
    strides = node.integers("strides", [1] * rank)
    dilations = node.integers("dilations", [1] * rank)
    pads = node.integers("pads", [0] * 2 * rank)
    added = node.integers("output_padding", [0] * rank)
    wanted = node.integers("output_shape", ())[-rank:]
    auto_pad = node.text("auto_pad", "NOTSET") or "NOTSET"
    if not (len(kernel) == len(strides) == len(dilations) == len(added) == rank and len(pads) == 2 * rank):
        raise RuleError(f"has kernel, strides, dilations or pads that do not fit {rank} spatial dimensions")
    if wanted:
        if len(wanted) != rank:
            raise RuleError(f"has an output_shape that does not fit {rank} spatial dimensions")
        return wanted
    extents = []
    for axis, size in enumerate(spatial):
        whole = strides[axis] * (size - 1) + added[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            whole = min(whole, size * strides[axis])
        elif auto_pad == "NOTSET":
            whole -= pads[axis] + pads[axis + rank]
        if whole < 1:
            raise RuleError(f"cuts a result of {spatial} down to nothing with its pads")
        extents.append(whole)
    return tuple(extents)


def _transposed(node: NodeView, weight: int, dtype: str) -> list[TensorType]:
    layout = Layout.of(node.shape(0), channels_last(node))
    filters = node.shape(weight)
    if len(filters) != len(layout.spatial) + 2:
        raise RuleError(f"has a weight of shape {filters} for an input of shape {node.shape(0)}")
    channels = filters[1] * node.integer("group", 1)
    return [TensorType(dtype, layout.shape(channels, transposed_extents(node, layout.spatial, filters[2:])))]


def transposed_convolution(node: NodeView) -> list[TensorType]:
    """ConvTranspose: inputs X, W (C_in, C_out / groups, kernel), B."""
    return _transposed(node, 1, node.dtype(0))


def quantised_transposed_convolution(node: NodeView) -> list[TensorType]:
    """QLinearConvTranspose: inputs as of QLinearConv, weights as of ConvTranspose."""
    return _transposed(node, 3, node.dtype(7) if node.has_input(7) else node.dtype(0))


def pooling(node: NodeView) -> list[TensorType]:
    """Poolings with a kernel_shape."""
    layout = Layout.of(node.shape(0), channels_last(node))
    kernel = node.integers("kernel_shape", ())
    pooled = TensorType(node.dtype(0), layout.shape(layout.channels, window_extents(node, layout.spatial, kernel)))
    return [pooled, TensorType("int64", pooled.shape)]


def global_pooling(node: NodeView) -> list[TensorType]:
    """Poolings over all spatial dimensions."""
    layout = Layout.of(node.shape(0), channels_last(node))
    return [TensorType(node.dtype(0), layout.shape(layout.channels, [1] * len(layout.spatial)))]


def upsample(node: NodeView) -> list[TensorType]:
    """Blocked Upsample: integer scales for all four dimensions."""
    shape = node.shape(0)
    scales = node.integers("scales", ())
    if len(scales) != len(shape):
        raise RuleError("has scales that do not fit its input")
    return [TensorType(node.dtype(0), tuple(size * scale for size, scale in zip(shape, scales, strict=True)))]


def reorder_output(node: NodeView) -> list[TensorType]:
    """ReorderOutput: from blocks back to NCHW or NHWC with the true number of channels."""
    layout = Layout.of(node.shape(0), last=False)
    channels = node.integer("channels")
    shape = (layout.batch, channels, *layout.spatial)
    if node.integer("channels_last", 0):
        shape = (layout.batch, *layout.spatial, channels)
    return [TensorType(node.dtype(0), shape)]


def reorder_input(block: Callable[[NodeView], int]) -> Callable[[NodeView], list[TensorType]]:
    """Return the rule of ReorderInput: channels rounded up to whole blocks.

    Parameters
    ----------
    block : callable
        Gives the block size for a node; the file does not name it.
    """

    def rule(node: NodeView) -> list[TensorType]:
        layout = Layout.of(node.shape(0), node.integer("channels_last", 0) == 1)
        size = block(node)
        padded = math.ceil(layout.channels / size) * size
        return [TensorType(node.dtype(0), (layout.batch, padded, *layout.spatial))]

    return rule
