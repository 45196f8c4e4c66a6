"""The points of a budget curve: which of their schedules and bounds hold, without the solver that found them.

A point says: from so many crossbars on, up to the next point, so many ticks, and no plan is quicker than its bound. So
it takes a schedule within its own crossbars, and a bound for all crossbars below those of the next point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cimplan.cost.problem import Problem
from cimplan.plan.certificate import Certificate, Step
from cimplan.plan.certificate_check import DEFAULT_NODES, DEFAULT_SEARCH_NODES, verify_steps
from cimplan.plan.check import check
from cimplan.plan.document import Claim
from cimplan.plan.proof import bound_by_sums
from cimplan.plan.schedule import CurvePoint, Schedule


@dataclass(frozen=True)
class ProvenSteps:
    """What certificates of a curve prove.

    Attributes
    ----------
    steps : tuple of Step
        Bounds by budget.
    refuted : tuple of str
        What is wrong with a certificate.
    notes : tuple of str
        What is left.
    nodes : int
        Nodes that it took.
    final : bool
        Whether more nodes would not prove more.
    """

    steps: tuple[Step, ...] = ()
    refuted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    nodes: int = 0
    final: bool = True


def prove_steps(
    problem: Problem,
    certificates: Iterable[Certificate],
    *,
    nodes: int = DEFAULT_NODES,
    search_nodes: int = DEFAULT_SEARCH_NODES,
) -> ProvenSteps:
    """Verify the certificates of a curve; each may take the whole effort.

    Parameters
    ----------
    problem : Problem
        The problem; its budget does not matter.
    certificates : iterable of Certificate
        The proofs.
    nodes, search_nodes : int
        As in `verify_certificate`.
    """
    steps: list[Step] = []
    refuted: list[str] = []
    notes: list[str] = []
    spent, final = 0, True
    for certificate in certificates:
        report = verify_steps(problem, certificate, nodes=nodes, search_nodes=search_nodes)
        spent += report.nodes
        steps += report.proven
        if report.verdict == "refuted":
            refuted += report.notes
        elif report.verdict == "incomplete":
            notes += report.notes
            final &= report.final
    return ProvenSteps(tuple(steps), tuple(refuted), tuple(notes), spent, final)


def largest_use(problem: Problem) -> int:
    """Return the crossbars beyond which more change nothing."""
    return sum(max(option.crossbars for option in options) for options in problem.options)


@dataclass(frozen=True)
class PointReport:
    """What holds of a point of a curve.

    Attributes
    ----------
    bounded : bool
        Whether its bound follows from bounds by budget, or from sums over the costs.
    reached : bool
        Whether some schedule within its crossbars takes no longer.
    status : {"optimal", "feasible"}
        "optimal" if both hold, and bound and makespan are equal.
    """

    bounded: bool
    reached: bool
    status: Claim


def look_at(
    problem: Problem, points: Sequence[CurvePoint], steps: Iterable[Step], known: Iterable[tuple[int, int]]
) -> list[PointReport]:
    """Return what holds of each point.

    Parameters
    ----------
    problem : Problem
        The problem; its budget does not matter.
    points : sequence of CurvePoint
        The curve.
    steps : iterable of Step
        Bounds that were proven.
    known : iterable of (int, int)
        Crossbars and ticks of schedules at hand beside those of the points.
    """
    proven, others, by_sums, most = list(steps), list(known), bound_by_sums(problem), largest_use(problem)
    ends = [after.crossbars - 1 for after in points[1:]] + [most]
    found = []
    for point, end in zip(points, ends, strict=True):
        bounded = point.lower_bound <= by_sums or any(
            step.budget >= min(end, most) and step.bound >= point.lower_bound for step in proven
        )
        reached = any(crossbars <= point.crossbars and ticks <= point.makespan for crossbars, ticks in others)
        reached = reached or _holds(problem, point)
        optimal = bounded and reached and point.makespan == point.lower_bound
        found.append(PointReport(bounded, reached, "optimal" if optimal else "feasible"))
    return found


def _holds(problem: Problem, point: CurvePoint) -> bool:
    if point.schedule is None:
        return False
    return check(problem.with_budget(point.crossbars), point.schedule, makespan=point.makespan).passed


def own_schedule(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """Return crossbars and ticks of a schedule."""
    return schedule.crossbars(problem), schedule.makespan(problem)
