"""What the command line prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from cimplan.cli import guard
from cimplan.errors import CimplanError, shortened

if TYPE_CHECKING:
    from rich.text import Text

_MESSAGE_LIMIT = 2000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def emit(line: str = "") -> None:
    """Print one line of a result, or several; control characters of a name in it cannot steer a terminal."""
    sys.stdout.write(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", line) + "\n")


def emit_json(value: Any) -> None:
    """Print a result as JSON."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def note(line: str) -> None:
    """Print one line that is not part of the result, if anybody still reads."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        settle(sys.stderr)


def settle(stream: TextIO) -> None:
    """Write what a stream still holds; if that is impossible, let it go nowhere from now on."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def fail(error: CimplanError) -> int:
    """Print an error as one paragraph and return its exit code."""
    note(f"cimplan: {paragraph(str(error))}")
    return error.exit_code


def paragraph(text: str) -> str:
    """Return a message as one printable paragraph of bounded length; it may quote a hostile file or option."""
    text = printable(" ".join(text.split()))
    half = _MESSAGE_LIMIT // 2
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[:half]} … {text[-half:]}"


def printable(text: str) -> str:
    """Return text from a model without control characters, so that it cannot steer a terminal, long names shortened."""
    shown = shortened(text)
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()) -> None:
    """Print a plain table: columns aligned, those named in `right` to the right; no line is cut or wrapped."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(headers), *cells]) for column in range(len(headers))]
    to_right = set(right)
    for row in [list(headers), ["-" * width for width in widths], *cells]:
        aligned = (
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        emit("  ".join(aligned).rstrip())


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print name and value pairs, values aligned."""
    rows = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        emit(f"  {name.ljust(width)}  {printable(value)}")


class Doing:
    """The line of a terminal that says what is going on, and for how long.

    Parameters
    ----------
    what : str
        A few words.
    """

    def __init__(self, what: str) -> None:
        self._what, self._more, self._began = what, "", time.monotonic()

    def __call__(self, more: str) -> None:
        """Say more about it."""
        self._more = more

    def turn_to(self, what: str) -> None:
        """Say that something else is going on now."""
        self._what, self._more, self._began = what, "", time.monotonic()

    def __str__(self) -> str:
        """Return the line of this moment; the clock runs whether anything is said or not."""
        return f"{self._what}, {time.monotonic() - self._began:.0f} s" + (f": {self._more}" if self._more else "")

    def __rich__(self) -> Text:
        """Return the line each time that rich draws it, several times a second."""
        from rich.text import Text

        return Text(printable(str(self)))


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[Doing]:
    """Show on a terminal that something is going on; gives what changes the text.

    Nothing is printed when quiet or when standard error is not a terminal.
    """
    doing = Doing(what)
    if quiet or not sys.stderr.isatty():
        yield doing
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield doing


@contextmanager
def terminating() -> Iterator[None]:
    """Let SIGTERM stop a command like Ctrl-C, so that a scheduler's time limit still gets the best plan so far.

    Not for commands with processes of their own, which would inherit that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether Ctrl-C was pressed in the block, also where the work went on after it."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        guard.answer()
        signal.default_int_handler(number, frame)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
