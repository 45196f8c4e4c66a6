"""Table I of Klein et al. (arXiv 2607.05240): the twelve integers, counted here from scratch.

Float network, static quantisation by ONNX Runtime with random calibration data, a session with all optimisations,
and the nodes of the graph it saves. The counting shares no code with the tool.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from cimplan.zoo import write


@dataclass(frozen=True)
class Row:
    operators: int
    edges: int
    pairs: int
    supported: int
    sinks: int
    variables: int
    constraints: int


TABLE = {
    "resnet18": Row(38, 45, 6, 21, 1, 44, 204),
    "resnet50": Row(79, 94, 12, 54, 1, 91, 412),
    "mobilenet_v2": Row(71, 80, 0, 53, 1, 71, 331),
    "yolov5n": Row(251, 337, 2790, 60, 1, 3041, 7035),
}


class RandomImages(CalibrationDataReader):
    def __init__(self, size: int, count: int = 2) -> None:
        generator = np.random.default_rng(0)
        self.images = iter([generator.random((1, 3, size, size), dtype=np.float32) for _ in range(count)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        image = next(self.images, None)
        return None if image is None else {"image": image}


def optimised_graph(name: str, folder: Path) -> onnx.GraphProto:
    write(name, folder / "float.onnx")
    quantize_static(
        folder / "float.onnx",
        folder / "int8.onnx",
        RandomImages(640 if name == "yolov5n" else 224),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(folder / "int8.onnx", options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx").graph


def count(graph: onnx.GraphProto) -> Row:
    nodes = graph.node
    producer = {tensor: index for index, node in enumerate(nodes) for tensor in node.output if tensor}
    edges = {
        (producer[tensor], target) for target, node in enumerate(nodes) for tensor in node.input if tensor in producer
    }
    successors: list[set[int]] = [set() for _ in nodes]
    for source, target in edges:
        assert source < target
        successors[source].add(target)
    reachable: list[set[int]] = [set() for _ in nodes]
    for index in reversed(range(len(nodes))):
        for target in successors[index]:
            reachable[index] |= {target} | reachable[target]
    pairs = len(nodes) * (len(nodes) - 1) // 2 - sum(map(len, reachable))
    constants = {initializer.name for initializer in graph.initializer}
    # QLinearConv and QGemm: a, a_scale, a_zero_point, weight, ...
    supported = sum(node.op_type in ("QLinearConv", "QGemm") and node.input[3] in constants for node in nodes)
    sinks = sum(not targets for targets in successors)
    return Row(
        operators=len(nodes),
        edges=len(edges),
        pairs=pairs,
        supported=supported,
        sinks=sinks,
        variables=len(nodes) + pairs,
        constraints=sinks + len(nodes) + 3 * len(edges) + 2 * pairs + 1 + len(nodes) - supported,
    )


@pytest.mark.skipif(
    tuple(map(int, ort.__version__.split(".")[:2])) > (1, 28),
    reason="from onnxruntime 1.29 on, three Transposes of YOLOv5n merge",
)
@pytest.mark.parametrize("name", TABLE)
def test_optimised_graph_has_the_published_size(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The quantiser advises its own preprocessing, which would change the counts.
    monkeypatch.setattr(logging.getLogger(), "disabled", True)
    assert count(optimised_graph(name, tmp_path)) == TABLE[name]


def test_counting_knows_a_diamond() -> None:
    helper = onnx.helper
    nodes = [
        helper.make_node("QGemm", ["x", "s", "z", "w", "s", "z"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("QGemm", ["b", "s", "z", "c", "s", "z"], ["d"]),
        helper.make_node("Mul", ["b", "b"], ["e"]),
    ]
    weight = helper.make_tensor("w", onnx.TensorProto.INT8, [1, 1], [1])
    graph = helper.make_graph(nodes, "diamond", [], [], [weight])
    # Without a path: b-c, d-e, c-e. The second QGemm multiplies two activations.
    assert count(graph) == Row(5, 5, 3, 1, 2, 8, 2 + 5 + 15 + 6 + 1 + 4)
