"""The replay reproduces optimal makespans to the tick and never starts anything later than the schedule."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import brute_force, faults, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InternalError
from cimplan.plan.check import check
from cimplan.plan.replay import BusTransfer, replay
from cimplan.plan.schedule import Schedule


def test_what_happens_on_the_machine_is_recorded() -> None:
    problem = Problem(
        names=("load", "conv", "add"),
        options=((Option(HOST, 5),), (Option(CIM, 4, 3),), (Option(HOST, 2),)),
        dependencies=(Dependency(0, 1, 7, 70), Dependency(0, 2, 1, 10), Dependency(1, 2, 6, 60)),
        budget=5,
    )
    happened = replay(problem, Schedule((0, 0, 0), (3, 100, 200)))  # only choices and order count
    assert happened.schedule.start == (0, 12, 22)
    assert happened.finish == (5, 16, 24)
    assert happened.makespan == 24
    assert happened.core == (0, -1, 0)
    assert happened.transfers == (BusTransfer(0, 1, 5, 12, 70), BusTransfer(1, 2, 16, 22, 60))
    assert happened.host_busy == 7


def test_the_host_keeps_the_order_of_the_schedule() -> None:
    problem = Problem(("a", "b"), ((Option(HOST, 5),), (Option(HOST, 3),)), (), 0)
    assert replay(problem, Schedule((0, 0), (0, 5))).schedule.start == (0, 5)
    assert replay(problem, Schedule((0, 0), (3, 0))).schedule.start == (3, 0)


def test_an_operator_of_no_duration_does_not_wait_for_the_host() -> None:
    problem = Problem(("work", "view"), ((Option(HOST, 5),), (Option(HOST, 0),)), (), 0)
    assert replay(problem, Schedule((0, 0), (0, 5))).schedule.start == (0, 0)


def test_an_order_against_the_dependencies_is_refused() -> None:
    problem = Problem(("a", "b"), ((Option(HOST, 5),), (Option(HOST, 3),)), (Dependency(0, 1, 0),), 0)
    with pytest.raises(InternalError, match="waits for ever for operator 'b'"):
        replay(problem, Schedule((0, 0), (5, 0)))


def test_cores_are_dealt_in_order() -> None:
    problem = Problem(tuple("abcd"), tuple((Option(HOST, d),) for d in (4, 2, 3, 1)), (), 0, host_cores=2)
    happened = replay(problem, Schedule((0, 0, 0, 0), (0, 0, 2, 4)))
    assert happened.schedule.start == (0, 0, 2, 4)
    assert happened.core == (0, 1, 1, 0)


@pytest.mark.parametrize("cores", [1, 2])
def test_the_replay_of_an_optimum_ends_on_the_same_tick(cores: int) -> None:
    rng = random.Random(cores)
    for _ in range(60):
        problem = random_problem(rng, operators=rng.randint(1, 6), host_cores=cores)
        schedule = brute_force(problem)
        if schedule is None:
            continue
        happened = replay(problem, schedule)
        assert happened.makespan == schedule.makespan(problem)
        assert check(problem, happened.schedule, status="optimal", lower_bound=happened.makespan).passed


@settings(deadline=None, max_examples=200)
@given(problem=problems(7, max_cores=3), data=st.data())
def test_nothing_starts_later_than_in_the_schedule(problem: Problem, data: st.DataObject) -> None:
    chosen = tuple(data.draw(st.integers(0, len(options) - 1)) for options in problem.options)
    # A wasteful valid schedule: operators one after the other, with pauses.
    now, start = 0, []
    longest = max((edge.transfer for edge in problem.dependencies), default=0)
    for options, choice in zip(problem.options, chosen, strict=True):
        now += longest + data.draw(st.integers(0, 3))
        start.append(now)
        now += options[choice].duration
    schedule = Schedule(chosen, tuple(start))
    happened = replay(problem, schedule)
    assert all(new <= old for new, old in zip(happened.schedule.start, start, strict=True))
    assert [fault for fault in faults(problem, happened.schedule) if fault != "budget"] == []
    assert replay(problem, happened.schedule) == happened, "a replayed schedule replays to itself"
