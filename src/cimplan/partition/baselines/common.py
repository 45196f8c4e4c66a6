"""What the baselines share: an answer without a proof, and the gain of moving one operator."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cimplan.cost.problem import HOST, Problem
from cimplan.partition import bounds
from cimplan.plan.schedule import Schedule, Solution, Status


def answer(
    method: str,
    problem: Problem,
    schedule: Schedule,
    began: float,
    statistics: dict[str, int | float | str] | None = None,
) -> Solution:
    """Return a baseline's solution with the bound that needs no search.

    Parameters
    ----------
    method : str
        Registry name.
    problem : Problem
        The problem.
    schedule : Schedule
        What the baseline came up with.
    began : float
        `time.perf_counter()` when it began.
    statistics : dict, optional
        Of its work.
    """
    least = bounds.lower_bound(problem)
    status: Status = "optimal" if schedule.makespan(problem) == least else "feasible"
    return Solution(
        method=method,
        status=status,
        schedule=schedule,
        lower_bound=least,
        solve_s=time.perf_counter() - began,
        statistics=statistics or {},
    )


class Neighbourhood:
    """Edges by operator, to price a single move without looking at the rest of the network."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._edges: list[list[tuple[int, int]]] = [[] for _ in problem.names]
        for edge in problem.dependencies:
            self._edges[edge.source].append((edge.target, edge.transfer))
            self._edges[edge.target].append((edge.source, edge.transfer))

    def neighbours(self, v: int) -> tuple[int, ...]:
        """Return the operators that share an edge with an operator."""
        return tuple(u for u, _ in self._edges[v])

    def cost(self, chosen: Sequence[int], v: int, option: int) -> int:
        """Return the ticks of an operator under an option plus its transfers, its neighbours staying where they are."""
        options = self._problem.options
        mine = options[v][option]
        moved = (transfer for u, transfer in self._edges[v] if options[u][chosen[u]].place != mine.place)
        return mine.duration + sum(moved)


def accelerator_options(problem: Problem, v: int) -> list[int]:
    """Return the options of an operator away from the host, fewest crossbars and then shortest first."""
    options = problem.options[v]
    away = [o for o, option in enumerate(options) if option.place != HOST]
    return sorted(away, key=lambda o: (options[o].crossbars, options[o].duration, o))
