"""What is said of a plan's status, and whose word it is; the same on every screen and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cimplan.units import format_duration

if TYPE_CHECKING:
    from cimplan.plan.plan import Plan

_SOLVERS: Final = {"cp-sat": "CP-SAT", "ilp": "HiGHS", "ilp-highs": "HiGHS", "ilp-scip": "SCIP", "ilp-gurobi": "Gurobi"}

_CONSTRAINT_MODEL: Final = "constraint model"
"""What `exact` calls the step whose bound is that of CP-SAT."""

_MOST_NAMES: Final = 4


def rests_on_a_solver(method: str, statistics: Mapping[str, object]) -> bool:
    """Return whether the bound of a method is the word of another solver, where it was not verified."""
    return method in _SOLVERS or (method == "exact" and statistics.get("proof") == _CONSTRAINT_MODEL)


def word_of(method: str, statistics: Mapping[str, object]) -> str:
    """Return whose word the bound of a method is, where it was not verified.

    Parameters
    ----------
    method : str
        Its name.
    statistics : mapping
        What it reports of its work.
    """
    if method in _SOLVERS:
        return _SOLVERS[method]
    if method == "exact":
        return "CP-SAT" if rests_on_a_solver(method, statistics) else "the exact method"
    return repr(method)


def status_words(status: str, solver_claims: str, word: str, fixes: int = 0) -> str:
    """Return a status in words: "optimal" alone only where the proof was verified.

    Parameters
    ----------
    status, solver_claims : str
        Of a plan or a result.
    word : str
        Whose claim it is.
    fixes : int
        How many operators the user has placed.
    """
    under = "" if not fixes else f" with {_count(fixes)} fixed"
    if status == "optimal":
        return f"optimal{under}"
    if solver_claims == "optimal":
        return f"feasible{under} ({word} says optimal)"
    return f"feasible{under}"


def plan_status(plan: Plan) -> str:
    """Return the status of a plan in words."""
    return status_words(plan.status, plan.solver_claims, word_of(plan.method, plan.statistics), len(plan.fixes))


def fixes_words(plan: Plan) -> str:
    """Return which operators the user has placed, and where; empty if none."""
    if not plan.fixes:
        return ""
    shown = [f"{name} on {_called(place)}" for name, place in list(plan.fixes.items())[:_MOST_NAMES]]
    more = len(plan.fixes) - len(shown)
    return f"{_count(len(plan.fixes))}: {', '.join(shown)}" + (f", and {more} more" if more else "")


def price_of_fixes(plan: Plan) -> str:
    """Return what the fixes cost against the best plan without them; empty if nothing is fixed."""
    free = plan.without_fixes
    if not plan.fixes:
        return ""
    if free is None:
        return "not known: the optimum without them was not looked for, or not found in time"
    most, least = plan.makespan_ns - free.lower_bound_ns, max(0.0, plan.makespan_ns - free.makespan_ns)
    without = f"without them {format_duration(free.makespan_ns)}"
    if free.status == "optimal":
        return f"{format_duration(least)}: {without} is optimal"
    if free.solver_claims == "optimal":
        return f"{format_duration(least)}, if {without} is optimal, which was not verified"
    return f"from {format_duration(least)} to {format_duration(most)}: {without} is the best known"


def _count(number: int) -> str:
    return f"{number} operator" + ("" if number == 1 else "s")


def _called(place: str) -> str:
    return "CIM" if place == "cim" else place
