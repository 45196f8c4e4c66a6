"""The CMSwitch reproduction on small networks: what it computes, what it stands beside, and what it must not do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from cimplan.errors import InputError
from cimplan.explore import cmswitch, published_cmswitch
from cimplan.explore.cmswitch import COST_MODELS, reproduce
from cimplan.explore.cmswitch_allocation import operator_arrays, segment_runs
from cimplan.explore.cmswitch_cases import (
    ALLOCATION,
    COMPILE_TIME,
    END_TO_END,
    PAPER,
    PARTS,
    PROGRAMS,
    READINGS,
    SEQUENCE,
    Evaluation,
    parse_parts,
)
from cimplan.explore.cmswitch_readings import VARIANTS, Variant
from cimplan.hardware import load

pytestmark = pytest.mark.filterwarnings("default")

TINY = Evaluation(
    networks=("bert_large", "mobilenet_v2"),
    batches=(1, 2),
    sequence=16,
    sweep="opt_6_7b",
    sweep_batch=1,
    sweep_lengths=(16,),
    second_lengths=(16, 32),
    layers=1,
    variants=(VARIANTS[0], Variant("all pieces alike", "pieces", split_sizes=(48,))),
)


@pytest.fixture(scope="module")
def result():
    return reproduce(load("dynaplasia"), evaluation=TINY)


def test_every_case_is_compiled_once_under_both_cost_models(result):
    keys = [(one.case, one.cost_model, one.variant) for one in result.outcomes]
    assert len(keys) == len(set(keys))
    for part in PARTS:
        for case in TINY.cases(part):
            for cost_model in COST_MODELS:
                assert result.outcome(case, cost_model) is not None, (part, case)


def test_dual_mode_never_loses_to_all_compute(result):
    for one in result.outcomes:
        assert one.speedup >= 1
        assert one.lower_bound_cycles <= one.latency_cycles == sum(one.cycles.values())
        assert 0 <= one.memory_share <= 1
        assert 0 <= one.run_memory_share <= 1


def test_readings_vary_each_network_of_the_table(result):
    for case in TINY.table():
        for variant in TINY.variants:
            assert result.outcome(case, "published", variant.name) is not None
    changed = result.outcome(TINY.table()[0], "published", VARIANTS[0].name)
    assert changed.latency_cycles != result.outcome(TINY.table()[0], "published").latency_cycles
    assert result.outcome(TINY.table()[0], "published", "all pieces alike").split_size == 48


def test_prefill_and_decode_are_swept_and_their_programs_verified(result):
    assert {case.phase for case in TINY.long_sweep()} == {"prefill", "decode"}
    assert {one.case for one in result.programs} == set(TINY.cases(PROGRAMS))
    assert all(one.statements > 0 for one in result.programs)


def test_arrays_of_operators_fit_the_chip(result):
    assert {case for case, _ in result.arrays} == set(TINY.cases(ALLOCATION))
    for found in result.arrays.values():
        for one in found:
            assert 0 < one.compute <= 96
            assert 0 <= one.memory <= 96
            assert one.bound in ("compute", "data")
            assert one.segments >= 1


def test_compile_times_are_those_of_both_searches(result):
    assert [one.case for one in result.compile_times] == [case for case in TINY.table() for _ in COST_MODELS]
    assert all(one.all_compute_s > 0 and one.ratio >= 0 for one in result.compile_times)


def test_the_overall_speedup_is_the_mean_of_means(result):
    means = []
    for model in TINY.networks:
        speedups = result.speedups(model, "published")
        assert set(speedups) == {1, 2}
        means.append(sum(speedups.values()) / 2)
    assert result.overall("published") == pytest.approx(sum(means) / len(means))
    assert replace(result, outcomes=()).overall("published") is None


def test_image_networks_of_another_batch_are_those_of_the_zoo():
    from cimplan.api.models import load as load_model

    with cmswitch._opened(TINY.case("mobilenet_v2", batch=2)) as model:
        mvms = [op.work.mvms for op in model.graph.operators if op.work is not None]
    single = load_model("zoo:mobilenet_v2?form=float").graph
    assert mvms == [2 * op.work.mvms for op in single.operators if op.work is not None]


def test_only_what_is_asked_for_is_computed():
    found = reproduce(load("dynaplasia"), (SEQUENCE,), evaluation=replace(TINY, sweep_lengths=(), second_lengths=(16,)))
    assert [one.case.model for one in found.outcomes] == ["bert_large", "bert_large"]
    assert (found.arrays, found.runs, found.compile_times, found.programs) == ({}, {}, (), ())


def test_parts_are_known_and_in_order():
    assert parse_parts(()) == PARTS
    assert parse_parts((READINGS, END_TO_END)) == (END_TO_END, READINGS)
    with pytest.raises(InputError, match="there is no part") as refused:
        parse_parts(("end-to-and",))
    assert "end-to-end" in refused.value.fix


def test_hardware_without_a_dual_mode_chip_is_refused():
    with pytest.raises(InputError, match="dual-mode"):
        reproduce(load("rram-256"), (COMPILE_TIME,), evaluation=TINY)


def test_the_paper_is_evaluated_as_it_says():
    assert set(PAPER.networks) == set(published_cmswitch.END_TO_END)
    assert PAPER.sequence == published_cmswitch.END_TO_END_SEQUENCE
    assert (PAPER.sweep, PAPER.sweep_batch) == ("opt_6_7b", published_cmswitch.OPT_BATCH)
    assert set(published_cmswitch.OPT_SEQUENCE_SPEEDUPS) <= set(PAPER.sweep_lengths)
    assert set(published_cmswitch.BERT_SEQUENCE_SPEEDUPS) <= set(PAPER.second_lengths)
    means = [one.average for one in published_cmswitch.END_TO_END.values()]
    assert sum(means) / len(means) == pytest.approx(published_cmswitch.OVERALL_SPEEDUP, abs=0.005)
    assert max(one.largest for one in published_cmswitch.END_TO_END.values()) == published_cmswitch.LARGEST_SPEEDUP


def test_variants_have_names_of_their_own_and_known_fields():
    from cimplan.dualmode.options import make_readings

    assert len({one.name for one in VARIANTS}) == len(VARIANTS)
    chip = load("dynaplasia")
    for one in VARIANTS:
        make_readings(**{"cost_model": one.cost_model, **one.readings})
        for name, value in one.scaled(chip).items():
            assert value == getattr(chip.dual_mode, name) * one.scale[name]


def test_allocation_is_read_from_a_plan_by_hand():
    from cimplan.api.compiling import compile_plan

    plan = compile_plan("zoo:bert_large?layers=1&seq=16", split_sizes=(48,))
    runs = segment_runs(plan)
    assert (runs[0].first, runs[-1].end) == (0, len(plan.segments))
    assert sum(run.cycles for run in runs) == plan.latency_cycles
    assert all(before.operators != after.operators for before, after in pairwise(runs))
    for index, one in enumerate(operator_arrays(plan)):
        mine = [(s, p) for s in plan.segments for p in s.parts if p.operator == index]
        time = sum(segment.total_cycles for segment, _ in mine)
        assert one.cycles == time
        assert one.arrays == sum(part.arrays for _, part in mine)
        assert one.compute == pytest.approx(sum(s.total_cycles * p.compute_arrays for s, p in mine) / time)
