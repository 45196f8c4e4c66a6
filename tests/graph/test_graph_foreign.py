"""Networks that nobody here built have the shapes of a real run in every form ONNX Runtime gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from graph_models import Array, optimise, run_all

from cimplan.errors import InputError
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.quantise import quantise
from cimplan.graph.read import read_graph
from foreign import DETECTOR, ORIENTATION, SENTENCE_ENCODER, ForeignModel

pytestmark = pytest.mark.network

Shapes = dict[str, tuple[int, ...]]


def shapes_of(foreign: ForeignModel) -> Shapes:
    pairs = (text.split("=") for text in foreign.shapes)
    return {name: tuple(map(int, sizes.split(","))) for name, sizes in pairs}


def read_and_compare(path: Path, shapes: Shapes) -> OperatorGraph:
    graph = read_graph(path, shapes=shapes)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        integral = tensor.dtype.startswith("int")
        data = generator.integers(0, 2, tensor.shape) if integral else generator.normal(size=tensor.shape)
        feeds[name] = data.astype(tensor.dtype)
    net = onnx.load(path)
    assert len(graph.operators) == len(net.graph.node)
    for name, result in run_all(net, feeds).items():
        assert (graph.tensors[name].dtype, graph.tensors[name].shape) == (str(result.dtype), result.shape), name
    return graph


def stationary(graph: OperatorGraph) -> int:
    return sum(operator.work is not None and operator.work.stationary == "constant" for operator in graph.operators)


@pytest.mark.parametrize(("foreign", "layers"), [(ORIENTATION, 33), (DETECTOR, 63)], ids=["orientation", "detector"])
def test_float_networks(tmp_path: Path, foreign: ForeignModel, layers: int) -> None:
    path, shapes = foreign.path(), shapes_of(foreign)
    with pytest.raises(InputError, match=f"--shape {next(iter(shapes))}=1,3,224,224"):
        read_graph(path)
    quantise(path, tmp_path / "int8.onnx", shapes=shapes)
    for model in (path, optimise(path, tmp_path / "o.onnx"), optimise(tmp_path / "int8.onnx", tmp_path / "o8.onnx")):
        assert stationary(read_and_compare(model, shapes)) >= layers


def test_a_transformer_whose_int8_weights_pass_casts_and_scales(tmp_path: Path) -> None:
    path, shapes = SENTENCE_ENCODER.path(), shapes_of(SENTENCE_ENCODER)
    with pytest.raises(InputError, match=r"--shape input_ids=1,sequence .*with numbers for the names"):
        read_graph(path)
    graphs = [read_and_compare(model, shapes) for model in (path, optimise(path, tmp_path / "o.onnx"))]
    assert all(stationary(graph) == 36 for graph in graphs)
