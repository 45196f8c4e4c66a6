"""The parts that `export --to onnx --parts` writes, run one after another, against the network that went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

TOLERANCE = 1e-5
"""Of the largest value of an output; ONNX Runtime fuses a network and its parts differently."""

_NUMPY_OF_TYPE = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
}


def same(found: dict[str, Any]) -> bool:
    """Return whether parts gave what the network gives, as far as ONNX Runtime's own results can be told apart."""
    return "fault" not in found and bool(found["difference"] <= max(TOLERANCE, 2 * found.get("own", 0.0)))


def compare_parts(path: Path, parts: Path, filling: str, open_inputs: list[str]) -> dict[str, Any]:
    """Run the parts in turn and the model as a whole, on the same inputs; return how far apart their outputs are."""
    manifest = json.loads((parts / "manifest.json").read_text(encoding="utf-8"))
    try:
        whole = _session(path)
        feed = make_feed(whole, filling, open_inputs)
        names = [output.name for output in whole.get_outputs()]
        expected = dict(zip(names, whole.run(names, feed), strict=True))
        plain = dict(zip(names, _session(path, optimise=False).run(names, feed), strict=True))
        given = {value.name for value in whole.get_inputs()}
        if set(manifest["inputs"]) - given:
            return {"fault": f"the manifest lists {sorted(set(manifest['inputs']) - given)} as inputs"}
        values = dict(feed)
        for entry in manifest["parts"]:
            session = _session(parts / entry["file"])
            wanted = [output.name for output in session.get_outputs()]
            results = session.run(wanted, {name: values[name] for name in entry["inputs"]})
            values |= dict(zip(wanted, results, strict=True))
    except Exception as error:
        return {"fault": f"{type(error).__name__}: {error}"[:300]}
    made = {name: value for name, value in values.items() if name in expected}
    try:
        worst, own = distance(made, expected), distance(plain, expected)
    except ValueError as error:
        return {"fault": str(error)}
    return {"parts": len(manifest["parts"]), "equal": worst == 0.0, "difference": worst, "own": own}


def distance(some: dict[str, Any], expected: dict[str, Any]) -> float:
    """Return the largest difference of two sets of outputs, each over the largest value of its output.

    An output that `some` lacks is a constant or an input of the network, which no operator makes.

    Raises
    ------
    ValueError
        If shapes or types differ.
    """
    worst = 0.0
    for name, value in some.items():
        ours, theirs = np.asarray(value), np.asarray(expected[name])
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise ValueError(f"{name}: {ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}")
        if ours.dtype.kind in "biuUSO":
            worst = max(worst, 0.0 if np.array_equal(ours, theirs) else np.inf)
        elif not np.array_equal(ours, theirs, equal_nan=True):
            difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            scale = np.nanmax(np.abs(theirs.astype(np.float64)), initial=0.0)
            worst = max(worst, float(np.nanmax(difference) / (scale or 1.0)))
    return worst


def _session(path: Path, *, optimise: bool = True) -> ort.InferenceSession:
    options = ort.SessionOptions()
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def make_feed(session: ort.InferenceSession, filling: str, open_inputs: list[str]) -> dict[str, Any]:
    """Return inputs of the shapes and values given; the rest is random, zeros or ones as in the profile."""
    words = dict(zip(open_inputs[1::2], open_inputs[::2], strict=True))
    shapes = {word.partition("=")[0]: word.partition("=")[2] for word, option in words.items() if option == "--shape"}
    known = {
        word.partition("=")[0]: float(word.partition("=")[2]) for word, option in words.items() if option != "--shape"
    }
    random = np.random.default_rng(1)
    feed = {}
    for value in session.get_inputs():
        shape = [int(size) for size in shapes[value.name].split(",")] if value.name in shapes else value.shape
        kind = np.dtype(_NUMPY_OF_TYPE[value.type])
        if value.name in known:
            feed[value.name] = np.full(shape, known[value.name], dtype=kind)
        elif filling != "random":
            feed[value.name] = np.full(shape, filling == "ones", dtype=kind)
        elif kind.kind == "f":
            feed[value.name] = random.random(shape).astype(kind)
        else:
            feed[value.name] = random.integers(0, 2, shape).astype(kind)
    return feed
