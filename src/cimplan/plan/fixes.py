"""Places that the user has fixed: what they are, what they rule out, and the problem without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cimplan.cost.problem import Option, Problem


def ruled_out(problem: Problem, unfixed: Problem) -> tuple[tuple[Option, ...], ...]:
    """Return, per operator, the options that fixed places have ruled out, in their order."""
    return tuple(
        tuple(option for option in before if option not in now)
        for now, before in zip(problem.options, unfixed.options, strict=True)
    )


def fixes_of(problem: Problem, unfixed: Problem, named: Mapping[str, str]) -> dict[str, str]:
    """Return the fixed operators and their places, in topological order.

    Parameters
    ----------
    problem, unfixed : Problem
        After and before the user fixed places.
    named : mapping of str to str
        What the user has named; it may rule nothing out, where an operator has no other place.
    """
    found = {}
    for name, options, out in zip(problem.names, problem.options, ruled_out(problem, unfixed), strict=True):
        if out or name in named:
            found[name] = options[0].place
    return found


def without(problem: Problem, out: Sequence[Sequence[Option]]) -> Problem:
    """Return the problem with options that were ruled out; they come after the others, so that choices stay valid."""
    return replace(
        problem, options=tuple((*options, *more) for options, more in zip(problem.options, out, strict=True))
    )
