"""Where results live: SQLite without any set-up, PostgreSQL by URL for teams.

A point is stored under a hash of everything it depends on, in one transaction with its neighbours of the same task,
and never changed afterwards. So a killed sweep loses only the tasks in flight, and no stored point is computed again.
A server that is restarted during a sweep is waited for, and the right to compute the sweep is taken anew.
"""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cimplan.errors import InputError, NoAnswerError
from cimplan.explore.address import Address
from cimplan.explore.locks import FileLock, SessionLock, wait_for
from cimplan.explore.store_faults import is_lost, unusable
from cimplan.explore.store_rows import checked_design, checked_rows, checked_sweep, read_json, sealed
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
Answer = TypeVar("Answer")

_CHUNK = 500
_TRANSACTION = 20 * _CHUNK
# How long a server that was there is waited for: longer than a restart takes.
_RECONNECT_S = 60.0
# How long a SQLite file that another program writes to is waited for.
_BUSY_MS = 30_000
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
        self._engine = address.engine(json_deserializer=read_json)
        self._session: SessionLock | None = None
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
            session = SessionLock(self._engine, _lock_of(sweep))
            with self._explained():
                if session.connection() is None:
                    raise self._taken("another process is computing this sweep")
            self._session = session
            try:
                yield
            finally:
                self._session = None
                session.release()
            return
        lock = FileLock(self._lock_file(sweep))
        try:
            taken = wait_for(lock.acquire)
        except OSError as error:
            raise InputError(
                "the store cannot be written",
                where=self.where,
                why=str(error.strerror),
                fix="Choose a store in a folder that you can write to",
            ) from error
        if not taken:
            raise self._taken("another process is computing this sweep")
        try:
            yield
        finally:
            lock.release()

    def _taken(self, what: str, why: str = "") -> NoAnswerError:
        return NoAnswerError(
            what, where=self.where, why=why, fix="Wait for it; `cimplan explore status` shows how far it is"
        )

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
        values = {"high": number >> 32, "low": number & 0xFFFFFFFF}
        return self._read(lambda connection: bool(connection.scalar(query, values)))

    def _lock_file(self, sweep: str) -> Path:
        file = self._file or Path()
        return file.with_name(f"{file.name}-{sweep[:16]}.lock")

    def profile(self, key: str) -> bytes | None:
        """Return a stored host profile."""
        query = sa.select(PROFILES.c.content).where(PROFILES.c.key == key)
        return self._read(lambda connection: connection.scalar(query))

    def add_profile(self, key: str, content: bytes) -> bytes:
        """Store a host profile unless there is one already; return the one that is stored."""
        self._write(lambda connection, _again: self._insert(connection, PROFILES, [{"key": key, "content": content}]))
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

        def begin(connection: sa.Connection, _again: bool) -> None:
            self._insert(connection, SWEEPS, [row])
            connection.execute(sa.update(SWEEPS).where(SWEEPS.c.sweep == sweep).values(resumed=now))

        self._write(begin)

    def count_members(self, sweep: str) -> int:
        """Return how many points a sweep is known to have."""
        query = sa.select(sa.func.count()).select_from(MEMBERS).where(MEMBERS.c.sweep == sweep)
        return self._read(lambda connection: int(connection.scalar(query) or 0))

    def add_members(self, sweep: str, members: Iterable[tuple[int, str, dict[str, Any]]]) -> None:
        """Record which points belong to a sweep: (number, key, design); a number is given anew if it is known."""
        for many in _batched(members, _TRANSACTION):
            rows = [
                {"sweep": sweep, "number": number, "key": key, "design": sealed(design, sweep, number, key)}
                for number, key, design in many
            ]
            self._write(partial(self._add_members, rows))

    def _add_members(self, rows: list[dict[str, Any]], connection: sa.Connection, _again: bool) -> None:
        for some in _batched(rows, _CHUNK):
            self._insert(connection, MEMBERS, some, replace=("key", "design"))

    def statuses(self, sweep: str) -> dict[str, str]:
        """Return the status of each finished point of a sweep by its key."""
        query = (
            sa.select(POINTS.c.key, POINTS.c.status)
            .join(MEMBERS, POINTS.c.key == MEMBERS.c.key)
            .where(MEMBERS.c.sweep == sweep)
        )
        return self._read(lambda connection: {row.key: row.status for row in connection.execute(query)})

    def results(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the results that are stored, by key.

        Raises
        ------
        InputError
            If a row was changed by something else than cimplan; names it.
        """
        found: dict[str, dict[str, Any]] = {}
        for some in _batched(keys, _CHUNK):
            query = sa.select(POINTS.c.key, POINTS.c.status, POINTS.c.result).where(POINTS.c.key.in_(some))
            rows = self._read(partial(_mappings, query))
            found.update((row["key"], result) for row, result in checked_rows(rows, self.where))
        return found

    def add_points(self, results: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Store the results of one task, all or none: (key, status, result); a known key keeps what it has."""
        now = time.time()
        rows = [
            {"key": key, "status": status, "result": sealed(result, key, status), "finished": now, "computed": 1}
            for key, status, result in results
        ]

        def add(connection: sa.Connection, again: bool) -> None:
            for some in _batched(rows, _CHUNK):
                # Again, after the connection broke: what is there now may be what this very call has stored.
                self._insert(connection, POINTS, some, count="" if again else "computed")

        self._write(add)

    def forget_failed(self, sweep: str) -> int:
        """Drop the failed points of a sweep so that they are tried again; return how many."""
        keys = sa.select(MEMBERS.c.key).where(MEMBERS.c.sweep == sweep)
        failed = sa.delete(POINTS).where(POINTS.c.status == "failed", POINTS.c.key.in_(keys))
        return self._write(lambda connection, _again: int(connection.execute(failed).rowcount))

    def sweeps(self) -> list[SweepStatus]:
        """Return every sweep, oldest first.

        Raises
        ------
        InputError
            If a row was changed by something else than cimplan; names it.
        """
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
        listed = sa.select(SWEEPS).order_by(SWEEPS.c.started, SWEEPS.c.sweep)
        sweeps, groups = self._read(partial(_mappings, listed)), self._read(partial(_mappings, counted))
        found = []
        for row in sweeps:
            mine = [group for group in groups if group["sweep"] == row["sweep"]]
            checked_sweep(row, mine, self.where)
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
        """Return designs and results of the finished points of a sweep, in the order of the space.

        Raises
        ------
        InputError
            If a row was changed by something else than cimplan; names it.
        """
        members = sa.select(MEMBERS.c.sweep, MEMBERS.c.number, MEMBERS.c.key, MEMBERS.c.design)
        query = (
            members.add_columns(POINTS.c.status, POINTS.c.result)
            .join(POINTS, POINTS.c.key == MEMBERS.c.key)
            .where(MEMBERS.c.sweep == sweep)
            .order_by(MEMBERS.c.number)
        )
        rows = self._read(partial(_mappings, query))
        return [{**checked_design(row, self.where), **result} for row, result in checked_rows(rows, self.where)]

    def _read(self, ask: Callable[[sa.Connection], Answer]) -> Answer:
        def read(_again: bool) -> Answer:
            with self._engine.connect() as connection:
                return ask(connection)

        return self._lasting(read)

    def _write(self, change: Callable[[sa.Connection, bool], Answer]) -> Answer:
        """Do something in a transaction; told whether a part of it may have been done already."""

        def write(again: bool) -> Answer:
            if self._session is None:
                with self._engine.begin() as connection:
                    return change(connection, again)
            held = self._session.connection()
            if held is None:
                raise self._taken(
                    "another process has taken over this sweep",
                    "the connection to the server was lost, and with it the right to compute it; what is stored stays",
                )
            with held.begin():
                return change(held, again)

        return self._lasting(write)

    def _lasting(self, work: Callable[[bool], Answer]) -> Answer:
        """Do something with the database; if a server that was there is lost, wait for it and do it again."""
        until = None
        with self._explained():
            while True:
                try:
                    return work(until is not None)
                except sa.exc.SQLAlchemyError as error:
                    now = time.monotonic()
                    until = now + _RECONNECT_S if until is None else until
                    if self._file is not None or not is_lost(error) or now > until:
                        raise
                    if self._session is not None:
                        self._session.drop()
                    time.sleep(0.2)

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
            raise unusable(error, self.where) from error

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


def _mappings(query: sa.Select[Any], connection: sa.Connection) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in connection.execute(query).mappings()]


def _lock_of(sweep: str) -> int:
    return int(sweep[:15], 16)


def _require_sqlite(file: Path, where: str) -> None:
    """Refuse a file of another kind; SQLite itself takes a very short one for empty and writes over it."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            # A pipe would keep us waiting.
            raise InputError("the store cannot be used", where=where, why="it is no file", fix="Choose another file")
        with file.open("rb") as stream:
            start = stream.read(16)
    except FileNotFoundError:
        return
    except ValueError as error:  # a name with a null character
        raise InputError(
            "the store cannot be used", where=where, why="its name is that of no file", fix="Choose another file"
        ) from error
    except OSError as error:
        raise InputError(
            "the store cannot be used", where=where, why=str(error.strerror), fix="Choose another file"
        ) from error
    if start not in (b"", b"SQLite format 3\0"):
        raise InputError(
            "the store cannot be used", where=where, why="the file is not a SQLite database", fix="Choose another file"
        )


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
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
