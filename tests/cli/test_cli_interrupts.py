"""What Ctrl-C and SIGTERM leave: the best plan so far with code 0, or one line with code 130."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cimplan.cli.console import Doing
from cimplan.plan import proof
from cimplan.plan.plan import Plan

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT"),
]

WAITING = """
import importlib, sys, time
module = importlib.import_module({module!r})
real = module.{name}
def wait(*arguments, **options):
    sys.stderr.write("here\\n")
    sys.stderr.flush()
    time.sleep(60)
    return real(*arguments, **options)
module.{name} = wait
from cimplan.cli import main
sys.argv = {arguments!r}
main()
"""


def interrupted_in(module: str, name: str, *arguments: object, number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Run the command line, send a signal when it calls a function, and return code, output and errors."""
    code = WAITING.format(module=module, name=name, arguments=["cimplan", *map(str, arguments)])
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    first = process.stderr.readline()
    if first != "here\n":
        pytest.fail(first + process.communicate()[1])
    process.send_signal(number)
    out, err = process.communicate(timeout=50)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_verification_keeps_the_plan(profile_file, tmp_path, number):
    path = tmp_path / "plan.json"
    asked = ("partition", "--profile", profile_file, "-o", path)
    code, out, err = interrupted_in("cimplan.plan.proof", "verify_certificate", *asked, number=number)
    assert code == 0, err
    assert err.startswith("cimplan: interrupted while the proof was verified") and err.count("\n") == 1
    assert "(the exact method says optimal)" in out and "not verified: that was interrupted" in out
    plan = Plan.read(path)
    assert (plan.status, plan.solver_claims, plan.proof.verdict) == ("feasible", "optimal", "incomplete")
    assert plan.verify_proof().verified


def test_a_signal_with_nothing_in_hand_is_one_line_and_130(model_file, profile_file, tmp_path):
    path = tmp_path / "plan.json"
    asked = ("partition", "--profile", profile_file, "-o", path)
    code, out, err = interrupted_in("cimplan.partition.methods", "refuse_infeasible", *asked)
    assert (code, out, err) == (130, "", "cimplan: interrupted\n")
    assert not path.exists()
    asked = ("compare", "--profile", profile_file, "--methods", "greedy")
    assert interrupted_in("cimplan.partition.methods", "refuse_infeasible", *asked) == (
        130,
        "",
        "cimplan: interrupted\n",
    )
    asked = ("compile", model_file)
    assert interrupted_in("cimplan.dualmode.options", "make_readings", *asked) == (130, "", "cimplan: interrupted\n")


@pytest.mark.parametrize("command", ["partition", "compare", "compile"])
def test_sigterm_is_like_ctrl_c(model_file, command):
    name = "read_graph" if command == "compile" else "cost"
    module = "cimplan.graph.read" if command == "compile" else "cimplan.api.partitioning"
    ended = interrupted_in(module, name, command, model_file, number=signal.SIGTERM)
    assert ended == (130, "", "cimplan: interrupted\n")


def test_a_comparison_that_is_interrupted_in_a_proof_keeps_its_rows(profile_file):
    asked = ("compare", "--profile", profile_file, "--methods", "exact,greedy,heft", "--json")
    code, out, err = interrupted_in("cimplan.plan.proof", "verify_certificate", *asked)
    assert code == 0
    assert [row["method"] for row in json.loads(out)["methods"]] == ["exact"]
    assert err == "cimplan: interrupted during exact; not run: greedy, heft\n"


@pytest.mark.parametrize("hardware", ["rram-256", "dynaplasia"])
def test_a_comparison_keeps_its_rows_when_a_method_has_nothing(
    cimplan, monkeypatch, model_file, profile_file, hardware
):
    dual_mode = hardware == "dynaplasia"
    if dual_mode:
        from cimplan.api import compiling as api

        name, methods, asked = "compile_plan", ("greedy", "exact"), (model_file,)
    else:
        from cimplan.api import partitioning as api

        name, methods, asked = "solve", ("greedy", "heft", "cpu-only"), ("--profile", profile_file)
    do = getattr(api, name)

    def interrupted(*arguments: Any, method: str, **options: Any) -> Any:
        if method == methods[1]:
            signal.raise_signal(signal.SIGINT)
        return do(*arguments, method=method, **options)

    monkeypatch.setattr(api, name, interrupted)
    run = cimplan("compare", *asked, "--hardware", hardware, "--methods", ",".join(methods))
    assert run.code == 0, run.err
    assert methods[0] in run.out and methods[1] not in run.out
    assert f"interrupted during {methods[1]}" in run.err


def test_an_interrupted_plan_says_so_beside_its_code_of_0(cimplan, monkeypatch, profile_file, tmp_path):
    from cimplan.partition import methods

    solve = methods.solve

    def interrupted(problem: Any, method: str = "exact", **options: Any) -> Any:
        found = replace(solve(problem, "greedy", **options), status="feasible", lower_bound=0)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return found

    monkeypatch.setattr(methods, "solve", interrupted)
    run = cimplan("partition", "--profile", profile_file, "--curve", "-o", tmp_path / "plan.json")
    assert run.code == 0
    assert "stopped      interrupted: best plan so far" in run.out
    assert "curve        none: interrupted before it was there" in run.out
    assert run.err == "cimplan: interrupted: this is the best plan so far\n"
    run = cimplan("partition", "--profile", profile_file, "--json")
    assert run.json["statistics"]["stopped"] == "interrupted"
    assert run.err == "cimplan: interrupted: this is the best plan so far\n"
    run = cimplan("compare", "--profile", profile_file, "--methods", "exact,heft")
    assert run.code == 0
    assert "feasible, interrupted" in run.out


def test_ctrl_c_while_the_plan_is_written_comes_too_late(cimplan, monkeypatch, profile_file, tmp_path):
    write = Plan.write

    def interrupted(plan: Plan, path: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        write(plan, path)

    monkeypatch.setattr(Plan, "write", interrupted)
    run = cimplan("partition", "--profile", profile_file, "-o", tmp_path / "plan.json")
    assert run.code == 0
    assert proof.PROOF_INTERRUPTED not in Plan.read(tmp_path / "plan.json").proof.notes


@pytest.mark.parametrize("command", ["partition", "compare"])
def test_ctrl_c_while_the_result_is_printed_comes_too_late(cimplan, monkeypatch, profile_file, command):
    from cimplan.cli import console

    emit = console.emit

    def interrupted(line: str = "") -> None:
        signal.raise_signal(signal.SIGINT)
        emit(line)

    monkeypatch.setattr(console, "emit", interrupted)
    run = cimplan(command, "--profile", profile_file, f"--method{'s' * (command == 'compare')}", "greedy")
    assert run.code == 0
    assert "greedy" in run.out


def test_ctrl_c_while_the_interpreter_ends_does_not_change_the_exit_code():
    code = (
        "import atexit, os, signal, sys\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "from cimplan.cli import main\n"
        "sys.argv = ['cimplan', 'zoo', 'list']\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_exit_codes_and_the_time_limit_are_explained(cimplan):
    helped = " ".join(cimplan("--help").out.split())
    assert "0 done, also with the best plan so far where a time limit or Ctrl-C ended the search" in helped
    assert "130 interrupted with nothing in hand" in helped
    helped = " ".join(cimplan("partition", "--help").out.split())
    assert "reading, measuring, solving and verifying together" in helped


def test_a_phase_has_a_clock_that_runs_by_itself(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("cimplan.cli.console.time.monotonic", lambda: now[0])
    doing = Doing("solving")
    doing("fold, gap 1.00 %")
    now[0] += 7
    assert str(doing) == "solving, 7 s: fold, gap 1.00 %"
    doing.turn_to("verifying the proof")
    now[0] += 3
    assert str(doing) == "verifying the proof, 3 s"
    assert doing.__rich__().plain == str(doing)
