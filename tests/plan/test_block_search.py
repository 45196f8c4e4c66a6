"""The search finds a schedule that no point covers exactly where there is one."""

from __future__ import annotations

import itertools
import random

import pytest
from naive_certificate import schedules
from oracle import random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan.block_search import BlockProblem, find_uncovered
from cimplan.plan.certificate import Point
from cimplan.plan.effort import Effort, OutOfEffortError


def random_block(rng: random.Random) -> tuple[Problem, int | None]:
    """Return a problem of a few operators, mostly on the host, and the operator that ends it, if any."""
    base = random_problem(
        rng, flavour=rng.choice(["plain", "zero", "host-heavy", "options"]), operators=rng.randint(2, 5)
    )
    edges = {(edge.source, edge.target): rng.choice([0, 1, 4, 9]) for edge in base.dependencies}
    options = [tuple(Option(o.place, min(o.duration, 12), o.crossbars, o.label) for o in some) for some in base.options]
    end = None
    if rng.random() < 0.5:
        end = len(options)
        options.append((Option(rng.choice([HOST, CIM]), rng.randint(0, 5), 0),))
        for v in range(end):
            edges.setdefault((v, end), rng.choice([0, 3]))
    dependencies = tuple(Dependency(u, v, t) for (u, v), t in sorted(edges.items()))
    names = tuple(f"n{v}" for v in range(len(options)))
    return Problem(names, tuple(options), dependencies, base.budget), end


def everything(problem: Problem, end: int | None) -> set[tuple[int, int, int, int]]:
    found = set()
    for picked in itertools.product(*problem.options):
        found |= schedules(problem, dict(enumerate(picked)), None, None, end)
    return found


def covered(schedule: tuple[int, ...], points: list[Point]) -> bool:
    return any(
        p.crossbars <= schedule[0] and p.time <= schedule[1] and p.host_time <= schedule[2] and p.lead <= schedule[3]
        for p in points
    )


def test_a_counterexample_is_found_exactly_where_there_is_one() -> None:
    rng = random.Random(12)
    verdicts = {True: 0, False: 0}
    for _ in range(500):
        problem, end = random_block(rng)
        known = everything(problem, end)
        points = [
            Point(*s)
            for s in known
            if not any(t != s and all(x <= y for x, y in zip(t, s, strict=True)) for t in known)
        ]
        for _ in range(rng.choice([0, 1, 1, 1])):  # disturb the true front
            index = rng.randrange(len(points))
            numbers = [points[index].crossbars, points[index].time, points[index].host_time, points[index].lead]
            numbers[rng.randrange(4)] += rng.choice([1, 1, 2, -1])
            points[index] = Point(*numbers)
        most = rng.choice([0, 2, 5, 10**6])
        block = BlockProblem(
            problem.options,
            tuple((edge.source, edge.target, edge.transfer) for edge in problem.dependencies),
            (),
            end is not None,
        )
        found = find_uncovered(block, points, most, Effort(100_000))
        missed = [s for s in known if s[0] <= most and not covered(s, points)]
        assert (found is not None) == bool(missed), (problem, end, points, most, found, missed)
        verdicts[found is not None] += 1
        if found is not None:
            assert (found.crossbars, found.time, found.host_time, found.lead) in known
    assert min(verdicts.values()) > 100


def test_both_orders_of_two_operators_are_tried() -> None:
    # Whichever goes first, the other waits; the tail behind b makes b first the better order.
    options = ((Option(HOST, 4),), (Option(HOST, 3),), (Option(CIM, 6, 1),))
    block = BlockProblem(options, ((1, 2, 0),), (), False)
    assert find_uncovered(block, [Point(1, 9, 7, 0)], 9, Effort(100)) is None
    found = find_uncovered(block, [Point(1, 10, 7, 0)], 9, Effort(100))
    assert found is not None
    assert found.time == 9


def test_the_order_that_looks_worse_is_tried_as_well() -> None:
    # b waits 2 for crossbars and has a long tail, so b before a is faster; a before b occupies the host from 0 on.
    options = ((Option(HOST, 4),), (Option(CIM, 2, 1),), (Option(HOST, 3),), (Option(CIM, 6, 1),))
    block = BlockProblem(options, ((1, 2, 0), (2, 3, 0)), (), False)
    assert find_uncovered(block, [Point(2, 11, 7, 2), Point(2, 13, 7, 0)], 9, Effort(100)) is None
    found = find_uncovered(block, [Point(2, 11, 7, 2)], 9, Effort(100))
    assert found is not None
    assert (found.time, found.lead) == (13, 0)


def test_the_transfer_from_the_start_cut_counts_only_between_places() -> None:
    options = ((Option(HOST, 4), Option(CIM, 4, 1)),)
    block = BlockProblem(options, (), ((0, CIM, 5),), False)
    assert find_uncovered(block, [Point(0, 9, 4, 5), Point(1, 4, 0, 4)], 9, Effort(100)) is None
    found = find_uncovered(block, [Point(0, 9, 4, 5), Point(1, 5, 0, 4)], 9, Effort(100))
    assert found is not None
    assert (found.crossbars, found.time) == (1, 4)


def test_the_search_stops_when_its_nodes_are_used_up() -> None:
    options = tuple((Option(HOST, 1 + v), Option(CIM, 9, 1)) for v in range(8))
    effort = Effort(5)
    with pytest.raises(OutOfEffortError):
        find_uncovered(BlockProblem(options, (), (), False), [Point(0, 20, 36, 0)], 9, effort)
    assert effort.nodes == 0
