"""Python's cyclic garbage collector, which has nothing to do during a search but would look at every label for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector: partial schedules refer to those they come from, never in a circle.

    Without a pause, a search with many labels takes half as long again.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
