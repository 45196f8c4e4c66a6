"""Partial schedules of a search: labels, the nodes that hold those of a state, and what they do next."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import le
from typing import NamedTuple, TypeAlias

import numpy as np

from cimplan.partition.dominance import undominated_rows
from cimplan.partition.fold import Label
from cimplan.partition.goal import NEVER, Goal
from cimplan.partition.outlook import Ahead, Numbers, Outlook, Queue, Slot

_PAIRS = 400
"""Pairs of labels up to which they are compared one by one rather than as arrays."""

Step: TypeAlias = tuple[int, int]
"""An operator starts with an option."""


class Partial:
    """A partial schedule: its numbers, the label it comes from, and which operators have started since."""

    __slots__ = ("numbers", "parent", "rank", "steps")

    def __init__(self, numbers: Numbers, parent: Partial | Label, steps: tuple[Step, ...]) -> None:
        self.numbers, self.parent, self.steps = numbers, parent, steps
        self.rank = NEVER


@dataclass(slots=True)
class Table:
    """A partial schedule while operators start."""

    settled: int
    queue: Queue
    crossbars: int
    free: int
    busy: int
    end: int
    ready: dict[Slot, int]
    steps: tuple[Step, ...] = ()


class Move(NamedTuple):
    """What an operator of the host's queue does when it runs next."""

    step: Step
    slot: Slot
    duration: int
    flushes: bool
    pays: bool
    settled: int
    queue: Queue


@dataclass(slots=True)
class Node:
    """The labels of a state.

    Attributes
    ----------
    ahead : Ahead
        What is left.
    able : tuple of int
        The operators that must choose next.
    moves : list of Move
        What can run next on the host.
    followed : list of Numbers
        What has been followed.
    fresh, waiting : list of Partial
        What has not been followed yet; of the first the rank is not known.
    least : int
        The least rank of those whose rank is known.
    """

    ahead: Ahead
    able: tuple[int, ...]
    moves: list[Move] = field(default_factory=list)
    followed: list[Numbers] = field(default_factory=list)
    fresh: list[Partial] = field(default_factory=list)
    waiting: list[Partial] = field(default_factory=list)
    least: int = NEVER

    def rank(self, outlook: Outlook, goal: Goal) -> int:
        """Rank fresh labels; return the least rank of what has not been followed."""
        if self.fresh:
            ranks = outlook.ranks(self.ahead, [label.numbers for label in self.fresh], goal)
            for label, rank in zip(self.fresh, ranks, strict=True):
                if rank < NEVER:
                    label.rank = rank
                    self.waiting.append(label)
            self.least = min(self.least, *ranks)
            self.fresh = []
        return self.least

    def take(self, below: int, most: int | None = None) -> list[Partial]:
        """Move labels of a rank below some number, or the first of them, to those that are followed; return them."""
        if self.least >= below:
            return []
        taken = [label for label in self.waiting if label.rank < below]
        rest = [label for label in self.waiting if label.rank >= below]
        if most is not None and len(taken) > most:
            taken.sort(key=_rank)
            rest += taken[most:]
            del taken[most:]
        self.waiting = rest
        self.least = min(map(_rank, rest), default=NEVER)
        taken = _undominated(taken, self.followed)
        self.followed += [label.numbers for label in taken]
        return taken


def _rank(label: Partial) -> int:
    return label.rank


def _numbers(label: Partial) -> Numbers:
    return label.numbers


def _undominated(labels: list[Partial], known: list[Numbers]) -> list[Partial]:
    """Return the labels that neither another one nor known numbers make useless."""
    if len(labels) * (len(labels) + len(known)) > _PAIRS:
        rows = np.array([label.numbers for label in labels], dtype=np.int64)
        others = np.array(known, dtype=np.int64) if known else None
        return [labels[row] for row in undominated_rows(rows, others)]
    labels.sort(key=_numbers)  # what makes a label useless comes before it
    kept: list[Partial] = []
    better = list(known)
    for label in labels:
        numbers = label.numbers
        for other in better:
            if other[0] <= numbers[0] and other[1] <= numbers[1] and all(map(le, other, numbers)):
                break
        else:
            kept.append(label)
            better.append(numbers)
    return kept
