"""What the command line prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cimplan.errors import CimplanError


def emit(line: str = "") -> None:
    """Print one line of a result."""
    sys.stdout.write(line + "\n")


def emit_json(value: Any) -> None:
    """Print a result as JSON."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def note(line: str) -> None:
    """Print one line that is not part of the result."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def fail(error: CimplanError) -> int:
    """Print an error as one paragraph and return its exit code."""
    note(f"cimplan: {error}")
    return error.exit_code


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
