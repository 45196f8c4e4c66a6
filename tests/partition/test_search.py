"""The search of the exact method alone: exact without a pool, a lower bound with one, for one budget and for all."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import SHAPES, optimum, problems, random_problem
from search_checks import wrong_searches

from cimplan.cost.problem import HOST, Dependency, Option, Problem
from cimplan.partition import exact
from cimplan.partition.dominance import undominated_rows
from cimplan.plan.certificate_check import verify_certificate


@pytest.mark.parametrize("shape", SHAPES)
def test_searches_agree_with_brute_force(shape: str) -> None:
    rng = random.Random(f"search {shape}")
    for _ in range(60):
        assert wrong_searches(random_problem(rng, shape), rng) == ""


@given(problems(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_searches_agree_with_brute_force_on_what_hypothesis_finds(problem: Problem, rng: random.Random) -> None:
    assert wrong_searches(problem, rng) == ""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("limit", [1, 3, 8])
def test_agrees_with_brute_force_where_many_operators_are_fillers(
    shape: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "IDEAL_LIMITS", (limit,))
    rng = random.Random(f"fillers {shape} {limit}")
    for number in range(25):
        problem = random_problem(rng, shape)
        best = optimum(problem)
        if best is None:
            continue
        solution = exact.solve(problem, curve=number % 5 == 0)
        assert solution.schedule is not None
        assert solution.schedule.makespan(problem) == solution.lower_bound == best
        if solution.certificate is not None:
            assert solution.certificate.lower_bound <= best
            assert verify_certificate(problem, solution.certificate).verdict != "refuted"
        for point in solution.curve:
            assert point.makespan == point.lower_bound == optimum(problem.with_budget(point.crossbars))


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=60))
def test_rows_are_kept_unless_another_one_is_nowhere_larger(rows: list[list[int]]) -> None:
    numbers = np.array(rows, dtype=np.int64)
    kept = numbers[undominated_rows(numbers)]
    assert len(np.unique(kept, axis=0)) == len(kept)
    for row in numbers:
        assert (kept <= row).all(axis=1).any()
    for row in kept:
        assert ((numbers <= row).all(axis=1) <= (numbers == row).all(axis=1)).all()
    half = len(numbers) // 2
    if half:
        fresh = numbers[half:][undominated_rows(numbers[half:], numbers[:half])]
        assert not any((numbers[:half] <= row).all(axis=1).any() for row in fresh)


def test_what_takes_the_host_no_time_keeps_a_chain_going() -> None:
    # While f runs, r, t and c go on without the host: f delays l by less than it takes longer than c.
    options = {
        "a": Option(HOST, 1),
        "f": Option(HOST, 60),
        "r": Option("cim", 50),
        "y": Option("cim", 1),
        "t": Option(HOST, 0),
        "c": Option("cim", 10),
        "l": Option(HOST, 1),
    }
    names = tuple(options)
    edges = sorted((names.index(u), names.index(v)) for u, v in ("af", "at", "rt", "tc", "cl", "yl"))
    dependencies = tuple(Dependency(u, v, 0) for u, v in edges)
    problem = Problem(names, tuple((option,) for option in options.values()), dependencies, 9)
    assert optimum(problem) == 62
    for seed in range(10):
        assert wrong_searches(problem, random.Random(seed), spine="aytcl") == ""


def test_a_filler_between_two_operators_does_not_end_a_chain() -> None:
    options = (Option("cim", 10), Option("cim", 0), Option("cim", 10), Option(HOST, 20))
    dependencies = (Dependency(0, 1, 0), Dependency(1, 2, 0))
    problem = Problem(tuple("cgwf"), tuple((option,) for option in options), dependencies, 9)
    assert optimum(problem) == 20
    for seed in range(10):
        assert wrong_searches(problem, random.Random(seed), spine="cw") == ""


def test_a_search_begins_when_the_cut_before_it_ends() -> None:
    # f may run while g does: that it delays c must not keep g from starting.
    options = (Option(HOST, 1), Option(HOST, 30), Option("cim", 100), Option(HOST, 1))
    dependencies = (Dependency(0, 2, 0), Dependency(0, 3, 0))
    problem = Problem(tuple("afgc"), tuple((option,) for option in options), dependencies, 9)
    assert optimum(problem) == 101
    for seed in range(10):
        assert wrong_searches(problem, random.Random(seed), spine="ac") == ""
