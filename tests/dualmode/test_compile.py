from __future__ import annotations

from random import Random

import pytest
from dual_networks import Sketch, chip, random_chip, random_graph, random_readings
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.dualmode.compile import compile_graph, compile_operators
from cimplan.dualmode.methods import METHODS
from cimplan.dualmode.options import CompileOptions, make_readings
from cimplan.errors import InputError
from cimplan.graph.operators import OperatorGraph
from cimplan.hardware import load
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import NETWORK, DualModePlan, MatrixOperator
from cimplan.plan.dual_mode_check import checked, find_faults

SEEDS = st.integers(0, 10**9)


def case(seed: int, *, operators: int = 7) -> tuple[OperatorGraph, DualModeChip, CompileOptions]:
    rng = Random(seed)
    graph = random_graph(rng, rng.randint(1, operators))
    return graph, random_chip(rng), CompileOptions(random_readings(rng))


@given(SEEDS)
@settings(deadline=None, max_examples=150)
def test_every_plan_passes_the_checker(seed: int) -> None:
    graph, small, options = case(seed)
    plan = compile_graph(graph, small, options)
    assert find_faults(plan, graph) == []
    assert checked(plan, graph).checked
    assert plan.status == "optimal"


@given(SEEDS, st.sampled_from(sorted(METHODS)))
@settings(deadline=None, max_examples=80)
def test_every_method_gives_a_sound_plan_and_none_beats_the_exact_one(seed: int, method: str) -> None:
    graph, small, options = case(seed)
    exact = compile_graph(graph, small, options)
    other = compile_graph(graph, small, CompileOptions(options.readings, method))
    assert find_faults(other, graph) == []
    assert other.latency_cycles >= exact.latency_cycles
    # A restricted method is not optimal because nothing within its own rules is better.
    assert other.lower_bound_cycles == exact.lower_bound_cycles
    assert (other.status == "optimal") == (other.latency_cycles == exact.latency_cycles)
    assert other.all_compute_cycles == exact.all_compute_cycles


@given(SEEDS)
@settings(deadline=None, max_examples=150)
def test_dual_mode_is_never_slower_than_all_compute(seed: int) -> None:
    graph, small, options = case(seed)
    plan = compile_graph(graph, small, options)
    baseline = compile_graph(graph, small, CompileOptions(options.readings, "all_compute"))
    assert plan.latency_cycles <= baseline.latency_cycles == plan.all_compute_cycles
    assert plan.speedup >= 1
    assert all(segment.memory_mode_arrays == 0 for segment in baseline.segments)


@given(SEEDS, st.sampled_from(["arrays", "memory_bytes_per_cycle", "main_bytes_per_cycle", "op_per_cycle"]))
@settings(deadline=None, max_examples=150)
def test_more_of_anything_never_makes_a_plan_slower(seed: int, what: str) -> None:
    graph, small, options = case(seed)
    rng = Random(seed)
    value = getattr(small, what)
    more = value + rng.randint(1, 3) if what == "arrays" else round(value * rng.choice([1.01, 1.3, 2.0, 7.0]), 6)
    before = compile_graph(graph, small, options)
    after = compile_graph(graph, small.model_copy(update={what: more}), options)
    assert after.latency_cycles <= before.latency_cycles
    assert after.all_compute_cycles <= before.all_compute_cycles


@given(SEEDS)
@settings(deadline=None, max_examples=30)
def test_the_same_input_gives_the_same_plan(seed: int) -> None:
    graph, small, options = case(seed)
    plans = [compile_graph(graph, small, options).to_json() for _ in range(2)]
    for plan in plans:
        plan.pop("compile_s")
    assert plans[0] == plans[1]


@given(SEEDS)
@settings(deadline=None, max_examples=30)
def test_a_plan_survives_its_file(seed: int) -> None:
    graph, small, options = case(seed)
    plan = compile_graph(graph, small, options)
    assert DualModePlan.from_json(plan.to_json()) == plan


@given(SEEDS, st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_limits_give_a_sound_plan_and_a_bound(seed: int, longest: int) -> None:
    graph, small, options = case(seed)
    exact = compile_graph(graph, small, options)
    capped = compile_graph(graph, small, CompileOptions(options.readings, segment_pieces=longest))
    hasty = compile_graph(graph, small, CompileOptions(options.readings, time_limit_s=1e-9))
    for plan in (capped, hasty):
        assert find_faults(plan, graph) == []
        assert plan.lower_bound_cycles <= plan.latency_cycles
        assert exact.latency_cycles <= plan.latency_cycles
    assert capped.lower_bound_cycles <= exact.latency_cycles


def test_a_network_without_matrix_work_is_refused() -> None:
    net = Sketch("plain")
    graph = net.graph(net.rider("Relu", net.input("x", 2, 3)))
    with pytest.raises(InputError, match="has no matrix work"):
        compile_graph(graph, chip())


def test_unknown_names_are_refused_with_a_hint() -> None:
    net = Sketch()
    graph = net.graph(net.matmul(net.input("x", 2, 3), 4))
    with pytest.raises(InputError, match="Did you mean 'exact'"):
        compile_graph(graph, chip(), CompileOptions(method="exakt"))
    with pytest.raises(InputError, match="Did you mean 'cost_model'"):
        make_readings(cost_modle="resident")
    with pytest.raises(InputError, match="Did you mean 'resident'"):
        make_readings(cost_model="residents")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_sizes": ()}, "split sizes"),
        ({"split_sizes": (0,)}, "split sizes"),
        ({"segment_pieces": 0}, "holds nothing"),
        ({"time_limit_s": 0.0}, "leaves no time"),
        ({"time_limit_s": float("nan")}, "leaves no time"),
    ],
)
def test_limits_that_leave_nothing_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CompileOptions(**options)  # type: ignore[arg-type]


def test_split_sizes_larger_than_the_chip_are_refused() -> None:
    net = Sketch()
    graph = net.graph(net.matmul(net.input("x", 2, 3), 4))
    with pytest.raises(InputError, match="none of the split sizes"):
        compile_graph(graph, chip(arrays=2), CompileOptions(split_sizes=(3,)))


def test_the_resident_model_refuses_a_main_memory_for_each_operator() -> None:
    with pytest.raises(InputError, match="no reading"):
        CompileOptions(make_readings(cost_model="resident", main_bandwidth="each"))


def test_the_summary_has_the_stable_keys() -> None:
    graph, small, options = case(1)
    summary = compile_graph(graph, small, options, hardware="small").summary()
    assert {
        "model",
        "hardware",
        "status",
        "latency_cycles",
        "all_compute_cycles",
        "speedup",
        "segments",
        "compile_s",
        "checked",
    } <= set(summary)
    assert set(summary["segments"][0]) == {
        "operators",
        "compute_arrays",
        "memory_arrays",
        "cycles",
        "switch_cycles",
        "write_cycles",
        "write_back_cycles",
    }


@pytest.mark.parametrize(("outputs", "inputs", "mvms"), [(2**24, 2**24, 1), (2**40, 2**40, 1), (8, 8, 2**80)])
def test_operators_of_absurd_sizes_are_refused_at_once(outputs: int, inputs: int, mvms: int) -> None:
    operator = MatrixOperator(
        name="vast",
        op_type="MatMul",
        inputs=inputs,
        outputs=outputs,
        mvms=mvms,
        groups=1,
        stationary="constant",
        input_bytes=inputs * mvms,
        output_bytes=outputs * mvms,
        weight_bytes=inputs * outputs,
        reads=(NETWORK,),
        waits_for=(),
        leaves=True,
        operand="x",
    )
    dynaplasia = load("dynaplasia").dual_mode
    assert dynaplasia is not None
    with pytest.raises(InputError) as error:
        compile_operators((operator,), dynaplasia, CompileOptions())
    assert "operator 'vast': is too large to compile" in str(error.value)
