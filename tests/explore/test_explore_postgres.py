"""A team's store: sweeps on a real PostgreSQL server, killed, refused, and unreachable."""

from __future__ import annotations

import random
import socket
import subprocess
import time

import pytest
import sqlalchemy as sa

from cimplan.errors import InputError, NoAnswerError
from cimplan.explore.store import Store
from explore.explore_cases import cimplan, command, write_space

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

SPACE = {
    "vary": {
        "accelerator.mvm_latency": {"from": "50ns", "to": "1us", "steps": 8, "scale": "log"},
        "accelerator.crossbars": {"from": 0, "to": 9, "step": 1},
    },
    "methods": ["greedy", "exact", "heft"],
}
POINTS = 8 * 10 * 3


def counts(store: Store) -> tuple[int, int]:
    """Points, and computations of points."""
    with store._reading() as connection:
        query = sa.text("select count(*), coalesce(sum(computed), 0) from cimplan_points")
        points, computed = connection.execute(query).one()
        return int(points), int(computed)


def test_a_sweep_that_is_killed_gives_the_table_of_a_local_one(folder, postgres):
    space = write_space(folder, **SPACE)
    cimplan("explore", space, "--store", f"sqlite:///{folder / 'local.db'}", "-o", folder / "local.csv")
    rng = random.Random(7)
    with postgres.database() as url, Store(url) as store:
        before = 0
        for _ in range(5):
            process = subprocess.Popen(
                command("explore", space, "--store", url, "--workers", 2, "-q"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            target = before + rng.randrange(1, 30)
            while counts(store)[0] < target and process.poll() is None:
                time.sleep(0.02)
            assert process.poll() is None, "the sweep was over before it could be killed"
            process.kill()
            process.wait()
            points, computed = counts(store)
            assert before <= points == computed
            before = points
        done = cimplan("explore", space, "--store", url, "-o", folder / "shared.csv", "--workers", 2)
        assert counts(store) == (POINTS, POINTS)
        assert (folder / "shared.csv").read_bytes() == (folder / "local.csv").read_bytes()
        assert postgres.password not in done.stdout + done.stderr
        assert "postgresql://cimplan:***@127.0.0.1" in done.stdout
        status = cimplan("explore", "status", "--store", url).stdout
        assert "complete" in status and postgres.password not in status
        cimplan("explore", "export", "--store", url, "-o", folder / "export.csv")
        assert (folder / "export.csv").read_bytes() == (folder / "local.csv").read_bytes()


def test_two_at_once_on_one_store_compute_each_point_once(folder, postgres):
    one = write_space(folder, **SPACE)
    other = folder / "other.yaml"
    other.write_text(one.read_text().replace("tiny-sweep", "other").replace("50ns", "40ns"))
    with postgres.database() as url:
        running = [
            subprocess.Popen(command("explore", path, "--store", url, "--workers", 1, "-q"), stdout=subprocess.DEVNULL)
            for path in (one, other)
        ]
        assert [process.wait(120) for process in running] == [0, 0]
        with Store(url, must_exist=True) as store:
            assert [sweep.done for sweep in store.sweeps()] == [POINTS, POINTS]


def test_a_wrong_password_is_said_and_never_shown(folder, postgres):
    url = postgres.url(password="Geheim123")
    for arguments in (("status", "--store", url), (write_space(folder), "--store", url)):
        done = cimplan("explore", *arguments, code=2)
        assert "password authentication failed" in done.stderr
        assert "Geheim123" not in done.stdout + done.stderr
        assert done.stderr.count("\n") == 1
    debug = cimplan_debug(url)
    assert "Geheim123" not in debug


def cimplan_debug(url: str) -> str:
    done = subprocess.run(command("--debug", "explore", "status", "--store", url), capture_output=True, text=True)
    assert "Traceback" in done.stderr
    return done.stdout + done.stderr


def test_the_password_of_the_environment_is_used(postgres):
    with postgres.database() as url:
        bare = url.replace(f":{postgres.password}@", "@")
        Store(url).close()
        assert cimplan("explore", "status", "--store", bare, PGPASSWORD=postgres.password).stdout
        assert "password" in cimplan("explore", "status", "--store", bare, code=2, PGPASSWORD="").stderr


def test_a_server_or_database_that_is_not_there_is_said(postgres):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    with pytest.raises(InputError, match="connect") as raised:
        Store(f"postgresql://me:Geheim123@127.0.0.1:{closed}/db")
    assert "Geheim123" not in str(raised.value)
    with pytest.raises(InputError, match="does not exist"):
        Store(postgres.url("nothing"))
    with pytest.raises(InputError, match="the store cannot be used") as raised:
        Store("postgresql://me:Geheim123@host.invalid/db")
    assert "Geheim123" not in str(raised.value)


def test_a_server_that_goes_away_is_said(postgres):
    with postgres.database() as url, Store(url) as store:
        admin = sa.create_engine(
            postgres.url().replace("postgresql:", "postgresql+pg8000:"), isolation_level="AUTOCOMMIT"
        )
        with pytest.raises(InputError, match="the store cannot be used"), store._reading() as connection:
            with admin.connect() as other:
                other.exec_driver_sql(
                    "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                    f"and datname = '{url.rpartition('/')[2]}'"
                )
            connection.execute(sa.text("select 1"))
        admin.dispose()
        # The next connection is a new one.
        assert store.sweeps() == []


def ended(store: Store) -> None:
    """Have the server end all other sessions of a store's database, as its administrator would."""
    with store._reading() as connection:
        connection.execute(
            sa.text(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and datname = current_database()"
            )
        )


def test_a_server_that_is_restarted_during_a_sweep_costs_nothing(folder, postgres):
    space = write_space(folder, **SPACE)
    cimplan("explore", space, "--store", f"sqlite:///{folder / 'local.db'}", "-o", folder / "local.csv")
    with postgres.database() as url:
        running = subprocess.Popen(
            command("explore", space, "--store", url, "--workers", 1, "-q", "-o", folder / "shared.csv"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for target in (10, 100):
            with Store(url) as store:
                while counts(store)[0] < target and running.poll() is None:
                    time.sleep(0.02)
            assert running.poll() is None, "the sweep was over before the server was restarted"
            postgres.stop()
            time.sleep(1)  # tasks end while no server is there
            postgres.start()
        _, said = running.communicate(timeout=120)
        assert (running.returncode, said) == (0, "")
        assert (folder / "shared.csv").read_bytes() == (folder / "local.csv").read_bytes()
        with Store(url, must_exist=True) as store:
            assert counts(store) == (POINTS, POINTS)
            assert not store.sweeps()[0].running


def test_the_right_to_a_sweep_is_taken_anew_before_anything_is_written(postgres):
    sweep = "ab" * 32
    with postgres.database() as url, Store(url) as one, Store(url) as two:
        with one.exclusive(sweep):
            ended(two)
            assert not two.is_running(sweep)
            one.add_points([("k", "optimal", {"status": "optimal"})])
            assert two.is_running(sweep)
            assert counts(two) == (1, 1)
        assert not two.is_running(sweep)


def test_a_sweep_that_another_process_took_over_writes_nothing_more(postgres, monkeypatch):
    monkeypatch.setattr("cimplan.explore.locks._PATIENCE_S", 0.2)
    sweep = "ab" * 32
    with postgres.database() as url, Store(url) as one, Store(url) as two, one.exclusive(sweep):
        ended(two)
        with two.exclusive(sweep):
            with pytest.raises(NoAnswerError, match="taken over this sweep"):
                one.add_points([("k", "optimal", {"status": "optimal"})])
            assert counts(two) == (0, 0)


def test_a_server_that_does_not_come_back_is_said(postgres, monkeypatch):
    monkeypatch.setattr("cimplan.explore.store._RECONNECT_S", 0.5)
    with postgres.database() as url, Store(url) as store:
        with store.exclusive("ab" * 32):
            postgres.stop()
            try:
                with pytest.raises(InputError, match="the store cannot be used"):
                    store.add_points([("k", "optimal", {"status": "optimal"})])
            finally:
                postgres.start()
        store.add_points([("k", "optimal", {"status": "optimal"})])
        assert counts(store) == (1, 1)
