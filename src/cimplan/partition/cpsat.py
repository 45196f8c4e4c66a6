"""The plain constraint model: optional intervals on the host, no decomposition. A cross-check of the exact method.

One start variable per operator, one literal per option, an optional interval per host option, no-overlap (cumulative
for several cores) over these, the budget as a sum. It begins with the greedy baseline's schedule, which also bounds the
horizon. All numbers are integers, so a proof of this model is a proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import InternalError
from cimplan.partition import bounds
from cimplan.partition.baselines import greedy
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import Progress, ProgressCallback, interruptible
from cimplan.partition.timing import retimed
from cimplan.plan.schedule import Schedule, Solution, Status

if TYPE_CHECKING:
    from ortools.sat.python import cp_model
    from ortools.sat.python.cp_model_helper import Literal

METHOD = "cp-sat"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
    workers: int = 2,
    lower_bound: int = 0,
) -> Solution:
    """Solve the plain model with CP-SAT.

    Parameters
    ----------
    problem : Problem
        The problem.
    time_limit_s : float, optional
        Wall seconds for the search; unlimited when left out.
    seed : int
        Of the search. The optimum does not depend on it; which optimal schedule is found may.
    warm_start : Schedule, optional
        A feasible schedule to begin with; the answer is never worse.
    progress : callable, optional
        Told of every better schedule and bound.
    curve : bool
        Not supported by this method: ignored, the curve stays empty.
    workers : int
        Threads of the search.
    lower_bound : int
        A proven bound to start from, in ticks.

    Returns
    -------
    Solution
        "optimal" if CP-SAT closed the gap, otherwise "feasible" with the best schedule and bound.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    from ortools.sat.python import cp_model

    began = time.perf_counter()
    refuse_infeasible(problem)
    incumbent = greedy.schedule(problem)
    if warm_start is not None:
        known = retimed(problem, warm_start.chosen, warm_start.start)
        incumbent = min(known, incumbent, key=lambda schedule: schedule.makespan(problem))
    least = max(lower_bound, bounds.lower_bound(problem))
    most = incumbent.makespan(problem)
    if least == most:
        return _solution(problem, incumbent, least, began, {"stopped": "bound met before search"})

    model = _build(problem, least, most)
    _hint(model, incumbent)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if time_limit_s is not None:
        parameters.max_time_in_seconds = max(0.0, time_limit_s - (time.perf_counter() - began))
    parameters.random_seed = seed % 2**31
    parameters.num_workers = workers
    parameters.catch_sigint_signal = False  # `interruptible` does that without touching the process's handlers
    callback = None
    if progress is not None:
        callback = _Reporter(progress, model.scale, least, most, began).attached(solver)
    outcome = interruptible(lambda: solver.solve(model.cp, callback), solver.stop_search)
    status = outcome.result
    if status == cp_model.MODEL_INVALID:
        raise InternalError("CP-SAT refuses the model", why=model.cp.validate())

    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        chosen = tuple(next(o for o, lit in enumerate(some) if solver.boolean_value(lit)) for some in model.literals)
        found = retimed(problem, chosen, [solver.value(start) for start in model.starts])
        if found.makespan(problem) <= most:
            incumbent = found
    if status is not None:
        # An integer objective: CP-SAT's bound is the nearest whole number, kept as a double below 2^53.
        least = max(least, round(solver.best_objective_bound) * model.scale)
        if status == cp_model.INFEASIBLE:
            least = most
    statistics: dict[str, int | float | str] = {
        "variables": len(model.cp.proto.variables),
        "constraints": len(model.cp.proto.constraints),
        "branches": solver.num_branches if status is not None else 0,
        "conflicts": solver.num_conflicts if status is not None else 0,
        "stopped": "interrupted" if outcome.interrupted else "proof" if status == cp_model.OPTIMAL else "time limit",
    }
    return _solution(problem, incumbent, min(least, incumbent.makespan(problem)), began, statistics)


@dataclass(frozen=True)
class _Model:
    """The CP-SAT model and the variables that carry the answer; one unit of its time is `scale` ticks."""

    cp: cp_model.CpModel
    starts: tuple[cp_model.IntVar, ...]
    literals: tuple[tuple[Literal, ...], ...]
    makespan: cp_model.IntVar
    scale: int


def _build(problem: Problem, least: int, most: int) -> _Model:
    """Build the model for makespans from `least` to `most` ticks; the horizon is a known makespan, never a sum."""
    from ortools.sat.python import cp_model

    numbers = [option.duration for options in problem.options for option in options]
    scale = math.gcd(*numbers, *(edge.transfer for edge in problem.dependencies)) or 1
    horizon = most // scale
    cp = cp_model.CpModel()
    makespan = cp.new_int_var(-(-least // scale), horizon, "makespan")
    starts, literals, finishes, host = [], [], [], []
    for name, options in zip(problem.names, problem.options, strict=True):
        start = cp.new_int_var(0, horizon, f"start {name}")
        some = _literals(cp, name, len(options))
        for option, literal in zip(options, some, strict=True):
            size = option.duration // scale
            if size > horizon:
                cp.add(literal == 0)
            elif option.place == HOST and size > 0:
                host.append(cp.new_optional_fixed_size_interval_var(start, size, literal, f"host {name}"))
        starts.append(start)
        literals.append(some)
        sizes = [min(option.duration // scale, horizon) for option in options]
        finishes.append(start + cp_model.LinearExpr.weighted_sum(some, sizes))

    at = [_places(cp, problem, v, some) for v, some in enumerate(literals)]
    sinks = set(range(len(problem)))
    for edge in problem.dependencies:
        sinks.discard(edge.source)
        cp.add(starts[edge.target] >= finishes[edge.source])
        delay = edge.transfer // scale
        if delay == 0:
            continue
        for place, here in at[edge.source].items():
            there = at[edge.target].get(place)
            if there is None:
                cp.add(starts[edge.target] >= finishes[edge.source] + delay).only_enforce_if(here)
            elif len(at[edge.target]) > 1:
                cp.add(starts[edge.target] >= finishes[edge.source] + delay).only_enforce_if(here, ~there)
    for v in sinks:
        cp.add(makespan >= finishes[v])
    if problem.host_cores == 1:
        cp.add_no_overlap(host)
    else:
        cp.add_cumulative(host, [1] * len(host), problem.host_cores)
    _limit_crossbars(cp, problem, literals)
    cp.minimize(makespan)
    return _Model(cp, tuple(starts), tuple(literals), makespan, scale)


def _literals(cp: cp_model.CpModel, name: str, count: int) -> tuple[Literal, ...]:
    """Return one literal per option, of which exactly one holds."""
    if count == 1:
        return (cp.new_constant(1),)
    if count == 2:
        first = cp.new_bool_var(f"option 0 of {name}")
        return (first, ~first)
    some = tuple(cp.new_bool_var(f"option {o} of {name}") for o in range(count))
    cp.add_exactly_one(some)
    return some


def _places(cp: cp_model.CpModel, problem: Problem, v: int, literals: Sequence[Literal]) -> dict[str, Literal]:
    """Return, for each place the operator can be at, a literal that says it is there."""
    groups: dict[str, list[Literal]] = {}
    for option, literal in zip(problem.options[v], literals, strict=True):
        groups.setdefault(option.place, []).append(literal)
    found: dict[str, Literal] = {}
    for place, some in groups.items():
        if len(groups) == 1:
            found[place] = cp.new_constant(1)
        elif len(some) == 1:
            found[place] = some[0]
        else:
            found[place] = cp.new_bool_var(f"{problem.names[v]} at {place}")
            cp.add(sum(some) == found[place])
    return found


def _limit_crossbars(cp: cp_model.CpModel, problem: Problem, literals: Sequence[Sequence[Literal]]) -> None:
    """Keep the crossbars of the chosen options within the budget."""
    from ortools.sat.python import cp_model

    literal, demand = [], []
    most = 0
    for options, some in zip(problem.options, literals, strict=True):
        most += max(option.crossbars for option in options)
        for option, lit in zip(options, some, strict=True):
            if option.crossbars:
                # An option larger than the budget is out, however large its number.
                if option.crossbars > problem.budget:
                    cp.add(lit == 0)
                else:
                    literal.append(lit)
                    demand.append(option.crossbars)
    if most > problem.budget:
        cp.add(cp_model.LinearExpr.weighted_sum(literal, demand) <= problem.budget)


def _hint(model: _Model, schedule: Schedule) -> None:
    """Give CP-SAT a complete schedule to begin with."""
    for start, value in zip(model.starts, schedule.start, strict=True):
        model.cp.add_hint(start, value // model.scale)
    for some, choice in zip(model.literals, schedule.chosen, strict=True):
        if len(some) > 1:
            for o, literal in enumerate(some[: 1 if len(some) == 2 else None]):
                model.cp.add_hint(literal, o == choice)


class _Reporter:
    """Tells `progress` of better schedules and bounds, from the solver's threads."""

    def __init__(self, progress: ProgressCallback, scale: int, least: int, most: int, began: float) -> None:
        self._progress = progress
        self._scale = scale
        self._least = least
        self._most = most
        self._began = began

    def attached(self, solver: cp_model.CpSolver) -> cp_model.CpSolverSolutionCallback:
        """Listen to the solver's bounds; return the callback that listens to its schedules."""
        from ortools.sat.python import cp_model

        report = self._report

        class OnSolution(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                report(makespan=self.objective_value)

        solver.best_bound_callback = lambda bound: report(bound=bound)
        return OnSolution()

    def _report(self, *, makespan: float | None = None, bound: float | None = None) -> None:
        if makespan is not None:
            self._most = min(self._most, round(makespan) * self._scale)
        if bound is not None:
            self._least = max(self._least, round(bound) * self._scale)
        elapsed = time.perf_counter() - self._began
        self._progress(Progress(elapsed, self._most, min(self._least, self._most), "search"))


def _solution(
    problem: Problem,
    schedule: Schedule,
    least: int,
    began: float,
    statistics: dict[str, int | float | str],
) -> Solution:
    status: Status = "optimal" if schedule.makespan(problem) == least else "feasible"
    return Solution(
        method=METHOD,
        status=status,
        schedule=schedule,
        lower_bound=least,
        solve_s=time.perf_counter() - began,
        statistics=statistics,
    )
