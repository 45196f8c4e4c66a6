"""How far the noise of a measurement moves a plan: its figures on host times as other runs might have given them.

The time of an operator in a sample is its estimate times two factors.

1. One factor common to all operators, spread as the wall times of whole plain runs are. A clock that is lower, or load,
   slows all operators together; factors of each operator's own would average that out over a network and hide it.
2. One factor of its own, spread as the operator's profiled times are. Part of that spread is the common one again, so
   the sum is rather too wide than too narrow.

A factor is drawn from two halves of a normal distribution that meet at the median, each with the quartile on its side;
it is cut at 2.5 standard deviations, and not below the fastest run. Times on the accelerator and the bus are modelled
and stay.

In each sample the chosen placement is timed again, in its order. In as many samples as the bound allows the network is
also partitioned anew, exactly. How many that are follows from counts of work, not from a clock, so that the same input
gives the same answer; the clock only ends what takes far longer than expected.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from cimplan.cost.problem import HORIZON_LIMIT_TICKS, HOST, Problem
from cimplan.plan.replay import replay
from cimplan.plan.sampled import Sampled
from cimplan.plan.structure import host_only_makespan

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.profile_file import HostProfile, Spread
    from cimplan.plan.schedule import Schedule, Solution

SAMPLES: Final = 40
"""Most samples: 5th and 95th percentile have two samples beyond them."""

SHARE_OF_LIMIT: Final = 0.05
"""Of the time limit of a solve, what all samples may take."""

WITHOUT_LIMIT_S: Final = 0.5
"""What the samples of a solve without a limit are planned to take."""

GIVEN_UP_AFTER: Final = 4.0
"""Times the planned time after which the samples of a solve without a limit end, as the clock is then far off."""

ROBUST_WITHIN: Final = 0.01
"""A placement is as good as the best where it is within this share of it."""

_QUARTILE_DEVIATIONS = 0.6745
_MOST_DEVIATIONS = 2.5
# Seconds of an exact solve by what it is made of, rather too many; see docs/costs.md.
_SOLVE_S_PER_OPERATOR = 2e-4
_SOLVE_S_PER_LABEL = 2e-4
_RETIME_S_PER_OPERATOR = 2e-5


@dataclass(frozen=True)
class _Factor:
    """How one time is spread around its estimate: deviations on both sides and the least, as shares of the median."""

    lower: float
    upper: float
    least: float

    @classmethod
    def of(cls, spread: Spread, resolution_ns: float) -> _Factor:
        # A clock that rounds down is half a tick early.
        middle = max(spread.median_ns + resolution_ns / 2, 1.0)
        return cls(
            max(spread.median_ns - spread.lower_quartile_ns, 0.0) / middle / _QUARTILE_DEVIATIONS,
            max(spread.upper_quartile_ns - spread.median_ns, 0.0) / middle / _QUARTILE_DEVIATIONS,
            min((spread.least_ns + resolution_ns / 2) / middle, 1.0),
        )

    def draw(self, generator: random.Random) -> float:
        deviation = max(-_MOST_DEVIATIONS, min(generator.gauss(0.0, 1.0), _MOST_DEVIATIONS))
        return max(1.0 + deviation * (self.upper if deviation > 0 else self.lower), self.least)


def sample(
    costed: CostedNetwork,
    problem: Problem,
    solution: Solution,
    *,
    seed: int = 0,
    time_limit_s: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Sampled | None:
    """Return what the noise of the profile means for a solution.

    Parameters
    ----------
    costed : CostedNetwork
        With the profile.
    problem : Problem
        The problem that was solved, in which places may be fixed.
    solution : Solution
        Its schedule is timed again; its counts of work tell how many exact solves fit.
    seed : int
        Of the factors.
    time_limit_s : float, optional
        Of the solve; the samples take a twentieth of it at most.
    stopped : callable
        Whether to end now, asked between samples.

    Returns
    -------
    Sampled or None
        None if the spread is not known (estimated times), there is nothing to sample, or there is no time for it.
    """
    schedule, factors = solution.schedule, _factors(costed.profile)
    host_only = host_only_makespan(costed.problem)
    if schedule is None or factors is None or not host_only or not schedule.makespan(problem):
        return None
    planned_s = WITHOUT_LIMIT_S if time_limit_s is None else SHARE_OF_LIMIT * time_limit_s
    ends = time.monotonic() + planned_s * (GIVEN_UP_AFTER if time_limit_s is None else 1.0)
    timed = min(SAMPLES, int(planned_s / 2 / (_RETIME_S_PER_OPERATOR * len(problem))))
    labels = solution.statistics.get("labels", 0)
    once_s = _SOLVE_S_PER_OPERATOR * len(problem) + _SOLVE_S_PER_LABEL * (labels if isinstance(labels, int) else 0)
    solved = min(timed, int(planned_s / 2 / once_s))
    host_times: list[int] = []
    speedups: list[float] = []
    robust = tried = 0
    for number, (base, noisy) in enumerate(islice(_samples(costed, problem, factors, seed), timed)):
        if stopped() or time.monotonic() > ends:
            break
        chosen = replay(noisy, schedule).schedule
        makespan = chosen.makespan(noisy)
        host_time = host_only_makespan(base)
        if host_time is None:
            return None
        host_times.append(host_time)
        speedups.append(host_time / max(makespan, 1))
        if number < solved:
            best = _best(noisy, chosen, seed, ends - time.monotonic())
            if best is not None:
                tried += 1
                robust += makespan <= (1 + ROBUST_WITHIN) * best
    if len(host_times) < 2:
        return None
    lower, _, upper = quantiles(host_times, n=4, method="inclusive")
    low, *_, high = quantiles(speedups, n=20, method="inclusive")
    given = host_only / schedule.makespan(problem)
    tick_ns = problem.tick_ns
    return Sampled(
        # What the plan says without noise lies within, whatever the sample.
        host_only_ns_quartiles=(min(lower, host_only) * tick_ns, max(upper, host_only) * tick_ns),
        speedup_range=(min(low, given), max(high, given)),
        robust_share=robust / tried if tried else None,
        samples=len(host_times),
        solved=tried,
    )


def _best(problem: Problem, chosen: Schedule, seed: int, left_s: float) -> int | None:
    """Return the least makespan of a sample, or None if there is no time to find it."""
    from cimplan.partition.methods import solve

    if left_s <= 0:
        return None
    found = solve(problem, "exact", seed=seed, time_limit_s=left_s, warm_start=chosen)
    if found.schedule is None or found.status != "optimal":
        return None
    return found.schedule.makespan(problem)


def _factors(profile: HostProfile) -> tuple[_Factor, dict[str, _Factor]] | None:
    """Return the spread common to all operators and that of each; None where none was measured."""
    measurement = profile.measurement
    if profile.origin != "measured" or measurement is None or measurement.runs < 2:
        return None
    common = _Factor.of(measurement.unprofiled or measurement.profiled, 0.0)
    own = {
        name: _Factor.of(timing.raw, measurement.resolution_ns)
        for name, timing in profile.times.items()
        if timing.raw is not None
    }
    return common, own


def _samples(
    costed: CostedNetwork, problem: Problem, factors: tuple[_Factor, dict[str, _Factor]], seed: int
) -> Iterator[tuple[Problem, Problem]]:
    """Yield the problem without and with the user's fixed places, with other times on the host, again and again."""
    generator = random.Random(seed)
    common, own = factors
    steady = _Factor(0.0, 0.0, 1.0)
    while True:
        shared = common.draw(generator)
        drawn = [shared * own.get(name, steady).draw(generator) for name in problem.names]
        base, noisy = (_with_host_times(one, drawn) for one in (costed.problem, problem))
        if base is None or noisy is None:
            return
        yield base, noisy


def _with_host_times(problem: Problem, factors: list[float]) -> Problem | None:
    """Return the problem with the host times of each operator multiplied; None if the solvers' clock is too short."""
    options = tuple(
        tuple(
            replace(option, duration=max(1, round(option.duration * factor)))
            if option.place == HOST and option.duration
            else option
            for option in choices
        )
        for choices, factor in zip(problem.options, factors, strict=True)
    )
    horizon = sum(max(option.duration for option in choices) for choices in options)
    if horizon + sum(edge.transfer for edge in problem.dependencies) > HORIZON_LIMIT_TICKS:
        return None
    return replace(problem, options=options)
