"""The partition problem in terms of options: all that a solver may know.

An operator reaches the solver as a list of options (where, how long, how many crossbars). Times are whole ticks of
`Problem.tick_ns` nanoseconds, so that every comparison in a solver or a checker is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cimplan.errors import InputError, NoAnswerError, did_you_mean

HOST: Final = "host"
CIM: Final = "cim"

HORIZON_LIMIT_TICKS: Final = 2**52
"""Largest sum of all durations and transfers: exact in a double too, and far from overflow in 64 bits."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run an operator.

    Attributes
    ----------
    place : str
        ``"host"`` competes for the host's cores; any other place is an accelerator on which operators may overlap.
    duration : int
        Ticks from start to finish.
    crossbars : int
        Crossbars occupied during the whole inference.
    label : str
        What distinguishes this option from another at the same place; may be empty.
    """

    place: str
    duration: int
    crossbars: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A precedence between two operators.

    Attributes
    ----------
    source, target : int
        Operator indices, source < target.
    transfer : int
        Ticks added between finish of the source and start of the target if their places differ.
    size_bytes : int
        Bytes moved in that case.
    """

    source: int
    target: int
    transfer: int
    size_bytes: int = 0


@dataclass(frozen=True)
class Problem:
    """Choose one option and a start for each operator; minimise the makespan.

    Constraints: precedence with transfers; at most `host_cores` host-placed operators at any time (operators of
    zero duration occupy no time); crossbars of the chosen options add up to at most `budget`.

    Attributes
    ----------
    names : tuple of str
        Operator names, topologically ordered.
    options : tuple of tuple of Option
        At least one option per operator.
    dependencies : tuple of Dependency
        Sorted by (source, target), at most one per pair.
    budget : int
        Crossbars available.
    host_cores : int
        Operators the host can run at once.
    tick_ns : float
        Nanoseconds per tick.
    """

    names: tuple[str, ...]
    options: tuple[tuple[Option, ...], ...]
    dependencies: tuple[Dependency, ...]
    budget: int
    host_cores: int = 1
    tick_ns: float = 1.0

    def __post_init__(self) -> None:
        """Refuse data that no solver could read the same way."""
        count = len(self.names)
        if len(self.options) != count:
            raise InputError("the problem has not as many option lists as operators")
        if self.budget < 0 or self.host_cores < 1:
            raise InputError("the crossbar budget must be at least 0 and the host cores at least 1")
        horizon = 0
        for name, options in zip(self.names, self.options, strict=True):
            if not options:
                raise InputError("an operator has no option", where=f"operator {name!r}")
            if any(option.duration < 0 or option.crossbars < 0 for option in options):
                raise InputError("durations and crossbars must not be negative", where=f"operator {name!r}")
            horizon += max(option.duration for option in options)
        previous = (-1, -1)
        for edge in self.dependencies:
            if not 0 <= edge.source < edge.target < count or (edge.source, edge.target) <= previous:
                raise InputError("dependencies must be sorted, unique, and point forward", where=str(edge))
            if edge.transfer < 0:
                raise InputError("a transfer time must not be negative", where=str(edge))
            previous = (edge.source, edge.target)
            horizon += edge.transfer
        if horizon > HORIZON_LIMIT_TICKS:
            raise InputError(
                "the durations do not fit into the solver's clock",
                why=f"they add up to {horizon} ticks, the limit is {HORIZON_LIMIT_TICKS}",
                fix="Use a coarser tick",
            )

    def __len__(self) -> int:
        """Return the number of operators."""
        return len(self.names)

    def with_budget(self, budget: int) -> Problem:
        """Return the same problem with another crossbar budget."""
        return replace(self, budget=budget)

    def fixed(self, places: Mapping[str, str]) -> Problem:
        """Return the problem with the options of named operators limited to one place.

        Raises
        ------
        InputError
            If a name is unknown.
        NoAnswerError
            If an operator has no option at that place.
        """
        index = {name: position for position, name in enumerate(self.names)}
        options = list(self.options)
        for name, place in places.items():
            if name not in index:
                raise InputError(
                    "cannot fix an unknown operator",
                    where=name,
                    why="names are those of the optimised graph, as `cimplan partition --all` lists them",
                    fix=did_you_mean(name, index),
                )
            kept = tuple(option for option in options[index[name]] if option.place == place)
            if not kept:
                known = ", ".join(sorted({option.place for option in options[index[name]]}))
                raise NoAnswerError(
                    f"cannot place the operator on {place!r}",
                    where=f"operator {name!r}",
                    why=f"it can run only on: {known}",
                    fix="Drop this --fix, or choose a supported place",
                )
            options[index[name]] = kept
        return replace(self, options=tuple(options))

    def least_crossbars(self) -> int:
        """Crossbars that no plan can do without."""
        return sum(min(option.crossbars for option in options) for options in self.options)

    def places(self) -> tuple[str, ...]:
        """All places, the host first."""
        found: Iterable[str] = sorted({option.place for options in self.options for option in options})
        return tuple(sorted(found, key=lambda place: (place != HOST, place)))
