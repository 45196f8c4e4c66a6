"""Stores: what goes wrong is said, nothing is lost, readers and writers live side by side."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from cimplan.errors import InputError, NoAnswerError
from cimplan.explore.address import Address
from cimplan.explore.locks import FileLock
from cimplan.explore.store import Store

SWEEP = "ab" * 32


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'results.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """The address of a fresh store of each kind."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server = request.getfixturevalue("postgres")
    with server.database() as address:
        yield address


def begin(store: Store, sweep: str = SWEEP, total: int = 3) -> None:
    store.begin_sweep(sweep, name="s", space={"a": 1}, columns=[("model", "text")], total=total)


def point(key: str, status: str = "optimal", **result: object) -> tuple[str, str, dict[str, object]]:
    return key, status, {"status": status, **result}


def test_the_first_result_of_a_point_stays_and_the_second_is_counted(url):
    with Store(url) as store:
        begin(store)
        store.add_members(SWEEP, [(0, "k0", {"model": "a"}), (1, "k1", {"model": "b"}), (2, "k0", {"model": "c"})])
        store.add_points([point("k0", makespan_ns=1.0)])
        store.add_points([point("k0", makespan_ns=2.0), point("k1", "failed", error="because")])
        assert store.results(["k0", "k1", "k2"]) == {
            "k0": {"status": "optimal", "makespan_ns": 1.0},
            "k1": {"status": "failed", "error": "because"},
        }
        assert [row["model"] for row in store.rows(SWEEP)] == ["a", "b", "c"]
        (status,) = store.sweeps()
        assert status.counts == {"optimal": 2, "failed": 1}
        assert (status.done, status.total, status.computed_again, status.running) == (3, 3, 2, False)
        assert status.last_activity is not None and status.started <= status.last_activity
        assert store.statuses(SWEEP) == {"k0": "optimal", "k1": "failed"}
        assert store.forget_failed(SWEEP) == 1
        assert store.statuses(SWEEP) == {"k0": "optimal"}
    with Store(url, must_exist=True) as again:
        assert again.sweeps()[0].columns == [("model", "text")]


def test_results_keep_their_order_and_types(url):
    result = {"zeta": 1, "alpha": 2.5, "text": "ü\n\"'", "none": None, "large": 2**52, "yes": True}
    with Store(url) as store:
        begin(store)
        store.add_members(SWEEP, [(0, "k", {"model": "m", "a": None})])
        store.add_points([("k", "optimal", result)])
        (row,) = store.rows(SWEEP)
    assert list(row) == ["model", "a", *result]
    assert row == {"model": "m", "a": None, **result}
    assert type(row["alpha"]) is float and type(row["large"]) is int


def test_many_points_take_few_statements(url):
    keys = [f"{number:064d}" for number in range(3_000)]
    with Store(url) as store:
        begin(store, total=len(keys))
        store.add_members(SWEEP, ((number, key, {"n": number}) for number, key in enumerate(keys)))
        store.add_points(point(key) for key in keys)
        assert store.count_members(SWEEP) == len(keys)
        assert len(store.results(keys)) == len(store.statuses(SWEEP)) == len(keys)
        assert [row["n"] for row in store.rows(SWEEP)] == list(range(len(keys)))


def test_one_sweep_is_computed_once_at_a_time_and_others_beside_it(url, monkeypatch):
    monkeypatch.setattr("cimplan.explore.locks._PATIENCE_S", 0.2)
    with Store(url) as one, Store(url) as two:
        begin(one)
        with one.exclusive(SWEEP):
            assert two.is_running(SWEEP)
            assert two.sweeps()[0].running
            with pytest.raises(NoAnswerError, match="another process is computing this sweep"), two.exclusive(SWEEP):
                pass
            with two.exclusive("cd" * 32):
                assert one.is_running("cd" * 32)
        assert not two.is_running(SWEEP)
        with two.exclusive(SWEEP):
            assert one.is_running(SWEEP)


def test_first_users_at_the_same_time_do_not_disturb_each_other(url):
    failures: list[Exception] = []

    def use(number: int) -> None:
        try:
            with Store(url) as store:
                store.add_points([point(f"k{number}")])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with Store(url, must_exist=True) as store:
        assert len(store.results([f"k{number}" for number in range(8)])) == 8


def test_looking_at_a_store_that_is_not_there_makes_none(url, tmp_path):
    with pytest.raises(InputError, match="there is no such store"):
        Store(url, must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_readers_do_not_wait_for_a_writer(tmp_path):
    with Store(sqlite_url(tmp_path)) as writer, Store(sqlite_url(tmp_path), must_exist=True) as reader:
        begin(writer)
        with writer._writing() as connection:
            connection.exec_driver_sql("update cimplan_sweeps set total = 7")
            assert reader.sweeps()[0].total == 3
        assert reader.sweeps()[0].total == 7


@pytest.mark.parametrize("content", [b"not a database at all" * 50, b"SQLite format 3\x00" + b"\x07" * 5000, b"x"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "results.db"
    path.write_bytes(content)
    for must_exist in (False, True):
        with pytest.raises(InputError, match=r"results\.db: the store cannot be used"):
            Store(sqlite_url(tmp_path), must_exist=must_exist)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "results.db") as other:
        other.execute("create table bookmarks (url text)")
    other.close()
    before = (tmp_path / "results.db").read_bytes()
    with pytest.raises(InputError, match="another program"):
        Store(sqlite_url(tmp_path))
    with pytest.raises(InputError, match="there is no such store"):
        Store(sqlite_url(tmp_path), must_exist=True)
    assert (tmp_path / "results.db").read_bytes() == before


def test_a_store_damaged_inside_is_refused_when_it_is_read(tmp_path):
    with Store(sqlite_url(tmp_path)) as store:
        begin(store)
        store.add_members(SWEEP, ((number, f"{number:064d}", {"n": number}) for number in range(500)))
        store.add_points(point(f"{number:064d}") for number in range(500))
    content = bytearray((tmp_path / "results.db").read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    (tmp_path / "results.db").write_bytes(content)
    with pytest.raises(InputError, match="the store cannot be used"), Store(sqlite_url(tmp_path)) as store:
        store.rows(SWEEP)


def test_a_store_of_another_version_is_refused(url):
    with Store(url) as store, store._writing() as connection:
        connection.exec_driver_sql("update cimplan_about set value = '99'")
    for must_exist in (False, True):
        with pytest.raises(InputError, match="another version"):
            Store(url, must_exist=must_exist)


def test_a_folder_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(InputError, match="unable to open database file"):
        Store(f"sqlite:///{tmp_path / 'nowhere' / 'results.db'}")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("results.db", "is not a store"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://me:geheim@host/db", "unknown kind"),
        ("postgresql://host/db", "needs a user"),
        ("postgresql://me:geheim@host:port/db", "is not a store"),
        ("postgresql://me:ge@heim@host/db", "%40"),
        ("postgresql://me:geheim@host/db?sslmode=require", "unknown options: sslmode"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(text, word):
    with pytest.raises(InputError, match=word) as raised:
        Address.parse(text).engine()
    assert "geheim" not in str(raised.value) and "heim@" not in str(raised.value)


def test_the_password_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "geheim")
    address = Address.parse("postgresql://me@host/db")
    assert address.url.password == "geheim"
    assert "geheim" not in address.shown
    assert Address.parse("postgresql://me:own@host/db").url.password == "own"


def test_a_lock_ends_with_its_holder(tmp_path):
    path = tmp_path / "a.lock"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from cimplan.explore.locks import FileLock\n"
            "lock = FileLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); time.sleep(600)",
            str(path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    mine = FileLock(path)
    assert mine.is_held() and not mine.acquire()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert not mine.is_held()
    assert mine.acquire() and FileLock(path).is_held() and not FileLock(path).acquire()
    mine.release()
    assert not path.exists() and not FileLock(path).is_held()


def test_only_one_of_many_holds_a_lock(tmp_path):
    path = tmp_path / "a.lock"
    inside = []
    most = []

    def work() -> None:
        for _ in range(200):
            lock = FileLock(path)
            if lock.acquire():
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) > 0


def edited(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / "results.db") as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def filled(folder: Path) -> None:
    with Store(sqlite_url(folder)) as store:
        begin(store, total=2)
        store.add_members(SWEEP, [(0, "k0", {"model": "a"}), (1, "k1", {"model": "b"})])
        store.add_points([point("k0", makespan_ns=1.0), point("k1", "failed", error="because")])


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("update cimplan_points set result = replace(result, '1.0', '0.5') where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set result = 'nonsense' where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set result = 7 where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set result = '[]' where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set result = x'00ff' where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set result = '" + "[" * 50_000 + "' where key = 'k0'", "key = 'k0'"),
        ("update cimplan_points set status = 'optimal' where key = 'k1'", "key = 'k1'"),
        ("update cimplan_members set design = replace(design, 'a', 'z') where number = 0", "number = '0'"),
        ("update cimplan_members set design = 'null' where number = 0", "number = '0'"),
        ("update cimplan_members set key = 'k1' where number = 0", "number = '0'"),
        ("update cimplan_members set number = 5 where number = 0", "number = '5'"),
    ],
)
def test_a_row_that_was_edited_by_hand_is_named(tmp_path, statement, row):
    filled(tmp_path)
    edited(tmp_path, statement)
    with Store(sqlite_url(tmp_path)) as store:
        with pytest.raises(InputError, match="changed by something else than cimplan") as raised:
            store.rows(SWEEP)
        assert row in str(raised.value)
        if "cimplan_points" in statement:
            with pytest.raises(InputError, match="changed by something else than cimplan"):
                store.results(["k0", "k1"])


@pytest.mark.parametrize(
    "change",
    [
        "total = 'many'",
        "started = 'yesterday'",
        "resumed = 1e30",
        "columns = '{}'",
        """columns = '[["model", "picture"]]'""",
        """columns = '[["model", "text"], ["model", "text"]]'""",
        "name = x'00'",
    ],
)
def test_a_sweep_that_was_edited_by_hand_is_named(tmp_path, change):
    filled(tmp_path)
    edited(tmp_path, f"update cimplan_sweeps set {change}")
    with Store(sqlite_url(tmp_path)) as store, pytest.raises(InputError, match="row of cimplan_sweeps was changed"):
        store.sweeps()


def test_a_row_that_was_edited_is_computed_anew_once_it_is_deleted(tmp_path):
    filled(tmp_path)
    edited(tmp_path, "update cimplan_points set result = 'nonsense' where key = 'k0'")
    edited(tmp_path, "delete from cimplan_points where key = 'k0'")
    with Store(sqlite_url(tmp_path)) as store:
        assert store.statuses(SWEEP) == {"k1": "failed"}
        store.add_points([point("k0", makespan_ns=1.0)])
        assert [row["status"] for row in store.rows(SWEEP)] == ["optimal", "failed"]


def test_rows_from_before_there_were_digests_are_read_if_they_have_the_right_types(tmp_path):
    filled(tmp_path)
    edited(
        tmp_path, "update cimplan_points set result = ? where key = 'k0'", '{"status": "optimal", "makespan_ns": 2.0}'
    )
    with Store(sqlite_url(tmp_path)) as store:
        assert store.rows(SWEEP)[0] == {"model": "a", "status": "optimal", "makespan_ns": 2.0}
    for value in ('"2"', "true", "NaN", "[1]"):
        edited(
            tmp_path,
            "update cimplan_points set result = ? where key = 'k0'",
            f'{{"status": "optimal", "makespan_ns": {value}}}',
        )
        with Store(sqlite_url(tmp_path)) as store, pytest.raises(InputError, match="changed by something else"):
            store.rows(SWEEP)


def test_a_store_that_another_program_holds_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("cimplan.explore.store._BUSY_MS", 100)
    filled(tmp_path)
    holder = sqlite3.connect(tmp_path / "results.db", isolation_level=None)
    holder.execute("begin immediate")
    with Store(sqlite_url(tmp_path)) as store:
        assert len(store.rows(SWEEP)) == 2
        with pytest.raises(InputError, match=r"database is locked\. Wait until the other program is done"):
            store.add_points([point("k2")])
    holder.execute("rollback")
    holder.close()


def test_a_store_that_may_only_be_read_is_said_with_what_to_do(tmp_path):
    filled(tmp_path)
    with Store(sqlite_url(tmp_path)) as store:
        sa.event.listen(store._engine, "connect", lambda connection, _: connection.execute("pragma query_only=on"))
        store._engine.dispose()
        assert len(store.rows(SWEEP)) == 2
        with pytest.raises(InputError, match=r"readonly database\. Make the file and its folder writable"):
            store.add_points([point("k2")])


@pytest.mark.parametrize("kept", [1, 15, 16, 99, 4096, 5000, 12288])
def test_a_store_that_was_cut_off_is_refused(tmp_path, kept):
    filled(tmp_path)
    path = tmp_path / "results.db"
    path.write_bytes(path.read_bytes()[:kept])
    refused = pytest.raises(InputError, match=r"results\.db: the store cannot be used")
    with refused, Store(sqlite_url(tmp_path)) as store:
        store.sweeps()
        store.rows(SWEEP)
    assert path.stat().st_size == kept


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links in the file system")
@pytest.mark.parametrize("kind", ["loop", "pipe", "folder", "device", "null"])
def test_a_place_that_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "results.db"
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    address = f"sqlite:///{path}\0" if kind == "null" else sqlite_url(tmp_path)
    for must_exist, said in ((False, "the store cannot be used"), (True, "there is no such store")):
        with pytest.raises(InputError, match=said):
            Store(address, must_exist=must_exist)
