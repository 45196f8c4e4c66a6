"""What is done with an answer looks at the deadline too, and what there was no time for is told."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cimplan import limits
from cimplan.cost.problem import Dependency, Option, Problem
from cimplan.dualmode.compile import compile_graph
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.read import read_graph
from cimplan.hardware import load
from cimplan.partition.baselines import greedy, heft, single_cut
from cimplan.partition.methods import solve
from cimplan.partition.timing import least_choices, list_schedule
from cimplan.plan.build import PlanContext
from cimplan.plan.dual_mode_check import checked
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.reasons import UNKNOWN
from cimplan.program.generate import generate
from cimplan.program.summary import summarise
from cimplan.program.verifier import verify

out_of_time = partial(limits.time_limit, 1, spent_s=2)


def chain_of_products() -> Problem:
    options = tuple((Option("host", 50 + v), Option("cim", 5, 2)) for v in range(6))
    edges = tuple(Dependency(v, v + 1, 3) for v in range(5))
    return Problem(tuple(f"m{v}" for v in range(6)), options, edges, budget=4)


def test_gains_there_was_no_time_for_are_told_and_not_taken_for_differences():
    problem = chain_of_products()
    solution = solve(problem)
    whole, cut = (plan_from(problem, solution, PlanContext(explaining=some)) for some in (nullcontext, out_of_time))
    assert all(UNKNOWN not in item.reason and item.gain_ns is not None for item in whole.operators)
    assert all(item.reason == UNKNOWN and item.gain_ns is None for item in cut.operators)
    assert cut.makespan_ns == whole.makespan_ns
    found = Plan.from_json(cut.to_json(), "plan").verification()
    assert not found.differences
    assert found.unknown == ("gains and reasons of 6 operators, for which there was no time",)


@pytest.mark.parametrize("work", [heft.solve, lambda problem: list_schedule(problem, least_choices(problem))])
def test_scheduling_looks_at_the_deadline(work):
    with pytest.raises(limits.TimeLimitError), out_of_time():
        work(chain_of_products())


@pytest.mark.parametrize("method", [greedy, single_cut])
def test_a_baseline_keeps_what_it_has_when_the_time_is_up(method):
    problem = chain_of_products()
    seconds = count()
    with limits.time_limit(12, clock=lambda: next(seconds)):
        cut = method.solve(problem)
    assert cut.schedule is not None
    assert cut.schedule.makespan(problem) >= method.solve(problem).schedule.makespan(problem)


def two_products(path: Path) -> OperatorGraph:
    product = partial(helper.make_node, "MatMul")
    graph = helper.make_graph(
        [product(["x", "v"], ["y"], name="first"), product(["y", "w"], ["z"], name="second")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 16])],
        [numpy_helper.from_array(np.ones((16, 16), np.float32), name) for name in ("v", "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return read_graph(path)


@pytest.mark.parametrize(
    "work",
    [checked, generate, lambda plan: verify(generate(plan), plan.chip), lambda plan: summarise(generate(plan))],
    ids=["check", "generate", "verify", "summarise"],
)
def test_all_that_follows_a_dual_mode_plan_looks_at_the_deadline(work, tmp_path):
    chip = load("dual-mode-small").dual_mode
    assert chip is not None
    plan = compile_graph(two_products(tmp_path / "net.onnx"), chip)
    work(plan)
    with pytest.raises(limits.TimeLimitError), out_of_time():
        work(plan)
