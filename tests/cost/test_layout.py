"""Reorders of the host's layout: who pays for them, against a direct model of layouts on tiny networks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cost_cases import chip, small_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from blocked_networks import NETWORKS, is_blocked, padded_to, saved
from cimplan.api.partitioning import cost, estimate, partition
from cimplan.cost.build import build_problem
from cimplan.cost.layout import ReorderTimes, fold_reorders
from cimplan.cost.problem import CIM, HOST
from cimplan.cost.profile_file import record_of
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor
from cimplan.hardware import load
from cimplan.operator_types import NCHWC
from cimplan.partition.methods import solve

SIZE_BYTES = 400
"""Of every tensor: float32, 10 channels."""
REORDER_NS = 40


@dataclass(frozen=True)
class Case:
    """A tiny network: for each operator its kind, its time on the host, and what it reads (-1 is the input).

    Kinds: "blocked" and "pool" compute in blocks on the host, "plain" and "product" do not; "blocked" and "product"
    can leave the host.
    """

    kinds: tuple[str, ...]
    host_ns: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]

    def blocks(self, v: int) -> bool:
        return v >= 0 and self.kinds[v] in ("blocked", "pool")

    def readers(self, v: int) -> list[int]:
        return [w for w, found in enumerate(self.reads) if v in found]

    def graph(self) -> tuple[OperatorGraph, list[int]]:
        """Return the graph as ONNX Runtime makes it, and the time of each operator."""
        tensors: dict[str, Tensor] = {}
        operators: list[Operator] = []
        times: list[int] = []

        def tensor(name: str) -> str:
            tensors[name] = Tensor(name, "float32", (1, 10, 2, 5))
            return name

        def add(name: str, op_type: str, domain: str, inputs: list[str], output: str, ns: int) -> None:
            work = None
            if op_type in ("Conv", "MatMul"):
                tensors.setdefault("w", Tensor("w", "float32", (10, 10, 1, 1), True))
                work = MatrixWork(10, 10, 1)
                inputs = [inputs[0], "w", *inputs[1:]]
            weight = "w" if work else ""
            operators.append(
                Operator(name, op_type, domain, tuple(inputs), (tensor(output),), work, weight_input=weight)
            )
            times.append(ns)

        def turn(v: int) -> None:
            """Add the reorders of a tensor, which follow what makes it."""
            plain = any(not self.blocks(w) for w in self.readers(v)) or (v >= 0 and not self.readers(v))
            if self.blocks(v) and plain:
                add(f"out{v}", "ReorderOutput", NCHWC, [f"b{v}"], f"p{v}", REORDER_NS)
            if not self.blocks(v) and any(self.blocks(w) for w in self.readers(v)):
                add(f"in{v}", "ReorderInput", NCHWC, [f"p{v}"], f"b{v}", REORDER_NS)

        tensor("p-1")
        turn(-1)
        for v, kind in enumerate(self.kinds):
            form = "b" if self.blocks(v) else "p"
            op_type, domain = {
                "blocked": ("Conv", NCHWC),
                "pool": ("MaxPool", NCHWC),
                "plain": ("Softmax", ""),
                "product": ("MatMul", ""),
            }[kind]
            add(f"o{v}", op_type, domain, [f"{form}{u}" for u in self.reads[v]], f"{form}{v}", self.host_ns[v])
            turn(v)
        outputs = tuple(f"p{v}" for v in range(len(self.kinds)) if not self.readers(v))
        return OperatorGraph("case", tuple(operators), tensors, ("p-1",), outputs), times


def problem_of(case: Case):
    graph, times = case.graph()
    return build_problem(small_profile(times, graph), chip(bandwidth="4GB/s", internal_bandwidth="80GB/s"))


BUS_NS = SIZE_BYTES // 4
CIM_NS = 2 * SIZE_BYTES // 80 + 100


def direct(case: Case, places: tuple[str, ...], *, new_ns: int = REORDER_NS) -> tuple[int, int, int]:
    """Return the least makespan with these places by a model of layouts, and the time of known and of new reorders.

    Every tensor is made in one layout and is turned once to the other if somebody needs that; turning is host work.
    """
    jobs: dict[str, tuple[str, int, list[tuple[str, int]]]] = {}
    known = new = 0
    for v in range(-1, len(places)):
        where = HOST if v < 0 else places[v]
        in_blocks = case.blocks(v) and where == HOST
        wanting = [w for w in case.readers(v) if case.blocks(w) and places[w] == HOST]
        others = [w for w in case.readers(v) if w not in wanting]
        measured_out = case.blocks(v) and (any(not case.blocks(w) for w in case.readers(v)) or not case.readers(v))
        if v >= 0:
            after = []
            for u in case.reads[v]:
                ready = f"b{u}" if case.blocks(v) and places[v] == HOST else f"p{u}"
                crosses = (HOST if u < 0 else places[u]) != places[v] and not (
                    # A tensor that came over the bus to be turned has crossed already.
                    ready == f"b{u}" and u >= 0 and places[u] == CIM
                )
                after.append((ready, BUS_NS if crosses and u >= 0 else 0))
            jobs[f"o{v}"] = (places[v], case.host_ns[v] if places[v] == HOST else CIM_NS, after)
        made = [] if v < 0 else [(f"o{v}", 0)]
        if in_blocks:
            jobs[f"b{v}"] = ("none", 0, made)
            if others or not case.readers(v):
                cost_ns = REORDER_NS if measured_out else new_ns
                known, new = (known + cost_ns, new) if measured_out else (known, new + cost_ns)
                jobs[f"p{v}"] = (HOST, cost_ns, [(f"b{v}", 0)])
        else:
            jobs[f"p{v}"] = ("none", 0, made)
            if wanting:
                fresh = case.blocks(v)
                cost_ns = new_ns if fresh else REORDER_NS
                known, new = (known, new + cost_ns) if fresh else (known + cost_ns, new)
                jobs[f"b{v}"] = (HOST, cost_ns, [(f"p{v}", BUS_NS if where == CIM else 0)])
    return _least(jobs), known, new


def _least(jobs: dict[str, tuple[str, int, list[tuple[str, int]]]]) -> int:
    """Return the least makespan of jobs, those on the host one at a time, by trying every order of the host."""
    best = [10**9]

    def go(finish: dict[str, int], free: int) -> None:
        finish = dict(finish)
        while True:
            found = [
                name
                for name, (where, _, after) in jobs.items()
                if name not in finish and where != HOST and all(one in finish for one, _ in after)
            ]
            if not found:
                break
            for name in found:
                _, length, after = jobs[name]
                finish[name] = max((finish[one] + lag for one, lag in after), default=0) + length
        now = max([0, free, *finish.values()])
        if now >= best[0] and len(finish) < len(jobs):
            return
        if len(finish) == len(jobs):
            best[0] = min(best[0], now)
            return
        for name, (where, length, after) in jobs.items():
            if name in finish or where != HOST or not all(one in finish for one, _ in after):
                continue
            start = max([free, *(finish[one] + lag for one, lag in after)])
            go({**finish, name: start + length}, start + length)

    go({}, 0)
    return best[0]


def placements(case: Case):
    return itertools.product(*((HOST, CIM) if kind in ("blocked", "product") else (HOST,) for kind in case.kinds))


def represented(case: Case, places: tuple[str, ...]) -> tuple[int, int]:
    """Return the optimum of the problem with these places, and the host's work in it."""
    network = problem_of(case)
    problem = network.problem.fixed({f"o{v}": place for v, place in enumerate(places)})
    solution = solve(problem)
    assert solution.status == "optimal"
    assert solution.schedule is not None
    work = sum(
        options[choice].duration
        for options, choice in zip(problem.options, solution.schedule.chosen, strict=True)
        if options[choice].place == HOST
    )
    return solution.schedule.makespan(problem), work


KINDS = st.sampled_from(["blocked", "blocked", "pool", "plain", "product"])


@st.composite
def chains(draw):
    kinds = draw(st.lists(KINDS, min_size=1, max_size=5))
    times = draw(st.lists(st.integers(50, 400), min_size=len(kinds), max_size=len(kinds)))
    return Case(tuple(kinds), tuple(times), tuple((v - 1,) for v in range(len(kinds))))


@st.composite
def networks(draw):
    kinds = draw(st.lists(KINDS, min_size=2, max_size=4))
    times = draw(st.lists(st.integers(50, 400), min_size=len(kinds), max_size=len(kinds)))
    reads = [
        tuple(sorted(draw(st.sets(st.integers(-1, v - 1), min_size=1, max_size=2 if v else 1))))
        for v in range(len(kinds))
    ]
    return Case(tuple(kinds), tuple(times), tuple(reads))


@settings(deadline=None, max_examples=60)
@given(chains())
def test_in_a_chain_the_representation_is_exact_for_every_placement(case):
    rate = _new_ns(case)
    for places in placements(case):
        assert represented(case, places)[0] == direct(case, places, new_ns=rate)[0]


@settings(deadline=None, max_examples=60)
@given(networks())
def test_with_branches_it_is_off_by_no_more_than_the_reorders(case):
    rate = _new_ns(case)
    graph, _ = case.graph()
    most = (sum(op.op_type.startswith("Reorder") for op in graph.operators) + 2) * max(REORDER_NS, rate)
    for places in placements(case):
        found, work = represented(case, places)
        makespan, known, new = direct(case, places, new_ns=rate)
        shared = len(fold_reorders(graph).shared)
        # Too little by no more than the new reorders and the shared ones; too much where a folded one would better
        # run elsewhere.
        assert makespan - new - shared * REORDER_NS <= found <= makespan + most + 2 * BUS_NS
        alone = sum(ns for ns, place in zip(case.host_ns, places, strict=True) if place == HOST)
        if not shared:
            assert work == alone + known


@settings(deadline=None, max_examples=60)
@given(networks())
def test_the_host_alone_takes_what_was_measured(case):
    _, times = case.graph()
    assert problem_of(case).host_only_ns == pytest.approx(sum(times))
    assert direct(case, (HOST,) * len(case.kinds))[0] == sum(times)


def _new_ns(case: Case) -> int:
    """Return what a new reorder takes: as the measured ones, or by the rule where there are none."""
    graph, times = case.graph()
    rates = ReorderTimes.of(graph, {op.name: ns for op, ns in zip(graph.operators, times, strict=True)})
    assert rates.into_ns_per_byte == rates.out_ns_per_byte
    return -(-rates.into_blocks_ns(SIZE_BYTES) // 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_crossbars_and_transfers_do_not_depend_on_the_hosts_block_size(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, name)
    profile = estimate(path)
    graph = profile.graph()
    if not is_blocked(graph):
        pytest.skip("this ONNX Runtime changes no layouts here")
    problems = []
    for block in (8, 16):
        forged = profile.model_copy(update={"graph_record": record_of(padded_to(graph, block))})
        assert forged.graph() != graph or name == "grouped"
        network = cost(path, "isaac-like", forged)
        everything = [(operator.crossbars, operator.cim_ns, operator.network_bytes) for operator in network.operators]
        edges = [(edge.transfer, edge.size_bytes) for edge in network.problem.dependencies]
        problems.append((everything, edges, network.problem))
    assert problems[0] == problems[1]
    assert problems[0][2] == cost(path, "isaac-like", profile).problem


def test_a_plan_says_which_reorders_belong_to_an_operator_and_what_they_take(tmp_path: Path) -> None:
    path = saved(tmp_path, "branches")
    profile = estimate(path)
    if not is_blocked(profile.graph()):
        pytest.skip("this ONNX Runtime changes no layouts here")
    plan = partition(path, "rram-256", profile)
    nodes = [name for operator in plan.operators for name in (operator.name, *operator.reorders)]
    assert sorted(nodes) == sorted(profile.times)
    assert any(operator.reorders for operator in plan.operators)
    for operator in plan.operators:
        own = profile.times[operator.name].host_ns
        if operator.reorders and operator.host_ns is not None:
            assert operator.host_ns == pytest.approx(own + operator.reorder_ns, abs=2)
    assert plan.host_only_ns == pytest.approx(profile.total_ns, rel=1e-3)
    assert plan.remarks
    assert "cimplan quantize MODEL" in plan.remarks[0]


def chain(*kinds: str) -> Case:
    return Case(kinds, (300,) * len(kinds), tuple((v - 1,) for v in range(len(kinds))))


def test_reorders_vanish_where_all_leave_the_host_and_appear_where_one_of_two_neighbours_does() -> None:
    case = chain("blocked", "blocked")
    problem = problem_of(case).problem
    assert problem.names == ("o0", "o1")
    assert [options[0].duration for options in problem.options] == [300 + REORDER_NS] * 2
    assert [options[1].duration for options in problem.options] == [CIM_NS] * 2
    assert [edge.transfer for edge in problem.dependencies] == [BUS_NS + REORDER_NS]
    assert represented(case, (CIM, CIM)) == (2 * CIM_NS, 0)
    assert represented(case, (CIM, HOST)) == (CIM_NS + BUS_NS + REORDER_NS + 300 + REORDER_NS, 300 + REORDER_NS)


def test_a_shared_reorder_stays_while_one_of_its_readers_is_on_the_host() -> None:
    case = Case(("plain", "blocked", "blocked"), (300, 300, 300), ((-1,), (0,), (0,)))
    network = problem_of(case)
    assert network.problem.names == ("o0", "in0", "o1", "o2")
    host, off = network.problem.options[1]
    assert (host.place, host.duration, off.place, off.duration, off.crossbars) == (HOST, REORDER_NS, CIM, 0, 0)
    assert off.label == "not needed"
    # A reader that can only run on the host keeps it there.
    pinned = problem_of(replace(case, kinds=("plain", "blocked", "pool")))
    assert len(pinned.problem.options[1]) == 1
    assert "only on the host" in pinned.by_name["in0"].reason_unsupported


def test_an_activation_function_in_blocks_follows_its_neighbours(tmp_path: Path) -> None:
    profile = estimate(saved(tmp_path, "branches"))
    if not is_blocked(profile.graph()):
        pytest.skip("this ONNX Runtime changes no layouts here")
    fast = load("rram-256")
    network = build_problem(profile, fast)
    names = network.problem.names
    act = next(v for v, operator in enumerate(network.operators) if operator.op_type == "QuickGelu")
    around = [number for number, edge in enumerate(network.problem.dependencies) if act in (edge.source, edge.target)]
    assert len(around) == 2, names
    quicker = {op.name for op in network.operators if op.cim is not None and op.cim.total_ns < op.host_ns}
    neighbours = {
        names[edge.source if edge.target == act else edge.target]
        for edge in (network.problem.dependencies[number] for number in around)
    }
    charged = any(network.reorder_ns[number] > 0 for number in around)
    assert charged == (not neighbours <= quicker)


def test_without_any_reorder_a_new_one_is_as_quick_as_the_quickest_operator_allows() -> None:
    graph, times = chain("plain", "product").graph()
    rates = ReorderTimes.of(graph, {op.name: ns for op, ns in zip(graph.operators, times, strict=True)})
    # The product reads 400 bytes and 400 of weights and writes 400 in 300 ns: a quarter of a nanosecond a byte.
    assert rates.into_blocks_ns(SIZE_BYTES) == rates.out_of_blocks_ns(SIZE_BYTES) == pytest.approx(2 * 0.25 * 400)


def test_a_tiny_reorder_does_not_say_what_a_large_one_takes() -> None:
    rates = ReorderTimes(10.0, 20.0, {}, beyond_ns_per_byte=0.5, largest_bytes=100)
    assert rates.into_blocks_ns(100) == 1000 and rates.out_of_blocks_ns(100) == 2000
    assert rates.into_blocks_ns(1100) == 1000 + 500 and rates.out_of_blocks_ns(1100) == 2000 + 500
    # A measured rate that is lower than that of any other operator holds for larger tensors too.
    assert ReorderTimes(0.2, 0.2, {}, beyond_ns_per_byte=0.5, largest_bytes=100).into_blocks_ns(1000) == 200
