"""Which runs other work has disturbed, on records of runs that were taken on quiet and on busy machines."""

from __future__ import annotations

import pytest

from cimplan.cost.disturbance import Block, best_reference, judge

MS = 1e6


def block(kind, runs, reference=0.5 * MS):
    """Return a block of runs given as (wall, waited) in milliseconds."""
    return Block(kind, [wall * MS for wall, _ in runs], [waited * MS for _, waited in runs], reference)


# Taken on two cores, ResNet-18 in int8: alone, with two busy processes beside it, with a neighbour on the same core.
QUIET = [(9.98, 0.003), (9.97, 0.001), (10.23, 0.05), (10.04, 0.002), (10.29, 0.03), (9.88, 0.0)]
SHARED = [(22.7, 11.9), (17.2, 7.9), (22.8, 12.0), (21.1, 9.9), (18.1, 8.0), (24.1, 12.6)]
NEIGHBOUR = [(14.24, 0.01), (13.72, 0.01), (14.22, 0.1), (13.87, 0.02), (14.11, 0.0), (14.3, 0.01)]


def test_quiet_runs_all_count():
    verdict = judge([block("plain", QUIET), block("profiled", SHARED)], "plain", 6)
    assert verdict.chosen == [0, 1, 2, 3, 4, 5]
    assert (verdict.undisturbed, verdict.reason) == (6, "")


def test_runs_that_all_wait_alike_are_disturbed():
    verdict = judge([block("plain", [(22.0, 11.0)] * 40)], "plain", 40)
    assert verdict.undisturbed == 0
    assert verdict.reason == "runs waited for a processor for 50 % of their time"


@pytest.mark.parametrize("first", [True, False])
def test_load_that_comes_or_goes_leaves_the_quiet_half(first):
    blocks = [block("plain", QUIET), block("plain", SHARED)]
    verdict = judge(blocks if first else blocks[::-1], "plain", 12)
    assert verdict.chosen == (list(range(6)) if first else list(range(6, 12)))
    assert verdict.reason == ""


def test_a_slow_down_without_waiting_shows_in_the_reference_loop():
    slow = [block("plain", NEIGHBOUR, 0.83 * MS)]
    assert judge(slow, "plain", 6).reason == ""  # nothing faster is known
    verdict = judge(slow, "plain", 6, known_ns=0.5 * MS)
    assert (verdict.undisturbed, verdict.reason) == (0, "the processor was 66 % slower than at its best")
    both = judge([*slow, block("plain", QUIET)], "plain", 6)
    assert (both.chosen, both.reason) == ([6, 7, 8, 9, 10, 11], "")


def test_what_cannot_be_known_is_not_held_against_a_run():
    bare = Block("plain", [10 * MS, 10.2 * MS, 10.1 * MS])
    assert judge([bare], "plain", 3).reason == ""
    assert best_reference([bare]) == 0


def test_runs_without_a_cause_that_differ_too_much_are_disturbed():
    walls = [10, 10, 10, 14, 14, 14, 14, 14]
    verdict = judge([block("plain", [(wall, 0) for wall in walls])], "plain", 8)
    assert "1.40 times" in verdict.reason
    # The shortest networks always differ.
    assert judge([block("plain", [(wall / 1000, 0) for wall in walls])], "plain", 8).reason == ""


def test_fewer_undisturbed_runs_than_wanted_are_enough_unless_the_user_counts():
    runs = [*SHARED, *QUIET]
    assert judge([block("plain", runs)], "plain", 12).chosen == [6, 7, 8, 9, 10, 11]
    assert judge([block("plain", runs)], "plain", 12, exactly=True).chosen == list(range(12))
    assert judge([block("plain", runs)], "plain", 12, exactly=True).reason != ""
    few = judge([block("plain", [*SHARED, *QUIET[:4]])], "plain", 12)
    assert few.reason != ""
    assert len(few.chosen) == 10
    assert judge([block("plain", [*SHARED, QUIET[0]])], "plain", 1).chosen == [6]
