"""What the benchmarks share: the machine they ran on, tables, and where results go."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("cimplan", "ortools", "onnxruntime", "numba", "numpy", "gurobipy")


def machine() -> dict[str, Any]:
    """Return processor, cores and versions; no host name."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def describe(facts: dict[str, Any]) -> str:
    """Return the machine as one line."""
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    busy = f", load average {facts['load_average'][0]}" if facts["load_average"] else ""
    return f"{facts['processor']}, {facts['cores']} cores{busy}; Python {facts['python']}, {packages}; {facts['date']}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table; numbers to the right."""
    rows = [[_cell(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(row[i][:1].isdigit() or row[i] in ("", "–") for row in rows) for i in range(len(head))
    ]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join("| " + " | ".join(line) + " |" for line in (list(head), rule, *rows))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write(output: Path | None, name: str, result: dict[str, Any], markdown: str) -> None:
    """Print the Markdown; with a folder also write it and the result there as NAME.md and NAME.json."""
    print(markdown)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (output / f"{name}.md").write_text(markdown + "\n", encoding="utf-8")
