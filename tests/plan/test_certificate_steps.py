"""Bounds of several budgets from one certificate: never above what brute force finds, never verified where raised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from oracle import brute_force, problems

from cimplan.cost.problem import Problem
from cimplan.partition.exact import solve
from cimplan.plan.certificate import Certificate, Step
from cimplan.plan.certificate_check import verify_steps
from cimplan.plan.curve import largest_use, look_at, prove_steps
from networks import yolov5


def optimum(problem: Problem, budget: int) -> int | None:
    schedule = brute_force(problem.with_budget(budget))
    return None if schedule is None else schedule.makespan(problem)


@settings(max_examples=60, deadline=None)
@given(problem=problems(6, max_cores=1))
def test_every_point_of_a_curve_is_proven_and_is_what_brute_force_finds(problem: Problem) -> None:
    if brute_force(problem) is None:
        return
    solution = solve(problem, curve=True)
    found = prove_steps(problem, solution.curve_proofs)
    assert not found.refuted
    reports = look_at(problem, solution.curve, found.steps, ())
    for point, report in zip(solution.curve, reports, strict=True):
        assert report.status == "optimal"
        assert point.makespan == optimum(problem, point.crossbars)
    for step in found.steps:
        best = optimum(problem, step.budget)
        assert best is None or step.bound <= best


@settings(max_examples=60, deadline=None)
@given(problem=problems(6, max_cores=1))
def test_no_step_that_claims_a_tick_too_much_is_verified(problem: Problem) -> None:
    if brute_force(problem) is None:
        return
    for certificate in solve(problem, curve=True).curve_proofs:
        for number, step in enumerate(certificate.steps):
            raised = Step(step.budget, step.bound + 1)
            if optimum(problem, step.budget) != step.bound:
                continue
            for exhausted in (False, True):
                report = verify_steps(problem, with_step(certificate, number, raised, exhausted=exhausted))
                assert report.verdict != "verified"
                assert raised not in report.proven


def with_step(certificate: Certificate, number: int, step: Step, *, exhausted: bool) -> Certificate:
    steps = (*certificate.steps[:number], step, *certificate.steps[number + 1 :])
    return replace(certificate, steps=steps, budget=steps[-1].budget, lower_bound=steps[-1].bound, exhausted=exhausted)


@pytest.fixture(scope="module")
def detector():
    problem = yolov5(budget=40, size=320)
    return problem, solve(problem, curve=True)


def test_a_curve_that_takes_a_search_is_proven_by_one_search_for_all_its_budgets(detector) -> None:
    problem, solution = detector
    assert any(certificate.fillers for certificate in solution.curve_proofs)
    found = prove_steps(problem, solution.curve_proofs)
    assert {report.status for report in look_at(problem, solution.curve, found.steps, ())} == {"optimal"}


def test_a_curve_is_not_verified_without_effort(detector) -> None:
    problem, solution = detector
    found = prove_steps(problem, solution.curve_proofs, nodes=0, search_nodes=0)
    assert not found.steps and not found.refuted
    assert found.notes and not found.final


def test_steps_out_of_order_and_of_other_ends_are_refuted(detector) -> None:
    problem, solution = detector
    certificate = solution.curve_proofs[0]
    for steps in (
        certificate.steps[::-1],
        (*certificate.steps[:-1], Step(certificate.budget, certificate.lower_bound - 1)),
        (Step(-1, 10**9), *certificate.steps),
    ):
        assert verify_steps(problem, replace(certificate, steps=steps)).verdict == "refuted"


def test_a_point_needs_a_bound_up_to_the_next_one_and_a_schedule(detector) -> None:
    problem, solution = detector
    first, second, *_ = solution.curve
    assert largest_use(problem) > second.crossbars
    short = [Step(second.crossbars - 2, first.makespan)]
    assert not look_at(problem, solution.curve, short, ())[0].bounded
    enough = [Step(second.crossbars - 1, first.makespan)]
    assert look_at(problem, solution.curve, enough, ())[0].bounded
    bare = [replace(point, schedule=None) for point in solution.curve]
    assert not look_at(problem, bare, enough, ())[0].reached
    assert look_at(problem, bare, enough, [(first.crossbars, first.makespan)])[0].status == "optimal"
