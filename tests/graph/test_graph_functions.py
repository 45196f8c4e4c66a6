"""Functions of a model are refused before a library expands them, where that would end the process or never end."""

from __future__ import annotations

import onnx
import pytest

from cimplan.cost.profile import optimised_graph
from cimplan.errors import InputError
from cimplan.graph.quantise import quantise
from cimplan.graph.read import read_graph


def model(tmp_path, functions: str, call: str = "y = local.f0(x)"):
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[1,8] x) => (float[1,8] y) {' + call + "}"
    ) + functions
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def function(number: int, *body: str, ends: str = "(x) => (y)") -> str:
    head = f'<domain: "local", opset_import: ["" : 17, "local" : 1]> f{number} {ends} '
    return head + "{" + " ".join(body) + "}"


@pytest.mark.parametrize("read", [read_graph, optimised_graph, lambda path: quantise(path, path.with_name("q.onnx"))])
@pytest.mark.parametrize(
    ("functions", "call", "words"),
    [
        # ONNX Runtime aborts the process on these two.
        (
            function(0, "y = Constant <value_float: float = 1.0> ()", ends="() => (y)"),
            "y = local.f0(x)",
            "with 1 inputs",
        ),
        (function(0, "y = Relu(x)"), "y, z = local.f0(x)", "with 2 outputs"),
        (function(0, "y = local.f1(x)") + function(1, "y = local.f0(x)"), "y = local.f0(x)", "calls itself"),
        (
            "".join(function(n, f"t = local.f{n + 1}(x)", f"y = local.f{n + 1}(t)") for n in range(24))
            + function(24, "y = Relu(x)"),
            "y = local.f0(x)",
            "expand to",
        ),
        (
            "".join(function(n, f"y = local.f{n + 1}(x)") for n in range(200)) + function(200, "y = Relu(x)"),
            "y = local.f0(x)",
            "call each other in a row",
        ),
    ],
    ids=["inputs", "outputs", "ring", "bomb", "deep"],
)
def test_functions_that_cannot_be_expanded_are_refused_at_once(tmp_path, functions, call, words, read):
    with pytest.raises(InputError, match=words):
        read(model(tmp_path, functions, call))


def test_functions_that_call_each_other_are_read(tmp_path):
    graph = read_graph(model(tmp_path, function(0, "t = local.f1(x)", "y = local.f1(t)") + function(1, "y = Relu(x)")))
    assert [op.op_type for op in graph.operators] == ["Relu", "Relu"]


def test_a_name_that_is_no_text_is_refused_where_onnx_runtime_quotes_it(tmp_path):
    path = model(tmp_path, function(0, "y = Relu(x)"), "y = NoSuchOp(x)")
    path.write_bytes(path.read_bytes().replace(b"NoSuchOp", b"NoSuch\xff\xfe"))
    with pytest.raises(InputError):
        optimised_graph(path)


def test_a_tensor_larger_than_any_machine_holds_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4294967296,4294967296] x) => (float y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(InputError, match="'x' is larger than any machine holds"):
        read_graph(path)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("shape", "words"), [("float[3,0,5]", "inputs without elements"), ("float[]", "not three dimensions")]
)
def test_a_recurrent_operator_without_steps_is_refused_before_it_ends_the_process(tmp_path, kind, shape, words):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    path = tmp_path / "model.onnx"
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> '
        f"g ({shape} x, float[1,{4 * gates},5] w, float[1,{4 * gates},4] r) => (float y) "
        f"{{ y = {kind} <hidden_size = 4> (x, w, r) }}"
    )
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(InputError, match=words):
        optimised_graph(path)
