"""How far any plan can get with a number of crossbars, whatever the accelerator's speed: bounds by the host's work.

On one host core the makespan is at least the time of the operators that stay on the host. So the speed-up over the
host alone is at most 1 / (1 - p), where p is the largest share of the host's time that fits into the crossbars
(Amdahl's law): a knapsack, solved exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def most_value(values: Sequence[float], crossbars: Sequence[int], budget: int) -> float:
    """Return the largest sum of values of items whose crossbars fit a budget.

    Parameters
    ----------
    values : sequence of float
        Not negative, such as host time or multiply-accumulates.
    crossbars : sequence of int
        Of each item, not negative.
    budget : int
        Crossbars available.

    Returns
    -------
    float
        Exact in the arithmetic of the values: integers stay exact.
    """
    best: list[float] = [0] * (budget + 1)
    for value, size in zip(values, crossbars, strict=True):
        for room in range(budget, size - 1, -1):
            best[room] = max(best[room], best[room - size] + value)
    return best[budget]


def amdahl_bound(share: float) -> float:
    """Return the largest speed-up if a share of the time vanishes; infinite if all of it does."""
    return math.inf if share >= 1 else 1 / (1 - share)


def least_unevenness(share_of_work: float, speedup: float) -> float:
    """Return how uneven a host must be for a speed-up to be possible at all.

    Let r_v be the host time per multiply-accumulate of a supported operator v, between r_min and r_max. With at most
    a share m of the multiply-accumulates offloaded, operators that stay take at least (1 - m)·r_min and those that
    leave took at most m·r_max, so speedup <= 1 + (m·r_max) / ((1 - m)·r_min): time of other operators only lowers it.
    Solved for r_max / r_min.

    Parameters
    ----------
    share_of_work : float
        Largest share m of the multiply-accumulates that fits the crossbars.
    speedup : float
        Speed-up that is to be explained.

    Returns
    -------
    float
        Least r_max / r_min, at least 1; infinite if nothing fits and the speed-up is above 1.
    """
    if speedup <= 1:
        return 1.0
    if share_of_work <= 0:
        return math.inf
    return max(1.0, (speedup - 1) * (1 - share_of_work) / share_of_work)
