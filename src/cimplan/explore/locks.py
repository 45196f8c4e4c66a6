"""A lock on a file that the operating system gives back when its holder ends, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """An exclusive lock between processes, and between threads with a lock object each.

    Parameters
    ----------
    path : Path
        A file of its own; it exists while the lock is held.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock if nobody holds it; return whether it was taken.

        Raises
        ------
        OSError
            If the file cannot be made.
        """
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            if not _try_lock(handle):
                os.close(handle)
                return False
            if self._is_the_file(handle):
                self._handle = handle
                return True
            # The holder before us removed the file between our opening and locking it.
            os.close(handle)

    def release(self) -> None:
        """Give the lock back, and remove its file."""
        if self._handle is None:
            return
        with suppress(OSError):  # Windows keeps a file that is open; the next holder takes it as it is
            self._path.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None

    def is_held(self) -> bool:
        """Return whether someone holds the lock just now; makes no file."""
        try:
            handle = os.open(self._path, os.O_RDWR)
        except OSError:
            return False
        try:
            return not _try_lock(handle)
        finally:
            os.close(handle)

    def _is_the_file(self, handle: int) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        here = os.fstat(handle)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
