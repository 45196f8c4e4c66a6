"""Help, versions, presets, reference models, and the direction of imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.filterwarnings("default")

HEAVY = ("onnx", "onnxruntime", "ortools", "numpy", "pydantic", "polars", "matplotlib", "sqlalchemy", "optuna", "rich")


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['cimplan', '--help']\n"
        "from cimplan.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "loaded: []" in out
    for command in ("inspect", "quantize", "profile", "partition", "export", "hardware", "zoo", "doctor", "compare"):
        assert f"\n  {command} " in out


def test_version(cimplan):
    run = cimplan("--version")
    assert run.code == 0
    assert run.out.startswith("cimplan ")


def test_presets_can_be_listed_shown_and_checked(cimplan, tmp_path):
    names = [item["name"] for item in cimplan("hardware", "list", "--json").json]
    assert "rram-256" in names
    for name in names:
        shown = cimplan("hardware", "show", name)
        assert shown.code == 0
        copy = tmp_path / f"{name}.yaml"
        copy.write_text(shown.out)
        checked = cimplan("hardware", "check", copy, "--json")
        assert checked.json == {"name": name, "valid": True, "remarks": []}


def test_reference_networks_are_listed_and_exported(cimplan, tmp_path):
    names = [item["name"] for item in cimplan("zoo", "list", "--json").json]
    assert {"resnet18", "yolov5n", "opt_13b"} <= set(names)
    path = tmp_path / "bert.onnx"
    assert cimplan("zoo", "export", "bert_large?layers=1", "-o", path).code == 0
    assert path.stat().st_size > 1000


def test_doctor_finds_this_installation_in_order(cimplan):
    run = cimplan("doctor", "--json")
    assert run.code == 0, run.out
    assert not any(run.json["checks"].values())


def test_rooms_import_in_one_direction():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_a_room_keeps_the_function_of_the_same_name():
    import cimplan
    import cimplan.partition.methods

    assert callable(cimplan.partition)
    assert cimplan.partition.__module__ == "cimplan.api.partitioning"


@pytest.mark.parametrize(
    "command",
    [
        "inspect",
        "quantize",
        "profile",
        "partition",
        "compile",
        "compare",
        "export",
        "reproduce",
        "doctor",
        "hardware list",
        "hardware show",
        "hardware check",
        "zoo list",
        "zoo export",
        "explore run",
        "explore status",
        "explore export",
    ],
)
def test_every_command_can_answer_in_json(cimplan, command):
    assert "--json" in cimplan(*command.split(), "--help").out
