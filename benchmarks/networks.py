"""Synthetic problems of any size with the structure of real networks: repeated blocks of constant width.

Costs come from a rough roofline (host: 25 multiply-accumulates or 2.5 elements a nanosecond and 2 µs a call; crossbar
array of 256 × 256, 50 ns an MVM, one byte an element over 20.48 GB/s) with a spread of ±30 % per operator, seeded, so
that no two operators tie by accident. They serve to measure how solvers grow, not to predict anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem

BUS_BYTES_PER_NS = 20.48
MVM_NS = 50
ROWS = COLUMNS = 256


class Builder:
    """Collects operators and edges; a tensor is the number of its operator and its size in bytes."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._names: list[str] = []
        self._options: list[tuple[Option, ...]] = []
        self._edges: dict[tuple[int, int], Dependency] = {}

    def __len__(self) -> int:
        return len(self._names)

    def operator(self, kind: str, size: int, *inputs: tuple[int, int]) -> tuple[int, int]:
        """Add an operator that only the host can run; return its output."""
        return self._add(kind, size, inputs, (), 2_000 + size / 2.5)

    def matrix(self, kind: str, outputs: int, inputs: int, mvms: int, *sources: tuple[int, int]) -> tuple[int, int]:
        """Add an operator with constant weights of `outputs` × `inputs`, applied to `mvms` vectors."""
        size = outputs * mvms
        transfers = (sum(source[1] for source in sources) + size) / BUS_BYTES_PER_NS
        crossbars = -(-outputs // COLUMNS) * -(-inputs // ROWS)
        option = Option(CIM, round(transfers + mvms * MVM_NS), crossbars)
        return self._add(kind, size, sources, (option,), 2_000 + outputs * inputs * mvms / 25)

    def _add(
        self, kind: str, size: int, inputs: tuple[tuple[int, int], ...], more: tuple[Option, ...], host_ns: float
    ) -> tuple[int, int]:
        number = len(self._names)
        self._names.append(f"{kind}_{number}")
        self._options.append((Option(HOST, round(host_ns * self._random.uniform(0.7, 1.3))), *more))
        for source, size_bytes in inputs:
            self._edges[source, number] = Dependency(
                source, number, round(size_bytes / BUS_BYTES_PER_NS), size_bytes=size_bytes
            )
        return number, size

    def problem(self) -> Problem:
        """Return the problem, with half the crossbars that everything would take."""
        demand = sum(options[-1].crossbars for options in self._options)
        edges = tuple(self._edges[pair] for pair in sorted(self._edges))
        return Problem(tuple(self._names), tuple(self._options), edges, budget=demand // 2)


def resnet(operators: int, seed: int = 0) -> Problem:
    """Return bottleneck blocks (three convolutions and an addition beside a shortcut), as in ResNet-152 and deeper."""
    net = Builder(seed)
    x = net.matrix("conv", 64, 147, 12_544)
    x = net.operator("maxpool", 200_704, x)
    width, pixels = 64, 3_136
    stages = [operators * part // 50 for part in (3, 11, 47, 50)]
    while len(net) + 4 < operators:
        stage = sum(len(net) > end for end in stages[:3])
        width, pixels = 64 << stage, 3_136 >> (2 * stage)
        y = net.matrix("conv", width, 4 * width, pixels, x)
        y = net.matrix("conv", width, 9 * width, pixels, y)
        y = net.matrix("conv", 4 * width, width, pixels, y)
        x = net.operator("add", y[1], y, x)
    net.matrix("gemm", 1_000, 4 * width, 1, net.operator("mean", 4 * width, x))
    return net.problem()


def yolo(operators: int, seed: int = 0) -> Problem:
    """Return a deeper YOLO: a long backbone of C3 blocks, a neck, and three detection heads beside each other."""
    net = Builder(seed)
    head = 95  # operators after the backbone

    def conv(x: tuple[int, int], channels: int, inputs: int, pixels: int) -> tuple[int, int]:
        y = net.matrix("conv", channels, inputs, pixels, x)
        return net.operator("mul", y[1], y, net.operator("sigmoid", y[1], y))

    def c3(x: tuple[int, int], channels: int, pixels: int, depth: int) -> tuple[int, int]:
        half = channels // 2
        y = conv(x, half, channels, pixels)
        for _ in range(depth):
            z = conv(conv(y, half, half, pixels), half, 9 * half, pixels)
            y = net.operator("add", z[1], z, y)
        side = conv(x, half, channels, pixels)
        return conv(net.operator("concat", y[1] + side[1], y, side), channels, channels, pixels)

    x = conv(net.operator("quantize", 1_228_800), 16, 108, 102_400)
    depth = max(1, (operators - head - 3) // (4 * 7) - 1)  # an inner block has 7 operators
    levels = []
    for level in range(4):
        channels, pixels = 32 << level, 25_600 >> (2 * level)
        x = c3(conv(x, channels, 9 * channels // 2, pixels), channels, pixels, depth)
        levels.append(x)
    outputs = []
    for level in (3, 2, 1):
        channels, pixels = 32 << level, 25_600 >> (2 * level)
        if level < 3:
            up = net.operator("resize", x[1] * 4, x)
            x = c3(net.operator("concat", up[1] + levels[level][1], up, levels[level]), channels, pixels, 1)
        y = net.matrix("conv", 255, channels, pixels, x)
        y = net.operator("sigmoid", y[1], net.operator("transpose", y[1], net.operator("reshape", y[1], y)))
        split = net.operator("split", y[1], y)
        parts = [net.operator("mul", y[1] // 3, net.operator("pow", y[1] // 3, split)) for _ in range(3)]
        outputs.append(net.operator("concat", y[1], *parts))
    net.operator("concat", sum(size for _, size in outputs), *outputs)
    return net.problem()


def transformer(operators: int, seed: int = 0, *, layers: int = 24) -> Problem:
    """Return a transformer whose attention heads run beside each other; wider heads with more operators a layer."""
    net = Builder(seed)
    tokens, size = 64, 64
    heads = max(1, (operators // layers - 8) // 7)  # a head has 7 operators, a layer 8 more
    width = heads * size
    x = net.operator("embed", width * tokens)
    for _ in range(layers):
        norm = net.operator("norm", x[1], x)
        parts = []
        for _ in range(heads):
            q, k, v = (net.matrix("matmul", size, width, tokens, norm) for _ in range(3))
            scores = net.operator("softmax", tokens * tokens, net.operator("scores", tokens * tokens, q, k))
            mixed = net.operator("mix", size * tokens, scores, v)
            parts.append(net.operator("reshape", mixed[1], mixed))
        y = net.matrix("matmul", width, width, tokens, net.operator("concat", width * tokens, *parts))
        x = net.operator("add", y[1], y, x)
        y = net.matrix("matmul", 4 * width, width, tokens, net.operator("norm", x[1], x))
        y = net.matrix("matmul", width, 4 * width, tokens, net.operator("gelu", y[1], y))
        x = net.operator("add", y[1], y, x)
    return net.problem()


def deep_transformer(operators: int, seed: int = 0) -> Problem:
    """Return a transformer of two heads whose number of layers grows: block width stays the same."""
    return transformer(operators, seed, layers=max(1, operators // (8 + 2 * 7)))


NETWORKS: dict[str, Callable[[int], Problem]] = {
    "resnet": resnet,
    "yolo": yolo,
    "transformer": deep_transformer,
}
"""Families that grow in depth at constant block width."""
