"""A part of the corpus through the commands; all of it runs with ``python benchmarks/corpus.py``."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import pytest
from onnx_cases import CONSTANTS, cases
from through import COMMANDS, own_cache, run_all

PINNED = "1.23.2"
EVERY = 127
"""Of the corpus in alphabetical order; a prime, so that neighbours of one operator are not all left out."""

_ENOUGH_S = 60

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def corpus() -> dict[str, onnx.ModelProto]:
    return dict(sorted(cases()))


@contextmanager
def time_guard(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.skipif(onnx.__version__ != PINNED, reason="the corpus is counted for the release of the lock file")
def test_the_corpus_is_all_there(corpus):
    counted = Counter((name.split("/")[0], name.endswith(CONSTANTS)) for name in corpus)
    assert counted == {("file", False): 149, ("file", True): 24, ("node", False): 1884, ("node", True): 1355}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the time guard needs alarms")
def test_models_of_the_corpus_are_planned_or_refused_with_a_reason(corpus, tmp_path):
    chosen = list(corpus)[::EVERY]
    outcomes = Counter()
    faults = []
    path = tmp_path / "model.onnx"
    for name in chosen:
        path.write_bytes(corpus[name].SerializeToString(deterministic=True))
        with own_cache(tmp_path / "cache"), time_guard(_ENOUGH_S):
            found = list(run_all(path, tmp_path))
        assert [outcome.command for outcome in found] == list(COMMANDS)
        outcomes.update((outcome.command, outcome.outcome) for outcome in found)
        faults += [f"{name}: {outcome}" for outcome in found if outcome.outcome == "fault"]
    assert faults == []
    # Most can be read, and some of them hold matrix work: a reader that refuses everything must not pass.
    assert outcomes["inspect", "done"] > 0.8 * len(chosen)
    assert outcomes["partition", "done"] > 0.8 * len(chosen)
    assert outcomes["compile", "done"] >= 3
    assert outcomes["quantize", "done"] >= 1


def test_a_fault_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The harness itself: an untyped error and a result that contradicts itself are faults."""
    from cimplan.cli import app
    from cimplan.errors import InputError

    def run_with(body):
        monkeypatch.setattr(app, "_run_command", body)
        (tmp_path / "model.onnx").write_bytes(b"")
        with own_cache(tmp_path / "cache"):
            return next(iter(run_all(tmp_path / "model.onnx", tmp_path)))

    def untyped():
        raise KeyError("x")

    def refused():
        raise InputError("it has a wrong 'name' of 17 elements", why="so it is")

    def contradicts():
        print('{"operators": [{"name": "a", "crossbars": null, "reason": "", "macs": 0, "weight_bytes": 0}]}')

    assert run_with(untyped).outcome == "fault"
    assert run_with(contradicts).outcome == "fault"
    found = run_with(refused)
    assert (found.outcome, found.reason) == ("refused", "it has a wrong … of n elements: so it is")
