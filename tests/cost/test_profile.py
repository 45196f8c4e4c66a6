"""Measuring real small models with ONNX Runtime, and refusing what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest
from cost_cases import chip, save_graph, save_small_model
from onnx import TensorProto, helper, load, numpy_helper, save

from cimplan.cost import host, profile
from cimplan.cost.build import build_problem
from cimplan.errors import InputError
from cimplan.files import sha256_of


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = save_small_model(tmp_path_factory.mktemp("model") / "small.onnx")
    before = path.read_bytes()
    seen = []
    found = profile.measure(path, runs=12, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["small.onnx"]
    return path, found, seen


def test_a_measured_profile_is_whole(measured):
    path, found, seen = measured
    graph = found.graph()
    assert found.origin == "measured"
    assert found.model.name == "small.onnx"
    assert found.model.sha256 == sha256_of(path)
    assert found.measurement.runs == 12
    assert found.measurement.dropped_runs >= 3
    assert found.measurement.inputs == "random"
    assert found.measurement.scale > 0
    assert found.machine.threads == 1
    assert found.machine.onnxruntime == profile.package_version("onnxruntime")
    assert found.machine.cpu
    assert seen[-1] == (12, 12)
    assert {op.op_type for op in graph.operators} >= {"Conv", "Gemm"}
    for op in graph.operators:
        timing = found.times[op.name]
        assert timing.raw.runs == 12
        assert timing.host_ns > 0 or (timing.kind == "free (view)" and op.view)
        assert timing.raw.least_ns <= timing.raw.lower_quartile_ns <= timing.raw.median_ns
        assert timing.raw.median_ns <= timing.raw.upper_quartile_ns <= timing.raw.most_ns
    assert graph.tensors["y"].shape == (1, 5)


def test_the_scale_is_the_unprofiled_over_the_profiled_time(measured):
    _, found, _ = measured
    took = found.measurement
    assert took.scale == pytest.approx(took.unprofiled.fastest_quarter_ns / took.profiled.fastest_quarter_ns)
    assert f"{took.scale:.4g}" in found.notes[0]


def test_planning_needs_no_model(measured, tmp_path):
    _, found, _ = measured
    model = save_small_model(tmp_path / "gone.onnx")
    profile.measure(model, runs=1).save(tmp_path / "host.json")
    model.unlink()
    network = build_problem(profile.load(tmp_path / "host.json"), chip())
    assert [op.cim_ns is not None for op in network.operators].count(True) == 2
    assert network.problem.names == build_problem(found, chip()).problem.names


def test_one_run_is_enough_and_none_is_refused(tmp_path):
    path = save_small_model(tmp_path / "m.onnx")
    assert profile.measure(path, runs=1).measurement.runs == 1
    for bad in ({"runs": 0}, {"threads": 0}):
        with pytest.raises(InputError, match="at least 1"):
            profile.measure(path, **bad)


def test_open_dimensions_are_asked_for_and_taken(tmp_path):
    path = save_small_model(tmp_path / "m.onnx", batch="N")
    with pytest.raises(InputError) as caught:
        profile.measure(path, runs=1)
    assert "'N'" in str(caught.value)
    assert "--shape x=1,3,16,16" in str(caught.value)
    found = profile.measure(path, runs=1, shapes={"x": (2, 3, 16, 16)})
    assert found.graph().tensors["y"].shape == (2, 5)
    assert found.graph().tensors["x"].shape == (2, 3, 16, 16)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 3, 16)}, "does not fit"),
        ({"x": (2, 4, 16, 16)}, "does not fit"),
        ({"xx": (2, 3, 16, 16)}, "Did you mean 'x'"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(tmp_path, shapes, message):
    path = save_small_model(tmp_path / "m.onnx", batch="N")
    with pytest.raises(InputError, match=message):
        profile.measure(path, runs=1, shapes=shapes)


def test_two_inputs_must_agree_on_a_dimension(tmp_path):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in ("a", "b")]
    output = helper.make_tensor_value_info("c", TensorProto.FLOAT, ["N", 4])
    path = save_graph(
        tmp_path / "m.onnx", helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "g", inputs, [output])
    )
    with pytest.raises(InputError, match="given as 2 and as 3"):
        profile.measure(path, runs=1, shapes={"a": (2, 4), "b": (3, 4)})
    assert profile.measure(path, runs=1, shapes={"a": (2, 4), "b": (2, 4)}).times["c"].host_ns > 0


def _gather(tmp_path, rows):
    table = numpy_helper.from_array(np.ones((rows, 4), np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Sub", ["i", "one"], ["j"]), helper.make_node("Gather", ["table", "j"], ["y"], name="look")],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [table, numpy_helper.from_array(np.array(-10 + rows, np.int64), "one")],
    )
    return save_graph(tmp_path / "gather.onnx", graph)


def test_inputs_the_model_refuses_are_replaced_and_noted(tmp_path):
    # indices are i - (rows - 10); with rows = 10 random 0 or 1 and zeros are all in range
    assert profile.measure(_gather(tmp_path, 10), runs=1).measurement.inputs == "random"
    # with rows = 5: 0 and 1 give 5 and 6, all out of range, whatever is fed
    with pytest.raises(InputError) as caught:
        profile.measure(_gather(tmp_path, 5), runs=1)
    assert "'look'" in str(caught.value)
    assert "out of data bounds" in str(caught.value)


def test_zeros_are_tried_where_random_fails(tmp_path):
    table = numpy_helper.from_array(np.ones((1, 4), np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 4])],
        [table],
    )
    found = profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=1)
    assert found.measurement.inputs == "zeros"
    assert any("fed with zeros" in note for note in found.notes)


def test_text_inputs_are_refused(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["t"])],
        "g",
        [value("s", TensorProto.STRING, [1])],
        [value("t", TensorProto.STRING, [1])],
    )
    with pytest.raises(InputError, match="not numeric"):
        profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=1)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07" * 50])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        profile.measure(path, runs=1)
    assert caught.value.exit_code == 2
    with pytest.raises(InputError):
        profile.measure(tmp_path / "none.onnx", runs=1)


def test_a_truncated_model_is_refused(tmp_path):
    path = save_small_model(tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError):
        profile.measure(path, runs=1)


def test_an_operator_onnx_runtime_lacks_is_named(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Nonsense", ["a"], ["b"], name="odd")],
        "g",
        [value("a", TensorProto.FLOAT, [1])],
        [value("b", TensorProto.FLOAT, [1])],
    )
    with pytest.raises(InputError, match="Nonsense"):
        profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=1)


def test_nodes_without_names_and_inside_branches_are_matched(tmp_path):
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph([helper.make_node(kind, ["a"], [out])], out, [], [value(out, TensorProto.FLOAT, [8])])
        for kind, out in (("Relu", "p"), ("Neg", "q"))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("If", ["k"], ["s"], then_branch=branches[0], else_branch=branches[1]),
            helper.make_node("Add", ["r", "s"], ["t"]),
        ],
        "g",
        [value("a", TensorProto.FLOAT, [8]), value("k", TensorProto.BOOL, [])],
        [value("t", TensorProto.FLOAT, [8])],
    )
    found = profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=4)
    assert {op.op_type for op in found.graph().operators} == {"Relu", "If", "Add"}
    assert all(timing.host_ns > 0 for timing in found.times.values())


def test_constants_made_by_operators_stay_operators(tmp_path):
    value = helper.make_tensor_value_info
    scale, zero = (
        numpy_helper.from_array(np.array(v, t), n) for v, t, n in ((0.5, np.float32, "s"), (3, np.uint8, "z"))
    )
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Mul", ["d", "d"], ["y"]),
        ],
        "g",
        [value("a", TensorProto.FLOAT, [8])],
        [value("y", TensorProto.FLOAT, [8])],
        [scale, zero],
    )
    found = profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=2)
    assert found.total_ns > 0


def test_initializers_listed_as_inputs_and_folded_away_are_no_inputs(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["w"]),
            helper.make_node("Add", ["a", "w"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
        ],
        "g",
        [value("a", TensorProto.FLOAT, [8]), value("shape", TensorProto.INT64, [1])],
        [value("y", TensorProto.FLOAT, [8])],
        [numpy_helper.from_array(np.array([8], np.int64), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)])
    model.ir_version = 3
    save(model, tmp_path / "old.onnx")
    found = profile.measure(tmp_path / "old.onnx", runs=1)
    assert found.graph_record.inputs == ("a",)
    assert {op.op_type for op in found.graph().operators} == {"Add", "Relu"}


def test_external_weights_are_found_and_their_absence_explained(tmp_path):
    path = save_small_model(tmp_path / "m.onnx", channels=8)
    save(load(path), path, save_as_external_data=True, location="w.data", size_threshold=0)
    assert profile.measure(path, runs=1).total_ns > 0
    (tmp_path / "w.data").unlink()
    with pytest.raises(InputError, match=r"'w\.data' is not beside it"):
        profile.measure(path, runs=1)


def test_external_weights_outside_the_models_folder_are_never_opened(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = save_small_model(folder / "m.onnx", channels=8)
    save(load(path), path, save_as_external_data=True, location="w.data", size_threshold=0)
    (folder / "w.data").rename(tmp_path / "w.data")
    model = load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../w.data"
    save(model, path)
    with pytest.raises(InputError, match="outside the model's folder"):
        profile.measure(path, runs=1)


def test_a_large_graph_is_saved_with_its_weights_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "_EXTERNAL_FROM_BYTES", 1)
    path = save_small_model(tmp_path / "m.onnx", channels=16)
    assert profile.measure(path, runs=1).graph_record.operators


def test_the_cache_measures_once_and_again_when_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("CIMPLAN_CACHE_DIR", str(tmp_path / "cache"))
    path = save_small_model(tmp_path / "m.onnx")
    calls = []
    real = profile.measure
    monkeypatch.setattr(profile, "measure", lambda *args, **kw: calls.append(1) or real(*args, **kw, runs=1))
    first = profile.cached_or_measure(path)
    assert profile.cached_or_measure(path) == first
    assert len(calls) == 1
    profile.cached_or_measure(path, threads=2)
    assert len(calls) == 2
    save_small_model(path, seed=1)
    assert profile.cached_or_measure(path).model.sha256 != first.model.sha256
    assert len(calls) == 3
    for entry in (tmp_path / "cache").iterdir():
        entry.write_text("{}")
    assert profile.cached_or_measure(path).model.sha256 == sha256_of(path)
    assert len(calls) == 4


def test_robust_means():
    assert profile.midmean([1.0]) == 1
    assert profile.midmean([1, 2, 3, 4]) == 2.5
    assert profile.midmean([0, 10, 10, 10, 10, 10, 10, 5000]) == 10
    assert profile.fastest_quarter([9, 8, 7, 6, 5, 1, 100, 100]) == 3
    assert profile.fastest_quarter([4]) == 4
    found = profile.spread([1, 2, 3, 4, 5])
    assert (found.median_ns, found.lower_quartile_ns, found.upper_quartile_ns) == (3, 2, 4)


def test_times_that_are_zero_to_the_profiler_stay_positive(tmp_path):
    import json

    events = [
        {"cat": "Session", "name": "model_run", "ts": 0, "dur": 9, "args": {}},
        {"cat": "Node", "name": "n_kernel_time", "ts": 1, "dur": 0, "args": {"op_name": "Relu", "node_index": "0"}},
        {"cat": "Session", "name": "model_run", "ts": 20, "dur": 9, "args": {}},
        {"cat": "Node", "name": "n_kernel_time", "ts": 21, "dur": 3, "args": {"op_name": "Relu", "node_index": "0"}},
        {"cat": "Node", "name": "Neg_1_kernel_time", "ts": 22, "dur": 5, "args": {"op_name": "Neg", "node_index": "1"}},
        {"cat": "Node", "name": "Neg_7_kernel_time", "ts": 22, "dur": 5, "args": {"op_name": "Neg", "node_index": "7"}},
        {"cat": "Node", "name": "n_kernel_time", "ts": 23, "dur": 5, "args": {"op_name": "Abs", "node_index": "0"}},
    ]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(events))
    nodes = [host.Node("n", "Relu", ("a",), ("b",)), host.Node("", "Neg", ("b",), ("c",))]
    assert host.read_kernel_times(path, nodes, lambda run: True).by_node == {0: [0.0, 3000.0], 1: [0.0, 5000.0]}
    assert host.read_kernel_times(path, nodes, lambda run: run == 0).by_node == {0: [0.0], 1: [0.0]}
