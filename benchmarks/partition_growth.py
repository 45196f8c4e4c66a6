"""How a partition method grows with the size of the network, block width staying the same.

    python benchmarks/partition_growth.py
    python benchmarks/partition_growth.py --methods exact,greedy --sizes 100,1000 --curve

Also solves a 24-layer transformer of wide attention (eight heads beside each other), where width, not depth, is large.
Ratios are to the smallest size of the same family, in this run: a linear method has equal time per operator.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from cimplan.cost.problem import Problem
from cimplan.partition.methods import solve
from cimplan.plan.check import require
from common import describe, machine, table, write
from networks import NETWORKS, transformer

SIZES = (100, 300, 1000, 3000)
WIDE_OPERATORS = 24 * (8 + 8 * 7)


def run(problem: Problem, method: str, time_limit_s: float, *, curve: bool) -> dict[str, Any]:
    began = time.perf_counter()
    solution = solve(problem, method, time_limit_s=time_limit_s, curve=curve)
    elapsed = time.perf_counter() - began
    require(problem, solution)
    assert solution.schedule is not None
    makespan = solution.schedule.makespan(problem)
    return {
        "operators": len(problem),
        "method": method,
        "status": solution.status,
        "gap": (makespan - solution.lower_bound) / makespan,
        "solve_s": elapsed,
        "curve_points": len(solution.curve),
        "statistics": dict(solution.statistics),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(NETWORKS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--methods", default="exact")
    parser.add_argument("--no-wide", action="store_true", help="leave out the wide transformer")
    parser.add_argument("--curve", action="store_true", help="ask for the budget curve too")
    parser.add_argument("--time-limit-s", type=float, default=60.0)
    parser.add_argument("--output", type=Path, help="folder for partition_growth.json and .md")
    options = parser.parse_args()
    facts = machine()
    sizes = [int(text) for text in options.sizes.split(",")]
    jobs = [(family, NETWORKS[family](size)) for family in options.families.split(",") for size in sizes]
    if not options.no_wide:
        jobs.append(("transformer, 24 layers of 8 heads", transformer(WIDE_OPERATORS)))
    results: list[dict[str, Any]] = []
    for method in options.methods.split(","):
        run(NETWORKS["resnet"](30), method, options.time_limit_s, curve=options.curve)  # imports, compilation
        for family, problem in jobs:
            print(f"{method} {family} {len(problem)}", file=sys.stderr, flush=True)
            results.append({"family": family} | run(problem, method, options.time_limit_s, curve=options.curve))
    rows = []
    for one in results:
        same = [other for other in results if (other["family"], other["method"]) == (one["family"], one["method"])]
        least = min(same, key=lambda other: other["operators"])
        per_operator = one["solve_s"] / one["operators"]
        rows.append(
            [
                one["family"],
                one["method"],
                one["operators"],
                one["status"],
                f"{100 * one['gap']:.2f}",
                f"{one['solve_s']:.3f}",
                f"{1e6 * per_operator:.0f}",
                f"{per_operator / (least['solve_s'] / least['operators']):.2f}",
            ]
        )
    head = ["family", "method", "operators", "status", "gap %", "s", "µs / operator", "relative to smallest"]
    text = f"# Growth\n\n{describe(facts)}. Time limit {options.time_limit_s:g} s.\n\n{table(head, rows)}"
    write(options.output, "partition_growth", {"machine": facts, "runs": results}, text)


if __name__ == "__main__":
    main()
