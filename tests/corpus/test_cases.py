"""Small inputs that went wrong once, from other people's models: the right value of each, at the commands.

Each stands for a kind of fault whose own tests lie with the room it was in; here the rows are held together. Files in
``cases`` cannot be built in a few lines, or should not be changed by a library on their way to disk.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_corpus import time_guard
from through import json_of, own_cache

from cimplan.errors import InputError, NoAnswerError

CASES = Path(__file__).parent / "cases"
COMMANDS = ("inspect", "profile", "partition", "compile", "quantize")
Case = Callable[[Path], Path]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def cache(tmp_path):
    with own_cache(tmp_path / "cache"), time_guard(120):
        yield


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) / 8).astype(np.float32)


def network(
    folder: Path,
    nodes: list[onnx.NodeProto] | str,
    weights: dict[str, np.ndarray | TensorProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    *,
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
    imports: tuple[tuple[str, int], ...] = (),
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> Path:
    if isinstance(nodes, str):
        nodes = list(onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node)
    tensors = [w if isinstance(w, TensorProto) else numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in outputs.items()],
        tensors,
    )
    domains = [helper.make_opsetid(domain, version) for domain, version in (("", opset), *imports)]
    model = helper.make_model(graph, opset_imports=domains, functions=functions, ir_version=10)
    path = folder / "case.onnx"
    onnx.save(model, path)
    return path


def run(command: str, path: Path, folder: Path, *words: object) -> Any:
    """Run a command on a model; files go to the folder under the command's name."""
    output: dict[str, tuple[object, ...]] = {
        "profile": ("--measure-for", "20ms", "-o", folder / "host.json"),
        "partition": ("--measure-for", "20ms", "-o", folder / "plan.json"),
        "quantize": ("-o", folder / "int8.onnx"),
    }
    return json_of(command, path, *output.get(command, ()), *words)


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def refused(command: str, path: Path, folder: Path, *words: object) -> str:
    """Return the message of a typed error; fail if there is none."""
    with pytest.raises((InputError, NoAnswerError)) as error:
        run(command, path, folder, *words)
    assert error.value.exit_code in (1, 2)
    return str(error.value)


def done_or_refused(command: str, path: Path, folder: Path, *words: object) -> str:
    """Return the message of a typed error, or nothing where the command ended well."""
    try:
        run(command, path, folder, *words)
    except (InputError, NoAnswerError) as error:
        return str(error)
    return ""


def offloaded(path: Path, folder: Path, *names: str) -> dict[str, Any]:
    """Return the operators of a plan in which those named are put on the crossbars."""
    fixes = [word for name in names for word in ("--fix", f"{name}=cim")]
    found = run("partition", path, folder, *fixes)
    return {operator["name"]: operator for operator in found["operators"]}


# --- Control flow ---


def body(kind: str, name: str) -> onnx.NodeProto:
    """An If or Loop whose body holds a product far larger than the one outside, under the name given."""
    product = helper.make_node("MatMul", ["big", "V"], ["inner"], name=name)
    value = helper.make_tensor_value_info
    if kind == "If":
        result = value("inner", TensorProto.FLOAT, [1, 1024])
        other = helper.make_node("Identity", ["big"], ["same"])
        branches = {
            "then_branch": helper.make_graph([product], "then", [], [result]),
            "else_branch": helper.make_graph([other], "else", [], [value("same", TensorProto.FLOAT, [1, 1024])]),
        }
        return helper.make_node("If", ["yes"], ["z"], name="control", **branches)
    loop = helper.make_graph(
        [product, helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])],
        [value("on", TensorProto.BOOL, []), value("inner", TensorProto.FLOAT, [1, 1024])],
    )
    return helper.make_node("Loop", ["trips", "yes"], ["z"], name="control", body=loop)


@pytest.mark.parametrize("name", ["product", ""])
@pytest.mark.parametrize("kind", ["If", "Loop"])
def test_an_operator_outside_control_flow_keeps_its_own_time_and_shape(tmp_path, kind, name):
    path = network(
        tmp_path,
        [helper.make_node("MatMul", ["x", "W"], ["y"], name=name), body(kind, name)],
        {
            "W": weight(16, 16),
            "V": weight(1024, 1024),
            "yes": np.array(True),
            "trips": np.array(3),
        },
        {"x": (1, 16), "big": (1, 1024)},
        {"y": (1, 16), "z": (3, 1, 1024) if kind == "Loop" else (1, 1024)},
    )
    run("profile", path, tmp_path)
    from cimplan.cost.profile_file import load

    profile = load(tmp_path / "host.json")
    (product,) = (op for op in profile.graph().operators if op.work is not None and op.work.macs == 256)
    assert profile.graph().tensors[product.outputs[0]].shape == (1, 16)
    # The inner product has 4096 times the work of the outer one.
    others = sum(ns for name, ns in profile.host_ns.items() if name != product.name)
    assert profile.host_ns[product.name] < others


# --- Weights ---


def two_convolutions(folder: Path, **names: object) -> Path:
    return network(
        folder,
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) b = Relu (a) y = Conv <pads = [1, 1, 1, 1]> (b, W2)",
        {"W": weight(32, 16, 3, 3), "W2": weight(16, 32, 3, 3)},
        {"x": (1, 16, 16, 16)},
        {"y": (1, 16, 16, 16)},
    )


@pytest.mark.parametrize("parts", [False, True])
def test_models_with_weights_in_an_external_file_are_exported(tmp_path, parts):
    source = two_convolutions(tmp_path)
    path = tmp_path / "external.onnx"
    onnx.save(onnx.load(source), path, save_as_external_data=True, location="w.data", size_threshold=0)
    run("partition", path, tmp_path)
    target = tmp_path / ("parts" if parts else "annotated.onnx")
    words = ["--parts"] if parts else []
    json_of("export", tmp_path / "plan.json", "--to", "onnx", "--model", path, *words, "-o", target)
    x = {"x": weight(1, 16, 16, 16)}
    (expected,) = session(path).run(None, x)
    if not parts:
        np.testing.assert_array_equal(session(target).run(None, x)[0], expected)
    else:
        assert len(list(target.glob("*.onnx"))) >= 1
        for file in target.glob("*.onnx"):
            session(file)


def test_external_tensors_in_attributes_are_quantised(tmp_path):
    tensor = numpy_helper.from_array(weight(64, 64), "W")
    (tmp_path / "m.data").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "m.data"), ("offset", "0"), ("length", str(64 * 64 * 4))):
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Constant", [], ["W"], value=tensor), helper.make_node("MatMul", ["x", "W"], ["y"])]
    path = network(tmp_path, nodes, {}, {"x": (1, 64)}, {"y": (1, 64)})
    run("quantize", path, tmp_path)
    session(tmp_path / "int8.onnx").run(None, {"x": weight(1, 64)})


def int8_weights(path: Path) -> list[tuple[int, ...]]:
    tensors = onnx.load(path).graph.initializer
    return [tuple(t.dims) for t in tensors if t.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(t.dims) > 1]


def float_weights(path: Path) -> list[str]:
    return [t.name for t in onnx.load(path).graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) > 1]


def test_weights_used_inside_a_model_local_function_are_quantised_or_refused(tmp_path):
    block = helper.make_function(
        "my",
        "Block",
        ["x", "W"],
        ["y"],
        [helper.make_node("MatMul", ["x", "W"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Block", ["x", "W"], ["a"], domain="my"),
        helper.make_node("Block", ["a", "W2"], ["y"], domain="my"),
    ]
    weights = {"W": weight(64, 64), "W2": weight(64, 64, seed=1)}
    path = network(tmp_path, nodes, weights, {"x": (1, 64)}, {"y": (1, 64)}, imports=(("my", 1),), functions=(block,))
    if not done_or_refused("quantize", path, tmp_path):
        assert int8_weights(tmp_path / "int8.onnx") == [(64, 64), (64, 64)]
        assert float_weights(tmp_path / "int8.onnx") == []
        session(tmp_path / "int8.onnx")


@pytest.mark.parametrize("words", [(), ("--shape", "past=1,0,64")])
@pytest.mark.parametrize("command", COMMANDS)
def test_dimensions_of_length_zero_are_accepted(tmp_path, command, words):
    path = network(
        tmp_path,
        "c = Concat <axis = 1> (past, x) y = MatMul (c, W)",
        {"W": weight(64, 64)},
        {"past": (1, 0, 64), "x": (1, 4, 64)},
        {"y": (1, 4, 64)},
    )
    run(command, path, tmp_path, *words)


def test_a_weight_that_two_convolutions_share_counts_once(tmp_path):
    path = network(
        tmp_path,
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) b = Relu (a) y = Conv <pads = [1, 1, 1, 1]> (b, W)",
        {"W": weight(32, 32, 3, 3)},
        {"x": (1, 32, 16, 16)},
        {"y": (1, 32, 16, 16)},
    )
    assert run("inspect", path, tmp_path)["weight_bytes"] == 36_864


def test_sparse_weights_are_quantised_or_refused(tmp_path):
    path = CASES / "08_sparse_initializer.onnx"
    if not done_or_refused("quantize", path, tmp_path):
        session(tmp_path / "int8.onnx")
        assert int8_weights(tmp_path / "int8.onnx") == [(64, 64)]


def test_initialisers_listed_as_inputs_are_no_inputs_of_the_manifest(tmp_path):
    path = network(
        tmp_path,
        "a = MatMul (x, W) b = Relu (a) y = MatMul (b, W2)",
        {"W": weight(64, 64), "W2": weight(64, 64, seed=1)},
        {"x": (1, 64), "W": (64, 64), "W2": (64, 64)},
        {"y": (1, 64)},
    )
    run("partition", path, tmp_path)
    json_of("export", tmp_path / "plan.json", "--to", "onnx", "--model", path, "--parts", "-o", tmp_path / "parts")
    import json

    assert json.loads((tmp_path / "parts" / "manifest.json").read_text())["inputs"] == ["x"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(tmp_path, bad):
    values = weight(64, 64)
    values[3, 5] = bad
    path = network(tmp_path, "y = MatMul (x, W)", {"W": values}, {"x": (1, 64)}, {"y": (1, 64)})
    assert "'W'" in refused("quantize", path, tmp_path)
    assert not (tmp_path / "int8.onnx").exists()


@pytest.mark.parametrize("outputs", ["b0", "b1"])
def test_a_bias_shared_by_convolutions_whose_results_have_generated_names(tmp_path, outputs):
    path = network(
        tmp_path,
        f"{outputs} = Conv <pads = [1, 1, 1, 1]> (x, W, b) n = Neg ({outputs}) "
        f"m = Conv <pads = [1, 1, 1, 1]> (n, W2, b) y = Conv <pads = [1, 1, 1, 1]> (m, W3, b)",
        {f"W{number or ''}": weight(8, 8, 3, 3, seed=number) for number in (0, 2, 3)} | {"b": weight(8)},
        {"x": (1, 8, 8, 8)},
        {"y": (1, 8, 8, 8)},
    )
    run("quantize", path, tmp_path)
    session(tmp_path / "int8.onnx")


def test_a_weight_in_a_constant_node_is_stored_as_int8(tmp_path):
    tensor = numpy_helper.from_array(weight(64, 64), "W")
    nodes = [helper.make_node("Constant", [], ["W"], value=tensor), helper.make_node("MatMul", ["x", "W"], ["y"])]
    run("quantize", network(tmp_path, nodes, {}, {"x": (1, 64)}, {"y": (1, 64)}), tmp_path)
    assert int8_weights(tmp_path / "int8.onnx") == [(64, 64)]
    model = onnx.load(tmp_path / "int8.onnx")
    assert all(node.op_type != "Constant" for node in model.graph.node)
    assert float_weights(tmp_path / "int8.onnx") == []


def test_negative_values_of_an_output_that_feeds_a_relu_survive_quantisation(tmp_path):
    path = network(
        tmp_path,
        "y = MatMul (x, W) z = Relu (y)",
        {"W": weight(64, 64)},
        {"x": (1, 64)},
        {"y": (1, 64), "z": (1, 64)},
    )
    run("quantize", path, tmp_path)
    x = {"x": np.random.default_rng(1).random((1, 64), dtype=np.float32)}
    (exact,) = session(path).run(["y"], x)
    (ours,) = session(tmp_path / "int8.onnx").run(["y"], x)
    assert exact.min() < 0
    np.testing.assert_allclose(ours, exact, atol=0.05 * np.abs(exact).max())


# --- Shapes ---


def shapes(path: Path, folder: Path, *words: object) -> dict[str, Any]:
    found = run("inspect", path, folder, *words)
    return {operator["op_type"]: operator for operator in found["operators"]}


def test_a_transposed_convolution_with_same_padding_and_output_padding(tmp_path):
    found = shapes(CASES / "12c_convtranspose_same_outpad.onnx", tmp_path)
    assert found["ConvTranspose"]["output_shapes"] == [[1, 16, 8, 8]]


def test_views_of_opset_11_are_read_like_those_of_opset_13(tmp_path):
    path = CASES / "view_opset11_mul0.onnx"
    newer = tmp_path / "newer.onnx"
    onnx.save(onnx.version_converter.convert_version(onnx.load(path), 13), newer)
    old, new = shapes(path, tmp_path), shapes(newer, tmp_path)
    assert old["MatMul"]["output_shapes"] == new["MatMul"]["output_shapes"] == [[1, 4, 4, 10]]
    assert old["MatMul"]["macs"] == new["MatMul"]["macs"] == 16 * 128 * 10
    run("partition", path, tmp_path)


def test_a_convolution_of_20_channels_is_planned_with_20(tmp_path):
    path = network(
        tmp_path,
        "a = Conv (x, W) b = Relu (a) y = Conv (b, W2)",
        {"W": weight(20, 3, 3, 3), "W2": weight(20, 20, 3, 3)},
        {"x": (1, 3, 64, 64)},
        {"y": (1, 20, 60, 60)},
    )
    run("profile", path, tmp_path)
    from cimplan.cost.profile_file import load

    work = [op.work for op in load(tmp_path / "host.json").graph().operators if op.work is not None]
    assert [(w.outputs, w.inputs, w.mvms) for w in work] == [(20, 27, 62 * 62), (20, 180, 60 * 60)]


@pytest.mark.parametrize("name", ["huge_dims", "wide_24_24", "wide_40_40"])
@pytest.mark.parametrize("command", COMMANDS)
def test_absurd_sizes_are_refused_or_planned_at_once(tmp_path, name, command):
    with time_guard(30):
        done_or_refused(command, CASES / f"{name}.onnx", tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_expands_to_a_million_nodes_is_refused_at_once(tmp_path, command):
    # In a process that can be ended: a library that expands it does not listen to alarms.
    words = ["-o", tmp_path / "out"] if command in ("profile", "quantize") else []
    words = [sys.executable, "-m", "cimplan", command, CASES / "function_bomb_20.onnx", *words]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("cimplan: ")


# --- Types, domains and names ---


def sequence_inside(folder: Path) -> Path:
    text = """y = MatMul (a, W)"""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=0),
        helper.make_node("Constant", [], ["i"], value=numpy_helper.from_array(np.array(1))),
        helper.make_node("SequenceAt", ["s", "i"], ["a"]),
        *onnx.parser.parse_graph(f"g () => () {{ {text} }}").node,
    ]
    return network(folder, nodes, {"W": weight(64, 64)}, {"x": (2, 64)}, {"y": (1, 64)})


def maps(folder: Path) -> Path:
    tree = helper.make_node(
        "TreeEnsembleClassifier",
        ["f"],
        ["l", "p"],
        domain="ai.onnx.ml",
        class_ids=[0, 1],
        class_nodeids=[1, 2],
        class_treeids=[0, 0],
        class_weights=[1.0, 1.0],
        classlabels_int64s=[0, 1],
        nodes_falsenodeids=[2, 0, 0],
        nodes_featureids=[0, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0],
        nodes_missing_value_tracks_true=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_nodeids=[0, 1, 2],
        nodes_treeids=[0, 0, 0],
        nodes_truenodeids=[1, 0, 0],
        nodes_values=[0.0, 0.0, 0.0],
        post_transform="NONE",
    )
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["f"]),
        tree,
        helper.make_node("ZipMap", ["p"], ["zp"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]
    path = network(folder, nodes, {"W": weight(64, 64)}, {"x": (1, 64)}, {}, imports=(("ai.onnx.ml", 1),))
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("l", TensorProto.INT64, [1]))
    of_map = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    model.graph.output.append(helper.make_value_info("zp", helper.make_sequence_type_proto(of_map)))
    onnx.save(model, path)
    return path


def foreign_domain(folder: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Mystery", ["a"], ["b"], domain="acme"),
        helper.make_node("MatMul", ["b", "W"], ["y"]),
    ]
    return network(folder, nodes, {"W": weight(64, 64)}, {"x": (1, 64)}, {"y": (1, 64)}, imports=(("acme", 1),))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("build", [sequence_inside, maps, foreign_domain])
def test_what_cannot_be_planned_is_refused_without_advice_that_cannot_help(tmp_path, build: Case, command):
    said = done_or_refused(command, build(tmp_path), tmp_path)
    # Every shape is known already: asking for one leads nowhere. Nor has ONNX Runtime a profile of what it cannot run.
    assert "--shape" not in said
    if build is foreign_domain:
        assert said
        assert "profile of the model" not in said


def test_a_float16_model_is_quantised_into_a_file_that_loads_or_refused(tmp_path):
    path = network(
        tmp_path,
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) y = Relu (a)",
        {"W": weight(32, 16, 3, 3).astype(np.float16)},
        {"x": (1, 16, 32, 32)},
        {"y": (1, 32, 32, 32)},
        dtype=TensorProto.FLOAT16,
    )
    if not done_or_refused("quantize", path, tmp_path):
        session(tmp_path / "int8.onnx")


def weight_only_int8(folder: Path) -> Path:
    q = np.random.default_rng(0).integers(-127, 127, (256, 256), dtype=np.int8)
    return network(
        folder,
        "Wf = DequantizeLinear (q, s) y = MatMul (x, Wf)",
        {"q": q, "s": np.float32(0.01).reshape(())},
        {"x": (1, 64, 256)},
        {"y": (1, 64, 256)},
    )


def int4_in_blocks(folder: Path) -> Path:
    return Path(shutil.copy(CASES / "14d_int4_blockwise.onnx", folder / "case.onnx"))


@pytest.mark.parametrize("build", [weight_only_int8, int4_in_blocks])
def test_weights_of_few_bits_that_the_host_fuses_are_offered_to_the_crossbars(tmp_path, build: Case):
    path = build(tmp_path)
    inspected = run("inspect", path, tmp_path)
    (supported,) = (operator for operator in inspected["operators"] if operator["crossbars"] is not None)
    planned = run("partition", path, tmp_path)["operators"]
    (product,) = (operator for operator in planned if operator["op_type"].startswith("MatMul"))
    forced = offloaded(path, tmp_path, product["name"])[product["name"]]
    assert forced["place"] != "host"
    assert forced["crossbars"] == supported["crossbars"]


def name_in_bytes(folder: Path) -> Path:
    path = network(folder, "y = MatMul (x, W)", {"W": weight(64, 64)}, {"x": (1, 64)}, {"y": (1, 64)})
    model = onnx.load(path)
    model.graph.node[0].name = "mmQQ"
    path.write_bytes(model.SerializeToString().replace(b"mmQQ", b"mm\xff\xfe"))
    return path


def operator_in_bytes(folder: Path) -> Path:
    return CASES / "non_utf8_operator.onnx"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("build", [name_in_bytes, operator_in_bytes])
def test_names_that_are_not_utf8_are_a_typed_error(tmp_path, build: Case, command):
    refused(command, build(tmp_path), tmp_path)


def test_einsum_with_constant_weights_is_the_product_it_is(tmp_path):
    node = helper.make_node("Einsum", ["x", "W"], ["y"], name="e", equation="bi,io->bo")
    path = network(tmp_path, [node], {"W": weight(64, 64)}, {"x": (1, 64)}, {"y": (1, 64)})
    (operator,) = run("inspect", path, tmp_path)["operators"]
    assert (operator["outputs"], operator["inputs"], operator["mvms"], operator["crossbars"]) == (64, 64, 1, 1)
    assert offloaded(path, tmp_path, "e")["e"]["place"] != "host"
    compiled = run("compile", path, tmp_path)
    assert [name for segment in compiled["segments"] for name in segment["operators"]] == ["e"]


def test_a_network_without_inputs_is_quantised_or_refused_with_true_advice(tmp_path):
    nodes = [
        helper.make_node("RandomNormal", [], ["x"], shape=[1, 64]),
        helper.make_node("MatMul", ["x", "W"], ["y"]),
    ]
    path = network(tmp_path, nodes, {"W": weight(64, 64)}, {}, {"y": (1, 64)})
    if said := done_or_refused("quantize", path, tmp_path):
        assert "--calibration" not in said
        assert "--shape" not in said
    else:
        session(tmp_path / "int8.onnx").run(None, {})


def test_the_default_domain_by_its_other_name(tmp_path):
    run("quantize", CASES / "38_domain_alias.onnx", tmp_path)
    session(tmp_path / "int8.onnx")


@pytest.mark.parametrize(
    "kind",
    [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.INT4, TensorProto.UINT4],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_outputs_of_types_that_numpy_lacks_are_planned_or_refused(tmp_path, command, kind):
    product = helper.make_node("MatMul", ["x", "W"], ["y"])
    small = kind in (TensorProto.INT4, TensorProto.UINT4)
    if small:
        zero = helper.make_tensor("zero", kind, [], [0])
        nodes = [product, helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["z"])]
        weights = {"W": weight(64, 32), "scale": np.float32(0.1).reshape(()), "zero": zero}
    else:
        nodes = [product, helper.make_node("Cast", ["y"], ["z"], to=kind)]
        weights = {"W": weight(64, 32)}
    path = network(tmp_path, nodes, weights, {"x": (8, 64)}, {}, opset=21)
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("z", kind, [8, 32]))
    onnx.save(model, path)
    done_or_refused(command, path, tmp_path)
