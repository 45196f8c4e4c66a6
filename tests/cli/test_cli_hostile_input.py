"""Hostile names, files and places to write to: nothing is overwritten, nothing steers the terminal, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

pytestmark = pytest.mark.filterwarnings("default")

# Output is buffered, as it is for users: what cannot be written may only show at the very end.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
EVIL = "\x1b[31mevil\x1b]0;title\x07\n\r<b>"


def refused(run, *words: str) -> None:
    assert run.code == 2, (run.code, run.err)
    assert run.err.startswith("cimplan: ")
    assert run.err.count("\n") == 1
    assert run.err.strip().isprintable()
    for word in words:
        assert word in run.err, run.err


def named(tmp_path, *names):
    nodes = [helper.make_node("Relu", [f"t{index}"], [f"t{index + 1}"], name=name) for index, name in enumerate(names)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info(f"t{len(names)}", TensorProto.FLOAT, [1, 64])],
    )
    path = tmp_path / "named.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_control_characters_of_an_option_do_not_reach_the_terminal(cimplan, profile_file, tmp_path):
    refused(cimplan("partition", "--profile", profile_file, "--fix", f"{EVIL}=cim"), "evil")
    refused(cimplan("inspect", f"{EVIL}.onnx"), "no such file")
    refused(cimplan("partition", "--profile", profile_file, "-o", tmp_path / EVIL / "plan.json"), "no such folder")


def test_control_characters_of_a_model_or_a_profile_do_not_reach_the_terminal(cimplan, profile_file, tmp_path):
    graph = helper.make_graph(
        [helper.make_node(f"Odd{EVIL}", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    refused(cimplan("inspect", model), "Odd")
    profile = tmp_path / "odd.json"
    profile.write_text(json.dumps(json.loads(profile_file.read_text()) | {EVIL: 1}))
    refused(cimplan("partition", "--profile", profile), "not known")


def test_control_characters_of_a_description_do_not_reach_the_terminal(cimplan, tmp_path):
    text = cimplan("hardware", "show", "rram-256").out.replace("name: rram-256", 'name: "\\e[31mred"')
    path = tmp_path / "red.yaml"
    path.write_text(text)
    run = cimplan("hardware", "check", path)
    assert run.code == 0
    assert "\x1b" not in run.out


def test_an_error_about_a_very_long_value_stays_short(cimplan, profile_file):
    run = cimplan("partition", "--profile", profile_file, "--mvm-latency", "9" * 50_000 + "ns")
    refused(run, "finite")
    assert len(run.err) < 3000


def test_node_names_that_break_the_runtimes_profile_are_measured(cimplan, tmp_path):
    model = named(tmp_path, EVIL, 'quo"te', "back\\slash", "quo_te", "=cmd()")
    run = cimplan("profile", model, "-o", tmp_path / "host.json", "--measure-for", "100ms", "--json")
    assert run.code == 0, run.err
    assert run.json["operators"] == 5
    again = cimplan("partition", model, "--profile", tmp_path / "host.json", "--all")
    assert again.code == 0
    assert "\x1b" not in again.out


@pytest.mark.parametrize("place", ["model", "profile", "link"])
def test_partition_overwrites_none_of_its_inputs(cimplan, model_file, profile_file, tmp_path, place):
    model, profile, link = tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "link.json"
    model.write_bytes(model_file.read_bytes())
    profile.write_bytes(profile_file.read_bytes())
    link.symlink_to(profile)
    output = {"model": model, "profile": profile, "link": link}[place]
    refused(cimplan("partition", model, "--profile", profile, "-o", output), "reads")
    assert model.read_bytes() == model_file.read_bytes()
    assert profile.read_bytes() == profile_file.read_bytes()


def test_profile_and_export_overwrite_none_of_their_inputs(cimplan, model_file, profile_file, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(model_file.read_bytes())
    refused(cimplan("profile", model, "-o", model), "reads")
    plan = tmp_path / "plan.json"
    assert cimplan("partition", model, "--profile", profile_file, "-o", plan).code == 0
    before = plan.read_bytes()
    for kind in ("trace", "csv"):
        refused(cimplan("export", plan, "--to", kind, "-o", plan), "reads")
    refused(cimplan("export", plan, "--to", "onnx", "--model", model, "-o", model), "reads")
    beside = plan.rename(tmp_path / "plan.transfers.json")
    refused(cimplan("export", beside, "--to", "csv", "-o", plan), "plan.transfers.json", "reads")
    assert not plan.exists()
    beside.rename(plan)
    assert plan.read_bytes() == before
    assert model.read_bytes() == model_file.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect",),
        ("hardware", "check"),
        ("check",),
        ("explore",),
        ("explore", "status", "--store"),
        ("partition", "--profile"),
        ("quantize", "--calibration", "x" * 300, "-o", "q.onnx"),
    ],
)
def test_a_name_that_no_file_can_have_is_that_of_no_file(cimplan, arguments, model_file):
    name = "x" * 300
    last = f"sqlite:///{name}" if "--store" in arguments else model_file if "quantize" in arguments else name
    refused(cimplan(*arguments, last))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
def test_a_pipe_is_not_replaced_by_a_file(cimplan, profile_file, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(cimplan("partition", "--profile", profile_file, "-o", pipe), "pipe")
    assert pipe.is_fifo()


def test_a_result_survives_a_terminal_that_cannot_show_it(profile_file):
    environment = dict(os.environ, PYTHONIOENCODING="ascii")
    run = subprocess.run(
        [sys.executable, "-m", "cimplan", "partition", "--profile", profile_file, "--time-limit", "5s"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "this plan" in run.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_stops_a_comparison_and_keeps_its_rows(profile_file):
    code = (
        "import os, signal, sys\n"
        "from cimplan.api import partitioning\n"
        "solve = partitioning.solve\n"
        "def interrupted(costed, *, method, **options):\n"
        "    plan = solve(costed, method=method, **options)\n"
        "    if method == 'heft':\n"
        "        try:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            signal.sigtimedwait([], 1)\n"
        "        except KeyboardInterrupt:\n"
        "            pass\n"
        "    return plan\n"
        "partitioning.solve = interrupted\n"
        "from cimplan.cli import main\n"
        f"sys.argv = ['cimplan', 'compare', '--profile', {str(profile_file)!r}, '--methods', 'greedy,heft,cpu-only']\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "greedy" in run.stdout and "heft" in run.stdout
    assert "cpu-only" not in run.stdout
    assert "not run: cpu-only" in run.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("module", ["cimplan.cli.app", "typer", "cimplan.hardware", "cimplan.hardware.loading"])
def test_ctrl_c_ends_with_130_and_without_a_traceback(module):
    code = (
        "import os, signal, sys\n"
        "class Pressing:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressing())\n"
        "from cimplan.cli import main\n"
        "sys.argv = ['cimplan', 'hardware', 'check', 'rram-256']\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 130, run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are not text")
def test_a_model_whose_name_is_no_text_is_refused(cimplan, model_file, tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.onnx")
    path.write_bytes(model_file.read_bytes())
    refused(cimplan("profile", path, "-o", tmp_path / "host.json"), "not Unicode")
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device and a shell")
@pytest.mark.parametrize(("redirection", "code"), [("> /dev/full", 2), (">&-", 0), (">&- 2>&- <&-", 0)])
def test_a_standard_output_that_takes_nothing_is_no_internal_fault(redirection, code):
    line = f"{sys.executable} -m cimplan zoo list {redirection}"
    run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=BUFFERED)
    assert run.returncode == code, run.stderr
    assert "internal" not in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr.count("\n") == (1 if code else 0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that break")
@pytest.mark.parametrize("environment", [BUFFERED, BUFFERED | {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("arguments", [["zoo", "list"], ["--version"], ["--help"]])
def test_a_reader_that_leaves_ends_the_program_quietly(arguments, environment):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "cimplan", *arguments]
    run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that break")
def test_an_error_that_nobody_reads_keeps_its_exit_code():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "cimplan", "inspect", "nothing.onnx"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=write, env=BUFFERED)
    os.close(write)
    assert (run.returncode, run.stdout) == (2, b"")
