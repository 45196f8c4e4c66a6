"""Traces are what viewers expect: sorted, integers where asked, no overlapping bars, every arrow whole."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from oracle import brute_force, problems, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError
from cimplan.export import FORMATS
from cimplan.export.trace import trace, write_trace
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.schedule import Schedule, Solution

EVENT_SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ns", "ms"]},
        "otherData": {"type": "object", "additionalProperties": {"type": "string"}},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "pid", "tid", "ts", "name"],
                "properties": {
                    "ph": {"enum": ["M", "X", "s", "t", "f", "C"]},
                    "pid": {"type": "integer", "minimum": 1},
                    "tid": {"type": "integer", "minimum": 0},
                    "ts": {"type": "number", "minimum": 0},
                    "dur": {"type": "number", "minimum": 0},
                    "id": {"type": "integer"},
                    "name": {"type": "string"},
                    "cat": {"type": "string"},
                    "bp": {"const": "e"},
                    "args": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
    },
}


def plan_of(problem: Problem) -> Plan | None:
    schedule = brute_force(problem)
    if schedule is None:
        return None
    return plan_from(problem, Solution("oracle", "optimal", schedule, schedule.makespan(problem)))


def require_valid(plan: Plan) -> list[dict[str, Any]]:
    """Check everything a viewer relies on and return the events as read back from text."""
    loaded = json.loads(json.dumps(trace(plan), allow_nan=False))
    jsonschema.validate(loaded, EVENT_SCHEMA)
    events: list[dict[str, Any]] = loaded["traceEvents"]
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}

    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in timed:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    assert set(tracks) == named
    for bars in tracks.values():
        for (_, end), (begin, _) in pairwise(sorted(bars)):
            assert begin >= end - 1e-9 * max(1.0, end), "bars of a track overlap"

    arrows: dict[int, list[dict[str, Any]]] = {}
    for event in timed:
        if event["ph"] in "stf":
            arrows.setdefault(event["id"], []).append(event)
    assert len(arrows) == len(plan.transfers)
    for steps in arrows.values():
        assert [step["ph"] for step in steps] == ["s", "t", "f"]
        for step in steps:  # each end touches a bar of its own track
            assert any(begin - 1e-9 <= step["ts"] <= end + 1e-9 for begin, end in tracks[step["pid"], step["tid"]])
    return events


def example() -> Plan:
    problem = Problem(
        names=("load", "a", "b", "c", "add", "view"),
        options=(
            (Option(HOST, 500),),
            (Option(CIM, 400, 3),),
            (Option(CIM, 300, 2),),
            (Option(CIM, 100, 1),),
            (Option(HOST, 20),),
            (Option(HOST, 0),),
        ),
        dependencies=(
            Dependency(0, 1, 70, 700),
            Dependency(0, 2, 60, 600),
            Dependency(1, 4, 60, 600),
            Dependency(2, 3, 50, 500),
            Dependency(3, 4, 40, 400),
        ),
        budget=10,
    )
    plan = plan_of(problem)
    assert plan is not None
    return plan


def test_operators_that_overlap_on_the_crossbars_get_tracks_of_their_own() -> None:
    events = require_valid(example())
    bars = {event["name"]: event for event in events if event["ph"] == "X"}
    assert bars["a"]["tid"] != bars["b"]["tid"]
    assert bars["c"]["tid"] in (bars["a"]["tid"], bars["b"]["tid"])  # it follows one of them
    assert bars["load"]["pid"] != bars["a"]["pid"]
    assert (bars["a"]["ts"], bars["a"]["dur"]) == (0.57, 0.4)
    assert bars["a"]["args"]["crossbars"] == 3
    assert bars["load → a"]["args"] == {"source": "load", "target": "a", "size_bytes": 700}


def test_the_counter_adds_up_the_crossbars_that_compute() -> None:
    events = require_valid(example())
    counter = [(event["ts"], event["args"]["crossbars"]) for event in events if event["ph"] == "C"]
    assert counter == [(0.0, 0), (0.56, 2), (0.57, 5), (0.86, 4), (0.96, 3), (0.97, 0)]


def test_the_arrow_of_a_transfer_goes_from_source_over_the_bus_to_target() -> None:
    events = require_valid(example())
    bars = {event["name"]: event for event in events if event["ph"] == "X"}
    arrow = {event["ph"]: event for event in events if event.get("id") == 1}
    track = {phase: (event["pid"], event["tid"]) for phase, event in arrow.items()}
    bus = next(name for name in bars if " → " in name and bars[name]["ts"] == arrow["t"]["ts"])
    source, target = bus.split(" → ")
    assert track["s"] == (bars[source]["pid"], bars[source]["tid"])
    assert track["t"] == (bars[bus]["pid"], bars[bus]["tid"])
    assert track["f"] == (bars[target]["pid"], bars[target]["tid"])


def test_names_of_the_model_are_data() -> None:
    name = 'a"</script>\n\u202e\\ = {}'
    problem = Problem((name, "b"), ((Option(HOST, 5),), (Option(CIM, 4, 1),)), (Dependency(0, 1, 3),), 2)
    plan = plan_of(problem)
    assert plan is not None
    events = require_valid(plan)
    assert name in [event["name"] for event in events]


@settings(deadline=None, max_examples=80)
@given(problem=problems(7, max_cores=3))
def test_any_plan_gives_a_valid_trace(problem: Problem) -> None:
    plan = plan_of(problem)
    if plan is not None:
        require_valid(plan)


def test_larger_random_plans_give_valid_traces() -> None:
    rng = random.Random(5)
    for cores in (1, 2, 4):
        problem = random_problem(rng, "random", flavour="zero", operators=60, host_cores=cores)
        chosen = tuple(rng.randrange(len(options)) for options in problem.options)
        problem = problem.with_budget(10**6)
        now, start = 0, []
        for options, choice in zip(problem.options, chosen, strict=True):
            start.append(now)
            now += options[choice].duration + 10
        require_valid(plan_from(problem, Solution("random", "feasible", Schedule(chosen, tuple(start)))))


def test_an_empty_plan_gives_an_empty_trace() -> None:
    plan = plan_of(Problem((), (), (), 0))
    assert plan is not None
    assert require_valid(plan) == []


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert FORMATS["trace"](example(), path) == (path,)
    assert json.loads(path.read_text()) == trace(example())
    with pytest.raises(InputError):
        write_trace(example(), tmp_path / "missing" / "trace.json")
    assert sorted(tmp_path.iterdir()) == [path]
