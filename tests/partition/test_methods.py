from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError, NoAnswerError
from cimplan.partition import METHODS, solve
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.methods import find_method

CONV = (Option(HOST, 50), Option(CIM, 5, 4))


def _problem(budget: int = 10, count: int = 3) -> Problem:
    names = tuple(f"conv{v + 1}" for v in range(count))
    edges = tuple(Dependency(v, v + 1, 3) for v in range(count - 1))
    return Problem(names, (CONV,) * count, edges, budget)


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="greedi") as caught:
        find_method("greedi")
    assert "'greedy'" in caught.value.fix


def test_a_method_whose_package_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not METHODS["ilp-gurobi"].available()
    with pytest.raises(InputError, match="gurobipy") as caught:
        solve(_problem(), "ilp-gurobi")
    assert "pip install gurobipy" in caught.value.fix


def test_listing_the_methods_loads_no_solver() -> None:
    code = (
        "import sys, cimplan.partition; "
        "print([name for name in ('ortools', 'gurobipy', 'numba', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name", ["cp-sat", "ilp-highs", "ilp-scip", "greedy", "heft", "all-cim", "single-cut", "sequential-ilp"]
)
def test_a_fixed_place_is_honoured(name: str) -> None:
    problem = _problem(budget=8)
    fixed = problem.fixed({"conv1": HOST, "conv3": CIM})
    solution = solve(fixed, name, unfixed=problem)
    assert solution.schedule is not None
    places = [options[o].place for options, o in zip(fixed.options, solution.schedule.chosen, strict=True)]
    assert places[0] == HOST
    assert places[2] == CIM


def test_infeasible_says_demand_limit_and_both_ways_out() -> None:
    problem = _problem(budget=5)
    fixed = problem.fixed({"conv1": CIM, "conv2": CIM})
    for name in METHODS:
        if not METHODS[name].available():
            continue
        with pytest.raises(NoAnswerError) as caught:
            solve(fixed, name, unfixed=problem)
        text = str(caught.value)
        assert "need 8 crossbars, 5 are available" in text
        assert "'conv1' (4), 'conv2' (4)" in text
        assert "--crossbars 8" in text
        assert "drop the --fix of 'conv1'" in text
        assert "'conv2'" not in caught.value.fix  # dropping one is enough


def test_the_changes_an_infeasible_problem_proposes_are_enough() -> None:
    problem = _problem(budget=3, count=8)
    fixed = problem.fixed({"conv2": CIM, "conv5": CIM})
    with pytest.raises(NoAnswerError, match="drop the --fix of 'conv2', 'conv5'"):
        refuse_infeasible(fixed, unfixed=problem)
    refuse_infeasible(fixed.with_budget(8))
    refuse_infeasible(problem)


def test_no_fix_is_blamed_where_dropping_it_would_not_help() -> None:
    only_cim = Problem(("a", "b"), ((Option(CIM, 1, 9),), CONV), (), budget=5)
    with pytest.raises(NoAnswerError) as caught:
        refuse_infeasible(only_cim.fixed({"b": CIM}), unfixed=only_cim)
    assert "--fix" not in str(caught.value)
    assert "--crossbars 13" in str(caught.value)


def test_without_the_unfixed_problem_operators_without_a_host_option_are_taken_for_fixed() -> None:
    with pytest.raises(NoAnswerError, match="drop the --fix of 'conv1'"):
        refuse_infeasible(_problem(budget=2).fixed({"conv1": CIM}))


def test_many_culprits_are_counted_not_listed() -> None:
    problem = _problem(budget=0, count=9)
    with pytest.raises(NoAnswerError, match="and 6 more") as caught:
        refuse_infeasible(problem.fixed(dict.fromkeys(problem.names, CIM)), unfixed=problem)
    assert len(str(caught.value)) < 400
