"""Whatever is changed in a plan file, `check` finds it: from the file alone, or with what it was made of.

What neither can know is listed here, and nothing else may go unnoticed.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cimplan.api.checking import compare_costs
from cimplan.api.fixing import fixed
from cimplan.api.partitioning import cost, solve
from cimplan.cost.problem import Dependency, Option, Problem
from cimplan.errors import InputError
from cimplan.partition.exact import solve as exact
from cimplan.plan.context import context_of
from cimplan.plan.plan import Plan, plan_from

MADE_OF = Path(__file__).parents[1] / "ageing" / "version1"
PROFILE, HARDWARE = MADE_OF / "host.json", MADE_OF / "wide.yaml"

# What nothing else in the file determines. With the model, the profile and the hardware, most of it is known.
ONLY_WITH_COSTS = {
    "hardware",
    "operators.*.op_type",
    "operators.*.host_time",
    "operators.*.reorder_ns",
    "operators.*.network_bytes",
    "dependencies.*.reorder_ns",
    "operators.*.reason",  # why an operator is not supported
    "profile.*",
    "profile.input_shapes.*.*",
    "times.host",
    "inputs.*",
    "dependencies.*.size_bytes",  # transfers that the plan makes are in the file a second time
    "operators.*.ruled_out.*.crossbars",
    "operators.*.ruled_out.*.label",
    "operators.*.ruled_out",
    "operators.*.options.*.label",
    "operators.*.options.*.crossbars",  # of an option not taken, where the proof holds all the same
    "operators.*.options.*.duration_ns",
    "dependencies.*.transfer_ns",
}

# Who made the file, with what, and what the method reports of its work; words for people, and words that only say less.
TAKEN_AS_SAID = {
    "tool_version",
    "model",
    "method",
    "solve_s",
    "statistics.*",
    "checked",
    "times.cim",
    "times.transfer",
    "times.makespan",
    "proof.notes.*",
    "proof.notes",
    "without_fixes.proof.notes.*",
    "host_only_ns_quartiles.*",  # from samples of the host's noise, as the next two
    "speedup_range.*",
    "placement_robust_share",
}


@pytest.fixture(scope="module")
def costed():
    return cost(None, HARDWARE, PROFILE)


def plan_of(costed, **asked) -> Plan:
    return solve(costed, curve=True, **asked)


@pytest.fixture(scope="module")
def plans(costed) -> list[Plan]:
    names = [operator.name for operator in plan_of(costed).operators if len(operator.options) > 1]
    return [plan_of(costed), plan_of(costed, fix={names[0]: "host", names[1]: "cim"})]


def found_alone(data: dict[str, Any]) -> bool:
    """Tell whether `check` refuses a file, or does not end with 0, from the file alone."""
    try:
        return not Plan.from_json(data, "plan.json").verification().complete
    except InputError:
        return True


def found_with_costs(data: dict[str, Any]) -> bool:
    try:
        return bool(compare_costs(Plan.from_json(data, "plan.json"), None, HARDWARE, PROFILE))
    except InputError:
        return True


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a file that is not itself an object or a list with something in it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    else:
        yield path


def pattern(path: tuple[Any, ...]) -> str:
    names = ["*" if isinstance(step, int) else step for step in path]
    if names[0] in ("statistics", "profile", "inputs") and len(names) == 2:
        names[1] = "*"
    if names[:2] == ["profile", "input_shapes"]:
        names[2] = "*"
    return ".".join(names)


def other(value: Any, generator: random.Random) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, value + generator.choice((-1, 1))) if value else 1
    if isinstance(value, float):
        return value + 1.0 if generator.random() < 0.5 or value < 1 else value - 1.0
    if isinstance(value, str):
        words = {"optimal": "feasible", "feasible": "optimal", "host": "cim", "cim": "host", "verified": "incomplete"}
        kinds = {"measured": "estimated", "modelled": "measured", "simulated": "measured", "estimated": "measured"}
        return words.get(value) or kinds.get(value) or f"{value}x"
    return 1.0 if value is None else value


def mutants(plan: Plan, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a file for each thing in it that can be another, some of each kind."""
    generator = random.Random(seed)
    data = json.loads(json.dumps(plan.to_json()))
    by_pattern: dict[str, list[tuple[Any, ...]]] = {}
    for path in leaves(data):
        by_pattern.setdefault(pattern(path), []).append(path)
    for name, paths in sorted(by_pattern.items()):
        for path in generator.sample(paths, min(len(paths), 6)):
            mutant = copy.deepcopy(data)
            target = mutant
            for step in path[:-1]:
                target = target[step]
            value = other(target[path[-1]], generator)
            if value == target[path[-1]]:
                continue
            target[path[-1]] = value
            yield name, mutant


def is_weaker(name: str, mutant: dict[str, Any], plan: Plan) -> bool:
    """Tell whether a certificate or a word was changed to one that still proves, or claims, what the file needs.

    A certificate may cut a network in many ways; one that claims its own tables more cautiously proves no less.
    """
    return name.startswith(("certificate", "curve_proofs", "without_fixes.certificate")) or name in (
        "curve.*.status",
        "proof.verdict",
        "without_fixes.proof.verdict",
        "curve.*.schedule.starts.*",
        "curve.*.schedule.options.*",
        "without_fixes.schedule.starts.*",
    )


def test_the_plans_themselves_are_complete_and_their_costs_match(plans):
    for plan in plans:
        data = plan.to_json()
        assert not found_alone(data)
        assert not found_with_costs(data)
        assert plan.status == "optimal"
        assert {point.status for point in plan.curve} == {"optimal"}


@pytest.mark.parametrize("number", [0, 1])
def test_every_change_is_found_but_for_what_nobody_can_know(plans, number):
    unnoticed, alone, tried = [], set(), 0
    for name, mutant in mutants(plans[number], seed=number):
        tried += 1
        if found_alone(mutant):
            alone.add(name)
        elif name in ONLY_WITH_COSTS:
            if not found_with_costs(mutant):
                unnoticed.append(name)
        elif name not in TAKEN_AS_SAID and not is_weaker(name, mutant, plans[number]):
            unnoticed.append(name)
    assert not sorted(set(unnoticed))
    assert tried > 200
    assert {
        "makespan_ns",
        "lower_bound_ns",
        "operators.*.gain_ns",
        "operators.*.reason",
        "curve.*.makespan_ns",
    } <= alone
    if number:
        assert {"without_fixes.makespan_ns", "without_fixes.lower_bound_ns"} <= alone


def consistent(costed, change: Callable[[Problem], Problem], **context: Any) -> Plan:
    """Return an honest plan for costs that are not those of the network."""
    problem = change(costed.problem)
    made_of = replace(context_of(costed), transfer_reorder_ns=(), **context)
    return plan_from(problem, exact(problem), made_of)


def faster(problem: Problem) -> Problem:
    return replace(
        problem,
        options=tuple(
            tuple(replace(option, duration=-(-option.duration // 2)) for option in options)
            for options in problem.options
        ),
    )


def invented(problem: Problem) -> Problem:
    return replace(problem, options=tuple((*options, Option("cim", 1, 0, "invented")) for options in problem.options))


def fewer_edges(problem: Problem) -> Problem:
    return replace(problem, dependencies=problem.dependencies[::2])


def more_edges(problem: Problem) -> Problem:
    known = {(edge.source, edge.target): edge for edge in problem.dependencies}
    known[0, len(problem) - 1] = Dependency(0, len(problem) - 1, 0, 0)
    return replace(problem, dependencies=tuple(edge for _, edge in sorted(known.items())))


def free_transfers(problem: Problem) -> Problem:
    return replace(problem, dependencies=tuple(replace(edge, transfer=0) for edge in problem.dependencies))


def swapped_names(problem: Problem) -> Problem:
    first, second, *names = problem.names
    return replace(problem, names=(second, first, *names))


FORGED = {
    "halved durations": faster,
    "invented options": invented,
    "dropped edges": fewer_edges,
    "added edges": more_edges,
    "free transfers": free_transfers,
    "swapped names": swapped_names,
    "a renamed operator": lambda problem: replace(problem, names=("other", *problem.names[1:])),
    "another tick": lambda problem: replace(problem, tick_ns=2 * problem.tick_ns),
    "a budget": lambda problem: problem.with_budget(problem.budget + 1),
    "host cores": lambda problem: replace(problem, host_cores=2),
    "a place ruled out without a word": lambda problem: fixed(
        problem, {name: "host" for name, some in zip(problem.names, problem.options, strict=True) if len(some) > 1}
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_honest_plans_of_other_costs_are_found_by_what_they_should_have_been_made_of(costed, name):
    plan = consistent(costed, FORGED[name])
    differences = compare_costs(Plan.from_json(plan.to_json(), "plan.json"), None, HARDWARE, PROFILE)
    assert differences
    assert all(len(line) < 500 for line in differences)


@pytest.mark.parametrize("kind", ["model", "profile", "hardware"])
def test_other_hashes_are_found(costed, kind):
    inputs = context_of(costed).inputs | {kind: "0" * 64}
    plan = consistent(costed, lambda problem: problem, inputs=inputs)
    assert [line.split(":")[0] for line in compare_costs(plan, None, HARDWARE, PROFILE)] == [f"inputs.{kind}"]


def test_other_words_on_inputs_outputs_and_reorders_are_found(plans):
    data = plans[0].to_json()
    data["network_io"] = {"free": "charged", "charged": "free"}[data["network_io"]]
    data["operators"][0]["reorders"] = ["invented"]
    found = compare_costs(Plan.from_json(data, "plan.json"), None, HARDWARE, PROFILE)
    assert [line.split(" is ")[0].split(": ")[-1] for line in found] == ["reorders", "network_io"]


def test_a_fix_that_is_taken_out_of_the_file_is_missed_at_its_operator(plans):
    data = plans[1].to_json()
    data["fixes"], data["without_fixes"] = {}, None
    assert found_alone(data)
    for operator in data["operators"]:
        operator["ruled_out"] = []
    assert found_alone(data)  # there is still a time at a place without an option


def test_a_curve_that_is_quicker_than_any_schedule_is_not_believed(plans):
    data = plans[0].to_json()
    at = len(data["curve"]) // 2
    point = data["curve"][at]
    point["makespan_ns"] -= 1
    point["lower_bound_ns"] -= 1
    assert found_alone(copy.deepcopy(data))
    point["schedule"] = None
    plan = Plan.from_json(copy.deepcopy(data), "plan.json") if not refused(data) else None
    if plan is not None:
        report = plan.verification()
        assert at in report.curve_open and not report.complete


def refused(data: dict[str, Any]) -> bool:
    try:
        Plan.from_json(copy.deepcopy(data), "plan.json").verification()
    except InputError:
        return True
    return False


def test_a_curve_without_its_proofs_says_optimal_of_nothing(plans):
    data = plans[0].to_json()
    data["curve_proofs"] = []
    report = Plan.from_json(data, "plan.json").verification()
    assert not report.complete
    assert len(report.curve_open) >= len(report.curve) - 2
