"""The methods that prove: held against brute force, against each other, and against what a user changes."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import SHAPES, brute_force, faults, optimum, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError, NoAnswerError
from cimplan.partition.methods import METHODS, solve
from cimplan.partition.mip import gurobi_present
from cimplan.partition.progress import Progress
from cimplan.plan.schedule import Solution

ILPS = [
    "ilp-highs",
    "ilp-scip",
    pytest.param("ilp-gurobi", marks=pytest.mark.skipif(not gurobi_present(), reason="no gurobipy")),
]
TWO_OPTION_FLAVOURS = ["plain", "zero", "equal", "host-heavy"]


def _check(problem: Problem, solution: Solution, best: int, *, proven: bool = True) -> None:
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []
    makespan = solution.schedule.makespan(problem)
    assert solution.lower_bound <= best <= makespan
    assert (solution.status == "optimal") == (solution.lower_bound == makespan)
    if proven:
        assert solution.status == "optimal"


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_cp_sat_agrees_with_brute_force(shape: str, cores: int) -> None:
    rng = random.Random(f"cp-sat {shape} {cores}")
    for number in range(14):
        problem = random_problem(rng, shape, host_cores=cores, infeasible=number % 7 == 6)
        best = optimum(problem)
        if best is None:
            with pytest.raises(NoAnswerError):
                solve(problem, "cp-sat")
        else:
            _check(problem, solve(problem, "cp-sat", seed=number), best)


@pytest.mark.parametrize("name", ILPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_published_ilp_agrees_with_brute_force(shape: str, name: str) -> None:
    rng = random.Random(f"ilp {shape}")
    for number in range(38 if name == "ilp-highs" else 16):
        flavour = TWO_OPTION_FLAVOURS[number % 4]
        problem = random_problem(rng, shape, flavour=flavour, operators=rng.randint(1, 8), infeasible=number % 7 == 6)
        best = optimum(problem)
        if best is None:
            with pytest.raises(NoAnswerError):
                solve(problem, name)
        else:
            _check(problem, solve(problem, name, seed=number), best)


@pytest.mark.parametrize("name", ["cp-sat", "ilp-highs", "ilp-scip"])
def test_one_nanosecond_beside_a_hundred_seconds(name: str) -> None:
    rng = random.Random("range")
    for _ in range(12):
        problem = random_problem(rng, flavour="wide-range", operators=6)
        best = optimum(problem)
        if best is not None:
            # Doubles cannot prove a makespan of 10^11 ticks to the tick; then the ILP must not claim it.
            solution = solve(problem, name)
            _check(problem, solution, best, proven=name == "cp-sat")
            assert solution.schedule is not None
            assert solution.schedule.makespan(problem) - solution.lower_bound <= 1e-6 * best


@settings(deadline=None, max_examples=60)
@given(problems(6, max_cores=2))
def test_cp_sat_agrees_with_brute_force_on_anything(problem: Problem) -> None:
    best = optimum(problem)
    if best is None:
        with pytest.raises(NoAnswerError):
            solve(problem, "cp-sat")
    else:
        _check(problem, solve(problem, "cp-sat"), best)


@settings(deadline=None, max_examples=40)
@given(problems(6), st.randoms(use_true_random=False))
def test_a_better_chip_is_never_worse(problem: Problem, rng: random.Random) -> None:
    if problem.least_crossbars() > problem.budget:
        return
    makespan = _optimal(problem)
    assert _optimal(problem.with_budget(problem.budget + rng.randint(1, 5))) <= makespan
    faster = tuple(
        tuple(replace(o, duration=o.duration // 2) if o.place == CIM else o for o in options)
        for options in problem.options
    )
    assert _optimal(replace(problem, options=faster)) <= makespan
    wider = tuple(replace(edge, transfer=edge.transfer // 2) for edge in problem.dependencies)
    assert _optimal(replace(problem, dependencies=wider)) <= makespan
    assert _optimal(replace(problem, host_cores=2)) <= makespan


def _optimal(problem: Problem) -> int:
    solution = solve(problem, "cp-sat")
    assert solution.status == "optimal"
    return solution.lower_bound


def _hard() -> Problem:
    """Return a problem that no method proves at once: independent chains of two over the accelerator."""
    rng = random.Random(5)
    options = []
    for _ in range(30):
        options += [
            (Option(HOST, rng.randint(300, 999)), Option(CIM, rng.randint(300, 2000), rng.randint(1, 9))),
            (Option(HOST, rng.randint(300, 999)),),
            (Option(HOST, rng.randint(300, 999)), Option(CIM, rng.randint(300, 2000), rng.randint(1, 9))),
        ]
    edges = [Dependency(v, v + 1, rng.randint(100, 300)) for v in range(len(options) - 1) if v % 3 != 2]
    return Problem(tuple(f"op{v}" for v in range(len(options))), tuple(options), tuple(edges), budget=60)


@pytest.mark.parametrize("name", ["cp-sat", "ilp-highs", "ilp-scip"])
def test_the_time_limit_returns_schedule_and_bound(name: str) -> None:
    problem = _hard()
    solution = solve(problem, name, time_limit_s=0.5)
    assert solution.schedule is not None
    assert faults(problem, solution.schedule) == []
    assert 0 < solution.lower_bound <= solution.schedule.makespan(problem)
    if solution.status != "optimal":
        assert solution.statistics["stopped"] == "time limit"


@pytest.mark.parametrize("name", ["cp-sat", "ilp-highs", "ilp-scip"])
def test_a_warm_start_is_never_lost(name: str) -> None:
    problem = _hard()
    start = solve(problem, "greedy").schedule
    assert start is not None
    solution = solve(problem, name, time_limit_s=0.05, warm_start=start)
    assert solution.schedule is not None
    assert solution.schedule.makespan(problem) <= start.makespan(problem)


def test_an_optimal_warm_start_stays_optimal() -> None:
    problem = random_problem(random.Random(3), "ladder", flavour="plain", operators=9)
    best = brute_force(problem)
    assert best is not None
    for name in ("cp-sat", "ilp-highs", "ilp-scip"):
        _check(problem, solve(problem, name, warm_start=best), best.makespan(problem))


def test_a_warm_start_that_does_not_fit_is_refused() -> None:
    problem = _hard()
    all_cim = solve(problem, "all-cim").schedule
    assert all_cim is not None
    with pytest.raises(InputError, match="budget"):
        solve(problem.with_budget(0), "cp-sat", warm_start=all_cim)
    with pytest.raises(InputError, match="not a schedule of this problem"):
        solve(random_problem(random.Random(1), operators=3), "cp-sat", warm_start=all_cim)


@pytest.mark.parametrize("name", ["cp-sat", "ilp-highs"])
def test_progress_improves_and_ends_at_the_answer(name: str) -> None:
    problem = random_problem(random.Random(17), "diamond", flavour="host-heavy", operators=9).with_budget(6)
    seen: list[Progress] = []
    lock = threading.Lock()

    def listen(progress: Progress) -> None:
        with lock:
            seen.append(progress)

    solution = solve(problem, name, progress=listen)
    assert seen
    assert solution.schedule is not None
    for progress in seen:
        assert progress.makespan is not None
        assert progress.lower_bound <= solution.lower_bound <= progress.makespan
        assert progress.gap is not None
        assert 0 <= progress.gap <= 1


def test_the_same_seed_gives_the_same_makespan_and_bound() -> None:
    problem = random_problem(random.Random(9), "random", operators=9)
    for name in ("cp-sat", "ilp-highs", "ilp-scip"):
        first, second = (solve(problem, name, seed=4) for _ in range(2))
        assert (first.status, first.lower_bound) == (second.status, second.lower_bound)


@pytest.mark.parametrize("name", METHODS)
def test_an_empty_problem_takes_no_time(name: str) -> None:
    if not METHODS[name].available():
        pytest.skip("not installed")
    solution = solve(Problem((), (), (), budget=0), name)
    assert solution.schedule is not None
    assert (solution.status, solution.lower_bound, solution.schedule.chosen) == ("optimal", 0, ())


@pytest.mark.parametrize("name", ["cp-sat", "ilp-highs"])
def test_a_million_crossbars(name: str) -> None:
    problem = random_problem(random.Random(2), "ladder", flavour="plain", operators=8)
    huge = replace(
        problem,
        options=tuple(
            tuple(replace(o, crossbars=o.crossbars * 100_003) for o in options) for options in problem.options
        ),
        budget=10**6,
    )
    best = optimum(huge)
    assert best is not None
    _check(huge, solve(huge, name), best)


def test_ctrl_c_during_a_search_returns_its_best_answer_and_bound() -> None:
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_exact_methods import _hard
from cimplan.partition import solve
pressed = []
def press(progress):
    if not pressed:
        pressed.append(progress)
        os.kill(os.getpid(), signal.SIGINT)
solution = solve(_hard(), "cp-sat", time_limit_s=60, progress=press)
print(solution.status, solution.statistics["stopped"], solution.lower_bound, *solution.schedule.start)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    status, stopped, bound, *start = done.stdout.split()
    assert (status, stopped) == ("feasible", "interrupted")
    assert int(bound) > 0
    assert len(start) == len(_hard())


def test_a_failing_mip_solver_is_tried_again_and_then_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from ortools.math_opt.python import mathopt

    tolerances = []

    def fail(*args: object, params: mathopt.SolveParameters, **more: object) -> None:
        tolerances.append(params.highs.double_options["mip_feasibility_tolerance"])
        raise RuntimeError("HighsStatus: kError")

    monkeypatch.setattr(mathopt, "solve", fail)
    problem = random_problem(random.Random(11), "diamond", flavour="plain", operators=6)
    solution = solve(problem, "ilp-highs")
    assert tolerances == [1e-9, 1e-7]
    assert solution.statistics["solver_status"] == "solver failure"
    best = optimum(problem)
    assert best is not None
    _check(problem, solution, best, proven=False)


@pytest.mark.parametrize("seed", range(12))
def test_durations_up_to_the_limit_of_the_clock(seed: int) -> None:
    """Sums just below `HORIZON_LIMIT_TICKS`: no overflow, no wrong proof, by any method."""
    rng = random.Random(seed)
    long = [1, rng.randint(1, 2**48), 2**49 - rng.randint(0, 9)]
    options = []
    for _ in range(rng.randint(3, 6)):
        host = Option(HOST, rng.choice(long))
        both = (host, Option(CIM, rng.randint(1, 2**48), rng.randint(1, 10**6)))
        options.append(both if rng.random() < 0.7 else (host,))
    pairs = [(u, v) for u in range(len(options)) for v in range(u + 1, len(options)) if rng.random() < 0.3]
    problem = Problem(
        names=tuple(f"op{v}" for v in range(len(options))),
        options=tuple(options),
        dependencies=tuple(Dependency(u, v, rng.choice([0, 1, rng.randint(0, 2**44)])) for u, v in pairs),
        budget=rng.randint(0, 3 * 10**6),
    )
    best = optimum(problem)
    assert best is not None
    for name, method in METHODS.items():
        if method.available():
            _check(problem, solve(problem, name), best, proven=name in ("exact", "cp-sat"))
