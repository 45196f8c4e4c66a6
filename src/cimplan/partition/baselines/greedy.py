"""Greedy offloading: again and again the move that saves the most time per crossbar."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from contextlib import suppress

from cimplan.cost.problem import Problem
from cimplan.limits import OutOfTimeError
from cimplan.partition.baselines.common import Neighbourhood, answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "greedy"
TIMED = 128
"""Placements on the way that are timed at most, evenly spread and the last always."""


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
    fastest of the placements on the way, on the true clock, is the answer. The keyword arguments are those of every
    method; only the time limit matters here.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    deadline = None if time_limit_s is None else began + time_limit_s
    return answer(METHOD, problem, schedule(problem, deadline=deadline), began)


def schedule(problem: Problem, *, deadline: float | None = None) -> Schedule:
    """Return the greedy schedule of a feasible problem; the best so far at a deadline of `time.perf_counter()`."""
    moves = list(_moves(problem))
    chosen = list(least_choices(problem))
    best = list_schedule(problem, chosen)
    stride = -(-len(moves) // TIMED)
    with suppress(OutOfTimeError):
        for number, (v, option) in enumerate(moves, start=1):
            chosen[v] = option
            if number != len(moves) and number % stride:
                continue
            found = list_schedule(problem, chosen)
            if found.makespan(problem) < best.makespan(problem):
                best = found
            if deadline is not None and time.perf_counter() > deadline:
                break
    return best


def _moves(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield operator and option of each move, in order.

    A move changes the gains of its operator and of that one's neighbours only; every operator's offers carry the
    version of its gains, and outdated ones are skipped when they come up.
    """
    chosen = list(least_choices(problem))
    left = problem.budget - problem.least_crossbars()
    around = Neighbourhood(problem)
    version = [0] * len(problem)
    offers: list[tuple[float, int, int, int, int, int]] = []

    def offer(v: int) -> None:
        options = problem.options[v]
        now = around.cost(chosen, v, chosen[v])
        for o, option in enumerate(options):
            more = option.crossbars - options[chosen[v]].crossbars
            gain = now - around.cost(chosen, v, o)
            if o != chosen[v] and gain > 0:
                rate = gain / more if more > 0 else float("inf")
                heapq.heappush(offers, (-rate, -gain, v, o, more, version[v]))

    for v in range(len(problem)):
        offer(v)
    waiting: list[tuple[float, int, int, int, int, int]] = []  # did not fit; may fit once crossbars come free
    while offers:
        entry = heapq.heappop(offers)
        _, _, v, o, more, made = entry
        if made != version[v]:
            continue
        if more > left:
            waiting.append(entry)
            continue
        yield v, o
        chosen[v] = o
        left -= more
        for u in (v, *around.neighbours(v)):
            version[u] += 1
            offer(u)
        if more < 0:
            for again in waiting:
                heapq.heappush(offers, again)
            waiting.clear()
