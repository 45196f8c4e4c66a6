"""Measuring real small models with ONNX Runtime, and refusing what cannot be measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cost_cases import chip, save_graph, save_small_model
from onnx import TensorProto, helper, load, numpy_helper, save

from cimplan.cost import profile, runs
from cimplan.cost.build import build_problem
from cimplan.errors import InputError, InternalError
from cimplan.files import sha256_of
from cimplan.graph.wire import Node


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


def _body(name, kind, big):
    """Return the body of a branch: one node called `mm`, or one without a name, as its neighbour outside."""
    value = helper.make_tensor_value_info
    node = helper.make_node("MatMul", ["big", "V"], [name], name="mm" if kind == "named" else "")
    return helper.make_graph([node], name, [], [value(name, TensorProto.FLOAT, [big, big])])


def _loop_body(kind, big):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["state", "V"], ["next"], name="mm" if kind == "named" else ""),
        helper.make_node("If", ["go"], ["again"], then_branch=_truth("t"), else_branch=_truth("e")),
    ]
    return helper.make_graph(
        nodes,
        "body",
        [
            value("step", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, [big, big]),
        ],
        [value("again", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [big, big])],
    )


def _truth(name):
    node = helper.make_node("Not", ["go"], [f"{name}_out"], name="mm")
    back = helper.make_node("Not", [f"{name}_out"], [f"{name}_back"])
    return helper.make_graph(
        [node, back], name, [], [helper.make_tensor_value_info(f"{name}_back", TensorProto.BOOL, [])]
    )


@pytest.mark.parametrize("kind", ["named", "unnamed"])
@pytest.mark.parametrize("control", ["If", "Loop", "Scan"])
def test_nodes_of_a_body_give_neither_time_nor_shape_to_their_namesakes_outside(tmp_path, control, kind):
    value = helper.make_tensor_value_info
    big = 256
    outer = helper.make_node("MatMul", ["x", "W"], ["y"], name="mm" if kind == "named" else "")
    if control == "If":
        holder = helper.make_node(
            "If", ["k"], ["z"], name="c", then_branch=_body("p", kind, big), else_branch=_body("q", kind, big)
        )
    elif control == "Loop":
        holder = helper.make_node("Loop", ["trips", "k", "big"], ["z"], name="c", body=_loop_body(kind, big))
    else:
        node = helper.make_node("MatMul", ["state", "V"], ["next"], name="mm" if kind == "named" else "")
        keep = helper.make_node("Identity", ["row"], ["out"])
        body = helper.make_graph(
            [node, keep],
            "body",
            [value("state", TensorProto.FLOAT, [big, big]), value("row", TensorProto.FLOAT, [16])],
            [value("next", TensorProto.FLOAT, [big, big]), value("out", TensorProto.FLOAT, [16])],
        )
        holder = helper.make_node("Scan", ["big", "x"], ["z", "rows"], name="c", num_scan_inputs=1, body=body)
    graph = helper.make_graph(
        [outer, holder],
        "g",
        [
            value("x", TensorProto.FLOAT, [1, 16]),
            value("big", TensorProto.FLOAT, [big, big]),
            value("k", TensorProto.BOOL, []),
        ],
        [value("y", TensorProto.FLOAT, [1, 16]), value("z", TensorProto.FLOAT, [big, big])],
        [
            numpy_helper.from_array(np.ones((16, 16), np.float32), "W"),
            numpy_helper.from_array(np.ones((big, big), np.float32), "V"),
            numpy_helper.from_array(np.array(3, np.int64), "trips"),
        ],
    )
    found = profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=3)
    assert found.graph().tensors["y"].shape == (1, 16)
    name = {op.op_type: op.name for op in found.graph().operators}
    assert set(name) == {"MatMul", control}
    # The body's product runs within the node that holds it: were it counted outside too, MatMul would be the longer.
    assert found.times[name["MatMul"]].raw.least_ns < found.times[name[control]].raw.least_ns


def _events(*runs):
    """Return a profiler's file of runs given as (node, type, microseconds)."""
    events, now = [{"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 9, "args": {}}], 10
    for run in runs:
        for name, op_type, took in run:
            described = {"op_name": op_type, "output_type_shape": [{"float": [took or 1, 4]}]}
            events.append({"cat": "Node", "name": f"{name}_kernel_time", "ts": now, "dur": took, "args": described})
        took = sum(took for name, _, took in run if "outer" in name)
        events.append({"cat": "Session", "name": "model_run", "ts": now, "dur": took, "args": {}})
    return json.dumps(events)


NODES = [Node("n", "Relu", ("a",), ("b",)), Node("", "If", ("k",), ("c",))]


def test_only_events_of_the_network_count_and_only_after_the_first_runs(tmp_path):
    path = tmp_path / "p.json"
    run = [("cimplan_outer_0", "Relu", 3), ("cimplan_inner_0", "Relu", 70), ("cimplan_outer_1", "If", 80)]
    path.write_text(_events([("cimplan_outer_0", "Relu", 9)], run, [("cimplan_outer_1", "If", 5)]))
    found = runs.Recording(2, 0, "random")
    runs.read_events(path, NODES, found, 1)
    assert found.kernel_us == [[3, 80], [0, 5]]
    assert found.run_us == [83, 5]
    assert found.tensors == {"b": ("float32", (9, 4)), "c": ("float32", (80, 4))}


@pytest.mark.parametrize("event", [("n", "Relu", 1), ("cimplan_outer_2", "Relu", 1), ("cimplan_outer_0", "Abs", 1)])
def test_an_event_of_no_node_is_an_internal_fault(tmp_path, event):
    path = tmp_path / "p.json"
    path.write_text(_events([event]))
    with pytest.raises(InternalError, match="not in the graph"):
        runs.read_events(path, NODES, runs.Recording(2, 0, "random"), 0)


def test_times_that_are_more_than_the_run_are_an_internal_fault(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(
        _events([("cimplan_outer_0", "Relu", 50)]).replace('"dur": 50, "args": {}', '"dur": 20, "args": {}')
    )
    with pytest.raises(InternalError, match="more than the run"):
        runs.read_events(path, NODES, runs.Recording(2, 0, "random"), 0)


def test_names_that_are_no_json_do_not_spoil_the_profile(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["b"], name='quo"te\\'), helper.make_node("Neg", ["b"], ["y"], name="tab\t")],
        "g",
        [value("a", TensorProto.FLOAT, [8])],
        [value("y", TensorProto.FLOAT, [8])],
    )
    found = profile.measure(save_graph(tmp_path / "m.onnx", graph), runs=1)
    assert list(found.times) == ['quo"te\\', "tab\t"]


def test_a_disturbed_profile_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CIMPLAN_CACHE_DIR", str(tmp_path / "cache"))
    path = save_small_model(tmp_path / "m.onnx")
    calm = profile.measure(path, runs=1)
    busy = calm.model_copy(
        update={"measurement": calm.measurement.model_copy(update={"disturbed": "runs waited for a processor"})}
    )
    takes = iter([busy, calm, busy])
    monkeypatch.setattr(profile, "measure", lambda *args, **kw: next(takes))
    assert [profile.cached_or_measure(path).disturbed for _ in range(3)] == [True, False, False]
    assert len(list(takes)) == 1
