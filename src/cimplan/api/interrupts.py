"""Ctrl-C while a plan is made: it ends the search for a better plan or a proof, never the plan that is there."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], Any]

ECHO_S: Final = 0.3
"""Ctrl-C that comes so soon after another is the same one: shells and wrappers pass a signal on once more."""


class Interrupts:
    """What becomes of Ctrl-C: `KeyboardInterrupt`, as long as there is nothing to lose, and only a mark after that.

    Parameters
    ----------
    otherwise : callable
        The handler before this one; told of every Ctrl-C, what it raises is dropped while `held`.

    Attributes
    ----------
    pressed : bool
        Whether there was one.
    held : bool
        Whether one is only marked now.
    """

    def __init__(self, otherwise: Handler = signal.default_int_handler) -> None:
        self.pressed = self.held = False
        self._otherwise = otherwise
        self._last = -ECHO_S

    def hold(self) -> None:
        """Only mark Ctrl-C from now on."""
        self.held = True

    @contextmanager
    def let_one_through(self) -> Iterator[None]:
        """Raise `KeyboardInterrupt` in the block, once."""
        before, self.held = self.held, False
        try:
            yield
        finally:
            self.held = before

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        echo = time.monotonic() - self._last < ECHO_S
        self._last = time.monotonic()
        if echo:
            return
        self.pressed = True
        if self.held:
            with suppress(KeyboardInterrupt):
                self._otherwise(number, frame)
        else:
            self._otherwise(number, frame)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Give control over Ctrl-C in the block.

    Nothing changes in a thread other than the main one, nor where the process ignores Ctrl-C or is ended by it.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield Interrupts()
        return
    found = Interrupts(previous)
    signal.signal(signal.SIGINT, found.handle)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, previous)
