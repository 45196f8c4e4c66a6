"""How much a verifier may do: counted in nodes of its searches, so that a limit is the same on every machine.

A certificate comes from a file that anybody may have written. So everything whose size a file can drive up is counted,
not only what searches: a node stands for what takes some ten to a hundred microseconds, a *step* for a small part of
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cimplan.limits import watch

STEPS_PER_NODE: Final = 256
"""Steps that count as much as one node."""

MOST_AT_ONCE: Final = 1_000_000
"""Entries of one list, in memory at the same time: a few hundred megabytes."""


class OutOfEffortError(Exception):
    """The search has used up its nodes; neither proven nor refuted."""


class TooLargeError(OutOfEffortError):
    """Something does not fit in the memory that a verifier may take; more nodes would not help."""


@dataclass
class Effort:
    """How many nodes may still be searched, in all searches together."""

    nodes: int
    _steps: int = field(default=0, init=False, repr=False)

    def spend(self, nodes: int = 1) -> None:
        """Count one node, or more where it is a large one.

        Raises
        ------
        OutOfEffortError
            If there are not so many left.
        OutOfTimeError
            If the time limit around the verification has passed.
        """
        watch()
        if self.nodes < nodes:
            self.nodes = 0
            raise OutOfEffortError
        self.nodes -= nodes

    def spend_steps(self, steps: int) -> None:
        """Count steps of less weight than a node.

        Raises
        ------
        OutOfEffortError
            If there is nothing left for them.
        """
        self._steps += steps
        if self._steps >= STEPS_PER_NODE:
            nodes, self._steps = divmod(self._steps, STEPS_PER_NODE)
            self.spend(nodes)

    def spend_entries(self, entries: int) -> None:
        """Count a step for each entry of a list before it is made.

        Raises
        ------
        TooLargeError
            If they are more than may be in memory.
        OutOfEffortError
            If there is nothing left for them.
        """
        if entries > MOST_AT_ONCE:
            raise TooLargeError
        self.spend_steps(entries)
