"""Where results live: SQLite without any set-up, PostgreSQL by URL for teams.

A point is stored under a hash of everything it depends on, in one transaction with its neighbours of the same task,
and never changed afterwards. So a killed sweep loses only the tasks in flight, and no stored point is computed again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cimplan.errors import InputError, NoAnswerError
from cimplan.explore.address import Address
from cimplan.explore.locks import FileLock
from cimplan.explore.store_schema import (
    ABOUT,
    MEMBERS,
    METADATA,
    POINTS,
    PROFILES,
    SCHEMA_VERSION,
    SWEEPS,
    SweepStatus,
)
from cimplan.files import is_file, other_version

Item = TypeVar("Item")

_CHUNK = 500
_PATIENCE_S = 3.0
# Any number will do, if every cimplan takes the same.
_CREATION_LOCK = 0x63696D706C616E


class Store:
    """An open store; close it, or use it as a context manager.

    Parameters
    ----------
    url : str
        ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``; the password may also come from the
        environment variable ``PGPASSWORD``.
    must_exist : bool
        Make nothing that is not there yet.

    Raises
    ------
    InputError
        If it cannot be opened, belongs to another program, or was written by another version of the format.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        address = Address.parse(url)
        self.where = address.shown
        self._file = address.file
        if self._file is not None and must_exist and not is_file(self._file):
            raise self._missing()
        self._engine = address.engine()
        if self._file is not None:
            _require_sqlite(self._file, self.where)
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            self._open(must_exist)
        except BaseException:
            self._engine.dispose()
            raise

    def _open(self, must_exist: bool) -> None:
        with self._reading() as connection:
            names = set(sa.inspect(connection).get_table_names())
        if ABOUT.name not in names:
            if must_exist:
                raise self._missing()
            if names and self._file is not None:
                raise InputError(
                    "the file is a database of another program", where=self.where, fix="Choose another file"
                )
            self._create()
        with self._reading() as connection:
            found = connection.scalar(sa.select(ABOUT.c.value).where(ABOUT.c.name == "schema_version"))
        if found != str(SCHEMA_VERSION):
            raise other_version(
                "store",
                found,
                SCHEMA_VERSION,
                where=self.where,
                remake="Make another one with `cimplan explore SPACE.yaml --store URL`",
            )

    def _create(self) -> None:
        if self._file is not None:
            with self._reading() as connection:
                _keep_log(connection)
        with self._writing() as connection:
            # Two first users at once: one makes the tables, with the version, and the other finds them.
            if self._file is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            for table in METADATA.sorted_tables:
                connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(sa.schema.CreateIndex(index, if_not_exists=True))
            self._insert(connection, ABOUT, [{"name": "schema_version", "value": str(SCHEMA_VERSION)}])

    def _missing(self) -> InputError:
        return InputError("there is no such store", where=self.where, fix="Run `cimplan explore SPACE.yaml` first")

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
        if self._file is None:
            with self._reading() as connection:
                # A session that was killed a moment ago may take the server a moment to notice.
                self._wait_for(
                    lambda: bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_lock_of(sweep)))))
                )
                connection.commit()
                try:
                    yield
                finally:
                    # A broken connection has given its lock back.
                    if not connection.invalidated and not connection.closed:
                        connection.rollback()
                        connection.scalar(sa.select(sa.func.pg_advisory_unlock(_lock_of(sweep))))
                        connection.commit()
            return
        lock = FileLock(self._lock_file(sweep))
        try:
            self._wait_for(lock.acquire)
        except OSError as error:
            raise InputError(
                "the store cannot be written",
                where=self.where,
                why=str(error.strerror),
                fix="Choose a store in a folder that you can write to",
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _wait_for(self, taken: Any) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not taken():
            if time.monotonic() > until:
                raise NoAnswerError(
                    "another process is computing this sweep",
                    where=self.where,
                    fix="Wait for it; `cimplan explore status` shows how far it is",
                )
            time.sleep(0.1)

    def is_running(self, sweep: str) -> bool:
        """Return whether a process is computing a sweep just now."""
        if self._file is not None:
            return FileLock(self._lock_file(sweep)).is_held()
        number = _lock_of(sweep)
        query = sa.text(
            "select count(*) from pg_locks where locktype = 'advisory' and granted and objsubid = 1 "
            "and classid::bigint = :high and objid::bigint = :low "
            "and database = (select oid from pg_database where datname = current_database())"
        )
        with self._reading() as connection:
            return bool(connection.scalar(query, {"high": number >> 32, "low": number & 0xFFFFFFFF}))

    def _lock_file(self, sweep: str) -> Path:
        file = self._file or Path()
        return file.with_name(f"{file.name}-{sweep[:16]}.lock")

    def profile(self, key: str) -> bytes | None:
        """Return a stored host profile."""
        with self._reading() as connection:
            return connection.scalar(sa.select(PROFILES.c.content).where(PROFILES.c.key == key))

    def add_profile(self, key: str, content: bytes) -> bytes:
        """Store a host profile unless there is one already; return the one that is stored."""
        with self._writing() as connection:
            self._insert(connection, PROFILES, [{"key": key, "content": content}])
        return self.profile(key) or content

    def begin_sweep(
        self, sweep: str, *, name: str, space: dict[str, Any], columns: Sequence[tuple[str, str]], total: int
    ) -> None:
        """Record that a sweep starts or goes on."""
        now = time.time()
        row = {
            "sweep": sweep,
            "name": name,
            "space": space,
            "columns": [list(column) for column in columns],
            "total": total,
            "started": now,
            "resumed": now,
        }
        with self._writing() as connection:
            self._insert(connection, SWEEPS, [row])
            connection.execute(sa.update(SWEEPS).where(SWEEPS.c.sweep == sweep).values(resumed=now))

    def count_members(self, sweep: str) -> int:
        """Return how many points a sweep is known to have."""
        with self._reading() as connection:
            return int(
                connection.scalar(sa.select(sa.func.count()).select_from(MEMBERS).where(MEMBERS.c.sweep == sweep)) or 0
            )

    def add_members(self, sweep: str, members: Iterable[tuple[int, str, dict[str, Any]]]) -> None:
        """Record which points belong to a sweep: (number, key, design); a number is given anew if it is known."""
        with self._writing() as connection:
            for some in _batched(members, _CHUNK):
                rows = [
                    {"sweep": sweep, "number": number, "key": key, "design": design} for number, key, design in some
                ]
                self._insert(connection, MEMBERS, rows, replace=("key", "design"))

    def statuses(self, sweep: str) -> dict[str, str]:
        """Return the status of each finished point of a sweep by its key."""
        query = (
            sa.select(POINTS.c.key, POINTS.c.status)
            .join(MEMBERS, POINTS.c.key == MEMBERS.c.key)
            .where(MEMBERS.c.sweep == sweep)
        )
        with self._reading() as connection:
            return {row.key: row.status for row in connection.execute(query)}

    def results(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the results that are stored, by key."""
        found: dict[str, dict[str, Any]] = {}
        with self._reading() as connection:
            for some in _batched(keys, _CHUNK):
                query = sa.select(POINTS.c.key, POINTS.c.result).where(POINTS.c.key.in_(some))
                found.update((row.key, row.result) for row in connection.execute(query))
        return found

    def add_points(self, results: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Store the results of one task, all or none: (key, status, result); a known key keeps what it has."""
        now = time.time()
        rows = [
            {"key": key, "status": status, "result": result, "finished": now, "computed": 1}
            for key, status, result in results
        ]
        with self._writing() as connection:
            for some in _batched(rows, _CHUNK):
                self._insert(connection, POINTS, some, count="computed")

    def forget_failed(self, sweep: str) -> int:
        """Drop the failed points of a sweep so that they are tried again; return how many."""
        keys = sa.select(MEMBERS.c.key).where(MEMBERS.c.sweep == sweep)
        with self._writing() as connection:
            gone = connection.execute(sa.delete(POINTS).where(POINTS.c.status == "failed", POINTS.c.key.in_(keys)))
            return int(gone.rowcount)

    def sweeps(self) -> list[SweepStatus]:
        """Return every sweep, oldest first."""
        joined = MEMBERS.join(POINTS, POINTS.c.key == MEMBERS.c.key).join(SWEEPS, SWEEPS.c.sweep == MEMBERS.c.sweep)
        counted = (
            sa.select(
                MEMBERS.c.sweep,
                POINTS.c.status,
                sa.func.count().label("count"),
                sa.func.max(POINTS.c.finished).label("last"),
                sa.func.sum(sa.case((POINTS.c.finished >= SWEEPS.c.resumed, 1), else_=0)).label("since"),
                sa.func.sum(sa.case((POINTS.c.computed > 1, 1), else_=0)).label("again"),
            )
            .select_from(joined)
            .group_by(MEMBERS.c.sweep, POINTS.c.status)
        )
        with self._reading() as connection:
            sweeps = connection.execute(sa.select(SWEEPS).order_by(SWEEPS.c.started, SWEEPS.c.sweep)).mappings().all()
            groups = connection.execute(counted).mappings().all()
        found = []
        for row in sweeps:
            mine = [group for group in groups if group["sweep"] == row["sweep"]]
            found.append(
                SweepStatus(
                    sweep=row["sweep"],
                    name=row["name"],
                    total=row["total"],
                    counts={group["status"]: int(group["count"]) for group in mine},
                    started=row["started"],
                    resumed=row["resumed"],
                    last_activity=max((group["last"] for group in mine), default=None),
                    since_resumed=sum(int(group["since"]) for group in mine),
                    running=self.is_running(row["sweep"]),
                    computed_again=sum(int(group["again"]) for group in mine),
                    columns=[(name, kind) for name, kind in row["columns"]],
                )
            )
        return found

    def rows(self, sweep: str) -> list[dict[str, Any]]:
        """Return designs and results of the finished points of a sweep, in the order of the space."""
        query = (
            sa.select(MEMBERS.c.design, POINTS.c.result)
            .join(POINTS, POINTS.c.key == MEMBERS.c.key)
            .where(MEMBERS.c.sweep == sweep)
            .order_by(MEMBERS.c.number)
        )
        with self._reading() as connection:
            return [{**row.design, **row.result} for row in connection.execute(query)]

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._explained(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._explained(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the database says into an error of our own, without the password."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise InputError(
                "the store cannot be used",
                where=self.where,
                why=_reason(error),
                fix="Check address, rights, disk space and that its folder exists; what is stored stays",
            ) from error

    def _insert(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: list[dict[str, Any]],
        *,
        replace: Sequence[str] = (),
        count: str = "",
    ) -> None:
        """Insert rows; on a known key change nothing, or replace columns, or count up a column."""
        if not rows:
            return
        make = sqlite.insert if self._file is not None else postgresql.insert
        # One statement for all rows saves PostgreSQL a round trip each; SQLite has none, and compiles faster.
        insert: Any = make(table) if self._file is not None else make(table).values(rows)
        if replace:
            changes = {name: insert.excluded[name] for name in replace}
            statement = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)
        elif count:
            changes = {count: table.c[count] + 1}
            statement = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)
        else:
            statement = insert.on_conflict_do_nothing()
        if self._file is not None:
            connection.execute(statement, rows)
        else:
            connection.execute(statement)


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _lock_of(sweep: str) -> int:
    return int(sweep[:15], 16)


def _reason(error: Exception) -> str:
    original = getattr(error, "orig", None) or error
    details = original.args[0] if original.args else ""
    # PostgreSQL's own message, as pg8000 hands it on: a dictionary of one-letter fields.
    text = details.get("M", "") if isinstance(details, dict) else str(original)
    return " ".join(str(text).split())[:300] or type(original).__name__


def _require_sqlite(file: Path, where: str) -> None:
    """Refuse a file of another kind; SQLite itself takes a very short one for empty and writes over it."""
    try:
        with file.open("rb") as stream:
            start = stream.read(16)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            "the store cannot be used", where=where, why=str(error.strerror), fix="Choose another file"
        ) from error
    if start not in (b"", b"SQLite format 3\0"):
        raise InputError(
            "the store cannot be used", where=where, why="the file is not a SQLite database", fix="Choose another file"
        )


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA busy_timeout=30000")
    # A commit is on the disk when it returns: it survives a loss of power as well as SIGKILL.
    connection.execute("PRAGMA synchronous=FULL")


def _keep_log(connection: sa.Connection) -> None:
    """Give a new SQLite file a write-ahead log, which keeps readers going while a sweep writes."""
    for attempt in range(100):
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except sa.exc.OperationalError as error:
            # Two first users at once: this change does not wait for the lock by itself.
            if "locked" not in str(error) or attempt == 99:
                raise
            time.sleep(0.05)
