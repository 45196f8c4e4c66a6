"""Programs of compiled networks: valid, faithful to the plan, and as fast as the plan says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks_of_products import product_network
from toy_plans import toy_chip

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.methods import METHODS
from cimplan.dualmode.options import CompileOptions, make_readings
from cimplan.graph.read import graph_from_model
from cimplan.hardware import load
from cimplan.machine.timing import replay
from cimplan.plan.dual_mode import DualModePlan
from cimplan.program.generate import generate
from cimplan.program.parser import parse_program
from cimplan.program.printer import print_program
from cimplan.program.summary import disagreements, summarise
from cimplan.program.verifier import verify
from cimplan.zoo import build

readings = st.fixed_dictionaries(
    {
        "data_moved": st.sampled_from(["inputs", "inputs_outputs", "inputs_outputs_weights"]),
        "weight_writes": st.sampled_from(["free", "main_bandwidth", "array_cycles", "both"]),
        "main_bandwidth": st.sampled_from(["each", "shared"]),
        "duplication": st.sampled_from(["whole", "linear"]),
        "group_packing": st.sampled_from(["block_diagonal", "one_per_group"]),
        "cost_model": st.sampled_from(["published", "published", "resident"]),
    }
).map(lambda chosen: chosen | {"main_bandwidth": "shared"} if chosen["cost_model"] == "resident" else chosen)


def check(plan: DualModePlan) -> None:
    program = generate(plan)
    text = print_program(program)
    assert parse_program(text) == program
    report = verify(program, plan.chip)
    assert not report.truncated
    assert report.ok, f"{report.violations}\n{text}"
    assert disagreements(program, plan) == []
    if plan.readings.cost_model == "published":
        _check_cycles(program, plan)


def _check_cycles(program, plan) -> None:
    counts = summarise(program)
    for timing, count, planned in zip(replay(program, plan.chip, plan.readings), counts, plan.segments, strict=True):
        assert timing.switch_cycles == planned.switch_cycles
        assert timing.write_cycles == planned.write_cycles
        assert timing.write_back_cycles == planned.write_back_cycles
        for stage, cycles, part in zip(count.stages, timing.stage_cycles, planned.parts, strict=True):
            # A plan may share an array between parts between which no bytes flow: the program does not.
            if stage.input_arrays + stage.output_arrays == part.input_arrays + part.output_arrays:
                assert cycles == part.cycles
            else:
                assert cycles > part.cycles


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    readings,
    st.sampled_from(sorted(METHODS)),
    st.sampled_from([8, 13, 32]),
    st.sampled_from([3.0, 400.0]),
)
def test_programs_of_compiled_networks_do_what_the_plan_says(seed, chosen, method, arrays, op_per_cycle):
    chip = toy_chip(arrays=arrays, op_per_cycle=op_per_cycle, write_cycles=2)
    options = CompileOptions(readings=make_readings(**chosen), method=method)
    check(compile_graph(product_network(seed), chip, options, hardware="toy"))


@pytest.mark.parametrize("cost_model", ["published", "resident"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("resnet18", {}),
        ("mobilenet_v2", {}),
        ("bert_large", {"seq": 64}),
        ("llama2_7b", {"seq": 64, "batch": 2, "phase": "decode", "layers": 1}),
    ],
)
def test_reference_networks(name, params, cost_model):
    chip = load("dynaplasia").dual_mode
    options = CompileOptions(split_sizes=(32,), readings=make_readings(cost_model=cost_model))
    plan = compile_graph(graph_from_model(build(name, **params)), chip, options, hardware="dynaplasia")
    check(plan)


def test_a_program_of_another_plan_is_told_apart():
    chip = toy_chip(arrays=32)
    one, other = (
        compile_graph(product_network(seed), chip, CompileOptions(method=method), hardware="toy")
        for seed, method in ((3, "exact"), (11, "exact"))
    )
    assert disagreements(generate(one), other)
