"""The network behind a host's blocks of channels: its shapes and its matrix work, whatever the block size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import onnxruntime as ort
import pytest

from blocked_networks import NETWORKS, is_blocked, padded_to, saved
from cimplan.cost.layout import fold_reorders
from cimplan.cost.profile import optimised_graph
from cimplan.errors import InputError
from cimplan.graph.layout import network_of, network_shapes, without_marks
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.read import read_graph
from reference_profiles import profile


def blocked_graph(folder: Path, name: str) -> tuple[Path, OperatorGraph]:
    path = saved(folder, name)
    graph, _ = optimised_graph(path)
    if not is_blocked(graph):
        pytest.skip("this ONNX Runtime changes no layouts here")
    return path, graph


def plain_graph(path: Path, target: Path) -> OperatorGraph:
    """Return the graph as ONNX Runtime optimises it for a host without blocks."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(target)
    ort.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["NchwcTransformer"]
    )
    return read_graph(target)


def works(graph: OperatorGraph) -> Counter[object]:
    return Counter(op.work for op in graph.operators if op.work is not None)


@pytest.mark.parametrize("name", NETWORKS)
def test_matrix_work_and_moved_bytes_are_those_of_a_host_without_blocks(tmp_path: Path, name: str) -> None:
    path, graph = blocked_graph(tmp_path, name)
    plain = plain_graph(path, tmp_path / "plain.onnx")
    assert works(graph) == works(plain) == works(read_graph(path))
    folded = fold_reorders(graph)
    # A reorder that several operators share stays an operator, with the tensor once before it.
    shared = [edge for edge in folded.graph.edges if folded.graph.operators[edge.target].name in folded.shared]
    sizes = [Counter(edge.size_bytes for edge in found.edges) for found in (folded.graph, plain)]
    assert sizes[0] == sizes[1] + Counter(edge.size_bytes for edge in shared)


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("name", NETWORKS)
def test_shapes_do_not_depend_on_the_block_size(tmp_path: Path, name: str, block: int) -> None:
    path, graph = blocked_graph(tmp_path, name)
    padded = padded_to(graph, block)
    assert network_of(padded, path) == graph
    assert network_of(graph, path) == graph


@pytest.mark.parametrize("name", ["depthwise", "grouped", "branches"])
def test_without_the_file_channels_follow_from_where_blocks_begin_and_end(tmp_path: Path, name: str) -> None:
    _, graph = blocked_graph(tmp_path, name)
    found = network_shapes(padded_to(graph, 16))
    for before, after in zip(graph.operators, found.operators, strict=True):
        # What ReorderInput reads and ReorderOutput writes is known, and so is all that has as many channels.
        for tensor in (*before.inputs, *before.outputs):
            if not before.domain or before.op_type.startswith("Reorder"):
                assert found.tensors[tensor] == graph.tensors[tensor], (before.name, after.name)


def test_a_graph_as_saved_keeps_the_shapes_of_its_file(tmp_path: Path) -> None:
    path, graph = blocked_graph(tmp_path, "twenty channels")
    stored, _ = optimised_graph(path, save_to=tmp_path / "saved.onnx")
    shapes = {tensor.shape[1] for tensor in stored.tensors.values() if len(tensor.shape) == 4 and not tensor.constant}
    assert shapes in ({3, 20, 24}, {3, 20, 32})
    assert network_of(stored, path).tensors.keys() == stored.tensors.keys()
    assert works(network_of(stored, path)) == works(graph)


def test_a_file_of_another_network_is_not_believed(tmp_path: Path) -> None:
    _, graph = blocked_graph(tmp_path, "twenty channels")
    padded = padded_to(graph, 16)
    # Same names, other extents or more channels than there are: nothing follows from it.
    for shape in [(1, 20, 8, 8), (1, 64, 16, 16), (1, 20), (1, 0, 16, 16)]:
        named = dict.fromkeys(("b", "c"), shape)
        assert network_shapes(padded, named) == network_shapes(padded)


def test_int8_networks_have_no_blocks_and_come_back_themselves(tmp_path: Path) -> None:
    for name in ("resnet18", "yolov5n"):
        graph = profile(name, tmp_path).graph()
        assert network_shapes(graph) is graph
        fold = fold_reorders(graph)
        assert fold.graph is graph
        assert all(nodes == (operator,) for operator, nodes in fold.stands_for.items())


def test_marks_are_taken_off_names() -> None:
    assert without_marks("conv1_nchwc_token_12") == "conv1"
    assert without_marks("conv1_nchwc_more") == "conv1_nchwc_more"


def test_a_blocked_graph_that_was_edited_is_refused(tmp_path: Path) -> None:
    _, graph = blocked_graph(tmp_path, "depthwise" if "depthwise" in NETWORKS else next(iter(NETWORKS)))
    weight = next(op.weight_input for op in graph.operators if op.domain and op.work is not None)
    flat = replace(graph.tensors[weight], shape=())
    for tensors in ({**graph.tensors, weight: flat}, {name: t for name, t in graph.tensors.items() if name != weight}):
        with pytest.raises(InputError, match="contradicts itself"):
            fold_reorders(network_shapes(replace(graph, tensors=tensors)))
