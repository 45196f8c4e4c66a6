"""A plan of a costed network names its inputs and says where its times come from."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cost"))

import pytest
from cost_cases import chip, small_profile
from oracle import brute_force

from cimplan.cost.build import build_problem
from cimplan.cost.problem import HOST
from cimplan.cost.profile_file import MachineRecord
from cimplan.plan.context import mismatch
from cimplan.plan.plan import build_plan
from cimplan.plan.schedule import Solution


def test_a_plan_of_a_network_says_where_its_numbers_come_from() -> None:
    profile = small_profile()
    costed = build_problem(profile, chip())
    schedule = brute_force(costed.problem)
    assert schedule is not None
    plan = build_plan(costed, Solution("oracle", "optimal", schedule, schedule.makespan(costed.problem)))
    assert plan.host_only_ns is not None
    assert abs(plan.host_only_ns - costed.host_only_ns) <= len(costed.problem)  # ticks are rounded up
    assert plan.times.host == plan.profile.kind == profile.origin
    assert plan.hardware == costed.hardware.name
    assert plan.profile.machine == profile.machine.cpu
    assert set(plan.inputs) == {"model", "profile", "hardware"}
    assert plan.inputs["model"] == profile.model.sha256
    assert plan.inputs["profile"] == hashlib.sha256(profile.to_json().encode()).hexdigest()
    for operator, known in zip(plan.operators, costed.operators, strict=True):
        assert (operator.name, operator.op_type, operator.host_time) == (known.name, known.op_type, known.host_kind)
        if known.cim is None:
            assert operator.place == HOST
            assert operator.reason == f"only on host: {known.reason_unsupported}"


def test_a_fixed_placement_is_named_in_the_reasons_and_the_host_only_latency_stays() -> None:
    costed = build_problem(small_profile(), chip())
    choosable = next(
        name for name, some in zip(costed.problem.names, costed.problem.options, strict=True) if len(some) > 1
    )
    for place in ("host", "cim"):
        problem = costed.problem.fixed({choosable: place})
        schedule = brute_force(problem)
        assert schedule is not None
        solution = Solution("oracle", "optimal", schedule, schedule.makespan(problem))
        plan = build_plan(costed, solution, problem=problem)
        reason = next(item.reason for item in plan.operators if item.name == choosable)
        assert reason.startswith("placed by the user; ")
        assert plan.host_only_ns is not None


@pytest.mark.parametrize(
    ("host", "cpu", "architecture", "fits"),
    [
        ("x86 host", "Intel(R) Xeon(R) Processor", "x86_64", True),
        ("x86 host", "AMD Ryzen 9 3900X 12-Core Processor", "AMD64", True),
        ("x86 host", "ARM Cortex-A72", "aarch64", False),
        ("AMD Ryzen 9 3900X", "AMD Ryzen 9 3900X 12-Core Processor", "x86_64", True),
        ("AMD Ryzen 9 3900X", "Intel(R) Xeon(R) Processor", "x86_64", False),
        ("ARM Cortex-A72", "ARM Cortex-A72, one core at 1.5 GHz", "aarch64", True),
        ("ARM Cortex-A72", "Intel(R) Xeon(R) Processor", "x86_64", False),
        ("host", "Anything", "", True),
        ("ARM Cortex-A72", "", "", True),
    ],
)
def test_a_profile_of_another_processor_than_the_hardware_files_host_is_named(host, cpu, architecture, fits):
    machine = MachineRecord(cpu=cpu, architecture=architecture, system="Linux", threads=1)
    said = mismatch(host, machine)
    assert (said == "") == fits
    if not fits:
        assert host in said
        assert cpu in said
