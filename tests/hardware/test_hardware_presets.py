"""The presets: valid, sourced number by number, and meaning what their papers say."""

from __future__ import annotations

import pytest
import yaml

from cimplan import hardware
from cimplan.errors import InputError

PRESETS = hardware.preset_names()


def test_the_presets_of_the_design_exist():
    assert set(PRESETS) >= {
        "rram-256",
        "rram-256-arm",
        "rram-512",
        "rram-256-sliced",
        "isaac-like",
        "puma-like",
        "dynaplasia",
        "prime",
        "fefet-like",
        "dual-mode-small",
    }
    assert hardware.DEFAULT_PRESET == "rram-256"


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_of_a_preset_has_a_source(name):
    text = yaml.safe_load(hardware.preset_text(name))
    numbers = {
        f"{section}.{field}"
        for section in ("host", "bus", "accelerator", "dual_mode")
        for field, value in text.get(section, {}).items()
        if not isinstance(value, bool) and (isinstance(value, (int, float)) or str(value)[0].isdigit())
    }
    assert numbers
    choices = {"bus.network_io"} if "bus" in text else set()
    assert numbers | choices == set(text["sources"])
    assert numbers == set(hardware.number_fields(hardware.load(name)))
    assert all(source.strip() for source in text["sources"].values())


def test_the_networks_inputs_and_outputs_are_free_only_where_the_set_up_is_the_papers():
    rules = {name: found.bus.network_io for name in PRESETS if (found := hardware.load(name)).bus is not None}
    assert {name for name, rule in rules.items() if rule == "free"} == {"rram-256", "rram-256-arm", "rram-512"}
    assert {name for name, rule in rules.items() if rule == "charged"} == {"rram-256-sliced", "isaac-like", "puma-like"}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_named_like_its_file_and_has_no_remarks(name):
    found, remarks = hardware.check(name)
    assert found.name == name
    assert found.description
    assert remarks == ()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_being_written_as_a_description(name):
    found = hardware.load(name)
    assert hardware.from_description(found.to_description()) == found


@pytest.mark.parametrize(
    ("name", "rows", "weight_columns", "latency_ns"),
    [
        ("rram-256", 256, 256, 50),
        ("rram-512", 512, 512, 50),
        ("rram-256-sliced", 256, 64, 2800),  # two cells, two signs; two slices of 1.4 us
        ("isaac-like", 128, 16, 1600),  # eight cells; sixteen slices of 100 ns
        ("puma-like", 128, 16, 2304),
    ],
)
def test_derived_geometry_and_latency(name, rows, weight_columns, latency_ns):
    accelerator = hardware.load(name).accelerator
    assert (accelerator.rows, accelerator.weight_columns) == (rows, weight_columns)
    assert accelerator.weights_per_crossbar == rows * weight_columns
    assert accelerator.sliced_mvm_latency_ns == pytest.approx(latency_ns)


def test_the_papers_two_buses_differ_and_nothing_else():
    x86, arm = hardware.load("rram-256"), hardware.load("rram-256-arm")
    assert (x86.bus.bandwidth_gbps, arm.bus.bandwidth_gbps) == (20.48, 10.24)
    assert x86.accelerator.internal_bandwidth_gbps == 20.48
    assert hardware.with_overrides(arm, internal_bandwidth_gbps=20.48).accelerator == x86.accelerator


def test_dynaplasia_holds_what_its_papers_say():
    chip = hardware.load("dynaplasia").dual_mode
    assert (chip.arrays, chip.rows, chip.weight_columns) == (96, 320, 40)
    assert chip.array_bytes == chip.weights_per_array == 12_800
    assert chip.op_per_cycle * chip.arrays * chip.clock_hz == pytest.approx(19.5e12, rel=1e-3)
    assert chip.main_bytes_per_cycle / chip.cycle_ns == pytest.approx(26, rel=0.03)
    assert chip.buffer_bytes == 80_000


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'rram-256-sliced'") as caught:
        hardware.load("rram-256-slice")
    assert caught.value.exit_code == 2
    with pytest.raises(InputError, match="Did you mean 'dynaplasia'"):
        hardware.Hardware.preset("dynaplasa")


def test_with_overrides_changes_only_what_is_named_and_says_so():
    base = hardware.load("rram-256")
    changed = hardware.with_overrides(base, crossbars=25, mvm_latency_ns=1000.0, bus_bandwidth_gbps=1.5, host_cores=2)
    assert (changed.accelerator.crossbars, changed.accelerator.mvm_latency_ns) == (25, 1000.0)
    assert (changed.bus.bandwidth_gbps, changed.host.cores) == (1.5, 2)
    assert changed.accelerator.rows == base.accelerator.rows
    assert base.accelerator.crossbars == 100
    assert changed.sources["accelerator.crossbars"] == "overridden by the user"
    assert hardware.with_overrides(base, accelerator={"cell_bits": 4, "cells_per_weight": 2}).accelerator.cell_bits == 4
    assert hardware.with_overrides(base) == base


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crossbars": -1}, "greater than or equal to 0"),
        ({"mvm_latency_ns": 0.0}, "zero has no meaning"),
        ({"mvm_latency_ns": float("nan")}, "not a duration"),
        ({"bus_bandwidth_gbps": float("inf")}, "not a bandwidth"),
        ({"accelerator": {"colums": 4}}, "Did you mean 'columns'"),
        ({"dual_mode": {"arrays": 4}}, "no section dual_mode"),
        ({"crossbars": True}, "valid integer"),
    ],
)
def test_a_bad_override_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        hardware.with_overrides(hardware.load("rram-256"), **changes)


def test_the_documentation_names_every_field_with_its_meaning():
    from pathlib import Path

    from cimplan.hardware import schema

    page = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
    for part in (schema.Hardware, schema.Host, schema.Bus, schema.Accelerator, schema.DualModeChip):
        for name, info in part.model_fields.items():
            assert info.description
            assert f"| `{info.alias or name}` |" in page
            assert info.description in page
    for name in PRESETS:
        assert f"`{name}`" in page


def test_setting_a_value_to_what_it_is_changes_nothing():
    from cimplan.hardware import load, with_overrides

    chip = load("rram-256")
    assert with_overrides(chip, crossbars=100, mvm_latency_ns=50.0) == chip
    assert with_overrides(chip, crossbars=101).sources["accelerator.crossbars"] == "overridden by the user"
