"""Files of the first schema version still open and say the same, or are refused with what to do.

`version1/` is frozen: its files are never made anew (see README.md there). Where the CLI refuses one of them, it has
to name the version and the command that makes the file again; it may not misread it.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

import cimplan as cp
from cimplan.cost import profile_file
from cimplan.errors import InputError
from cimplan.hardware import loading
from cimplan.plan.dual_mode import DualModePlan
from cimplan.plan.plan import Plan

FROZEN = Path(__file__).parent / "version1"

# (makespan_ns, lower_bound_ns, what the method claims, crossbars used) and whether its proof was verified when frozen.
PLANS = {
    "exact.json": (32473.0, 32473.0, "optimal", 6, True),
    "ilp.json": (32473.0, 32473.0, "optimal", 6, False),
    "greedy.json": (32473.0, 32473.0, "optimal", 6, False),
    "cpu-only.json": (75037.0, 32473.0, "feasible", 0, False),
    "curve.json": (32473.0, 32473.0, "optimal", 6, True),
    "fixed.json": (47970.0, 47970.0, "optimal", 3, True),
    "estimated_plan.json": (267766.0, 267766.0, "optimal", 0, False),
    "fillers.json": (107876.0, 107876.0, "optimal", 5, True),
    "searched.json": (102722.0, 102722.0, "optimal", 8, True),
}
# (latency_cycles, lower_bound_cycles, all_compute_cycles, status, segments)
COMPILED = {
    "published.json": (810, 810, 2682, "optimal", 2),
    "resident.json": (2981, 2981, 6431, "optimal", 1),
    "compiled_greedy.json": (1068, 810, 2682, "feasible", 1),
}


@pytest.fixture
def frozen(tmp_path):
    """A folder with copies of the frozen files, unpacked."""
    for path in FROZEN.iterdir():
        if path.suffix == ".gz":
            (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_the_first_version_opens_and_proves_what_it_proved(cimplan, frozen, name):
    makespan_ns, lower_bound_ns, status, crossbars, proven = PLANS[name]
    plan = Plan.read(frozen / name)
    assert (plan.makespan_ns, plan.lower_bound_ns) == (makespan_ns, lower_bound_ns)
    assert (plan.solver_claims, plan.crossbars_used) == (status, crossbars)
    assert plan.status == (status if proven else "feasible")  # they said "optimal" on the method's word, too
    run = cimplan("check", frozen / name, "--json")
    assert run.code in (0, 1), run.err
    if proven:
        assert run.json["proof"] == "verified"
    for kind in ("trace", "csv"):
        assert cimplan("export", frozen / name, "--to", kind, "-o", frozen / f"out.{kind}").code == 0


def test_the_curve_of_a_plan_of_the_first_version_is_kept(frozen):
    curve = {point.crossbars: point.makespan_ns for point in Plan.read(frozen / "curve.json").curve}
    assert curve == {0: 75037.0, 1: 61130.0, 2: 52436.0, 3: 47970.0, 4: 42522.0, 5: 36939.0, 6: 32473.0}


@pytest.mark.parametrize("name", COMPILED)
def test_a_dual_mode_plan_of_the_first_version_opens(cimplan, frozen, name):
    plan = DualModePlan.load(frozen / name)
    found = (plan.latency_cycles, plan.lower_bound_cycles, plan.all_compute_cycles, plan.status, len(plan.segments))
    assert found == COMPILED[name]
    assert cimplan("check", frozen / name).code in (0, 1)
    for kind in ("trace", "csv", "program"):
        assert cimplan("export", frozen / name, "--to", kind, "-o", frozen / f"out.{kind}").code == 0


def test_a_program_of_the_first_version_parses_verifies_and_takes_as_long(frozen):
    from cimplan.machine.timing import replay
    from cimplan.program.parser import read_program
    from cimplan.program.verifier import verify

    program = read_program(frozen / "published.program")
    plan = DualModePlan.load(frozen / "published.json")
    assert verify(program, plan.chip).ok
    assert sum(segment.total_cycles for segment in replay(program, plan.chip, plan.readings)) == 810


@pytest.mark.parametrize(("name", "total_ns", "operators"), [("host.json", 75031, 12), ("estimated.json", 267764, 7)])
def test_a_profile_of_the_first_version_opens(frozen, name, total_ns, operators):
    profile = profile_file.load(frozen / name)
    assert round(profile.total_ns) == total_ns
    assert len(profile.host_ns) == operators


@pytest.mark.parametrize("name", ["wide.yaml", "mine.yaml", "dual.yaml"])
def test_a_hardware_file_of_the_first_version_opens(cimplan, frozen, name):
    assert loading.load(frozen / name).name == name.removesuffix(".yaml")
    assert cimplan("hardware", "check", frozen / name).code == 0


def test_files_of_the_first_version_plan_as_they_did(frozen):
    plan = cp.partition(None, frozen / "wide.yaml", profile_file.load(frozen / "host.json"))
    assert (plan.makespan_ns, plan.lower_bound_ns, plan.crossbars_used) == (32473.0, 32473.0, 6)
    sliced = cp.partition(None, frozen / "mine.yaml", profile_file.load(frozen / "estimated.json"))
    assert sliced.makespan_ns == 267766.0


@pytest.mark.parametrize("name", ["space", "search"])
def test_a_store_and_a_space_of_the_first_version_open_and_give_the_same_table(cimplan, frozen, name):
    sweep = {"space": "frozen", "search": "frozen-search"}[name]
    store = f"sqlite:///{frozen / 'store.db'}"
    again = frozen / "again.csv"
    run = cimplan("explore", "export", "--store", store, "--sweep", sweep, "-o", again)
    assert run.code == 0, run.err
    assert again.read_bytes() == (frozen / f"{name}.csv").read_bytes()
    status = cimplan("explore", "status", "--store", store, "--json").json
    assert {item["name"]: item["done"] for item in status} == {"frozen": 16, "frozen-search": 12}
    # What is stored may be computed again where its key has changed; the answers are the same.
    run = cimplan("explore", frozen / f"{name}.yaml", "--store", store, "--workers", 1, "-o", again, "--json")
    assert run.code == 0, run.err
    kept = _columns(frozen / f"{name}.csv")
    found = _columns(again)
    # What was called optimal on the method's word is now said to be its word.
    found["status"] = found["solver_claims"]
    assert {column: found[column] for column in kept} == kept


def _columns(path: Path) -> dict[str, list[str]]:
    import csv

    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    return {name: [row[index] for row in rows] for index, name in enumerate(header)}


@pytest.mark.parametrize(
    ("name", "read", "command"),
    [
        ("exact.json", Plan.read, "cimplan partition"),
        ("published.json", DualModePlan.load, "cimplan compile"),
        ("host.json", profile_file.load, "cimplan profile"),
    ],
)
@pytest.mark.parametrize("version", [0, 2, "1.1"])
def test_json_of_another_version_is_refused_with_its_version_and_the_command(frozen, name, read, command, version):
    path = frozen / name
    # Another version may have any other content: the version is looked at first.
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version, "new": True}))
    with pytest.raises(InputError) as refused:
        read(path)
    message = str(refused.value)
    for words in (str(path), f"schema_version is {version!r}", "reads schema_version 1", f"`{command}`", "0.1.0"):
        assert words in message


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("wide.yaml", ("hardware", "check"), "cimplan hardware show"),
        ("space.yaml", ("explore",), "docs/exploration.md"),
    ],
)
def test_yaml_of_another_version_is_refused_with_its_version_and_where_to_start(
    cimplan, frozen, name, arguments, command
):
    path = frozen / name
    path.write_text("unheard_of: 1\n" + path.read_text().replace("schema_version: 1", "schema_version: 2"))
    run = cimplan(*arguments, path)
    assert run.code == 2
    for words in (f"{path}:2, schema_version", "schema_version is 2", "reads schema_version 1", command):
        assert words in run.err


def test_a_program_of_another_version_is_refused_with_its_version_and_the_command(frozen):
    from cimplan.program.parser import read_program

    path = frozen / "published.program"
    path.write_text(path.read_text().replace("program 1;", "program 2; unheard of"))
    with pytest.raises(InputError, match=r"program:1:9: .*version 2, and this cimplan reads .*1\. .*`cimplan compile"):
        read_program(path)


def test_a_store_of_another_version_is_refused_with_its_version_and_the_command(cimplan, frozen):
    import sqlite3

    with sqlite3.connect(frozen / "store.db") as connection:
        connection.execute("update cimplan_about set value = '2' where name = 'schema_version'")
    connection.close()
    run = cimplan("explore", "status", "--store", f"sqlite:///{frozen / 'store.db'}")
    assert run.code == 2
    for words in ("schema_version is 2", "reads schema_version 1", "`cimplan explore SPACE.yaml"):
        assert words in run.err
