"""A file of a few kilobytes must not take the verifier hours, or all memory: everything it can drive up is counted."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace

import pytest

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan import certificate_outlook, certificate_parts, certificate_search
from cimplan.plan.block_search import BlockProblem, find_uncovered
from cimplan.plan.certificate import Block, Certificate, FillerGroup, Front, Point
from cimplan.plan.certificate_check import CertificateReport, verify_certificate
from cimplan.plan.certificate_fold import labels_before
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.certificate_waits import find_waits
from cimplan.plan.check import check
from cimplan.plan.effort import Effort, OutOfEffortError
from cimplan.plan.replay import replay
from cimplan.plan.schedule import Schedule

CHAIN = Block("chain")
SIZES = [2 * (3**v % 1009 + 7) + v for v in range(18)]  # nearly all of their sums differ


@pytest.fixture(autouse=True)
def small_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few steps be a node, so that small cases reach a limit."""
    monkeypatch.setattr("cimplan.plan.effort.STEPS_PER_NODE", 32)


def row(options: list[tuple[Option, ...]], *, linked: bool, budget: int = 0, host_cores: int = 1) -> Problem:
    edges = tuple(Dependency(v, v + 1, 0) for v in range(len(options) - 1)) if linked else ()
    return Problem(tuple(f"o{v}" for v in range(len(options))), tuple(options), edges, budget, host_cores)


def host_or_cim(sizes: list[int] = SIZES) -> list[tuple[Option, ...]]:
    """Return operators that take the host as many ticks as they take crossbars elsewhere."""
    return [(Option(HOST, size), Option(CIM, 0, size)) for size in sizes]


def limited(problem: Problem, certificate: Certificate, nodes: int = 300) -> CertificateReport:
    report = verify_certificate(problem, certificate, nodes=nodes, search_nodes=nodes)
    assert report.nodes <= 2 * nodes
    return report


def test_cores_beyond_the_operators_take_no_memory() -> None:
    problem = row([(Option(HOST, 2),), (Option(HOST, 3),)], linked=False, host_cores=2**60)
    assert replay(problem, Schedule((0, 0), (0, 0))).core == (0, 1)


def test_what_runs_at_once_on_too_few_cores_is_not_listed_without_end() -> None:
    problem = row([(Option(HOST, 1),)] * 400, linked=False)
    report = check(problem, Schedule((0,) * 400, (0,) * 400))
    assert 1 < sum(violation.kind == "host" for violation in report.violations) <= 100


def test_pairs_of_a_thousand_options_are_not_listed() -> None:
    options = (Option(HOST, 1), *(Option(CIM, 1, 0, str(label)) for label in range(1100)))
    report = verify_certificate(row([options, options], linked=True), Certificate(1, 0, (0, 1), (CHAIN,) * 3))
    assert report.verdict == "incomplete"


def test_labels_of_a_fold_are_counted() -> None:
    budget = sum(SIZES) // 2
    chain = row(host_or_cim(), linked=True, budget=budget)
    cuts = tuple(range(len(SIZES)))
    certificate = Certificate(sum(SIZES) - budget + 1, budget, cuts, (CHAIN,) * (len(cuts) + 1))
    assert limited(chain, certificate).verdict == "incomplete"


def test_entries_of_a_knapsack_are_counted() -> None:
    budget = sum(SIZES) // 2
    least = sum(SIZES) - budget
    block = Block("load", (Front(-1, -1, (Point(0, least, least, 0),)),))
    certificate = Certificate(least, budget, (), (block,))
    assert limited(row(host_or_cim(), linked=False, budget=budget), certificate).verdict == "incomplete"


@pytest.mark.parametrize("delayed", [False, True])
def test_choices_of_fillers_are_counted(delayed: bool) -> None:
    budget = sum(SIZES) // 2
    problem = row([(Option(CIM, 2**40),), *host_or_cim()], linked=False, budget=budget)
    group = FillerGroup(tuple(range(1, len(problem))), delayed)
    certificate = Certificate(2**40 + 1, budget, (0,), (CHAIN, CHAIN), (group,))
    assert limited(problem, certificate).verdict == "incomplete"


def test_labels_with_delayed_work_are_counted() -> None:
    sizes = SIZES[:9]
    budget = sum(sizes) * 2 // 3
    fillers = [(Option(HOST, 1 + v),) for v in range(40)]
    problem = row([*host_or_cim(sizes), *fillers], linked=False, budget=budget)
    edges = [Dependency(v, v + 1, 0) for v in range(len(sizes) - 1)]
    edges += [Dependency(0, v, 10**6 + v) for v in range(len(sizes), len(problem))]
    problem = Problem(problem.names, problem.options, tuple(sorted(edges, key=lambda e: (e.source, e.target))), budget)
    groups = tuple(FillerGroup((v,), True) for v in range(len(sizes), len(problem)))
    cuts = tuple(range(len(sizes)))
    certificate = Certificate(10**9, budget, cuts, (CHAIN,) * (len(cuts) + 1), groups)
    assert limited(problem, certificate).verdict == "incomplete"


def test_a_block_may_be_deeper_than_the_stack() -> None:
    options = ((Option(CIM, 1, 1), Option(HOST, 2)),) * 150
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        found = find_uncovered(BlockProblem(options, (), (), False), [], 150, Effort(10_000))
    finally:
        sys.setrecursionlimit(limit)
    assert found is not None
    assert found.crossbars == 150


def test_a_node_of_a_large_block_counts_for_more() -> None:
    options = ((Option(HOST, 1),),) * 2000
    effort = Effort(1000)
    assert find_uncovered(BlockProblem(options, (), (), False), [Point(0, 0, 0, 0)], 0, effort) is None
    assert effort.nodes <= 980


def test_comparing_all_operators_with_one_another_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_parts, "MOST_OPERATORS", 3)
    problem = row([(Option(HOST, 1),)] * 4, linked=True)
    report = verify_certificate(problem, Certificate(0, 0, (), (CHAIN,), (), (0, 1, 2, 3)))
    assert (report.verdict, report.bound) == ("incomplete", 0)


def test_what_only_a_path_beside_the_spine_joins_is_counted() -> None:
    before = [0] * 60 + [2**60 - 1] * 60
    problem = row([(Option(HOST, 1),)] * 120, linked=False)
    with pytest.raises(OutOfEffortError):
        find_waits(problem, [range(120)], before, Effort(50))


def heads(count: int) -> tuple[Problem, Certificate]:
    """Return operators that each wait for a time of their own and then take the host, and a bound to be searched."""
    options = [(Option(HOST, 1),), *((Option(CIM, 3 * v),) for v in range(count)), *[(Option(HOST, 2),)] * count]
    edges = [
        *(Dependency(0, 1 + v, 0) for v in range(count)),
        *(Dependency(1 + v, 1 + count + v, 0) for v in range(count)),
    ]
    problem = Problem(tuple(f"o{v}" for v in range(len(options))), tuple(options), tuple(edges), 0)
    fillers = tuple(range(1, len(options)))
    certificate = Certificate(
        3 * count, 0, (0,), (CHAIN, CHAIN), (FillerGroup(fillers, False),), exhausted=True, searched=fillers
    )
    return problem, certificate


def test_a_search_that_has_hardly_begun_counts_as_well() -> None:
    problem, certificate = heads(200)
    effort = Effort(1000)
    certificate_search._Game(Parts(problem, certificate), 0, frozenset(), effort)
    assert effort.nodes < 950


def test_a_search_forgets_layers_that_are_done() -> None:
    problem, certificate = heads(6)
    parts = Parts(problem, certificate)
    game = certificate_search._Game(parts, 0, frozenset(), Effort(10_000))
    game.play(labels_before(parts, 0, Effort(1000)))
    assert set(game.outlook._known) <= {len(problem)}


def test_what_is_remembered_of_situations_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_outlook, "_MOST_REMEMBERED", 0)
    problem, certificate = heads(6)
    parts = Parts(problem, replace(certificate, lower_bound=40))
    game = certificate_search._Game(parts, 0, frozenset(), Effort(10_000))
    assert game.play(labels_before(parts, 0, Effort(1000))) == 18  # as if nothing had been forgotten
    assert sum(map(len, game.outlook._known.values())) <= 1


def test_a_search_keeps_no_more_positions_than_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, certificate = heads(6)
    certificate = replace(certificate, lower_bound=40)
    assert verify_certificate(problem, certificate).verdict == "refuted"
    monkeypatch.setattr(certificate_search, "_MOST_NUMBERS", 20)
    assert verify_certificate(problem, certificate).verdict == "incomplete"


def test_a_position_of_many_slots_counts_for_more() -> None:
    problem, certificate = heads(6)
    game = certificate_search._Game(Parts(problem, certificate), 0, frozenset(), Effort(5))
    ready = {(v, HOST): 0 for v in range(1000)}
    with pytest.raises(OutOfEffortError):
        list(game._settle(certificate_search._Table(0, 0, 0, 0, 0, ready, 0, ()), []))
