"""MIP solvers behind one small interface: HiGHS and SCIP through OR-Tools MathOpt, Gurobi through its own package."""

from __future__ import annotations

import ctypes
import datetime
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cimplan.errors import InputError
from cimplan.partition.progress import interruptible

if TYPE_CHECKING:
    from cimplan.partition.formulation import LinearModel

FEASIBILITY_TOLERANCE = 1e-9
LOOSE_TOLERANCE = 1e-7
"""For a second attempt: HiGHS now and then gives up on a small model with an internal error at the first."""

Stopped = Literal["proof", "time limit", "interrupted", "other"]


@dataclass(frozen=True)
class Request:
    """What to solve and how.

    Attributes
    ----------
    model : LinearModel
        Rows and columns.
    time_limit_s : float or None
        Wall seconds.
    seed : int
        Of the search.
    workers : int
        Threads; MathOpt runs HiGHS and SCIP on one whatever this says.
    absolute_gap : float
        Difference of objective and bound, in model time, that counts as proven.
    hint : dict of int to float, or None
        A value for every variable.
    on_better : callable, or None
        Told objective and bound as they improve, where the solver can.
    """

    model: LinearModel
    time_limit_s: float | None
    seed: int
    workers: int
    absolute_gap: float
    hint: dict[int, float] | None = None
    on_better: Callable[[float, float], None] | None = None


@dataclass(frozen=True)
class Answer:
    """What a solver says.

    Attributes
    ----------
    values : list of float, or None
        One per variable; None without a feasible answer.
    bound : float
        Dual bound in model time; minus infinity without one.
    status : str
        In the solver's words: "optimal", "feasible", …
    stopped : {"proof", "time limit", "interrupted", "other"}
        Why it ended.
    nodes : int
        Nodes of its search tree; 0 where it does not say.
    """

    values: list[float] | None
    bound: float
    status: str
    stopped: Stopped
    nodes: int = 0


def backend(name: str) -> Callable[[Request], Answer]:
    """Return a solver.

    Raises
    ------
    InputError
        If it is not known or not installed.
    """
    if name in ("highs", "scip"):
        return lambda request: _mathopt(request, name)
    if name == "gurobi":
        if not gurobi_present():
            raise InputError(
                "Gurobi is not installed",
                fix="pip install gurobipy (it has its own licence), or use --method ilp-highs",
            )
        return _gurobi
    raise InputError(f"unknown MIP solver {name!r}", fix="Use highs, scip or gurobi")


def gurobi_present() -> bool:
    """Return whether gurobipy could be imported, without importing it."""
    return importlib.util.find_spec("gurobipy") is not None


def _mathopt(request: Request, name: str) -> Answer:
    """Solve with HiGHS or SCIP; an answer without values and bound if the solver fails."""
    began = time.perf_counter()
    for tolerance in (FEASIBILITY_TOLERANCE, LOOSE_TOLERANCE):
        try:
            return _mathopt_attempt(request, name, tolerance, began)
        # MathOpt documents a RuntimeError; some of its versions stumble over their own exception on the way.
        except (RuntimeError, AttributeError):
            continue
    return Answer(None, float("-inf"), "solver failure", "other")


def _mathopt_attempt(request: Request, name: str, tolerance: float, began: float) -> Answer:
    from ortools.math_opt.python import mathopt

    data = request.model
    model = mathopt.Model()
    variables = [
        model.add_variable(lb=low, ub=high, is_integer=whole)
        for low, high, whole in zip(data.lower, data.upper, data.integer, strict=True)
    ]
    for low, coefficients, high in data.rows:
        row = model.add_linear_constraint(lb=low, ub=high)
        for variable, coefficient in coefficients.items():
            row.set_coefficient(variables[variable], coefficient)
    model.minimize(variables[data.objective])

    parameters = mathopt.SolveParameters(
        random_seed=request.seed % 2**31,
        relative_gap_tolerance=0.0,
        absolute_gap_tolerance=request.absolute_gap,
    )
    if name == "highs":
        solver = mathopt.SolverType.HIGHS
        for option in ("mip_feasibility_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            parameters.highs.double_options[option] = tolerance
    else:
        solver = mathopt.SolverType.GSCIP
        parameters.gscip.real_params["numerics/feastol"] = tolerance
    hints = mathopt.ModelSolveParameters()
    if request.hint is not None:
        values = {variables[v]: value for v, value in request.hint.items()}
        hints.solution_hints.append(mathopt.SolutionHint(variable_values=values))

    if request.time_limit_s is not None:  # building the model took its part
        left = max(0.01, request.time_limit_s - (time.perf_counter() - began))
        parameters.time_limit = datetime.timedelta(seconds=left)
    # MathOpt cannot stop HiGHS, and stops SCIP only with complaints on the standard error.
    with _stray_output_to_stderr():
        outcome = interruptible(
            lambda: mathopt.solve(model, solver, params=parameters, model_params=hints), lambda: None, patience_s=0.0
        )
    result = outcome.result
    if result is None:
        return Answer(None, float("-inf"), "abandoned", "interrupted")
    found = result.has_primal_feasible_solution()
    proven = result.termination.reason == mathopt.TerminationReason.OPTIMAL
    return Answer(
        values=[float(value) for value in result.variable_values(variables)] if found else None,
        bound=float(result.termination.objective_bounds.dual_bound),
        status=str(result.termination.reason.name).lower(),
        stopped="interrupted" if outcome.interrupted else "proof" if proven else _limit(result.termination.limit),
        nodes=int(result.solve_stats.node_count),
    )


@contextmanager
def _stray_output_to_stderr() -> Iterator[None]:
    """Keep what HiGHS prints past its own output switch away from the standard output, which may be read by a program.

    Works on the process's file descriptors, so only in the main thread: others would get in each other's way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stdout.flush()
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # a process without these descriptors has nothing to protect
        yield
        return
    try:
        yield
    finally:
        with suppress(AttributeError, OSError, TypeError):  # the C library keeps its own buffer
            ctypes.CDLL(None).fflush(None)
        os.dup2(saved, 1)
        os.close(saved)


def _limit(limit: Any) -> Stopped:
    return "time limit" if limit is not None and limit.name == "TIME" else "other"


def _gurobi(request: Request) -> Answer:
    import gurobipy

    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as environment, gurobipy.Model(env=environment) as model:
            return _gurobi_in(gurobipy, model, request)
    except gurobipy.GurobiError as error:
        raise InputError(
            "Gurobi refuses to solve this model",
            why=f"{error} ({len(request.model.lower)} variables, {len(request.model.rows)} rows; "
            "its free licence allows 2000 of each)",
            fix="Use --method exact or ilp-highs, or a Gurobi licence without a size limit",
        ) from error


def _gurobi_in(gurobipy: Any, model: Any, request: Request) -> Answer:
    began = time.perf_counter()
    data = request.model
    kinds = gurobipy.GRB
    variables = [
        model.addVar(lb=low, ub=high, vtype=kinds.INTEGER if whole else kinds.CONTINUOUS)
        for low, high, whole in zip(data.lower, data.upper, data.integer, strict=True)
    ]
    for low, coefficients, high in data.rows:
        left = gurobipy.LinExpr([(coefficient, variables[v]) for v, coefficient in coefficients.items()])
        if low == high:
            model.addLConstr(left == low)
        elif high < float("inf"):
            model.addLConstr(left <= high)
        if low > float("-inf") and low != high:
            model.addLConstr(left >= low)
    model.setObjective(variables[data.objective], kinds.MINIMIZE)
    if request.hint is not None:
        for v, value in request.hint.items():
            variables[v].Start = value
    settings = {
        "Seed": request.seed % 2**31,
        "Threads": request.workers,
        "MIPGap": 0.0,
        "MIPGapAbs": request.absolute_gap,
        "IntFeasTol": FEASIBILITY_TOLERANCE,
        "FeasibilityTol": FEASIBILITY_TOLERANCE,
        "OptimalityTol": FEASIBILITY_TOLERANCE,
    }
    if request.time_limit_s is not None:
        settings["TimeLimit"] = max(0.01, request.time_limit_s - (time.perf_counter() - began))
    for name, value in settings.items():
        model.setParam(name, value)

    def listen(model: Any, where: int) -> None:
        if request.on_better is not None and where == kinds.Callback.MIPSOL:
            objective, bound = kinds.Callback.MIPSOL_OBJBST, kinds.Callback.MIPSOL_OBJBND
            request.on_better(model.cbGet(objective), model.cbGet(bound))

    outcome = interruptible(lambda: model.optimize(listen), model.terminate)
    names = {kinds.OPTIMAL: "optimal", kinds.TIME_LIMIT: "time limit", kinds.INTERRUPTED: "interrupted"}
    status = names.get(model.Status, f"status {model.Status}")
    stopped: Stopped = "interrupted" if outcome.interrupted else "proof" if status == "optimal" else "other"
    return Answer(
        values=[variable.X for variable in variables] if model.SolCount else None,
        bound=float(model.ObjBound),
        status=status,
        stopped="time limit" if status == "time limit" else stopped,
        nodes=int(model.NodeCount),
    )
