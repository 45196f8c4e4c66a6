"""The work of a sweep: a task prices one design and solves it for all of its crossbar budgets.

A task carries all it needs (the profile included), so that it can run in any process on any machine.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cimplan import __version__
from cimplan.errors import CimplanError, NoAnswerError

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.cost.profile_file import HostProfile
    from cimplan.explore.space import Prices

Result = dict[str, Any]
PointResult = tuple[str, str, Result]
"""Key, status and result of a point."""

CURVE_METHOD = "exact"
"""The method whose single run gives the optimum of every budget."""


@dataclass(frozen=True)
class Task:
    """One design, and the budgets it is wanted for.

    Attributes
    ----------
    keys : tuple of (int, str)
        Budget in crossbars and key of the point, ascending.
    profile : bytes
        The host profile, as `pack_profile` makes it.
    hardware : mapping
        Hardware description; its number of crossbars does not matter.
    method : str
        Partition method.
    time_limit_s : float or None
        Of one solve.
    prices : Prices
        What area and energy cost.
    """

    keys: tuple[tuple[int, str], ...]
    profile: bytes
    hardware: Mapping[str, Any]
    method: str
    time_limit_s: float | None
    prices: Prices


def point_key(
    profile: bytes, hardware: Mapping[str, Any], method: str, time_limit_s: float | None, prices: Prices
) -> str:
    """Return the hash of everything that the result of a point depends on."""
    # Text that says where numbers come from changes no result.
    chip = {name: value for name, value in hardware.items() if name not in ("name", "description", "sources")}
    value = {
        "version": __version__,
        "profile": profile_key(profile),
        "hardware": chip,
        "method": method,
        "time_limit_s": time_limit_s,
        "prices": prices.model_dump(mode="json"),
    }
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def pack_profile(profile: HostProfile) -> bytes:
    """Return a profile as few bytes; the same profile gives the same bytes."""
    return gzip.compress(profile.to_json().encode(), mtime=0)


def profile_key(packed: bytes) -> str:
    """Return the hash of a packed profile's content."""
    return hashlib.sha256(gzip.decompress(packed)).hexdigest()


@lru_cache(maxsize=16)
def unpack_profile(packed: bytes) -> HostProfile:
    """Return the profile that `pack_profile` packed."""
    from cimplan.cost.profile_file import from_value

    return from_value(json.loads(gzip.decompress(packed)), "stored profile")


def run_task(task: Task) -> list[PointResult]:
    """Return (key, status, result) of every point of a task; a point without an answer says why.

    The result depends on the task alone: no times of the solver are in it.
    """
    try:
        from cimplan.cost.build import build_problem
        from cimplan.hardware import from_description

        costed = build_problem(unpack_profile(task.profile), from_description(task.hardware))
    except CimplanError as error:
        return [(key, "failed", _failure(error, budget)) for budget, key in task.keys]
    needs_schedule = task.prices.energy_pj_per_mvm is not None or task.prices.host_power_w is not None
    if task.method == CURVE_METHOD and not needs_schedule:
        return _by_curve(task, costed)
    return [_by_solve(task, costed, budget, key) for budget, key in task.keys]


def _by_curve(task: Task, costed: CostedNetwork) -> list[PointResult]:
    from cimplan.partition.methods import solve

    problem = costed.problem.with_budget(max(budget for budget, _ in task.keys))
    try:
        solution = solve(problem, method=CURVE_METHOD, time_limit_s=task.time_limit_s, curve=True)
    except CimplanError as error:
        return [(key, _status_of(error), _failure(error, budget)) for budget, key in task.keys]
    host_only = _host_only_ticks(problem)
    results = []
    for budget, key in task.keys:
        reached = [point for point in solution.curve if point.crossbars <= budget]
        if not reached:
            why = f"the least is {problem.least_crossbars()} crossbars"
            results.append((key, "infeasible", _failure(NoAnswerError("no plan fits this budget", why=why), budget)))
            continue
        best = reached[-1]
        status = "optimal" if best.makespan == best.lower_bound else "feasible"
        result = _result(problem, task, budget, best.makespan, best.lower_bound, best.crossbars, host_only)
        results.append((key, status, {"status": status, **result}))
    return results


def _by_solve(task: Task, costed: CostedNetwork, budget: int, key: str) -> PointResult:
    from cimplan.partition.methods import solve
    from cimplan.plan.check import require

    problem = costed.problem.with_budget(budget)
    try:
        solution = solve(problem, method=task.method, time_limit_s=task.time_limit_s)
        if solution.schedule is None:
            raise NoAnswerError("the method found no plan", why=f"its status is {solution.status}")
        require(problem, solution)
    except CimplanError as error:
        return key, _status_of(error), _failure(error, budget)
    schedule = solution.schedule
    result = _result(
        problem,
        task,
        budget,
        schedule.makespan(problem),
        solution.lower_bound,
        schedule.crossbars(problem),
        _host_only_ticks(problem),
    )
    result["energy_uj"] = _energy_uj(task, costed, problem, schedule.chosen)
    result["operators_on_cim"] = sum(
        options[choice].place != "host" for options, choice in zip(problem.options, schedule.chosen, strict=True)
    )
    return key, solution.status, {"status": solution.status, **result}


def _result(
    problem: Problem, task: Task, budget: int, makespan: int, bound: int, crossbars: int, host_only: int | None
) -> Result:
    tick_ns = problem.tick_ns
    area = task.prices.area_mm2_per_crossbar
    return {
        "error": "",
        "crossbars_available": budget,
        "crossbars_used": crossbars,
        "makespan_ns": makespan * tick_ns,
        "lower_bound_ns": bound * tick_ns,
        "gap": (makespan - bound) / makespan if makespan else 0.0,
        "host_only_ns": None if host_only is None else host_only * tick_ns,
        "speedup": host_only / makespan if host_only is not None and makespan else None,
        "area_mm2": None if area is None else area * budget,
    }


def _failure(error: CimplanError, budget: int) -> Result:
    return {"status": _status_of(error), "error": str(error), "crossbars_available": budget}


def _status_of(error: CimplanError) -> str:
    return "infeasible" if isinstance(error, NoAnswerError) else "failed"


def _host_only_ticks(problem: Problem) -> int | None:
    """Ticks of the host alone; None where an operator cannot run there."""
    from cimplan.cost.problem import HOST
    from cimplan.partition.methods import solve

    if problem.host_cores > 1:
        alone = solve(problem, method="cpu-only")
        return None if alone.schedule is None else alone.schedule.makespan(problem)
    durations = [[option.duration for option in options if option.place == HOST] for options in problem.options]
    return sum(min(found) for found in durations) if all(durations) else None


def _energy_uj(task: Task, costed: CostedNetwork, problem: Problem, chosen: tuple[int, ...]) -> float | None:
    """Energy of one inference: the host while it computes, every MVM of every crossbar, and the shared bus.

    An architect's first estimate from the prices of the space; static power and programming are not in it.
    """
    prices = task.prices
    if prices.energy_pj_per_mvm is None:
        return None
    picojoules = 0.0
    places = []
    for operator, options, choice in zip(costed.graph.operators, problem.options, chosen, strict=True):
        option = options[choice]
        places.append(option.place)
        if option.place == "host":
            # 1 W = 1000 pJ/ns
            picojoules += 1e3 * (prices.host_power_w or 0.0) * option.duration * problem.tick_ns
        elif operator.work is not None:
            picojoules += prices.energy_pj_per_mvm * operator.work.mvms * option.crossbars
    for edge in problem.dependencies:
        if places[edge.source] != places[edge.target]:
            picojoules += prices.energy_pj_per_byte * edge.size_bytes
    return picojoules / 1e6
