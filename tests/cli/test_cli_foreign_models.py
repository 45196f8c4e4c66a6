"""The main job on networks that no one here built: planned, or refused with a clear reason."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import foreign
from parts_in_turn import compare_parts, same

pytestmark = pytest.mark.filterwarnings("default")

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))
FOREIGN = {
    "orientation": foreign.ORIENTATION,
    "detector": foreign.DETECTOR,
    "encoder": foreign.SENTENCE_ENCODER,
    "int8 LSTM": foreign.TAGGER,
}


def test_there_are_nine_light_graphs():
    assert len(LIGHT) == 9


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_graphs_are_planned_or_refused_with_a_reason(cimplan, path, tmp_path):
    run = cimplan(
        "partition", path, "--json", "--measure-for", "1s", "--time-limit", "60s", "-o", tmp_path / "plan.json"
    )
    if run.code == 0:
        assert run.json["checked"] is True
        assert run.json["lower_bound_ns"] <= run.json["makespan_ns"]
        assert (tmp_path / "plan.json").is_file()
    else:
        assert run.code == 2
        assert run.err.startswith("cimplan: ")
        assert path.name in run.err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_models_are_planned(cimplan, name, tmp_path):
    model = FOREIGN[name]
    shapes = [word for shape in model.shapes for word in ("--shape", shape)]
    path = model.path()
    assert cimplan("inspect", path, *shapes).code == 0
    profile = tmp_path / "host.json"
    assert cimplan("profile", path, *shapes, "--measure-for", "1s", "-o", profile).code == 0
    for crossbars in (0, 20, 200):
        arguments = ("--profile", profile, "--crossbars", crossbars, "--json", "--time-limit", "30s")
        run = cimplan("partition", path, *arguments)
        assert run.code == 0, run.err
        assert run.json["checked"] is True
        assert run.json["makespan_ns"] <= run.json["host_only_ns"]
        assert run.json["crossbars_used"] <= crossbars


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_parts_of_foreign_models_compute_what_the_models_compute(cimplan, name, tmp_path):
    model = FOREIGN[name]
    shapes = [word for shape in model.shapes for word in ("--shape", shape)]
    path, plan = model.path(), tmp_path / "plan.json"
    words = ("--measure-for", "300ms", "--time-limit", "5s", "-o", plan)
    assert cimplan("partition", path, *shapes, *words).code == 0
    run = cimplan("export", plan, "--to", "onnx", "--parts", "--model", path, *shapes, "-o", tmp_path / "parts")
    assert run.code == 0, run.err
    found = compare_parts(path, tmp_path / "parts", "random", shapes)
    assert same(found), found


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_open_dimensions_of_foreign_models_are_asked_for(cimplan, name):
    model = FOREIGN[name]
    run = cimplan("partition", model.path())
    assert run.code == 2
    assert "--shape" in run.err
    assert model.shapes[0].partition("=")[0] in run.err
