"""What is left of ONNX Runtime's messages for a person."""

from __future__ import annotations

import pytest

from cimplan.graph.runtime_words import runtime_words

_SOURCE = "/onnxruntime_src/onnxruntime/core/"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("[ONNXRuntimeError] : 1 : FAIL : Load model from /a b/x.onnx failed:No graph.", "No graph."),
        (
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Non-zero status code returned while running Conv node. "
            "Name:'c 1' Status Message: Invalid input shape: {2,2}",
            "at the Conv node 'c 1': Invalid input shape: {2,2}",
        ),
        (
            f"[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: {_SOURCE}providers/common.h:81 "
            "onnxruntime::AutoPadType onnxruntime::StringToAutoPadType(const std::string&) false was false. \n"
            "Unknown AutoPadType String",
            "Unknown AutoPadType String",
        ),
        (
            f"{_SOURCE}optimizer/initializer.cc:83 onnxruntime::Initializer::Initializer(const onnxruntime::Graph&, "
            "bool) [ONNXRuntimeError] : 1 : FAIL : tensorprotoutils.cc:1790 GetExtDataFromTensorProto w is too short",
            "w is too short",
        ),
        (
            f"{_SOURCE}graph/a.cc:1 auto f()::<lambda()>::operator()() const [with T = float] a == b was false. No.",
            "No.",
        ),
        ("[ShapeInferenceError] Sizes 1.5 and 2 differ.", "Sizes 1.5 and 2 differ."),
        ("a plain message", "a plain message"),
        ("", "RuntimeError"),
        ("x" * 10_000, "x" * 600),
    ],
)
def test_only_what_a_person_can_use_is_left(raw: str, said: str) -> None:
    assert runtime_words(RuntimeError(raw)) == said
