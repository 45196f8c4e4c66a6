"""How the time of the exact method grows with the network: 100 to 3,000 operators.

    python benchmarks/partition_growth.py

Networks are built from the published architectures with made-up costs (`tests/partition/networks.py`), so that only
the solver is timed. The budget is half of what the network could use.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "partition"))

from cimplan.cost.problem import Problem
from cimplan.partition import exact
from common import describe, machine, table
from networks import resnet, stacked_yolo, transformer


def networks() -> Iterator[tuple[str, Problem]]:
    """Yield networks of growing size, three kinds."""
    for depths in ((3, 4, 6, 3), (3, 4, 23, 3), (3, 8, 36, 3), (10, 40, 100, 10), (20, 160, 520, 50)):
        yield "ResNet, bottlenecks", resnet(depths, bottleneck=True)
    for stacks in (1, 3, 6, 9, 19):
        yield "YOLOv5, stacked C3 blocks", stacked_yolo(stacks)
    for layers in (2, 6, 12, 24, 48):
        yield "transformer, 8 parallel heads", transformer(layers)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(describe(machine()), "\n")
    rows = []
    for name, network in networks():
        problem = network.with_budget(sum(max(o.crossbars for o in options) for options in network.options) // 2)
        wall, used = time.perf_counter(), time.process_time()
        solution = exact.solve(problem, time_limit_s=60)
        wall, used = time.perf_counter() - wall, time.process_time() - used
        assert solution.schedule is not None
        makespan = solution.schedule.makespan(problem)
        gap = 100 * (makespan - solution.lower_bound) / makespan
        rows.append((name, len(problem), solution.status, f"{gap:.3f}", f"{wall:.2f}", f"{used:.2f}"))
        print(*rows[-1], sep="\t", flush=True)
    print("\n" + table(("network", "operators", "status", "gap %", "wall s", "processor s"), rows), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
