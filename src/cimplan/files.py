"""Files at the edge of the program: written whole or not at all, and identified by their content."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cimplan.errors import InputError
from cimplan.units import format_size

_CHUNK_BYTES = 1 << 20
_DIGITS_LIMIT = 400
_READ_FIX = "Give the file as cimplan wrote it, or make it again"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

SIZE_LIMIT_BYTES = 64 * 1024 * 1024
"""Of a JSON file; small objects take up to forty times their text in memory."""

_listeners: list[Callable[[Path, bool], object]] = []


def listen(listener: Callable[[Path, bool], object]) -> Callable[[], None]:
    """Have a function told of every unfinished file: its path, and whether it begins to exist; return what ends that.

    Who ends this process from outside can remove them.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@contextmanager
def _unfinished(path: Path) -> Iterator[None]:
    for listener in _listeners:
        listener(path, True)
    try:
        yield
    finally:
        for listener in _listeners:
            listener(path, False)


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Give an empty folder for files that nobody needs after the block."""
    folder = tempfile.TemporaryDirectory(prefix=f"cimplan-{purpose}-", ignore_cleanup_errors=True)
    with folder as name, _unfinished(Path(name)):
        yield Path(name)


def is_file(path: Path) -> bool:
    """Tell whether there is such a file; a name that no file can have (too long, a loop of links) is that of none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Tell whether there is such a folder; as `is_file`."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def open_input(path: Path, *, pipes: bool = False) -> BinaryIO:
    """Open a file for reading, without ever waiting for somebody to write to it.

    Parameters
    ----------
    path : Path
        The file.
    pipes : bool
        Take a pipe that somebody writes to, too, as a shell makes for ``<(command)``; one that nobody writes to is
        empty. Devices never are.

    Raises
    ------
    OSError
        If it cannot be read, or is no file; `strerror` says why in every case.
    """
    wait = getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, os.O_RDONLY | wait | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, "that is the name of no file", str(path)) from error
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not stat.S_ISREG(kind) and not (pipes and stat.S_ISFIFO(kind)):
            raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
        if wait:
            os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex digits, read in bounded memory."""
    digest = hashlib.sha256()
    with open_input(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place when the block ends well.

    If the block raises, the temporary file is removed and `path` is as it was. A symbolic link stays one: the file it
    points to is replaced. Devices and pipes are refused, as they would be turned into files.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written, or `path` is there and is not a file.
    """
    check_writable(path)
    path = path.resolve() if path.is_symlink() else path
    folder = path.parent
    try:
        # A character may take four bytes, and a file name has at most 255 of them.
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:32]}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise InputError(
            f"cannot write {path.name!r}", where=str(folder), why=str(error.strerror), fix="Choose another folder"
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        with _unfinished(temporary):
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            try:
                temporary.replace(path)
            except OSError as error:
                raise InputError(
                    f"cannot write {str(path)!r}", why=str(error.strerror), fix="Choose another file"
                ) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path, *inputs: Path | None) -> None:
    """Refuse a path that cannot become a file, or that is one of the files a command reads.

    Parameters
    ----------
    path : Path
        To be written.
    inputs : Path or None
        Files that must stay as they are; links to them count, too.

    Raises
    ------
    InputError
        If the folder does not exist, or `path` is a folder, a device, a pipe or an input.
    """
    try:
        if not path.parent.is_dir():
            raise InputError(
                f"cannot write {path.name!r}",
                where=str(path.parent),
                why="there is no such folder",
                fix="Choose another folder",
            )
        if not path.exists():
            path.resolve()
            return
        if not path.is_file():
            why = "it is a folder" if path.is_dir() else "it is a device or a pipe, not a file"
            raise InputError(f"cannot write {str(path)!r}", why=why, fix="Choose another file")
        for source in inputs:
            if source is not None and source.exists() and path.samefile(source):
                raise InputError(
                    "the output is a file that the command reads", where=str(path), fix="Choose another file"
                )
    except (OSError, RuntimeError) as error:
        why = str(error.strerror) if isinstance(error, OSError) else "its links lead in a circle"
        raise InputError(f"cannot write {str(path)!r}", why=why, fix="Choose another file") from error


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
        If it cannot be read or is not JSON, with line and column; if an object has a key twice, or text is not
        Unicode.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            raise InputError(f"the key {twice!r} is given twice", where=str(path), fix=_READ_FIX)
        return found

    try:
        with open_input(path, pipes=True) as stream:
            # A pipe has no size to look at first.
            content = stream.read(SIZE_LIMIT_BYTES + 1)
        if len(content) > SIZE_LIMIT_BYTES:
            limit = format_size(SIZE_LIMIT_BYTES)
            raise InputError(f"is not a {kind}", where=str(path), why=f"it is larger than {limit}", fix=_READ_FIX)
        text = content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=unique, parse_int=_whole_number)
        if _SURROGATE.search(text):
            # Half of a surrogate pair is an escape that JSON allows, but no text: it could never be written again.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except OSError as error:
        raise InputError(
            f"cannot read the {kind}", where=str(path), why=str(error.strerror), fix="Check the name of the file"
        ) from error
    except (UnicodeError, RecursionError) as error:
        raise InputError(f"is not a {kind}", where=str(path), why="it is not JSON text", fix=_READ_FIX) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not a {kind}",
            where=f"{path}:{error.lineno}:{error.colno}",
            why=f"not JSON: {error.msg}",
            fix=_READ_FIX,
        ) from error
    except _NumberTooLongError as error:
        raise InputError(f"is not a {kind}", where=str(path), why=str(error), fix=_READ_FIX) from error


def require_version(value: Mapping[str, Any], version: int, *, kind: str, where: str, remake: str) -> None:
    """Refuse the content of a file whose format is of another version, before anything else in it is looked at.

    Parameters
    ----------
    value : mapping
        What the file holds. One without the key ``schema_version`` passes: what is missing is the schema's business.
    version : int
        The version that this cimplan reads.
    kind : str
        What the file is ("plan").
    where : str
        The file, and the line where there are lines.
    remake : str
        What makes such a file anew, as the beginning of a sentence ("Make it again with `cimplan partition`").

    Raises
    ------
    InputError
        With both versions, what wrote the file where it says so, and what to do.
    """
    found = value.get("schema_version", version)
    if found == version:
        return
    wrote = next((text for key in ("tool_version", "cimplan_version") if isinstance(text := value.get(key), str)), "")
    shown = repr(found)
    raise other_version(
        kind, shown if len(shown) <= 60 else f"{shown[:57]}...", version, where=where, remake=remake, wrote=wrote
    )


def other_version(kind: str, found: object, version: int, *, where: str, remake: str, wrote: str = "") -> InputError:
    """Return the error about a file of another version of its format; see `require_version`.

    Parameters
    ----------
    kind, version, where, remake
        As there.
    found : object
        The version that the file has.
    wrote : str
        Version of the cimplan that wrote the file, if known.
    """
    return InputError(
        f"the {kind} is of another version",
        where=where,
        why=f"its schema_version is {found}, and this cimplan reads schema_version {version}",
        fix=f"{remake}, or use the cimplan that wrote it" + (f", {wrote[:40]}" if wrote else ""),
    )


class _NumberTooLongError(ValueError):
    pass


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS_LIMIT:
        raise _NumberTooLongError(f"a number in it has {len(digits)} digits")
    return int(digits)
