"""The published integer linear programme, solved by HiGHS or SCIP through OR-Tools MathOpt, or by Gurobi.

A MIP solver computes in floating point: its answer satisfies rows and integrality within tolerances, and its bound
is a double. So the answer is only read for what is discrete (places, and the order of the host's operators) and then
timed again in whole ticks. Its bound is lowered by `BOUND_TOLERANCE` and rounded up to the next makespan that whole
ticks allow; only if that meets the makespan, "optimal" is claimed. Above about 10^9 ticks that is rarely possible:
the status is then "feasible" with a tiny gap, and `statistics["solver_status"]` says what the solver claims.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from cimplan.cost.problem import Problem
from cimplan.partition import bounds
from cimplan.partition.formulation import Formulation, ModelSize, formulate, model_size
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import Progress, ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule, retimed
from cimplan.plan.schedule import Schedule, Solution, Status

if TYPE_CHECKING:
    from cimplan.partition.mip import Answer

__all__ = ["BOUND_TOLERANCE", "ModelSize", "model_size", "solve"]

SolverName = Literal["highs", "scip", "gurobi"]

BOUND_TOLERANCE = 1e-10
"""Part of a solver's bound that is not believed; solvers are asked for feasibility tolerances of 1e-9."""


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
    solver: SolverName = "highs",
    workers: int = 1,
) -> Solution:
    """Solve the published programme.

    Parameters
    ----------
    problem : Problem
        One host core, at most one host and one accelerator option per operator.
    time_limit_s : float, optional
        Wall seconds; unlimited when left out.
    seed : int
        Of the solver.
    warm_start : Schedule, optional
        A feasible schedule to begin with; the answer is never worse.
    progress : callable, optional
        Told before and after the search, and by Gurobi of every better schedule.
    curve : bool
        Not supported by this method: ignored, the curve stays empty.
    solver : {"highs", "scip", "gurobi"}
        Which MIP solver. Ctrl-C stops Gurobi with its best answer; HiGHS and SCIP are abandoned, and the schedule
        known before the search is returned.
    workers : int
        Threads of Gurobi.

    Returns
    -------
    Solution
        Best schedule and bound.

    Raises
    ------
    InputError
        If the formulation cannot express the problem, or the solver is not there or not licensed for its size.
    NoAnswerError
        If no choice of options fits the budget.
    """
    from cimplan.partition.mip import Request, backend

    began = time.perf_counter()
    refuse_infeasible(problem)
    size = model_size(problem)
    run = backend(solver)
    incumbent = list_schedule(problem, least_choices(problem))
    if warm_start is not None:
        incumbent = retimed(problem, warm_start.chosen, warm_start.start)
    most, least = incumbent.makespan(problem), bounds.lower_bound(problem)
    programme = formulate(problem, max(most, 1))

    def report(phase: str, makespan: int, bound: int) -> None:
        if progress is not None:
            progress(Progress(time.perf_counter() - began, makespan, min(bound, makespan), phase))

    report(f"{solver}: {size.decision_variables} binaries, {size.constraints} rows", most, least)
    limit = None if time_limit_s is None else max(0.01, time_limit_s - (time.perf_counter() - began))
    request = Request(
        model=programme.model,
        time_limit_s=limit,
        seed=seed,
        workers=workers,
        # Half of the least difference between two makespans.
        absolute_gap=0.5 * _step(problem) / programme.model.unit,
        hint=_hint(programme, problem, incumbent) if warm_start is not None else None,
        on_better=_on_better(report, programme, most, least) if progress is not None else None,
    )
    answer = run(request)
    if answer.values is not None:
        found = _read(programme, problem, answer.values)
        if found.makespan(problem) <= incumbent.makespan(problem):
            incumbent = found
    makespan = incumbent.makespan(problem)
    least = min(makespan, max(least, _whole_bound(programme, problem, answer.bound)))
    report("done", makespan, least)
    status: Status = "optimal" if makespan == least else "feasible"
    return Solution(
        method="ilp" if solver == "highs" else f"ilp-{solver}",
        status=status,
        schedule=incumbent,
        lower_bound=least,
        solve_s=time.perf_counter() - began,
        statistics=_statistics(size, programme, answer),
    )


def _step(problem: Problem) -> int:
    """Return a number of ticks that divides every makespan of a semi-active schedule."""
    durations = (option.duration for options in problem.options for option in options)
    return math.gcd(*durations, *(edge.transfer for edge in problem.dependencies)) or 1


def _whole_bound(programme: Formulation, problem: Problem, bound: float) -> int:
    """Return the least makespan in ticks that a solver's bound, in model time, leaves possible."""
    if not math.isfinite(bound) or bound <= 0:
        return 0
    step = _step(problem)
    believed = (bound - BOUND_TOLERANCE * max(1.0, bound)) * programme.model.unit
    return max(0, math.ceil(believed / step) * step)


def _read(programme: Formulation, problem: Problem, values: list[float]) -> Schedule:
    """Return the schedule that the discrete part of an answer stands for, timed in whole ticks."""
    chosen = []
    for v, options in enumerate(problem.options):
        host = values[programme.on_host[v]] > 0.5
        chosen.append(next((o for o, option in enumerate(options) if (option.place == "host") == host), 0))
    return retimed(problem, chosen, [values[s] for s in programme.start])


def _hint(programme: Formulation, problem: Problem, schedule: Schedule) -> dict[int, float]:
    """Return a value for every variable of the programme."""
    unit = programme.model.unit
    finish = schedule.finish(problem)
    values = {programme.model.objective: schedule.makespan(problem) / unit}
    for v, options in enumerate(problem.options):
        values[programme.on_host[v]] = float(options[schedule.chosen[v]].place == "host")
        values[programme.start[v]] = schedule.start[v] / unit
        values[programme.finish[v]] = finish[v] / unit
    for (u, v), o in programme.first.items():
        values[o] = float((schedule.start[u], finish[u]) <= (schedule.start[v], finish[v]))
    return values


def _on_better(
    report: Callable[[str, int, int], None], programme: Formulation, most: int, least: int
) -> Callable[[float, float], None]:
    """Return a listener for objectives and bounds in model time."""

    def listen(objective: float, bound: float) -> None:
        unit = programme.model.unit
        makespan = min(most, round(objective * unit)) if math.isfinite(objective) else most
        report("search", makespan, max(least, math.floor(bound * unit)) if math.isfinite(bound) else least)

    return listen


def _statistics(size: ModelSize, programme: Formulation, answer: Answer) -> dict[str, int | float | str]:
    return {
        "decision_variables": size.decision_variables,
        "constraints": size.constraints,
        "rows": len(programme.model.rows),
        "solver_status": answer.status,
        "nodes": answer.nodes,
        "stopped": answer.stopped,
        "solver_bound_ticks": answer.bound * programme.model.unit if math.isfinite(answer.bound) else 0.0,
    }
