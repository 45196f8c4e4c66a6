"""A plan as what a method starts from, for other costs of the same network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cimplan.cost.problem import Problem
from cimplan.errors import InputError
from cimplan.plan.replay import replay
from cimplan.plan.schedule import Schedule

if TYPE_CHECKING:
    from cimplan.plan.plan import Plan


def schedule_of(plan: Plan, problem: Problem) -> Schedule:
    """Return a plan's choices and host order as a schedule of another problem; see `Plan.schedule_for`."""
    known = {operator.name: operator for operator in plan.operators}
    unknown = next((name for name in problem.names if name not in known), None)
    if unknown is not None or len(known) != len(problem):
        raise InputError(
            "the plan is of another network",
            where=f"operator {unknown!r}" if unknown is not None else "operators",
            why=f"it has {len(known)} operators, the network has {len(problem)}",
            fix="Start from a plan of the same model",
        )
    chosen = []
    for name, options in zip(problem.names, problem.options, strict=True):
        taken = known[name]
        fitting = [
            (option.label != taken.label, option.duration, choice)
            for choice, option in enumerate(options)
            if option.place == taken.place
        ]
        if not fitting:
            raise InputError(
                f"the plan has the operator on {taken.place!r}, which is not possible here",
                where=f"operator {name!r}",
                fix="Start from a plan without this placement",
            )
        chosen.append(min(fitting)[2])
    order = plan.ticks()
    position = {operator.name: number for number, operator in enumerate(plan.operators)}
    starts = tuple(order.start[position[name]] for name in problem.names)
    found = replay(problem, Schedule(tuple(chosen), starts)).schedule
    if found.crossbars(problem) > problem.budget:
        raise InputError(
            f"the plan takes {found.crossbars(problem)} crossbars, {problem.budget} are available",
            fix="Start from a plan with a smaller budget",
        )
    return found
