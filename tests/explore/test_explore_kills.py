"""A sweep that is killed again and again ends with the table of one that was not, and computes nothing twice."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from cimplan.explore.store import Store
from explore.explore_cases import cimplan, command, finished, write_space

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

KILLS = 30
SPACE = {
    "vary": {
        "accelerator.mvm_latency": {"from": "50ns", "to": "1us", "steps": 40, "scale": "log"},
        "bus.bandwidth": ["1GB/s", "4GB/s", "16GB/s"],
        "accelerator.crossbars": {"from": 0, "to": 11, "step": 1},
    },
    "methods": ["greedy", "exact", "heft"],
}
POINTS = 40 * 3 * 12 * 3
POINTS_BETWEEN_KILLS = POINTS // KILLS // 4
"""At most this many are waited for, so that a fast machine is not done before the last kill."""


def stored(url: str) -> dict[str, tuple[str, int]]:
    """Result and count of computations of every point."""
    with Store(url, must_exist=True) as store:
        query = sa.text("select key, cast(result as varchar), computed from cimplan_points")
        with store._engine.connect() as connection:
            return {key: (result, computed) for key, result, computed in connection.execute(query)}


def test_thirty_kills_lose_nothing_and_repeat_nothing(folder):
    space = write_space(folder, **SPACE)
    whole, killed = folder / "whole.db", folder / "killed.db"
    cimplan("explore", space, "--store", f"sqlite:///{whole}", "-o", folder / "whole.csv", "--workers", 2)
    expected = stored(f"sqlite:///{whole}")

    rng = random.Random(20)
    before: dict[str, tuple[str, int]] = {}
    interrupted = 0
    for kill in range(KILLS):
        process = subprocess.Popen(
            command("explore", space, "--store", f"sqlite:///{killed}", "--workers", 2, "--quiet"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if kill % 5 == 4:  # at any moment, the start included
            time.sleep(rng.uniform(0, 2))
        else:  # while points come in
            target = len(before) + rng.randrange(1, POINTS_BETWEEN_KILLS)
            while finished(killed) < target and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.03))
        interrupted += process.poll() is None
        process.kill()
        process.wait()
        if killed.exists() and finished(killed):
            now = stored(f"sqlite:///{killed}")
            assert before.items() <= now.items(), "a completed point was lost or computed again"
            before = now
    assert interrupted >= KILLS - 3, "the sweep was over before it could be killed"
    assert before

    cimplan("explore", space, "--store", f"sqlite:///{killed}", "-o", folder / "killed.csv", "--workers", 2)
    assert stored(f"sqlite:///{killed}") == expected
    assert {computed for _, computed in expected.values()} == {1}
    assert (folder / "killed.csv").read_bytes() == (folder / "whole.csv").read_bytes()
    assert len((folder / "killed.csv").read_text().splitlines()) == POINTS + 1
    assert sorted(path.name for path in folder.iterdir() if "killed" in path.name) == ["killed.csv", "killed.db"]


def test_workers_end_with_a_parent_that_was_killed(folder):
    space = write_space(folder, **SPACE)
    process = subprocess.Popen(
        command("explore", space, "--store", f"sqlite:///{folder / 's.db'}", "--workers", 2, "--quiet"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while finished(folder / "s.db") < 5:
        assert process.poll() is None
        time.sleep(0.01)
    workers = children(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < until, "a worker outlived its parent"
        time.sleep(0.02)


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def alive(pid: int) -> bool:
    try:
        # The state is after the name, which is in parentheses; Z is a process that has ended.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
