"""Engines: each task once, a process that dies costs its task only, nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from cimplan.errors import InputError, InternalError
from cimplan.explore.engine import LocalEngine, SerialEngine

# Functions of tasks live in a module of their own, as processes start afresh and import it.
from explore.engine_tasks import crash_on_odd, crash_once, fail_on_odd, log_and_wait, square


def outcomes(engine, function, tasks):
    found = {}
    for task, outcome in engine.run(function, tasks):
        assert task not in found
        found[task] = outcome
    return found


@pytest.mark.parametrize("engine", [SerialEngine(), LocalEngine(2)], ids=["serial", "local"])
def test_each_task_ends_once_with_its_result_or_error(engine):
    assert outcomes(engine, square, range(20)) == {number: number**2 for number in range(20)}
    mixed = outcomes(engine, fail_on_odd, range(6))
    assert [mixed[number] for number in (0, 2, 4)] == [0, 2, 4]
    assert all(isinstance(mixed[number], ValueError) for number in (1, 3, 5))
    assert outcomes(engine, square, []) == {}


def test_a_task_that_kills_its_process_is_reported_and_the_others_have_results():
    found = outcomes(LocalEngine(2), crash_on_odd, [0, 2, 3, 4, 6, 8, 10])
    assert set(found) == {0, 2, 3, 4, 6, 8, 10}
    assert isinstance(found[3], InternalError) and "without an answer" in str(found[3])
    assert all(found[number] == number for number in found if number != 3)


def test_a_task_whose_process_was_killed_by_others_is_tried_again(tmp_path):
    tasks = [(str(tmp_path / "crashed"), number) for number in range(8)]
    found = outcomes(LocalEngine(2), crash_once, tasks)
    assert found == {task: task[1] for task in tasks}
    assert (tmp_path / "crashed").exists()


def test_tasks_are_taken_as_they_are_needed():
    taken = []

    def tasks():
        for number in range(100):
            taken.append(number)
            yield number

    engine = LocalEngine(2)
    running = engine.run(square, tasks())
    next(running)
    assert len(taken) <= 6
    running.close()


def test_processes_end_when_nobody_wants_their_results(tmp_path):
    running = LocalEngine(2).run(
        log_and_wait, [(str(tmp_path), number, 0.0 if number == 0 else 600.0) for number in range(9)]
    )
    next(running)
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < 60
    for name in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path(name).read_text()), signal.SIG_DFL)


def test_processes_that_cannot_start_are_said(monkeypatch):
    monkeypatch.setattr("cimplan.explore.engine._leave_with_parent", os.abort)
    with pytest.raises(InputError, match="no process can be started"):
        outcomes(LocalEngine(2), square, [1])
