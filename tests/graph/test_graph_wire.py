"""Edits at the level of the wire format: what is asked for changes, and nothing else."""

from __future__ import annotations

import io

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

from cimplan.graph.wire import OUTER_NAME, Editor, MalformedError, field_start, nodes_of, skeleton


def model() -> ModelProto:
    value = helper.make_tensor_value_info
    inner = helper.make_node("If", ["k"], ["i"], name="mm", then_branch=branch("t"), else_branch=branch("e"))
    nested = helper.make_graph([inner], "nested", [], [value("i", TensorProto.FLOAT, [64, 64])])
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["y"], name="mm"),
        helper.make_node("If", ["k"], ["z"], then_branch=nested, else_branch=branch("o")),
        helper.make_node("Neg", ["y"], ["n"], name="mm"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            value("x", TensorProto.FLOAT, [64, 64]),
            value("k", TensorProto.BOOL, []),
            value("gone", TensorProto.INT64, [1]),
        ],
        [value("n", TensorProto.FLOAT, [64, 64]), value("z", TensorProto.FLOAT, [64, 64])],
        [numpy_helper.from_array(np.ones((64, 64), np.float32), "W")],
    )
    graph.input.append(value("W", TensorProto.FLOAT, [64, 64]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branch(name: str):
    value = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [64, 64])
    return helper.make_graph([helper.make_node("MatMul", ["x", "W"], [f"{name}_out"], name="mm")], name, [], [value])


def edited(content: bytes, editor: Editor) -> ModelProto:
    stream = io.BytesIO(content)
    result = editor.edit(stream, len(content))
    data = b"".join(result.chunks(stream))
    assert len(data) == result.length
    return ModelProto.FromString(data)


def names_in(graph) -> list[str]:
    found = []
    for node in graph.node:
        found.append(node.name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += names_in(attribute.g)
    return found


def test_every_node_gets_a_name_of_its_own_that_says_whether_it_is_in_a_body():
    before = model()
    after = edited(before.SerializeToString(), Editor(rename=True))
    assert [node.name for node in after.graph.node] == ["cimplan_outer_0", "cimplan_outer_1", "cimplan_outer_2"]
    names = names_in(after.graph)
    assert len(set(names)) == len(names) == 7
    assert sum(name.startswith("cimplan_inner_") for name in names) == 4
    checker.check_model(after)


def test_renaming_changes_nothing_but_names():
    before = model()
    after = edited(before.SerializeToString(), Editor(rename=True))

    def bare(graph):
        for node in graph.node:
            node.name = ""
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    bare(attribute.g)

    bare(before.graph)
    bare(after.graph)
    assert after == before


def test_inputs_without_a_value_are_dropped_and_initializers_stay():
    after = edited(model().SerializeToString(), Editor(inputs={"x", "k"}))
    assert [value.name for value in after.graph.input] == ["x", "k", "W"]
    assert [node.name for node in after.graph.node] == ["mm", "", "mm"]


def test_a_skeleton_keeps_all_but_the_payload():
    before = model()
    content = before.SerializeToString()
    after = ModelProto.FromString(skeleton(io.BytesIO(content), len(content), 1 << 20))
    assert not after.graph.initializer[0].raw_data
    before.graph.initializer[0].ClearField("raw_data")
    assert after == before
    with pytest.raises(MalformedError, match="not tensor data"):
        skeleton(io.BytesIO(content), len(content), 100)


def test_the_nodes_of_the_network_are_listed_as_in_the_file():
    content = model().SerializeToString()
    nodes = nodes_of(io.BytesIO(content), len(content))
    assert [(node.name, node.op_type, node.inputs, node.outputs) for node in nodes] == [
        ("mm", "MatMul", ("x", "W"), ("y",)),
        ("", "If", ("k",), ("z",)),
        ("mm", "Neg", ("y",), ("n",)),
    ]


@pytest.mark.parametrize("cut", [1, 50, 200])
def test_cut_files_are_refused(cut):
    content = model().SerializeToString()[:-cut]
    for work in (lambda stream: Editor(rename=True).edit(stream, len(content)), lambda s: nodes_of(s, len(content))):
        with pytest.raises(MalformedError):
            work(io.BytesIO(content))


def test_nodes_of_a_graph_in_two_fields_are_numbered_as_one():
    graphs = [
        helper.make_graph([helper.make_node("Relu", [before], [after])], "g", [], []).SerializeToString()
        for before, after in (("a", "b"), ("b", "c"))
    ]
    content = b"".join(field_start(7, len(graph)) + graph for graph in graphs)
    assert [node.name for node in edited(content, Editor(rename=True)).graph.node] == [
        f"{OUTER_NAME}0",
        f"{OUTER_NAME}1",
    ]
