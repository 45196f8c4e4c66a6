"""Tables, figures and the page of the CMSwitch reproduction, from numbers made by hand."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest

from cimplan.explore import published_cmswitch as published
from cimplan.explore.cmswitch import COST_MODELS, CompileTime, Outcome, Reproduction, VerifiedProgram
from cimplan.explore.cmswitch_allocation import OperatorArrays, SegmentRun
from cimplan.explore.cmswitch_cases import (
    ALLOCATION,
    BATCH,
    COMPILE_TIME,
    END_TO_END,
    PAPER,
    PARTS,
    PROGRAMS,
    READINGS,
    SEQUENCE,
    VGG16,
)
from cimplan.hardware import load
from cimplan.report.cmswitch import page, write_report
from cimplan.report.cmswitch_figures import figures
from cimplan.report.cmswitch_tables import csv_tables, end_to_end, middle_layer, readings, sequence, to_json
from cimplan.report.cmswitch_text import differences, how_made, survivors


def outcome(case, cost_model, variant="", *, speedup=1.25) -> Outcome:
    cycles = {"compute": 100, "switch": 1, "write": 899, "write_back": 0}
    return Outcome(
        case=case,
        cost_model=cost_model,
        variant=variant,
        latency_cycles=1000,
        all_compute_cycles=round(1000 * speedup),
        lower_bound_cycles=1000,
        cycles=cycles,
        memory_share=0.1,
        run_memory_share=0.2,
        segments=10,
        split_size=8,
        status="optimal",
        compile_s=0.5,
    )


@pytest.fixture
def result() -> Reproduction:
    gains = {"published": 1.25, "resident": 1.0}
    cases = list(dict.fromkeys(case for part in PARTS for case in PAPER.cases(part)))
    outcomes = [outcome(case, cost, speedup=gains[cost]) for case in cases for cost in COST_MODELS]
    outcomes += [
        outcome(case, variant.cost_model, variant.name, speedup=2.0)
        for case in PAPER.table()
        for variant in PAPER.variants
    ]
    arrays = tuple(
        OperatorArrays(f"layer{layer}.attention.query.product", 104, 2, 50.0, 8.0, "data", 100) for layer in range(4)
    )
    return Reproduction(
        evaluation=PAPER,
        parts=PARTS,
        hardware=load("dynaplasia"),
        outcomes=tuple(outcomes),
        arrays={(case, cost): arrays for case in PAPER.cases(ALLOCATION) for cost in COST_MODELS},
        runs={cost: (SegmentRun(0, 3, ("stage1.conv1", "<b>"), 90.0, 6.0, 1000),) for cost in COST_MODELS},
        compile_times=tuple(CompileTime(case, "published", 1.0, 3.0) for case in PAPER.table()),
        programs=tuple(VerifiedProgram(case, 10, 1234) for case in PAPER.cases(PROGRAMS)),
        elapsed_s=12.0,
    )


def test_the_table_stands_beside_the_printed_numbers(result):
    rows = end_to_end(result)
    assert len(rows) == 2 * len(PAPER.networks)
    for row in rows:
        stated = published.END_TO_END[row["model"]]
        assert (row["printed"], row["printed_least"], row["printed_largest"]) == (
            stated.average,
            stated.least,
            stated.largest,
        )
        assert row["least"] <= row["speedup"] <= row["largest"]
    assert to_json(result)["overall"] == {"published": 1.25, "resident": 1.0, "printed": 1.31}


def test_printed_numbers_stand_only_where_they_were_printed(result):
    rows = sequence(result)
    stated = {(row["model"], row["phase"], row["seq"]): row["printed"] for row in rows if row["printed"] is not None}
    expected = {("opt_6_7b", "prefill", seq): value for seq, value in published.OPT_SEQUENCE_SPEEDUPS.items()}
    expected |= {("bert_large", "prefill", seq): value for seq, value in published.BERT_SEQUENCE_SPEEDUPS.items()}
    assert stated == expected


def test_readings_begin_with_the_defaults_and_end_with_the_printed(result):
    rows = readings(result)
    assert [row["variant"] for row in rows[:2]] == ["defaults", "defaults"]
    assert rows[-1]["group"] == "printed"
    assert rows[-1]["mean"] == pytest.approx(1.31, abs=0.005)
    assert [row["variant"] for row in rows[2:-1]] == [variant.name for variant in PAPER.variants]


def test_the_middle_layer_stands_for_all():
    made = [OperatorArrays(name, 1, 1, 1.0, 0.0, "data", 1) for name in ("layer0.a", "layer1.a", "layer2.a", "head")]
    assert [one.name for one in middle_layer(made)] == ["layer1.a"]
    assert [one.name for one in middle_layer(made[3:])] == ["head"]


def test_gains_that_do_not_survive_are_named(result):
    kept, lost = survivors(result)
    assert kept == []
    assert len(lost) == len(PAPER.networks)
    text = " ".join(differences(result))
    for words in ("BERT-large (1.000)", "1.31", "Switching takes at most 0.10 %", "3.0 to 3.0 times"):
        assert words in text
    assert any("none was chosen" in said for said in how_made(result))


def test_every_part_alone_gives_its_tables_and_a_page(result):
    for part in PARTS:
        one = replace(result, parts=(part,))
        assert set(csv_tables(one)) == {"outcomes.csv", f"{part}.csv"}
        assert "<h2>" in page(one, {})
        json.dumps(to_json(one), allow_nan=False)


def test_files_are_complete_and_the_page_needs_nothing_beside_it(result, tmp_path):
    written = write_report(result, tmp_path)
    assert written[0].name == "index.html"
    assert {path.name for path in written} == {path.name for path in tmp_path.iterdir()}
    text = written[0].read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    for name in (END_TO_END, SEQUENCE, BATCH, ALLOCATION, READINGS):
        assert f'id="{name}"' in text
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
    rows = list(csv.DictReader((tmp_path / "end-to-end.csv").read_text().splitlines()))
    assert len(rows) == 12
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(to_json(result)))


def test_figures_are_drawn_only_for_parts_that_were_computed(result):
    assert set(figures(replace(result, parts=(VGG16, COMPILE_TIME, PROGRAMS)))) == set()
    assert set(figures(replace(result, parts=(BATCH,)))) == {"batch"}


def test_the_command_prints_what_was_computed(result, capsys):
    from cimplan.cli.reproduce_cmswitch import print_cmswitch

    print_cmswitch(to_json(result))
    out = capsys.readouterr().out
    assert "1.25 (1.17)" in out
    assert "mean over networks: 1.25 published, 1.00 resident (1.31)" in out
    assert "data_moved=inputs" in out
    assert "1,234" in out
