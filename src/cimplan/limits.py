"""Limits of time and memory: one deadline for all that happens in a block, looked at in every loop that can be long.

A deadline belongs to a block, like a lock: ``with time_limit(10): …``. Loops call `watch`, which raises when the time
is up; the command line has the clock do so even where nothing calls it (`cimplan.cli.guard`). What is raised passes
through ``except Exception``, so that no library swallows it. Who has something worth keeping catches `OutOfTimeError`
and returns that; otherwise it leaves the block as `TimeLimitError`, with words for the user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from cimplan.errors import NoAnswerError

MEMORY_VARIABLE = "CIMPLAN_MEMORY_LIMIT"

_MEMORY_PART = 0.75
"""Part of the memory of this machine, or of the container, that a command may take unless told otherwise."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class TimeLimitError(NoAnswerError):
    """The time limit has passed, and there is nothing in hand."""


class MemoryLimitError(NoAnswerError):
    """The input needs more memory than it may take."""


class OutOfTimeError(BaseException):
    """The time is up: raised within a block with a time limit, and caught where there is something worth keeping."""


@dataclass(frozen=True)
class Deadline:
    """When a block has to end.

    Attributes
    ----------
    at : float
        Value of its clock, in seconds.
    limit_s : float
        What the user was promised, in seconds.
    clock : callable
        Gives the time; `time.monotonic` but in tests.
    """

    at: float
    limit_s: float
    clock: Callable[[], float] = time.monotonic

    def left_s(self) -> float:
        """Return the seconds left, none if it has passed."""
        return max(0.0, self.at - self.clock())


_current: ContextVar[Deadline | None] = ContextVar("cimplan deadline", default=None)

Listener = Callable[[Deadline | None], object]
_listeners: list[Listener] = []


@contextmanager
def time_limit(
    seconds: float | None, *, spent_s: float = 0.0, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Let a block end in time; within another such block the nearer deadline counts.

    Parameters
    ----------
    seconds : float or None
        None for no limit but those around this block.
    spent_s : float
        What of them is spent already.
    clock : callable
        Gives the time in seconds.

    Raises
    ------
    TimeLimitError
        If the time passes and nothing in the block has caught that.
    """
    around = _current.get()
    if seconds is None or (around is not None and around.left_s() <= seconds - spent_s):
        yield
        return
    try:
        with _set(Deadline(clock() + seconds - spent_s, seconds, clock)):
            yield
    except OutOfTimeError:
        raise time_limit_error(seconds) from None


@contextmanager
def unlimited() -> Iterator[None]:
    """Let a block that hands over what is already there take the time it takes."""
    with _set(None):
        yield


@contextmanager
def _set(deadline: Deadline | None) -> Iterator[None]:
    before = _current.get()
    try:
        # Within the try: the clock may strike here, and a deadline that stayed would end all that comes after.
        _current.set(deadline)
        _tell()
        yield
    finally:
        with suppress(OutOfTimeError):
            _current.set(before)
        _current.set(before)
        _tell()


def current() -> Deadline | None:
    """Return the deadline that counts here."""
    return _current.get()


def time_left_s() -> float | None:
    """Return the seconds until the deadline that counts here; None without one."""
    deadline = _current.get()
    return None if deadline is None else deadline.left_s()


def watch() -> None:
    """Raise if the deadline that counts here has passed; costs a tenth of a microsecond without one.

    Raises
    ------
    OutOfTimeError
        If so.
    """
    deadline = _current.get()
    if deadline is not None and deadline.clock() >= deadline.at:
        raise OutOfTimeError


def time_limit_error(seconds: float) -> TimeLimitError:
    """Return the error of a limit that has passed with nothing in hand."""
    return TimeLimitError(
        f"the time limit of {seconds:g} s has passed before there was a result",
        fix="Give more time with --time-limit (time_limit_s in Python), or a smaller input",
    )


def listen(listener: Listener) -> Callable[[], None]:
    """Have a function told of every deadline that begins to count, or of None; return what ends that."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def _tell() -> None:
    for listener in _listeners:
        listener(_current.get())


def default_memory_bytes() -> int | None:
    """Return how much memory a command takes at most unless told otherwise; None where that is not known.

    Three quarters of the machine's memory, or of what the container has.
    """
    known = [size for size in (_machine_bytes(), *map(_cgroup_bytes, _CGROUP_LIMITS)) if size]
    return int(min(known) * _MEMORY_PART) if known else None


def _machine_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    except (OSError, ValueError, StopIteration):
        return None


def _cgroup_bytes(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # none, or the word "max"
