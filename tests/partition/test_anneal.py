"""Simulated annealing: whatever it returns is a schedule, never a worse one, and on tiny problems often the best."""

from __future__ import annotations

import random

from hypothesis import given, settings
from oracle import SHAPES, brute_force, faults, problems, random_problem

from cimplan.cost.problem import Problem
from cimplan.partition import exact
from cimplan.partition.anneal import anneal
from cimplan.partition.baselines import all_cim, greedy, heft, single_cut
from cimplan.partition.timing import least_choices, list_schedule
from networks import cells

BASELINES = (all_cim, greedy, heft, single_cut)


@settings(deadline=None, max_examples=150)
@given(problems(7, max_cores=2))
def test_a_walk_ends_with_a_schedule_that_is_no_worse(problem: Problem) -> None:
    if problem.least_crossbars() > problem.budget:
        return
    first = list_schedule(problem, least_choices(problem))
    found = anneal(problem, first, steps=300)
    assert faults(problem, found) == []
    assert found.makespan(problem) <= first.makespan(problem)
    assert found == anneal(problem, first, steps=300)


def test_walks_find_most_optima_of_tiny_problems() -> None:
    rng = random.Random(5)
    reached = asked = 0
    for number in range(60):
        problem = random_problem(rng, SHAPES[number % len(SHAPES)])
        best = brute_force(problem)
        if best is None:
            continue
        found = anneal(problem, list_schedule(problem, least_choices(problem)), steps=2_000)
        assert found.makespan(problem) >= best.makespan(problem)
        asked += 1
        reached += found.makespan(problem) == best.makespan(problem)
    assert asked > 30
    assert reached >= 0.9 * asked


def test_enough_ends_a_walk() -> None:
    problem = cells(2, budget=10)
    first = list_schedule(problem, least_choices(problem))
    assert anneal(problem, first, steps=1_000, enough=first.makespan(problem)) is first


def test_a_stopped_exact_method_is_no_worse_than_any_baseline() -> None:
    for count in (3, 5, 8):
        problem = cells(count, budget=12 * count)
        best = min(baseline.solve(problem).schedule.makespan(problem) for baseline in BASELINES)
        for limit_s in (1e-6, 0.05, 0.5):
            stopped = exact.solve(problem, time_limit_s=limit_s)
            assert stopped.schedule.makespan(problem) <= best
