"""Where results live: SQLite without any set-up, PostgreSQL by URL for teams.

A point is stored under a hash of everything it depends on, in one transaction with its neighbours of the same task,
and never changed afterwards. So a killed sweep loses only the tasks in flight, and no point is computed twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cimplan.errors import InputError, NoAnswerError

SCHEMA_VERSION = 1

_metadata = sa.MetaData()
_about = sa.Table(
    "cimplan_about", _metadata, sa.Column("name", sa.String(40), primary_key=True), sa.Column("value", sa.Text)
)
_profiles = sa.Table(
    "cimplan_profiles",
    _metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
_points = sa.Table(
    "cimplan_points",
    _metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("result", sa.JSON, nullable=False),
)
_sweeps = sa.Table(
    "cimplan_sweeps",
    _metadata,
    sa.Column("sweep", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("space", sa.JSON, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("started", sa.String(40), nullable=False),
)
_members = sa.Table(
    "cimplan_members",
    _metadata,
    sa.Column("sweep", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(64), nullable=False, index=True),
    sa.Column("design", sa.JSON, nullable=False),
)

_CHUNK = 400


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError as error:
        raise InputError(
            f"{text!r} is not a store", fix="Write sqlite:///results.db or postgresql://user@host/database"
        ) from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+pg8000")
    if url.drivername not in ("sqlite", "postgresql+pg8000"):
        raise InputError(
            "the store is of an unknown kind",
            where=url.render_as_string(hide_password=True),
            fix="Write sqlite:///results.db or postgresql://user@host/database",
        )
    if url.drivername == "sqlite" and not url.database:
        raise InputError("the store needs a file", where=text, fix="Write sqlite:///results.db")
    return url


class Store:
    """An open store; close it, or use it as a context manager.

    Parameters
    ----------
    url : str
        ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``.
    must_exist : bool
        Refuse to make a new SQLite file.

    Raises
    ------
    InputError
        If it cannot be opened, or was written by another version of the format.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        parsed = _url(url)
        self.where = parsed.render_as_string(hide_password=True)
        self._file = Path(parsed.database or "") if parsed.drivername == "sqlite" else None
        if self._file is not None and must_exist and not self._file.is_file():
            raise InputError("there is no such store", where=str(self._file), fix="Run `cimplan explore` first")
        self._engine = sa.create_engine(parsed)
        if self._file is not None:
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            _metadata.create_all(self._engine)
            with self._engine.begin() as connection:
                self._insert(connection, _about, [{"name": "schema_version", "value": str(SCHEMA_VERSION)}])
                found = connection.scalar(sa.select(_about.c.value).where(_about.c.name == "schema_version"))
        except (sa.exc.SQLAlchemyError, OSError) as error:
            self._engine.dispose()
            reason = str(getattr(error, "orig", None) or error)
            raise InputError(
                "the store cannot be opened",
                where=self.where,
                why=" ".join(reason.split())[:300],
                fix="Check the address, the rights, and that the folder exists",
            ) from error
        if found != str(SCHEMA_VERSION):
            self._engine.dispose()
            raise InputError(
                "the store is of another version", where=self.where, why=f"it has version {found}, not {SCHEMA_VERSION}"
            )

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    @contextmanager
    def exclusive(self, sweep: str) -> Iterator[None]:
        """Hold the right to compute a sweep; the system gives it back even after SIGKILL.

        Raises
        ------
        NoAnswerError
            If another process computes the same sweep in this store.
        """
        busy = NoAnswerError(
            "another process is computing this sweep",
            where=self.where,
            fix="Wait for it; `cimplan explore status` shows it",
        )
        if self._file is not None:
            # A second database beside the store, because a lock on the store itself would keep readers out.
            lock = sqlite3.connect(self._file.with_name(f"{self._file.name}.lock"), timeout=0, isolation_level=None)
            try:
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError as error:
                    raise busy from error
                yield
            finally:
                lock.close()
            return
        number = int(sweep[:15], 16)
        with self._engine.connect() as connection:
            if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(number))):
                raise busy
            connection.commit()
            try:
                yield
            finally:
                connection.scalar(sa.select(sa.func.pg_advisory_unlock(number)))
                connection.commit()

    def profile(self, key: str) -> bytes | None:
        """Return a stored host profile."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(_profiles.c.content).where(_profiles.c.key == key))

    def add_profile(self, key: str, content: bytes) -> bytes:
        """Store a host profile unless there is one already; return the one that is stored."""
        with self._engine.begin() as connection:
            self._insert(connection, _profiles, [{"key": key, "content": content}])
        return self.profile(key) or content

    def add_sweep(self, sweep: str, *, name: str, space: dict[str, Any], total: int, started: str) -> None:
        """Record a sweep; does nothing if it is known."""
        with self._engine.begin() as connection:
            row = {"sweep": sweep, "name": name, "space": space, "total": total, "started": started}
            self._insert(connection, _sweeps, [row])

    def add_members(self, sweep: str, members: Iterable[tuple[int, str, dict[str, Any]]]) -> None:
        """Record which points belong to a sweep: (number, key, design); known numbers stay as they are."""
        rows = [{"sweep": sweep, "number": number, "key": key, "design": design} for number, key, design in members]
        with self._engine.begin() as connection:
            for start in range(0, len(rows), _CHUNK):
                self._insert(connection, _members, rows[start : start + _CHUNK])

    def known(self, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the results that are stored, by key."""
        found: dict[str, dict[str, Any]] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(keys), _CHUNK):
                query = sa.select(_points.c.key, _points.c.result).where(
                    _points.c.key.in_(keys[start : start + _CHUNK])
                )
                found.update((row.key, row.result) for row in connection.execute(query))
        return found

    def add_points(self, results: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Store the results of one task, all or none: (key, status, result); a known key stays as it is."""
        rows = [{"key": key, "status": status, "result": result} for key, status, result in results]
        if rows:
            with self._engine.begin() as connection:
                self._insert(connection, _points, rows)

    def forget_failed(self, sweep: str) -> int:
        """Drop the failed points of a sweep so that they are tried again; return how many."""
        keys = sa.select(_members.c.key).where(_members.c.sweep == sweep)
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(_points).where(_points.c.status == "failed", _points.c.key.in_(keys)))
            return int(gone.rowcount)

    def sweeps(self) -> list[dict[str, Any]]:
        """Return every sweep with its counts of points by status, oldest first."""
        counted = (
            sa.select(_members.c.sweep, _points.c.status, sa.func.count().label("count"))
            .join(_points, _points.c.key == _members.c.key)
            .group_by(_members.c.sweep, _points.c.status)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(_sweeps).order_by(_sweeps.c.started, _sweeps.c.sweep)).mappings().all()
            counts: dict[str, dict[str, int]] = {}
            for row in connection.execute(counted):
                counts.setdefault(row.sweep, {})[row.status] = int(row._mapping["count"])
        return [{**row, "counts": counts.get(row["sweep"], {})} for row in rows]

    def rows(self, sweep: str) -> list[dict[str, Any]]:
        """Return designs and results of the finished points of a sweep, in the order of the space."""
        query = (
            sa.select(_members.c.number, _members.c.design, _points.c.result)
            .join(_points, _points.c.key == _members.c.key)
            .where(_members.c.sweep == sweep)
            .order_by(_members.c.number)
        )
        with self._engine.connect() as connection:
            return [{**row.design, **row.result} for row in connection.execute(query)]

    def _insert(self, connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        insert = sqlite.insert if self._file is not None else postgresql.insert
        connection.execute(insert(table).on_conflict_do_nothing(), rows)


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # A write-ahead log keeps readers going while a sweep writes; FULL survives a loss of power as well as SIGKILL.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA busy_timeout=30000")
