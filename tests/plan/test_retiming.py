"""Re-timing after a move gives what a replay of the moved schedule gives."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from oracle import brute_force, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan.lanes import lanes
from cimplan.plan.replay import replay
from cimplan.plan.retiming import Move, makespans_after
from cimplan.plan.schedule import Schedule
from cimplan.plan.structure import host_only_makespan, regions


def test_every_move_agrees_with_a_replay_of_the_moved_schedule() -> None:
    rng = random.Random(11)
    compared = 0
    for _ in range(150):
        problem = random_problem(rng, operators=rng.randint(1, 7), host_cores=rng.choice([1, 1, 2, 3]))
        schedule = brute_force(problem)
        if schedule is None:
            continue
        moves = [Move(v, number) for v, options in enumerate(problem.options) for number in range(len(options))]
        for move, makespan in zip(moves, makespans_after(problem, schedule, moves), strict=True):
            chosen = list(schedule.chosen)
            chosen[move.operator] = move.option
            assert makespan == replay(problem, Schedule(tuple(chosen), schedule.start)).makespan
            compared += 1
    assert compared > 500


def test_more_moves_than_one_pass_takes() -> None:
    count = 700
    problem = Problem(
        tuple(f"n{v}" for v in range(count)),
        ((Option(HOST, 3), Option(CIM, 1, 1)),) * count,
        tuple(Dependency(v, v + 1, 1) for v in range(count - 1)),
        budget=0,
    )
    schedule = Schedule((0,) * count, tuple(3 * v for v in range(count)))
    moves = [Move(v, 1) for v in range(count)]
    # One operator moved saves 2 ticks; a transfer at each side costs 1, and the ends have only one side.
    assert makespans_after(problem, schedule, moves) == [3 * count - 1] + [3 * count] * (count - 2) + [3 * count - 1]


def test_lanes_are_as_few_as_the_most_bars_at_once() -> None:
    rng = random.Random(2)
    for _ in range(200):
        bars = []
        for _ in range(rng.randint(0, 12)):
            start = rng.randint(0, 10)
            bars.append((start, start + rng.randint(0, 5)))
        found = lanes(bars)
        for lane in set(found):
            mine = sorted(bar for bar, number in zip(bars, found, strict=True) if number == lane)
            assert all(end <= start for (_, end), (start, _) in pairwise(mine))
        most = max((sum(begin <= moment < end for begin, end in bars) for moment, _ in bars), default=0)
        assert len({number for number, (start, end) in zip(found, bars, strict=True) if end > start}) <= max(most, 0)


def test_regions_are_connected_groups_of_one_place() -> None:
    problem = Problem(
        tuple("abcdef"),
        ((Option(HOST, 1),),) * 6,
        (Dependency(0, 1, 0), Dependency(0, 2, 0), Dependency(1, 3, 0), Dependency(2, 3, 0), Dependency(4, 5, 0)),
        0,
    )
    found = regions(problem, [HOST, CIM, HOST, HOST, CIM, CIM])
    assert [(region.place, region.operators) for region in found] == [(HOST, (0, 2, 3)), (CIM, (1,)), (CIM, (4, 5))]


def test_the_host_alone_takes_the_sum_on_one_core_and_at_least_a_share_on_several() -> None:
    rng = random.Random(4)
    for _ in range(100):
        problem = random_problem(rng, operators=rng.randint(1, 9))
        total = host_only_makespan(problem)
        if total is None:
            assert any(all(option.place != HOST for option in options) for options in problem.options)
            continue
        only = replace(
            problem,
            options=tuple(
                (min((o for o in options if o.place == HOST), key=lambda o: o.duration),) for options in problem.options
            ),
            budget=10**6,
        )
        order = replay(only, Schedule((0,) * len(only), tuple(range(len(only)))))
        assert order.makespan == total
        for cores in (2, 3):
            several = host_only_makespan(replace(only, host_cores=cores))
            assert several is not None
            assert -(-total // cores) <= several <= total
