"""``cimplan explore`` as a user meets it: run, status, export, Ctrl-C, and a fresh environment without the extra."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from explore.explore_cases import cimplan, command, finished, write_space

pytestmark = pytest.mark.filterwarnings("default")

LONG = {
    "vary": {
        "accelerator.mvm_latency": {"from": "50ns", "to": "1us", "steps": 60, "scale": "log"},
        "accelerator.crossbars": {"from": 0, "to": 59, "step": 1},
    },
    "methods": ["heft"],
}


def test_run_status_and_export_tell_the_same_story(folder, monkeypatch, run):
    monkeypatch.chdir(folder)
    write_space(
        folder, vary={"accelerator.weight_write": ["never", "every_inference"], "accelerator.crossbars": [0, 3]}
    )
    done = run("explore", "space.yaml", "-o", "run.csv")
    assert "tiny-sweep: 4 points, 2 failed" in done.stdout
    assert "2 failed: " in done.stderr and "write_latency" in done.stderr
    again = json.loads(run("explore", "run", "space.yaml", "--json").stdout)
    assert (again["points"], again["reused"], again["failed"]) == (4, 4, 2)
    assert [row["accelerator.crossbars"] for row in again["pareto"]] == [3, 0]

    (status,) = json.loads(run("explore", "status", "--json").stdout)
    assert (status["sweep"], status["done"], status["total"]) == (again["sweep"], 4, 4)
    assert status["by_status"] == {"optimal": 2, "failed": 2} and not status["running"]
    assert re.search(r"tiny-sweep +complete +4 +4 +2 ", run("explore", "status").stdout)

    run("explore", "export", "-o", "export.csv", "--sweep", again["sweep"][:8])
    assert (folder / "export.csv").read_bytes() == (folder / "run.csv").read_bytes()
    run("explore", "export", "-o", "export.parquet", "--sweep", "tiny-sweep")
    assert pl.read_parquet("export.parquet").height == 4
    said = run("explore", "export", "-o", "export.csv", "--sweep", "nothing", code=2).stderr
    assert "no sweep fits" in said and "tiny-sweep" in said


def test_a_bad_output_or_space_is_refused_before_anything_is_made(folder, monkeypatch, run):
    monkeypatch.chdir(folder)
    space = write_space(folder)
    before = sorted(folder.iterdir())
    assert "Use .csv or .parquet" in run("explore", space, "-o", "t.xlsx", code=2).stderr
    assert "no such folder" in run("explore", space, "-o", "no/t.csv", code=2).stderr
    assert "there is no such store" in run("explore", "status", code=2).stderr
    write_space(folder, hardware="rram-265")
    assert "space.yaml:5, hardware" in run("explore", space, code=2).stderr
    assert sorted(folder.iterdir()) == before


def test_status_of_a_running_sweep_and_ctrl_c(folder):
    space = write_space(folder, **LONG)
    store = f"sqlite:///{folder / 's.db'}"
    running = subprocess.Popen(
        command("explore", space, "--store", store, "--workers", 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while finished(folder / "s.db") < 5:
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    (status,) = json.loads(cimplan("explore", "status", "--store", store, "--json").stdout)
    assert status["running"] and 0 < status["done"] < status["total"] == 3600
    assert status["remaining_s"] > 0 and status["rate_per_s"] > 0
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    assert err.strip().splitlines()[-1].startswith("cimplan: interrupted; what was computed is kept")
    assert "Traceback" not in err
    (after,) = json.loads(cimplan("explore", "status", "--store", store, "--json").stdout)
    assert not after["running"] and after["done"] >= status["done"]


def test_without_the_extra_it_says_what_to_install(folder, monkeypatch, capsys):
    from cimplan.cli import main

    real = importlib.util.find_spec
    missing = {"sqlalchemy", "optuna"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in missing else real(name, *more))
    for arguments in (("space.yaml",), ("status",), ("export", "-o", "t.csv")):
        monkeypatch.setattr(sys, "argv", ["cimplan", "explore", *arguments])
        with pytest.raises(SystemExit) as ended:
            main(guarded=False)
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert "pip install 'cimplan[explore]'" in said and "sqlalchemy, optuna" in said


def test_a_shared_store_needs_a_driver_and_says_so(monkeypatch):
    from cimplan.errors import InputError
    from cimplan.explore.store import Store

    monkeypatch.setitem(sys.modules, "pg8000", None)
    with pytest.raises(InputError, match=r"pip install 'cimplan\[explore\]'"):
        Store("postgresql://me@127.0.0.1:1/db")
