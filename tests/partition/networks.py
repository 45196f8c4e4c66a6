"""Problems shaped like real networks, with made-up but plausible costs: fast to build, no ONNX needed.

Durations follow a rough roofline with a fixed pseudo-random spread per operator, so that no two operators tie by
accident; shapes and connections follow the published architectures.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem


@dataclass
class Network:
    """Collects operators in topological order.

    A tensor is (operator, channels, height, width), with None for the operator of a graph input.
    """

    host_scale: float = 1.0
    bus_gbps: float = 20.48
    mvm_ns: int = 50
    names: list[str] = field(default_factory=list)
    options: list[tuple[Option, ...]] = field(default_factory=list)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, kind, inputs, shape, *, weight=None, macs=0):
        index = len(self.names)
        name = f"{kind}_{index}"
        size = shape[0] * shape[1] * shape[2]
        spread = 0.7 + 0.6 * (zlib.crc32(name.encode()) % 10_007) / 10_007
        host = self.host_scale * spread * (2_000 + macs / 25 + (size * 0.4 if not macs else 0))
        options = [Option(HOST, max(1, int(host)))]
        if weight is not None:
            outputs, rows, vectors = weight
            read = sum(tensor[1] * tensor[2] * tensor[3] for tensor in inputs)
            duration = int((read + size) / self.bus_gbps) + vectors * self.mvm_ns
            options.append(Option(CIM, duration, -(-outputs // 256) * -(-rows // 256)))
        self.names.append(name)
        self.options.append(tuple(options))
        for source, channels, height, width in inputs:
            if source is not None:
                self.edges[source, index] = int(channels * height * width / self.bus_gbps)
        return (index, *shape)

    def conv(self, x, channels, kernel=1, stride=1, *, depthwise=False):
        _, inputs, height, width = x
        height, width = -(-height // stride), -(-width // stride)
        rows = kernel * kernel * (inputs if not depthwise else 1)
        macs = rows * channels * height * width
        packed = rows
        return self.add("conv", [x], (channels, height, width), weight=(channels, packed, height * width), macs=macs)

    def same(self, kind, *inputs):
        return self.add(kind, list(inputs), inputs[0][1:])

    def concat(self, *inputs):
        return self.add("concat", list(inputs), (sum(x[1] for x in inputs), *inputs[0][2:]))

    def linear(self, x, outputs):
        _, channels, rows, _ = x
        return self.add(
            "gemm", [x], (outputs, rows, 1), weight=(outputs, channels, rows), macs=channels * outputs * rows
        )

    def problem(self, budget):
        edges = tuple(Dependency(u, v, transfer) for (u, v), transfer in sorted(self.edges.items()))
        return Problem(tuple(self.names), tuple(self.options), edges, budget)


def resnet(depths=(2, 2, 2, 2), *, bottleneck=False, budget=50, **costs):
    net = Network(**costs)
    x = net.same("quantize", (None, 3, 224, 224))
    x = net.conv(x, 64, 7, 2)
    x = net.add("maxpool", [x], (64, 56, 56))
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for position in range(depth):
            stride = 2 if stage and not position else 1
            out = width * 4 if bottleneck else width
            if bottleneck:
                y = net.conv(net.conv(net.conv(x, width), width, 3, stride), out)
            else:
                y = net.conv(net.conv(x, width, 3, stride), width, 3)
            if x[1:] != y[1:]:
                x = net.conv(x, out, 1, stride)
            x = net.same("add", y, x)
    x = net.add("mean", [x], (x[1], 1, 1))
    x = net.add("reshape", [x], (x[1], 1, 1))
    x = net.linear(x, 1000)
    net.same("dequantize", x)
    return net.problem(budget)


def mobilenet_v2(*, budget=50, **costs):
    net = Network(**costs)
    x = net.conv(net.same("quantize", (None, 3, 224, 224)), 32, 3, 2)
    for expand, out, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for position in range(count):
            stride = first if not position else 1
            y = net.conv(x, x[1] * expand) if expand > 1 else x
            y = net.conv(net.conv(y, y[1], 3, stride, depthwise=True), out)
            x = net.same("add", y, x) if x[1:] == y[1:] else y
    x = net.conv(x, 1280)
    x = net.add("mean", [x], (1280, 1, 1))
    net.same("dequantize", net.linear(net.add("reshape", [x], (1280, 1, 1)), 1000))
    return net.problem(budget)


def _silu(net, x, channels, kernel=1, stride=1):
    x = net.conv(x, channels, kernel, stride)
    return net.same("mul", x, net.same("sigmoid", x))


def _c3(net, x, channels, count, shortcut=True):
    half = channels // 2
    y = _silu(net, x, half)
    for _ in range(count):
        z = _silu(net, _silu(net, y, half), half, 3)
        y = net.same("add", z, y) if shortcut else z
    return _silu(net, net.concat(y, _silu(net, x, half)), channels)


def _detect(net, x, constant_fed):
    x = net.conv(x, 255)
    _, _, height, width = x
    x = net.same("sigmoid", net.same("transpose", net.same("reshape", x)))
    x = net.same("split", x)
    index = x[0]
    part = (index, 6, height, width)
    xy = net.same("mul_stride", net.same("add_grid", net.same("mul_two", part)))
    two = net.add("dequantize_two", [], (1, 1, 1)) if constant_fed else None
    wh = net.same("dequantize", net.same("mul_two", part))
    wh = net.same("pow", wh, two) if two else net.same("pow", wh)
    wh = net.same("mul_anchor", net.same("quantize", wh))
    net.add("concat_out", [xy, wh, (index, 243, height, width)], (255, height, width))
    return net.add("reshape_out", [(len(net.names) - 1, 255, height, width)], (255, height * width, 1))


def yolov5(*, budget=50, depths=(1, 2, 3, 1), head_depth=1, size=640, constant_fed=True, stacks=1, **costs):
    net = Network(**costs)

    def c3(x, channels, count, shortcut=True):
        for _ in range(stacks):
            x = _c3(net, x, channels, count, shortcut)
        return x

    x = _silu(net, net.same("quantize", (None, 3, size, size)), 16, 6, 2)
    x = c3(_silu(net, x, 32, 3, 2), 32, depths[0])
    p3 = x = c3(_silu(net, x, 64, 3, 2), 64, depths[1])
    p4 = x = c3(_silu(net, x, 128, 3, 2), 128, depths[2])
    x = c3(_silu(net, x, 256, 3, 2), 256, depths[3])
    x = _silu(net, x, 128)
    pools = [x]
    for _ in range(3):
        pools.append(net.same("maxpool", pools[-1]))
    x = _silu(net, net.concat(*pools), 256)
    a = _silu(net, x, 128)
    up = net.add("resize", [a], (128, a[2] * 2, a[3] * 2))
    b = _silu(net, c3(net.concat(up, p4), 128, head_depth, False), 64)
    up = net.add("resize", [b], (64, b[2] * 2, b[3] * 2))
    out3 = c3(net.concat(up, p3), 64, head_depth, False)
    heads = [_detect(net, out3, constant_fed)]
    out4 = c3(net.concat(_silu(net, out3, 64, 3, 2), b), 128, head_depth, False)
    heads.append(_detect(net, out4, constant_fed))
    out5 = c3(net.concat(_silu(net, out4, 128, 3, 2), a), 256, head_depth, False)
    heads.append(_detect(net, out5, constant_fed))
    total = sum(head[2] for head in heads)
    net.same("dequantize", net.add("concat", heads, (255, total, 1)))
    return net.problem(budget)


def stacked_yolo(stacks, *, budget=50, **costs):
    """YOLOv5n with each C3 block repeated: deeper, but no block is wider."""
    return yolov5(budget=budget, stacks=stacks, **costs)


def transformer(layers=24, *, width=256, heads=8, tokens=64, budget=200, **costs):
    net = Network(**costs)
    x = net.add("embed", [], (width, tokens, 1))
    size = width // heads
    for _ in range(layers):
        norm = net.same("norm", x)
        parts = []
        for _ in range(heads):
            q, k, v = (net.linear(norm, size) for _ in range(3))
            scores = net.add("matmul", [q, k], (tokens, tokens, 1), macs=tokens * tokens * size)
            scores = net.same("softmax", net.same("scale", scores))
            parts.append(net.add("matmul", [scores, v], (size, tokens, 1), macs=tokens * tokens * size))
        x = net.same("add", net.linear(net.concat(*parts), width), x)
        y = net.linear(net.same("gelu", net.linear(net.same("norm", x), 4 * width)), width)
        x = net.same("add", y, x)
    net.linear(net.same("norm", x), 1000)
    return net.problem(budget)


def cells(count, *, width=32, size=28, budget=50, **costs):
    """Cells of four steps whose inputs are the outputs of the two cells before: no operator is a cut for long."""
    net = Network(**costs)
    older = newer = net.conv(net.same("quantize", (None, 3, size, size)), width, 3)
    for number in range(count):
        states = [net.conv(older, width), net.conv(newer, width)]
        for step in range(4):
            first, second = states[(number + step) % len(states)], states[(number + 2 * step + 1) % len(states)]
            left = net.conv(net.conv(first, width, 3, depthwise=True), width)
            right = net.conv(second, width, 3) if step % 2 else net.same("maxpool", second)
            states.append(net.same("add", left, right))
        older, newer = newer, net.concat(*states[2:])
    net.linear(net.add("mean", [newer], (newer[1], 1, 1)), 1000)
    return net.problem(budget)
