"""The work of a sweep: a task prices one design and solves it for all of its crossbar budgets.

A task carries all it needs (the profile included), so that it can run in any process on any machine, and its results
depend on nothing else: no times of the solver are in them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cimplan import __version__
from cimplan.errors import CimplanError, InternalError, NoAnswerError

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.cost.profile_file import HostProfile
    from cimplan.explore.space import Prices
    from cimplan.plan.schedule import Solution

Result = dict[str, Any]
PointResult = tuple[str, str, Result]
"""Key, status and result of a point."""

_WORDS = 2
"""Which words results are told in; since 2, "optimal" says that the proof was verified."""

CURVE_METHOD = "exact"
"""The method whose single run gives the optimum of every budget."""

RESULT_COLUMNS: tuple[tuple[str, str], ...] = (
    ("status", "text"),
    ("solver_claims", "text"),
    ("error", "text"),
    ("crossbars_available", "whole"),
    ("crossbars_used", "whole"),
    ("makespan_ns", "decimal"),
    ("lower_bound_ns", "decimal"),
    ("gap", "decimal"),
    ("host_only_ns", "decimal"),
    ("speedup", "decimal"),
    ("area_mm2", "decimal"),
    ("energy_uj", "decimal"),
)
"""Names and types of what a result holds; area and energy only where they have prices."""


@dataclass(frozen=True)
class Solve:
    """How a design is solved.

    Attributes
    ----------
    method : str
        Partition method.
    time_limit_s : float or None
        Of one solve.
    seed : int
        Of methods that use randomness.
    fix : tuple of (str, str)
        Operators and the places they are kept on, sorted.
    """

    method: str
    time_limit_s: float | None
    seed: int
    fix: tuple[tuple[str, str], ...]


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
    solve : Solve
        How to solve it.
    prices : Prices
        What area and energy cost.
    """

    keys: tuple[tuple[int, str], ...]
    profile: bytes
    hardware: Mapping[str, Any]
    solve: Solve
    prices: Prices

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as plain values, so that a worker needs no more than this module to read a task."""
        solve = (self.solve.method, self.solve.time_limit_s, self.solve.seed, self.solve.fix)
        return _task, (self.keys, self.profile, dict(self.hardware), solve, self.prices.model_dump(mode="json"))


def _task(
    keys: tuple[tuple[int, str], ...],
    profile: bytes,
    hardware: dict[str, Any],
    solve: tuple[str, float | None, int, tuple[tuple[str, str], ...]],
    prices: dict[str, Any],
) -> Task:
    from cimplan.explore.space import Prices

    return Task(keys, profile, hardware, Solve(*solve), Prices.model_validate(prices))


def design_key(profile: str, hardware: Mapping[str, Any], solve: Solve, prices: Prices) -> str:
    """Return the hash of everything that a design's results depend on, apart from the number of crossbars.

    Parameters
    ----------
    profile : str
        `profile_key` of the profile.
    hardware : mapping
        Hardware description, quantities in their normal form where it is valid.
    solve : Solve
        How it is solved.
    prices : Prices
        What area and energy cost.
    """
    # Text that says where numbers come from changes no result.
    chip = {name: value for name, value in hardware.items() if name not in ("name", "description", "sources")}
    if "accelerator" in chip:
        chip["accelerator"] = {name: value for name, value in chip["accelerator"].items() if name != "crossbars"}
    value = {
        "version": __version__,
        "words": _WORDS,
        "profile": profile,
        "hardware": chip,
        "solve": [solve.method, solve.time_limit_s, solve.seed, solve.fix],
        "prices": prices.model_dump(mode="json"),
    }
    return hash_of(value)


def point_key(design: str, crossbars: int) -> str:
    """Return the key of a point: its design's key and its crossbars."""
    return hashlib.sha256(f"{design} {crossbars}".encode()).hexdigest()


def hash_of(value: Any) -> str:
    """Return the SHA-256 of a value's JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def pack_profile(profile: HostProfile) -> bytes:
    """Return a profile as few bytes."""
    return gzip.compress(profile.to_json().encode(), mtime=0)


def profile_key(packed: bytes) -> str:
    """Return the hash of a packed profile's content."""
    return hashlib.sha256(gzip.decompress(packed)).hexdigest()


@lru_cache(maxsize=16)
def unpack_profile(packed: bytes) -> HostProfile:
    """Return the profile that `pack_profile` packed."""
    from cimplan.cost.profile_file import from_value

    return from_value(json.loads(gzip.decompress(packed)), "stored profile")


@lru_cache(maxsize=16)
def _costed(packed: bytes, hardware: str) -> CostedNetwork:
    from cimplan.cost.build import build_problem
    from cimplan.hardware import from_description

    return build_problem(unpack_profile(packed), from_description(json.loads(hardware)))


def run_task(task: Task) -> list[PointResult]:
    """Return (key, status, result) of every point of a task; a point without an answer says why."""
    try:
        # Neighbours on the crossbar axis are the same network at the same costs.
        costed = _costed(task.profile, json.dumps(task.hardware))
        problem = costed.problem.fixed(dict(task.solve.fix))
    except CimplanError as error:
        return [(key, _status_of(error), failure(error, budget)) for budget, key in task.keys]
    if task.solve.method == CURVE_METHOD and task.prices.energy_pj_per_mvm is None:
        return _by_curve(task, problem, costed)
    return [_by_solve(task, problem, costed, budget, key) for budget, key in task.keys]


def _by_curve(task: Task, network: Problem, costed: CostedNetwork) -> list[PointResult]:
    """Answer all budgets from the budget curve of the largest."""
    from cimplan.plan.proof import claim

    problem = network.with_budget(max(budget for budget, _ in task.keys))
    try:
        solution = _solved(task, problem, costed, curve=True)
    except CimplanError as error:
        if isinstance(error, NoAnswerError):
            # If the largest budget has no answer, none has; each says how much it lacks.
            return [_by_solve(task, network, costed, budget, key) for budget, key in task.keys]
        return [(key, "failed", failure(error, budget)) for budget, key in task.keys]
    host_only = _host_only_ticks(problem)
    said = _said_of_curve(problem, solution, host_only)
    results: list[PointResult] = []
    for budget, key in task.keys:
        reached = [point for point in solution.curve if point.crossbars <= budget]
        if not reached:
            results.append(_by_solve(task, network, costed, budget, key))
            continue
        best, status = reached[-1], said[len(reached) - 1]
        claims = claim(best.makespan, best.lower_bound)
        result = _result(problem, task, budget, best.makespan, best.lower_bound, best.crossbars, host_only)
        point: PointResult = (key, status, {"status": status, "solver_claims": claims, **result})
        if claims != "optimal":
            # What the run for all leaves open, a run for this budget may close.
            alone = _by_solve(task, network, costed, budget, key)
            point = alone if alone[2].get("makespan_ns", math.inf) <= result["makespan_ns"] else point
        results.append(point)
    return results


def _by_solve(task: Task, network: Problem, costed: CostedNetwork, budget: int, key: str) -> PointResult:
    from cimplan.partition.prove import with_certificate
    from cimplan.plan.proof import claim, prove
    from cimplan.plan.proof import status as said

    problem = network.with_budget(budget)
    try:
        solution = _solved(task, problem, costed)
    except CimplanError as error:
        return key, _status_of(error), failure(error, budget)
    schedule = solution.schedule
    if schedule is None:
        nothing = NoAnswerError("the method found no plan", why=f"its status is {solution.status}")
        return key, _status_of(nothing), failure(nothing, budget)
    makespan = schedule.makespan(problem)
    proven = prove(problem, with_certificate(problem, solution))
    status, claims = said(makespan, proven.lower_bound, proven.part), claim(makespan, proven.lower_bound)
    result = _result(
        problem,
        task,
        budget,
        makespan,
        proven.lower_bound,
        schedule.crossbars(problem),
        _host_only_ticks(problem),
    )
    if task.prices.energy_pj_per_mvm is not None:
        result["energy_uj"] = _energy_uj(task, costed, problem, schedule.chosen)
    return key, status, {"status": status, "solver_claims": claims, **result}


def _said_of_curve(problem: Problem, solution: Solution, host_only: int | None) -> list[str]:
    """Return the status of each point of a curve: "optimal" where its proof was verified."""
    from cimplan.plan.curve import look_at, prove_steps
    from cimplan.plan.proof import PROOF_NODES, PROOF_SEARCH_NODES

    found = prove_steps(problem, solution.curve_proofs, nodes=PROOF_NODES, search_nodes=PROOF_SEARCH_NODES)
    if found.refuted:
        raise InternalError(
            "a certificate of the curve is wrong",
            why="; ".join(found.refuted[:3]),
            fix="Please report it with the space and the profile",
        )
    known = [] if host_only is None else [(0, host_only)]
    return [point.status for point in look_at(problem, solution.curve, found.steps, known)] if solution.curve else []


def _solved(task: Task, problem: Problem, costed: CostedNetwork, *, curve: bool = False) -> Solution:
    """Return an answer that has passed the independent checker."""
    from cimplan.partition.methods import solve
    from cimplan.plan.check import require

    solution = solve(
        problem,
        method=task.solve.method,
        time_limit_s=task.solve.time_limit_s,
        seed=task.solve.seed,
        curve=curve,
        unfixed=costed.problem,
    )
    if solution.schedule is not None:
        require(problem, solution)
    return solution


def _result(
    problem: Problem, task: Task, budget: int, makespan: int, bound: int, crossbars: int, host_only: int | None
) -> Result:
    tick_ns = problem.tick_ns
    result: Result = {
        "error": "",
        "crossbars_available": budget,
        "crossbars_used": crossbars,
        "makespan_ns": makespan * tick_ns,
        "lower_bound_ns": bound * tick_ns,
        "gap": (makespan - bound) / makespan if makespan else 0.0,
        "host_only_ns": None if host_only is None else host_only * tick_ns,
        "speedup": host_only / makespan if host_only is not None and makespan else None,
    }
    if task.prices.area_mm2_per_crossbar is not None:
        result["area_mm2"] = task.prices.area_mm2_per_crossbar * budget
    return result


def failure(error: BaseException, budget: int) -> Result:
    """Return the result of a point that has no answer."""
    reason = str(error) or type(error).__name__
    if not isinstance(error, CimplanError):
        reason = f"{type(error).__name__}: {reason}"
    return {"status": _status_of(error), "error": reason, "crossbars_available": budget}


def _status_of(error: BaseException) -> str:
    return "infeasible" if isinstance(error, NoAnswerError) else "failed"


def _host_only_ticks(problem: Problem) -> int | None:
    """Ticks of the host alone; None where an operator cannot run there."""
    from cimplan.cost.problem import HOST
    from cimplan.partition.methods import solve

    durations = [[option.duration for option in options if option.place == HOST] for options in problem.options]
    if not all(durations):
        return None
    if problem.host_cores > 1:
        alone = solve(problem, method="cpu-only")
        return None if alone.schedule is None else alone.schedule.makespan(problem)
    return sum(min(found) for found in durations)


def _energy_uj(task: Task, costed: CostedNetwork, problem: Problem, chosen: tuple[int, ...]) -> float:
    """Energy of one inference: the host while it computes, every MVM of every crossbar, and the shared bus.

    An architect's first estimate from the prices of the space; static power and programming are not in it.
    """
    prices = task.prices
    accelerator = costed.hardware.accelerator
    picojoules = 0.0
    places = []
    for operator, options, choice in zip(costed.operators, problem.options, chosen, strict=True):
        option = options[choice]
        places.append(option.place)
        if option.place == "host":
            # 1 W = 1000 pJ/ns
            picojoules += 1e3 * (prices.host_power_w or 0.0) * option.duration * problem.tick_ns
        elif operator.cim is not None and accelerator is not None:
            passes = operator.cim.mvm_ns / accelerator.mvm_latency_ns
            crossbars = 1 if accelerator.tile_execution == "series" else operator.cim.crossbars
            picojoules += (prices.energy_pj_per_mvm or 0.0) * passes * crossbars
            picojoules += (prices.energy_pj_per_byte or 0.0) * operator.network_bytes
    for edge in problem.dependencies:
        if places[edge.source] != places[edge.target]:
            picojoules += (prices.energy_pj_per_byte or 0.0) * edge.size_bytes
    return picojoules / 1e6
