"""Spaces: what a file means, and one clear error with line and field for everything that is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan import units
from cimplan.errors import InputError
from cimplan.explore.axes import Range, values_of
from cimplan.explore.space import Space, designs_per_model, grid, load_space, points_wanted, space_from
from explore.explore_cases import space_value, write_space


def values(**fields):
    return Range.model_validate(fields).values()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"from": 0, "to": 10, "step": 5}, (0, 5, 10)),
        ({"from": 0, "to": 11, "step": 5}, (0, 5, 10)),
        ({"from": 3, "to": 3, "step": 1}, (3,)),
        ({"from": 1, "to": 9, "steps": 3}, (1, 5, 9)),
        ({"from": 1, "to": 3, "steps": 9}, (1, 2, 3)),
        ({"from": 1, "to": 1000, "steps": 4, "scale": "log"}, (1, 10, 100, 1000)),
        ({"from": 0.5, "to": 1.5, "steps": 3}, (0.5, 1.0, 1.5)),
        ({"from": "50ns", "to": "150ns", "steps": 3}, ("50ns", "100ns", "150ns")),
        ({"from": "50ns", "to": "1us", "steps": 2}, ("50ns", "1000ns")),
        ({"from": "1GB/s", "to": "16GB/s", "steps": 3, "scale": "log"}, ("1GB/s", "4GB/s", "16GB/s")),
        ({"from": "1234567.25ns", "to": "2ms", "steps": 2}, ("1234567.25ns", "2000000ns")),
    ],
)
def test_a_range_has_both_ends_and_keeps_its_unit(fields, expected):
    found = values(**fields)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"from": 5, "to": 1, "step": 1}, "backwards"),
        ({"from": 1, "to": 5}, "steps"),
        ({"from": 1, "to": 5, "step": 1, "steps": 3}, "step goes with"),
        ({"from": 0.5, "to": 5, "step": 1}, "step goes with"),
        ({"from": 0, "to": 5, "steps": 3, "scale": "log"}, "above 0"),
        ({"from": "1ns", "to": 5, "steps": 3}, "no"),
        ({"from": "1ns", "to": "5GB/s", "steps": 3}, "same kind"),
        ({"from": "fast", "to": "5GB/s", "steps": 3}, "quantity"),
        ({"from": "5", "to": "9", "steps": 3}, "unit"),
        ({"from": 0, "to": 10**9, "step": 1}, "more than"),
        ({"from": float("nan"), "to": 1.0, "steps": 3}, "finite"),
        ({"from": True, "to": 2, "steps": 3}, "number"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        values(**fields)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(2, 50), st.sampled_from(["linear", "log"]))
@settings(deadline=None)
def test_ranges_rise_within_their_ends(first, span, steps, scale):
    last = first + span
    if scale == "log":
        first, last = first + 1, last + 1
    whole = values(**{"from": first, "to": last, "steps": steps, "scale": scale})
    assert whole[0] == first and whole[-1] == last
    assert list(whole) == sorted(set(whole))
    times = values(**{"from": f"{first}ns", "to": f"{last}ns", "steps": steps, "scale": scale})
    numbers = [units.parse_duration_ns(text) for text in times]
    assert numbers[0] == first and numbers[-1] == last
    assert numbers == sorted(numbers)


def test_equal_values_count_once_and_true_is_not_one():
    assert values_of((1, 1, True, None, "a", "a")) == (1, True, None, "a")


def test_the_grid_is_in_the_order_of_the_file(folder):
    loaded = space_from(space_value(methods=["greedy", "heft"]), folder)
    designs = list(grid(loaded.space))
    assert len(designs) == points_wanted(loaded.space) == designs_per_model(loaded.space) == 16
    assert [design.method for design in designs] == ["greedy"] * 8 + ["heft"] * 8
    assert designs[1].values == (("accelerator.mvm_latency", "50ns"), ("accelerator.crossbars", 1))


def test_a_space_survives_its_store(folder):
    vary = {
        "accelerator.operators": [["Conv"], ["Conv", "Gemm"]],
        "accelerator.crossbars": {"from": 1, "to": 2, "step": 1},
    }
    space = space_from(space_value(vary=vary, options={"fix": {"tiny.onnx": {"stem": "host"}}}), folder).space
    text = json.dumps(space.model_dump(mode="json", by_alias=True))
    assert Space.model_validate(json.loads(text)) == space


def test_paths_are_relative_to_the_file(folder, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    loaded = load_space(write_space(folder))
    assert loaded.model_source("tiny.onnx") == folder / "tiny.onnx"


ACCEPTED_AXES = {
    "accelerator.differential_columns": [True, False],
    "accelerator.write_latency": [None, "56us"],
    "accelerator.input_bits_per_slice": [None, 1, 4],
    "accelerator.operators": [["Conv"], ["Gemm", "Conv"]],
    "accelerator.group_packing": ["block_diagonal", "one_per_group"],
    "accelerator.weight_write": ["never", "every_inference"],  # fits only with a write latency: said point by point
    "bus.bandwidth": ["1GB/s", "800MB/s"],
    "host.cores": [1, 2],
    "host.estimate": ["cortex-a72", None],
    "options.time_limit": ["1s", None],
    "options.seed": {"from": 0, "to": 3, "step": 1},
}


@pytest.mark.parametrize("name", ACCEPTED_AXES)
def test_any_field_can_vary(folder, name):
    space = space_from(space_value(vary={name: ACCEPTED_AXES[name]}), folder).space
    assert designs_per_model(space) == len(space.axes()[name])


REFUSED = {
    "schema_version: 2": ({"schema_version": 2}, ("space.yaml:1", "schema_version")),
    "no version": ({"schema_version": None}, ("schema_version", "missing")),
    "unknown field": ({"modles": ["x"]}, ("modles", "Did you mean 'models'")),
    "no models": ({"models": []}, ("space.yaml:3, models",)),
    "models as text": ({"models": "tiny.onnx"}, ("space.yaml:3, models",)),
    "model missing": ({"models": ["tiny.onnx", "no.onnx"]}, ("space.yaml:5, models[1]", "no.onnx")),
    "zoo name": ({"models": ["zoo:resnet81"]}, ("models[0]", "Did you mean 'resnet18'")),
    "weightless": ({"models": ["zoo:opt_13b"]}, ("models[0]", "no weights")),
    "model twice": ({"models": ["tiny.onnx", "tiny.onnx"]}, ("models[1]", "twice")),
    "hardware": ({"hardware": "rram-265"}, ("space.yaml:5, hardware", "Did you mean 'rram-256'")),
    "dual-mode hardware": ({"hardware": "dynaplasia"}, ("hardware", "no accelerator")),
    "host": ({"host": "cortex-a27"}, ("host", "Did you mean 'cortex-a72'")),
    "host twice": ({"host": "measured", "vary": {"host.estimate": [None]}}, ("host", "varies")),
    "method": ({"methods": ["greed"]}, ("methods[0]", "Did you mean 'greedy'")),
    "axis": ({"vary": {"accelerator.crossbar": [1]}}, ("vary.accelerator.crossbar", "accelerator.crossbars")),
    "dual-mode axis": ({"vary": {"dual_mode.arrays": [1]}}, ("vary.dual_mode.arrays",)),
    "axis of nothing": ({"vary": {"accelerator.crossbars": []}}, ("vary.accelerator.crossbars", "list of values")),
    "axis of one number": ({"vary": {"accelerator.crossbars": 5}}, ("vary.accelerator.crossbars", "list of values")),
    "axis value": ({"vary": {"accelerator.crossbars": [1, -5]}}, ("space.yaml:9, vary.accelerator.crossbars[1]", "-5")),
    "axis fraction": ({"vary": {"accelerator.crossbars": [1.5]}}, ("vary.accelerator.crossbars[0]", "1.5")),
    "axis unit": ({"vary": {"bus.bandwidth": [5]}}, ("vary.bus.bandwidth[0]", "unit", "GB/s")),
    "axis null": ({"vary": {"accelerator.rows": [None]}}, ("vary.accelerator.rows[0]", "required")),
    "axis name": ({"vary": {"accelerator.tile_execution": ["paralel"]}}, ("tile_execution[0]", "paralel")),
    "axis mapping": ({"vary": {"accelerator.rows": [{"a": 1}]}}, ("vary.accelerator.rows", "a value is")),
    "range field": (
        {"vary": {"accelerator.rows": {"from": 1, "to": 2, "stepps": 3}}},
        ("vary.accelerator.rows.stepps", "Did you mean 'steps'"),
    ),
    "range end": ({"vary": {"accelerator.rows": {"from": 1, "steps": 3}}}, ("vary.accelerator.rows.to", "missing")),
    "range values": (
        {"vary": {"accelerator.crossbars": {"from": -1, "to": 2, "step": 1}}},
        ("vary.accelerator.crossbars", "-1"),
    ),
    "host axis": ({"vary": {"host.estimate": ["cortex-a27"]}}, ("vary.host.estimate[0]", "cortex-a72")),
    "time limit axis": ({"vary": {"options.time_limit": [5]}}, ("options.time_limit[0]", "duration")),
    "seed axis": ({"vary": {"options.seed": [-1]}}, ("options.seed[0]", "seed")),
    "time limit": ({"options": {"time_limit": "10"}}, ("options.time_limit", "unit is missing")),
    "time limit of nothing": ({"options": {"time_limit": "0s"}}, ("options.time_limit", "more than 0")),
    "option": ({"options": {"sed": 1}}, ("options.sed", "Did you mean 'seed'")),
    "fix of another model": ({"options": {"fix": {"x.onnx": {"a": "host"}}}}, ("options.fix.x.onnx", "tiny.onnx")),
    "fix place": ({"options": {"fix": {"tiny.onnx": {"stem": "gpu"}}}}, ("options.fix.tiny.onnx.stem", "gpu")),
    "search": ({"search": {"kind": "nsga3", "points": 5}}, ("search.kind", "nsga2")),
    "search points": ({"search": {"kind": "tpe"}}, ("search", "needs points")),
    "search field": ({"search": {"kind": "tpe", "pionts": 5}}, ("search.pionts", "Did you mean 'points'")),
    "objective": ({"objectives": ["speed"]}, ("objectives[0]", "latency")),
    "no price": ({"objectives": ["latency", "area"]}, ("objectives[1]", "area_mm2_per_crossbar")),
    "price": ({"prices": {"energy_pj_per_mvm": -1}}, ("prices.energy_pj_per_mvm", "greater than or equal")),
    "useless price": ({"prices": {"host_power_w": 1}}, ("prices", "energy_pj_per_mvm")),
    "profile of another model": ({"profiles": {"x.onnx": "p.json"}}, ("profiles.x.onnx", "not a model")),
    "profile missing": ({"profiles": {"tiny.onnx": "p.json"}}, ("profiles.tiny.onnx", "p.json", "cimplan profile")),
    "too large": (
        {"vary": {f"accelerator.{name}": {"from": 1, "to": 2000, "step": 1} for name in ("rows", "crossbars")}},
        ("vary", "4,000,000 points", "nsga2"),
    ),
    "too large to search": (
        {
            "search": {"kind": "tpe", "points": 10},
            "vary": {
                f"accelerator.{name}": {"from": 64, "to": 60_000, "step": 1}
                for name in ("rows", "columns", "crossbars")
            }
            | {"host.cores": {"from": 1, "to": 100, "step": 1}},
        },
        ("vary", "too large to search"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_space_is_said_with_line_and_field(folder, case):
    changes, words = REFUSED[case]
    with pytest.raises(InputError) as raised:
        load_space(write_space(folder, **changes))
    message = str(raised.value)
    assert message.startswith(f"{folder / 'space.yaml'}:")
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("- 1\n- 2\n", "mapping"),
        ("name: &a x\nmodels: *a\n", "anchors"),
        ("name: !!python/object/apply:os.system [ls]\n", "tags"),
        ("name: a\nname: b\n", "twice"),
        ("name: [\n", "not YAML"),
        ("a: " + "[" * 1000 + "]" * 1000, "deep"),
        ("name: \x00\n", "YAML"),
    ],
)
def test_untrusted_text_is_refused(folder, text, word):
    path = folder / "space.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=word) as raised:
        load_space(path)
    assert "hardware show" not in str(raised.value)


def test_a_missing_or_binary_file_is_refused(folder):
    with pytest.raises(InputError, match="No such file"):
        load_space(folder / "nothing.yaml")
    (folder / "space.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_space(folder / "space.yaml")
