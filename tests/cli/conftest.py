"""The command line as a user meets it: arguments in, exit code and text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest

from small_networks import small_network


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
