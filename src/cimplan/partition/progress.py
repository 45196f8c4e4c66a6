"""Progress and interruption, the same for every partition method."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from cimplan import limits

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Progress:
    """What a method knows at one moment.

    Attributes
    ----------
    elapsed_s : float
        Wall seconds since the solve began.
    makespan : int or None
        Ticks of the best schedule so far.
    lower_bound : int
        Ticks no schedule can beat, as far as proven.
    phase : str
        What the method is doing, a few words.
    """

    elapsed_s: float
    makespan: int | None
    lower_bound: int
    phase: str = ""

    @property
    def gap(self) -> float | None:
        """(makespan - lower bound) / makespan; None without a schedule."""
        if self.makespan is None:
            return None
        return (self.makespan - self.lower_bound) / self.makespan if self.makespan else 0.0


PATIENCE_S: Final = 0.5
"""Seconds that a solver has to return what it has found, once it was asked to stop."""

ProgressCallback: TypeAlias = Callable[[Progress], None]
"""Called from the solver's thread; must be quick and must not raise."""


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The end of an interruptible call: its result unless it was abandoned, and whether Ctrl-C was pressed."""

    result: Result | None
    interrupted: bool


def interruptible(
    work: Callable[[], Result], stop: Callable[[], None], *, patience_s: float = PATIENCE_S, poll_s: float = 0.1
) -> Outcome[Result]:
    """Run a call into a solver so that Ctrl-C, and the time limit around it, stop it and keep what it has found.

    A solver written in C++ holds the main thread, where Python would notice Ctrl-C, and some replace the signal
    handler for good. So the solver runs in a thread of its own; Ctrl-C reaches the waiting main thread, which asks
    the solver to stop and takes its answer. Called from another thread it just runs the work.

    Parameters
    ----------
    work : callable
        Runs the solver and returns its answer.
    stop : callable
        Asks the solver to return soon.
    patience_s : float
        Seconds to wait for the answer after that; then, or at a second Ctrl-C, the solver is left to itself.
    poll_s : float
        Seconds between looks at the signals.

    Returns
    -------
    Outcome
        `result` is None only if the solver was abandoned.
    """
    if threading.current_thread() is not threading.main_thread():
        return Outcome(work(), interrupted=False)
    answers: list[Result] = []
    faults: list[BaseException] = []
    done = threading.Event()  # not `Thread.join`, which takes a thread for finished once Ctrl-C has interrupted it

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # handed to the caller's thread
            faults.append(error)
        done.set()

    interrupted = False
    try:
        threading.Thread(target=run, name="cimplan-solver", daemon=True).start()
        while not done.wait(poll_s):
            limits.watch()
    except (KeyboardInterrupt, limits.OutOfTimeError) as reason:
        interrupted = isinstance(reason, KeyboardInterrupt)
        stop()
        with suppress(KeyboardInterrupt, limits.OutOfTimeError), limits.unlimited():
            done.wait(patience_s)
    if faults:
        raise faults[0]
    return Outcome(answers[0] if answers else None, interrupted)
