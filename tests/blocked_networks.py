"""Float networks that ONNX Runtime turns to blocks of channels on x86, and their graphs for other block sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cimplan.graph.layout import blocked_tensors
from cimplan.graph.operators import MatrixWork, OperatorGraph, Tensor
from cimplan.operator_types import NCHWC

Nodes = list[onnx.NodeProto]


class _Builder:
    def __init__(self) -> None:
        self.nodes: Nodes = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def conv(self, source: str, made: str, channels: int, outputs: int, *, kernel: int = 3, groups: int = 1) -> None:
        shape = (outputs, channels // groups, kernel, kernel)
        name = f"weight_{made}"
        self.weights += [
            numpy_helper.from_array(self.rng.normal(0, 0.1, shape).astype(np.float32), name),
            numpy_helper.from_array(self.rng.normal(0, 0.1, outputs).astype(np.float32), f"bias_{made}"),
        ]
        self.node("Conv", [source, name, f"bias_{made}"], made, pads=[kernel // 2] * 4, group=groups)

    def node(self, op_type: str, sources: list[str], made: str, **attributes: object) -> None:
        self.nodes.append(helper.make_node(op_type, sources, [made], name=f"node_{made}", **attributes))

    def model(self, outputs: dict[str, tuple[int, ...]], channels: int = 3) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "blocked",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 16, 16])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def twenty_channels() -> onnx.ModelProto:
    """Three convolutions of 20 channels in a row: nothing in the blocked graph says 20 between them."""
    net = _Builder()
    net.conv("x", "a", 3, 20)
    net.node("Relu", ["a"], "b")
    net.conv("b", "c", 20, 20)
    net.conv("c", "y", 20, 20)
    return net.model({"y": (1, 20, 16, 16)})


def depthwise() -> onnx.ModelProto:
    """A depthwise convolution of 20 channels between pointwise ones, and a skip."""
    net = _Builder()
    net.conv("x", "a", 3, 20)
    net.conv("a", "b", 20, 20, groups=20)
    net.node("Clip", ["b"], "c")
    net.conv("c", "d", 20, 20, kernel=1)
    net.node("Add", ["d", "a"], "e")
    net.conv("e", "y", 20, 12, kernel=1)
    return net.model({"y": (1, 12, 16, 16)})


def grouped() -> onnx.ModelProto:
    """Grouped convolutions: three groups of 16, which are blocked everywhere, and four of 5, which never are."""
    net = _Builder()
    net.conv("x", "a", 3, 48)
    net.conv("a", "b", 48, 48, groups=3)
    net.conv("b", "c", 48, 20)
    net.conv("c", "d", 20, 20, groups=4)
    net.conv("d", "y", 20, 24)
    return net.model({"y": (1, 24, 16, 16)})


def three_channels() -> onnx.ModelProto:
    """An image that becomes an image again."""
    net = _Builder()
    net.conv("x", "a", 3, 12)
    net.conv("a", "b", 12, 12)
    net.conv("b", "y", 12, 3)
    return net.model({"y": (1, 3, 16, 16)})


def branches() -> onnx.ModelProto:
    """An activation function in blocks, a reorder that two convolutions share, a concatenation, and a plain end."""
    net = _Builder()
    net.conv("x", "a", 3, 20)
    net.node("Sigmoid", ["a"], "s")
    net.node("Mul", ["a", "s"], "b")
    net.conv("b", "c", 20, 20)
    net.node("Softmax", ["c"], "d", axis=1)
    net.conv("d", "e", 20, 16)
    net.conv("d", "f", 20, 16, kernel=1)
    net.node("Concat", ["e", "f"], "g", axis=1)
    net.conv("g", "h", 32, 20)
    net.node("GlobalAveragePool", ["h"], "i")
    net.node("Flatten", ["i"], "y")
    return net.model({"y": (1, 20)})


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "twenty channels": twenty_channels,
    "depthwise": depthwise,
    "grouped": grouped,
    "three channels": three_channels,
    "branches": branches,
}


def saved(folder: Path, name: str) -> Path:
    """Save a network under a name that is a file's."""
    path = folder / f"{name.replace(' ', '_')}.onnx"
    onnx.save(NETWORKS[name](), path)
    return path


def is_blocked(graph: OperatorGraph) -> bool:
    return any(op.domain == NCHWC for op in graph.operators)


def padded_to(graph: OperatorGraph, block: int) -> OperatorGraph:
    """Return a graph with true shapes as a host would have it that keeps channels in blocks of this size."""
    blocked = blocked_tensors(graph)
    tensors = dict(graph.tensors)

    def up(channels: int) -> int:
        return -(-channels // block) * block

    def resized(tensor: Tensor, *shape: int) -> Tensor:
        return replace(tensor, shape=shape)

    for name in blocked:
        batch, channels, *extents = tensors[name].shape
        tensors[name] = resized(tensors[name], batch, up(channels), *extents)
    operators = []
    for op in graph.operators:
        changed = op
        if op.domain == NCHWC and op.work is not None:
            outputs, inputs, *kernel = graph.tensors[op.weight_input].shape
            work = op.work
            size = work.inputs // inputs
            if work.groups == outputs:
                work = MatrixWork(1, size, work.mvms, up(outputs))
                tensors[op.weight_input] = resized(graph.tensors[op.weight_input], up(outputs), 1, *kernel)
            elif work.groups == 1:
                read = up(inputs) if op.inputs[0] in blocked else inputs
                work = MatrixWork(up(outputs), read * size, work.mvms)
                tensors[op.weight_input] = resized(graph.tensors[op.weight_input], up(outputs), read, *kernel)
            for name in op.inputs:
                if graph.tensors[name].constant and graph.tensors[name].shape == (outputs,):
                    tensors[name] = resized(tensors[name], up(outputs))
            changed = replace(op, work=work)
        operators.append(changed)
    return replace(graph, operators=tuple(operators), tensors=tensors)
