from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from oracle import FLAVOURS, SHAPES, brute_force, faults, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import NoAnswerError
from cimplan.partition.baselines.sequential import sequential_ticks
from cimplan.partition.methods import METHODS, solve

BASELINES = [name for name, method in METHODS.items() if not method.exact]


def test_every_strategy_of_the_design_is_registered() -> None:
    assert BASELINES == ["cpu-only", "all-cim", "greedy", "single-cut", "sequential-ilp", "heft"]


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_baseline_is_feasible_and_never_beats_the_optimum(name: str, shape: str) -> None:
    rng = random.Random(f"{name} {shape}")
    for flavour in FLAVOURS:
        problem = random_problem(rng, shape, flavour=flavour, host_cores=rng.choice([1, 1, 2]))
        best = brute_force(problem)
        if best is None:
            with pytest.raises(NoAnswerError):
                solve(problem, name)
            continue
        solution = solve(problem, name)
        assert solution.method == name
        assert solution.schedule is not None
        assert faults(problem, solution.schedule) == []
        makespan = solution.schedule.makespan(problem)
        assert solution.lower_bound <= best.makespan(problem) <= makespan
        assert (solution.status == "optimal") == (makespan == solution.lower_bound)


@settings(deadline=None, max_examples=60)
@given(problems(7, max_cores=2))
def test_equal_inputs_give_equal_baselines(problem: Problem) -> None:
    if problem.least_crossbars() > problem.budget:
        return
    for name in BASELINES:
        assert solve(problem, name).schedule == solve(problem, name).schedule


def _chain(*options: tuple[Option, ...], transfer: int = 0, budget: int = 99) -> Problem:
    names = tuple(f"op{v}" for v in range(len(options)))
    edges = tuple(Dependency(v - 1, v, transfer) for v in range(1, len(options)))
    return Problem(names, options, edges, budget)


def _chosen(problem: Problem, name: str) -> tuple[int, ...]:
    schedule = solve(problem, name).schedule
    assert schedule is not None
    return schedule.chosen


def test_cpu_only_leaves_the_host_only_where_it_must() -> None:
    problem = _chain((Option(HOST, 9), Option(CIM, 1, 1)), (Option(CIM, 2, 3), Option(CIM, 1, 5)))
    assert _chosen(problem, "cpu-only") == (0, 0)


def test_all_cim_offloads_first_come_first_served_even_at_a_loss() -> None:
    slow = (Option(HOST, 1), Option(CIM, 50, 3))
    problem = _chain(slow, slow, (Option(HOST, 1),), (Option(HOST, 1), Option(CIM, 50, 1)), budget=4)
    # The second no longer fits; the last, smaller one still does.
    assert _chosen(problem, "all-cim") == (1, 0, 0, 1)


def test_greedy_prefers_gain_per_crossbar_to_gain() -> None:
    large = (Option(HOST, 100), Option(CIM, 1, 10))  # 9.9 a crossbar
    small = (Option(HOST, 60), Option(CIM, 1, 4))  # 14.75 a crossbar
    problem = _chain(large, small, budget=10)
    assert _chosen(problem, "greedy") == (0, 1)


def test_greedy_does_not_move_where_transfers_eat_the_gain() -> None:
    problem = _chain((Option(HOST, 5),), (Option(HOST, 20), Option(CIM, 1, 1)), (Option(HOST, 5),), transfer=10)
    assert _chosen(problem, "greedy") == (0, 0, 0)


def test_single_cut_cannot_use_the_accelerator_on_both_ends() -> None:
    fast = (Option(HOST, 20), Option(CIM, 1, 1))
    bad = (Option(HOST, 5), Option(CIM, 100, 1))
    problem = _chain(fast, fast, bad, fast)
    assert _chosen(problem, "single-cut") == (1, 1, 0, 0)


def test_the_sequential_ilp_is_optimal_for_the_sum_and_blind_to_overlap() -> None:
    # Beside a long host operator, a slower accelerator would be free; in the sum it is a loss.
    problem = Problem(
        names=("long", "side"),
        options=((Option(HOST, 50),), (Option(HOST, 10), Option(CIM, 11, 1))),
        dependencies=(),
        budget=1,
    )
    solution = solve(problem, "sequential-ilp")
    assert solution.schedule is not None
    assert solution.schedule.chosen == (0, 0)
    assert solution.statistics["sequential_ticks"] == 60


@pytest.mark.parametrize("seed", range(20))
def test_the_sequential_ilp_finds_the_least_sum(seed: int) -> None:
    import itertools

    problem = random_problem(random.Random(seed), operators=6)
    if problem.least_crossbars() > problem.budget:
        return
    sums = []
    for chosen in itertools.product(*(range(len(options)) for options in problem.options)):
        used = sum(options[o].crossbars for options, o in zip(problem.options, chosen, strict=True))
        if used <= problem.budget:
            sums.append(sequential_ticks(problem, chosen))
    solution = solve(problem, "sequential-ilp")
    assert solution.statistics["sequential_ticks"] == min(sums)
    assert solution.statistics["sequential_optimal"] == 1


def test_heft_keeps_crossbars_for_operators_that_need_them() -> None:
    problem = _chain((Option(HOST, 9), Option(CIM, 1, 2)), (Option(CIM, 1, 2),), budget=3)
    assert _chosen(problem, "heft") == (0, 0)
    assert _chosen(problem.with_budget(4), "heft") == (1, 0)


def test_heft_fills_gaps_of_the_host() -> None:
    problem = Problem(
        names=("head", "far", "tail", "filler"),
        options=((Option(HOST, 2),), (Option(CIM, 50, 1),), (Option(HOST, 30),), (Option(HOST, 40),)),
        dependencies=(Dependency(0, 1, 0), Dependency(1, 2, 0)),
        budget=1,
    )
    schedule = solve(problem, "heft").schedule
    assert schedule is not None
    assert schedule.start == (0, 2, 52, 2)
