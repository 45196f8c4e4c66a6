"""Bad input: one paragraph that says what, where, why and what to do; exit code 2; nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.filterwarnings("default")


def refused(run, *words: str) -> None:
    assert run.code == 2, (run.code, run.err)
    assert run.out == ""
    assert run.err.startswith("cimplan: ")
    assert run.err.count("\n") == 1
    assert "Traceback" not in run.err
    for word in words:
        assert word in run.err, run.err


def test_a_truncated_model_is_refused(cimplan, model_file, tmp_path):
    broken = tmp_path / "cut.onnx"
    broken.write_bytes(model_file.read_bytes()[:-700])
    refused(cimplan("partition", broken, "-o", tmp_path / "plan.json"), "cut.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["cut.onnx"]


@pytest.mark.parametrize("content", [b"", b"this is not a network\n", b"\x00" * 64, b"{}"])
@pytest.mark.parametrize("command", ["partition", "inspect", "profile", "quantize"])
def test_a_file_that_is_no_model_is_refused(cimplan, tmp_path, command, content):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(content)
    output = () if command == "inspect" else ("-o", tmp_path / "out")
    refused(cimplan(command, broken, *output), "broken.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.onnx"]


def test_a_missing_model_and_a_folder_are_refused(cimplan, tmp_path):
    refused(cimplan("partition", tmp_path / "nothing.onnx"), "nothing.onnx", "no such file")
    refused(cimplan("partition", tmp_path), "folder")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("rows: 256 -> rows: many", ("accelerator.rows", "many")),
        ("rows: 256 -> rows: -256", ("accelerator.rows", "-256")),
        ("rows: 256 -> rowz: 256", ("rowz", "rows")),
        ("mvm_latency: 50ns -> mvm_latency: 50", ("mvm_latency", "unit")),
        ("mvm_latency: 50ns -> mvm_latency: -50ns", ("mvm_latency",)),
        ("rows: 256 -> rows: 256\n  rows: 128", ("twice",)),
    ],
)
def test_bad_hardware_is_refused_with_line_and_field(cimplan, profile_file, tmp_path, change, words):
    good = (
        "schema_version: 1\nname: mine\nbus:\n  bandwidth: 10GB/s\naccelerator:\n  crossbars: 10\n  rows: 256\n"
        "  columns: 256\n  mvm_latency: 50ns\n  internal_bandwidth: 10GB/s\n"
    )
    old, new = change.split(" -> ")
    assert old in good
    path = tmp_path / "mine.yaml"
    path.write_text(good)
    assert cimplan("hardware", "check", path).code == 0
    path.write_text(good.replace(old, new))
    refused(cimplan("partition", "--profile", profile_file, "--hardware", path), "mine.yaml:", *words)


def test_an_open_dimension_is_named_and_never_one(cimplan, tmp_path):
    weight = numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["out"])],
        "open",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [weight],
    )
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    for command in (("partition", path), ("inspect", path), ("profile", path, "-o", tmp_path / "host.json")):
        refused(cimplan(*command), "batch", "--shape image=")
    run = cimplan("inspect", path, "--shape", "image=5,3,8,8", "--json")
    assert run.code == 0, run.err
    assert run.json["operators"][0]["mvms"] == 5 * 64


def _model(path: Path, *nodes, inputs=(("x", TensorProto.FLOAT, [1, 3, 8, 8]),), weights=(), opset=13, ir=8) -> Path:
    graph = helper.make_graph(
        nodes,
        "broken",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    path.write_bytes(model.SerializeToString())
    return path


_RELU = helper.make_node("Relu", ["x"], ["y"], name="act")
_CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
BROKEN = {
    "channels": ((_CONV,), {"weights": [("w", (4, 5, 3, 3))]}, ("5",)),
    "padding": (
        (helper.make_node("Conv", ["x", "w"], ["y"], name="conv", auto_pad="SAME"),),
        {"weights": [("w", (4, 3, 3, 3))]},
        ("AutoPad",),
    ),
    "sizes": ((helper.make_node("Add", ["x", "w"], ["y"], name="sum"),), {"weights": [("w", (4, 5))]}, ("sum",)),
    "reshape": (
        (
            helper.make_node("Constant", [], ["s"], value_ints=[2, 5]),
            helper.make_node("Reshape", ["x", "s"], ["y"], name="shaping"),
        ),
        {},
        ("shaping",),
    ),
    "later format": ((_RELU,), {"ir": 99}, ("99",)),
    "later operators": ((_RELU,), {"opset": 99}, ("99",)),
    "undefined": ((helper.make_node("Relu", ["ghost"], ["y"], name="act"),), {}, ("ghost",)),
    "unknown operator": ((helper.make_node("Reluu", ["x"], ["y"], name="act"),), {}, ("Reluu",)),
    "text": ((_RELU,), {"inputs": [("x", TensorProto.STRING, [1])]}, ("string",)),
    "large": ((_RELU,), {"inputs": [("x", TensorProto.FLOAT, [10**6, 10**6])]}, ("too large",)),
    "open": ((_RELU,), {"inputs": [("x", TensorProto.FLOAT, ["n", 3])]}, ("'n'", "--shape x=")),
    "constant": ((helper.make_node("Constant", [], ["y"], value_ints=[2, 5], name="k"),), {}, ("nothing to plan",)),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_model_that_does_not_run_is_refused_by_its_name_and_in_plain_words(cimplan, tmp_path, fault):
    nodes, rest, words = BROKEN[fault]
    run = cimplan("partition", _model(tmp_path / "broken.onnx", *nodes, **rest))
    refused(run, str(tmp_path / "broken.onnx"), *words)
    for leftover in ("ONNXRuntimeError", "onnxruntime_src", "::", "optimised.onnx", "cimplan-profile", ".cc:"):
        assert leftover not in run.err


@pytest.mark.parametrize("command", ["partition", "quantize"])
def test_weights_that_are_not_there_are_named(cimplan, tmp_path, command):
    path = _model(tmp_path / "light.onnx", _CONV, weights=[("w", (4, 3, 3, 3))])
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    output = ("-o", tmp_path / "out.onnx") if command == "quantize" else ()
    refused(cimplan(command, path, *output), "light.onnx", "'weights.bin'", "weights are missing")
    assert [item.name for item in tmp_path.iterdir()] == ["light.onnx"]


def test_a_profile_with_a_missing_entry_is_refused(cimplan, profile_file, tmp_path):
    value = json.loads(profile_file.read_text())
    name = next(iter(value["times"]))
    del value["times"][name]
    broken = tmp_path / "host.json"
    broken.write_text(json.dumps(value))
    refused(cimplan("partition", "--profile", broken), "host.json", name)


@pytest.mark.parametrize("command", ["partition", "compare"])
def test_a_profile_without_operators_is_refused(cimplan, profile_file, tmp_path, command):
    value = json.loads(profile_file.read_text())
    value["times"], value["graph"]["operators"] = {}, []
    empty = tmp_path / "host.json"
    empty.write_text(json.dumps(value))
    refused(cimplan(command, "--profile", empty), "host.json", "no operators", "cimplan profile")


@pytest.mark.parametrize("end", ["inputs", "outputs"])
def test_a_profile_whose_ends_are_no_tensors_is_refused(cimplan, profile_file, tmp_path, end):
    value = json.loads(profile_file.read_text())
    value["graph"][end].append("ghost")
    broken = tmp_path / "host.json"
    broken.write_text(json.dumps(value))
    refused(cimplan("partition", "--profile", broken), "host.json", "ghost")


def test_a_profile_of_another_model_is_refused(cimplan, profile_file, tmp_path):
    other = tmp_path / "other.onnx"
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "other",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), other)
    run = cimplan("partition", other, "--profile", profile_file, "-o", tmp_path / "plan.json")
    refused(run, "SHA-256", "host.json")
    assert [path.name for path in tmp_path.iterdir()] == ["other.onnx"]


@pytest.mark.parametrize("command", ["partition", "compare"])
def test_a_shape_other_than_the_profiled_one_is_refused(cimplan, model_file, profile_file, command):
    (name,) = json.loads(profile_file.read_text())["graph"]["inputs"]
    for model in ((), (model_file,)):
        asked = (command, *model, "--profile", profile_file)
        refused(cimplan(*asked, "--shape", f"{name}=7,1,1,1"), "host.json", "profiled", "--shape")
        refused(cimplan(*asked, "--shape", "nothing=1"), "host.json", "nothing", name)
    shape = ",".join(map(str, json.loads(profile_file.read_text())["graph"]["tensors"][name]["shape"]))
    assert cimplan("partition", "--profile", profile_file, "--shape", f"{name}={shape}").code == 0


def test_a_time_to_measure_does_not_go_with_a_saved_profile(cimplan, profile_file):
    refused(cimplan("partition", "--profile", profile_file, "--measure-for", "1s"), "--measure-for", "--profile")


def test_a_plan_to_start_from_that_does_not_fit_is_named(cimplan, profile_file, tmp_path):
    plan, other = tmp_path / "start.json", tmp_path / "other.json"
    assert cimplan("partition", "--profile", profile_file, "-o", plan).code == 0
    text = profile_file.read_text()
    name = json.loads(text)["graph"]["operators"][0]["name"]
    other.write_text(text.replace(f'"{name}"', '"another"'))
    refused(cimplan("partition", "--profile", other, "--warm-start", plan), "start.json", "'another'")
    refused(cimplan("partition", "--profile", profile_file, "--crossbars", 0, "--warm-start", plan), "start.json")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_calibration_data_that_are_no_numbers_are_refused_without_bad_advice(cimplan, model_file, tmp_path, suffix):
    folder = tmp_path / "samples"
    folder.mkdir()
    (folder / f"one{suffix}").write_text("no numbers")
    run = cimplan("quantize", model_file, "-o", tmp_path / "q.onnx", "--calibration", folder)
    refused(run, f"one{suffix}", "not a NumPy file of numbers")
    assert "pickle" not in run.err


@pytest.mark.parametrize("content", ["", "[]", "{", '{"kind": "partition-plan"}', '"text"', "\xff"])
def test_a_file_that_is_no_plan_is_refused(cimplan, tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode("latin-1"))
    refused(cimplan("export", path, "--to", "trace", "-o", tmp_path / "trace.json"), "plan.json")
    assert [found.name for found in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("partition",), ("model", "profile")),
        (("partition", "zoo:resnet19"), ("resnet18",)),
        (("partition", "zoo:resnet18?form=int4"), ("form",)),
        (("partition", "zoo:opt_13b"), ("weight", "compile")),
        (("inspect", "zoo:resnet18", "--hardware", "rram-25"), ("rram-256",)),
        (("partition", "x.onnx", "--mvm-latency", "50"), ("unit",)),
        (("partition", "x.onnx", "--time-limit", "0s"), ("time limit", "positive")),
        (("compare", "x.onnx", "--time-limit", "0s"), ("time limit", "positive")),
        (("reproduce", "klein2026", "--time-limit", "0s"), ("time limit", "positive")),
        (("profile", "zoo:resnet18", "-o", "x.json", "--measure-for", "0s"), ("time to measure", "positive")),
        (("partition", "x.onnx", "--fix", "conv1"), ("--fix",)),
        (("partition", "x.onnx", "--shape", "image"), ("--shape",)),
        (("partition", "x.onnx", "-o", "no/such/folder/plan.json"), ("folder",)),
        (("zoo", "export", "nothing", "-o", "x.onnx"), ("nothing",)),
    ],
)
def test_bad_usage_is_refused(cimplan, arguments, words, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(cimplan(*arguments), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("partition", "--crossbars", "-1"), ("partition", "--wrong"), ("nonsense",)])
def test_wrong_options_end_with_code_two(cimplan, arguments):
    assert cimplan(*arguments).code == 2


def test_unknown_methods_and_operators_get_a_suggestion(cimplan, profile_file):
    refused(cimplan("partition", "--profile", profile_file, "--method", "exakt"), "exact")
    refused(cimplan("partition", "--profile", profile_file, "--fix", "nothing=host"), "nothing", "partition --all")
    refused(cimplan("partition", "--profile", profile_file, "--fix", "c=gpu"), "=host", "=cim")
    refused(cimplan("compare", "--profile", profile_file, "--methods", "exact,nothing"), "nothing")


def test_sizes_that_have_only_a_sign_are_set_one_by_one(cimplan, model_file, tmp_path):
    """Paddle calls every size it does not know by the same question mark."""
    net = onnx.load(model_file)
    dims = net.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value for dim in dims]
    for axis in (0, 2, 3):
        dims[axis].dim_param = "?"
    path = tmp_path / "open.onnx"
    onnx.save(net, path)
    shape[2] *= 2
    given = f"image={','.join(map(str, shape))}"
    run = cimplan("partition", path, "--shape", given, "--measure-for", "0.1s", "--json")
    assert run.code == 0, run.err
    assert cimplan("inspect", path, "--shape", given).code == 0
    for command in ("partition", "inspect"):
        example = f"--shape image=1,{shape[1]},224,224"
        refused(cimplan(command, path), "0 (unnamed), 2 (unnamed) and 3 (unnamed)", example)
