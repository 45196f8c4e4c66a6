"""The files of a reproduction: complete, consistent with each other, and safe to open."""

from __future__ import annotations

import base64
import csv
import html
import json
import re
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from cimplan.errors import InputError
from cimplan.explore.klein2026 import reproduce
from cimplan.explore.published import BUDGETS, LATENCIES_NS, SPEEDUPS_50NS, TABLE_ONE
from cimplan.explore.reproduction_hosts import find_hosts
from cimplan.report import klein2026
from cimplan.report.klein2026 import PAGE, prepare_folder, write_report
from cimplan.report.klein2026_figures import figure3, figure4, figure5_operators, figures
from cimplan.report.klein2026_tables import csv_tables, published_operators, table_one, to_json
from cimplan.report.klein2026_text import differences, how_made
from cimplan.report.pages import listed
from reference_profiles import MODELS, reproduction, unpack


@pytest.fixture(scope="module")
def result():
    return reproduction()


@pytest.fixture(scope="module")
def written(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write_report(result, folder)


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_everything_is_written_whole(written):
    folder, files = written
    assert files[0] == folder / PAGE
    assert {file.name for file in folder.iterdir()} == {file.name for file in files}
    names = {"table1.csv", "figure3.csv", "figure4.csv", "figure5.csv", "open-question.csv", "instances.csv"}
    assert names | {"results.json", "figure3.svg", "figure3.png", "figure4.svg", "open-question.svg"} <= {
        file.name for file in files
    }
    assert all(file.stat().st_size > 0 for file in files)


def test_figures_are_small_and_well_formed(written):
    folder, _ = written
    for file in folder.glob("*.svg"):
        assert file.stat().st_size < 300_000
        assert ElementTree.parse(file).getroot().tag.endswith("svg")
    for file in folder.glob("*.png"):
        assert file.read_bytes().startswith(b"\x89PNG")


def test_the_page_stands_alone(written):
    folder, _ = written
    text = (folder / PAGE).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:)[^"]*"', text)
    assert "<script" not in text
    images = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert len(images) == len(list(folder.glob("*.svg")))
    for image in images:
        assert base64.b64decode(image).startswith(b"<svg")
    assert all(alt for alt in re.findall(r'alt="([^"]*)"', text))


def test_the_page_states_the_open_question(written):
    folder, _ = written
    text = html.unescape(" ".join((folder / PAGE).read_text(encoding="utf-8").split()))
    assert "need 201 (ResNet-18), 422 (ResNet-50), 142 (MobileNetV2), 95 (YOLOv5n)" in text
    assert "no speed-up could exceed 1.8, 3.1 and 6.0; printed are 8.7, 8.8 and 30.9 on ARM" in text
    assert "a <i>k</i> of at least 9.2, 3.7 and 6.0" in text
    assert "printed are 8.7, 8.8, 30.9 and 30.9. It explains the first number" in text
    assert "estimated" in text


def test_tables_hold_ours_and_the_published_numbers(result, written):
    folder, _ = written
    table = {row["model"]: row for row in rows_of(folder / "table1.csv")}
    for model in MODELS:
        assert int(table[model]["operators"]) == int(table[model]["published_operators"]) == TABLE_ONE[model].operators
        assert float(table[model]["gap"]) == 0
        assert float(table[model]["published_gap"]) == TABLE_ONE[model].gap
    assert len(rows_of(folder / "instances.csv")) == len(result.instances)
    assert len(rows_of(folder / "figure3.csv")) == len(BUDGETS) * len(LATENCIES_NS)
    for row in rows_of(folder / "figure4.csv"):
        assert float(row["published_speedup"]) == SPEEDUPS_50NS["arm", row["model"]][int(row["crossbars"])]
        assert float(row["speedup"]) == result.speedup(
            row["host"], row["model"], float(row["mvm_latency_ns"]), int(row["crossbars"])
        )
    stated = {
        (int(row["crossbars"]), float(row["mvm_latency_ns"])): int(row["published_operators_on_cim"])
        for row in rows_of(folder / "figure5.csv")
        if row["published_operators_on_cim"]
    }
    assert stated == {(25, 50.0): 16, (100, 50.0): 59, (200, 1000.0): 33}


def test_json_is_json_and_says_what_csv_says(result, written):
    folder, _ = written
    value = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert value == json.loads(json.dumps(to_json(result), allow_nan=False))
    assert [row["operators"] for row in value["table1"]] == [38, 79, 71, 251]
    assert [row["decision_variables"] for row in value["table1"]] == [44, 91, 71, 3041]
    assert [row["constraints"] for row in value["table1"]] == [204, 412, 331, 7035]
    assert all(row["same_size"] for row in value["table1"])
    assert value["hosts"][0]["origin"] == "estimated"


def test_only_the_parts_asked_for_are_written(result, tmp_path):
    part = replace(result, parts=("table1",), question=None, plans={}, curves={})
    names = {file.name for file in write_report(part, tmp_path)}
    assert names == {PAGE, "table1.csv", "instances.csv", "results.json"}
    assert "Figure 3" not in (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "figure3" not in to_json(part)


def test_figures_carry_the_numbers(result):
    maps = figure3(result).axes
    assert [text.get_text() for text in maps[0].texts][:4] == [
        f"{result.speedup(result.hosts[0].key, 'resnet18', 50.0, budget):.1f}×" for budget in BUDGETS
    ]
    assert [text.get_text() for text in maps[1].texts][:4] == ["8.7×", "8.8×", "30.9×", "30.9×"]
    (bars,) = figure4(result).axes
    heights = [bar.get_height() for container in bars.containers for bar in container]
    assert sorted(heights) == sorted(item.speedup for item in result.instances if item.mvm_latency_ns == 50.0)
    published = sorted(segment[0][1] for segment in bars.collections[-1].get_segments())
    assert published == sorted(
        value for (host, _), row in SPEEDUPS_50NS.items() if host == "arm" for value in row.values()
    )
    (counts,) = figure5_operators(result).axes
    assert sorted(segment[0][1] for segment in counts.collections[-1].get_segments()) == [16, 33, 59]


def test_every_figure_says_where_its_numbers_are_from(result):
    for name, figure in figures(result).items():
        words = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
        words += [axes.get_ylabel() for axes in figure.axes]
        words += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert any(word in text for text in words for word in ("estimated", "measured", "published")), name


def test_names_from_a_profile_cannot_inject_markup(result):
    (host,) = result.hosts
    evil = '<script>alert("x")</script>'
    profiles = {
        model: profile.model_copy(update={"machine": profile.machine.model_copy(update={"cpu": evil})})
        for model, profile in host.profiles.items()
    }
    text = klein2026.page(replace(result, hosts=(replace(host, profiles=profiles),)), [])
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_the_text_names_estimates_and_versions(result):
    assert any("estimated" in text and "factor of two" in text for text in how_made(result))
    assert any("onnxruntime" in text for text in how_made(result))
    assert any("128" not in text and "64 of 64 instances are proven optimal" in text for text in differences(result))


def test_another_graph_is_explained(result):
    (host,) = result.hosts
    sizes = {key: replace(size, operators=248) if key[1] == "yolov5n" else size for key, size in result.sizes.items()}
    changed = replace(result, sizes=sizes)
    (row,) = (row for row in table_one(changed) if row["model"] == "yolov5n")
    assert not row["same_size"]
    assert any("248 operators" in text and "1.29.0" in text for text in differences(changed))
    assert host.key == row["hosts"][0]["host"]


def test_a_busy_machine_is_owned_up_to(result):
    (host,) = result.hosts
    busy = host.profiles["resnet18"].model_copy(update={"notes": ("the machine was busy: very",)})
    changed = replace(result, hosts=(replace(host, profiles={**host.profiles, "resnet18": busy}),))
    assert any("ResNet-18" in text and "busy" in text for text in differences(changed))


def test_statements_without_a_budget_stand_at_the_largest(result):
    item = result.instance(result.hosts[0].key, "yolov5n", 50.0, 200)
    assert published_operators("x86", item) == (48, None)
    assert published_operators("arm", item) is None


def test_csv_has_one_header_and_no_empty_tables(result):
    for text in csv_tables(result).values():
        header, *lines = text.splitlines()
        assert lines
        assert header not in lines


def test_lists_read_as_sentences():
    assert listed([]) == ""
    assert listed([1]) == "1"
    assert listed([1, 2, 3.456], "{:.1f}") == "1.0, 2.0 and 3.5"


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_before_anything_is_computed(package, monkeypatch, result, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package}.*cimplan\[explore\]"):
        write_report(result, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="output folder"):
        prepare_folder(tmp_path / "out")
    prepare_folder(tmp_path / "new" / "deep")
    assert (tmp_path / "new" / "deep").is_dir()


def test_a_failing_figure_leaves_no_half_file(monkeypatch, result, tmp_path):
    def broken(_figure):
        raise RuntimeError

    monkeypatch.setattr(klein2026, "svg_text", broken)
    with pytest.raises(RuntimeError):
        write_report(result, tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert not (tmp_path / PAGE).exists()
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))


def test_hosts_with_different_networks_share_a_page(tmp_path):
    """One host of each bus; one of them has a profile of a single network."""
    folders = []
    for name, models, architecture in (
        ("board", ("resnet18", "mobilenet_v2"), "aarch64"),
        ("desk", ("resnet18",), "x86_64"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for model in models:
            path = unpack(folder, model) / f"{model}.json"
            value = json.loads(path.read_text(encoding="utf-8"))
            value["machine"]["architecture"] = architecture
            path.write_text(json.dumps(value), encoding="utf-8")
        folders.append(str(folder))
    result = reproduce(find_hosts(folders, MODELS))
    out = tmp_path / "out"
    prepare_folder(out)
    write_report(result, out)
    text = (out / PAGE).read_text(encoding="utf-8")
    assert "board" in text
    assert "desk" in text
    assert "–" in text
    found = {(row["host"], row["model"]): row["published_speedup"] for row in rows_of(out / "figure4.csv")}
    assert set(found) == {("board", "resnet18"), ("board", "mobilenet_v2"), ("desk", "resnet18")}
    printed = {(row["host"], row["crossbars"]): row["published_speedup"] for row in rows_of(out / "figure3.csv")}
    assert (printed["board", "25"], printed["desk", "200"]) == ("2.7", "1.0")
    assert not (out / "figure5.csv").exists()
