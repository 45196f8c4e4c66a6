"""The budget curve against one solve: YOLOv5n, two hosts, four MVM latencies, every budget from 0 to enough.

    python benchmarks/partition_curve.py

A curve is one run that proves the optimum of every budget. It is compared with the mean of single solves at 25, 50,
100 and 200 crossbars of the same costs, in the same run; each is the best of three.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import groupby
from statistics import fmean

from cimplan.partition import exact
from cimplan.plan.check import require
from cimplan.plan.schedule import Solution
from common import describe, machine, table
from partition import BUDGETS, HOSTS, MVM_NS, instances

REPEATS = 3


def timed(call: Callable[[], Solution]) -> tuple[float, Solution]:
    """Return the best of some wall times, and the answer."""
    best, answer = float("inf"), None
    for _ in range(REPEATS):
        began = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - began)
    assert answer is not None
    return best, answer


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(describe(machine()), "\n")
    rows = []
    everything = instances(["yolov5n"], list(HOSTS), list(BUDGETS), list(MVM_NS))
    for (host, mvm_ns), some in groupby(everything, key=lambda instance: (instance.host, instance.mvm_ns)):
        problems = [instance.problem for instance in some]
        singles = [timed(lambda problem=problem: exact.solve(problem))[0] for problem in problems]
        wall, solution = timed(lambda problem=problems[0]: exact.solve(problem, curve=True))
        require(problems[0], solution)
        proven = sum(point.makespan == point.lower_bound for point in solution.curve)
        one = fmean(singles)
        rows.append((host, mvm_ns, len(solution.curve), proven, f"{one:.3f}", f"{wall:.3f}", f"{wall / one:.1f}"))
        print(*rows[-1], sep="\t", flush=True)
    head = ("host", "MVM ns", "steps", "proven", "one solve s (mean)", "curve s", "ratio")
    print("\n" + table(head, rows))
    ratio = sum(float(row[5]) for row in rows) / sum(float(row[4]) for row in rows)
    print(f"\nall curves together take {ratio:.1f} times as long as one solve each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
