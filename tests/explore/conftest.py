"""Fixtures of the exploration tests: a folder with a small model, stores in files and on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from explore import postgres_server
from explore.explore_cases import tiny_network


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(tiny_network(), path)
    return path


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path) -> Path:
    """A folder with the model and nothing else."""
    (tmp_path / "tiny.onnx").write_bytes(tiny_model.read_bytes())
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    with postgres_server.started() as server:
        yield server
