from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import SHAPES, faults, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.partition.timing import in_order, least_choices, list_schedule, retimed, tails, topological_order


def _random_choices(rng: random.Random, problem: Problem) -> tuple[int, ...]:
    return tuple(rng.randrange(len(options)) for options in problem.options)


def _generous(problem: Problem) -> Problem:
    """Timing does not look at the budget; `faults` does."""
    return problem.with_budget(10**9)


@settings(deadline=None, max_examples=150)
@given(problems(8, max_cores=3), st.randoms(use_true_random=False))
def test_any_choices_and_order_give_a_feasible_schedule(problem: Problem, rng: random.Random) -> None:
    problem = _generous(problem)
    chosen = _random_choices(rng, problem)
    order = topological_order(problem, [rng.random() for _ in problem.names])
    for schedule in (in_order(problem, chosen, order), list_schedule(problem, chosen)):
        assert faults(problem, schedule) == []
        assert schedule.chosen == chosen


@settings(deadline=None, max_examples=150)
@given(problems(8, max_cores=3), st.randoms(use_true_random=False))
def test_retiming_never_delays_a_feasible_schedule(problem: Problem, rng: random.Random) -> None:
    problem = _generous(problem)
    schedule = list_schedule(problem, _random_choices(rng, problem), [rng.random() for _ in problem.names])
    slack = 0.5  # start times of a floating-point solver are a little off and never whole
    again = retimed(problem, schedule.chosen, [1.0001 * s + slack for s in schedule.start])
    assert faults(problem, again) == []
    assert again.makespan(problem) <= schedule.makespan(problem)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_best_order_is_at_least_as_good_as_list_scheduling(shape: str, cores: int) -> None:
    rng = random.Random(shape)
    for _ in range(4):
        problem = _generous(random_problem(rng, shape, operators=6, host_cores=cores))
        chosen = _random_choices(rng, problem)
        best = min(
            in_order(problem, chosen, topological_order(problem, keys)).makespan(problem)
            for keys in itertools.permutations(range(len(problem)))
        )
        assert list_schedule(problem, chosen).makespan(problem) >= best


def test_a_second_core_does_not_start_an_operator_before_it_is_ready() -> None:
    problem = Problem(
        names=("far", "a", "b"),
        options=((Option(CIM, 10, 0),), (Option(HOST, 5),), (Option(HOST, 5),)),
        dependencies=(Dependency(0, 1, 0), Dependency(0, 2, 0)),
        budget=0,
        host_cores=2,
    )
    assert list_schedule(problem, (0, 0, 0)).start == (0, 10, 10)


def test_tails_count_transfers_between_places() -> None:
    problem = Problem(
        names=("a", "b", "c"),
        options=((Option(HOST, 2),), (Option(CIM, 3, 1),), (Option(CIM, 4, 1),)),
        dependencies=(Dependency(0, 1, 7), Dependency(1, 2, 9)),
        budget=2,
    )
    assert tails(problem, (0, 0, 0)) == (2 + 7 + 3 + 4, 3 + 4, 4)


@settings(deadline=None, max_examples=50)
@given(problems(8))
def test_least_choices_take_the_fewest_crossbars(problem: Problem) -> None:
    schedule = list_schedule(problem, least_choices(problem))
    assert schedule.crossbars(problem) == problem.least_crossbars()
