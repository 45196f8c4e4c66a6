"""Tasks for the engines' tests: good ones, failing ones, and ones that take their process with them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number**2


def fail_on_odd(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


def crash_on_odd(number: int) -> int:
    if number % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def crash_once(task: tuple[str, int]) -> int:
    file, number = task
    if number == 3 and not Path(file).exists():
        Path(file).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def log_and_wait(task: tuple[str, int, float]) -> int:
    folder, number, seconds = task
    Path(folder, str(number)).write_text(str(os.getpid()))
    time.sleep(seconds)
    return number
