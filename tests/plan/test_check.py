"""The checker accepts every valid schedule, catches every kind of violation, and agrees with a slower reading."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import brute_force, faults, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InternalError
from cimplan.plan.certificate import Certificate
from cimplan.plan.check import check, check_solution, require
from cimplan.plan.schedule import CurvePoint, Schedule, Solution


def problem_of_three() -> Problem:
    """A host operator, a crossbar operator, and a host operator that reads both."""
    return Problem(
        names=("load", "conv", "add"),
        options=(
            (Option(HOST, 5),),
            (Option(HOST, 20), Option(CIM, 4, 3)),
            (Option(HOST, 2), Option(CIM, 9, 4)),
        ),
        dependencies=(Dependency(0, 1, 7, 70), Dependency(0, 2, 1, 10), Dependency(1, 2, 6, 60)),
        budget=5,
    )


# load 0..5, transfer 7, conv on crossbars 12..16, transfer 6, add 22..24
GOOD = Schedule((0, 1, 0), (0, 12, 22))


def kinds(problem: Problem, schedule: Schedule | None, **claims: object) -> list[str]:
    return [violation.kind for violation in check(problem, schedule, **claims).violations]  # type: ignore[arg-type]


def test_a_valid_schedule_passes_and_is_measured() -> None:
    report = check(problem_of_three(), GOOD, status="optimal", lower_bound=24, makespan=24)
    assert report.passed
    assert (report.makespan, report.crossbars) == (24, 3)


def test_an_empty_problem_has_the_empty_schedule() -> None:
    report = check(Problem((), (), (), 0), Schedule((), ()), status="optimal", lower_bound=0)
    assert report.passed
    assert report.makespan == 0


@pytest.mark.parametrize(
    ("schedule", "kind", "words"),
    [
        (Schedule((0, 1), (0, 12)), "shape", "2 choices for 3 operators"),
        (Schedule((0, 1, 0), (0, 12)), "shape", "2 starts for 3 operators"),
        (Schedule((0, 1, 0), (0, 12.5, 22)), "shape", "12.5 among the starts is not an integer"),  # type: ignore[arg-type]
        (Schedule((False, 1, 0), (0, 12, 22)), "shape", "False among the choices"),
        (Schedule((0, 2, 0), (0, 12, 22)), "choice", "'conv': option 2 of 2 does not exist"),
        (Schedule((0, -1, 0), (0, 12, 22)), "choice", "'conv': option -1 of 2 does not exist"),
        (Schedule((0, 1, 0), (-1, 12, 22)), "start", "'load' starts at -1"),
        (Schedule((0, 1, 0), (0, 11, 22)), "precedence", "'conv' starts at 11, but a transfer of 7 after 'load' ends"),
        (Schedule((0, 1, 0), (0, 12, 21)), "precedence", "'add' starts at 21, but a transfer of 6 after 'conv' ends"),
        (Schedule((0, 0, 0), (0, 4, 24)), "host", "'conv' starts on the host at 4 beside 'load' (until 5), on 1 core"),
        (Schedule((0, 1, 1), (0, 12, 16)), "crossbars", "take 7 crossbars, the budget is 5"),
    ],
)
def test_each_violation_of_a_schedule_is_named_with_its_numbers(schedule: Schedule, kind: str, words: str) -> None:
    report = check(problem_of_three(), schedule)
    assert kind in [violation.kind for violation in report.violations]
    assert words in " | ".join(violation.message for violation in report.violations)


def test_host_operators_without_dependency_must_not_overlap() -> None:
    problem = Problem(("a", "b", "c"), ((Option(HOST, 5),),) * 3, (), 0)
    assert kinds(problem, Schedule((0, 0, 0), (0, 4, 10))) == ["host"]
    assert kinds(problem, Schedule((0, 0, 0), (0, 5, 10))) == []
    assert kinds(replace(problem, host_cores=2), Schedule((0, 0, 0), (0, 4, 5))) == []
    assert kinds(replace(problem, host_cores=2), Schedule((0, 0, 0), (0, 4, 4))) == ["host"]
    assert kinds(replace(problem, host_cores=3), Schedule((0, 0, 0), (0, 0, 0))) == []


def test_operators_of_no_duration_occupy_no_host_time() -> None:
    problem = Problem(("work", "view"), ((Option(HOST, 5),), (Option(HOST, 0),)), (), 0)
    for start in range(7):
        assert kinds(problem, Schedule((0, 0), (0, start))) == []


def test_operators_on_crossbars_may_overlap() -> None:
    problem = Problem(("a", "b"), ((Option(CIM, 5, 1),),) * 2, (), 2)
    assert kinds(problem, Schedule((0, 0), (0, 0))) == []


def test_data_move_between_two_accelerators_too() -> None:
    problem = Problem(("a", "b"), ((Option(CIM, 5, 1),), (Option("cim2", 5, 1),)), (Dependency(0, 1, 3),), 2)
    assert kinds(problem, Schedule((0, 0), (0, 7))) == ["precedence"]
    assert kinds(problem, Schedule((0, 0), (0, 8))) == []


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ({"status": "feasible", "lower_bound": 25}, "bound"),
        ({"status": "optimal", "lower_bound": 25}, "bound"),
        ({"status": "optimal", "lower_bound": 23}, "status"),
        ({"status": "feasible", "lower_bound": 24}, "status"),
        ({"status": "infeasible"}, "status"),
        ({"status": "unknown"}, "status"),
        ({"makespan": 23}, "makespan"),
        ({"curve": (CurvePoint(0, 27, 27), CurvePoint(3, 25, 20))}, "curve"),  # not the makespan at the budget
        ({"curve": (CurvePoint(0, 24, 20), CurvePoint(3, 24, 20))}, "curve"),  # does not fall
        ({"curve": (CurvePoint(0, 23, 20), CurvePoint(3, 24, 20))}, "curve"),  # rises
        ({"curve": (CurvePoint(3, 27, 27), CurvePoint(3, 24, 20))}, "curve"),  # the same budget twice
        ({"curve": (CurvePoint(0, 27, 28), CurvePoint(3, 24, 20))}, "curve"),  # bound above makespan
        ({"curve": (CurvePoint(1, 27, 27), CurvePoint(3, 24, 20))}, "curve"),  # 0 crossbars suffice
        ({"curve": (CurvePoint(0, 27, 27), CurvePoint(3, 24, 24))}, "curve"),  # proves what the status does not say
    ],
)
def test_each_dishonest_claim_is_caught(claims: dict[str, object], kind: str) -> None:
    assert kind in kinds(problem_of_three(), GOOD, **claims)


@pytest.mark.parametrize(
    "curve",
    [
        (CurvePoint(0, 27, 27), CurvePoint(3, 25, 20), CurvePoint(3, 24, 20)),  # one budget twice
        (CurvePoint(0, 27, 27), CurvePoint(3, 23, 20)),  # better than the schedule at the budget
        (CurvePoint(0, 27, 27), CurvePoint(3, 25, 20)),  # worse than the schedule at the budget
        (CurvePoint(0, 27, 27), CurvePoint(5, 25, 20)),  # the same at exactly the budget
    ],
)
def test_one_fault_of_a_curve_is_one_violation(curve: tuple[CurvePoint, ...]) -> None:
    assert kinds(problem_of_three(), GOOD, curve=curve) == ["curve"]


def test_an_honest_curve_passes_and_points_beyond_the_budget_are_allowed() -> None:
    curve = (CurvePoint(0, 27, 27), CurvePoint(3, 24, 24), CurvePoint(7, 21, 20))
    assert check(problem_of_three(), GOOD, status="optimal", lower_bound=24, curve=curve).passed
    at_the_budget = (CurvePoint(0, 27, 27), CurvePoint(5, 24, 20))
    assert kinds(problem_of_three(), GOOD, curve=at_the_budget) == []


def test_no_schedule_is_honest_only_without_an_answer() -> None:
    problem = replace(problem_of_three(), options=((Option(CIM, 1, 6),),) * 3)
    assert kinds(problem, None, status="infeasible") == []
    assert kinds(problem, None, status="unknown") == []
    assert kinds(problem, None, status="feasible") == ["status"]
    assert kinds(problem, None, status="optimal") == ["status"]
    assert kinds(problem_of_three(), None, status="infeasible") == ["status"]


def test_a_refused_answer_is_an_internal_error_that_names_the_violation() -> None:
    bad = Solution("exact", "optimal", Schedule((0, 1, 0), (0, 11, 22)), lower_bound=24)
    with pytest.raises(InternalError, match=r"refuses.*'exact'.*'conv' starts at 11") as caught:
        require(problem_of_three(), bad)
    assert caught.value.exit_code == 3
    assert require(problem_of_three(), replace(bad, schedule=GOOD)).makespan == 24


def test_a_long_list_of_violations_is_cut_with_its_count() -> None:
    count = 9
    problem = Problem(tuple(f"n{v}" for v in range(count)), ((Option(HOST, 5),),) * count, (), 0)
    report = check(problem, Schedule((0,) * count, (0,) * count))
    with pytest.raises(InternalError, match=f"and {len(report.violations) - 3} more"):
        report.require()


@settings(deadline=None, max_examples=300)
@given(problem=problems(6, max_cores=3), data=st.data())
def test_the_checker_agrees_with_a_second_reading_on_any_schedule(problem: Problem, data: st.DataObject) -> None:
    chosen = tuple(data.draw(st.integers(0, len(options) - 1)) for options in problem.options)
    # Start from the earliest times and disturb them, so that both verdicts are common.
    start: list[int] = []
    free = [0] * problem.host_cores
    for v, choice in enumerate(chosen):
        option = problem.options[v][choice]
        ready = 0
        for edge in problem.dependencies:
            if edge.target == v:
                source = problem.options[edge.source][chosen[edge.source]]
                delay = edge.transfer if source.place != option.place else 0
                ready = max(ready, start[edge.source] + source.duration + delay)
        if option.place == HOST:
            free.sort()
            ready = max(ready, free[0])
            free[0] = ready + option.duration
        start.append(ready)
    if data.draw(st.booleans()):
        v = data.draw(st.integers(0, len(problem) - 1))
        start[v] += data.draw(st.integers(-3, 3))
    schedule = Schedule(chosen, tuple(start))
    assert check(problem, schedule).passed == (not faults(problem, schedule))


def test_optima_pass_and_every_harmful_perturbation_is_caught() -> None:
    rng = random.Random(7)
    caught = passed = 0
    for _ in range(60):
        problem = random_problem(rng, operators=rng.randint(2, 6))
        schedule = brute_force(problem)
        if schedule is None:
            assert check_solution(problem, Solution("oracle", "infeasible", None)).passed
            continue
        makespan = schedule.makespan(problem)
        assert check(problem, schedule, status="optimal", lower_bound=makespan).passed
        for v in range(len(problem)):
            for step in (-1, 1):
                start = (*schedule.start[:v], schedule.start[v] + step, *schedule.start[v + 1 :])
                moved = Schedule(schedule.chosen, start)
                report = check(problem, moved)
                assert report.passed == (not faults(problem, moved))
                caught, passed = caught + (not report.passed), passed + report.passed
            for choice in range(len(problem.options[v])):
                chosen = (*schedule.chosen[:v], choice, *schedule.chosen[v + 1 :])
                moved = Schedule(chosen, schedule.start)
                assert check(problem, moved).passed == (not faults(problem, moved))
    assert caught > 100
    assert passed > 10


def test_the_checker_loads_no_solver() -> None:
    code = (
        "import sys; import cimplan.plan.check, cimplan.plan.replay; "
        "bad = [m for m in sys.modules if m.startswith(('ortools', 'cimplan.partition', 'onnx', 'numba', 'highspy'))]; "
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_certificate_above_the_makespan_is_refused() -> None:
    problem = problem_of_three()
    for bound in (23, 24, 25):
        solution = Solution("exact", "optimal", GOOD, lower_bound=24, certificate=Certificate(bound, budget=5))
        report = check_solution(problem, solution)
        assert [violation.kind for violation in report.violations] == (["bound"] if bound > 24 else [])
