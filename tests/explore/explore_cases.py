"""A small network, spaces over it, and the command line in a process of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper


def tiny_network(channels: int = 32) -> onnx.ModelProto:
    """Two convolutions in parallel between two in series, and a fully connected end: 5 operators of matrix work."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.2, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["a"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["d"], name="right"),
        helper.make_node("Add", ["c", "d"], ["e"], name="join"),
        helper.make_node("ReduceMean", ["e"], ["f"], name="pool", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["f", "w3"], ["scores"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [
            weight("w0", channels, 3, 3, 3),
            weight("w1", channels, channels, 3, 3),
            weight("w2", channels, channels, 1, 1),
            weight("w3", channels, 10),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def space_value(**changes: Any) -> dict[str, Any]:
    """A space of 2 x 4 points over the tiny network; a change of None drops a field."""
    value: dict[str, Any] = {
        "schema_version": 1,
        "name": "tiny-sweep",
        "models": ["tiny.onnx"],
        "hardware": "rram-256-arm",
        "vary": {"accelerator.mvm_latency": ["50ns", "1us"], "accelerator.crossbars": [0, 1, 2, 4]},
    }
    value |= changes
    return {name: part for name, part in value.items() if part is not None}


def write_space(folder: Path, **changes: Any) -> Path:
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(space_value(**changes), sort_keys=False), encoding="utf-8")
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "cimplan", *map(str, arguments)]


def cimplan(*arguments: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does and look at its exit code."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def finished(file: Path) -> int:
    """Points in a store that another process may be writing to."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            return int(connection.execute("select count(*) from cimplan_points").fetchone()[0])
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)
            return 0
