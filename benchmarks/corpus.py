"""Every model of the `onnx` package's backend tests, of two releases, through inspect, partition, compile and quantize.

    python benchmarks/corpus.py                    # all of it, resumable; writes docs/corpus.md
    python benchmarks/corpus.py --only lstm        # the models whose names hold a word; nothing is written

The models are those of the installed release and of an older one, which is installed into a virtual environment of its
own below the store. Each model runs in a worker process that is ended when it takes too long. Ends with exit code 1 if
any model met a fault: an untyped error, a result that contradicts itself, or no end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "corpus"))

from onnx_cases import CONSTANTS
from through import COMMANDS, own_cache, run_all

from cimplan.files import write_text
from common import describe, machine, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "corpus.md"
OLDER = ("onnx==1.17.0", "numpy==2.4.6", "protobuf==7.36.2")
"""The older release, with versions of what it needs."""

_ENOUGH_S = 120.0
"""For one model through all commands; nearly all take less than a second."""

_MEMORY_BYTES = 8 << 30
_TITLES = {"done": "done", "refused": "refused, with a reason", "fault": "fault"}


@dataclass(frozen=True)
class Release:
    """The models of one release of onnx."""

    version: str
    folder: Path
    names: tuple[str, ...]

    def path(self, name: str) -> Path:
        """Return the file of a model."""
        return self.folder / f"{name}.onnx"


def collect(store: Path) -> list[Release]:
    """Write the models of both releases below the store, once."""
    older = store / "older"
    if not (older / "bin").exists():
        subprocess.run([sys.executable, "-m", "venv", older], check=True)
        subprocess.run([older / "bin" / "python", "-m", "pip", "install", "--quiet", *OLDER], check=True, timeout=600)
    releases = []
    for label, python in (("pinned", Path(sys.executable)), ("older", older / "bin" / "python")):
        folder = store / f"models-{label}"
        if not (folder / "cases.json").is_file():
            script = ROOT / "tests" / "corpus" / "onnx_cases.py"
            subprocess.run([python, script, folder], check=True, timeout=600)
        listing = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
        releases.append(Release(listing["onnx"], folder, tuple(listing["names"])))
    return releases


class Worker:
    """A process that takes models; another one takes its place when a model does not end."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def run(self, path: Path) -> list[dict[str, Any]]:
        """Return the outcomes of a model; what did not end or brought the process down is a fault."""
        outcomes: list[dict[str, Any]] = []
        try:
            self._here.send(str(path))
            while len(outcomes) < len(COMMANDS):
                if not self._here.poll(_ENOUGH_S):
                    outcomes.append({"outcome": "fault", "reason": f"no end after {_ENOUGH_S:.0f} s"})
                    break
                outcomes.append(self._here.recv())
        except (EOFError, OSError):
            self._process.join(10)
            outcomes.append({"outcome": "fault", "reason": f"the process died, code {self._process.exitcode}"})
        if len(outcomes) < len(COMMANDS) or "command" not in outcomes[-1]:
            outcomes[-1]["command"] = COMMANDS[len(outcomes) - 1]
            self.close()
            self._start()
        return outcomes

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    """Run in the worker: take paths, give outcomes."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    while True:
        try:
            path = pipe.recv()
        except EOFError:
            return
        with tempfile.TemporaryDirectory(prefix="corpus-") as name, own_cache(Path(name) / "cache"):
            for outcome in run_all(Path(path), Path(name)):
                pipe.send(outcome.to_json())


def source() -> str:
    """Return a short hash of cimplan's own source: what was run with another one is run again."""
    import cimplan

    digest = hashlib.sha256()
    for path in sorted(Path(cimplan.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


Record = dict[str, Any]
"""What the store holds of one model: its hash, cimplan's source, and an outcome for each command."""


def stored(results: Path) -> dict[str, Record]:
    """Return the latest record of each model, by the hash of its content."""
    if not results.is_file():
        return {}
    records = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {record["sha256"]: record for record in records}


def faulty(record: Record) -> bool:
    """Return whether a model met a fault."""
    return any(outcome["outcome"] == "fault" for outcome in record["outcomes"])


def run(models: dict[str, Path], results: Path, workers: int, *, faults: bool) -> dict[str, Record]:
    """Run models that the file of results does not have of this source, and return the latest record of each.

    With `faults`, models that met one before are run again. They and those never run come first.
    """
    found, ours = stored(results), source()
    todo = [
        (key, path)
        for key, path in models.items()
        if key not in found or found[key]["source"] != ours or (faults and faulty(found[key]))
    ]
    todo.sort(key=lambda item: item[0] in found and not faulty(found[item[0]]))
    waiting = iter(todo)
    done = 0

    def work(_: int) -> None:
        nonlocal done
        worker = Worker()
        try:
            # One item a call: workers share the iterator, and `next` of a list's iterator is atomic.
            while (item := next(waiting, None)) is not None:
                key, path = item
                found[key] = {"sha256": key, "model": path.stem, "source": ours, "outcomes": worker.run(path)}
                done += 1
                log.write(json.dumps(found[key]) + "\n")
                log.flush()
                for outcome in found[key]["outcomes"]:
                    if outcome["outcome"] == "fault":
                        print(f"FAULT {path}: {json.dumps(outcome)[:500]}", flush=True)
                if done % 200 == 0:
                    print(f"{done} of {len(todo)}", flush=True)
        finally:
            worker.close()

    with results.open("a", encoding="utf-8") as log, ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return found


def page(releases: list[Release], keys: dict[Path, str], found: dict[str, Record]) -> str:
    """Return the page of counts."""
    lines = [
        "# Other people's models, all of them",
        "",
        "Every model of the backend tests of the `onnx` package, through `inspect`, `partition`, `compile` and",
        "`quantize`: the model files that it ships and the node cases that it generates, of two releases. A node case",
        "has its weights as inputs, so each is tried a second time with all inputs but the first as constants, which",
        "is how networks carry weights.",
        "",
        "Whatever comes in, the answer is a result or a typed error that says what, where, why and what to do. A fault",
        "would be any other exception, a result that contradicts itself (a bound above its value, more crossbars than",
        "there are, a quantised file that does not load), or no end within two minutes. `partition` measures the host",
        "where ONNX Runtime runs the model; where it does not, costs are estimated from the file's graph.",
        "",
        "Made by `python benchmarks/corpus.py`; a part of it runs in CI (`tests/corpus`).",
        f"Machine: {describe(machine())}.",
        "",
        "## Models",
        "",
    ]
    rows = []
    for release in releases:
        kinds = Counter((name.split("/")[0], name.endswith(CONSTANTS)) for name in release.names)
        # The older release ships its node cases as files.
        nodes = sum(name.startswith(("node/", "file/node/")) and not name.endswith(CONSTANTS) for name in release.names)
        plain = kinds["file", False] + kinds["node", False]
        rows.append(
            (
                f"onnx {release.version}",
                plain - nodes,
                nodes,
                kinds["file", True] + kinds["node", True],
                len(release.names),
            )
        )
    lines.append(table(("release", "networks and layers", "node cases", "with constants", "all"), rows))
    distinct = sorted(set(keys.values()))
    lines += ["", f"Of these {len(keys):,} files {len(distinct):,} differ in content, and those are counted below.", ""]
    missing = len(distinct)
    distinct = [key for key in distinct if key in found]
    missing -= len(distinct)
    if missing:
        lines += [f"{missing:,} of them have not been run yet and are not counted.", ""]
    current = source()
    others = sum(found[key]["source"] != current for key in distinct)
    if others:
        lines += [f"{others:,} of them were last run with an earlier state of cimplan's source than this page.", ""]
    lines += ["## Outcomes", ""]
    rows = []
    for command in COMMANDS:
        tally = Counter(_of(found[key]["outcomes"], command)["outcome"] for key in distinct)
        rows.append((command, *(tally[outcome] for outcome in _TITLES), len(distinct)))
    lines.append(table(("command", *_TITLES.values(), "all"), rows))
    for command in COMMANDS:
        tally = Counter()
        for key in distinct:
            outcome = _of(found[key]["outcomes"], command)
            tally[_TITLES[outcome["outcome"]], outcome.get("costs", ""), outcome.get("reason", "")] += 1
        order = list(_TITLES.values())
        ranked = sorted(tally.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0]))
        lines += ["", f"## {command}", ""]
        if command == "partition":
            lines.append(
                table(
                    ("models", "outcome", "costs", "result or reason"),
                    [(count, outcome, costs or "–", reason) for (outcome, costs, reason), count in ranked],
                )
            )
        else:
            lines.append(
                table(
                    ("models", "outcome", "result or reason"),
                    [(count, outcome, reason) for (outcome, _, reason), count in ranked],
                )
            )
    return "\n".join(lines) + "\n"


def _of(outcomes: list[dict[str, Any]], command: str) -> dict[str, Any]:
    found = next((outcome for outcome in outcomes if outcome["command"] == command), None)
    return found or {"outcome": "fault", "reason": "not reached"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "corpus", help="models and results")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--page", action="store_true", help="only write the page from the store")
    parser.add_argument("--faults", action="store_true", help="run again what met a fault before")
    parser.add_argument("--limit", type=int, help="run no more than so many models now; nothing is written")
    arguments = parser.parse_args()
    arguments.store.mkdir(parents=True, exist_ok=True)
    releases = collect(arguments.store)
    paths = [release.path(name) for release in releases for name in release.names if arguments.only in name]
    keys = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    models = {key: path for path, key in reversed(keys.items())}
    # What the package ships and makes first, then the twins with constants.
    models = dict(sorted(models.items(), key=lambda item: CONSTANTS in item[1].name))
    partly = bool(arguments.only or arguments.limit)
    if arguments.limit:
        models = dict(list(models.items())[: arguments.limit])
    results = arguments.store / "results.jsonl"
    found = stored(results) if arguments.page else run(models, results, arguments.workers, faults=arguments.faults)
    faults = sum(faulty(found[key]) for key in models if key in found)
    print(f"{len(models)} models, {faults} with a fault")
    if not partly:
        write_text(PAGE, re.sub(r"[ \t]+\n", "\n", page(releases, keys, found)))
        print(f"wrote {PAGE.relative_to(ROOT)}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
