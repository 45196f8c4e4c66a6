"""The partition problem of a profiled network: options, transfers, ticks, reasons, and monotone costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cost_cases import chip, small_graph, small_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan import hardware
from cimplan.cost.build import build_problem
from cimplan.cost.problem import CIM, HORIZON_LIMIT_TICKS, HOST, Dependency, Option
from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor


def test_the_small_network_by_hand():
    network = build_problem(small_profile(), chip())
    problem = network.problem
    assert problem.names == ("conv", "relu", "reshape", "gemm", "outer")
    assert problem.tick_ns == 1.0
    assert (problem.budget, problem.host_cores) == (10, 1)
    # 9000.4 ns rounds up; conv on the accelerator: 96 + 6400 + 1280 ns on two crossbars
    assert problem.options[0] == (Option(HOST, 9001), Option(CIM, 7776, 2))
    assert problem.options[1] == (Option(HOST, 2000),)
    assert problem.options[2] == (Option(HOST, 0),)
    # gemm: 2560 / 2 in, one MVM of 100, 40 / 2 out, 40 crossbars: more than the budget, and kept
    assert problem.options[3] == (Option(HOST, 5000), Option(CIM, 1280 + 100 + 20, 40))
    assert problem.options[4] == (Option(HOST, 700),)
    # 2560 bytes at 4 bytes a nanosecond; 40 bytes of float32
    assert problem.dependencies == (
        Dependency(0, 1, 640, 2560),
        Dependency(1, 2, 640, 2560),
        Dependency(2, 3, 640, 2560),
        Dependency(3, 4, 10, 40),
    )
    assert network.host_only_ns == pytest.approx(16700.4)
    assert network.crossbars_of_everything == 42
    assert network.origin == "measured"
    assert network.graph == small_graph()


def test_every_operator_says_where_its_time_is_from_and_why_it_stays():
    network = build_problem(small_profile(), chip())
    kinds = [(op.host_kind, op.cim_ns is not None, op.reason_unsupported) for op in network.operators]
    assert kinds == [
        ("measured", True, ""),
        ("measured", False, "not a product with a weight matrix"),
        ("free (view)", False, "only renames data"),
        ("measured", True, ""),
        ("measured", False, "multiplies two activations"),
    ]
    assert network.by_name["conv"].crossbars == 2
    assert network.by_name["relu"].crossbars == 0


def test_activation_products_are_offered_only_where_allowed_and_then_charged():
    network = build_problem(small_profile(), chip(allow_activation_products=True, write_latency="50us"))
    # outer: 40 bytes in, 10 MVMs, 400 bytes out; writing 10 bytes and one crossbar
    assert network.problem.options[4][1] == Option(CIM, 20 + 1000 + 200 + 5 + 50_000, 1)
    assert network.problem.options[0][1] == Option(CIM, 7776, 2)


def test_budget_and_cores_come_from_the_hardware_or_the_caller():
    assert build_problem(small_profile(), chip(cores=3)).problem.host_cores == 3
    assert build_problem(small_profile(), chip(), budget=0).problem.budget == 0
    assert build_problem(small_profile(), chip(crossbars=0)).problem.budget == 0
    with pytest.raises(InputError, match="must not be negative"):
        build_problem(small_profile(), chip(), budget=-1)


def test_hardware_without_an_accelerator_is_refused():
    with pytest.raises(InputError, match="dual-mode chip") as caught:
        build_problem(small_profile(), hardware.load("dynaplasia"))
    assert caught.value.exit_code == 2


def test_a_missing_time_is_refused():
    profile = small_profile()
    times = {name: timing for name, timing in profile.times.items() if name != "gemm"}
    with pytest.raises(InputError, match="no time for 1 of 5 operators") as caught:
        build_problem(profile.model_copy(update={"times": times}), chip())
    assert "'gemm'" in caught.value.where


def test_long_networks_get_coarser_ticks_and_short_times_stay_positive():
    short = build_problem(small_profile((1e-3, 0.4, 0.0, 0.9, 1.0)), chip()).problem
    assert [options[0].duration for options in short.options] == [1, 1, 0, 1, 1]
    long = build_problem(small_profile((1e17, 2000.0, 0.0, 5.0, 7.0)), chip()).problem
    assert long.tick_ns == 100.0
    assert [options[0].duration for options in long.options] == [10**15, 20, 0, 1, 1]
    assert long.options[0][1].duration == 78
    at_limit = build_problem(small_profile((float(HORIZON_LIMIT_TICKS), 1.0, 0.0, 1.0, 1.0)), chip()).problem
    assert at_limit.tick_ns == 10.0


def test_floating_point_noise_does_not_add_a_tick():
    # 0.1 + 0.2 style noise: 3 * 1.1 GB/s style quotients that are whole nanoseconds on paper
    profile = small_profile((3.0000000000000004, 1.0, 0.0, 1.0, 1.0))
    assert build_problem(profile, chip()).problem.options[0][0].duration == 3


@st.composite
def networks(draw):
    """Draw a chain of matrix work of all kinds."""
    count = draw(st.integers(1, 6))
    tensors = {"t0": Tensor("t0", "uint8", (draw(st.integers(1, 5000)),))}
    operators = []
    for index in range(count):
        work = MatrixWork(
            draw(st.integers(1, 300)),
            draw(st.integers(1, 300)),
            draw(st.integers(1, 500)),
            draw(st.sampled_from([1, 1, 2, 30])),
            draw(st.sampled_from(["constant", "activation"])),
        )
        name = f"t{index + 1}"
        tensors[name] = Tensor(name, draw(st.sampled_from(["uint8", "float32"])), (draw(st.integers(1, 5000)),))
        operators.append(Operator(f"o{index}", "MatMul", "", (f"t{index}",), (name,), work, weight_input="w"))
    graph = OperatorGraph("g", tuple(operators), tensors, ("t0",), (f"t{count}",))
    return small_profile([draw(st.floats(1, 1e6)) for _ in operators], graph)


def _costs(network):
    """Return all durations and transfers in nanoseconds, and crossbars."""
    problem = network.problem
    durations = [option.duration * problem.tick_ns for options in problem.options for option in options]
    transfers = [edge.transfer * problem.tick_ns for edge in problem.dependencies]
    return durations + transfers, [option.crossbars for options in problem.options for option in options]


@settings(deadline=None, max_examples=150)
@given(
    networks(),
    st.sampled_from(["block_diagonal", "one_per_group", "shared_rows", "published_formula"]),
    st.sampled_from(["parallel", "series"]),
    st.booleans(),
    st.sampled_from(["faster MVM", "wider bus", "wider inside", "more crossbars", "faster write", "wider slices"]),
    st.floats(1, 50),
)
def test_better_hardware_never_costs_more(profile, packing, tiles, products, what, factor):
    base = chip(
        group_packing=packing,
        tile_execution=tiles,
        write_execution=tiles,
        allow_activation_products=products,
        write_latency="50us",
        input_bits_per_slice=2,
        weight_write="every_inference" if products else "never",
    )
    better = {
        "faster MVM": lambda: hardware.with_overrides(base, mvm_latency_ns=100 / factor),
        "wider bus": lambda: hardware.with_overrides(base, bus_bandwidth_gbps=4 * factor),
        "wider inside": lambda: hardware.with_overrides(base, internal_bandwidth_gbps=2 * factor),
        "more crossbars": lambda: hardware.with_overrides(base, crossbars=int(10 * factor)),
        "faster write": lambda: hardware.with_overrides(base, accelerator={"write_latency": f"{50 / factor!r}us"}),
        "wider slices": lambda: hardware.with_overrides(base, accelerator={"input_bits_per_slice": 4}),
    }[what]()
    before, crossbars_before = _costs(build_problem(profile, base))
    after, crossbars_after = _costs(build_problem(profile, better))
    assert crossbars_after == crossbars_before
    assert len(after) == len(before)
    assert all(new <= old for new, old in zip(after, before, strict=True))


def test_the_order_of_the_graph_is_kept_and_equal_input_gives_equal_output():
    one, two = (build_problem(small_profile(), chip()).problem for _ in range(2))
    assert one == two
    assert replace(one, budget=3) == build_problem(small_profile(), chip(), budget=3).problem
