"""A sweep on a real Dask cluster of processes: one worker is killed, and the table is that of a local sweep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from explore.explore_cases import cimplan, command, finished, write_space

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]
pytest.importorskip("distributed")

SPACE = {
    "vary": {
        "accelerator.mvm_latency": {"from": "50ns", "to": "1us", "steps": 20, "scale": "log"},
        "bus.bandwidth": {"from": "1GB/s", "to": "16GB/s", "steps": 5, "scale": "log"},
        "accelerator.crossbars": [0, 1, 2, 4],
    },
    "methods": ["exact", "greedy"],
}


def dask(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    file = folder / "scheduler.json"
    process = dask(
        "scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--no-show", "--scheduler-file", file
    )
    try:
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text().endswith("}"):
            assert process.poll() is None and time.monotonic() < until, "the scheduler did not start"
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]
    finally:
        stop(process)


@contextmanager
def workers(address: str, folder: Path, count: int, **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    # Without a nanny: a worker that is killed stays dead.
    settings = ["--no-nanny", "--nthreads", 1, "--no-dashboard", "--local-directory", folder, "--host", "127.0.0.1"]
    running = [dask("worker", address, *settings, **environment) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:  # a worker may go on looking for a scheduler that is gone
        process.kill()
        process.wait()


def test_a_cluster_that_loses_a_worker_gives_the_table_of_a_local_sweep(folder):
    space = write_space(folder, **SPACE)
    cimplan("explore", space, "--store", f"sqlite:///{folder / 'local.db'}", "-o", folder / "local.csv")
    store = f"sqlite:///{folder / 'dask.db'}"
    with scheduler(folder) as address, workers(address, folder, 3) as running:
        sweep = subprocess.Popen(
            command("explore", space, "--store", store, "--dask", address, "-o", folder / "dask.csv"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while finished(folder / "dask.db") < 5:
            time.sleep(0.01)
            assert sweep.poll() is None, "the sweep was over before a worker could be killed"
        assert sweep.poll() is None
        running[1].kill()
        said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, said
    assert "Traceback" not in said
    assert (folder / "dask.csv").read_bytes() == (folder / "local.csv").read_bytes()
    status = json.loads(cimplan("explore", "status", "--store", store, "--json").stdout)
    assert [(item["done"], item["by_status"].get("failed", 0), item["computed_again"]) for item in status] == [
        (800, 0, 0)
    ]


def test_workers_with_another_cimplan_or_none_are_refused(folder, tmp_path_factory):
    space = write_space(folder)
    other = tmp_path_factory.mktemp("other")
    info = other / "cimplan-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cimplan\nVersion: 9.9\n")
    nothing = tmp_path_factory.mktemp("nothing")
    (nothing / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "known = metadata.version\n"
        "def version(name):\n    if name == 'cimplan':\n        raise metadata.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "metadata.version = version\n"
    )
    arguments = ("explore", space, "--store", f"sqlite:///{folder / 's.db'}", "-q", "--dask")
    with scheduler(folder) as address:
        with workers(address, folder, 1, PYTHONPATH=str(other)):
            said = cimplan(*arguments, address, code=2).stderr
            assert "cimplan 9.9" in said and "pip install" in said
        with workers(address, folder, 1, PYTHONPATH=str(nothing)):
            said = cimplan(*arguments, address, code=2).stderr
            assert "no cimplan" in said and "pip install" in said


def test_a_scheduler_that_is_not_there_is_said(folder):
    space = write_space(folder)
    arguments = ("explore", space, "--store", f"sqlite:///{folder / 's.db'}", "-q", "--dask")
    assert "no Dask scheduler answers" in cimplan(*arguments, "tcp://127.0.0.1:9", code=2).stderr
    for text in ("what://is.this", "tcp://", ""):
        assert "is not the address" in cimplan(*arguments, text, code=2).stderr
    assert "does not go with" in cimplan(*arguments, "tcp://127.0.0.1:9", "--workers", 2, code=2).stderr


def test_a_scheduler_that_goes_away_is_said_and_the_sweep_resumes(folder):
    space = write_space(folder, **SPACE)
    store = f"sqlite:///{folder / 'dask.db'}"
    with scheduler(folder) as address, workers(address, folder, 1):
        sweep = subprocess.Popen(
            command("explore", space, "--store", store, "--dask", address, "-q"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while finished(folder / "dask.db") < 5:
            time.sleep(0.01)
            assert sweep.poll() is None, "the sweep was over before its scheduler could be stopped"
    _, said = sweep.communicate(timeout=120)
    assert sweep.returncode == 2, said
    assert "the Dask cluster is lost" in said
    assert "Traceback" not in said
    result = json.loads(cimplan("explore", space, "--store", store, "--json").stdout)
    assert result["points"] == 800 and result["reused"] >= 5 and result["failed"] == 0
