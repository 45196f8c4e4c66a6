"""Plans: what they say, files that come back unchanged, and corrupt files that are refused with the field."""

from __future__ import annotations

import builtins
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from oracle import brute_force, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError, InternalError, NoAnswerError
from cimplan.partition.prove import with_certificate
from cimplan.plan.build import PlanContext
from cimplan.plan.certificate import Block, Certificate
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.schedule import CurvePoint, Schedule, Solution
from cimplan.plan.schema import plan_schema

STABLE_KEYS = [
    *("model", "hardware", "method", "status", "makespan_ns", "lower_bound_ns", "gap", "host_only_ns", "speedup"),
    *("crossbars_used", "crossbars_available", "solve_s", "operators", "checked"),
]
STABLE_OPERATOR_KEYS = ["name", "op_type", "place", "start_ns", "finish_ns", "crossbars", "reason"]


def solved(problem: Problem, **claims: Any) -> Solution:
    schedule = brute_force(problem)
    assert schedule is not None
    return Solution("oracle", "optimal", schedule, schedule.makespan(problem), **claims)


def example_problem(tick_ns: float = 1.0, budget: int = 5) -> Problem:
    return Problem(
        names=("load", "conv", "relu", "fc", "add"),
        options=(
            (Option(HOST, 500),),
            (Option(HOST, 2000), Option(CIM, 400, 3)),
            (Option(HOST, 100),),
            (Option(HOST, 900), Option(CIM, 100, 4)),
            (Option(HOST, 20),),
        ),
        dependencies=(
            Dependency(0, 1, 70, 700),
            Dependency(1, 2, 60, 600),
            Dependency(1, 4, 60, 600),
            Dependency(2, 3, 50, 500),
            Dependency(3, 4, 40, 400),
        ),
        budget=budget,
        tick_ns=tick_ns,
    )


CONTEXT = PlanContext(
    model="example",
    hardware="rram",
    op_types=("Quant", "Conv", "Relu", "Gemm", "Add"),
    unsupported={"load": "not matrix work (Quant)", "relu": "not matrix work (Relu)"},
    inputs={"model": "0" * 64},
)


@pytest.fixture
def plan() -> Plan:
    curve = (CurvePoint(0, 3520, 3520), CurvePoint(3, 2050, 2050), CurvePoint(7, 1340, 1000))
    solution = with_certificate(example_problem(), solved(example_problem(), curve=curve))
    return plan_from(example_problem(), solution, CONTEXT)


def test_a_plan_says_what_it_gains_and_what_is_left(plan: Plan) -> None:
    assert plan.status == "optimal"
    assert plan.makespan_ns == plan.lower_bound_ns == 500 + 70 + 400 + 60 + 100 + 900 + 20
    assert (plan.gap, plan.host_only_ns) == (0.0, 3520)
    assert plan.speedup == 3520 / 2050
    assert (plan.crossbars_used, plan.crossbars_available) == (3, 5)
    assert plan.assignment == {"load": HOST, "conv": CIM, "relu": HOST, "fc": HOST, "add": HOST}
    assert plan.schedule["conv"] == (570, 970)
    assert [(move.source, move.target, move.start_ns, move.finish_ns, move.size_bytes) for move in plan.transfers] == [
        ("load", "conv", 500, 570, 700),
        ("conv", "relu", 970, 1030, 600),
        ("conv", "add", 970, 1030, 600),
    ]
    assert [(region.place, region.operators) for region in plan.regions] == [
        (HOST, ("load",)),
        (CIM, ("conv",)),
        (HOST, ("relu", "fc", "add")),
    ]
    assert (plan.counts.transfers, plan.counts.transfer_bytes, plan.counts.with_choice) == (3, 1900, 2)
    assert plan.counts.places[HOST].operators == 4
    assert plan.counts.places[CIM].busy_ns == 400
    assert [(point.crossbars, point.status, point.solver_claims) for point in plan.curve] == [
        (0, "feasible", "optimal"),
        (3, "feasible", "optimal"),  # the plan's own budget is proven, but not one crossbar more
        (7, "feasible", "feasible"),
    ]
    assert plan.checked


def test_each_operator_has_a_reason_with_the_gain_of_a_move(plan: Plan) -> None:
    reasons = {operator.name: (operator.gain_ns, operator.reason) for operator in plan.operators}
    assert reasons["load"] == (None, "only on host: not matrix work (Quant)")
    assert reasons["conv"] == (1470, "CIM saves 1.47 µs on 3 crossbars")
    assert reasons["fc"] == (-710, "CIM would save 710 ns, but the 4 crossbars it needs are better used elsewhere")
    assert reasons["add"] == (None, "only on host")


def test_reasons_tell_a_small_chip_a_costly_transfer_and_a_slow_crossbar_apart() -> None:
    def reason(host: int, cim: int, transfer: int, crossbars: int = 1, budget: int = 9) -> str:
        options = ((Option(HOST, 10),), (Option(HOST, host), Option(CIM, cim, crossbars)))
        problem = Problem(("a", "b"), options, (Dependency(0, 1, transfer),), budget)
        return plan_from(problem, solved(problem)).operators[1].reason

    assert reason(50, 20, 70) == "transfers and waiting would cost 40 ns more than CIM gains"
    assert reason(50, 80, 5) == "CIM would cost 35 ns: it takes 80 ns for it"
    assert reason(50, 20, 5, crossbars=10) == "CIM needs 10 crossbars, there are 9"
    assert reason(50, 20, 5) == "CIM saves 25 ns on 1 crossbar"


def test_a_place_fixed_by_the_user_says_what_it_costs() -> None:
    free = example_problem()
    fixed = free.fixed({"conv": HOST})
    plan = plan_from(fixed, solved(fixed), CONTEXT, unfixed=free)
    assert plan.operators[1].reason == "placed by the user; CIM would save 1.47 µs"
    assert plan.host_only_ns == 3520
    assert "only on" not in plan.operators[3].reason


def test_the_host_only_latency_ignores_what_the_user_fixed_on_the_accelerator() -> None:
    free = example_problem()
    fixed = free.fixed({"conv": CIM})
    assert plan_from(fixed, solved(fixed)).host_only_ns is None
    assert plan_from(fixed, solved(fixed), unfixed=free).host_only_ns == 3520


def test_a_wasteful_schedule_is_tightened_and_its_curve_with_it() -> None:
    problem = example_problem()
    late = Schedule((0, 1, 0, 0, 0), (0, 600, 1100, 1300, 2300))
    curve = (CurvePoint(0, 3520, 0), CurvePoint(4, 2320, 0), CurvePoint(8, 1200, 0))
    plan = plan_from(problem, Solution("greedy", "feasible", late, 1000, curve=curve))
    assert plan.makespan_ns == 2050
    assert plan.status == "feasible"
    assert [(point.crossbars, point.makespan_ns) for point in plan.curve] == [(0, 3520), (3, 2050), (8, 1200)]
    assert plan_from(problem, Solution("greedy", "feasible", late, 2050)).solver_claims == "optimal"


def test_what_the_checker_refuses_never_becomes_a_plan() -> None:
    problem = example_problem()
    good = solved(problem)
    assert good.schedule is not None
    early = replace(good.schedule, start=(*good.schedule.start[:-1], good.schedule.start[-1] - 1))
    with pytest.raises(InternalError, match="checker refuses"):
        plan_from(problem, replace(good, schedule=early, lower_bound=good.lower_bound - 1))
    with pytest.raises(InternalError, match="checker refuses"):
        plan_from(problem, replace(good, lower_bound=good.lower_bound - 1))


def test_a_wrong_bound_is_refuted_by_a_better_neighbour() -> None:
    problem = example_problem()
    worse = Schedule((0, 0, 0, 0, 0), (0, 500, 2500, 2600, 3500))
    with pytest.raises(InternalError, match=r"lower bound of this plan is wrong.*moved to 'cim' the plan takes"):
        plan_from(problem, Solution("broken", "optimal", worse, 3520))


def chain() -> tuple[Problem, Certificate]:
    problem = Problem(
        ("a", "b"), ((Option(HOST, 10), Option(CIM, 2, 1)), (Option(HOST, 10),)), (Dependency(0, 1, 3),), budget=1
    )
    return problem, Certificate(15, 1, (0, 1), (Block("chain"),) * 3)


def test_the_certificate_is_verified_when_the_plan_is_made(tmp_path: Path) -> None:
    problem, certificate = chain()
    plan = plan_from(problem, solved(problem, certificate=certificate))
    assert (plan.proof.verdict, plan.proof.bound_ns) == ("verified", 15)
    plan.write(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert again.certificate == certificate
    assert again.verify_proof().verified
    assert again.verify_proof(nodes=1, search_nodes=0).nodes <= 1
    with pytest.raises(InputError, match="no certificate to verify"):
        plan_from(problem, solved(problem)).verify_proof()


def test_a_wrong_certificate_is_refused_and_an_open_one_is_reported() -> None:
    problem, certificate = chain()
    with pytest.raises(InternalError, match="proves 16, above the makespan 15"):
        plan_from(problem, solved(problem, certificate=replace(certificate, lower_bound=16)))
    partly = Certificate(10, 1, (1,), (Block("chain"),) * 2, dropped=(0,))
    with pytest.raises(InternalError, match="certificate of the lower bound is wrong"):  # the fold does not reach it
        plan_from(problem, solved(problem, certificate=replace(partly, lower_bound=15)))
    weaker = replace(certificate, lower_bound=14)
    plan = plan_from(problem, solved(problem, certificate=weaker))
    assert (plan.proof.verdict, plan.proof.bound_ns) == ("verified", 15)  # the search reaches what the method says
    assert plan.certificate is not None
    assert plan.certificate.lower_bound == 15
    assert plan.verify_proof().verified
    plan = plan_from(problem, solved(problem, certificate=partly))
    assert (plan.proof.verdict, plan.proof.bound_ns, plan.certificate) == ("incomplete", 10, partly)


def test_no_schedule_is_no_answer_with_demand_and_limit() -> None:
    problem = Problem(("a",), ((Option(CIM, 5, 7),),), (), 3)
    with pytest.raises(NoAnswerError, match=r"need 7 crossbars, 3 are available.*--crossbars 7"):
        plan_from(problem, Solution("exact", "infeasible", None))
    with pytest.raises(NoAnswerError, match="no plan in its time"):
        plan_from(problem.with_budget(7), Solution("exact", "unknown", None))
    with pytest.raises(InternalError):
        plan_from(problem.with_budget(7), Solution("exact", "infeasible", None))


def test_the_stable_keys_are_there(plan: Plan) -> None:
    written = plan.to_json()
    assert [key for key in STABLE_KEYS if key not in written] == []
    for operator in written["operators"]:
        assert [key for key in STABLE_OPERATOR_KEYS if key not in operator] == []
    assert written["checked"] is True
    assert [key for key in ("crossbars", "makespan_ns", "status") if key not in written["curve"][0]] == []
    assert written["schema_version"] == 1
    assert written["inputs"] == {"model": "0" * 64}


@pytest.mark.parametrize("tick_ns", [1.0, 0.001, 1000.0, 1 / 3])
def test_a_plan_comes_back_from_its_file_unchanged(tmp_path: Path, tick_ns: float) -> None:
    problem = example_problem(tick_ns)
    plan = plan_from(problem, solved(problem), CONTEXT)
    plan.write(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert again == plan
    assert again.problem() == problem
    assert again.ticks() == plan.ticks()


@settings(deadline=None, max_examples=60)
@given(problem=problems(6, max_cores=2))
def test_any_plan_satisfies_the_schema_and_holds_what_was_solved(problem: Problem) -> None:
    schedule = brute_force(problem)
    if schedule is None:
        return
    plan = plan_from(problem, Solution("oracle", "optimal", schedule, schedule.makespan(problem)))
    written = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    jsonschema.Draft202012Validator(plan_schema()).validate(written)
    again = Plan.model_validate_json(json.dumps(written))
    assert again == plan
    again.verify()
    assert again.problem() == problem
    assert again.ticks().makespan(problem) == schedule.makespan(problem)


def test_the_schema_itself_is_valid_and_refuses_unknown_keys(plan: Plan) -> None:
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert not validator.is_valid(plan.to_json() | {"surprise": 1})
    assert not validator.is_valid({key: value for key, value in plan.to_json().items() if key != "method"})
    assert not validator.is_valid(plan.to_json() | {"makespan_ns": -1})


def edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        target: Any = data
        for step in steps:
            target = target[step]
        if value is ...:
            del target[last]
        else:
            target[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edit("operators/1/start_ns", "soon"), r"operators\[1\]\.start_ns.*number"),
        (edit("operators/1/start_ns", -5), r"operators\[1\]\.start_ns"),
        (edit("operators/1/start_ns", 569), "takes none of its options"),
        (edit("operators/1/start_ns", 570.5), r"operators\[1\]\.start_ns: 570\.5 ns is not a whole number of ticks"),
        (edit("operators/1/place", "host"), r"operators\[1\]: operator 'conv' takes none of its options"),
        (edit("operators/1/crossbars", 2), "takes none of its options"),
        (edit("operators/1/options/1/crossbars", 2), "takes none of its options"),
        (edit("operators/1/surprise", 2), r"operators\[1\]\.surprise: .*not known"),
        (edit("operators/1/reason", ...), r"operators\[1\]\.reason: .*missing"),
        (edit("operators/1/name", "load"), "names are not unique"),
        (edit("dependencies/0/source", "nobody"), r"dependencies\[0\]: there is no operator 'nobody'"),
        (edit("dependencies/0/source", "add"), "must be sorted"),
        (edit("dependencies/0/transfer_ns", 80), "'conv' starts at 570, but a transfer of 80"),
        (edit("crossbars_available", 2), "3 crossbars, the budget is 2"),
        (edit("crossbars_used", 2), "crossbars_used: does not follow"),
        (edit("makespan_ns", 2049), "the makespan is said to be 2049"),
        (edit("lower_bound_ns", 2049), "'optimal' but the lower bound 2049 is below"),
        (edit("status", "best"), "status"),
        (edit("status", "feasible"), "status: does not follow"),
        (edit("solver_claims", "feasible"), "'feasible' but the lower bound equals"),
        (edit("gap", 0.5), "gap: does not follow"),
        (edit("speedup", 99.0), "speedup: does not follow"),
        (edit("transfers/0/finish_ns", 560), "transfers: does not follow"),
        (edit("regions/0/crossbars", 1), "regions: does not follow"),
        (edit("counts/transfer_bytes", 0), "counts: does not follow"),
        (edit("curve/1/makespan_ns", 2100), "the curve says 2100"),
        (edit("tick_ns", 0), "tick_ns"),
        (edit("host_cores", 0), "host_cores"),
        (edit("schema_version", 2), "its schema_version is 2.*reads schema_version 1.*cimplan partition"),
        (edit("kind", "something"), "is not a partition plan"),
        (edit("method", ...), "method: .*missing"),
    ],
)
def test_a_corrupt_plan_is_refused_with_its_place(
    plan: Plan, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    data = plan.to_json()
    change(data)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=words) as caught:
        Plan.read(path)
    assert str(path) in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"a": NaN}', "\x00\xff"])
def test_what_is_no_plan_at_all_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"plan\.json.*is not a (partition )?plan"):
        Plan.read(path)
    with pytest.raises(InputError, match="cannot read the plan"):
        Plan.read(tmp_path / "none.json")


def test_numbers_that_are_not_finite_are_refused(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for value in ("NaN", "Infinity", "1e999"):
        data = json.dumps(plan.to_json()).replace('"makespan_ns": 2050.0', f'"makespan_ns": {value}', 1)
        path.write_text(data)
        with pytest.raises(InputError, match="makespan_ns"):
            Plan.read(path)


def test_a_plan_starts_another_problem_on_the_same_network(plan: Plan) -> None:
    slower = replace(
        example_problem(),
        dependencies=tuple(replace(edge, transfer=2 * edge.transfer) for edge in example_problem().dependencies),
    )
    schedule = plan.schedule_for(slower)
    assert schedule.chosen == plan.ticks().chosen
    assert schedule.makespan(slower) == 2050 + 70 + 60
    with pytest.raises(InputError, match="takes 3 crossbars, 2 are available"):
        plan.schedule_for(example_problem(budget=2))
    with pytest.raises(InputError, match=r"'conv'.*has the operator on 'cim'"):
        plan.schedule_for(example_problem().fixed({"conv": HOST}))
    with pytest.raises(InputError, match="another network"):
        plan.schedule_for(replace(example_problem(), names=tuple("abcde")))


def test_the_table_has_a_row_per_operator(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = plan.to_frame()
    assert frame["name"].to_list() == ["load", "conv", "relu", "fc", "add"]
    assert frame["gain_ns"].to_list() == [None, 1470.0, None, -710.0, None]
    without(monkeypatch, "polars")
    with pytest.raises(InputError, match=r"pip install 'cimplan\[explore\]'"):
        plan.to_frame()


def test_the_timeline_is_drawn_on_given_axes(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = plan.plot()
    assert [label.get_text() for label in drawn.get_yticklabels()][:2] == ["host", "crossbar group 0"]
    assert plan.plot(drawn) is drawn
    without(monkeypatch, "matplotlib")
    with pytest.raises(InputError, match=r"pip install 'cimplan\[explore\]'"):
        plan.plot()


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Pretend that a package is not installed."""
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == package or name.startswith(package + "."):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_plans_of_random_problems_hold() -> None:
    rng = random.Random(3)
    for _ in range(80):
        problem = random_problem(rng, operators=rng.randint(1, 6), host_cores=rng.choice([1, 1, 2]))
        schedule = brute_force(problem)
        if schedule is not None:
            plan = plan_from(problem, Solution("oracle", "optimal", schedule, schedule.makespan(problem)))
            assert plan.makespan_ns == schedule.makespan(problem)
            assert sum(count.operators for count in plan.counts.places.values()) == len(problem)
            assert sorted(name for region in plan.regions for name in region.operators) == sorted(problem.names)
