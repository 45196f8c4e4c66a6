"""``cimplan profile`` from the command line: spread, disturbance, and profiles from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROFILES = Path(__file__).parents[1] / "profiles"
SMALL = Path(__file__).parents[1] / "ageing" / "version1" / "small.onnx"


@pytest.fixture
def small(tmp_path):
    return Path(shutil.copy(SMALL, tmp_path / "small.onnx"))


def test_a_profile_says_how_its_runs_are_spread_and_whether_they_are_disturbed(cimplan, small, tmp_path):
    run = cimplan("profile", small, "-o", tmp_path / "host.json", "--measure-for", "200ms", "--json")
    assert run.code == 0, run.err
    assert run.json["disturbed"] in (True, False)
    lower, upper = run.json["quartiles_ns"]
    assert 0 < lower <= upper
    plan = cimplan("partition", small, "--profile", tmp_path / "host.json", "--hardware", "rram-256", "--json")
    assert plan.code == 0, plan.err
    assert plan.json["profile_disturbed"] == run.json["disturbed"]
    low, high = plan.json["host_only_ns_quartiles"]
    assert low <= plan.json["host_only_ns"] <= high
    low, high = plan.json["speedup_range"]
    assert low <= plan.json["speedup"] <= high


def test_the_program_for_a_board_is_written_and_its_profile_planned_on(cimplan, small, tmp_path):
    program = tmp_path / "measure.py"
    run = cimplan("profile", small, "--script", program, "--measure-for", "100ms")
    assert run.code == 0, run.err
    assert "onnxruntime and numpy" in run.out
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(program), str(small), "-o", str(tmp_path / "host.json")]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=120)
    plan = cimplan("partition", small, "--profile", tmp_path / "host.json", "--json")
    assert plan.code == 0, plan.err
    assert plan.json["model"] == "small"
    assert plan.json["times"]["host"] == "measured"


def test_a_recording_of_another_day_is_planned_on_and_its_age_told(cimplan):
    run = cimplan("partition", "--profile", PROFILES / "recorded.json", "--hardware", "rram-256-arm")
    assert run.code == 0, run.err
    assert "on 2026-12-01" in run.out
    assert "the profile is of Some CPU, the hardware file's host is ARM Cortex-A72" in run.out


def test_a_profile_of_onnx_runtime_is_imported(cimplan, small, tmp_path):
    run = cimplan("profile", small, "--from-ort-profile", PROFILES / "events.json", "-o", tmp_path / "host.json")
    assert run.code == 0, run.err
    assert "processor not known" in run.out
    assert "not scaled" in run.out
    assert "contain what profiling costs" in run.out
    assert cimplan("partition", small, "--profile", tmp_path / "host.json", "--json").code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--output FILE, or --script FILE.py"),
        (("--script", "m.py", "-o", "h.json"), "--output does not go with --script"),
        (("--script", "m.py", "--estimate", "cortex-a72"), "--estimate does not go with --script"),
        (("--from-ort-profile", "e.json", "-o", "h.json", "--estimate", "cortex-a72"), "--estimate does not go with"),
        (("--from-ort-profile", "e.json", "-o", "h.json", "--measure-for", "1s"), "--measure-for does not go with"),
        (("--from-ort-profile", "none.json", "-o", "h.json"), "cannot read the profile of ONNX Runtime"),
        (("--from-ort-profile", "small.onnx", "-o", "h.json"), "is not a profile of ONNX Runtime"),
        (("--from-ort-profile", "e.json", "-o", "e.json"), "e.json"),
        (("--script", "small.onnx"), "small.onnx"),
    ],
)
def test_options_that_do_not_go_together_are_refused(cimplan, small, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    events = Path(shutil.copy(PROFILES / "events.json", tmp_path / "e.json"))
    before = {path.name: path.read_bytes() for path in (small, events)}
    run = cimplan("profile", "small.onnx", *options)
    assert run.code == 2
    assert said in run.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_comparison_shows_the_ranges(cimplan):
    run = cimplan("compare", "--profile", PROFILES / "recorded.json", "--methods", "greedy,exact", "--json")
    assert run.code == 0, run.err
    assert run.json["profile_disturbed"] in (True, False)
    assert all(row["speedup_range"][0] <= row["speedup"] <= row["speedup_range"][1] for row in run.json["methods"])
