"""A run of many cases: in a process that may die, with a record that goes on where it stopped.

A fault is counted under its signature. The first case of each is made smaller (as few of its changes as still show it)
and saved with its traceback. Running again with the same folder goes on after the last recorded case.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import seeds as seed_files
from .cases import FAULTS, Outcome, content_of, steps_of

WAIT_S = 30.0
"""After which a case that neither ends nor uses processor time is a hang."""

_RECORD_EVERY = 100


@dataclass
class Record:
    """What the cases of one kind came to so far."""

    kind: str
    seed: int
    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest_s: float = 0.0

    @classmethod
    def load(cls, path: Path, kind: str, seed: int) -> Record:
        if not path.is_file():
            return cls(kind, seed)
        held = json.loads(path.read_text())
        if held["seed"] != seed:
            raise SystemExit(f"{path} is of seed {held['seed']}; choose another folder, or this seed")
        return cls(**held | {"outcomes": Counter(held["outcomes"])})

    def save(self, path: Path) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.__dict__, indent=1))
        temporary.replace(path)

    @property
    def fault_count(self) -> int:
        return sum(self.outcomes[name] for name in FAULTS)


class Worker:
    """A process that runs cases; a new one follows it when it dies or hangs."""

    def __init__(self, seeds: Path, folder: Path) -> None:
        self._seeds, self._folder = seeds, folder
        self._process: subprocess.Popen[str] | None = None

    def run(self, seed: int, kind: str, number: int, steps: list[int]) -> Outcome:
        """Run one case, whatever becomes of the process."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        job = {"seed": seed, "kind": kind, "number": number, "steps": steps}
        began = time.monotonic()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._gone(began)
        if not select.select([process.stdout], [], [], WAIT_S)[0]:
            process.kill()
            self._gone(began)
            return Outcome("hang", "no answer, in native code or waiting", seconds=time.monotonic() - began)
        line = process.stdout.readline()
        return Outcome(**json.loads(line)) if line else self._gone(began)

    def _gone(self, began: float) -> Outcome:
        return Outcome("crash", f"the process ended with {self._end()}", seconds=time.monotonic() - began)

    def _start(self) -> subprocess.Popen[str]:
        tests = Path(__file__).parents[1]
        paths = [str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")]
        code = "import sys; from pathlib import Path; from fuzz.cases import serve; serve(*map(Path, sys.argv[1:]))"
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(self._seeds), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        )

    def close(self) -> None:
        """End the process, and remove its folder."""
        if self._process is not None:
            self._process.kill()
            self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> int:
        assert self._process is not None
        # Leaving the block closes the pipes and waits.
        with suppress(BrokenPipeError), self._process as process:
            pass
        self._process = None
        return process.wait()


def run(
    folder: Path,
    *,
    kinds: tuple[str, ...] = seed_files.KINDS,
    cases: int,
    seed: int = 0,
    until: float | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Record]:
    """Run, or resume, so many cases of each kind; return what they came to.

    Parameters
    ----------
    folder : Path
        Seeds, records (``KIND.json``) and inputs that showed a fault (``faults/``).
    kinds : tuple of str
        Kinds of file.
    cases : int
        Cases of each kind, those of earlier runs in this folder included.
    seed : int
        Another seed gives other cases.
    until : float, optional
        Reading of `time.monotonic` at which to stop.
    say : callable
        Told of progress and of each new fault.
    """
    folder = folder.resolve()
    seeds = folder / "seeds"
    if not seeds.is_dir():
        making = folder / f"seeds-{os.getpid()}"
        seed_files.make(making)
        making.rename(seeds)
    records = {kind: Record.load(folder / f"{kind}.json", kind, seed) for kind in kinds}
    worker = Worker(seeds, folder / f"bench-{os.getpid()}")
    try:
        for kind, record in records.items():
            while record.done < cases and (until is None or time.monotonic() < until):
                _case(record, worker, seeds, folder / "faults", say)
                if record.done % _RECORD_EVERY == 0:
                    record.save(folder / f"{kind}.json")
                if record.done % 1000 == 0:
                    say(line_of(record))
    finally:
        worker.close()
        for kind, record in records.items():
            record.save(folder / f"{kind}.json")
    return records


def line_of(record: Record) -> str:
    """Return a record as a line."""
    counts = ", ".join(f"{name} {count}" for name, count in sorted(record.outcomes.items()))
    faults = f"{record.fault_count} faults of {len(record.faults)} kinds" if record.faults else "0 faults"
    times = f"{record.seconds:.0f} s, slowest {record.slowest_s:.1f} s"
    return f"{record.kind}: {record.done} cases, {faults}; {counts}; {times}"


def _case(record: Record, worker: Worker, seeds: Path, faults: Path, say: Callable[[str], None]) -> None:
    number = record.done
    steps = steps_of(record.seed, record.kind, number)
    outcome = worker.run(record.seed, record.kind, number, steps)
    record.done += 1
    record.outcomes[outcome.result] += 1
    record.seconds += outcome.seconds
    record.slowest_s = max(record.slowest_s, outcome.seconds)
    if outcome.result not in FAULTS:
        return
    known = record.faults.get(outcome.signature)
    if known is not None:
        known["count"] += 1
        return
    fewest, shown = _minimal(record, worker, number, steps, outcome)
    faults.mkdir(exist_ok=True)
    name = f"{record.kind}-{number}{seed_files.SUFFIXES[record.kind]}"
    (faults / name).write_bytes(content_of(seeds, record.seed, record.kind, number, fewest))
    (faults / f"{name}.why").write_text(f"{shown.result}: {shown.signature}\n{shown.detail}\n")
    record.faults[outcome.signature] = {"result": outcome.result, "case": number, "count": 1, "input": name}
    say(f"{record.kind} {number}: {outcome.result}: {outcome.signature}")


def _minimal(
    record: Record, worker: Worker, number: int, steps: list[int], outcome: Outcome
) -> tuple[list[int], Outcome]:
    """Return the fewest changes of a case that show the same fault."""
    for count in range(1, len(steps)):
        for some in itertools.combinations(steps, count):
            found = worker.run(record.seed, record.kind, number, list(some))
            if found.signature == outcome.signature:
                return list(some), found
    return steps, outcome
