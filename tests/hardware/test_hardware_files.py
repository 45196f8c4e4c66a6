"""Faulty descriptions: each refused with file and line, field path, reason and suggestion."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan import hardware
from cimplan.errors import InputError

GOOD = """\
schema_version: 1
name: mine
host:
  name: board
  cores: 1
bus:
  bandwidth: 10GB/s
accelerator:
  crossbars: 8
  rows: 64
  columns: 32
  mvm_latency: 100ns
  internal_bandwidth: 10GB/s
"""

CHIP = """\
schema_version: 1
name: chip
dual_mode:
  arrays: 4
  rows: 16
  columns: 16
  columns_per_weight: 2
  op_per_cycle: 8
  memory_bytes_per_cycle: 2.5
  main_bytes_per_cycle: 4
  buffer: 1KiB
  switch_to_compute_cycles: 1
  switch_to_memory_cycles: 0
  write_cycles: 16
  write_back_bytes_per_cycle: 4
  clock: 100MHz
"""


def refused(tmp_path, text, *, name="mine.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        hardware.load(path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_good_ones_are_good(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    found, remarks = hardware.check(path)
    assert found.accelerator.rows == 64
    assert "accelerator.mvm_latency has no entry in sources" in remarks
    assert hardware.load(str(path)) == found
    chip = hardware.parse(CHIP).dual_mode
    assert (chip.memory_bytes_per_cycle, chip.buffer_bytes, chip.weights_per_array) == (2.5, 1024, 128)
    assert hardware.parse("\ufeff" + CHIP.replace("\n", "\r\n"), "chip").dual_mode == chip


FAULTS = [
    # change of the good text, line of the fault, field path, what the message says
    ("crossbars: 8", "crossbar: 8", 9, "accelerator.crossbar", "Did you mean 'crossbars'"),
    ("bus:", "buss:", 6, "buss", "Did you mean 'bus'"),
    ("rows: 64", "rows: 64\n  rows: 65", 11, "accelerator.rows", "already in line 10"),
    ("name: mine", "name: mine\nname: yours", 3, "name", "given twice"),
    ("rows: 64", "rows: -64", 10, "accelerator.rows", "greater than 0"),
    ("rows: 64", "rows: 0", 10, "accelerator.rows", "greater than 0"),
    ("cores: 1", "cores: 0", 5, "host.cores", "greater than 0"),
    ("crossbars: 8", "crossbars: -1", 9, "accelerator.crossbars", "greater than or equal to 0"),
    ("rows: 64", "rows: 64.0", 10, "accelerator.rows", "valid integer"),
    ("rows: 64", "rows: '64'", 10, "accelerator.rows", "valid integer"),
    ("rows: 64", "rows: sixty", 10, "accelerator.rows", "this is 'sixty'"),
    ("rows: 64", "rows: true", 10, "accelerator.rows", "valid integer"),
    ("rows: 64", "rows: [64]", 10, "accelerator.rows", "valid integer"),
    ("rows: 64", "rows:", 10, "accelerator.rows", "valid integer"),
    ("rows: 64", "rows: .nan", 10, "accelerator.rows", "integer"),
    ("rows: 64", "rows: 99999999999999999999", 10, "accelerator.rows", "less than or equal"),
    ("rows: 64", "rows: " + "9" * 5000, 10, "", "too long"),
    ("mvm_latency: 100ns", "mvm_latency: 100", 12, "accelerator.mvm_latency", "unit of this duration is missing"),
    ("mvm_latency: 100ns", "mvm_latency: '100'", 12, "accelerator.mvm_latency", "unit is missing"),
    ("mvm_latency: 100ns", "mvm_latency: 100GB/s", 12, "accelerator.mvm_latency", "not a unit of duration"),
    ("mvm_latency: 100ns", "mvm_latency: -100ns", 12, "accelerator.mvm_latency", "not negative"),
    ("mvm_latency: 100ns", "mvm_latency: 0ns", 12, "accelerator.mvm_latency", "zero has no meaning"),
    ("mvm_latency: 100ns", "mvm_latency: nan ns", 12, "accelerator.mvm_latency", "not a duration"),
    ("mvm_latency: 100ns", "mvm_latency: 1e999ns", 12, "accelerator.mvm_latency", "finite"),
    ("mvm_latency: 100ns", "mvm_latency: .inf", 12, "accelerator.mvm_latency", "unit"),
    ("mvm_latency: 100ns", "mvm_latency: true", 12, "accelerator.mvm_latency", "number with a unit"),
    ("bandwidth: 10GB/s\nacc", "bandwidth: 10\nacc", 7, "bus.bandwidth", "Write it like 20.48GB/s"),
    ("bandwidth: 10GB/s\nacc", "bandwidth: 0GB/s\nacc", 7, "bus.bandwidth", "zero has no meaning"),
    ("  mvm_latency: 100ns\n", "", 8, "accelerator.mvm_latency", "a field is missing"),
    ("  rows: 64", "  tile_execution: both\n  rows: 64", 10, "accelerator.tile_execution", "'parallel' or 'series'"),
    ("  rows: 64", "  operators: [Conv, Gem]\n  rows: 64", 10, "accelerator.operators[1]", "Did you mean 'Gemm'"),
    ("  rows: 64", "  operators: Conv\n  rows: 64", 10, "accelerator.operators", "tuple"),
    ("  rows: 64", "  weight_write: every_inference\n  rows: 64", 8, "accelerator.write_latency", "charges writing"),
    ("  rows: 64", "  allow_activation_products: true\n  rows: 64", 8, "accelerator.write_latency", "charges writing"),
    (
        "  rows: 64",
        "  cell_bits: 3\n  cells_per_weight: 2\n  rows: 64",
        11,
        "accelerator.cells_per_weight",
        "cannot hold",
    ),
    (
        "  rows: 64",
        "  weight_bits: 33\n  cell_bits: 1\n  rows: 64",
        13,
        "accelerator.columns",
        "smaller than one weight",
    ),
    (
        "  rows: 64",
        "  input_bits_per_slice: 9\n  rows: 64",
        10,
        "accelerator.input_bits_per_slice",
        "wider than an input",
    ),
    ("schema_version: 1", "schema_version: 2", 1, "schema_version", "reads schema_version 1"),
    ("schema_version: 1\n", "", 1, "schema_version", "missing"),
    ("schema_version: 1", "schema_version: one", 1, "schema_version", "reads schema_version 1"),
    ("name: mine", "name: mine\nsources:\n  accelerator.rowz: x", 4, "sources.accelerator.rowz", "accelerator.rows"),
    ("name: mine", "name: mine\nsources: [x]", 3, "sources", "dictionary"),
    ("name: mine", "name: mine\nsources:\n  accelerator.rows: 7", 4, "sources.accelerator.rows", "string"),
    ("name: mine", "name: 7", 2, "name", "string"),
    ("name: mine", "name: &a mine", 2, "", "anchors"),
    ("name: mine", "name: *a", 2, "", "aliases"),
    ("name: mine", "name: !!python/object/apply:os.system [ls]", 2, "", "tags"),
    ("name: mine", "name: ! mine", 2, "", "tags"),
    ("name: mine", "name: mine\n<<: {rows: 1}", 3, "<<", "not known"),
    ("name: mine", "? [a, b]\n: mine", 2, "", "must be text"),
    ("name: mine", "name: 'mine", 13, "", "not YAML"),
    ("name: mine", "name: mine\n\tx: 1", 3, "", "not YAML"),
    ("name: mine", "name: {mine", 3, "", "not YAML"),
    ("name: mine", "name: mine\n---\nname: yours", 3, "", "more than one document"),
    ("accelerator:", "accelerator: 5\nhost2:", 8, "accelerator", "valid dictionary"),
]


@pytest.mark.parametrize(("old", "new", "line", "path", "message"), FAULTS)
def test_a_fault_is_named_with_line_path_and_advice(tmp_path, old, new, line, path, message):
    assert GOOD.count(old) == 1
    text = refused(tmp_path, GOOD.replace(old, new))
    assert message in text
    found = re.search(r"mine\.yaml:(\d+)(?:, ([^:]+))?: ", text)
    assert found, text
    assert found[2] == (path or None), text
    assert abs(int(found[1]) - line) <= (1 if "not YAML" in message else 0), text


CHIP_FAULTS = [
    ("arrays: 4", "arrays: 0", "dual_mode.arrays", "greater than 0"),
    ("main_bytes_per_cycle: 4", "main_bytes_per_cycle: -4", "dual_mode.main_bytes_per_cycle", "greater than or equal"),
    ("memory_bytes_per_cycle: 2.5", "memory_bytes_per_cycle: .inf", "dual_mode.memory_bytes_per_cycle", "finite"),
    ("memory_bytes_per_cycle: 2.5", "memory_bytes_per_cycle: .nan", "dual_mode.memory_bytes_per_cycle", "finite"),
    ("memory_bytes_per_cycle: 2.5", "memory_bytes_per_cycle: true", "dual_mode.memory_bytes_per_cycle", "number"),
    ("columns: 16", "columns: 1", "dual_mode.columns", "smaller than one weight"),
    ("write_cycles: 16", "write_cycles: -1", "dual_mode.write_cycles", "greater than or equal to 0"),
    ("write_cycles: 16", "write_cycle: 16", "dual_mode.write_cycle", "Did you mean 'write_cycles'"),
    ("buffer: 1KiB", "buffer: 1024", "dual_mode.buffer", "unit of this size is missing"),
    ("buffer: 1KiB", "buffer: 0.3B", "dual_mode.buffer", "whole number of bytes"),
    ("clock: 100MHz", "clock: 0MHz", "dual_mode.clock", "zero has no meaning"),
    ("clock: 100MHz", "clock: 10ns", "dual_mode.clock", "not a unit of frequency"),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), CHIP_FAULTS)
def test_a_bad_chip_is_refused(tmp_path, old, new, path, message):
    assert CHIP.count(old) >= 1
    text = refused(tmp_path, CHIP.replace("  " + old, "  " + new))
    assert message in text
    assert f", {path}: " in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"# nothing\n", "empty"),
        (b"---\n", "not a mapping"),
        (b"just text\n", "not a mapping"),
        (b"- a\n- b\n", "not a mapping"),
        (b"\xff\xfe\x00a", "not UTF-8"),
        (b"name: \xc3\x28", "not UTF-8"),
        (b"a: " + b"[" * 100_000, "nested too deeply"),
        (b"a: " + b"x" * 300_000, "too large"),
        (b"a: \x00", "not YAML"),
        (b"%YAML " + b"9" * 5000, "not YAML"),
        (b"a: [" + b"1," * 20_000 + b"1]", "the limit is 20000"),
        (b"".join(b"a%d: [[[[1]]]]\n" % number for number in range(6000)), "the limit is 20000"),
        (b"? " * 100_000, "a field name must be text"),
        (b"{}", "missing"),
    ],
)
def test_a_file_that_is_no_description_is_refused(tmp_path, content, message):
    assert message in refused(tmp_path, content)


def test_an_alias_bomb_is_refused_before_it_expands(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "anchors are not allowed" in refused(tmp_path, "\n".join(lines))


def test_the_first_few_of_many_fields_that_are_given_twice_are_named(tmp_path):
    lines = [f"a{number}: {value}" for number in range(5000) for value in (1, 2)]
    text = refused(tmp_path, "\n".join(lines))
    assert "mine.yaml:2, a0: the field is given twice. it is already in line 1" in text
    assert "so are a1 (line 4), a2 (line 6) and others" in text
    assert len(text) < 400


def test_two_fields_that_are_given_twice_are_both_named(tmp_path):
    text = refused(tmp_path, GOOD.replace("rows: 64", "rows: 64\n  rows: 65") + "\nname: other\n")
    assert "rows: the field is given twice" in text and "so are name (line" in text and "others" not in text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("mvm_latency: 1us", "mvm_latency: 1e300ns", "a duration here is between 1e-06ns and 1e+15ns"),
        ("mvm_latency: 1us", "mvm_latency: 1e-300ns", "a duration here is between"),
        ("bandwidth: 1GB/s", "bandwidth: 1e-300GB/s", "a bandwidth here is between 1e-09GB/s and 1e+15GB/s"),
        ("bandwidth: 1GB/s", "bandwidth: 1e300GB/s", "a bandwidth here is between"),
    ],
)
def test_a_quantity_that_no_hardware_has_is_refused(tmp_path, old, new, reason):
    name = old.split(":")[0]
    text = re.sub(rf"{name}: \S+", new, GOOD)
    assert text != GOOD
    assert reason in refused(tmp_path, text)


@pytest.mark.parametrize("what", ["name: {}", "{}: 1", "description: &{} 1", "name: !{} 1", "name: *{}"])
def test_an_error_about_a_very_long_name_is_short(tmp_path, what):
    assert len(refused(tmp_path, what.format("n" * 200_000))) < 1000
    assert len(refused(tmp_path, what.format("n" * 900))) < 1000


def test_several_faults_are_counted_and_the_first_line_is_named(tmp_path):
    text = refused(tmp_path, GOOD.replace("rows: 64", "rows: -1").replace("columns: 32", "columns: -1"))
    assert "mine.yaml:10, accelerator.rows" in text
    assert "1 more fault" in text


def test_a_description_needs_a_chip_and_an_accelerator_needs_a_bus(tmp_path):
    assert "neither an accelerator nor a dual_mode" in refused(tmp_path, "schema_version: 1\nname: x\n")
    assert "needs the bus" in refused(tmp_path, GOOD.replace("bus:\n  bandwidth: 10GB/s\n", ""))


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        hardware.load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="it is a folder"):
        hardware.load(tmp_path)


def test_yaml_words_stay_words(tmp_path):
    text = GOOD.replace("name: mine", "name: no").replace("name: board", "name: 1:30")
    found = hardware.parse(text)
    assert (found.name, found.host.name) == ("no", "1:30")


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail_otherwise(text):
    with pytest.raises(InputError):
        hardware.parse(text)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 40),
    st.sampled_from(["", ":", "- ", "[", "{", "'", "\t", "#", "&a ", "!x "]),
)
def test_a_damaged_file_is_read_or_refused_cleanly(start, length, patch):
    text = GOOD[:start] + patch + GOOD[start + length :]
    try:
        hardware.parse(text)
    except InputError as error:
        assert str(error)
