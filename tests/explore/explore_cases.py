"""A small network, spaces over it, and the command line in a process of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml


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
