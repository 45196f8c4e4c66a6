"""Files that can be made again at any time, kept in the user's cache directory."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cimplan.errors import InputError
from cimplan.files import replacing

DIRECTORY_VARIABLE = "CIMPLAN_CACHE_DIR"

_READABLE_LENGTH = 60
_TEMPORARY = re.compile(r"\.[A-Za-z0-9_.=-]{1,32}\.[a-z0-9_]{8}\.tmp")
"""Names that `cimplan.files.replacing` gives to files of the cache that are not finished."""
_ABANDONED_S = 24 * 3600.0
"""Age from which no process can still be at work on such a file."""


def cache_directory() -> Path:
    """Return the directory of cached files, which may not exist yet.

    It is the environment variable ``CIMPLAN_CACHE_DIR`` where set; otherwise ``cimplan`` in ``LOCALAPPDATA`` on
    Windows, in ``~/Library/Caches`` on macOS, and in ``XDG_CACHE_HOME`` or ``~/.cache`` elsewhere.

    Raises
    ------
    InputError
        If the user has no home directory and nothing else is set.
    """
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = None
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        # The XDG specification has relative paths ignored.
        if base and not Path(base).is_absolute():
            base = None
    if base:
        return Path(base) / "cimplan"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise InputError("there is no cache directory", why=str(error), fix=_fix()) from error
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "cimplan"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cimplan"


def path_of(key: str, suffix: str) -> Path:
    """Return where the cached file of a key is, or would be; arguments and errors as for `cached_file`."""
    readable = re.sub(r"[^A-Za-z0-9_.=]+", "-", key)[:_READABLE_LENGTH].strip("-.")
    return cache_directory() / f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{suffix}"


def cached_file(key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """Return the cached file of a key, made now if it is not there yet.

    The file appears whole or not at all. Processes that make it at the same time do not disturb each other: each
    makes its own and the last one stays, so `make` has to give the same content for the same key. What processes
    that were killed have left behind is removed after a day.

    Parameters
    ----------
    key : str
        Everything the content depends on, versions included; the readable start of it opens the file's name.
    suffix : str
        Of the file name, with its dot.
    make : callable
        Writes the content to the path it is given, which exists and is empty.

    Returns
    -------
    Path
        The file; not to be changed.

    Raises
    ------
    InputError
        If the cache cannot be written; names the variable that moves it.
    """
    path = path_of(key, suffix)
    folder = path.parent
    _sweep(folder)
    if path.is_file():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, str(error.strerror)) from error
    stage = "open"
    try:
        with replacing(path) as temporary:
            stage = "make"
            make(temporary)
            stage = "replace"
    except InputError as error:
        if stage == "make":
            raise
        # Windows refuses to replace a file that another process reads; that process made the same one.
        if stage == "replace" and path.is_file():
            return path
        raise _not_writable(folder, error.why) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise _not_writable(folder, str(error.strerror)) from error
        raise
    return path


def _sweep(folder: Path) -> None:
    """Remove unfinished files that nobody works on any more; what cannot be removed stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S:
                        Path(entry).unlink()


def _not_writable(folder: Path, why: str) -> InputError:
    return InputError("the cache cannot be written", where=str(folder), why=why, fix=_fix())


def _fix() -> str:
    return f"Set {DIRECTORY_VARIABLE} to a folder you can write to"
