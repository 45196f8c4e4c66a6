"""Every partition method on every instance: the reference networks on two hosts, four budgets, four MVM latencies.

    python benchmarks/partition.py                                     # all 128 instances, all free methods
    python benchmarks/partition.py --methods exact,ilp-scip --models yolov5n --mvm-ns 50 --time-limit-s 600
    python benchmarks/partition.py --gurobi                            # also Gurobi, on the models its licence takes

Host "measured" is this machine, measured now or taken from the cache; "estimated" is the labelled estimate of an ARM
Cortex-A72. Every answer passes the independent checker, and methods that prove an optimum must agree, or the run fails.
All ratios are within this run.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cimplan.cost.build import build_problem
from cimplan.cost.problem import Problem
from cimplan.errors import InputError
from cimplan.partition.methods import METHODS, solve
from cimplan.plan.check import require
from common import describe, machine, table, write

MODELS = ("resnet18", "resnet50", "mobilenet_v2", "yolov5n")
HOSTS = {"measured": "rram-256", "estimated": "rram-256-arm"}
BUDGETS = (25, 50, 100, 200)
MVM_NS = (50, 100, 500, 1000)


@dataclass(frozen=True)
class Instance:
    """One question."""

    model: str
    host: str
    budget: int
    mvm_ns: int
    problem: Problem

    @property
    def key(self) -> dict[str, Any]:
        """What identifies the instance."""
        return {"model": self.model, "host": self.host, "budget": self.budget, "mvm_ns": self.mvm_ns}


@dataclass(frozen=True)
class Run:
    """One answer."""

    model: str
    host: str
    budget: int
    mvm_ns: int
    method: str
    status: str
    makespan_ns: float
    lower_bound_ns: float
    gap: float
    solve_s: float
    crossbars: int
    statistics: dict[str, Any]


def instances(models: list[str], hosts: list[str], budgets: list[int], latencies: list[int]) -> Iterator[Instance]:
    """Yield the instances; a network is profiled once for each host."""
    from cimplan.api.partitioning import cost
    from cimplan.hardware import load, with_overrides

    for model, host in itertools.product(models, hosts):
        costed = cost(f"zoo:{model}", HOSTS[host])
        for mvm_ns in latencies:
            hardware = with_overrides(load(HOSTS[host]), mvm_latency_ns=mvm_ns)
            problem = build_problem(costed.profile, hardware).problem
            for budget in budgets:
                yield Instance(model, host, budget, mvm_ns, problem.with_budget(budget))


def run(instance: Instance, method: str, time_limit_s: float, seed: int) -> Run | None:
    """Solve, check, and time from call to answer; None if the method cannot take the instance."""
    problem = instance.problem
    began = time.perf_counter()
    try:
        solution = solve(problem, method, time_limit_s=time_limit_s, seed=seed)
    except InputError as error:
        print(f"  {method}: {error}", file=sys.stderr)
        return None
    elapsed = time.perf_counter() - began
    require(problem, solution)
    assert solution.schedule is not None
    makespan = solution.schedule.makespan(problem)
    return Run(
        **instance.key,
        method=method,
        status=solution.status,
        makespan_ns=makespan * problem.tick_ns,
        lower_bound_ns=solution.lower_bound * problem.tick_ns,
        gap=(makespan - solution.lower_bound) / makespan if makespan else 0.0,
        solve_s=elapsed,
        crossbars=solution.schedule.crossbars(problem),
        statistics=dict(solution.statistics),
    )


def disagreements(runs: list[Run]) -> list[str]:
    """Return where two proofs, or a proof and a better schedule, contradict each other."""
    found = []
    for key, group in _grouped(runs, "model", "host", "budget", "mvm_ns"):
        best = min(group, key=lambda run: run.makespan_ns)
        bound = max(group, key=lambda run: run.lower_bound_ns)
        if bound.lower_bound_ns > best.makespan_ns:
            found.append(
                f"{key}: {bound.method} proves {bound.lower_bound_ns} ns, {best.method} found {best.makespan_ns} ns"
            )
    return found


def _grouped(runs: list[Run], *fields: str) -> list[tuple[tuple[Any, ...], list[Run]]]:
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for one in runs:
        groups.setdefault(tuple(getattr(one, name) for name in fields), []).append(one)
    return list(groups.items())


def markdown(runs: list[Run], facts: dict[str, Any], time_limit_s: float) -> str:
    """Return the summary: proofs, times and quality per model, host and method; then the instances."""
    best = {
        key: min(one.makespan_ns for one in group) for key, group in _grouped(runs, "model", "host", "budget", "mvm_ns")
    }
    first = runs[0].method
    rows = []
    for (model, host), group in _grouped(runs, "model", "host"):
        reference = fmean(one.solve_s for one in group if one.method == first)
        for (method,), some in _grouped(group, "method"):
            mean = fmean(one.solve_s for one in some)
            over = fmean(one.makespan_ns / best[one.model, one.host, one.budget, one.mvm_ns] for one in some)
            proven = sum(one.status == "optimal" for one in some)
            rows.append(
                [
                    model,
                    host,
                    method,
                    f"{proven}/{len(some)}",
                    f"{100 * fmean(one.gap for one in some):.2f}",
                    f"{over:.4f}",
                    f"{mean:.3f}",
                    f"{max(one.solve_s for one in some):.3f}",
                    f"{mean / reference:.1f}",
                ]
            )
    head = [
        "model",
        "host",
        "method",
        "proven",
        "mean gap %",
        "makespan / best",
        "mean s",
        "worst s",
        f"time / {first}",
    ]
    parts = [
        "# Partition methods",
        f"{describe(facts)}. Time limit {time_limit_s:g} s a solve.",
        table(head, rows),
    ]
    if "cpu-only" in {one.method for one in runs}:
        parts += ["## Speed-up over the host alone, by the best answer", _speedups(runs, best)]
    return "\n\n".join(parts)


def _speedups(runs: list[Run], best: dict[tuple[Any, ...], float]) -> str:
    alone = {(r.model, r.host, r.mvm_ns): r.makespan_ns for r in runs if r.method == "cpu-only"}
    budgets = sorted({one.budget for one in runs})
    rows = [
        [*key, *(f"{alone[key] / best[key[0], key[1], budget, key[2]]:.2f}" for budget in budgets)] for key in alone
    ]
    return table(["model", "host", "MVM ns", *(f"{budget} crossbars" for budget in budgets)], rows)


def main() -> None:
    free = [name for name, method in METHODS.items() if not method.needs and name != "ilp"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--hosts", default=",".join(HOSTS))
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--mvm-ns", default=",".join(map(str, MVM_NS)))
    parser.add_argument("--methods", default=",".join(free), help="the first is what the others' times are compared to")
    parser.add_argument("--gurobi", action="store_true", help="also ilp-gurobi, where its licence takes the model")
    parser.add_argument("--time-limit-s", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="folder for partition.json and partition.md")
    options = parser.parse_args()
    methods = options.methods.split(",") + (["ilp-gurobi"] if options.gurobi else [])

    facts = machine()
    questions = list(
        instances(
            options.models.split(","),
            options.hosts.split(","),
            [int(text) for text in options.budgets.split(",")],
            [int(text) for text in options.mvm_ns.split(",")],
        )
    )
    for method in methods:  # imports and compilation are not part of a solve
        run(questions[0], method, min(1.0, options.time_limit_s), options.seed)
    runs: list[Run] = []
    for number, instance in enumerate(questions, start=1):
        print(f"{number}/{len(questions)} {instance.key}", file=sys.stderr, flush=True)
        for method in methods:
            answer = run(instance, method, options.time_limit_s, options.seed)
            if answer is not None:
                runs.append(answer)
    faults = disagreements(runs)
    result = {"machine": facts, "time_limit_s": options.time_limit_s, "runs": [asdict(one) for one in runs]}
    write(options.output, "partition", result | {"disagreements": faults}, markdown(runs, facts, options.time_limit_s))
    if faults:
        sys.exit("\n".join(["methods disagree:", *faults]))


if __name__ == "__main__":
    main()
