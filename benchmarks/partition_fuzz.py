"""The exact method against brute force on random small graphs, against CP-SAT on larger ones: no wrong proof, ever.

    python benchmarks/partition_fuzz.py           # 100,000 small graphs, 20,000 searched in odd ways, 500 larger ones
    python benchmarks/partition_fuzz.py --small 2000 --larger 50 --seed 7

Meant for a nightly run. Every schedule is checked, every certificate is verified, every budget curve is held against
the optimum of its budgets. Ends with exit code 1 at the first contradiction, and says with which seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "partition"))

from oracle import SHAPES, faults, optimum, random_problem
from search_checks import wrong_searches

from cimplan.cost.problem import Problem
from cimplan.errors import NoAnswerError
from cimplan.partition import cpsat, exact
from cimplan.plan.certificate_check import verify_certificate
from cimplan.plan.schedule import Solution
from common import describe, machine


def sound(problem: Problem, solution: Solution) -> str:
    """Return what is wrong with an answer, whatever the optimum is; empty if nothing."""
    if solution.schedule is None:
        return "no schedule"
    if found := faults(problem, solution.schedule):
        return f"schedule: {found[0]}"
    makespan = solution.schedule.makespan(problem)
    if (solution.status == "optimal") != (solution.lower_bound == makespan) or solution.lower_bound > makespan:
        return f"status {solution.status}, bound {solution.lower_bound}, makespan {makespan}"
    if solution.certificate is not None:
        if solution.certificate.lower_bound > makespan:
            return f"certificate of {solution.certificate.lower_bound}, makespan {makespan}"
        report = verify_certificate(problem, solution.certificate)
        if report.verdict == "refuted":
            return f"certificate: {report.notes[0]}"
    return ""


def small(seed: int, tally: Counter[str]) -> str:
    """Hold one small graph against brute force, one in eight with its whole curve."""
    rng = random.Random(seed)
    cores = 2 if seed % 29 == 28 else 1
    problem = random_problem(rng, SHAPES[seed % len(SHAPES)], host_cores=cores, infeasible=seed % 11 == 10)
    best = optimum(problem)
    try:
        solution = exact.solve(problem, curve=seed % 8 == 0)
    except NoAnswerError:
        return "" if best is None else "called infeasible"
    if best is None:
        return "an answer where there is none"
    if wrong := sound(problem, solution):
        return wrong
    if solution.lower_bound != best:
        return f"proves {solution.lower_bound}, the optimum is {best}"
    for point in solution.curve:
        if not point.makespan == point.lower_bound == optimum(problem.with_budget(point.crossbars)):
            return f"curve at {point.crossbars} crossbars"
    tally[str(solution.statistics.get("proof"))] += 1
    return ""


def searches(seed: int, tally: Counter[str]) -> str:
    """Hold the searches alone against brute force, whatever the blocks and the fillers."""
    rng = random.Random(f"search {seed}")
    return wrong_searches(random_problem(rng, SHAPES[seed % len(SHAPES)]), rng)


def larger(seed: int, tally: Counter[str]) -> str:
    """Hold one larger graph against the plain constraint model."""
    rng = random.Random(-seed - 1)
    problem = random_problem(rng, SHAPES[seed % len(SHAPES)], operators=rng.randint(12, 40))
    problem = problem.with_budget(max(problem.budget, problem.least_crossbars()))
    solution = exact.solve(problem, time_limit_s=60)
    other = cpsat.solve(problem, time_limit_s=60)
    if wrong := sound(problem, solution):
        return wrong
    assert solution.schedule is not None and other.schedule is not None
    if solution.lower_bound > other.schedule.makespan(problem):
        return f"proves {solution.lower_bound}, CP-SAT found {other.schedule.makespan(problem)}"
    if other.lower_bound > solution.schedule.makespan(problem):
        return f"found {solution.schedule.makespan(problem)}, CP-SAT proves {other.lower_bound}"
    tally[f"{solution.statistics.get('proof')}, {solution.status}"] += 1
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--searched", type=int, default=20_000)
    parser.add_argument("--larger", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    print(describe(machine()))
    for name, check, count in (
        ("small", small, arguments.small),
        ("searched", searches, arguments.searched),
        ("larger", larger, arguments.larger),
    ):
        tally: Counter[str] = Counter()
        began = time.perf_counter()
        for seed in range(arguments.seed, arguments.seed + count):
            if wrong := check(seed, tally):
                print(f"{name} graph of seed {seed}: {wrong}", file=sys.stderr)
                return 1
        proofs = ", ".join(f"{number} by {proof}" for proof, number in tally.most_common())
        print(f"{count} {name} graphs agree in {time.perf_counter() - began:.0f} s: {proofs}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
