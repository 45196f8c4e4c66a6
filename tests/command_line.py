"""The command line as a user meets it, run in this process: arguments in, exit code and text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


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
            main(guarded=False)
        captured = capsys.readouterr()
        code = ended.value.code
        return Run(code if isinstance(code, int) else 1 if code else 0, captured.out, captured.err)

    return run
