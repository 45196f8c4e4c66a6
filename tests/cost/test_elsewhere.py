"""Profiles that were taken elsewhere: by the program that needs no cimplan, and by ONNX Runtime's own profiler."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from cost_cases import chip, save_graph, save_small_model
from onnx import TensorProto, helper, load, numpy_helper, save

from cimplan.cost import profile
from cimplan.cost.build import build_problem
from cimplan.cost.imported import import_profile
from cimplan.cost.profile_file import from_value
from cimplan.cost.script import script_for
from cimplan.errors import InputError

# What a board lacks: these cannot be imported in the program's process, whatever is installed here.
ALONE = (
    "import sys, runpy; sys.modules.update(dict.fromkeys({!r})); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
LACKING = ["cimplan", "onnx", "pydantic", "google", "yaml", "rich", "typer"]


def run_alone(script, *arguments, cwd):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", ALONE.format(LACKING), str(script), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Return a folder with a model of an open dimension, the program for it, and what the program wrote."""
    folder = tmp_path_factory.mktemp("board")
    model = save_small_model(folder / "small.onnx", batch="N")
    (folder / "measure.py").write_text(script_for(model, time_budget_s=0.2, shapes={"x": (2, 3, 16, 16)}))
    run = run_alone("measure.py", "small.onnx", "-o", "host.json", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "wrote host.json\n"
    return folder


def test_the_program_writes_a_host_profile_that_is_planned_on(board):
    found = profile.load(board / "host.json")
    here = profile.measure(board / "small.onnx", runs=1, shapes={"x": (2, 3, 16, 16)})
    assert found.graph_record == here.graph_record
    assert any(op.file_nodes for op in found.graph_record.operators)
    assert found.model == here.model
    assert found.origin == "measured"
    assert found.machine.model_copy(update={"date": "", "onnx": ""}) == here.machine.model_copy(
        update={"date": "", "onnx": ""}
    )
    assert found.graph().tensors["y"].shape == (2, 5)
    assert found.measurement.runs >= 5
    found.require_model(board / "small.onnx")
    network = build_problem(found, chip())
    assert network.problem.names == build_problem(here, chip()).problem.names
    found.save(board / "again.json")
    assert profile.load(board / "again.json") == found


def test_the_program_needs_no_newer_python_than_38_and_nothing_of_cimplan(board):
    source = (board / "measure.py").read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}


def test_the_program_takes_its_model_only(board, tmp_path):
    other = save_small_model(tmp_path / "other.onnx", seed=3)
    for argument, said in ((other, "is not the model this program was written for"), ("none.onnx", "no such file")):
        run = run_alone(board / "measure.py", argument, cwd=tmp_path)
        assert run.returncode == 2
        assert said in run.stderr
        assert "Traceback" not in run.stderr
        assert not (tmp_path / "host.json").exists()


def test_names_and_shapes_in_the_program_may_hold_anything(tmp_path):
    name = 'quo"te\\ {x} \'\'\' """'
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", [name], ["y"], name="r")],
        "g",
        [value(name, TensorProto.FLOAT, ["N"])],
        [value("y", TensorProto.FLOAT, ["N"])],
    )
    model = save_graph(tmp_path / 'a "b" \\ c.onnx', graph)
    (tmp_path / "measure.py").write_text(script_for(model, time_budget_s=0.1, shapes={name: (4,)}))
    run = run_alone("measure.py", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert profile.load(tmp_path / "host.json").graph().tensors[name].shape == (4,)


def test_a_program_is_not_written_for_a_model_whose_shapes_are_open(tmp_path):
    model = save_small_model(tmp_path / "small.onnx", batch="N")
    with pytest.raises(InputError, match="'N'"):
        script_for(model)
    with pytest.raises(InputError, match="does not fit"):
        script_for(model, shapes={"x": (2, 3)})


FORGED = {
    "a run of fewer operators": lambda r: r["kernel_us"].__setitem__(0, r["kernel_us"][0][:-1]),
    "fewer runs than blocks say": lambda r: r["kernel_us"].pop(),
    "times above the run": lambda r: r["kernel_us"].__setitem__(0, [10**9] * r["nodes"]),
    "negative times": lambda r: r["kernel_us"][0].__setitem__(0, -1),
    "more nodes than the graph has": lambda r: r.__setitem__("nodes", r["nodes"] + 1),
    "a graph that is no base 64": lambda r: r.__setitem__("graph", "@@"),
    "a graph that is cut off": lambda r: r.__setitem__("graph", r["graph"][: len(r["graph"]) // 8 * 4]),
    "no blocks": lambda r: r.update(blocks=[], kernel_us=[], run_us=[]),
    "waits of too few runs": lambda r: r["blocks"][0].__setitem__("waited_ns", [1.0] * 99),
    "an unknown key": lambda r: r.__setitem__("more", 1),
    "a count of no runs": lambda r: r.__setitem__("count", 0),
}


@pytest.mark.parametrize("content", [None, b"", b"\x3a\x02\x08\x01", b"\x0a"])
def test_a_forged_graph_of_the_file_is_refused(board, content):
    values = json.loads((board / "host.json").read_text())
    packed = "@@" if content is None else base64.b64encode(zlib.compress(content)).decode()
    for forged in ({"file_graph": packed}, {"recording": {**values["recording"], "graph": packed}}):
        with pytest.raises(InputError) as caught:
            from_value({**values, **forged}, "host.json")
        assert caught.value.where.startswith("host.json")
    assert from_value({**values, "file_graph": ""}, "host.json").total_ns > 0


def test_runs_of_the_original_model_may_be_left_out(board):
    values = json.loads((board / "host.json").read_text())
    values["recording"]["blocks"] = [block for block in values["recording"]["blocks"] if block["kind"] != "original"]
    assert from_value(values, "host.json").measurement.original is None


@pytest.mark.parametrize("fault", FORGED)
def test_forged_recordings_are_refused(board, fault):
    values = json.loads((board / "host.json").read_text())
    FORGED[fault](values["recording"])
    with pytest.raises(InputError) as caught:
        from_value(values, "host.json")
    assert "host.json" in str(caught.value)


# --- profiles of ONNX Runtime ----------------------------------------------------------------------------------------


def ort_profile(model, folder, feed, *, runs=4, level="ORT_ENABLE_ALL"):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "ort")
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, feed)
    return Path(session.end_profiling())


X = {"x": np.ones((1, 3, 16, 16), np.float32)}


@pytest.mark.parametrize("level", ["ORT_ENABLE_ALL", "ORT_ENABLE_BASIC", "ORT_DISABLE_ALL"])
def test_a_profile_of_onnx_runtime_is_planned_on(tmp_path, level):
    model = save_small_model(tmp_path / "small.onnx")
    found = import_profile(model, ort_profile(model, tmp_path, X, level=level))
    assert found.origin == "measured"
    assert found.measurement.runs == 2
    assert found.measurement.unprofiled is None
    assert found.machine.threads == 1
    assert {op.op_type for op in found.graph().operators} >= {"Conv", "Gemm"}
    assert all(timing.host_ns > 0 or timing.kind == "free (view)" for timing in found.times.values())
    found.save(tmp_path / "host.json")
    assert build_problem(profile.load(tmp_path / "host.json"), chip()).problem.budget
    found.require_model(model)


def test_one_run_is_imported_and_said_to_be_cold(tmp_path):
    model = save_small_model(tmp_path / "small.onnx")
    found = import_profile(model, ort_profile(model, tmp_path, X, runs=1), threads=3)
    assert found.measurement.runs == 1
    assert "only one" in found.notes[1]
    assert found.machine.threads == 3


def control_flow(folder):
    """Return a model whose branch holds a large product of the same name as a small one outside."""
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["big", "V"], [out], name="mm")],
            out,
            [],
            [value(out, TensorProto.FLOAT, [256, 256])],
        )
        for out in "pq"
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "W"], ["y"], name="mm"),
            helper.make_node("If", ["k"], ["z"], name="if", then_branch=branches[0], else_branch=branches[1]),
        ],
        "g",
        [
            value("x", TensorProto.FLOAT, [1, 16]),
            value("big", TensorProto.FLOAT, [256, 256]),
            value("k", TensorProto.BOOL, []),
        ],
        [value("y", TensorProto.FLOAT, [1, 16]), value("z", TensorProto.FLOAT, [256, 256])],
        [
            numpy_helper.from_array(np.ones((16, 16), np.float32), "W"),
            numpy_helper.from_array(np.ones((256, 256), np.float32), "V"),
        ],
    )
    feed = {"x": np.ones((1, 16), np.float32), "big": np.ones((256, 256), np.float32), "k": np.array(True)}
    return save_graph(folder / "flow.onnx", graph), feed


def test_events_of_bodies_are_not_taken_for_their_namesakes_outside(tmp_path):
    model, feed = control_flow(tmp_path)
    found = import_profile(model, ort_profile(model, tmp_path, feed))
    assert found.graph().tensors["y"].shape == (1, 16)
    assert found.times["mm"].raw.least_ns < found.times["if"].raw.least_ns


def test_a_profile_of_another_model_is_refused_with_the_first_difference(tmp_path):
    model = save_small_model(tmp_path / "small.onnx")
    other, feed = control_flow(tmp_path)
    with pytest.raises(InputError, match=r"not of the model 'small\.onnx'") as caught:
        import_profile(model, ort_profile(other, tmp_path, feed))
    assert "nodes differ: only the profile has" in str(caught.value)


def _args(**more):
    return {"op_name": "Relu", "node_index": "0", "provider": "CPUExecutionProvider", **more}


NODE = {"cat": "Node", "name": "r_kernel_time", "ts": 2, "dur": 3}
END = [
    {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": 1, "dur": 5, "args": {}},
    {"cat": "Session", "name": "model_run", "ts": 0, "dur": 9, "args": {}},
]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ({}, "not a list"),
        ([], "not a list"),
        ([1], "no name"),
        ([{"name": "session_initialization", "ts": 0, "dur": 1}], "holds no run"),
        (END, "holds no run"),
        ([{**NODE, "args": _args(), "dur": -1}, *END], "whole microseconds"),
        ([{**NODE, "args": _args(), "ts": 1e9}, *END], "whole microseconds"),
        ([{**NODE, "args": []}, *END], "no op_name"),
        ([{**NODE, "args": _args(output_type_shape=[{"float": [-1]}])}, *END], "no types and shapes"),
        ([{**NODE, "args": _args(provider="CUDAExecutionProvider")}, *END], "did not run on the CPU"),
        ([{**NODE, "args": _args(), "dur": 90}, *END], "more than the run"),
        ([{**NODE, "args": _args()}, END[1]], "cannot be told"),
        ([{**NODE, "args": _args(), "ts": 0}, *END], "cannot be told"),
        ([{**NODE, "args": _args()}, {**NODE, "args": _args(), "ts": 3}, *END], "cannot be told"),
        ([{**NODE, "args": _args()}, *END], "not of the model"),
    ],
)
def test_files_that_are_no_profile_are_refused(tmp_path, events, message):
    model = save_small_model(tmp_path / "small.onnx")
    path = tmp_path / "events.json"
    path.write_text(json.dumps(events))
    with pytest.raises(InputError, match=message) as caught:
        import_profile(model, path)
    assert "events.json" in str(caught.value)


@pytest.mark.parametrize("content", ["", "[", "[{]", "[" * 100_000, '{"traceEvents": []}'])
def test_files_that_are_no_json_are_refused(tmp_path, content):
    model = save_small_model(tmp_path / "small.onnx")
    path = tmp_path / "events.json"
    path.write_text(content)
    with pytest.raises(InputError):
        import_profile(model, path)


def test_external_weights_are_measured_by_the_program_too(tmp_path):
    path = save_small_model(tmp_path / "m.onnx", channels=8)
    save(load(path), path, save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "measure.py").write_text(script_for(path, time_budget_s=0.1))
    run = run_alone("measure.py", "m.onnx", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert profile.load(tmp_path / "host.json").total_ns > 0


def test_values_of_inputs_become_part_of_the_program(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        "g",
        [value("i", TensorProto.INT64, [2]), value("table", TensorProto.FLOAT, [7, 3])],
        [value("y", TensorProto.FLOAT, [2, 3])],
    )
    model = save_graph(tmp_path / "m.onnx", graph)
    good, bad = np.array([6, 5]), np.array([6, 7])
    for values, code in ((good, 0), (bad, 2)):
        (tmp_path / "measure.py").write_text(script_for(model, time_budget_s=0.1, values={"i": values}))
        run = run_alone("measure.py", cwd=tmp_path)
        assert run.returncode == code, run.stderr
    assert "out of data bounds" in run.stderr
    assert profile.load(tmp_path / "host.json").values == {"i": "[6, 5]"}
