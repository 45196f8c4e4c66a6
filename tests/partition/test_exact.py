"""The exact method, held against brute force, against CP-SAT, and against what a user does to it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from oracle import SHAPES, faults, optimum, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import NoAnswerError
from cimplan.partition import cpsat, exact, search
from cimplan.partition.curve import BudgetCurve
from cimplan.partition.exact import solve
from cimplan.partition.progress import Progress
from cimplan.partition.search import SearchLimitError
from cimplan.plan.certificate_check import verify_certificate
from cimplan.plan.schedule import Solution
from networks import mobilenet_v2, resnet, transformer, yolov5


def no_solver(*_: object, **__: object) -> None:
    raise AssertionError("the constraint model was needed")


def agrees(problem: Problem) -> None:
    best = optimum(problem)
    if best is None:
        with pytest.raises(NoAnswerError):
            solve(problem)
        return
    assert proven(problem, solve(problem)) == best


def proven(problem: Problem, solution: Solution) -> int:
    """Return the makespan of a sound, optimal answer whose certificate holds as far as it goes."""
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []
    assert solution.status == "optimal"
    assert solution.schedule.makespan(problem) == solution.lower_bound
    if solution.certificate is not None:
        assert solution.certificate.lower_bound <= solution.lower_bound
        assert verify_certificate(problem, solution.certificate).verdict != "refuted"
    return solution.lower_bound


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


@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_cp_sat_on_larger_networks(shape: str) -> None:
    rng = random.Random(f"larger {shape}")
    for _ in range(3):
        problem = random_problem(rng, shape, operators=rng.randint(12, 20))
        problem = problem.with_budget(max(problem.budget, problem.least_crossbars()))
        assert proven(problem, solve(problem)) == proven(problem, cpsat.solve(problem))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_curve_is_the_optimum_of_every_budget(shape: str) -> None:
    rng = random.Random(f"curve {shape}")
    for _ in range(8):
        problem = random_problem(rng, shape, operators=rng.randint(1, 7))
        if problem.least_crossbars() > problem.budget:
            continue
        curve = solve(problem, curve=True).curve
        most = sum(max(option.crossbars for option in options) for options in problem.options)
        reached = None
        for budget in range(problem.least_crossbars(), min(most, 40) + 1):
            reached = next((point for point in curve if point.crossbars == budget), reached)
            assert reached is not None
            best = optimum(problem.with_budget(budget))
            assert (reached.makespan, reached.lower_bound) == (best, best)


@pytest.mark.parametrize("mvm_ns", [50, 1000])
@pytest.mark.parametrize("budget", [0, 25, 60, 200])
@pytest.mark.parametrize(
    "network",
    [lambda **k: resnet((3, 4, 6, 3), bottleneck=True, **k), mobilenet_v2, yolov5],
    ids=["resnet50", "mobilenet", "yolo"],
)
def test_real_networks_need_no_constraint_solver(network, budget, mvm_ns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact.cpsat, "solve", no_solver)
    problem = network(budget=budget, mvm_ns=mvm_ns)
    solution = solve(problem)
    proven(problem, solution)
    assert solution.certificate is not None
    assert verify_certificate(problem, solution.certificate).verified


def test_a_transformer_with_parallel_heads_needs_no_constraint_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact.cpsat, "solve", no_solver)
    problem = transformer(4, budget=40)
    proven(problem, solve(problem))


def test_the_yolo_curve_is_proven_at_every_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact.cpsat, "solve", no_solver)
    problem = yolov5(budget=50, mvm_ns=500, host_scale=4.0, bus_gbps=10.24)
    solution = solve(problem, curve=True)
    assert all(point.makespan == point.lower_bound for point in solution.curve)
    assert [point.crossbars for point in solution.curve] == sorted({point.crossbars for point in solution.curve})
    assert solution.schedule is not None
    within = [point.makespan for point in solution.curve if point.crossbars <= 50]
    assert min(within) == solution.schedule.makespan(problem)


def test_more_crossbars_faster_crossbars_and_wider_buses_never_hurt() -> None:
    def best(**changes: float) -> int:
        return solve(yolov5(**{"budget": 40, "mvm_ns": 500, **changes})).lower_bound  # type: ignore[arg-type]

    assert best() >= best(budget=60) >= best(budget=95)
    assert best() >= best(mvm_ns=100)


def test_a_skip_edge_over_a_cut_keeps_its_transfer() -> None:
    # The middle operator is far quicker than the transfer of the edge that jumps over it.
    host, cim = Option(HOST, 5), Option(CIM, 1, 1)
    problem = Problem(
        ("first", "middle", "last"),
        ((cim,), (Option(CIM, 2, 0),), (host,)),
        (Dependency(0, 1, 0), Dependency(0, 2, 50), Dependency(1, 2, 3)),
        budget=1,
    )
    assert proven(problem, solve(problem)) == optimum(problem) == 1 + 50 + 5


def test_one_tick_beside_a_hundred_seconds_and_a_million_crossbars() -> None:
    long, short = 10**11, 1
    problem = Problem(
        ("a", "b", "c", "d"),
        (
            (Option(HOST, long), Option(CIM, short, 10**6)),
            (Option(HOST, short), Option(CIM, long, 1)),
            (Option(HOST, long), Option(CIM, long - 1, 10**6 - 1)),
            (Option(HOST, short),),
        ),
        (Dependency(0, 1, 1), Dependency(0, 2, long), Dependency(1, 3, 0), Dependency(2, 3, 1)),
        budget=2 * 10**6 - 1,
    )
    for budget in (0, 1, 10**6 - 1, 10**6, 2 * 10**6 - 1):
        agrees(problem.with_budget(budget))
    curve = solve(problem, curve=True).curve
    assert curve[0].crossbars == 0
    assert all(point.makespan == point.lower_bound == optimum(problem.with_budget(point.crossbars)) for point in curve)


def test_an_empty_problem_takes_no_time() -> None:
    assert proven(Problem((), (), (), 0), solve(Problem((), (), (), 0))) == 0


def test_the_same_problem_gives_the_same_answer() -> None:
    problem = yolov5(budget=33, mvm_ns=1000)
    one, other = solve(problem), solve(problem)
    assert one.schedule == other.schedule
    assert one.certificate == other.certificate


def test_a_warm_start_is_never_made_worse() -> None:
    problem = yolov5(budget=50)
    best = solve(problem).schedule
    again = solve(problem, warm_start=best, time_limit_s=0.0)
    assert again.schedule is not None and best is not None
    assert again.schedule.makespan(problem) == best.makespan(problem)


def test_no_time_still_gives_a_schedule_and_a_bound() -> None:
    problem = yolov5(budget=50)
    solution = solve(problem, time_limit_s=0.0)
    assert solution.status == "feasible"
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []
    assert 0 < solution.lower_bound <= solution.schedule.makespan(problem)
    assert solution.statistics["stopped"] == "time limit"


def test_progress_only_ever_improves() -> None:
    heard: list[Progress] = []
    problem = yolov5(budget=50, mvm_ns=1000)
    solution = solve(problem, progress=heard.append)
    makespans = [progress.makespan for progress in heard if progress.makespan is not None]
    assert makespans == sorted(makespans, reverse=True)
    assert [progress.lower_bound for progress in heard] == sorted(progress.lower_bound for progress in heard)
    assert (makespans[-1], heard[-1].lower_bound) == (solution.lower_bound, solution.lower_bound)


def test_an_interrupt_keeps_the_best_schedule_and_bound() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase == "blocks" and progress.lower_bound > 0:
            raise KeyboardInterrupt

    problem = yolov5(budget=50, mvm_ns=1000)
    solution = solve(problem, progress=interrupt)
    assert solution.statistics["stopped"] == "interrupted"
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []


def test_where_blocks_are_too_wide_the_constraint_model_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "BLOCK_LABELS", 0)
    monkeypatch.setattr(exact, "SEARCH_LABELS", 0)
    rng = random.Random("too wide")
    for _ in range(10):
        agrees(replace(random_problem(rng, "random", operators=7), host_cores=1))


@pytest.mark.parametrize("bisect", [False, True])
def test_an_interrupt_keeps_the_curve_so_far(bisect: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = yolov5(budget=40)
    whole = solve(problem, curve=True).curve
    solved = []

    def solve_one(*arguments: Solution, **options: object) -> Solution:
        if len(solved) == 3:
            raise KeyboardInterrupt
        solved.append(solve(*arguments, **options))
        return solved[-1]

    def too_many(*_: object) -> None:
        raise SearchLimitError

    if bisect:
        monkeypatch.setattr(exact, "LARGEST_CURVE", 0)
    else:
        monkeypatch.setattr(BudgetCurve, "run", too_many)
    attempt = exact.solve
    monkeypatch.setattr(exact, "solve", solve_one)
    solution = attempt(problem, curve=True)
    assert solution.status == "optimal"
    assert solution.statistics["stopped"] == "interrupted"
    assert solution.curve
    for point in solution.curve:
        there = [step for step in whole if step.crossbars <= point.crossbars][-1]
        assert point.lower_bound <= there.makespan <= point.makespan
    for point, following in zip(solution.curve, [*solution.curve[1:], None], strict=True):
        # A step's bound holds up to the next one.
        last = [step for step in whole if following is None or step.crossbars < following.crossbars][-1]
        assert point.lower_bound <= last.makespan


def test_a_search_that_holds_too_much_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_NUMBERS", 100)
    for seed in range(20):
        agrees(random_problem(random.Random(f"memory {seed}")))
