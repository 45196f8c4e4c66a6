"""The command line as a user meets it: arguments in, exit code and text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cimplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    from cimplan.cli import main

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["cimplan", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Run(code if isinstance(code, int) else 1 if code else 0, captured.out, captured.err)

    return run


def small_network(batch: int | str = 1) -> onnx.ModelProto:
    """Convolution, activation, two branches, addition, pooling, fully connected: host and crossbars both have work."""
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
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, 24, 24])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 10])],
        [weight("w0", 32, 3, 3, 3), weight("w1", 32, 32, 3, 3), weight("w2", 32, 32, 1, 1), weight("w3", 32, 10)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(small_network(), path)
    return path


@pytest.fixture(scope="session")
def profile_file(model_file: Path) -> Path:
    from cimplan.cost.profile import measure

    path = model_file.with_name("host.json")
    measure(model_file, runs=20).save(path)
    return path
