"""What mutations start from: small valid files of each kind, written by this cimplan, with every part a format has."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

KINDS = ("onnx", "hardware", "space", "profile", "events", "plan", "program")
SUFFIXES = {
    "onnx": ".onnx",
    "hardware": ".yaml",
    "space": ".yaml",
    "profile": ".json",
    "events": ".json",
    "plan": ".json",
    "program": ".txt",
}
PROFILES = Path(__file__).parents[1] / "profiles"
FROZEN = Path(__file__).parents[1] / "ageing" / "version1"

_OPSETS = [("", 17)]
_FUNCTION = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
m (float[1,8] x) => (float[1,8] y) { h = local.twice(x) y = local.twice(h) }
<domain: "local", opset_import: ["" : 17]> twice (a) => (b) { c = Add(a, a) b = Relu(c) }
"""


def make(folder: Path) -> None:
    """Fill a folder with seeds: one folder a kind, and beside them what the commands need for a mutant."""
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
    for name, build in _MODELS.items():
        (folder / "onnx" / f"{name}.onnx").write_bytes(build().SerializeToString())
    shutil.copy(FROZEN / "small_int8.onnx", folder / "onnx")
    (folder / "weights.bin").write_bytes(np.arange(64, dtype=np.float32).tobytes())
    for name in ("small.onnx", "small_int8.onnx", "host.json", "wide.yaml", "dual.yaml"):
        shutil.copy(FROZEN / name, folder)
    _hardware(folder / "hardware")
    for name in ("space.yaml", "search.yaml"):
        shutil.copy(FROZEN / name, folder / "space")
    _plans(folder)


def _hardware(folder: Path) -> None:
    from cimplan.hardware.loading import preset_text

    for name in ("wide.yaml", "mine.yaml", "dual.yaml"):
        shutil.copy(FROZEN / name, folder)
    for name in ("rram-256", "dual-mode-small"):
        # Without its comments, and as a tree, a preset is a file like any other.
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(yaml.safe_load(preset_text(name)), sort_keys=False))


def _plans(folder: Path) -> None:
    from cimplan.api.compiling import compile as compile_network
    from cimplan.api.partitioning import estimate, partition
    from cimplan.cost import profile_file

    shutil.copy(FROZEN / "host.json", folder / "profile")
    # What `cimplan profile --script` and ONNX Runtime's profiler wrote of small.onnx.
    shutil.copy(PROFILES / "recorded.json", folder / "profile")
    shutil.copy(PROFILES / "events.json", folder / "events")
    estimate(folder / "small.onnx").save(folder / "profile" / "estimated.json")
    host = profile_file.load(folder / "host.json")
    for name, options in (
        ("exact", {}),
        ("curve", {"curve": True}),
        ("fixed", {"fix": {"left": "host"}}),
        ("greedy", {"method": "greedy"}),
    ):
        plan: Any = partition(None, folder / "wide.yaml", host, **options)  # type: ignore[arg-type]
        _write(folder / "plan" / f"{name}.json", plan.to_json())
    for cost_model in ("published", "resident"):
        frozen = json.loads((FROZEN / f"{cost_model}.json").read_text())
        _write(folder / "plan" / f"{cost_model}.json", frozen)
    compiled = compile_network(folder / "small_int8.onnx", folder / "dual.yaml")
    _write(folder / "plan" / "compiled.json", compiled.plan.to_json())
    (folder / "plan" / "searched.json").write_bytes(gzip.decompress((FROZEN / "searched.json.gz").read_bytes()))
    compiled.write_program(folder / "program" / "compiled.txt")
    shutil.copy(FROZEN / "published.program", folder / "program" / "published.txt")


def _write(path: Path, value: dict[str, Any]) -> None:
    # Wall times would make the mutants of two runs differ.
    path.write_text(json.dumps(value | {name: 0.0 for name in ("solve_s", "compile_s") if name in value}))


def _weight(name: str, *shape: int, dtype: Any = np.float32) -> onnx.TensorProto:
    values = (np.arange(int(np.prod(shape))) % 7 - 3).reshape(shape)
    return numpy_helper.from_array(values.astype(dtype), name)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int | str] | None]],
    outputs: list[str],
    weights: tuple[onnx.TensorProto, ...] = (),
    opsets: list[tuple[str, int]] = _OPSETS,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets], ir_version=8)


def _floats(*shape: int | str) -> tuple[int, list[int | str]]:
    return TensorProto.FLOAT, list(shape)


_node = helper.make_node


def _convolutions() -> onnx.ModelProto:
    return _model(
        [
            _node("Conv", ["x", "w0"], ["a"], name="stem", pads=[1, 1, 1, 1], strides=[2, 2]),
            _node("BatchNormalization", ["a", "s", "s", "s", "s"], ["b"], name="norm"),
            _node("Relu", ["b"], ["c"], name="act"),
            _node("Conv", ["c", "w1"], ["d"], name="depthwise", group=4, auto_pad="SAME_UPPER"),
            _node("ConvTranspose", ["d", "w2"], ["e"], name="up", strides=[2, 2]),
            _node("MaxPool", ["e"], ["f"], name="pool", kernel_shape=[2, 2]),
            _node("GlobalAveragePool", ["f"], ["h"], name="mean"),
            _node("Flatten", ["h"], ["i"], name="flat"),
            _node("Gemm", ["i", "w3"], ["y"], name="head", transB=1),
        ],
        {"x": _floats(1, 3, 8, 8)},
        ["y"],
        (
            _weight("w0", 4, 3, 3, 3),
            _weight("s", 4),
            _weight("w1", 4, 1, 3, 3),
            _weight("w2", 4, 4, 2, 2),
            _weight("w3", 5, 4),
        ),
    )


def _attention() -> onnx.ModelProto:
    return _model(
        [
            _node("MatMul", ["x", "w"], ["q"], name="query"),
            _node("Shape", ["q"], ["s"], name="shape"),
            _node("Gather", ["s", "zero"], ["n"], name="batch", axis=0),
            _node("Unsqueeze", ["n", "axes"], ["n1"], name="unsqueeze"),
            _node("Concat", ["n1", "rest"], ["target"], name="concat", axis=0),
            _node("Reshape", ["q", "target"], ["r"], name="reshape"),
            _node("Transpose", ["r"], ["t"], name="transpose", perm=[0, 2, 1]),
            _node("MatMul", ["r", "t"], ["p"], name="scores"),
            _node("Softmax", ["p"], ["m"], name="softmax", axis=-1),
            _node("Slice", ["m", "zero1", "two"], ["y"], name="slice"),
        ],
        {"x": _floats(2, 4, 8)},
        ["y"],
        (
            _weight("w", 8, 8),
            numpy_helper.from_array(np.array(0, np.int64), "zero"),
            numpy_helper.from_array(np.array([0], np.int64), "axes"),
            numpy_helper.from_array(np.array([0], np.int64), "zero1"),
            numpy_helper.from_array(np.array([2], np.int64), "two"),
            numpy_helper.from_array(np.array([-1, 8], np.int64), "rest"),
        ),
    )


def _branches() -> onnx.ModelProto:
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8])]
    then = helper.make_graph([_node("MatMul", ["x", "w"], ["z"], name="inner")], "then", [], outputs)
    other = helper.make_graph([_node("Relu", ["x"], ["z"], name="inner")], "else", [], outputs)
    body = helper.make_graph(
        [_node("Identity", ["go"], ["again"]), _node("MatMul", ["v", "w"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1, 8]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, 8]),
        ],
    )
    return _model(
        [
            _node("If", ["c"], ["z0"], name="if", then_branch=then, else_branch=other),
            _node("Loop", ["trips", "c", "z0"], ["z1"], name="loop", body=body),
            _node("MatMul", ["z1", "w"], ["y"], name="inner"),
        ],
        {"x": _floats(1, 8), "c": (TensorProto.BOOL, [])},
        ["y"],
        (_weight("w", 8, 8), numpy_helper.from_array(np.array(2, np.int64), "trips")),
    )


def _recurrent() -> onnx.ModelProto:
    return _model(
        [
            _node("LSTM", ["x", "w", "r"], ["h", "last", ""], name="lstm", hidden_size=4),
            _node("Squeeze", ["h", "one"], ["s"], name="squeeze"),
            _node("Einsum", ["s", "e"], ["y"], name="einsum", equation="tbi,io->tbo"),
        ],
        {"x": _floats(3, 1, 5)},
        ["y"],
        (
            _weight("w", 1, 16, 5),
            _weight("r", 1, 16, 4),
            numpy_helper.from_array(np.array([1], np.int64), "one"),
            _weight("e", 4, 6),
        ),
    )


def _integers() -> onnx.ModelProto:
    return _model(
        [
            _node("DynamicQuantizeLinear", ["x"], ["q", "s", "p"], name="quantise"),
            _node("MatMulInteger", ["q", "w", "p", "z"], ["a"], name="product"),
            _node("Cast", ["a"], ["f"], name="cast", to=TensorProto.FLOAT),
            _node("DequantizeLinear", ["w8", "ws", "z"], ["wf"], name="weights"),
            _node("Gemm", ["f", "wf"], ["y"], name="gemm"),
        ],
        {"x": _floats(2, 8)},
        ["y"],
        (
            _weight("w", 8, 8, dtype=np.int8),
            _weight("w8", 8, 8, dtype=np.int8),
            numpy_helper.from_array(np.array(0.5, np.float32), "ws"),
            numpy_helper.from_array(np.array(0, np.int8), "z"),
        ),
    )


def _constants() -> onnx.ModelProto:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sw", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("si", TensorProto.INT64, [2], [3, 40]),
        [8, 8],
    )
    model = _model(
        [
            _node("Constant", [], ["c"], name="constant", value=_weight("v", 8, 8)),
            _node("MatMul", ["x", "c"], ["a"], name="first"),
            _node("MatMul", ["a", "ext"], ["b"], name="second"),
            _node("MatMul", ["b", "sw"], ["d"], name="third"),
            _node("Split", ["d"], ["e", "f"], name="split", axis=1),
            _node("RandomNormalLike", ["e"], ["g"], name="random"),
            _node("Sum", ["e", "f", "g"], ["y"], name="sum"),
        ],
        {"x": _floats(1, 8)},
        ["y"],
        (_weight("ext", 8, 8),),
    )
    model.graph.sparse_initializer.append(sparse)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    tensor.external_data.add(key="length", value="256")
    return model


def _open_shapes() -> onnx.ModelProto:
    return _model(
        [
            _node("MatMul", ["x", "w"], ["a"], name="product"),
            _node("Concat", ["a", "past"], ["y"], name="join", axis=0),
        ],
        {"x": _floats("batch", 8), "past": _floats(0, 8)},
        ["y"],
        (_weight("w", 8, 8),),
    )


_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "attention": _attention,
    "branches": _branches,
    "constants": _constants,
    "convolutions": _convolutions,
    "function": lambda: onnx.parser.parse_model(_FUNCTION),
    "integers": _integers,
    "open_shapes": _open_shapes,
    "recurrent": _recurrent,
}
