"""Files at the edge of the program: written whole or not at all, and identified by their content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cimplan.errors import InputError

_CHUNK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex digits, read in bounded memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place when the block ends well.

    If the block raises, the temporary file is removed and `path` is as it was.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written.
    """
    folder = path.parent
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise InputError(
            f"cannot write {path.name!r}", where=str(folder), why=str(error.strerror), fix="Choose another folder"
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        try:
            temporary.replace(path)
        except OSError as error:
            raise InputError(f"cannot write {str(path)!r}", why=str(error.strerror)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to a file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Write a value as JSON with a final newline, whole or not at all."""
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, kind: str) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        What it should be, for the error ("profile", "plan").

    Raises
    ------
    InputError
        If it cannot be read or is not JSON; with line and column.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the {kind}", where=str(path), why=str(error.strerror)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not a {kind}", where=str(path), why="it is not JSON text") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not a {kind}", where=f"{path}:{error.lineno}:{error.colno}", why=f"not JSON: {error.msg}"
        ) from error
