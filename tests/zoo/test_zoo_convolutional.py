"""The convolutional networks: their sizes, their numbers, and that they compute something sane."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from cimplan.errors import InputError
from cimplan.zoo import build, describe, write
from cimplan.zoo.network import Constant, Network

# Trainable parameters of the published networks, which count two per batch-normalised channel.
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "mobilenet_v2": 3_504_872,
    "vgg16": 138_357_544,
}

# Multiply-accumulate operations of one image, in 10^9, as the papers and model hubs print them.
GIGA_MACS = {
    "resnet18": 1.81,
    "resnet34": 3.66,
    "resnet50": 4.09,
    "resnet101": 7.80,
    "mobilenet_v2": 0.30,
    "vgg16": 15.47,
    "yolov5n": 2.25,  # printed as 4.5 GFLOPs, two per multiply-accumulate
}

FLOAT_NODES = {"resnet18": 49, "resnet50": 122, "mobilenet_v2": 100, "yolov5n": 236}

CONVOLUTIONS = {
    "resnet18": 20,
    "resnet34": 36,
    "resnet50": 53,
    "resnet101": 104,
    "mobilenet_v2": 52,
    "vgg16": 13,
    "yolov5n": 60,
}

SMALL = ("resnet18", "resnet34", "resnet50", "resnet101", "mobilenet_v2", "yolov5n")


def skeleton(name: str, batch: int = 1) -> onnx.ModelProto:
    """The model without its weights' data: they become graph inputs."""
    entry = describe(name)
    network = entry.network(entry.check({"batch": batch}))
    model = network.skeleton()
    for initializer in network.initializers.values():
        tensor = initializer.header()
        if isinstance(initializer, Constant):
            tensor.raw_data = b"".join(initializer.chunks())
            model.graph.initializer.append(tensor)
        else:
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return model


def weight_shapes(name: str) -> dict[str, tuple[int, ...]]:
    entry = describe(name)
    network = entry.network(entry.check({}))
    headers = [initializer.header() for initializer in network.initializers.values()]
    return {header.name: tuple(header.dims) for header in headers}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_parameters_match_the_published_network(name: str) -> None:
    shapes = weight_shapes(name)
    nodes = skeleton(name).graph.node
    learned = sum(
        math.prod(shapes[tensor]) for node in nodes if node.op_type in ("Conv", "Gemm") for tensor in node.input[1:]
    )
    assert learned == describe(name).weights == describe(name).network({"batch": 1, "seed": 0}).parameters
    if name in PUBLISHED:
        # Folding turns scale and shift into one bias per channel; plain VGG16 has no batch normalisation.
        folded = sum(shapes[node.input[2]][0] for node in nodes if node.op_type == "Conv") if name != "vgg16" else 0
        assert learned + folded == PUBLISHED[name]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_multiplications_match_the_published_network(name: str) -> None:
    shapes = weight_shapes(name)
    inferred = onnx.shape_inference.infer_shapes(skeleton(name), strict_mode=True)
    for value in [*inferred.graph.value_info, *inferred.graph.output]:
        shapes[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        assert all(shapes[value.name])
    macs = 0
    for node in inferred.graph.node:
        if node.op_type == "Conv":
            macs += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        if node.op_type == "Gemm":
            macs += math.prod(shapes[node.output[0]]) * shapes[node.input[1]][1]
    assert macs / 1e9 == pytest.approx(GIGA_MACS[name], rel=0.02)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_nodes_are_counted_as_in_the_recipe(name: str) -> None:
    kinds = Counter(node.op_type for node in skeleton(name).graph.node)
    assert kinds["Conv"] == CONVOLUTIONS[name]
    if name in FLOAT_NODES:
        assert kinds.total() == FLOAT_NODES[name]


def test_yolov5n_shares_one_constant_between_mul_and_pow() -> None:
    graph = skeleton("yolov5n").graph
    assert Counter(node.op_type for node in graph.node if "head.two" in node.input) == {"Mul": 6, "Pow": 3}
    assert len(graph.output) == 1


@pytest.mark.parametrize(
    ("name", "shape"),
    [("resnet18", (2, 1000)), ("mobilenet_v2", (2, 1000)), ("resnet50", (2, 1000)), ("yolov5n", (2, 25200, 85))],
)
def test_runs_with_sane_values(name: str, shape: tuple[int, ...]) -> None:
    model = build(name, batch=2)
    onnx.checker.check_model(model, full_check=True)
    # Watch a deep tensor as well: a sigmoid at the end hides an explosion before it.
    deep = [node.output[0] for node in model.graph.node if node.op_type == "Conv"][-1]
    model.graph.output.append(onnx.helper.make_tensor_value_info(deep, onnx.TensorProto.FLOAT, None))
    size = 640 if name == "yolov5n" else 224
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).random((2, 3, size, size), dtype=np.float32)
    answer, inside = session.run(None, {"image": image})
    assert answer.shape == shape
    assert np.isfinite(answer).all()
    assert 0.05 < inside.std() < 20
    # The two images differ, and so must what the network says about them.
    assert np.abs(answer[0] - answer[1]).max() > 1e-3


def test_yolov5n_decodes_boxes_by_the_formula() -> None:
    model = build("yolov5n", batch=2)
    anchors = {8: [10, 13, 16, 30, 33, 23], 16: [30, 61, 62, 45, 59, 119], 32: [116, 90, 156, 198, 373, 326]}
    for stride in anchors:
        shape = (2, 255, 640 // stride, 640 // stride)
        model.graph.output.append(onnx.helper.make_tensor_value_info(f"head{stride}", onnx.TensorProto.FLOAT, shape))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(2).random((2, 3, 640, 640), dtype=np.float32)
    boxes, *heads = session.run(None, {"image": image})

    row = 0
    for (stride, sizes), head in zip(anchors.items(), heads, strict=True):
        for anchor in range(3):
            # (batch, cells, 85), cells row by row
            values = head[:, 85 * anchor : 85 * (anchor + 1)].reshape(2, 85, -1).transpose(0, 2, 1)
            share = 1 / (1 + np.exp(-values.astype(np.float64)))
            cells = np.arange(share.shape[1])
            row_of, column_of = np.divmod(cells, 640 // stride)
            expected = share.copy()
            expected[..., 0] = (2 * share[..., 0] - 0.5 + column_of) * stride
            expected[..., 1] = (2 * share[..., 1] - 0.5 + row_of) * stride
            expected[..., 2] = (2 * share[..., 2]) ** 2 * sizes[2 * anchor]
            expected[..., 3] = (2 * share[..., 3]) ** 2 * sizes[2 * anchor + 1]
            np.testing.assert_allclose(boxes[:, row : row + len(cells)], expected, rtol=1e-4, atol=1e-3)
            row += len(cells)
    assert row == boxes.shape[1] == 25_200


@pytest.mark.parametrize("name", SMALL)
def test_streamed_file_is_the_model_built_in_memory(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "one.onnx", seed=3)
    write(name, tmp_path / "two.onnx", seed=3)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
    assert onnx.load(tmp_path / "one.onnx") == build(name, seed=3)


def test_weights_are_streamed_in_bounded_memory(tmp_path: Path) -> None:
    network = Network("large", seed=0)
    network.weight("weight", (4096, 4096), deviation=1.0)
    tracemalloc.start()
    network.write(tmp_path / "large.onnx")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "large.onnx").stat().st_size > 64 * 2**20
    assert peak_bytes < 16 * 2**20
    weight = onnx.numpy_helper.to_array(onnx.load(tmp_path / "large.onnx").graph.initializer[0])
    assert weight.std() == pytest.approx(1, abs=1e-3)
    assert weight.mean() == pytest.approx(0, abs=1e-3)
    # Chunks of one weight go on where the last one ended.
    assert np.abs(np.corrcoef(weight.reshape(16, -1)) - np.eye(16)).max() < 0.01


@pytest.mark.slow
def test_vgg16_streams_553_megabytes_and_runs(tmp_path: Path) -> None:
    write("vgg16", tmp_path / "vgg16.onnx")
    assert (tmp_path / "vgg16.onnx").stat().st_size == pytest.approx(4 * 138_357_544, rel=1e-4)
    onnx.checker.check_model(tmp_path / "vgg16.onnx", full_check=True)
    session = ort.InferenceSession(tmp_path / "vgg16.onnx", providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).random((1, 3, 224, 224), dtype=np.float32)
    (logits,) = session.run(None, {"image": image})
    assert logits.shape == (1, 1000)
    assert 0.05 < logits.std() < 20


def test_seed_changes_weights_and_nothing_else() -> None:
    one, two = build("resnet18", seed=1), build("resnet18", seed=2)
    assert one.graph.node == two.graph.node
    same = [a.name for a, b in zip(one.graph.initializer, two.graph.initializer, strict=True) if a == b]
    assert same == ["flat.shape"]


def test_batch_reaches_every_tensor() -> None:
    inferred = onnx.shape_inference.infer_shapes(skeleton("yolov5n", batch=7), strict_mode=True)
    for value in [*inferred.graph.value_info, *inferred.graph.output, inferred.graph.input[0]]:
        assert value.type.tensor_type.shape.dim[0].dim_value == 7


def test_nothing_is_written_when_a_parameter_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"batch=0 is not possible.*1 to 65,536"):
        write("resnet18", tmp_path / "model.onnx", batch=0)
    assert list(tmp_path.iterdir()) == []
