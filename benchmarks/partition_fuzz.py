"""Random small problems against brute force, as many as you like: the nightly form of the tests.

    python benchmarks/partition_fuzz.py --count 100000
    python benchmarks/partition_fuzz.py --count 2000 --methods exact,cp-sat,ilp-highs --seed 7

Every shape and kind of numbers of `tests/partition/oracle.py`: ties, zero durations, 1 ns beside 100 s, budgets of a
million, several accelerators and host cores, infeasible placements. Any wrong proof, missed optimum, or broken
constraint is printed with the number that reproduces it (`--seed S --only NUMBER`), and the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "partition"))

from oracle import SHAPES, brute_force, faults, random_problem

from cimplan.cost.problem import Problem
from cimplan.errors import NoAnswerError
from cimplan.partition.methods import METHODS, solve
from cimplan.plan.check import check_solution
from cimplan.plan.schedule import Schedule


def instance(seed: int, number: int) -> Problem:
    """Return one problem; the same for the same two numbers."""
    rng = random.Random(f"{seed} {number}")
    cores = rng.choice([1, 1, 1, 1, 2, 3])
    return random_problem(rng, SHAPES[number % len(SHAPES)], host_cores=cores, infeasible=rng.random() < 0.04)


def complaints(problem: Problem, best: Schedule | None, method: str, time_limit_s: float) -> list[str]:
    """Return what is wrong with a method's answer."""
    try:
        solution = solve(problem, method, time_limit_s=time_limit_s)
    except NoAnswerError:
        return [] if best is None else ["calls a feasible problem infeasible"]
    if best is None or solution.schedule is None:
        return ["answers an infeasible problem" if best is None else "no schedule"]
    optimum, makespan = best.makespan(problem), solution.schedule.makespan(problem)
    found = faults(problem, solution.schedule)
    found += [] if check_solution(problem, solution) else ["the checker refuses the answer"]
    if solution.lower_bound > optimum:
        found.append(f"wrong proof: bound {solution.lower_bound}, optimum {optimum}")
    if (solution.status == "optimal") != (solution.lower_bound == makespan):
        found.append(f"status {solution.status} with bound {solution.lower_bound} and makespan {makespan}")
    if METHODS[method].exact and not method.startswith("ilp") and makespan != optimum:
        found.append(f"missed the optimum {optimum}: {makespan}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one problem by its number, printed in full")
    parser.add_argument("--methods", default="exact")
    parser.add_argument("--time-limit-s", type=float, default=60.0)
    options = parser.parse_args()
    began = time.perf_counter()
    wrong = 0
    numbers = range(options.count) if options.only is None else [options.only]
    for number in numbers:
        problem = instance(options.seed, number)
        if options.only is not None:
            print(problem)
        best = brute_force(problem)
        for method in options.methods.split(","):
            if method.startswith("ilp") and not _fits_ilp(problem):
                continue
            for complaint in complaints(problem, best, method, options.time_limit_s):
                wrong += 1
                print(f"--seed {options.seed} --only {number} {method}: {complaint}", flush=True)
        if number and number % 5000 == 0:
            print(f"{number} done, {wrong} wrong, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(numbers)} problems, {options.methods}: {wrong} wrong, {time.perf_counter() - began:.0f} s")
    sys.exit(1 if wrong else 0)


def _fits_ilp(problem: Problem) -> bool:
    """Whether the published formulation can express the problem."""
    options = [sorted(option.place for option in some) for some in problem.options]
    return problem.host_cores == 1 and all(places in (["host"], ["cim"], ["cim", "host"]) for places in options)


if __name__ == "__main__":
    main()
