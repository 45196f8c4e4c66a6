"""Everything on the host: what a user without the accelerator gets."""

from __future__ import annotations

import time

from cimplan.cost.problem import Problem
from cimplan.partition.baselines.common import answer
from cimplan.partition.infeasible import refuse_infeasible
from cimplan.partition.progress import ProgressCallback
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.schedule import Schedule, Solution

METHOD = "cpu-only"


def solve(
    problem: Problem,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Schedule | None = None,
    progress: ProgressCallback | None = None,
    curve: bool = False,
) -> Solution:
    """Place every operator on the host that can be there, the others (a user's ``--fix``) on the fewest crossbars.

    The keyword arguments are those of every method; none matters here.
    """
    began = time.perf_counter()
    refuse_infeasible(problem)
    return answer(METHOD, problem, list_schedule(problem, least_choices(problem)), began)
