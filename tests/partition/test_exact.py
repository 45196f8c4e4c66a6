"""The exact method, held against brute force on every shape of small graph."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from oracle import SHAPES, faults, optimum, problems, random_problem

from cimplan.cost.problem import Problem
from cimplan.errors import NoAnswerError
from cimplan.partition.exact import solve


def agrees(problem: Problem) -> None:
    best = optimum(problem)
    if best is None:
        with pytest.raises(NoAnswerError):
            solve(problem)
        return
    solution = solve(problem)
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []
    assert solution.status == "optimal"
    assert solution.schedule.makespan(problem) == solution.lower_bound == best


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_brute_force(shape: str, cores: int) -> None:
    rng = random.Random(f"exact {shape} {cores}")
    for number in range(60 if cores == 1 else 10):
        agrees(random_problem(rng, shape, host_cores=cores, infeasible=number % 11 == 10))


@given(problems())
@settings(deadline=None, max_examples=60)
def test_agrees_with_brute_force_on_what_hypothesis_finds(problem: Problem) -> None:
    agrees(problem)
