"""The address of a store: which database, and how to show it without its password."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cimplan.errors import InputError

_FIX = "Write sqlite:///results.db or postgresql://user@host/database"
_TIMEOUT_S = 60  # for an answer of the server


@dataclass(frozen=True)
class Address:
    """Where a store is.

    Attributes
    ----------
    url : sqlalchemy.URL
        With the password.
    shown : str
        For people and logs, the password hidden.
    file : Path or None
        The file of a SQLite store.
    """

    url: sa.URL
    shown: str
    file: Path | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Raises
        ------
        InputError
            If it is not one; the message never holds the password.
        """
        try:
            url = sa.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            # The cause holds the whole text, and with it perhaps a password.
            raise InputError(f"{_masked(text)!r} is not a store", fix=_FIX) from None
        if url.host is not None and "@" in url.host:
            raise InputError(
                f"{_masked(text)!r} is not a store",
                why="it has more than one @",
                fix="Write special characters of a password as in a web address (%40 for @), or use PGPASSWORD",
            )
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+pg8000")
        shown = url.render_as_string(hide_password=True).replace("+pg8000", "")
        if url.drivername not in ("sqlite", "postgresql+pg8000"):
            raise InputError("the store is of an unknown kind", where=shown, fix=_FIX)
        if url.drivername != "sqlite":
            if url.password is None:
                # None would not do: the driver takes it for bytes where the server asks for a password.
                url = url.set(password=os.environ.get("PGPASSWORD", ""))
            if not url.username:
                raise InputError("the store needs a user", where=shown, fix=_FIX)
            return cls(url, shown, None)
        if not url.database or url.database == ":memory:":
            raise InputError("the store needs a file", where=shown, fix=_FIX)
        return cls(url, shown, Path(url.database))

    def engine(self, **options: Any) -> sa.Engine:
        """Return an engine with options of SQLAlchemy; it connects on first use.

        Raises
        ------
        InputError
            If the driver is not installed or the address has unknown options.
        """
        unknown = sorted(set(self.url.query) - {"unix_sock"})
        if unknown:
            raise InputError(f"the address has unknown options: {', '.join(unknown)}", where=self.shown, fix=_FIX)
        if self.file is not None:
            return sa.create_engine(self.url, **options)
        # Closing a connection that is broken already is no news; without a handler it would be printed.
        logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())
        try:
            # A server that was restarted between two tasks is no reason to stop.
            return sa.create_engine(
                self.url,
                pool_pre_ping=True,
                connect_args={"timeout": _TIMEOUT_S, "password": self.url.password},
                **options,
            )
        except ImportError as error:
            raise InputError(
                "PostgreSQL needs the extra explore", where=self.shown, fix="pip install 'cimplan[explore]'"
            ) from error


def _masked(text: str) -> str:
    """Return an address that cannot be read, without what may be a password."""
    return f"{text.partition(':')[0]}://***@{text.rpartition('@')[2]}" if "@" in text else text
