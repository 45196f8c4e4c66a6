"""What a certificate claims for each number of crossbars, as its verifier looks it up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from cimplan.plan.certificate import Step


class Targets:
    """Bounds by budget.

    Parameters
    ----------
    steps : sequence of Step
        Budgets rise, bounds fall.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._budgets = [step.budget for step in steps]
        self._bounds = [step.bound for step in steps]

    def below(self, crossbars: int) -> int:
        """Return before which tick a schedule of so many crossbars must end to refute a bound; 0 beyond all budgets."""
        at = bisect_left(self._budgets, crossbars)
        return self._bounds[at] if at < len(self._bounds) else 0
