"""Everything supported on the accelerator, first come, first served: what a delegate without a cost model does."""

from __future__ import annotations

import time

from cimplan.cost.problem import Problem
from cimplan.partition.baselines.common import accelerator_options, answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "all-cim"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Place each supported operator, in the order of the network, on the accelerator if it still fits.

    Whether that is faster is not asked. An operator too large for what is left stays on the host and later, smaller
    ones still get their turn. The option with the fewest crossbars is taken. The keyword arguments are those of
    every method; none matters here.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    return answer(METHOD, problem, list_schedule(problem, offload(problem, range(len(problem)))), began)


def offload(problem: Problem, wanted: range) -> tuple[int, ...]:
    """Return choices with the supported operators of a range on the accelerator as far as the budget allows."""
    chosen = list(least_choices(problem))
    left = problem.budget - problem.least_crossbars()
    for v in wanted:
        for option in accelerator_options(problem, v)[:1]:
            more = problem.options[v][option].crossbars - problem.options[v][chosen[v]].crossbars
            if more <= left:
                chosen[v] = option
                left -= more
    return tuple(chosen)
