"""The independent checker, which decides whether a schedule is what it says it is.

Everything is recomputed from the problem and the schedule alone, in exact integers, by means that no compiler uses:
a sweep over time for the host, sums for the crossbars, one look at each dependency. The checker imports no solver;
every plan that leaves the tool has passed it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Literal

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import InternalError
from cimplan.plan.schedule import CurvePoint, Schedule, Solution, Status

ViolationKind = Literal[
    "shape", "choice", "start", "precedence", "host", "crossbars", "makespan", "bound", "status", "curve"
]

_SHOWN = 3

_MOST_ON_HOST = 100
"""Violations of the host's cores that are listed: each names all operators that run at the time."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is not as it should be.

    Attributes
    ----------
    kind : str
        Which rule is broken.
    operators : tuple of str
        Names of the operators involved; empty for a rule about the whole schedule.
    message : str
        The rule and the numbers that break it, in ticks and crossbars.
    """

    kind: ViolationKind
    operators: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What the checker found.

    Attributes
    ----------
    violations : tuple of Violation
        Every broken rule, in the order of `ViolationKind`; empty if the schedule is sound.
    makespan : int or None
        The makespan the checker computed in ticks; None without a readable schedule.
    crossbars : int or None
        The crossbars the checker counted; None without a readable schedule.
    """

    violations: tuple[Violation, ...]
    makespan: int | None = None
    crossbars: int | None = None

    @property
    def passed(self) -> bool:
        """True if no rule is broken."""
        return not self.violations

    def require(self, what: str = "plan") -> None:
        """Let a sound schedule pass.

        Parameters
        ----------
        what : str
            What was checked, for the message.

        Raises
        ------
        InternalError
            If a rule is broken; the message names the first few violations.
        """
        if self.violations:
            shown = "; ".join(violation.message for violation in self.violations[:_SHOWN])
            rest = len(self.violations) - _SHOWN
            raise InternalError(
                f"the checker refuses this {what}",
                why=shown + (f"; and {rest} more" if rest > 0 else ""),
                fix="This is a fault of the method that made it: please report it with the model and the command",
            )


def check(
    problem: Problem,
    schedule: Schedule | None,
    *,
    status: Status = "feasible",
    lower_bound: int = 0,
    makespan: int | None = None,
    curve: Sequence[CurvePoint] = (),
) -> CheckReport:
    """Check a schedule and what is claimed of it.

    Parameters
    ----------
    problem : Problem
        Costs and limits.
    schedule : Schedule or None
        What to check; None where the method found none.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        The claim. "optimal" is honest only where the makespan equals `lower_bound`, "infeasible" only where even
        the thriftiest options exceed the budget.
    lower_bound : int
        Ticks claimed to be unbeatable.
    makespan : int, optional
        The makespan claimed, if any, in ticks.
    curve : sequence of CurvePoint
        The budget curve claimed, if any.

    Returns
    -------
    CheckReport
        All violations, and the makespan and crossbars as recomputed.
    """
    if schedule is None:
        return CheckReport(tuple(_without_schedule(problem, status)))
    unreadable = tuple(_shape(problem, schedule))
    if unreadable:
        return CheckReport(unreadable)

    chosen = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
    finish = [start + option.duration for start, option in zip(schedule.start, chosen, strict=True)]
    recomputed = max(finish, default=0)
    crossbars = sum(option.crossbars for option in chosen)
    places = [option.place for option in chosen]

    violations = [
        *_starts(problem, schedule),
        *_precedence(problem, schedule, finish, places),
        *_host(problem, schedule, finish, places),
    ]
    if crossbars > problem.budget:
        violations.append(
            Violation("crossbars", (), f"the chosen options take {crossbars} crossbars, the budget is {problem.budget}")
        )
    if makespan is not None and makespan != recomputed:
        violations.append(
            Violation("makespan", (), f"the makespan is said to be {makespan} ticks, recomputed it is {recomputed}")
        )
    violations += _claims(recomputed, status, lower_bound)
    if curve:
        violations += _curve(problem, recomputed, status, curve)
    return CheckReport(tuple(violations), recomputed, crossbars)


def check_solution(problem: Problem, solution: Solution) -> CheckReport:
    """Check the answer of a method with all its claims; of the certificate (see `certificate_check`) only its bound."""
    report = check(
        problem,
        solution.schedule,
        status=solution.status,
        lower_bound=solution.lower_bound,
        curve=solution.curve,
    )
    certificate = solution.certificate
    if certificate is None or report.makespan is None or certificate.lower_bound <= report.makespan:
        return report
    wrong = f"the certificate proves {certificate.lower_bound}, above the makespan {report.makespan}"
    return replace(report, violations=(*report.violations, Violation("bound", (), wrong)))


def require(problem: Problem, solution: Solution) -> CheckReport:
    """Check the answer of a method and refuse it unless it is sound.

    Raises
    ------
    InternalError
        If a rule is broken.
    """
    report = check_solution(problem, solution)
    report.require(f"answer of the method {solution.method!r}")
    return report


def _without_schedule(problem: Problem, status: Status) -> Iterable[Violation]:
    if status in ("optimal", "feasible"):
        yield Violation("status", (), f"the status is {status!r} but there is no schedule")
    least = problem.least_crossbars()
    if status == "infeasible" and least <= problem.budget:
        yield Violation(
            "status",
            (),
            f"the status is 'infeasible' but {least} crossbars suffice and the budget is {problem.budget}",
        )


def _shape(problem: Problem, schedule: Schedule) -> Iterable[Violation]:
    """Refuse what cannot be read at all: the other rules would have nothing to look at."""
    count = len(problem)
    for what, values in (("choices", schedule.chosen), ("starts", schedule.start)):
        if len(values) != count:
            yield Violation("shape", (), f"the schedule has {len(values)} {what} for {count} operators")
            return
        for name, value in zip(problem.names, values, strict=True):
            # A float would compare as a number and yet not be exact; a bool is an int by accident.
            if type(value) is not int:
                yield Violation("shape", (name,), f"operator {name!r}: {value!r} among the {what} is not an integer")
    for name, options, choice in zip(problem.names, problem.options, schedule.chosen, strict=True):
        if type(choice) is int and not 0 <= choice < len(options):
            yield Violation("choice", (name,), f"operator {name!r}: option {choice} of {len(options)} does not exist")


def _starts(problem: Problem, schedule: Schedule) -> Iterable[Violation]:
    for name, start in zip(problem.names, schedule.start, strict=True):
        if start < 0:
            yield Violation("start", (name,), f"operator {name!r} starts at {start}, before time 0")


def _precedence(
    problem: Problem, schedule: Schedule, finish: Sequence[int], places: Sequence[str]
) -> Iterable[Violation]:
    for edge in problem.dependencies:
        transfer = edge.transfer if places[edge.source] != places[edge.target] else 0
        earliest = finish[edge.source] + transfer
        start = schedule.start[edge.target]
        if start < earliest:
            source, target = problem.names[edge.source], problem.names[edge.target]
            after = f"a transfer of {transfer} after {source!r}" if transfer else f"{source!r}"
            yield Violation(
                "precedence",
                (source, target),
                f"operator {target!r} starts at {start}, but {after} ends at {earliest}",
            )


def _host(problem: Problem, schedule: Schedule, finish: Sequence[int], places: Sequence[str]) -> Iterable[Violation]:
    """Sweep over time: at each start, count who is still on the host."""
    queue = sorted(
        (start, end, index)
        for index, (start, end, place) in enumerate(zip(schedule.start, finish, places, strict=True))
        if place == HOST and end > start
    )
    running: list[tuple[int, int]] = []  # (end, position in the queue), the first to end first
    violations = 0
    for position, (start, end, index) in enumerate(queue):
        while running and running[0][0] <= start:
            heapq.heappop(running)
        if len(running) >= problem.host_cores:
            violations += 1
            if violations > _MOST_ON_HOST:
                return
            beside = [(queue[at][2], other_end) for other_end, at in sorted(running, key=itemgetter(1))]
            names = tuple(problem.names[other] for other in (*(other for other, _ in beside), index))
            others = " and ".join(f"{problem.names[other]!r} (until {other_end})" for other, other_end in beside)
            yield Violation(
                "host",
                names,
                f"operator {problem.names[index]!r} starts on the host at {start} beside {others}, "
                f"on {problem.host_cores} core{'s' if problem.host_cores > 1 else ''}",
            )
        heapq.heappush(running, (end, position))


def _claims(makespan: int, status: Status, lower_bound: int) -> Iterable[Violation]:
    if lower_bound > makespan:
        yield Violation("bound", (), f"the lower bound is {lower_bound}, above the makespan {makespan}")
    if status in ("infeasible", "unknown"):
        yield Violation("status", (), f"the status is {status!r} but there is a schedule")
    elif status == "optimal" and lower_bound < makespan:
        yield Violation(
            "status", (), f"the status is 'optimal' but the lower bound {lower_bound} is below the makespan {makespan}"
        )
    elif status == "feasible" and lower_bound == makespan > 0:  # a bound of 0 says that nothing is proven
        yield Violation(
            "status", (), f"the status is 'feasible' but the lower bound equals the makespan {makespan}: it is optimal"
        )


def _curve(problem: Problem, makespan: int, status: Status, curve: Sequence[CurvePoint]) -> Iterable[Violation]:
    for before, after in pairwise(curve):
        if after.crossbars <= before.crossbars or after.makespan >= before.makespan:
            yield Violation(
                "curve",
                (),
                f"the curve does not fall: {before.makespan} from {before.crossbars} crossbars, "
                f"then {after.makespan} from {after.crossbars}",
            )
    for point in curve:
        if point.lower_bound > point.makespan:
            yield Violation(
                "curve",
                (),
                f"the curve's bound {point.lower_bound} at {point.crossbars} crossbars is above "
                f"its makespan {point.makespan}",
            )
    least = problem.least_crossbars()
    if curve[0].crossbars != least:
        yield Violation(
            "curve", (), f"the curve begins at {curve[0].crossbars} crossbars, the least possible are {least}"
        )
    here = [point for point in curve if point.crossbars <= problem.budget]
    if here and here[-1].makespan != makespan:
        yield Violation(
            "curve",
            (),
            f"the curve says {here[-1].makespan} at the budget of {problem.budget} crossbars, "
            f"the schedule takes {makespan}",
        )
    elif here and here[-1].lower_bound == makespan and status != "optimal":
        yield Violation("curve", (), f"the curve proves {makespan} at the budget, yet the status is {status!r}")
