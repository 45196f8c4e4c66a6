"""``cimplan reproduce`` from saved profiles: what it prints and writes, and what it refuses."""

from __future__ import annotations

import sys

import pytest

from reference_profiles import unpack

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def board(tmp_path):
    folder = tmp_path / "board"
    folder.mkdir()
    return unpack(folder)


def test_table_one_as_json(cimplan, board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = cimplan("reproduce", "klein2026", "--host", board, "--only", "table1", "--json")
    assert run.code == 0, run.err
    rows = {row["model"]: row for row in run.json["table1"]}
    found = {model: (row["operators"], row["decision_variables"], row["constraints"]) for model, row in rows.items()}
    assert found == {
        "resnet18": (38, 44, 204),
        "resnet50": (79, 91, 412),
        "mobilenet_v2": (71, 71, 331),
        "yolov5n": (251, 3041, 7035),
    }
    for row in rows.values():
        assert row["gap"] == 0
        assert row["solve_s"] > 0
        assert row["published"]["solve_s"] > 0
    assert "figure3" not in run.json
    assert not (tmp_path / "klein2026").exists()


def test_a_figure_goes_to_a_folder_of_the_paper_s_name(cimplan, board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = cimplan("reproduce", "klein2026", "--host", board / "resnet18.json", "--only", "figure3", "--quiet")
    assert run.code == 0, run.err
    assert "31.6 (30.9)" in run.out
    assert "estimated" in run.out
    assert "index.html" in run.out
    names = {file.name for file in (tmp_path / "klein2026").iterdir()}
    assert {"index.html", "figure3.csv", "figure3.svg", "figure3.png", "results.json"} <= names
    assert "table1.csv" not in names


def test_json_and_a_folder_give_both(cimplan, board, tmp_path):
    out = tmp_path / "out"
    run = cimplan("reproduce", "klein2026", "--host", board, "--only", "open-question", "--json", "-o", out)
    assert run.code == 0, run.err
    assert run.json["open_question"]["networks"][0]["crossbars_of_everything"] == 201
    assert (out / "open-question.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["klein2062"], "klein2026"),
        (["klein2026", "--only", "figure33"], "figure3"),
        (["klein2026", "--host", "arm"], "arm-estimate"),
        (["klein2026", "--host", "missing.json"], "no such file"),
        (["klein2026", "--time-limit", "5"], "unit"),
    ],
)
def test_bad_usage_is_explained(cimplan, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = cimplan("reproduce", *arguments)
    assert run.code == 2
    assert said in run.err
    assert not list(tmp_path.iterdir())


def test_a_profile_of_another_model_is_refused(cimplan, profile_file, tmp_path):
    run = cimplan("reproduce", "klein2026", "--host", profile_file, "-o", tmp_path / "out")
    assert run.code == 2
    assert "not a network of the paper" in run.err
    assert not (tmp_path / "out").exists()


def test_a_file_as_output_folder_is_refused(cimplan, board, tmp_path):
    (tmp_path / "out").write_text("kept")
    run = cimplan("reproduce", "klein2026", "--host", board, "-o", tmp_path / "out")
    assert run.code == 2
    assert "output folder" in run.err
    assert (tmp_path / "out").read_text() == "kept"


def test_numbers_need_no_plotting_package_and_files_say_which(cimplan, board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ("reproduce", "klein2026", "--host", board / "resnet18.json", "--only", "figure3")
    assert cimplan(*arguments, "--json").code == 0
    run = cimplan(*arguments)
    assert run.code == 2
    assert "matplotlib" in run.err
    assert "cimplan[explore]" in run.err
    assert not (tmp_path / "klein2026").exists()
