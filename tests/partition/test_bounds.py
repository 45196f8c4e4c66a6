from __future__ import annotations

from hypothesis import given, settings
from oracle import optimum, problems

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.partition.bounds import critical_path, host_load, lower_bound


@settings(deadline=None, max_examples=300)
@given(problems(6, max_cores=2))
def test_bounds_never_exceed_the_optimum(problem: Problem) -> None:
    best = optimum(problem)
    if best is not None:
        assert critical_path(problem) <= best
        assert host_load(problem) <= best


def test_host_load_buys_the_best_rate_first_and_the_last_in_part() -> None:
    problem = Problem(
        names=("a", "b", "c"),
        options=(
            (Option(HOST, 10), Option(CIM, 1, 2)),  # 5 ticks a crossbar
            (Option(HOST, 9), Option(CIM, 1, 3)),  # 3 ticks a crossbar
            (Option(HOST, 4),),
        ),
        dependencies=(),
        budget=4,
    )
    assert host_load(problem) == 23 - 10 - 2 * 3
    assert host_load(problem.with_budget(5)) == 4
    assert host_load(problem.with_budget(0)) == 23


def test_host_load_takes_the_hull_of_more_than_two_options() -> None:
    options = (Option(HOST, 12), Option(HOST, 11, 1), Option(HOST, 4, 2), Option(CIM, 1, 8))
    problem = Problem(("a",), (options,), (), budget=1)
    assert host_load(problem) == 12 - 4  # halfway to the option of 2 crossbars, not the dominated one
    assert host_load(problem.with_budget(5)) == 4 - 2
    assert host_load(problem.with_budget(8)) == 0


def test_critical_path_pays_a_transfer_only_where_no_place_avoids_it() -> None:
    problem = Problem(
        names=("a", "b", "c"),
        options=((Option(HOST, 3),), (Option(HOST, 9), Option(CIM, 1, 1)), (Option(HOST, 2),)),
        dependencies=(Dependency(0, 1, 3), Dependency(1, 2, 2)),
        budget=9,
    )
    assert critical_path(problem) == 3 + 3 + 1 + 2 + 2
    assert lower_bound(problem) == 11


def test_bounds_of_nothing() -> None:
    assert lower_bound(Problem((), (), (), budget=0)) == 0
