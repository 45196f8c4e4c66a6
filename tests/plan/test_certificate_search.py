from __future__ import annotations

import itertools
import random
from dataclasses import replace
from operator import le
from typing import Any

import pytest
from naive_certificate import fronts, long_fillers, naive_certificate
from oracle import brute_force, optimum, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan import certificate_check
from cimplan.plan.certificate import Block, Certificate, FillerGroup
from cimplan.plan.certificate_check import verify_certificate
from cimplan.plan.certificate_fold import Label, labels_before
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.certificate_search import Position, ends_early, undominated
from cimplan.plan.certificate_suffix import Soonest, Suffix, TradeOff, TradeOffs
from cimplan.plan.effort import Effort, OutOfEffortError


def cases(seed: int, count: int, most: int = 7) -> list[tuple[Problem, int, Certificate]]:
    """Return problems, their optima, and certificates that claim more than that."""
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        problem = random_problem(rng, operators=rng.randint(1, most))
        best = optimum(problem)
        if best is not None:
            found.append((problem, best, naive_certificate(problem, rng, best + 1, exhausted=True)))
    return found


def test_the_optimum_is_verified_and_one_tick_more_is_refuted() -> None:
    closed = 0
    for problem, best, certificate in cases(5, 300):
        above = verify_certificate(problem, certificate)
        at = verify_certificate(problem, replace(certificate, lower_bound=best))
        assert above.bound <= best
        assert at.verdict != "refuted"
        if certificate.dropped:  # then no schedule is at hand to refute the claim with
            assert above.verdict == "incomplete"
        else:
            assert above.verdict == "refuted"
            assert f"a schedule ends after {best} ticks" in above.notes[0]
            assert at.verified
        closed += at.verified and "a search" in at.notes[-1]
    assert closed > 40, "the fold alone would have proven almost everything"


def long_cases(seed: int, count: int) -> list[tuple[Problem, int, Certificate]]:
    """Return the same with fillers that are often longer than the spine keeps the host waiting."""
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        problem, role = long_fillers(rng)
        best = optimum(problem)
        if best is not None:
            found.append((problem, best, naive_certificate(problem, rng, best + 1, exhausted=True, role=role)))
    return found


@pytest.mark.parametrize("kind", ["any", "long"])
def test_whatever_a_search_leaves_pooled_it_finds_an_end_no_later_than_the_optimum(kind: str) -> None:
    rng = random.Random(9)
    proven = pools = 0
    for problem, best, certificate in cases(6, 200) if kind == "any" else long_cases(7, 600):
        for first in range(len(certificate.blocks)):
            parts = Parts(problem, certificate)
            effort = Effort(20_000)
            labels = labels_before(parts, first, effort)
            pooled = {
                v
                for group in parts.groups
                for v in group.operators
                if group.released >= first
                and [option.place for option in problem.options[v]] == [HOST]
                and rng.random() < 0.6
            }
            end = ends_early(parts, first, pooled, labels, effort)
            assert end is not None
            assert end <= best
            lower = Parts(problem, replace(certificate, lower_bound=end))
            assert ends_early(lower, first, pooled, labels, effort) is None
            proven += first > 0 and end == best
            pools += bool(pooled)
    assert proven > 100, "searches that begin late would prove nothing"
    assert pools > 50


@pytest.mark.parametrize(("lead", "best", "pooled"), [(2, 13, 13), (6, 13, 13), (7, 14, 13), (9, 16, 13), (20, 26, 22)])
def test_pooled_work_fills_pauses_and_is_done_before_the_cut_that_needs_it(lead: int, best: int, pooled: int) -> None:
    # a -> b, a pause of 10 -> c -> z, and a -> lead -> work, four ticks of the host -> z
    options = (host(1), (Option(CIM, 10, 1),), host(1), (Option(CIM, lead, 1),), host(4), host(1))
    edges = ((0, 1), (0, 3), (1, 2), (2, 5), (3, 4), (4, 5))
    problem = Problem(("a", "b", "c", "lead", "work", "z"), options, tuple(Dependency(u, v, 0) for u, v in edges), 2)
    group = FillerGroup((3, 4), False)
    certificate = Certificate(99, 2, (0, 1, 2, 5), (Block("chain"),) * 5, (group,), (), exhausted=True)
    assert optimum(problem) == best

    def end(problem: Problem, pool: set[int]) -> int | None:
        parts = Parts(problem, certificate)
        return ends_early(parts, 1, pool, labels_before(parts, 1, Effort(100)), Effort(1000))

    assert end(problem, set()) == best
    assert end(problem, {4}) == pooled  # in pieces, and perhaps before `lead` is done, but not after z starts
    longer = replace(problem, options=(*options[:4], host(40), options[5]))
    assert end(longer, {4}) == 1 + 40 + 1 + 1


def host(duration: int) -> tuple[Option, ...]:
    return (Option(HOST, duration),)


def head(budget: int = 4) -> tuple[Problem, Certificate]:
    """A chain of host and crossbar work, and beside it a head in two pieces that do not fit the host's pauses.

    start -> conv (4) -> mid -> conv (10) -> last, and start -> left (5) -> right (9) -> last: neither piece is longer
    than the longest pause, and so the fold fills both pauses without loss, but a schedule cannot.
    """
    names = ("start", "conv1", "left", "mid", "conv2", "right", "last")
    options = (host(1), (Option(CIM, 4, 1),), host(5), host(1), (Option(CIM, 10, 1),), host(9), host(1))
    edges = ((0, 1), (0, 2), (1, 3), (2, 5), (3, 4), (4, 6), (5, 6))
    problem = Problem(names, options, tuple(Dependency(u, v, 0) for u, v in edges), budget)
    certificate = Certificate(
        0, budget, (0, 1, 3, 4, 6), (Block("chain"),) * 6, (FillerGroup((2, 5), False),), exhausted=True
    )
    return problem, certificate


def test_work_in_one_piece_that_fits_no_pause_costs_time() -> None:
    problem, certificate = head()
    assert optimum(problem) == 18
    fold_only = verify_certificate(problem, replace(certificate, lower_bound=18), search_nodes=0)
    assert (fold_only.verdict, fold_only.bound) == ("incomplete", 17)
    report = verify_certificate(problem, replace(certificate, lower_bound=18))
    assert report.verified
    assert report.notes[-2:] == ("folding gives 17", "a search from block 1 on gives at least 18")
    assert verify_certificate(problem, replace(certificate, lower_bound=19)).verdict == "refuted"
    assert verify_certificate(problem, replace(certificate, lower_bound=18, exhausted=False)).verdict == "refuted"


@pytest.mark.parametrize("passing", [False, True])
@pytest.mark.parametrize("choosing", [False, True])
def test_what_has_begun_keeps_the_host_waiting_longer_than_what_has_not(passing: bool, choosing: bool) -> None:
    # far (50, off the host) and a -> conv (10) -> last, and beside it a filler of 60: it fits beside far and conv.
    filler = (*host(60), *([Option(CIM, 9, 9)] if choosing else []))
    through = host(0) if passing else (Option(CIM, 0),)
    options = (host(1), filler, (Option(CIM, 50),), through, (Option(CIM, 10),), host(1))
    edges = ((0, 1), (0, 3), (2, 3), (3, 4), (4, 5))
    names = ("a", "filler", "far", "through", "conv", "last")
    problem = Problem(names, options, tuple(Dependency(u, v, 0) for u, v in edges), 1)
    blocks = (Block("enumeration", fronts(problem, [0, 3, 4, 5], None, 5)), Block("chain"))
    groups = (FillerGroup((1,), False), FillerGroup((2,), False))
    certificate = Certificate(62, 1, (5,), blocks, groups, exhausted=True)
    assert optimum(problem) == 62
    parts = Parts(problem, certificate)
    assert ends_early(parts, 0, set(), labels_before(parts, 0, Effort(9)), Effort(999)) is None
    parts = Parts(problem, replace(certificate, lower_bound=63))
    assert ends_early(parts, 0, set(), labels_before(parts, 0, Effort(9)), Effort(999)) == 62


def test_what_fillers_delay_is_known_before_they_run() -> None:
    # Pauses of 10, and of 5 seven times, and fillers of 13, 12, 6 and 6 to be fit into them: without knowing that the
    # long ones delay the rest wherever they go, that takes four hundred nodes.
    options = [host(1)]
    for pause in (10, *(5,) * 7):
        options += [(Option(CIM, pause, 1),), host(1)]
    length = len(options)
    options += [host(13), host(12), host(6), host(6)]
    edges = tuple(Dependency(v, v + 1, 0) for v in range(length - 1))
    problem = Problem(tuple(f"op{v}" for v in range(len(options))), tuple(options), edges, 8)
    group = FillerGroup(tuple(range(length, len(options))), True)
    chains = (Block("chain"),) * (length + 1)
    parts = Parts(problem, Certificate(66, 8, tuple(range(length)), chains, (group,), (), exhausted=True))
    labels = {-1: [Label(0, 0, 0)]}
    assert ends_early(parts, 0, set(), labels, Effort(50)) is None
    parts = Parts(problem, replace(parts.certificate, lower_bound=67))
    assert ends_early(parts, 0, set(), labels, Effort(5000)) == 66


def test_too_few_nodes_prove_nothing() -> None:
    problem, certificate = head()
    certificate = replace(certificate, lower_bound=18)
    nodes = verify_certificate(problem, certificate).nodes
    assert verify_certificate(problem, certificate, search_nodes=nodes).verified
    report = verify_certificate(problem, certificate, search_nodes=nodes - 1)
    assert (report.verdict, report.bound) == ("incomplete", 17)
    assert "more nodes" in report.notes[-1]
    parts = Parts(problem, certificate)
    with pytest.raises(OutOfEffortError):
        ends_early(parts, 1, set(), labels_before(parts, 1, Effort(100)), Effort(3))


def test_a_claim_far_too_high_is_refuted_long_before_all_games_are_played() -> None:
    pairs, loose = 20, 20
    cim = (Option(CIM, 9, 1),)
    options = [*([host(1), cim] * pairs), *(host(30 + v) for v in range(loose))]
    names = tuple(f"op{v}" for v in range(len(options)))
    edges = tuple(Dependency(v, v + 1, 0) for v in range(2 * pairs - 1))
    problem = Problem(names, tuple(options), edges, pairs)
    group = FillerGroup(tuple(range(2 * pairs, len(options))), False)
    cuts = tuple(range(2 * pairs))
    certificate = Certificate(2000, pairs, cuts, (Block("chain"),) * (2 * pairs + 1), (group,), (), exhausted=True)
    report = verify_certificate(problem, certificate)
    assert report.verdict == "refuted"
    assert report.nodes < 10_000
    pooled = set(group.operators[1:])
    parts = Parts(problem, certificate)
    effort = Effort(5_000)
    end = ends_early(parts, 0, pooled, labels_before(parts, 0, effort), effort)
    assert end is not None
    assert end < 2000


def test_crossbars_of_a_cut_that_waits_for_the_host_are_spent_once() -> None:
    problem = Problem(("a", "b"), ((Option(HOST, 5, 1),), host(3)), (), 1)
    certificate = Certificate(9, 1, (0,), (Block("chain"),) * 2, (FillerGroup((1,), False),), (), exhausted=True)
    assert optimum(problem) == 8
    assert verify_certificate(problem, certificate).verdict == "refuted"
    assert verify_certificate(problem, replace(certificate, lower_bound=8)).verified


def test_crossbars_of_a_filler_that_only_the_host_runs_are_spent_once() -> None:
    options = ((Option(HOST, 9), Option(CIM, 1)), host(1), (Option(HOST, 1, 1),))
    problem = Problem(("a", "b", "f"), options, (Dependency(0, 1, 0), Dependency(1, 2, 0)), 1)
    certificate = Certificate(4, 1, (0, 1), (Block("chain"),) * 3, (FillerGroup((2,), False),), (), exhausted=True)
    assert optimum(problem) == 3
    assert verify_certificate(problem, certificate).verdict == "refuted"
    assert verify_certificate(problem, replace(certificate, lower_bound=3)).verified


def test_what_the_certificate_names_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, certificate = head()
    tried = []

    def record(parts: Parts, first: int, pooled: set[int], *rest: Any) -> int | None:
        tried.append((first, pooled))
        return ends_early(parts, first, pooled, *rest)

    monkeypatch.setattr(certificate_check, "ends_early", record)
    assert verify_certificate(problem, replace(certificate, lower_bound=18, searched=(2,))).verified
    assert tried == [(1, {5})]
    tried.clear()
    assert verify_certificate(problem, replace(certificate, lower_bound=18)).verified
    assert tried == [(1, {2, 5}), (1, set())]
    tried.clear()
    assert verify_certificate(problem, replace(certificate, lower_bound=19, searched=(5,))).verdict == "refuted"
    assert tried == [(1, {2}), (1, set()), (0, {2}), (0, set())]


def test_a_long_chain_beside_the_host_needs_no_recursion() -> None:
    count = 1200
    problem = Problem(
        tuple(f"op{v}" for v in range(count)),
        tuple((Option(CIM, 2, 0),) for _ in range(count)),
        tuple(Dependency(v, v + 1, 5) for v in range(count - 1)),
        0,
    )
    certificate = Certificate(2 * count, 0, (), (Block("chain"),), (FillerGroup(tuple(range(count)), False),), (), True)
    assert verify_certificate(problem, certificate).verified
    assert verify_certificate(problem, replace(certificate, lower_bound=2 * count + 1)).verdict == "refuted"


def test_hundreds_of_fillers_with_a_choice_need_no_recursion() -> None:
    count = 1100
    problem = Problem(
        tuple(f"op{v}" for v in range(count)),
        tuple((Option(HOST, 2), Option(CIM, 1, 1)) for _ in range(count)),
        tuple(Dependency(v, v + 1, 0) for v in range(count - 1)),
        3,
    )
    group = FillerGroup(tuple(range(count)), False)
    certificate = Certificate(2 * count - 2, 3, (), (Block("chain"),), (group,), (), exhausted=True)
    report = verify_certificate(problem, certificate, search_nodes=50)
    assert (report.verdict, report.bound) == ("incomplete", 2 * count - 6)


def test_undominated_positions_are_those_nothing_beats() -> None:
    rng = random.Random(7)
    for _ in range(50):
        positions = [
            Position(*(rng.randint(0, 2) for _ in range(4)), tuple(rng.randint(0, 2) for _ in range(2)))
            for _ in range(rng.randint(1, 20))
        ]

        def beats(a: Position, b: Position) -> bool:
            return a != b and all(x <= y for x, y in zip((*a[:4], *a.ready), (*b[:4], *b.ready), strict=True))

        wanted = {b for b in positions if not any(beats(a, b) for a in positions)}
        kept = undominated(positions, Effort(1000))
        assert set(kept) == wanted
        assert len(kept) == len(wanted)


def random_trade_offs(rng: random.Random, most: int) -> list[TradeOff]:
    return [TradeOff(*(rng.randint(0, 6) for _ in range(3))) for _ in range(rng.randint(0, most))]


def test_trade_offs_allow_what_one_of_them_allows() -> None:
    rng = random.Random(8)
    for _ in range(300):
        some = random_trade_offs(rng, 12)
        kept = TradeOffs.least(some)
        options, wait = (Option(HOST, 2, 1), Option(CIM, 1, 2)), rng.randint(0, 3)
        delay = max(0, 2 - wait)
        chosen = [TradeOff(c + 1, x + delay, y + 2) for c, x, y in some] + [TradeOff(c + 2, x, y) for c, x, y in some]
        for left, path, load in itertools.product(range(-1, 10), range(9), range(10)):

            def allowed(some: list[TradeOff], left: int = left, path_below: int = path, load_below: int = load) -> bool:
                return any(c <= left and x < path_below and y < load_below for c, x, y in some)

            assert kept.allow(left, path, load) == allowed(some)
            assert kept.with_choice(options, wait).allow(left, path, load) == allowed(chosen)


def test_very_many_trade_offs_become_fewer_that_are_nowhere_higher() -> None:
    rng = random.Random(10)
    some = [TradeOff(crossbars, 1000 - crossbars + rng.randint(0, 9), rng.randint(0, 99)) for crossbars in range(500)]
    few = TradeOffs.least(some, most=20).each
    assert len(few) <= 20
    assert all(any(all(map(le, smaller, one)) for smaller in few) for one in some)
    assert all(smaller.path >= 490 for smaller in few)


def test_no_trade_off_forbids_what_brute_force_can_reach() -> None:
    """At every cut of an optimal schedule, some way to go on ends before the optimum and a tick."""
    forbidding = flushed = 0
    for problem, best, certificate in cases(11, 400):
        schedule = brute_force(problem)
        assert schedule is not None
        parts = Parts(problem, certificate)  # it claims the optimum and a tick
        dropped = sum(parts.least[v] for v in certificate.dropped)
        suffix = Suffix(parts, 0, {-1: Soonest(dropped, 0, 0)}, Effort(100_000))
        nearer = Suffix(
            Parts(problem, replace(certificate, lower_bound=best)), 0, {-1: Soonest(dropped, 0, 0)}, Effort(100_000)
        )
        picked = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
        finish = [start + option.duration for start, option in zip(schedule.start, picked, strict=True)]
        for number in range(len(certificate.blocks)):
            cut = parts.boundary(number)[0]
            now = 0 if cut is None else finish[cut]
            behind = [v for members in parts.members[:number] for v in members]
            behind += [v for group in parts.groups if group.released < number for v in group.operators]
            left = problem.budget - dropped - sum(picked[v].crossbars for v in behind)
            undone = sum(max(0, finish[v] - max(now, schedule.start[v])) for v in behind if picked[v].place == HOST)
            option = -1 if cut is None else schedule.chosen[cut]
            assert suffix.after(number, option).allow(left, best + 1 - now, best + 1 - now - undone)
            forbidding += not nearer.after(number, option).allow(left, best - now, best - now - undone)
        flushed += any(number < len(certificate.cuts) for number in parts.flushed)
    assert forbidding > 500, "the trade-offs would be of no use"
    assert flushed > 50
