"""The run time of a segment as a function of how many arrays are in memory mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cimplan.dualmode.rates import NEVER, Level

Cycles = NDArray[np.int64]


def best_curve(levels: Sequence[Level], moving: Cycles, arrays: int) -> Cycles:
    """Return the least T + T_write for each number of arrays in memory mode.

    Parameters
    ----------
    levels : sequence of Level
        Ways to compute, with growing arrays.
    moving : ndarray of int64
        Shortest run time for 0, 1, … arrays in memory mode, moving data alone; not growing.
    arrays : int
        N, arrays of the chip.

    Returns
    -------
    ndarray of int64
        Cycles for 0, 1, … `len(moving) - 1` arrays in memory mode; `NEVER` where the segment does not fit.
    """
    curve = np.full(len(moving), NEVER, dtype=np.int64)
    for level in levels:
        most = min(arrays - level.arrays, len(moving) - 1)
        if most < 0:
            break
        upto = slice(0, most + 1)
        np.minimum(curve[upto], np.maximum(moving[upto], level.cycles) + level.write_cycles, out=curve[upto])
    curve[curve >= NEVER] = NEVER
    return curve


def best_level(levels: Sequence[Level], moving: int, memory_mode: int, arrays: int) -> Level:
    """Return the way to compute that reaches the curve at `memory_mode`; of equal ones that with fewest arrays."""
    fitting = [level for level in levels if level.arrays <= arrays - memory_mode]
    return min(fitting, key=lambda level: (max(moving, level.cycles) + level.write_cycles, level.arrays))
