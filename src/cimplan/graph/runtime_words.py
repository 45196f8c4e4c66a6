"""What ONNX Runtime says of a model it refuses, without what only its developers can use."""

from __future__ import annotations

import re

_LONGEST = 600

# What a message is wrapped in: error codes, the step that failed, and the place in the runtime's own source with the
# signature of its function and the condition that did not hold.
_WRAPPING = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "
    r"|\[ShapeInferenceError\] "
    r"|Exception during initialization: "
    r"|Load model from .*? failed:\s*"
    r"|/\S*onnxruntime\S*:\d+ [^()]*(?:\([^()]*\)[^() ]*)+(?: const)?(?: \[with [^\]]*\])? (?:[^.]*? was false\. )?"
    r"|\b\w+\.(?:cc|h|cpp):\d+ \w+ "
)
_AT_A_NODE = re.compile(r"Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: ")


def runtime_words(error: BaseException) -> str:
    """Return the message of one of ONNX Runtime's errors for a person: one line, of bounded length."""
    text = " ".join(str(error).split())
    said = _AT_A_NODE.sub(r"at the \1 node '\2': ", _WRAPPING.sub("", text)).strip()
    return (said or text or type(error).__name__)[:_LONGEST]
