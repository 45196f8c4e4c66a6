"""YOLOv5n, the detector with anchors (width 0.25, depth 0.33), for 640×640 colour images and 80 classes."""

from __future__ import annotations

import numpy as np

from cimplan.zoo.layers import LINEAR_GAIN, RESIDUAL_GAIN, SILU_GAIN, convolution, max_pool, silu
from cimplan.zoo.network import Network

IMAGE_SIZE = 640

_ANCHORS_PER_CELL = 3
_VALUES_PER_ANCHOR = 85  # centre x and y, width, height, objectness, 80 classes

# Widths and heights of the anchors in pixels, per stride of the output.
_ANCHORS_PX = {
    8: ((10, 13), (16, 30), (33, 23)),
    16: ((30, 61), (62, 45), (59, 119)),
    32: ((116, 90), (156, 198), (373, 326)),
}


def yolov5n(*, batch: int, seed: int) -> Network:
    """Return YOLOv5n with one output of shape (batch, 25200, 85): boxes in pixels, objectness and classes."""
    network = Network("yolov5n", seed)
    image = network.input("image", (batch, 3, IMAGE_SIZE, IMAGE_SIZE))

    tensor = _conv(network, image, "stem", 3, 16, kernel=6, stride=2, padding=2)
    tensor = _stage(network, tensor, "backbone.p2", 16, 32, bottlenecks=1)
    p3 = _stage(network, tensor, "backbone.p3", 32, 64, bottlenecks=2)
    p4 = _stage(network, p3, "backbone.p4", 64, 128, bottlenecks=3)
    tensor = _stage(network, p4, "backbone.p5", 128, 256, bottlenecks=1)
    tensor = _pyramid_pooling(network, tensor, "backbone.sppf", 256)

    top = _conv(network, tensor, "neck.reduce5", 256, 128)
    tensor = _concat(network, [_upsampled(network, top), p4], "neck.concat4")
    tensor = _c3(network, tensor, "neck.c3_4", 256, 128, bottlenecks=1, shortcut=False)
    middle = _conv(network, tensor, "neck.reduce4", 128, 64)
    tensor = _concat(network, [_upsampled(network, middle), p3], "neck.concat3")
    out3 = _c3(network, tensor, "neck.out3", 128, 64, bottlenecks=1, shortcut=False)
    tensor = _concat(network, [_conv(network, out3, "neck.down3", 64, 64, kernel=3, stride=2), middle], "neck.join4")
    out4 = _c3(network, tensor, "neck.out4", 128, 128, bottlenecks=1, shortcut=False)
    tensor = _concat(network, [_conv(network, out4, "neck.down4", 128, 128, kernel=3, stride=2), top], "neck.join5")
    out5 = _c3(network, tensor, "neck.out5", 256, 256, bottlenecks=1, shortcut=False)

    boxes = [
        _decoded(network, tensor, f"head{stride}", channels, stride, batch)
        for tensor, channels, stride in ((out3, 64, 8), (out4, 128, 16), (out5, 256, 32))
    ]
    cells = sum((IMAGE_SIZE // stride) ** 2 for stride in _ANCHORS_PX)
    detections = network.node("Concat", boxes, "detections", axis=1)
    network.output(detections, (batch, _ANCHORS_PER_CELL * cells, _VALUES_PER_ANCHOR))
    return network


def _conv(
    network: Network,
    source: str,
    name: str,
    inputs: int,
    outputs: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    padding: int | None = None,
    gain: float = SILU_GAIN,
) -> str:
    tensor = convolution(
        network, source, name, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, padding=padding, gain=gain
    )
    return silu(network, tensor)


def _concat(network: Network, sources: list[str], name: str) -> str:
    return network.node("Concat", sources, name, axis=1)


def _stage(network: Network, source: str, name: str, inputs: int, outputs: int, *, bottlenecks: int) -> str:
    tensor = _conv(network, source, f"{name}.down", inputs, outputs, kernel=3, stride=2)
    return _c3(network, tensor, f"{name}.c3", outputs, outputs, bottlenecks=bottlenecks, shortcut=True)


def _c3(
    network: Network, source: str, name: str, inputs: int, outputs: int, *, bottlenecks: int, shortcut: bool
) -> str:
    half = outputs // 2
    tensor = _conv(network, source, f"{name}.main", inputs, half)
    for index in range(1, bottlenecks + 1):
        branch = _conv(network, tensor, f"{name}.bottleneck{index}.conv1", half, half)
        gain = SILU_GAIN * RESIDUAL_GAIN if shortcut else SILU_GAIN
        branch = _conv(network, branch, f"{name}.bottleneck{index}.conv2", half, half, kernel=3, gain=gain)
        tensor = network.node("Add", [tensor, branch], f"{name}.bottleneck{index}.add") if shortcut else branch
    side = _conv(network, source, f"{name}.side", inputs, half)
    return _conv(network, _concat(network, [tensor, side], f"{name}.concat"), f"{name}.out", outputs, outputs)


def _pyramid_pooling(network: Network, source: str, name: str, channels: int) -> str:
    pooled = [_conv(network, source, f"{name}.reduce", channels, channels // 2)]
    for index in (1, 2, 3):
        pooled.append(max_pool(network, pooled[-1], f"{name}.pool{index}", kernel=5, stride=1, padding=2))
    return _conv(network, _concat(network, pooled, f"{name}.concat"), f"{name}.out", 2 * channels, channels)


def _upsampled(network: Network, source: str) -> str:
    scales = network.constant("upsample.scales", [1.0, 1.0, 2.0, 2.0], np.float32)
    return network.node(
        "Resize",
        [source, "", scales],
        f"{source}.upsampled",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _decoded(network: Network, source: str, name: str, channels: int, stride: int, batch: int) -> str:
    """Turn a feature map into boxes: xy = (2p + grid)·stride, wh = (2p)²·anchor."""
    size = IMAGE_SIZE // stride
    raw = convolution(
        network,
        source,
        name,
        inputs=channels,
        outputs=_ANCHORS_PER_CELL * _VALUES_PER_ANCHOR,
        kernel=1,
        gain=LINEAR_GAIN,
    )
    shape = [batch, _ANCHORS_PER_CELL, _VALUES_PER_ANCHOR, size, size]
    split_shape = network.constant(f"{name}.split_shape", shape, np.int64)
    tensor = network.node("Reshape", [raw, split_shape], f"{name}.split_anchors")
    tensor = network.node("Transpose", [tensor], f"{name}.values_last", perm=[0, 1, 3, 4, 2])
    tensor = network.node("Sigmoid", [tensor], f"{name}.sigmoid")
    parts = network.constant("head.parts", [2, 2, _VALUES_PER_ANCHOR - 4], np.int64)
    centre, extent, scores = network.nodes(
        "Split", [tensor, parts], f"{name}.split", [f"{name}.p_xy", f"{name}.p_wh", f"{name}.scores"], axis=4
    )

    # One shared constant: its quantised copy stays outside Pow, which has no integer form.
    two = network.constant("head.two", 2.0, np.float32)
    columns, rows = np.meshgrid(np.arange(size), np.arange(size))
    grid = np.stack([columns, rows], axis=-1)[None, None] - 0.5
    centre = network.node("Mul", [centre, two], f"{name}.xy_doubled")
    centre = network.node("Add", [centre, network.constant(f"{name}.grid", grid, np.float32)], f"{name}.xy_cells")
    stride_px = network.constant(f"{name}.stride", stride, np.float32)
    centre = network.node("Mul", [centre, stride_px], f"{name}.xy")
    extent = network.node("Mul", [extent, two], f"{name}.wh_doubled")
    extent = network.node("Pow", [extent, two], f"{name}.wh_squared")
    anchors = np.reshape(_ANCHORS_PX[stride], (1, _ANCHORS_PER_CELL, 1, 1, 2))
    extent = network.node("Mul", [extent, network.constant(f"{name}.anchors", anchors, np.float32)], f"{name}.wh")

    boxes = network.node("Concat", [centre, extent, scores], f"{name}.boxes", axis=4)
    flat_shape = [batch, _ANCHORS_PER_CELL * size * size, _VALUES_PER_ANCHOR]
    flat = network.constant(f"{name}.flat_shape", flat_shape, np.int64)
    return network.node("Reshape", [boxes, flat], f"{name}.flat")
