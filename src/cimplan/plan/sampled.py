"""What the noise of a measurement means for a plan, as a plan tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cimplan.errors import InputError
from cimplan.plan.claims import REMAKE

if TYPE_CHECKING:
    from cimplan.plan.plan import Plan

SAMPLES = "samples"
"""Entry of a plan's statistics: samples in which the placement was timed again."""

SAMPLES_SOLVED = "samples_solved"
"""Entry of a plan's statistics: of these, the ones that were partitioned anew."""


@dataclass(frozen=True)
class Sampled:
    """Figures of a plan over samples of the host's times.

    Attributes
    ----------
    host_only_ns_quartiles : tuple of float
        Lower and upper quartile of the latency of the host alone.
    speedup_range : tuple of float
        5th and 95th percentile of the speed-up of the chosen placement.
    robust_share : float or None
        Of the samples that were partitioned anew, the share in which the chosen placement is within 1 % of the best;
        None if none was.
    samples, solved : int
        Samples in which the placement was timed again, and those that were partitioned anew.
    """

    host_only_ns_quartiles: tuple[float, float]
    speedup_range: tuple[float, float]
    robust_share: float | None
    samples: int
    solved: int


def require_spread(plan: Plan) -> None:
    """Refuse a plan whose spreads do not hold the figure they are the spread of, or that hides a disturbed profile.

    Raises
    ------
    InputError
        With the path of the field.
    """
    for name, figure in (("host_only_ns_quartiles", plan.host_only_ns), ("speedup_range", plan.speedup)):
        found: tuple[float, float] | None = getattr(plan, name)
        if found is not None and (figure is None or not found[0] <= figure <= found[1]):
            raise InputError("does not follow from the rest of the plan", where=name, fix=REMAKE)
    if plan.profile_disturbed != bool(plan.profile.disturbed):
        raise InputError("does not follow from the rest of the plan", where="profile_disturbed", fix=REMAKE)
