"""Fixtures of the exploration tests: a folder with a small model, stores in files and on a PostgreSQL server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from explore import postgres_server
from small_networks import small_network


@dataclass(frozen=True)
class Run:
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(small_network(), path)
    return path


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path) -> Path:
    """A folder with the model and nothing else."""
    (tmp_path / "tiny.onnx").write_bytes(tiny_model.read_bytes())
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run the command line in this process, which saves a start for each command; its workers are real."""
    from cimplan.cli import main

    def command(*arguments: object, code: int = 0) -> Run:
        monkeypatch.setattr(sys, "argv", ["cimplan", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(guarded=False)
        said = capfd.readouterr()
        assert ended.value.code == code, said.out + said.err
        return Run(said.out, said.err)

    return command


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    with postgres_server.started() as server:
        yield server
