"""What a database says when it cannot be used, and what to do about it."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from cimplan.errors import InputError

_BUSY = "Wait until the other program is done with it, or close that; what is stored stays"
_READ_ONLY = "Make the file and its folder writable, or copy the store to a folder that is"
_DAMAGED = "It is damaged: bring back a copy, or begin another store; this file is left as it is"
_FULL = "Make room on the disk and run the same command again; what is stored stays"
_FIXES = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: "Choose another file",
    sqlite3.SQLITE_FULL: _FULL,
}
# SQLSTATE: the server shuts down, has crashed, or is starting; class 08 is about connections.
_LOST = ("57P01", "57P02", "57P03")


def is_lost(error: sa.exc.SQLAlchemyError) -> bool:
    """Tell whether a server is not there just now, rather than that it refuses what it was asked for."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    state = _fields(error).get("C", "")
    return (
        error.connection_invalidated
        or isinstance(error, sa.exc.InterfaceError)
        or state in _LOST
        or state.startswith("08")
    )


def unusable(error: Exception, where: str) -> InputError:
    """Return what a database said as an error of our own, without the password."""
    original = getattr(error, "orig", None) or error
    # The low byte is the kind of fault, the others say more about it.
    code = getattr(original, "sqlite_errorcode", 0) & 0xFF
    text = str(_fields(error).get("M", "") if _fields(error) else original)
    return InputError(
        "the store cannot be used",
        where=where,
        why=" ".join(text.split())[:300] or type(original).__name__,
        fix=_FIXES.get(code, "Check address, rights, disk space and that its folder exists; what is stored stays"),
    )


def _fields(error: Exception) -> dict[str, str]:
    """Return PostgreSQL's own message, which pg8000 hands on as a dictionary of one-letter fields."""
    original = getattr(error, "orig", None) or error
    details = original.args[0] if original.args else None
    return details if isinstance(details, dict) else {}
