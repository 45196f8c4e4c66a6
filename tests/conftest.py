"""What tests of several rooms share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Notice Ctrl-C as usual, also where the tests run in the background of a shell that lets them ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the user's cache out of the tests; workers of one run share a cache of their own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "cimplan-cache"
    before = os.environ.get("CIMPLAN_CACHE_DIR")
    os.environ["CIMPLAN_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["CIMPLAN_CACHE_DIR"]
    else:
        os.environ["CIMPLAN_CACHE_DIR"] = before
