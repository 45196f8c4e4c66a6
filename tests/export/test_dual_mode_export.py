"""Timelines and tables of dual-mode plans."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import onnx
import pytest
from onnx import TensorProto, helper

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.options import CompileOptions, make_readings
from cimplan.errors import InputError
from cimplan.export import DUAL_MODE_FORMATS
from cimplan.export.dual_mode_tables import parts_csv, segments_csv, stores_csv, write_csv
from cimplan.export.dual_mode_trace import trace, write_trace
from cimplan.graph.read import graph_from_model
from cimplan.hardware import load
from cimplan.plan.dual_mode import DualModePlan, array_numbers
from cimplan.plan.mode_history import COMPUTE, MEMORY, mode_history, ranges_text, segment_starts


def chain(names: list[str], tokens: int = 64) -> onnx.ModelProto:
    """Fully connected layers of 40 features: with few rates, memory arrays pay."""
    nodes = [
        helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"], name=name)
        for index, name in enumerate(names)
    ]
    weights = [
        helper.make_tensor(f"w{index}", TensorProto.FLOAT, [40, 40], [0.1] * 1600) for index in range(len(names))
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [tokens, 40])],
        [helper.make_tensor_value_info(f"x{len(names)}", TensorProto.FLOAT, [tokens, 40])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="module", params=["published", "resident"])
def plan(request) -> DualModePlan:
    chip = load("dual-mode-small").dual_mode
    graph = graph_from_model(chain(["=first", "second", "third", "fourth"]))
    options = CompileOptions(make_readings(cost_model=request.param), split_sizes=(3,))
    found = compile_graph(graph, chip, options, hardware="dual-mode-small")
    assert any(segment.stores for segment in found.segments), "the example should use memory arrays"
    assert any(segment.to_memory for segment in found.segments)
    return found


def bars(found: dict) -> dict[tuple[int, int], list[dict]]:
    tracks = defaultdict(list)
    for event in found["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def test_bars_of_a_track_never_overlap(plan):
    for track in bars(trace(plan)).values():
        for before, after in pairwise(track):
            assert before["ts"] + before["dur"] <= after["ts"] * (1 + 1e-12)
            assert before["dur"] >= 0


def test_every_event_has_what_viewers_need(plan):
    found = trace(plan)
    named = {(e["pid"], e["tid"]) for e in found["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    assert set(bars(found)) <= named
    for event in found["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ts"] >= 0
    timed = [event["ts"] for event in found["traceEvents"] if event["ph"] != "M"]
    assert timed == sorted(timed)
    json.dumps(found, allow_nan=False)


def test_phases_add_up_to_the_plan(plan):
    found = bars(trace(plan))
    split = plan.split()
    phases = defaultdict(int)
    for bar in found[1, 2]:
        phases[bar["name"]] += bar["args"]["cycles"]
    assert phases["run"] == split["compute"]
    assert phases["switch"] == split["switch"] > 0
    assert phases["write weights"] == split["write"]
    assert phases["write back"] == split["write_back"]
    assert sum(bar["args"]["cycles"] for bar in found[1, 1]) == plan.latency_cycles
    last = found[1, 1][-1]
    assert last["ts"] + last["dur"] == pytest.approx(plan.latency_ns / 1000)


def test_each_operator_runs_while_its_segment_runs(plan):
    found = bars(trace(plan))
    runs = [bar for bar in found[1, 2] if bar["name"] == "run"]
    operators = [bar for (pid, _), track in found.items() if pid == 2 for bar in track]
    assert len(operators) == sum(len(segment.parts) for segment in plan.segments)
    for bar in operators:
        assert any(bar["ts"] == pytest.approx(run["ts"]) and bar["dur"] <= run["dur"] * (1 + 1e-12) for run in runs), (
            bar
        )


def test_modes_are_those_of_a_replay_array_by_array(plan):
    memory: set[int] = set()
    replayed = []
    for segment in plan.segments:
        memory = (memory | set(array_numbers(segment.to_memory))) - set(array_numbers(segment.to_compute))
        replayed.append(set(memory))
    history = mode_history(plan)
    seen = sorted(array for group in history for array in array_numbers(group.arrays))
    assert seen == list(range(plan.chip.arrays))
    for group in history:
        assert group.spans[0].first == 0
        assert group.spans[-1].end == len(plan.segments)
        for before, after in pairwise(group.spans):
            assert before.end == after.first
            assert before.mode != after.mode
        for span in group.spans:
            for index in range(span.first, span.end):
                for array in array_numbers(group.arrays):
                    assert (array in replayed[index]) == (span.mode == MEMORY)
    assert {span.mode for group in history for span in group.spans} == {COMPUTE, MEMORY}
    assert len({group.spans for group in history}) == len(history)


def test_counters_show_the_arrays_of_each_segment(plan):
    counters = [event for event in trace(plan)["traceEvents"] if event["ph"] == "C"]
    at = {round(event["ts"] * 1000 / plan.chip.cycle_ns): event["args"] for event in counters}
    for args in at.values():
        assert sum(args.values()) == plan.chip.arrays
    now = None
    for start, segment in zip(segment_starts(plan), plan.segments, strict=False):
        now = at.get(start, now)
        assert (now["compute"], now["memory"]) == (segment.compute_arrays, segment.memory_arrays)


def test_a_trace_of_many_segments_stays_small(plan):
    """13,000 segments, as of a large language model, must open in a viewer: bytes for each segment are bounded."""
    many = replace(plan, segments=plan.segments * 50)
    size = len(json.dumps(trace(many)))
    parts = sum(len(segment.parts) for segment in many.segments)
    assert size < 2500 * len(many.segments) + 400 * parts


def test_tables_hold_the_plan(plan):
    segments = list(csv.DictReader(segments_csv(plan).splitlines()))
    assert [int(row["start_cycle"]) for row in segments] == segment_starts(plan)[:-1]
    assert sum(int(row["total_cycles"]) for row in segments) == plan.latency_cycles
    parts = list(csv.DictReader(parts_csv(plan).splitlines()))
    assert len(parts) == sum(len(segment.parts) for segment in plan.segments)
    assert sum(int(row["weight_bytes"]) for row in parts) == sum(op.weight_bytes for op in plan.operators)
    stores = list(csv.DictReader(stores_csv(plan).splitlines()))
    assert sum(int(row["arrays"]) for row in stores) == sum(segment.memory_arrays for segment in plan.segments)


def test_names_from_the_model_are_no_formulas(plan):
    rows = csv.DictReader(parts_csv(plan).splitlines())
    assert "'=first" in {row["operator"] for row in rows}


def test_files_are_written_beside_each_other(plan, tmp_path):
    assert [path.name for path in write_csv(plan, tmp_path / "plan.csv")] == [
        "plan.csv",
        "plan.parts.csv",
        "plan.stores.csv",
    ]
    (path,) = write_trace(plan, tmp_path / "plan.trace.json")
    assert json.loads(path.read_text()) == trace(plan)


def test_ranges_read_like_page_numbers():
    assert ranges_text(()) == ""
    assert ranges_text(((0, 16), (40, 1))) == "0-15, 40"


def test_a_plan_whose_arrays_were_edited_makes_no_program(plan, tmp_path):
    first, *rest = plan.segments
    part, *others = first.parts
    twice = replace(part, placement=(part.placement[0], *part.placement))
    edited = replace(plan, segments=(replace(first, parts=(twice, *others)), *rest))
    with pytest.raises(InputError, match="no program that passes"):
        DUAL_MODE_FORMATS["program"](edited, tmp_path / "p.txt")
    assert list(tmp_path.iterdir()) == []
