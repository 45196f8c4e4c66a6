"""What the command line prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from cimplan.errors import CimplanError

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
    """Return text from a model without control characters, so that it cannot steer a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


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


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that something is going on; gives a function that changes the text.

    Nothing is printed when quiet or when standard error is not a terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)) as status:
        yield lambda text: status.update(Text(f"{what}: {text}"))


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
        signal.default_int_handler(number, frame)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
