"""Locks that are given back when their holder ends, however it ends: on a file, or of a PostgreSQL session."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

_PATIENCE_S = 3.0


def wait_for(taken: Callable[[], bool]) -> bool:
    """Ask for a lock until it is taken, or for a few seconds; return whether it was.

    A holder that was killed a moment ago may take the system, or the server, a moment to notice.
    """
    until = time.monotonic() + _PATIENCE_S
    while not taken():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


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


class SessionLock:
    """An advisory lock of a PostgreSQL session, and the connection that holds it.

    Whoever writes through this connection writes only while the lock is held: if the connection breaks, as when the
    server is restarted, lock and connection are gone together, and the next use takes both anew.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Connects to the server.
    number : int
        Of the lock, in 63 bits.
    """

    def __init__(self, engine: sa.Engine, number: int) -> None:
        self._engine = engine
        self._number = number
        self._held: sa.Connection | None = None

    def connection(self) -> sa.Connection | None:
        """Return the connection that holds the lock, outside of any transaction; None if somebody else has the lock.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the server cannot be reached.
        """
        if self._held is None:
            connection = self._engine.connect()
            try:
                if not wait_for(lambda: self._ask(connection, sa.func.pg_try_advisory_lock)):
                    connection.close()
                    return None
            except BaseException:
                connection.invalidate()
                connection.close()
                raise
            self._held = connection
        return self._held

    def drop(self) -> None:
        """Forget a connection that is broken; the server has given its lock back, or will."""
        if self._held is not None:
            with suppress(sa.exc.SQLAlchemyError):
                self._held.invalidate()
                self._held.close()
            self._held = None

    def release(self) -> None:
        """Give the lock back."""
        if self._held is None:
            return
        try:
            self._held.rollback()
            self._ask(self._held, sa.func.pg_advisory_unlock)
            self._held.close()
            self._held = None
        except sa.exc.SQLAlchemyError:
            self.drop()

    def _ask(self, connection: sa.Connection, function: Callable[[int], sa.ColumnElement[bool]]) -> bool:
        answer = bool(connection.scalar(sa.select(function(self._number))))
        connection.commit()
        return answer
