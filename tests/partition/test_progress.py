from __future__ import annotations

import subprocess
import sys

import pytest

from cimplan.partition.progress import Outcome, Progress, interruptible


def test_the_gap_is_relative_to_the_makespan() -> None:
    assert Progress(0.0, 200, 150).gap == 0.25
    assert Progress(0.0, 0, 0).gap == 0
    assert Progress(0.0, None, 150).gap is None


def test_an_undisturbed_call_returns_its_result() -> None:
    assert interruptible(lambda: 7, lambda: None) == Outcome(7, interrupted=False)


def test_a_fault_of_the_call_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)


def _press_ctrl_c_during(work: str, stop: str) -> list[str]:
    code = f"""
import os, signal, threading, time
from cimplan.partition.progress import interruptible
asked = threading.Event()
def work():
    os.kill(os.getpid(), signal.SIGINT)
    {work}
outcome = interruptible(work, lambda: {stop}, patience_s=0.2)
print(outcome.result, outcome.interrupted)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
except KeyboardInterrupt:
    print("still interruptible")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_ctrl_c_asks_the_solver_to_stop_and_takes_its_answer() -> None:
    assert _press_ctrl_c_during("return asked.wait(30) and 'best so far'", "asked.set()") == [
        "best so far True",
        "still interruptible",
    ]


def test_a_solver_that_does_not_stop_is_left_to_itself() -> None:
    assert _press_ctrl_c_during("time.sleep(30)", "None") == ["None True", "still interruptible"]
