"""Operators that the user has placed: by name, and what that costs against the free optimum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.plan.schedule import Solution

_CANDIDATES = 5
"""Operators to name where a node is part of several."""

_NEAREST = 3
"""Names to propose for one that is not known."""


def placed(costed: CostedNetwork, fix: Mapping[str, str]) -> dict[str, str]:
    """Return placements by operator name; where a name is that of a node of the model file, of the operator it is in.

    Raises
    ------
    InputError
        If a node is part of several operators, with their names, or one operator is placed twice and differently.
    """
    known = set(costed.problem.names)
    of_node: dict[str, list[str]] = {}
    for operator in costed.graph.operators:
        for node in operator.file_nodes:
            of_node.setdefault(node, []).append(operator.name)
    found: dict[str, str] = {}
    for name, place in fix.items():
        operators = [name] if name in known else of_node.get(name, [])
        if not operators:
            raise _unknown(name, costed.problem.names, of_node)
        if len(operators) > 1:
            raise InputError(
                "cannot fix a node that several operators share",
                where=name,
                why=f"in the graph that runs it is part of {len(operators)} operators",
                fix=f"Fix one of them: {', '.join(map(repr, operators[:_CANDIDATES]))}"
                + (f" and {len(operators) - _CANDIDATES} more" if len(operators) > _CANDIDATES else ""),
            )
        if found.setdefault(operators[0], place.lower()) != place.lower():
            raise InputError(
                f"{operators[0]!r} is placed twice, on {found[operators[0]]} and on {place}",
                where=name,
                why="both names mean this operator",
                fix="Place it once",
            )
    return found


def _unknown(name: str, operators: Iterable[str], nodes: Iterable[str]) -> InputError:
    names = list(dict.fromkeys([*operators, *nodes]))
    nearest = ", ".join(map(repr, get_close_matches(name, names, n=_NEAREST, cutoff=0.0)))
    return InputError(
        "cannot fix an unknown operator",
        where=name,
        why="names are those of the optimised graph, as `cimplan partition --all` lists them, and of the nodes of the "
        "model file they stand for",
        fix=f"The nearest of {len(names)} names: {nearest}" if names else "The network has no operators",
    )


def fixed(problem: Problem, fix: Mapping[str, str]) -> Problem:
    """Return the problem with operators where the user wants them.

    Raises
    ------
    InputError
        If there is no operator of a name; with those of the nearest names, of what may be thousands.
    NoAnswerError
        If an operator cannot run where the user wants it.
    """
    known = set(problem.names)
    for name in fix:
        if name not in known:
            raise _unknown(name, problem.names, ())
    return problem.fixed({name: place.lower() for name, place in fix.items()})


def without_fixes(unfixed: Problem, problem: Problem, solution: Solution, left_s: float | None) -> Solution | None:
    """Return the answer to the problem without the user's fixes, in what is left of the time.

    A method that proves nothing is not made to wait for one that does: what fixes cost it stays unknown.
    """
    from cimplan.partition.methods import METHODS, solve
    from cimplan.plan.fixes import ruled_out, without

    method = METHODS.get(solution.method)
    if method is None or not method.exact or solution.schedule is None or (left_s is not None and left_s <= 0):
        return None
    out = ruled_out(problem, unfixed)
    if not any(out):
        return replace(solution, curve=(), curve_proofs=())
    return solve(without(problem, out), time_limit_s=left_s, warm_start=solution.schedule)
