"""Why no plan exists, in terms of what the user can change."""

from __future__ import annotations

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import NoAnswerError

_SHOWN = 3


def refuse_infeasible(problem: Problem, *, unfixed: Problem | None = None) -> None:
    """Raise if no choice of options fits the crossbar budget; nothing else can make a problem infeasible.

    Parameters
    ----------
    problem : Problem
        The problem as it is to be solved.
    unfixed : Problem, optional
        The same problem before `Problem.fixed`; tells operators that the user placed from those that have no choice.

    Raises
    ------
    NoAnswerError
        With the demand, the limit, and the smallest changes that would satisfy it.
    """
    demand = problem.least_crossbars()
    if demand <= problem.budget:
        return
    least = [min(option.crossbars for option in options) for options in problem.options]
    takers = sorted((v for v, crossbars in enumerate(least) if crossbars), key=lambda v: (-least[v], v))
    named = ", ".join(f"{problem.names[v]!r} ({least[v]})" for v in takers[:_SHOWN])
    if len(takers) > _SHOWN:
        named += f" and {len(takers) - _SHOWN} more"
    raise NoAnswerError(
        "no plan fits the crossbar budget",
        why=(
            f"operators that must be on the accelerator need {demand} crossbars, "
            f"{problem.budget} are available: {named}"
        ),
        fix="; or ".join([f"Raise the budget to at least {demand} (--crossbars {demand})", *_relief(problem, unfixed)]),
    )


def _relief(problem: Problem, unfixed: Problem | None) -> list[str]:
    """Return which fixed places to drop: the fewest of them, the largest savings first."""
    missing = problem.least_crossbars() - problem.budget
    savings: list[tuple[int, int]] = []
    for v, options in enumerate(problem.options):
        free = unfixed.options[v] if unfixed is not None else None
        now = min(option.crossbars for option in options)
        if free is not None:
            saving = now - min(option.crossbars for option in free)
        else:  # unknown: an operator without a host option is taken for one that was fixed
            saving = now if all(option.place != HOST for option in options) else 0
        if saving > 0:
            savings.append((saving, v))
    drop: list[int] = []
    for saving, v in sorted(savings, key=lambda item: (-item[0], item[1])):
        if missing <= 0:
            break
        drop.append(v)
        missing -= saving
    if not drop or missing > 0:
        return []
    names = ", ".join(repr(problem.names[v]) for v in sorted(drop)[:_SHOWN])
    more = f" and {len(drop) - _SHOWN} more" if len(drop) > _SHOWN else ""
    return [f"drop the --fix of {names}{more}"]
