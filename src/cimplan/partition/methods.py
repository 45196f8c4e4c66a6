"""Every way to partition a network, by name, with one signature and one clock.

A new method is a function with the signature of `MethodCallable` and one line in `METHODS`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from cimplan.cost.problem import Problem
from cimplan.errors import InputError, did_you_mean
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.plan.schedule import Schedule, Solution

DEFAULT_METHOD: Final = "exact"


class MethodCallable(Protocol):
    """What every method looks like; see `solve` for the arguments."""

    def __call__(
        self,
        problem: Problem,
        *,
        time_limit_s: float | None = None,
        seed: int = 0,
        warm_start: Schedule | None = None,
        progress: ProgressCallback | None = None,
        curve: bool = False,
    ) -> Solution:
        """Solve a problem."""


@dataclass(frozen=True)
class Method:
    """One way to partition.

    Attributes
    ----------
    name : str
        As on the command line.
    description : str
        One line for a table of methods.
    module : str
        Where its `solve` lives; imported on first use, so that a listing loads no solver.
    exact : bool
        Whether it proves its answer optimal, given time.
    needs : str
        Package a user must install for it; empty if it comes with cimplan.
    arguments : mapping
        Fixed keyword arguments.
    """

    name: str
    description: str
    module: str
    exact: bool
    needs: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def available(self) -> bool:
        """Return whether the package it needs is installed; imports nothing."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    def __call__(
        self,
        problem: Problem,
        *,
        time_limit_s: float | None = None,
        seed: int = 0,
        warm_start: Schedule | None = None,
        progress: ProgressCallback | None = None,
        curve: bool = False,
    ) -> Solution:
        """Solve a problem with this method; see `solve`."""
        run = cast("MethodCallable", importlib.import_module(self.module).solve)
        return run(
            problem,
            time_limit_s=time_limit_s,
            seed=seed,
            warm_start=warm_start,
            progress=progress,
            curve=curve,
            **self.arguments,
        )


def _registry(*methods: Method) -> Mapping[str, Method]:
    return MappingProxyType({method.name: method for method in methods})


METHODS: Final[Mapping[str, Method]] = _registry(
    Method("exact", "decomposition along cuts; proves optimality with a certificate", "cimplan.partition.exact", True),
    Method("cp-sat", "plain constraint model (OR-Tools CP-SAT)", "cimplan.partition.cpsat", True),
    Method("ilp", "the published ILP (HiGHS)", "cimplan.partition.ilp", True),
    Method("ilp-highs", "the published ILP (HiGHS)", "cimplan.partition.ilp", True, arguments={"solver": "highs"}),
    Method("ilp-scip", "the published ILP (SCIP)", "cimplan.partition.ilp", True, arguments={"solver": "scip"}),
    Method(
        "ilp-gurobi",
        "the published ILP (Gurobi, where installed and licensed)",
        "cimplan.partition.ilp",
        True,
        needs="gurobipy",
        arguments={"solver": "gurobi"},
    ),
    Method("cpu-only", "everything on the host", "cimplan.partition.baselines.cpu_only", False),
    Method(
        "all-cim", "everything supported on crossbars while they last", "cimplan.partition.baselines.all_cim", False
    ),
    Method("greedy", "best gain per crossbar first", "cimplan.partition.baselines.greedy", False),
    Method("single-cut", "best single cut (Neurosurgeon)", "cimplan.partition.baselines.single_cut", False),
    Method(
        "sequential-ilp",
        "least sum of times and transfers, without overlap (Viramontes & Davoodi)",
        "cimplan.partition.baselines.sequential",
        False,
    ),
    Method("heft", "list scheduling by earliest finish (HEFT)", "cimplan.partition.baselines.heft", False),
)
"""All methods, the default first, then those that prove, then the baselines."""


def find_method(name: str) -> Method:
    """Return a method by name.

    Raises
    ------
    InputError
        If it is not known or its package is not installed.
    """
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}", fix=did_you_mean(name, METHODS))
    found = METHODS[name]
    if not found.available():
        raise InputError(
            f"method {name!r} needs the package {found.needs!r}",
            why="it is not installed",
            fix=f"pip install {found.needs} (it has its own licence), or use --method {DEFAULT_METHOD}",
        )
    return found


def solve(
    problem: Problem,
    method: str = DEFAULT_METHOD,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
    unfixed: Problem | None = None,
) -> Solution:
    """Partition a network.

    Parameters
    ----------
    problem : Problem
        The problem; with the user's placements already fixed (`Problem.fixed`).
    method : str
        A key of `METHODS`.
    time_limit_s : float, optional
        Wall seconds; the best answer and bound by then are returned.
    seed : int
        For methods that search.
    warm_start : Schedule, optional
        A feasible schedule to begin with.
    progress : callable, optional
        Told of the best schedule and bound as they improve.
    curve : bool
        Whether to compute the whole budget curve, by methods that can.
    unfixed : Problem, optional
        The problem before `Problem.fixed`, for a better explanation of infeasibility.

    Returns
    -------
    Solution
        Always with a schedule.

    Raises
    ------
    InputError
        If the method is not known, not installed, or cannot express the problem; if the warm start does not fit.
    NoAnswerError
        If no choice of options fits the budget: demand, limit, and what to change.
    """
    chosen = find_method(method)
    refuse_infeasible(problem, unfixed=unfixed)
    if warm_start is not None:
        _check_warm_start(problem, warm_start)
    return chosen(problem, time_limit_s=time_limit_s, seed=seed, warm_start=warm_start, progress=progress, curve=curve)


def _check_warm_start(problem: Problem, schedule: Schedule) -> None:
    """Refuse a warm start of another problem or above the budget; its times are recomputed anyway."""
    fits = len(schedule.chosen) == len(schedule.start) == len(problem) and all(
        0 <= choice < len(options) for choice, options in zip(schedule.chosen, problem.options, strict=True)
    )
    if not fits:
        raise InputError(
            "the warm start is not a schedule of this problem",
            fix="Start from a plan of the same network, hardware and fixed placements",
        )
    used = schedule.crossbars(problem)
    if used > problem.budget:
        raise InputError(
            "the warm start does not fit the crossbar budget",
            why=f"it takes {used} crossbars, {problem.budget} are available",
            fix="Start from a plan of at most this budget",
        )
