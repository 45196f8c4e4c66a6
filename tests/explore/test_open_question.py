"""Bounds on what can be offloaded, and the numbers behind the open question."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.cost.build import build_problem
from cimplan.explore.offload_bounds import amdahl_bound, least_unevenness, most_value
from cimplan.explore.open_question import fitted_host, network_bounds
from cimplan.explore.published import BUDGETS, CROSSBARS_OF_EVERYTHING, SPEEDUPS_50NS
from cimplan.hardware import load
from reference_profiles import profile, reproduction

ITEMS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=9)


@settings(deadline=None)
@given(ITEMS, st.integers(0, 40))
def test_the_knapsack_is_exact(items, budget):
    best = max(
        sum(value for value, _ in chosen)
        for count in range(len(items) + 1)
        for chosen in itertools.combinations(items, count)
        if sum(size for _, size in chosen) <= budget
    )
    assert most_value([value for value, _ in items], [size for _, size in items], budget) == best


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(1, 6), st.integers(1, 12)), min_size=2, max_size=8),
    st.integers(1, 30),
    st.floats(0, 100),
)
def test_no_host_is_faster_than_its_unevenness_allows(operators, budget, rest):
    """An accelerator that takes no time at all, on random hosts: the bound holds for each set that fits."""
    work = [macs for macs, _, _ in operators]
    times = [macs * rate for macs, rate, _ in operators]
    sizes = [size for _, _, size in operators]
    unevenness = max(rate for _, rate, _ in operators) / min(rate for _, rate, _ in operators)
    share = most_value(work, sizes, budget) / sum(work)
    for chosen in itertools.product([False, True], repeat=len(operators)):
        if sum(itertools.compress(sizes, chosen)) > budget:
            continue
        stays = sum(times) - sum(itertools.compress(times, chosen)) + rest
        if stays > 1e-9:
            assert least_unevenness(share, (sum(times) + rest) / stays) <= unevenness * (1 + 1e-9)


def test_limits_of_the_bounds():
    assert amdahl_bound(0) == 1
    assert amdahl_bound(0.75) == 4
    assert math.isinf(amdahl_bound(1))
    assert least_unevenness(0.5, 0.9) == 1
    assert math.isinf(least_unevenness(0, 2))
    assert least_unevenness(0.5, 3) == 2


@pytest.fixture(scope="module")
def resnet18(tmp_path_factory):
    return build_problem(profile("resnet18", tmp_path_factory.mktemp("profile")), load("rram-256-arm"))


def test_published_resnet18_speedups_exceed_what_fits(resnet18):
    bounds = network_bounds("resnet18", resnet18)
    assert bounds.crossbars_of_everything == CROSSBARS_OF_EVERYTHING["resnet18"] == 201
    for row in bounds.rows[:3]:
        assert row.published["arm"] > row.bound_if_even
        assert row.least_unevenness["arm"] > 3.5
    assert bounds.rows[3].least_unevenness["arm"] == 1
    assert [round(row.share_of_macs, 3) for row in bounds.rows] == [0.454, 0.674, 0.833, 1.0]


def test_what_the_text_says_of_resnet18_is_so(resnet18):
    sizes = sorted(cost.crossbars for cost in resnet18.operators if cost.cim is not None)
    assert sizes[-3:] == [36, 36, 36]
    assert (max(sizes[:-3]), sum(sizes[:-3]), sum(sizes), min(sizes)) == (18, 93, 201, 1)
    large = [
        operator.work
        for operator, cost in zip(resnet18.graph.operators, resnet18.operators, strict=True)
        if cost.crossbars == 36
    ]
    assert len(set(large)) == 1
    # 7×7 against 56×56 pixels
    assert large[0].mvms * 64 == 3136
    printed = SPEEDUPS_50NS["arm", "resnet18"]
    assert [round(100 / printed[budget], 2) for budget in BUDGETS] == [11.49, 11.36, 3.24, 3.24]
    # items of at most 18 in bundles of at most 25: two neighbouring bundles exceed 25 together
    assert 2 * math.ceil(93 / 25) - 1 == 7


def test_yolov5n_and_mobilenet_fit_their_curves():
    question = reproduction().question
    for network in question.networks:
        assert network.crossbars_of_everything == CROSSBARS_OF_EVERYTHING[network.model]
        if network.model in ("mobilenet_v2", "yolov5n"):
            assert all(row.least_unevenness["arm"] < 1.2 for row in network.rows)


def test_the_fitted_host_explains_the_first_number_and_not_the_second(resnet18):
    fitted = fitted_host(resnet18)
    assert fitted.supported_ms == pytest.approx(100, rel=0.01)
    assert fitted.speedups[200] == pytest.approx(fitted.published[200], rel=0.01)
    assert fitted.speedups[25] == pytest.approx(fitted.published[25], rel=0.05)
    assert fitted.speedups[50] > 2 * fitted.published[50]


def test_no_plan_beats_the_work_that_stays():
    result = reproduction()
    for one in result.question.hosts:
        for budget, bound in one.bounds.items():
            assert result.speedup(one.host, one.model, 50.0, budget) <= bound
