"""Greedy offloading: again and again the move that saves the most time per crossbar."""

from __future__ import annotations

import time

from cimplan.cost.problem import Problem
from cimplan.partition.baselines.common import Neighbourhood, answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "greedy"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Start on the host; move one operator at a time while a move saves time and fits.

    The gain of a move is the operator's time plus its transfers before and after, its neighbours staying where they
    are; the best gain per additional crossbar goes first (moves without additional crossbars before all others). The
    fastest of all placements on the way, on the true clock, is the answer. The keyword arguments are those of every
    method; only the time limit matters here.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    chosen = list(least_choices(problem))
    left = problem.budget - problem.least_crossbars()
    around = Neighbourhood(problem)
    best = list_schedule(problem, chosen)
    moves = 0
    while time_limit_s is None or time.perf_counter() - began < time_limit_s:
        moves_open = []
        for v, options in enumerate(problem.options):
            now = around.cost(chosen, v, chosen[v])
            for o, option in enumerate(options):
                more = option.crossbars - options[chosen[v]].crossbars
                gain = now - around.cost(chosen, v, o)
                if o != chosen[v] and more <= left and gain > 0:
                    rate = gain / more if more > 0 else float("inf")
                    moves_open.append((-rate, -gain, v, o))
        if not moves_open:
            break
        _, _, v, o = min(moves_open)
        left -= problem.options[v][o].crossbars - problem.options[v][chosen[v]].crossbars
        chosen[v] = o
        moves += 1
        schedule = list_schedule(problem, chosen)
        if schedule.makespan(problem) < best.makespan(problem):
            best = schedule
    return answer(METHOD, problem, best, began, {"moves": moves})
