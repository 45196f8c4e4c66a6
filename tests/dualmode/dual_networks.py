"""Small random networks, chips and segments for the tests of the dual-mode compiler."""

from __future__ import annotations

from random import Random
from typing import Any

from cimplan.dualmode.options import make_readings
from cimplan.dualmode.split import PartSize
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Readings


def chip(**changes: Any) -> DualModeChip:
    """Return a small chip: 8 arrays of 16 rows and 2 weights, unless told otherwise."""
    values: dict[str, Any] = {
        "arrays": 8,
        "rows": 16,
        "columns": 16,
        "columns_per_weight": 8,
        "op_per_cycle": 20.0,
        "memory_bytes_per_cycle": 2.0,
        "main_bytes_per_cycle": 3.0,
        "buffer": "1KiB",
        "switch_to_compute_cycles": 1,
        "switch_to_memory_cycles": 2,
        "write_cycles": 4,
        "write_back_bytes_per_cycle": 3.0,
        "clock": "100MHz",
    }
    return DualModeChip.model_validate(values | changes)


def random_chip(rng: Random, *, arrays: int | None = None) -> DualModeChip:
    return chip(
        arrays=arrays or rng.randint(2, 12),
        op_per_cycle=rng.choice([1.5, 7.0, 20.0, 64.0, 300.0]),
        memory_bytes_per_cycle=rng.choice([0.3, 1.0, 2.0, 5.5]),
        main_bytes_per_cycle=rng.choice([0.7, 1.0, 3.0, 10.0]),
        write_cycles=rng.choice([0, 1, 4, 16, 40]),
        switch_to_compute_cycles=rng.randint(0, 12),
        switch_to_memory_cycles=rng.randint(0, 12),
        write_back_bytes_per_cycle=rng.choice([0.5, 2.0, 9.0]),
    )


def random_readings(rng: Random, **fixed: str) -> Readings:
    model = fixed.get("cost_model") or rng.choice(["published", "resident"])
    chosen = {
        "cost_model": model,
        "data_moved": rng.choice(["inputs", "inputs_outputs", "inputs_outputs_weights"]),
        "convolution_inputs": rng.choice(["raw", "im2col"]),
        "weight_writes": rng.choice(["free", "main_bandwidth", "array_cycles", "both", "both"]),
        "duplication": rng.choice(["whole", "whole", "linear"]),
        "group_packing": rng.choice(["block_diagonal", "one_per_group"]),
    }
    if model == "published":
        chosen["main_bandwidth"] = rng.choice(["each", "each", "shared"])
    return make_readings(**(chosen | fixed))


def random_segment(rng: Random, arrays: int) -> tuple[list[PartSize], list[tuple[int, int, int]]]:
    """Return parts that fit a chip, and sharing edges that often have odd cycles."""
    parts: list[PartSize] = []
    left = arrays
    for _ in range(rng.randint(1, 6)):
        if left < 1:
            break
        count = rng.randint(1, max(1, left // 2))
        left -= count
        parts.append(
            PartSize(
                count,
                rng.randint(1, 4000),
                rng.choice([0, rng.randint(1, 600)]) if rng.random() < 0.1 else rng.randint(1, 600),
                rng.randint(1, 600),
                rng.randint(1, 200),
            )
        )
    density = rng.random()
    edges = [(u, v, rng.randint(1, 6)) for v in range(len(parts)) for u in range(v) if rng.random() < density]
    return parts, edges


def odd_cycle(edges: list[tuple[int, int, int]]) -> bool:
    """Return whether the edges, without directions, hold a cycle of odd length."""
    side: dict[int, int] = {}
    neighbours: dict[int, list[int]] = {}
    for u, v, _ in edges:
        neighbours.setdefault(u, []).append(v)
        neighbours.setdefault(v, []).append(u)
    for start in neighbours:
        if start in side:
            continue
        side[start] = 0
        todo = [start]
        while todo:
            vertex = todo.pop()
            for other in neighbours[vertex]:
                if other not in side:
                    side[other] = 1 - side[vertex]
                    todo.append(other)
                elif side[other] == side[vertex]:
                    return True
    return False


class Sketch:
    """Builds an operator graph line by line."""

    def __init__(self, name: str = "sketch") -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []
        self.inputs: list[str] = []

    def input(self, name: str, *shape: int) -> str:
        self.tensors[name] = Tensor(name, "float32", shape)
        self.inputs.append(name)
        return name

    def matmul(self, source: str, outputs: int, *, groups: int = 1, weight: str = "", mvms: int | None = None) -> str:
        """Add a product of `source` (its elements are M · K · groups) with a weight, or with another activation."""
        number = len(self.operators)
        elements = self.tensors[source].elements
        vectors = mvms or self.tensors[source].shape[0]
        inputs = max(1, elements // (vectors * groups))
        held = weight or f"w{number}"
        if not weight:
            self.tensors[held] = Tensor(held, "float32", (groups, inputs, outputs), constant=True)
        result = f"t{number}"
        self.tensors[result] = Tensor(result, "float32", (vectors, outputs * groups))
        work = MatrixWork(outputs, inputs, vectors, groups, "activation" if weight else "constant")
        self.operators.append(Operator(f"op{number}", "MatMul", "", (source, held), (result,), work, weight_input=held))
        return result

    def rider(self, op_type: str, *sources: str) -> str:
        """Add an element-wise operator, or one that moves data."""
        number = len(self.operators)
        result = f"t{number}"
        shape = self.tensors[sources[0]].shape
        if op_type == "Concat":
            shape = (shape[0], sum(self.tensors[name].shape[1] for name in sources))
        self.tensors[result] = Tensor(result, "float32", shape)
        self.operators.append(Operator(f"op{number}", op_type, "", sources, (result,)))
        return result

    def graph(self, *outputs: str) -> OperatorGraph:
        return OperatorGraph(self.name, tuple(self.operators), self.tensors, tuple(self.inputs), outputs)


def random_graph(rng: Random, operators: int, *, widest: int = 40) -> OperatorGraph:
    """Return a network with chains, branches, residuals, concatenations, groups and activation products."""
    net = Sketch(f"random{rng.randint(0, 10**6)}")
    vectors = rng.choice([1, 2, 4, 9])
    values = [net.input("x", vectors, rng.randint(1, widest))]
    made = 0
    while made < operators:
        source = values[-1] if rng.random() < 0.65 else rng.choice(values)
        kind = rng.random()
        if kind < 0.12 and len(values) > 1:
            other = rng.choice(values)
            if net.tensors[other].elements * net.tensors[source].elements < 5000:
                values.append(net.rider("Concat", source, other))
                continue
        if kind < 0.2 and len(values) > 2:
            values.append(net.rider("Add", source, rng.choice(values)))
            continue
        if kind < 0.3:
            values.append(net.rider("Relu", source))
            continue
        width = net.tensors[source].shape[1]
        if kind < 0.4 and width > 1:
            groups = rng.choice([g for g in range(1, width + 1) if width % g == 0])
            values.append(net.matmul(source, rng.randint(1, 2), groups=groups))
        elif kind < 0.48 and made:
            values.append(net.matmul(source, rng.randint(1, 6), weight=rng.choice(values)))
        else:
            values.append(net.matmul(source, rng.randint(1, widest // 4)))
        made += 1
    outputs = {values[-1]} | {rng.choice(values) for _ in range(rng.randint(0, 1))}
    return net.graph(*sorted(outputs))
