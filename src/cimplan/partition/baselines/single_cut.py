"""The best single cut: one device up to a layer, the other from there on.

After Kang et al., "Neurosurgeon: Collaborative Intelligence Between the Cloud and Mobile Edge" (ASPLOS 2017), who
try every layer of a chain. Here the layers are the operators in the order of the network, and both directions are
tried. Operators of the accelerator's side that it does not support, or that no longer fit, stay on the host.
"""

from __future__ import annotations

import time

from cimplan.cost.problem import Problem
from cimplan.limits import OutOfTimeError
from cimplan.partition.baselines.all_cim import offload
from cimplan.partition.baselines.common import accelerator_options, answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "single-cut"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Try every cut of the network's order, both devices first, and keep the fastest.

    Parameters
    ----------
    problem : Problem
        The problem.
    time_limit_s : float, optional
        The cuts not tried by then are left out.
    seed, warm_start, progress, curve
        As in every method; without effect here.

    Raises
    ------
    NoAnswerError
        If no choice of options fits the budget.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    count = len(problem)
    best = list_schedule(problem, least_choices(problem))
    tried = {best.chosen}
    # Only cuts beside a supported operator change anything.
    for v in range(count):
        if not accelerator_options(problem, v):
            continue
        if time_limit_s is not None and time.perf_counter() - began > time_limit_s:
            break
        for side in (range(v + 1), range(v, count)):
            chosen = offload(problem, side)
            if chosen in tried:
                continue
            tried.add(chosen)
            try:
                schedule = list_schedule(problem, chosen)
            except OutOfTimeError:
                return answer(METHOD, problem, best, began, {"tried": len(tried)})
            if schedule.makespan(problem) < best.makespan(problem):
                best = schedule
    return answer(METHOD, problem, best, began, {"tried": len(tried)})
