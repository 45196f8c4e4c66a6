"""What a partition method hands back, before it becomes a plan: choices, start times, bound, certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cimplan.cost.problem import Problem
from cimplan.plan.certificate import Certificate

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """One option and one start time per operator.

    Attributes
    ----------
    chosen : tuple of int
        Index into `Problem.options` of each operator.
    start : tuple of int
        Start of each operator in ticks.
    """

    chosen: tuple[int, ...]
    start: tuple[int, ...]

    def finish(self, problem: Problem) -> tuple[int, ...]:
        """Return the finish of each operator in ticks."""
        return tuple(
            start + options[choice].duration
            for start, options, choice in zip(self.start, problem.options, self.chosen, strict=True)
        )

    def makespan(self, problem: Problem) -> int:
        """Return the finish of the last operator in ticks; 0 for an empty problem."""
        return max(self.finish(problem), default=0)

    def crossbars(self, problem: Problem) -> int:
        """Return the crossbars that the chosen options occupy."""
        return sum(options[choice].crossbars for options, choice in zip(problem.options, self.chosen, strict=True))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One step of the budget curve: from this many crossbars on, this makespan.

    Attributes
    ----------
    crossbars : int
        Least budget at which the makespan is reached.
    makespan : int
        Best known makespan in ticks.
    lower_bound : int
        The method's bound in ticks, for budgets up to the next point; equal to `makespan` where it says optimal.
    schedule : Schedule or None
        What reaches the makespan.
    """

    crossbars: int
    makespan: int
    lower_bound: int
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Solution:
    """The answer of a partition method.

    Attributes
    ----------
    method : str
        Registry name of the method.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        "optimal" only when `lower_bound` equals the makespan of `schedule`. That is the method's word, and that of the
        solver it leans on; a plan says "optimal" only where it was verified (`cimplan.plan.proof`).
    schedule : Schedule or None
        The best schedule found.
    lower_bound : int
        Ticks no schedule can beat, by the method's word; 0 where it says nothing.
    certificate : Certificate or None
        A proof of `lower_bound` that the checker can verify without the solver.
    curve : tuple of CurvePoint
        The budget curve, when asked for; strictly increasing crossbars, strictly decreasing makespan.
    curve_proofs : tuple of Certificate
        What proves the bounds of the curve, each for its budget or its steps.
    solve_s : float
        Wall seconds of the solve.
    statistics : mapping of str to int, float or str
        What the solver reports of its work.
    """

    method: str
    status: Status
    schedule: Schedule | None
    lower_bound: int = 0
    certificate: Certificate | None = None
    curve: tuple[CurvePoint, ...] = ()
    curve_proofs: tuple[Certificate, ...] = ()
    solve_s: float = 0.0
    statistics: Mapping[str, int | float | str] = field(default_factory=dict)
