"""What the command line costs: start-up time, and peak memory of planning a network with large weights.

    python benchmarks/cli.py
    python benchmarks/cli.py --models vgg16,resnet50 --repeat 15

Start-up is measured in turn with an empty interpreter (`python -c pass`), so that the ratio holds on a busy machine.
Memory is the largest resident set of the planning process, from a profile that another process saved before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from common import describe, machine, table, write

CIMPLAN = [sys.executable, "-m", "cimplan"]


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return wall seconds and the largest resident set in MB (10^6 bytes)."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return elapsed, usage.ru_maxrss * unit / 1e6


def startup(repeat: int) -> list[dict[str, Any]]:
    """Time the help, the version and an import beside an empty interpreter, in turns."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "cimplan --help": [*CIMPLAN, "--help"],
        "cimplan --version": [*CIMPLAN, "--version"],
        "cimplan partition --help": [*CIMPLAN, "partition", "--help"],
        "python -c 'import cimplan'": [sys.executable, "-c", "import cimplan"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(repeat + 1):
        for name, command in commands.items():
            elapsed, _ = timed(command)
            if number:  # the first round fills the file cache
                times[name].append(elapsed)
    empty = median(times["python -c pass"])
    return [
        {"command": name, "median_s": median(some), "least_s": min(some), "ratio": median(some) / empty}
        for name, some in times.items()
    ]


def memory(model: str, folder: Path) -> list[dict[str, Any]]:
    """Return peak memory of planning from a saved profile, without and with the model's file."""
    profile = folder / f"{model}.json"
    _, profiling_mb = timed([*CIMPLAN, "profile", f"zoo:{model}", "-o", str(profile), "--measure-for", "2s", "--quiet"])
    found = [{"model": model, "step": "profile (loads the weights)", "peak_mb": profiling_mb, "wall_s": None}]
    for step, argument in (("partition --profile", []), ("partition MODEL --profile", [f"zoo:{model}"])):
        elapsed, peak = timed([*CIMPLAN, "partition", *argument, "--profile", str(profile), "--quiet", "--json"])
        found.append({"model": model, "step": step, "peak_mb": peak, "wall_s": elapsed})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vgg16")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--output", type=Path, help="folder for cli.json and cli.md")
    options = parser.parse_args()
    facts = machine()
    starts = startup(options.repeat)
    with tempfile.TemporaryDirectory() as folder:
        peaks = [one for model in options.models.split(",") for one in memory(model, Path(folder))]
    text = "\n\n".join(
        [
            "# Command line",
            describe(facts) + ".",
            table(
                ["command", "median s", "least s", "ratio to an empty interpreter"],
                [
                    [one["command"], f"{one['median_s']:.3f}", f"{one['least_s']:.3f}", f"{one['ratio']:.1f}"]
                    for one in starts
                ],
            ),
            table(
                ["model", "step", "peak MB", "s"],
                [[one["model"], one["step"], round(one["peak_mb"]), one["wall_s"]] for one in peaks],
            ),
        ]
    )
    write(options.output, "cli", {"machine": facts, "startup": starts, "memory": peaks}, text)


if __name__ == "__main__":
    main()
