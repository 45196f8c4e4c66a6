"""Proofs of bounds that rest on the word of another solver, by the means of the exact method.

CP-SAT, HiGHS, SCIP and Gurobi can be wrong, and say nothing that could be verified. Where blocks and fold prove as
much, their certificate does; where they do not, the verifier's own search may close the rest (`cimplan.plan.proof`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from cimplan.cost.problem import Problem
from cimplan.partition.block import LABEL_LIMIT, TooWideError, Ways
from cimplan.partition.certify import certify
from cimplan.partition.clock import OutOfTimeError, watch
from cimplan.partition.collector import collector_paused
from cimplan.partition.fold import FoldLimitError, fold
from cimplan.partition.goal import OneBudget
from cimplan.partition.spine import IDEAL_LIMITS, Spine, find_spine
from cimplan.partition.structure import Network
from cimplan.partition.tables import remaining as rest_of
from cimplan.partition.tables import tabulate
from cimplan.plan.certificate import Block, Certificate, FillerGroup
from cimplan.plan.proof import bound_by_sums
from cimplan.plan.schedule import Solution

_LEAST_S: Final = 1.0
"""Seconds that a proof may take where the method took less: most networks need a fraction of it."""


def with_certificate(problem: Problem, solution: Solution, time_left_s: float | None = None) -> Solution:
    """Return a solution with a certificate for its bound, where it has none and a bounded effort gives one.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        The answer of any method. Its bound stays what it was.
    time_left_s : float, optional
        Most seconds to spend; if left out, as many as the method took, and at least one.
    """
    bound = solution.lower_bound
    if solution.certificate is not None or solution.schedule is None or problem.host_cores != 1:
        return solution
    if bound <= bound_by_sums(problem):
        return solution
    seconds = max(_LEAST_S, solution.solve_s) if time_left_s is None else time_left_s
    certificate = certificate_of(problem, bound, time.perf_counter() + seconds)
    return replace(solution, certificate=certificate)


@collector_paused()
def certificate_of(problem: Problem, bound: int, deadline: float) -> Certificate:
    """Return a certificate of a bound, or of as much of it as blocks and fold prove.

    Where they prove nothing in time it claims nothing yet, and is of a form that a search may prove anything by: one
    that schedules every operator.

    Parameters
    ----------
    problem : Problem
        A problem of one host core.
    bound : int
        Ticks that are said to be unbeatable.
    deadline : float
        `time.perf_counter` at which to give up.
    """
    found: Certificate | None = None
    with suppress(OutOfTimeError, FoldLimitError):
        network = Network(problem)
        for limit in IDEAL_LIMITS:
            watch(deadline)
            spine = find_spine(network, limit)
            with suppress(TooWideError):
                for delayed in (False, True) if spine.groups else (False,):
                    better = _folded(network, spine, bound, deadline, delayed=delayed)
                    if found is None or better.lower_bound > found.lower_bound:
                        found = better
                    if found.lower_bound >= bound:
                        return found
            if found is not None:
                break
    return found or _searched(problem)


def _folded(network: Network, spine: Spine, bound: int, deadline: float, *, delayed: bool) -> Certificate:
    """Return what blocks and fold prove of a bound."""
    budget = network.problem.budget
    memory: dict[object, Ways] = {}
    tables = tabulate(network, spine, delayed=delayed, memory=memory, limit=LABEL_LIMIT, deadline=deadline)
    labels, _ = fold(tables, rest_of(tables, budget), OneBudget(budget, bound, deadline))
    return certify(tables, min([bound, *(label.busy for label in labels)]), budget)


def _searched(problem: Problem) -> Certificate:
    """Return a certificate without blocks: every operator is run one by one."""
    everything = tuple(range(len(problem)))
    group = FillerGroup(everything, delayed=False)
    return Certificate(
        0, problem.budget, blocks=(Block("chain"),), fillers=(group,), exhausted=True, searched=everything
    )
