"""The time limit of the exact method, and the one around it."""

from __future__ import annotations

import time

from cimplan import limits
from cimplan.limits import OutOfTimeError

__all__ = ["OutOfTimeError", "watch"]


def watch(deadline: float | None) -> None:
    """Raise if a `time.perf_counter` has passed, or the deadline that counts here.

    Raises
    ------
    OutOfTimeError
        If so.
    """
    if deadline is not None and time.perf_counter() > deadline:
        raise OutOfTimeError
    limits.watch()
