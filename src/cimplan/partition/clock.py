"""The time limit of the exact method."""

from __future__ import annotations

import time


class OutOfTimeError(Exception):
    """The time limit has passed; caught inside the exact method."""


def watch(deadline: float | None) -> None:
    """Raise if a `time.perf_counter` has passed.

    Raises
    ------
    OutOfTimeError
        If so.
    """
    if deadline is not None and time.perf_counter() > deadline:
        raise OutOfTimeError
