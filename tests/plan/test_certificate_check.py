"""The verifier accepts what is true, and never a bound above the optimum, however the certificate is disturbed."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from naive_certificate import fronts, naive_certificate, naive_fold, naive_waits, reachable
from oracle import optimum, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InternalError
from cimplan.plan.certificate import Block, Certificate, FillerGroup, Front, Point
from cimplan.plan.certificate_check import verify_certificate
from cimplan.plan.certificate_fold import Label, undominated
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.effort import Effort


def cases(seed: int, count: int, most: int = 6) -> list[tuple[Problem, int, random.Random]]:
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        problem = random_problem(rng, operators=rng.randint(1, most))
        best = optimum(problem)
        if best is not None:
            found.append((problem, best, rng))
    return found


def test_complete_tables_prove_bounds_up_to_their_fold_and_never_above_the_optimum() -> None:
    tight = 0
    for problem, best, rng in cases(1, 250):
        certificate = naive_certificate(problem, rng, best + 1, exhausted=True)
        report = verify_certificate(problem, certificate, search_nodes=0)
        assert report.verdict == "incomplete", report.notes
        assert report.bound <= best
        tight += report.bound == best
        proven = replace(certificate, lower_bound=report.bound, exhausted=False)
        assert verify_certificate(problem, proven).verified
        too_much = verify_certificate(problem, replace(proven, lower_bound=report.bound + 1))
        assert too_much.verdict == "refuted"
        assert f"gives {report.bound}" in too_much.notes[0]
    assert tight > 60, "bounds that are never tight would pass as well"


def test_waits_and_folds_are_those_of_the_definition() -> None:
    waiting = delaying = 0
    for problem, best, rng in cases(3, 400, most=7):
        certificate = naive_certificate(problem, rng, best + 1, exhausted=True, delayed=0)
        waits = naive_waits(problem, certificate)
        assert list(Parts(problem, certificate).waits.longest) == waits
        value = naive_fold(problem, certificate)
        assert value is not None
        assert value <= best
        report = verify_certificate(problem, certificate, search_nodes=0)
        assert (report.verdict, report.bound) == ("incomplete", value)
        waiting += any(waits)
        fillers = [option for group in certificate.fillers for v in group.operators for option in problem.options[v]]
        delaying += any(option.place == HOST and option.duration > waits[0] > 0 for option in fillers)
    assert waiting > 200
    assert delaying > 50


def test_no_disturbed_certificate_proves_more_than_the_optimum() -> None:
    refuted = verified = 0
    for problem, best, rng in cases(2, 250):
        certificate = disturbed(naive_certificate(problem, rng, best + 1, exhausted=True), rng, len(problem))
        for search_nodes in (0, 10_000):
            report = verify_certificate(problem, certificate, search_nodes=search_nodes)
            assert report.verdict != "verified", "a bound above the optimum is verified"
            assert report.bound <= best
            if search_nodes == 0:
                refuted += report.verdict == "refuted"
                verified += report.verdict == "incomplete"
    assert refuted > 50
    assert verified > 20


def disturbed(certificate: Certificate, rng: random.Random, count: int) -> Certificate:
    """Raise a number of a point, drop a point, or move an operator to another part."""
    tables = [number for number, block in enumerate(certificate.blocks) if any(front.points for front in block.fronts)]
    what = rng.choice(["raise", "raise", "raise", "drop", "part"])
    if what != "part" and tables:
        number = rng.choice(tables)
        block = certificate.blocks[number]
        which = rng.choice([index for index, front in enumerate(block.fronts) if front.points])
        front = block.fronts[which]
        points = list(front.points)
        index = rng.randrange(len(points))
        if what == "drop":
            del points[index]
        else:
            name = rng.choice(["crossbars", "time", "host_time", "lead"])
            points[index] = replace(points[index], **{name: getattr(points[index], name) + rng.randint(1, 3)})
        fronts = (*block.fronts[:which], replace(front, points=tuple(sorted(points))), *block.fronts[which + 1 :])
        blocks = (*certificate.blocks[:number], replace(block, fronts=fronts), *certificate.blocks[number + 1 :])
        return replace(certificate, blocks=blocks)
    if certificate.dropped and rng.random() < 0.5:
        return replace(certificate, dropped=certificate.dropped[1:])
    if certificate.fillers and rng.random() < 0.5:
        return replace(certificate, fillers=certificate.fillers[1:])
    cut = rng.randrange(count)
    taken = {*certificate.cuts, *certificate.dropped, *(v for group in certificate.fillers for v in group.operators)}
    if cut in taken:
        return certificate
    cuts = tuple(sorted((*certificate.cuts, cut)))
    return replace(certificate, cuts=cuts, blocks=(*certificate.blocks, Block("chain")))


def chain_problem() -> Problem:
    """Three operators in a row; a slow host and crossbars for two of them."""
    return Problem(
        ("a", "b", "c"),
        ((Option(HOST, 10), Option(CIM, 2, 1)), (Option(HOST, 10), Option(CIM, 2, 1)), (Option(HOST, 10),)),
        (Dependency(0, 1, 3), Dependency(1, 2, 3)),
        budget=2,
    )


def chain_certificate(lower_bound: int = 17) -> Certificate:
    return Certificate(lower_bound, 2, (0, 1, 2), (Block("chain"),) * 4)


def test_a_chain_is_verified_without_tables() -> None:
    report = verify_certificate(chain_problem(), chain_certificate())
    assert report.verified
    assert report.bound == 17
    assert report.notes == ("3 cuts by reachability", "4 blocks by chain", "folding gives at least 17")
    report.require()


def test_a_bound_that_the_fold_does_not_reach_is_refuted() -> None:
    report = verify_certificate(chain_problem(), chain_certificate(18))
    assert report.verdict == "refuted"
    assert report.bound == 0
    with pytest.raises(InternalError, match="folding the tables gives 17, the lower bound claimed is 18"):
        report.require()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": 1}, "holds for 1 crossbars, the problem has 2"),
        ({"cuts": (0, 1)}, "2 cuts do not make 4 blocks"),
        ({"cuts": (0, 1, 3)}, "not different operators"),
        ({"cuts": (0, 1, 1)}, "not different operators"),
        ({"cuts": (1, 0, 2)}, "the cuts 'b' and 'a' are not in order"),
        ({"cuts": (0, 1), "blocks": (Block("chain"),) * 3}, "block 2 is not a chain"),
        ({"fillers": (FillerGroup((), False),)}, "a filler group is empty"),
        ({"dropped": (0,)}, "not different operators"),
        ({"blocks": (Block("enumeration"), *(Block("chain"),) * 3)}, "block 0 has not one front for each pair"),
    ],
)
def test_a_certificate_that_is_not_whole_is_refuted(changes: dict[str, object], words: str) -> None:
    report = verify_certificate(chain_problem(), replace(chain_certificate(), **changes))  # type: ignore[arg-type]
    assert report.verdict == "refuted"
    assert words in report.notes[0]


def test_an_operator_that_no_path_joins_is_no_cut() -> None:
    problem = replace(chain_problem(), dependencies=(Dependency(0, 1, 3),))
    report = verify_certificate(problem, chain_certificate())
    assert report.verdict == "refuted"
    assert "'b' and 'c' are not in order" in report.notes[0]
    two = Certificate(1, 2, (0,), (Block("chain"), Block("enumeration")))
    assert "no path joins the cut 'a' and 'c'" in verify_certificate(problem, two).notes[0]


def test_several_host_cores_have_no_certificate() -> None:
    report = verify_certificate(replace(chain_problem(), host_cores=2), chain_certificate())
    assert report.verdict == "refuted"


def load_problem() -> Problem:
    """Four operators side by side on one host."""
    options = ((Option(HOST, 10), Option(CIM, 4, 1)),) * 3 + ((Option(HOST, 5),),)
    return Problem(tuple("abcd"), options, (), budget=3)


@pytest.mark.parametrize(
    ("points", "bound", "verdict"),
    [
        ([Point(0, 35, 35, 0), Point(1, 25, 25, 0), Point(2, 15, 15, 0), Point(3, 5, 5, 0)], 5, "verified"),
        ([Point(0, 15, 15, 0), Point(3, 5, 5, 0)], 5, "verified"),
        ([Point(0, 35, 35, 0), Point(1, 25, 25, 0), Point(3, 5, 5, 0)], 5, "refuted"),  # two crossbars reach 15
        ([Point(0, 35, 35, 0), Point(3, 6, 5, 0)], 5, "refuted"),
        ([Point(1, 5, 5, 0)], 5, "refuted"),  # nothing covers the choice without crossbars
        ([], 5, "refuted"),
        ([Point(0, 35, 36, 0), Point(1, 25, 25, 0), Point(2, 15, 15, 0), Point(3, 5, 5, 0)], 5, "refuted"),
        ([Point(0, 36, 35, 0), Point(1, 25, 25, 0), Point(2, 15, 15, 0), Point(3, 5, 5, 0)], 5, "refuted"),
        ([Point(0, 5, 5, 1)], 5, "refuted"),  # sums say nothing of a lead
        ([Point(0, 5, 5, 0)], 6, "refuted"),
    ],
)
def test_a_table_from_sums_is_verified_by_sums(points: list[Point], bound: int, verdict: str) -> None:
    certificate = Certificate(bound, 3, (), (Block("load", (Front(-1, -1, tuple(points)),)),))
    assert verify_certificate(load_problem(), certificate).verdict == verdict


def test_the_longest_path_counts_where_the_host_is_idle() -> None:
    problem = Problem(
        ("a", "b"), ((Option(CIM, 6, 1),), (Option(HOST, 3), Option("cim2", 9, 1))), (Dependency(0, 1, 2),), budget=2
    )
    table = Certificate(11, 2, (), (Block("load", (Front(-1, -1, (Point(1, 11, 0, 0),)),)),))
    assert verify_certificate(problem, table).verified
    longer = replace(table, blocks=(Block("load", (Front(-1, -1, (Point(1, 12, 0, 0),)),)),))
    assert verify_certificate(problem, longer).verdict == "refuted"


def test_a_search_that_is_too_large_is_reported_and_not_taken_for_a_proof() -> None:
    problem = load_problem()
    points = tuple(Point(c, 0, h, 0) for c, h in ((0, 35), (1, 25), (2, 15), (3, 5)))
    certificate = Certificate(5, 3, (), (Block("enumeration", (Front(-1, -1, points),)),))
    report = verify_certificate(problem, certificate, nodes=3)
    assert report.verdict == "incomplete"
    assert report.bound == 0
    assert "need more search" in report.notes[0]
    report.require()  # nothing is wrong with it
    assert verify_certificate(problem, certificate).verdict == "verified"


def test_work_beside_the_spine_must_find_host_time() -> None:
    # a -> {slow crossbar work, host work beside it} -> d; the filler needs the host for 9 while the crossbars take 6.
    problem = Problem(
        ("a", "conv", "beside", "d"),
        ((Option(HOST, 1),), (Option(CIM, 6, 1),), (Option(HOST, 9),), (Option(HOST, 1),)),
        (Dependency(0, 1, 0), Dependency(0, 2, 0), Dependency(1, 3, 0), Dependency(2, 3, 0)),
        budget=1,
    )
    assert optimum(problem) == 11
    front = Front(0, 0, (Point(1, 7, 1, 6),))
    blocks = (Block("chain"), Block("enumeration", (front,)), Block("chain"))
    certificate = Certificate(11, 1, (0, 3), blocks, fillers=(FillerGroup((2,), False),))
    assert verify_certificate(problem, certificate).verified
    assert verify_certificate(problem, replace(certificate, lower_bound=12)).verdict == "refuted"
    dropped = replace(certificate, fillers=(), dropped=(2,))
    assert verify_certificate(problem, replace(dropped, lower_bound=8)).verified
    assert verify_certificate(problem, replace(dropped, lower_bound=9)).verdict == "refuted"


def bounded(
    options: dict[str, tuple[Option, ...]],
    edges: dict[str, int],
    cuts: str,
    groups: tuple[tuple[str, bool], ...],
    *,
    dropped: str = "",
    budget: int = 9,
) -> tuple[int, int]:
    """Return the optimum and the largest bound that is verified, with tables made by trying everything."""
    names = "".join(options)
    index = {name: number for number, name in enumerate(names)}
    dependencies = sorted((index[pair[0]], index[pair[1]], transfer) for pair, transfer in edges.items())
    problem = Problem(
        tuple(names), tuple(options.values()), tuple(Dependency(u, v, t) for u, v, t in dependencies), budget
    )
    left_out = {index[name] for name in dropped + "".join(group for group, _ in groups)}
    at = [index[name] for name in cuts]
    before = reachable(problem)
    blocks = []
    for start, end in itertools.pairwise([None, *at, None]):
        members = [
            v
            for v in range(len(names))
            if v not in left_out
            and v != start
            and (start is None or (start, v) in before)
            and (end is None or v == end or (v, end) in before)
        ]
        blocks.append(Block("enumeration", fronts(problem, members, start, end)))
    certificate = Certificate(
        10**6,
        budget,
        tuple(at),
        tuple(blocks),
        tuple(FillerGroup(tuple(index[name] for name in group), delayed) for group, delayed in groups),
        tuple(index[name] for name in dropped),
        exhausted=True,
    )
    report = verify_certificate(problem, certificate, search_nodes=0)
    assert report.verdict == "incomplete", report.notes
    best = optimum(problem)
    assert best is not None
    return best, report.bound


def host(duration: int) -> tuple[Option, ...]:
    return (Option(HOST, duration),)


def cim(duration: int, crossbars: int = 1) -> tuple[Option, ...]:
    return (Option(CIM, duration, crossbars),)


def test_work_that_comes_late_starts_late() -> None:
    options = {"a": cim(1), "x": host(4), "f": host(6), "d": host(1)}
    edges = {"ax": 0, "af": 5, "xd": 0, "fd": 0}
    assert bounded(options, edges, "ad", (("f", True),)) == (13, 13)
    assert bounded(options, edges, "ad", (("f", False),)) == (13, 12)


def test_late_work_leaves_the_host_to_others_until_it_is_ready() -> None:
    options = {"a": cim(1), "m": host(1), "y": host(6), "f": host(6), "d": host(1)}
    edges = {"am": 0, "my": 0, "yd": 0, "af": 5, "fd": 0}
    assert bounded(options, edges, "amd", (("f", True),)) == (15, 15)


def test_late_work_and_the_work_of_a_block_that_begins_late_add_up() -> None:
    # Both wait for the crossbars: the host idles until 6, then works for 5 + 6.
    options = {"a": cim(1), "c": cim(5), "x": host(5), "f": host(6), "d": host(1)}
    edges = {"ac": 0, "cx": 0, "xd": 0, "af": 5, "fd": 0}
    assert bounded(options, edges, "ad", (("f", True),)) == (18, 18)
    options["m"] = host(1)  # the same with a cut between, before which the late work need not be done
    edges = {"ac": 0, "cx": 0, "xm": 0, "md": 0, "af": 5, "fd": 0}
    order = {name: options[name] for name in "acxmfd"}
    assert bounded(order, edges, "amd", (("f", True),)) == (19, 19)


def test_only_the_late_part_of_a_group_is_late() -> None:
    options = {"a": cim(1), "e": host(10), "f": host(6), "d": host(1)}
    edges = {"ae": 0, "af": 5, "ed": 0, "fd": 0}
    assert bounded(options, edges, "ad", (("ef", True),)) == (18, 18)


def test_late_parts_of_several_groups_add_up() -> None:
    options = {"a": cim(1), "e": host(10), "f": host(6), "d": host(1)}
    edges = {"ae": 4, "af": 6, "ed": 0, "fd": 0}
    assert bounded(options, edges, "ad", (("e", True), ("f", True))) == (22, 22)


def test_results_of_a_group_come_after_its_crossbars() -> None:
    options = {"a": host(1), "c": cim(7), "f": host(6), "d": host(1)}
    edges = {"ac": 2, "cf": 3, "fd": 0}
    assert bounded(options, edges, "ad", (("cf", True),)) == (20, 20)


def test_a_group_is_released_when_its_first_operator_may_start() -> None:
    options = {"a": cim(1), "m": cim(10), "e": host(9), "f": host(1), "d": host(1)}
    edges = {"am": 0, "ae": 0, "mf": 0, "md": 0, "ed": 0, "fd": 0}
    assert bounded(options, edges, "amd", (("ef", False),)) == (13, 12)
    assert bounded(options, edges, "amd", (("e", False), ("f", False))) == (13, 13)


def test_a_group_is_due_when_its_last_operator_must_be_done() -> None:
    options = {"a": cim(1), "e": host(2), "m": host(1), "z": cim(5), "f": host(5), "d": host(1)}
    edges = {"ae": 0, "em": 0, "am": 0, "mz": 0, "zd": 0, "af": 0, "fd": 0}
    assert bounded(options, edges, "amd", (("ef", False),)) == (10, 10)


def test_a_filler_longer_than_any_wait_delays_the_spine() -> None:
    # f must run while x, y or z does, but none of them takes as long.
    options = {
        "a": host(1),
        "x": cim(4),
        "b": host(1),
        "y": cim(6),
        "c": host(1),
        "z": cim(3),
        "d": host(1),
        "f": host(9),
    }
    edges = {"ax": 0, "xb": 0, "by": 0, "yc": 0, "cz": 0, "zd": 0}
    assert bounded(options, edges, "axbyczd", (("f", False),)) == (20, 20)
    assert bounded(options, edges, "axbyczd", (("f", True),)) == (20, 17)  # its labels do not count it
    edges["cf"] = 0  # of the long pauses none is left
    order = {name: options[name] for name in "axbyczfd"}
    assert bounded(order, edges, "axbyczd", (("f", False),)) == (23, 23)
    options["g"] = host(8)
    edges = {pair: ticks for pair, ticks in edges.items() if "f" not in pair}
    assert bounded(options, edges, "axbyczd", (("f", False), ("g", False))) == (24, 22)


def test_a_transfer_into_an_operator_on_the_host_is_a_wait() -> None:
    options = {"c": cim(1), "v": host(1), "f": host(5)}
    assert bounded(options, {"cv": 10, "cf": 0}, "cv", (("f", False),)) == (12, 12)
    assert bounded(options, {"cv": 3, "cf": 0}, "cv", (("f", False),)) == (7, 7)


def test_cuts_that_only_a_path_beside_the_spine_joins_keep_the_host_waiting_one_after_another() -> None:
    options = {"c": cim(10), "g": cim(0), "w": cim(10), "f": host(20)}
    for groups in ((("g", False), ("f", False)), (("gf", False),)):
        assert bounded(options, {"cg": 0, "gw": 0}, "cw", groups) == (20, 20)
    assert bounded(options, {"cg": 0, "gw": 0}, "cw", (("f", False),), dropped="g") == (20, 20)
    options = {"u": cim(10), "x": cim(9), "g": cim(0), "w": cim(10), "f": host(20)}
    assert bounded(options, {"ug": 0, "gw": 0, "xw": 0}, "w", (("f", False), ("g", False))) == (20, 20)


def test_a_choice_of_fillers_weighs_crossbars_work_and_delay() -> None:
    # Of two fillers one may leave the host: the long one delays the spine, two shorter ones are more work.
    options = {"a": host(1), "x": cim(6), "d": host(1), "f": (*host(8), *cim(1, 2)), "g": (*host(6), *cim(1, 2))}
    assert bounded(options, {"ax": 0, "xd": 0}, "axd", (("fg", False),), budget=5) == (8, 8)
    assert bounded(options, {"ax": 0, "xd": 0}, "axd", (("fg", False),), budget=3) == (8, 8)
    options = {"a": host(1), "x": cim(6), "b": host(1), "y": cim(6), "d": host(1), "f": (*host(10), *cim(1, 4))}
    options |= {"g": (*host(6), *cim(1, 2)), "h": (*host(6), *cim(1, 2))}
    edges = {"ax": 0, "xb": 0, "by": 0, "yd": 0}
    assert bounded(options, edges, "axbyd", (("fgh", False),), budget=6) == (15, 15)


def test_late_work_is_not_later_for_what_a_filler_delays_that_may_run_after_it() -> None:
    options = {"a": cim(1), "f": host(20), "g": host(6), "d": host(1)}
    edges = {"ag": 5, "ad": 0, "gd": 0}
    assert bounded(options, edges, "ad", (("f", False), ("g", True))) == (27, 27)


def test_what_fillers_delay_rules_out_labels_that_do_not_count_it() -> None:
    options = (host(1), cim(4), host(1), cim(6), host(1), cim(3), host(1), host(9))
    edges = tuple(Dependency(v, v + 1, 0) for v in range(6))
    problem = Problem(tuple("axbyczdf"), options, edges, 3)
    certificate = Certificate(20, 3, tuple(range(7)), (Block("chain"),) * 8, (FillerGroup((7,), True),))
    assert optimum(problem) == 20
    assert verify_certificate(problem, certificate).verified
    assert verify_certificate(problem, replace(certificate, lower_bound=21)).verdict == "refuted"


def test_dropped_operators_still_take_their_crossbars() -> None:
    options = {"a": (Option(HOST, 10), Option(CIM, 2, 1)), "k": cim(1, 2)}
    assert bounded(options, {}, "a", (), dropped="k", budget=2) == (10, 10)
    assert bounded(options, {}, "a", (), dropped="k", budget=3) == (2, 2)


def test_fillers_choose_their_places_within_the_budget() -> None:
    either = (Option(HOST, 8), Option(CIM, 3, 2))
    options = {"a": host(1), "x": (Option(HOST, 9), Option(CIM, 5, 2)), "f": either, "d": host(1)}
    edges = {"ax": 0, "af": 0, "xd": 0, "fd": 0}
    for budget, best in ((0, 19), (2, 10), (4, 7)):
        for delayed in (False, True):
            assert bounded(options, edges, "ad", (("f", delayed),), budget=budget) == (best, best)


def test_undominated_labels_are_those_nothing_beats() -> None:
    rng = random.Random(9)
    for _ in range(200):
        labels = [
            Label(rng.randint(0, 4), rng.randint(0, 4), rng.randint(0, 4), ((9, 1),) if rng.random() < 0.2 else ())
            for _ in range(rng.randint(0, 15))
        ]

        def beats(a: Label, b: Label) -> bool:
            return (
                a != b
                and a.crossbars <= b.crossbars
                and a.time <= b.time
                and a.host_free <= b.host_free
                and (a.delayed == () or a.delayed == b.delayed)
            )

        expected = {label for label in labels if not any(beats(other, label) for other in labels)}
        found = undominated(labels, Effort(1000))
        assert len(found) == len(set(found))
        assert set(found) == expected


def test_the_verifier_loads_no_solver() -> None:
    code = (
        "import sys; import cimplan.plan.certificate_check; "
        "bad = [m for m in sys.modules if m.startswith(('ortools', 'cimplan.partition', 'numba', 'highspy'))]; "
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
