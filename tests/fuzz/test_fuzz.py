"""A short run of the fuzzing on every change, and that it finds what it is there to find.

The long run is ``python -m tests.fuzz``; run it after every change of a file format.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from random import Random

import pytest

from . import cases, doors
from .campaign import Record, Worker, run
from .seeds import KINDS, make

CASES = 40
"""Of each kind; all together take some ten seconds."""

# Native code that is held back by other work of the machine is no hang.
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")


def test_mutants_of_every_kind_are_done_with_or_refused(tmp_path):
    said: list[str] = []
    records = run(tmp_path, cases=CASES, say=said.append)
    assert not any(record.faults for record in records.values()), "\n".join(
        (*said, *(path.read_text() for path in (tmp_path / "faults").glob("*.why")))
    )
    for record in records.values():
        assert record.done == CASES
        # Mutants that are all refused at the door would say nothing of what is behind it.
        assert record.outcomes["done"] + record.outcomes["no answer"]
        assert record.outcomes["refused"]


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seeds") / "seeds"
    make(path)
    return path


def test_the_seeds_themselves_are_no_mutants(seeds, tmp_path):
    bench = cases.Bench(seeds, tmp_path / "bench")
    for kind in KINDS:
        for path in (seeds / kind).iterdir():
            outcome = bench.run_content(kind, path.read_bytes(), Random(1))
            # Open shapes may have to be given; a plan may be right without proof of all it claims.
            allowed = {"open_shapes": ("refused", "done")}.get(path.stem, ("done", "no answer"))
            assert outcome.result in allowed, (path, outcome)


def test_a_case_follows_from_seed_kind_and_number(seeds):
    for kind in KINDS:
        contents = [cases.content_of(seeds, 7, kind, n, cases.steps_of(7, kind, n)) for n in range(30)]
        assert contents == [cases.content_of(seeds, 7, kind, n, cases.steps_of(7, kind, n)) for n in range(30)]
        assert len(set(contents)) > 20


def _bad_error(file, rng):
    raise KeyError("fault")


def _endless(file, rng):
    while True:
        pass


def _swallowing(file, rng):
    try:
        _endless(file, rng)
    except BaseException:
        return 0


def _half_file(file, rng):
    return doors.writes(file.with_name("out.json"), lambda _: None, "half")


def _changes_input(file, rng):
    file.write_text("changed")
    return 0


def _leaves_a_file(file, rng):
    file.with_name(".x.tmp").touch()
    return 0


def _other_code(file, rng):
    return 3


@pytest.mark.parametrize(
    ("door", "result", "words"),
    [
        (_bad_error, "untyped", "KeyError"),
        (_endless, "hang", "TooLongError"),
        (_swallowing, "hang", "TooLongError"),
        (_half_file, "broken file", "has written its output"),
        (_changes_input, "broken file", "input has changed"),
        (_leaves_a_file, "broken file", "left over"),
        (_other_code, "untyped", "exit code 3"),
    ],
)
def test_every_kind_of_fault_is_noticed_and_the_next_case_starts_clean(
    seeds, tmp_path, monkeypatch, door, result, words
):
    def half(*arguments):
        Path(arguments[-1]).write_text("ha")
        return 2

    monkeypatch.setattr(doors, "call", half)
    monkeypatch.setattr(cases, "LIMIT_S", 0.2)
    bench = cases.Bench(seeds, tmp_path / "bench")
    monkeypatch.setitem(cases.DOORS, "plan", door)
    outcome = bench.run_content("plan", b"{}", Random(0))
    assert outcome.result == result
    assert words in outcome.signature
    monkeypatch.setitem(cases.DOORS, "plan", lambda *_: 0)
    assert bench.run_content("plan", b"{}", Random(0)).result == "done"


def test_a_process_that_dies_is_a_crash_and_another_one_goes_on(seeds, tmp_path):
    worker = Worker(seeds, tmp_path / "bench")
    try:
        steps = cases.steps_of(0, "plan", 0)
        first = worker.run(0, "plan", 0, steps)
        assert first.result in ("done", "no answer", "refused")
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGKILL)
        crashed = worker.run(0, "plan", 0, steps)
        assert (crashed.result, crashed.signature) == ("crash", f"the process ended with {-signal.SIGKILL}")
        assert worker.run(0, "plan", 0, steps).result == first.result
    finally:
        worker.close()


def test_a_run_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "plan.json"
    whole = run(tmp_path, kinds=("plan",), cases=12, say=lambda _: None)["plan"]
    path.unlink()
    run(tmp_path, kinds=("plan",), cases=5, say=lambda _: None)
    assert Record.load(path, "plan", 0).done == 5
    resumed = run(tmp_path, kinds=("plan",), cases=12, say=lambda _: None)["plan"]
    assert resumed.outcomes == whole.outcomes
    assert json.loads(path.read_text())["done"] == 12
    with pytest.raises(SystemExit, match="of seed 0"):
        run(tmp_path, kinds=("plan",), cases=12, seed=1, say=lambda _: None)
