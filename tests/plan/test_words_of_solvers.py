"""What rests on a solver's word is not said in the words of a proof; where our own proof reaches as far, it is."""

from __future__ import annotations

import pytest

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.partition.methods import solve
from cimplan.partition.prove import with_certificate
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.proof import REFUTED
from cimplan.plan.schedule import Solution
from cimplan.plan.summary import summary
from cimplan.plan.words import plan_status


def problem(cores: int = 1) -> Problem:
    """Return the problem of which a model with end variables makes OR-Tools 9.15 say that 9 is optimal; 8 is."""
    durations = [(1, 0), (1, 1), (2,), (3, 0), (3, 0), (2, 1), (3,)]
    crossbars = [1, 5, 0, 1, 5, 2, 0]
    options = tuple(
        (Option(HOST, some[0]), *(Option(CIM, cim, count) for cim in some[1:]))
        for some, count in zip(durations, crossbars, strict=True)
    )
    edges = [(0, 3), (0, 5), (1, 4), (1, 5), (2, 3), (2, 4), (4, 6), (5, 6)]
    return Problem(
        tuple("abcdefg"), options, tuple(Dependency(u, v, 0) for u, v in sorted(edges)), budget=7, host_cores=cores
    )


def planned(method: str, cores: int = 1) -> Plan:
    at = problem(cores)
    return plan_from(at, with_certificate(at, solve(at, method)))


@pytest.mark.parametrize("method", ["exact", "cp-sat", "ilp", "ilp-scip"])
def test_the_optimum_that_a_formulation_misses_is_found_and_proven_by_our_own_certificate(method):
    plan = planned(method)
    assert plan.makespan_ns == 8
    assert (plan.status, plan.solver_claims, plan.proof.verdict) == ("optimal", "optimal", "verified")
    assert plan.verification().complete
    assert "proven optimal" in dict(summary(plan))["lower bound"]


def test_a_solver_that_is_wrong_is_not_believed():
    at = problem()
    worse = next(
        schedule
        for method in ("cpu-only", "greedy", "heft", "all-cim")
        if (schedule := solve(at, method).schedule) is not None and schedule.makespan(at) > 8
    )
    claims = worse.makespan(at)
    word = Solution("cp-sat", "optimal", worse, claims)
    plan = plan_from(at, with_certificate(at, word))
    assert (plan.status, plan.solver_claims) == ("feasible", "feasible")
    assert plan.lower_bound_ns <= 8
    assert plan.statistics[REFUTED] == claims
    assert "CP-SAT said" in dict(summary(plan))["lower bound"]
    assert plan.verification().complete


def test_a_bound_that_one_move_beats_is_dropped_too():
    at = crowded_with_crossbars()
    worse = solve(at, "cpu-only").schedule
    plan = plan_from(at, Solution("ilp", "optimal", worse, worse.makespan(at)))
    assert (plan.status, plan.solver_claims) == ("feasible", "feasible")
    assert plan.statistics[REFUTED] == worse.makespan(at)
    assert plan.lower_bound_ns <= 10  # both on crossbars


def test_several_host_cores_rest_on_the_word_of_cp_sat():
    plan = planned("exact", cores=2)
    facts = dict(summary(plan))
    if plan.proof.verdict == "verified":  # by sums over the costs, which hold for any number of cores
        assert plan.certificate is None and plan.status == "optimal"
        return
    assert (plan.status, plan.solver_claims, plan.proof.verdict) == ("feasible", "optimal", "none")
    assert "the word of CP-SAT" in facts["lower bound"] and "proven" not in facts["lower bound"]
    assert plan_status(plan) == "feasible (CP-SAT says optimal)"
    assert not plan.verification().complete


def crowded_with_crossbars() -> Problem:
    """Return two operators in a row that are much quicker on crossbars."""
    both = (Option(HOST, 50), Option(CIM, 5, 1))
    return Problem(("a", "b"), (both, both), (Dependency(0, 1, 1),), 2)


def crowded() -> Problem:
    """Return three operators on two cores, where neither the longest path nor the work alone bounds well."""
    return Problem(tuple("abc"), ((Option(HOST, 2),),) * 3, (), 0, host_cores=2)


@pytest.mark.parametrize(("method", "word"), [("exact", "CP-SAT"), ("cp-sat", "CP-SAT")])
def test_what_only_a_solver_has_proven_is_said_so_wherever_a_plan_is_shown(method, word):
    at = crowded()
    solution = solve(at, method)
    assert solution.status == "optimal"
    plan = plan_from(at, with_certificate(at, solution))
    assert plan.makespan_ns == 4
    assert (plan.status, plan.solver_claims) == ("feasible", "optimal")
    assert f"the word of {word}, not verified" in dict(summary(plan))["lower bound"]
    data = plan.to_json()
    assert (data["status"], data["solver_claims"]) == ("feasible", "optimal")
