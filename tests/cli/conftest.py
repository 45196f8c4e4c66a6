"""Fixtures of the tests of the command line: the command itself, a small model and its profile."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from command_line import cimplan as cimplan
from small_networks import small_network


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
