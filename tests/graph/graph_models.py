"""Small networks for the tests of the graph room, and what ONNX Runtime says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def weight(name: str, *shape: int, seed: int = 0, dtype: str = "float32") -> onnx.TensorProto:
    data = np.random.default_rng([seed, *name.encode()]).normal(size=shape) * 0.1
    return numpy_helper.from_array(data.astype(dtype), name)


def integers(name: str, values: Any, dtype: str = "int64") -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None] | None] | Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    **fields: Any,
) -> onnx.ModelProto:
    given = [value(n, s) for n, s in inputs.items()] if isinstance(inputs, Mapping) else list(inputs)
    graph = helper.make_graph(
        list(nodes),
        "net",
        given,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(initializers),
        **fields,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def save(net: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(net.SerializeToString())
    return path


def small_cnn(batch: int | str = 1) -> onnx.ModelProto:
    """Depthwise and plain convolutions, SiLU, residual sum, concatenation, resize, poolings and a classifier."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "wd"], ["cd"], group=20, pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["cd"], ["sg"]),
        helper.make_node("Mul", ["cd", "sg"], ["m"]),
        helper.make_node("MaxPool", ["m"], ["mp"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["mp", "w2"], ["c2"]),
        helper.make_node("Conv", ["mp", "w3"], ["c3"]),
        helper.make_node("Add", ["c2", "c3"], ["a"]),
        helper.make_node("AveragePool", ["a"], ["ap"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["ap", "mp"], ["cc"], axis=1),
        helper.make_node("LeakyRelu", ["cc"], ["lr"], alpha=0.1),
        helper.make_node(
            "Resize",
            ["lr", "", "scales"],
            ["up"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        helper.make_node("GlobalAveragePool", ["up"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "wf", "bf"], ["y"], transB=1),
    ]
    initializers = [
        *(weight("w1", 20, 3, 3, 3), weight("b1", 20), weight("wd", 20, 1, 3, 3), weight("w2", 28, 20, 1, 1)),
        *(weight("w3", 28, 20, 1, 1), weight("wf", 10, 48), weight("bf", 10)),
        numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
    ]
    return model(nodes, {"x": [batch, 3, 32, 32]}, ["y"], initializers)


def blocked_cnn() -> onnx.ModelProto:
    """A network that ONNX Runtime turns into blocked form from end to end, with fused sums and activations."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("MaxPool", ["r0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["p0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "p0"], ["s"]),
        helper.make_node("Relu", ["s"], ["rs"]),
        helper.make_node("AveragePool", ["rs"], ["ap"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node(
            "Resize",
            ["ap", "", "scales"],
            ["up"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        helper.make_node("Concat", ["up", "rs"], ["cc"], axis=1),
        helper.make_node("Conv", ["cc", "w3"], ["c3"], group=1),
        helper.make_node("GlobalAveragePool", ["c3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "wf"], ["fc"], transB=1),
        helper.make_node("Relu", ["fc"], ["y"]),
    ]
    initializers = [
        *(weight("w0", 32, 3, 3, 3), weight("w1", 32, 32, 3, 3), weight("w2", 32, 32, 3, 3)),
        *(weight("w3", 40, 64, 1, 1), weight("wf", 10, 40)),
        numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
    ]
    return model(nodes, {"x": [1, 3, 32, 32]}, ["y"], initializers)


def transformer_block(batch: int = 2, length: int = 8, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Embedding, one attention block and one feed-forward block, as exporters write BERT."""
    size = hidden // heads
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = [
        *(weight("words", 50, hidden), weight("places", 16, hidden), integers("ids", [list(range(length))])),
        *(integers("split", [0, 0, heads, size]), integers("join", [0, 0, hidden])),
        *(weight("g0", hidden), weight("n0", hidden), weight("g1", hidden), weight("n1", hidden)),
        *(numpy_helper.from_array(np.float32(v), n) for n, v in (("root2", 2**0.5), ("one", 1.0), ("half", 0.5))),
        numpy_helper.from_array(np.float32(size**0.5), "scale"),
    ]

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=f"/{output}/{op}", **attributes))
        return output

    def dense(source: str, name: str, rows: int, columns: int) -> str:
        initializers.extend([weight(f"{name}_w", rows, columns), weight(f"{name}_b", columns)])
        return add("Add", [add("MatMul", [source, f"{name}_w"], f"{name}_m"), f"{name}_b"], name)

    add("Add", [add("Gather", ["words", "tokens"], "e0"), add("Gather", ["places", "ids"], "e1")], "e")
    add("LayerNormalization", ["e", "g0", "n0"], "ln0", axis=-1, epsilon=1e-12)
    for name in "qkv":
        dense("ln0", name, hidden, hidden)
        add("Reshape", [name, "split"], f"{name}r")
        add("Transpose", [f"{name}r"], f"{name}t", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
    add("MatMul", ["qt", "kt"], "scores")
    add("Div", ["scores", "scale"], "scaled")
    add("Softmax", ["scaled"], "probabilities", axis=-1)
    add("MatMul", ["probabilities", "vt"], "mixed")
    add("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    add("Reshape", ["back", "join"], "joined")
    add("Add", [dense("joined", "o", hidden, hidden), "ln0"], "sum0")
    add("LayerNormalization", ["sum0", "g1", "n1"], "ln1", axis=-1, epsilon=1e-12)
    dense("ln1", "up", hidden, 4 * hidden)
    add("Erf", [add("Div", ["up", "root2"], "d")], "erf")
    add("Mul", ["up", add("Add", ["erf", "one"], "erf1")], "gelu0")
    add("Mul", ["gelu0", "half"], "gelu")
    add("Add", [dense("gelu", "down", 4 * hidden, hidden), "ln1"], "y")
    return model(nodes, [value("tokens", [batch, length], TensorProto.INT64)], ["y"], initializers)


def feeds_of(net: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Random inputs of a model with fixed shapes."""
    generator = np.random.default_rng(seed)
    constants = {tensor.name for tensor in net.graph.initializer}
    feeds = {}
    for entry in net.graph.input:
        if entry.name in constants:
            continue
        tensor = entry.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            feeds[entry.name] = generator.normal(size=shape).astype(dtype)
        else:
            feeds[entry.name] = generator.integers(0, 2, shape).astype(dtype)
    return feeds


def session_options(level: str = "ORT_DISABLE_ALL") -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def optimise(source: Path, target: Path, level: str = "ORT_ENABLE_ALL") -> Path:
    """Save the graph ONNX Runtime really executes."""
    options = session_options(level)
    options.optimized_model_filepath = str(target)
    ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return target


def run_all(net: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model as it stands and return every tensor that any node makes."""
    probed = onnx.ModelProto()
    probed.CopyFrom(net)
    shown = {output.name for output in probed.graph.output}
    for node in probed.graph.node:
        for name in node.output:
            if name and name not in shown:
                probed.graph.output.append(helper.make_empty_tensor_value_info(name))
                shown.add(name)
    session = ort.InferenceSession(probed.SerializeToString(), session_options(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))
