"""Whether other work has slowed a measurement, and which of its runs it has left alone.

Wall time alone cannot tell: when every run is slowed alike, the runs agree. Three signs are looked at.

1. A run that waits for a processor takes more wall time than processor time. This finds everything that shares the
   core, and what a hypervisor steals.
2. A reference loop of fixed work is timed around every block of runs. Where it is slower than at its best, all that
   runs is slowed without waiting: by another thread of the same core, a lower clock, a full cache. The best is that of
   the same measurement, or one known from earlier on this machine.
3. The runs that are left differ by more than a quiet machine's do.

Nothing beyond the standard library is imported: the program that `cimplan profile --script` writes holds this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WAITED = 0.02
"""Share of a run's wall time that it may wait for a processor and count as undisturbed."""

WAIT_RESOLUTION_NS = 10_000.0
"""What two clocks may differ by in a run."""

MOST_SLOWED = 0.15
"""How much slower than at its best the reference loop may be, as a share."""

MOST_SPREAD = 1.25
"""Upper quartile over lower quartile of the runs of a quiet machine."""

SPREAD_RESOLUTION_NS = 100_000.0
"""Quartiles that are nearer to each other say nothing: so much differs between runs of the shortest networks."""

LEAST_UNDISTURBED = 5
"""Runs of each kind that must be undisturbed, where as many are asked for."""


@dataclass
class Block:
    """Runs of one kind, one after another.

    Attributes
    ----------
    kind : {"original", "profiled", "plain"}
        What ran: the model as it is, or the optimised graph with and without the profiler.
    wall_ns : list of float
        Wall time of each run.
    waited_ns : list of float
        Of it, the time in which the run had no processor although it wanted one; empty if that is not known.
    reference_ns : float
        Time of the reference loop, the worse of before and after the block; 0 if it is not known.
    """

    kind: str
    wall_ns: list[float] = field(default_factory=list)
    waited_ns: list[float] = field(default_factory=list)
    reference_ns: float = 0.0


@dataclass
class Verdict:
    """What became of the runs of one kind.

    Attributes
    ----------
    chosen : list of int
        Runs to use, numbered over all blocks of the kind: undisturbed ones where there are enough, else the least
        disturbed.
    undisturbed : int
        How many runs nothing has disturbed.
    reason : str
        Why the chosen runs are disturbed, for a person; empty if they are not.
    """

    chosen: list[int]
    undisturbed: int
    reason: str


def best_reference(blocks: Sequence[Block], known_ns: float = 0.0) -> float:
    """Return the least time of the reference loop, in the blocks or known from earlier; 0 if there is none."""
    return min((time for time in (known_ns, *(block.reference_ns for block in blocks)) if time > 0), default=0.0)


def judge(blocks: Sequence[Block], kind: str, count: int, *, known_ns: float = 0.0, exactly: bool = False) -> Verdict:
    """Choose the runs of one kind to use.

    Parameters
    ----------
    blocks : sequence of Block
        All blocks of the measurement.
    kind : str
        Of the runs to choose.
    count : int
        How many to choose at most.
    known_ns : float
        Best time of the reference loop known from earlier, 0 if none is.
    exactly : bool
        Whether to choose as many even where fewer are undisturbed, but enough.
    """
    best = best_reference(blocks, known_ns)
    found: list[tuple[float, float, float, float]] = []  # waited, slowed, both in units of what is allowed; wall
    for block in blocks:
        if block.kind != kind:
            continue
        slowed = block.reference_ns / best - 1 if best and block.reference_ns else 0.0
        for run, wall in enumerate(block.wall_ns):
            waited = block.waited_ns[run] if block.waited_ns else 0.0
            allowed = max(MOST_WAITED * wall, WAIT_RESOLUTION_NS)
            found.append((max(waited / allowed, slowed / MOST_SLOWED), waited / max(wall, 1.0), slowed, wall))
    order = sorted(range(len(found)), key=lambda run: (max(found[run][0], 1.0), run))
    undisturbed = sum(entry[0] <= 1 for entry in found)
    enough = undisturbed >= min(count, LEAST_UNDISTURBED)
    chosen = sorted(order[: min(count, undisturbed) if enough and not exactly else count])
    return Verdict(chosen, undisturbed, _reason([found[run] for run in chosen], undisturbed, count))


def _reason(chosen: Sequence[tuple[float, float, float, float]], undisturbed: int, count: int) -> str:
    if not chosen:
        return "there are no runs"
    if undisturbed < min(count, LEAST_UNDISTURBED):
        waited, slowed = (median(entry[part] for entry in chosen) for part in (1, 2))
        if waited / MOST_WAITED >= slowed / MOST_SLOWED:
            return f"runs waited for a processor for {100 * waited:.0f} % of their time"
        return f"the processor was {100 * slowed:.0f} % slower than at its best"
    walls = sorted(entry[3] for entry in chosen)
    lower, upper = walls[len(walls) // 4], walls[-1 - len(walls) // 4]
    if upper > MOST_SPREAD * lower and upper - lower > SPREAD_RESOLUTION_NS:
        return f"a quarter of the runs took more than {upper / lower:.2f} times what the fastest quarter took"
    return ""
