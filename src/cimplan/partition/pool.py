"""Host work that flows into idle time in pieces: how much of it is done when.

Part of a pool waits for something else first; such parts are given as pairs of ready time and work, one after the
other. `busy` is the time at which a host that never waited could have done the pool.
"""

from __future__ import annotations

from collections.abc import Sequence


def filled(free: int, until: int, busy: int, delayed: Sequence[int]) -> int:
    """Return how much of the pool runs while the host waits from `free` until `until`."""
    pairs = sorted((delayed[i], delayed[i + 1]) for i in range(0, len(delayed), 2) if delayed[i + 1])
    at_hand = busy - free - sum(work for _, work in pairs)
    now, done = free, 0
    for ready, work in pairs:
        if ready >= until:
            break
        run = min(at_hand, ready - now)
        done += run
        at_hand += work - run
        now = ready
    return done + min(at_hand, until - now)


def pool_done(busy: int, delayed: Sequence[int]) -> int:
    """Return when a host that does nothing else has done the pool."""
    done = busy
    for i in range(0, len(delayed), 2):
        if delayed[i + 1]:
            late = sum(delayed[j + 1] for j in range(0, len(delayed), 2) if delayed[j] >= delayed[i])
            done = max(done, delayed[i] + late)
    return done
