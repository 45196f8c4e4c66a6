"""The run time of a segment as a function of how many arrays are in memory mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cimplan.dualmode.rates import NEVER, Level

Cycles = NDArray[np.int64]


def best_curve(levels: Sequence[Level], memory: Sequence[int], arrays: int) -> Cycles:
    """Return the least T + T_write for each number of arrays in memory mode.

    Parameters
    ----------
    levels : sequence of Level
        Ways to compute, with growing arrays.
    memory : sequence of int
        Shortest run time for 0, 1, … arrays in memory mode, moving data alone; not growing.
    arrays : int
        N, arrays of the chip.

    Returns
    -------
    ndarray of int64
        Cycles for 0, 1, … `len(memory) - 1` arrays in memory mode; `NEVER` where the segment does not fit.
    """
    moving = np.asarray(memory, dtype=np.int64)
    curve = np.full(len(memory), NEVER, dtype=np.int64)
    for level in levels:
        most = min(arrays - level.arrays, len(memory) - 1)
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
