"""Do limits hold? Every command on the worst inputs found, with a time limit, and some with SIGTERM instead.

    python benchmarks/limits.py
    python benchmarks/limits.py --only partition --limit 3 --output results

Promised is the limit and a second, or a tenth of the limit if that is more; after SIGTERM a second. A command that took
longer than that and `--noise` is repeated once. Exit code 1 if one did so twice, ended otherwise than 0 or 1, or left
files behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import describe, machine, table, write

CIMPLAN = [sys.executable, "-m", "cimplan"]
ENDINGS = (0, 1)
ENDINGS_OF_SIGNALS = (0, 1, 130)
PATIENCE_S = 60.0
"""Then a command that does not end is killed."""


@dataclass(frozen=True)
class Case:
    """A command line; `FILE` in it stands for the file that the input is."""

    command: str
    source: str
    arguments: tuple[str, ...]
    signal_after_s: float | None = None


def host_profile(path: Path, wired: Callable[[int], int | None], count: int) -> None:
    """Write a profile of products; `wired` tells of which product each reads the result."""
    tensors: dict[str, Any] = {"x": {"dtype": "int8", "shape": [1, 64]}}
    operators, times = [], {}
    for v in range(count):
        tensors[f"w{v}"] = {"dtype": "int8", "shape": [64, 64], "constant": True}
        tensors[f"y{v}"] = {"dtype": "int8", "shape": [1, 64]}
        before = wired(v)
        operators.append(
            {
                "name": f"m{v}",
                "op_type": "MatMul",
                "inputs": ["x" if before is None else f"y{before}", f"w{v}"],
                "outputs": [f"y{v}"],
                "work": {"outputs": 64, "inputs": 64, "mvms": 1},
                "weight_input": f"w{v}",
            }
        )
        times[f"m{v}"] = {"host_ns": 1000 + (v * 7919) % 5000, "kind": "measured"}
    graph = {"name": path.stem, "inputs": ["x"], "outputs": [f"y{v}" for v in range(count)], "operators": operators}
    content = {
        "schema_version": 1,
        "cimplan_version": "0",
        "origin": "measured",
        "model": {"name": path.stem, "sha256": "", "size_bytes": 0},
        "machine": {"cpu": "generated", "architecture": "none", "system": "none", "threads": 1},
        "graph": graph | {"tensors": tensors},
        "times": times,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def many_nodes(path: Path, count: int) -> None:
    """Write an ONNX file of a chain of products and activations."""
    nodes = []
    for v in range(count):
        source = "x" if v == 0 else f"t{v}"
        if v % 4 == 0:
            nodes.append(helper.make_node("MatMul", [source, "w"], [f"t{v + 1}"], name=f"n{v}"))
        else:
            nodes.append(helper.make_node("Relu" if v % 2 else "Tanh", [source], [f"t{v + 1}"], name=f"n{v}"))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "many",
        [info("x", TensorProto.FLOAT, [1, 16])],
        [info(f"t{count}", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


SPACE = """\
schema_version: 1
name: limits
models: [zoo:resnet50, zoo:mobilenet_v2]
hardware: rram-256-arm
vary:
  accelerator.crossbars: {from: 0, to: 400, step: 1}
objectives: [latency, crossbars]
"""


def make_inputs(folder: Path, wanted: set[str]) -> dict[str, str]:
    """Write the inputs that are generated; return the files by name. Plans, which take long, only if wanted."""
    made = {name: folder / f"{name}.json" for name in ("wide", "deep", "blocks", "cells")}
    host_profile(made["wide"], lambda v: None, 2000)
    host_profile(made["deep"], lambda v: v - 1 if v else None, 3000)
    # Ten blocks of sixty branches; cells in which each product reads one of the three before it.
    host_profile(made["blocks"], lambda v: (v // 60) * 60 - 1 if v >= 60 else None, 600)
    host_profile(made["cells"], lambda v: v - 1 - v * 7919 % 3 if v >= 3 else None, 900)
    made["nodes"], made["more_nodes"], made["space"] = folder / "n.onnx", folder / "m.onnx", folder / "space.yaml"
    many_nodes(made["nodes"], 3000)
    many_nodes(made["more_nodes"], 60_000)
    made["space"].write_text(SPACE, encoding="utf-8")
    made["plan"], made["chip_plan"] = folder / "plan.json", folder / "chip_plan.json"
    lines = {
        "plan": ["partition", "--profile", str(made["wide"]), "--method", "greedy", "-o", str(made["plan"]), "--quiet"],
        "chip_plan": ["compile", "zoo:opt_13b", "--time-limit", "40s", "-o", str(made["chip_plan"]), "--quiet"],
    }
    for name in lines.keys() & wanted:
        subprocess.run([*CIMPLAN, *lines[name]], stdout=subprocess.DEVNULL, check=True)
    return {name: str(path) for name, path in made.items()}


def cases() -> list[Case]:
    """Return every command with the worst inputs known for it."""
    found = []

    def add(command: str, source: str, *arguments: str, signal_after_s: float | None = None) -> None:
        found.append(Case(command, source, arguments, signal_after_s))

    for command in ("inspect", "quantize", "profile"):
        for source in ("nodes", "more_nodes"):
            out = {"quantize": ("-o", "OUT.onnx"), "profile": ("-o", "OUT.json")}
            add(command, source, "FILE", *out.get(command, ()))
    for source in ("wide", "deep", "blocks", "cells"):
        add("partition", source, "--profile", "FILE", "-o", "OUT.json")
    for method in ("cp-sat", "ilp", "greedy", "single-cut", "heft", "sequential-ilp"):
        add("partition", "wide", "--profile", "FILE", "--method", method, "-o", "OUT.json")
    add("partition", "blocks", "--profile", "FILE", "--curve", "-o", "OUT.json")
    add("partition", "more_nodes", "FILE")
    add("partition", "wide", "--profile", "FILE", "-o", "OUT.json", signal_after_s=3.0)
    add("compare", "wide", "--profile", "FILE")
    for source in ("zoo:opt_13b", "nodes"):
        add("compile", source, "FILE", "-o", "OUT.json", "--program", "OUT.program")
    add("compile", "zoo:opt_13b", "FILE", "-o", "OUT.json", signal_after_s=3.0)
    for source in ("plan", "chip_plan"):
        add("check", source, "FILE")
    for kind in ("csv", "trace"):
        add("export", "plan", "FILE", "--to", kind, "-o", f"OUT.{kind}")
    for kind in ("csv", "program"):
        add("export", "chip_plan", "FILE", "--to", kind, "-o", f"OUT.{kind}")
    add("export", "chip_plan", "FILE", "--to", "program", "-o", "OUT.program", signal_after_s=2.0)
    add("explore", "space", "FILE", "--store", "sqlite:///OUT.db", "--workers", "1")
    add("explore", "space", "FILE", "--store", "sqlite:///OUT.db", "--workers", "1", signal_after_s=3.0)
    add("reproduce", "klein2026", "FILE")
    add("reproduce", "cmswitch", "FILE")
    add("hardware", "rram-256", "check", "FILE")
    add("zoo", "opt_13b", "export", "FILE", "-o", "OUT.onnx")
    return found


def run(case: Case, files: dict[str, str], limit_s: float, folder: Path) -> dict[str, Any]:
    """Run a case once; return what it took, its exit code and what it left half-written."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        replaced = {"FILE": files.get(case.source, case.source)}
        line = [
            text if text == "OUT" else replaced.get(text, text.replace("OUT", f"{out}/out")) for text in case.arguments
        ]
        limit = [] if case.signal_after_s is not None else ["--time-limit", f"{limit_s:g}s"]
        temporary = Path(out) / "tmp"
        temporary.mkdir()
        began = time.perf_counter()
        process = subprocess.Popen(
            [*CIMPLAN, case.command, *line, *limit],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        sent = began
        if case.signal_after_s is not None:
            try:
                process.wait(case.signal_after_s)
            except subprocess.TimeoutExpired:
                sent = time.perf_counter()
                process.send_signal(signal.SIGTERM)
        try:
            said = process.communicate(timeout=PATIENCE_S)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[1]
        took = time.perf_counter() - (began if case.signal_after_s is None else sent)
        left = [path.name for path in (*Path(out).glob(".*.tmp"), *temporary.glob("cimplan-*"))]
        return {"took_s": round(took, 2), "code": process.returncode, "left": left, "said": said.strip()[-300:]}


def measure(case: Case, files: dict[str, str], limit_s: float, noise_s: float, folder: Path) -> dict[str, Any]:
    """Run a case, and once more if it took too long."""
    stopped = case.signal_after_s is not None
    promised = 1.0 if stopped else limit_s + max(1.0, limit_s / 10)
    found = run(case, files, limit_s, folder)
    if found["took_s"] > promised + noise_s:
        found = min(found, run(case, files, limit_s, folder), key=lambda one: one["took_s"])
    kept = found["took_s"] <= promised + noise_s and found["code"] in (ENDINGS_OF_SIGNALS if stopped else ENDINGS)
    words = " ".join(
        text for text in case.arguments if text.startswith("--") or text in ("exact", *_METHODS, *_FORMATS)
    )
    options = words.replace("--profile", "").replace("--store", "").replace("--workers", "").strip()
    return {
        "command": f"{case.command} {options}".strip(),
        "input": case.source,
        "limit": f"SIGTERM after {case.signal_after_s:g} s" if stopped else f"{limit_s:g} s",
        "promised_s": promised,
        "kept": kept and not found["left"],
        **found,
    }


_METHODS = ("cp-sat", "ilp", "greedy", "single-cut", "heft", "sequential-ilp")
_FORMATS = ("csv", "trace", "json", "program", "onnx")


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one command")
    parser.add_argument("--limit", type=float, default=3.0, help="seconds")
    parser.add_argument("--noise", type=float, default=0.3, help="seconds by which a busy machine may be late")
    parser.add_argument("--output", type=Path, help="folder for limits.md and limits.json")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="limits-") as name:
        chosen = [case for case in cases() if arguments.only in (None, case.command)]
        files = make_inputs(Path(name), {case.source for case in chosen})
        for case in chosen:
            rows.append(measure(case, files, arguments.limit, arguments.noise, Path(name)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    facts = machine()
    head = ("command", "input", "limit", "took s", "promised s", "exit code")
    lines = [[*(row[key] for key in ("command", "input", "limit", "took_s", "promised_s", "code"))] for row in rows]
    write(arguments.output, "limits", {"machine": facts, "rows": rows}, f"{describe(facts)}\n\n{table(head, lines)}")
    broken = [f"{row['command']} {row['input']}: {row}" for row in rows if not row["kept"]]
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
