"""The dual-mode job on the command line: from a model file to a checked plan, a verified program, and their exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import foreign
from cimplan.plan.dual_mode import DualModePlan
from cimplan.plan.dual_mode_check import find_faults
from cimplan.program.parser import parse_program
from cimplan.program.verifier import verify

pytestmark = pytest.mark.filterwarnings("default")

SMALL = ("--hardware", "dual-mode-small")
STABLE_KEYS = {
    "model",
    "hardware",
    "status",
    "latency_cycles",
    "all_compute_cycles",
    "speedup",
    "segments",
    "compile_s",
    "checked",
}
SEGMENT_KEYS = {
    "operators",
    "compute_arrays",
    "memory_arrays",
    "cycles",
    "switch_cycles",
    "write_cycles",
    "write_back_cycles",
}


@pytest.fixture
def plan_file(cimplan, model_file, tmp_path) -> Path:
    path = tmp_path / "plan.json"
    run = cimplan("compile", model_file, *SMALL, "-o", path, "-q")
    assert run.code == 0, run.err
    return path


def refused(run, *words: str) -> None:
    assert run.code == 2, (run.code, run.err)
    assert run.out == ""
    assert run.err.startswith("cimplan: ")
    assert run.err.count("\n") == 1
    assert "Traceback" not in run.err
    for word in words:
        assert word in run.err, run.err


def test_a_model_file_becomes_a_checked_plan_and_a_verified_program(cimplan, model_file, tmp_path):
    plan_path, program_path = tmp_path / "plan.json", tmp_path / "program.mop"
    run = cimplan("compile", model_file, *SMALL, "--json", "-o", plan_path, "--program", program_path)
    assert run.code == 0, run.err
    answer = run.json
    assert answer.keys() >= STABLE_KEYS
    assert answer["checked"] is True
    assert answer["program_verified"] is True
    assert answer["status"] == "optimal"
    assert answer["latency_cycles"] <= answer["all_compute_cycles"]
    assert answer["speedup"] == answer["all_compute_cycles"] / answer["latency_cycles"]
    phases = ("cycles", "switch_cycles", "write_cycles", "write_back_cycles")
    assert answer["latency_cycles"] == sum(segment[phase] for segment in answer["segments"] for phase in phases)
    for segment in answer["segments"]:
        assert segment.keys() >= SEGMENT_KEYS
        assert segment["compute_arrays"] + segment["memory_arrays"] <= 8
    plan = DualModePlan.load(plan_path)
    assert plan.checked
    assert find_faults(plan) == []
    assert len(plan.model_sha256) == len(plan.hardware_sha256) == 64
    assert verify(parse_program(program_path.read_text()), plan.chip).ok


def test_the_summary_says_what_a_person_wants_to_know(cimplan, model_file):
    run = cimplan("compile", model_file, *SMALL)
    assert run.code == 0, run.err
    facts = ("latency", "all compute", "speed-up", "lower bound", "segments", "memory", "running", "switching")
    for fact in (*facts, "writing weights", "writing back", "checked", "program", "stem", "head"):
        assert fact in run.out


def test_the_table_of_segments_is_cut_unless_all_are_asked_for(cimplan, model_file, monkeypatch):
    monkeypatch.setattr("cimplan.cli.compile._ROWS", 2)
    arguments = ("compile", model_file, *SMALL, "--arrays", 1, "--split-size", 1)
    short, long = cimplan(*arguments), cimplan(*arguments, "--all")
    assert short.code == long.code == 0, short.err
    count = len(cimplan(*arguments, "--json").json["segments"])
    assert "more rows" in short.out
    assert "more rows" not in long.out
    last = long.out.splitlines()[-1].split()[0]
    assert int(last.split("-")[-1]) == count - 1
    assert len(short.out.splitlines()) < len(long.out.splitlines())


def test_more_arrays_never_make_it_slower(cimplan, model_file):
    cycles = [
        cimplan("compile", model_file, *SMALL, "--arrays", arrays, "--json").json["latency_cycles"]
        for arrays in (4, 8, 12)
    ]
    assert cycles == sorted(cycles, reverse=True)


def test_fields_of_the_chip_and_readings_can_be_set(cimplan, model_file, tmp_path):
    path = tmp_path / "plan.json"
    readings = ("--reading", "data_moved=inputs", "--reading", "weight_writes=free")
    run = cimplan(
        "compile", model_file, *SMALL, "--set", "clock=1GHz", "--set", "op_per_cycle=32", *readings, "-o", path
    )
    assert run.code == 0, run.err
    plan = DualModePlan.load(path)
    assert (plan.chip.cycle_ns, plan.chip.op_per_cycle) == (1.0, 32.0)
    assert (plan.readings.data_moved, plan.readings.weight_writes) == ("inputs", "free")
    assert plan.split()["write"] == 0


def test_the_resident_cost_model_is_chosen_by_name(cimplan, model_file):
    run = cimplan("compile", model_file, *SMALL, "--cost-model", "resident", "--json")
    assert run.code == 0, run.err
    assert run.json["cost_model"] == "resident"
    assert run.json["checked"] is True


def test_the_tuning_report_says_what_bounds_and_what_would_help(cimplan, model_file):
    run = cimplan("compile", model_file, *SMALL, "--explain")
    assert run.code == 0, run.err
    for words in ("bounds the segments", "Findings", "change of the chip", "one array more", "intensity"):
        assert words in run.out
    answer = cimplan("compile", model_file, *SMALL, "--explain", "--json").json
    told = answer["explanation"]
    assert sum(told["time_by_bound"].values()) == answer["latency_cycles"]
    assert sum(kind["count"] for kind in told["segments"]) == len(answer["segments"])
    assert told["findings"]


def test_a_limit_on_pieces_shows_in_the_segments(cimplan, model_file, tmp_path):
    path = tmp_path / "plan.json"
    run = cimplan("compile", model_file, *SMALL, "--segment-pieces", 1, "--split-size", 2, "-o", path)
    assert run.code == 0, run.err
    plan = DualModePlan.load(path)
    assert all(len(segment.parts) == 1 and segment.parts[0].arrays <= 2 for segment in plan.segments)


def test_every_method_is_compared_on_the_same_costs(cimplan, model_file):
    run = cimplan("compare", model_file, *SMALL, "--json")
    assert run.code == 0, run.err
    rows = {row["method"]: row for row in run.json["methods"]}
    assert rows.keys() >= {"exact", "all_compute", "greedy", "layer_by_layer", "pipeline", "short_form"}
    assert not any(row["error"] for row in rows.values())
    assert all(row["checked"] for row in rows.values())
    assert min(row["latency_cycles"] for row in rows.values()) == rows["exact"]["latency_cycles"]
    assert len({row["all_compute_cycles"] for row in rows.values()}) == 1
    assert rows["all_compute"]["speedup"] == 1
    assert rows["all_compute"]["memory_share"] == 0
    shown = cimplan("compare", model_file, *SMALL, "--methods", "exact,greedy")
    assert [line.split()[0] for line in shown.out.splitlines()][2:] == ["exact", "greedy"]


def test_methods_of_both_commands_are_listed(cimplan):
    listed = {(row["for"], row["name"]) for row in cimplan("compare", "--list", "--json").json}
    assert {("partition", "exact"), ("partition", "ilp"), ("compile", "exact"), ("compile", "all_compute")} <= listed


def test_a_plan_becomes_a_program_a_timeline_and_tables(cimplan, plan_file, tmp_path):
    for form in ("program", "trace", "csv"):
        run = cimplan("export", plan_file, "--to", form, "-o", tmp_path / f"out.{form}")
        assert run.code == 0, run.err
        for line in run.out.splitlines():
            assert Path(line.removeprefix("wrote ")).is_file()
    plan = DualModePlan.load(plan_file)
    assert verify(parse_program((tmp_path / "out.program").read_text()), plan.chip).ok
    assert json.loads((tmp_path / "out.trace").read_text())["traceEvents"]
    with (tmp_path / "out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(plan.segments)
    assert sum(int(row["total_cycles"]) for row in rows) == plan.latency_cycles


def test_formats_that_do_not_fit_a_plan_are_refused(cimplan, plan_file, profile_file, tmp_path):
    target = tmp_path / "out"
    refused(cimplan("export", plan_file, "--to", "traces", "-o", target), "trace")
    partition_plan = tmp_path / "partition.json"
    assert cimplan("partition", "--profile", profile_file, "-o", partition_plan).code == 0
    refused(cimplan("export", partition_plan, "--to", "program", "-o", target), "partition", "csv", "trace")
    assert not target.exists()


def test_an_edited_plan_is_not_exported(cimplan, plan_file, tmp_path):
    value = json.loads(plan_file.read_text())
    value["segments"][0]["cycles"] -= 1
    plan_file.write_text(json.dumps(value))
    for form in ("program", "trace", "csv"):
        refused(cimplan("export", plan_file, "--to", form, "-o", tmp_path / "out"), "plan.json", "segment 0")
    del value["segments"]
    plan_file.write_text(json.dumps(value))
    refused(cimplan("export", plan_file, "--to", "csv", "-o", tmp_path / "out"), "plan.json", "segments")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("arrays: 8 -> arrays: 0", ("dual_mode.arrays", "greater than 0")),
        ("main_bytes_per_cycle: 8 -> main_bytes_per_cycle: -8", ("main_bytes_per_cycle", "-8")),
        ("columns: 16 -> columns: 3", ("columns", "smaller than one weight")),
        ("write_cycles: 16 -> write_cycle: 16", ("write_cycle", "write_cycles")),
        ("clock: 100MHz -> clock: 100", ("clock", "MHz")),
    ],
)
def test_bad_chips_are_refused_with_line_and_field(cimplan, model_file, tmp_path, change, words):
    good = (
        "schema_version: 1\nname: mine\ndual_mode:\n  arrays: 8\n  rows: 16\n  columns: 16\n  columns_per_weight: 4\n"
        "  op_per_cycle: 64\n  memory_bytes_per_cycle: 4\n  main_bytes_per_cycle: 8\n  buffer: 1kB\n"
        "  switch_to_compute_cycles: 1\n  switch_to_memory_cycles: 1\n  write_cycles: 16\n"
        "  write_back_bytes_per_cycle: 8\n  clock: 100MHz\n"
    )
    old, new = change.split(" -> ")
    assert old in good
    path = tmp_path / "mine.yaml"
    path.write_text(good)
    assert cimplan("compile", model_file, "--hardware", path).code == 0
    path.write_text(good.replace(old, new, 1))
    target = tmp_path / "plan.json"
    refused(cimplan("compile", model_file, "--hardware", path, "-o", target), "mine.yaml:", *words)
    assert not target.exists()


def test_a_model_without_matrix_work_is_refused(cimplan, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="act")],
        "nothing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )
    path = tmp_path / "nothing.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    for command in (("compile",), ("compare",)):
        refused(cimplan(*command, path, *SMALL), "nothing", "no matrix work", "inspect")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--hardware", "rram-256"), ("rram-256", "partition")),
        (("--hardware", "dynaplasio"), ("dynaplasia",)),
        (("--arrays", "0"), ("arrays", "greater than 0")),
        (("--arrays", "4", "--set", "arrays=5"), ("arrays", "twice")),
        (("--set", "main_bytes_per_cycle=-1"), ("main_bytes_per_cycle",)),
        (("--set", "columns=0"), ("columns",)),
        (("--set", "colums=16"), ("colums", "columns")),
        (("--set", "arrays"), ("--set",)),
        (("--reading", "data=all"), ("data",)),
        (("--reading", "data_moved=all"), ("data_moved",)),
        (("--reading", "data_moved"), ("--reading",)),
        (("--cost-model", "residents"), ("resident",)),
        (("--cost-model", "resident", "--reading", "cost_model=published"), ("twice",)),
        (("--cost-model", "resident", "--reading", "main_bandwidth=each"), ("main_bandwidth=shared",)),
        (("--method", "exakt"), ("exact",)),
        (("--time-limit", "10"), ("unit",)),
        (("--time-limit", "0s"), ("time limit",)),
        (("--split-size", "5000"), ("split size",)),
        (("-o", "no/such/folder/plan.json"), ("folder",)),
        (("--program", "no/such/folder/plan.mop"), ("folder",)),
    ],
)
def test_bad_usage_is_refused(cimplan, model_file, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    chip = () if arguments[0] == "--hardware" else SMALL
    refused(cimplan("compile", model_file, *chip, *arguments), *words)
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_other_kind_of_hardware_are_refused(cimplan, model_file, profile_file):
    refused(cimplan("compare", model_file, *SMALL, "--crossbars", 4), "--crossbars", "dual-mode")
    refused(cimplan("compare", model_file, *SMALL, "--profile", profile_file), "--profile", "dual-mode")
    refused(cimplan("compare", "--profile", profile_file, "--arrays", 4), "--arrays", "crossbar")
    refused(cimplan("compare", model_file, *SMALL, "--methods", "ilp"), "ilp")
    refused(cimplan("compare", *SMALL), "model")


def test_the_same_input_gives_the_same_plan(cimplan, model_file):
    answers = [cimplan("compile", model_file, *SMALL, "--json").json for _ in range(2)]
    for answer in answers:
        answer["compile_s"] = 0
    assert answers[0] == answers[1]


def test_python_compiles_as_the_command_does(cimplan, model_file):
    import cimplan as cp

    compiled = cp.compile(model_file, "dual-mode-small")
    assert compiled.plan.checked
    assert compiled.statements > 0
    answer = cimplan("compile", model_file, *SMALL, "--json").json
    assert compiled.plan.latency_cycles == answer["latency_cycles"]


def test_a_zoo_transformer_compiles_in_prefill_and_decode(cimplan):
    for reference in ("zoo:bert_large?layers=1&seq=16", "zoo:opt_6_7b?layers=1&phase=decode&seq=32&lm_head=false"):
        run = cimplan("compile", reference, "--split-size", 96, "--json")
        assert run.code == 0, run.err
        assert run.json["checked"] is True
        assert run.json["speedup"] >= 1


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("model", [foreign.SENTENCE_ENCODER, foreign.DETECTOR], ids=["encoder", "detector"])
@pytest.mark.parametrize("cost_model", ["published", "resident"])
def test_foreign_models_compile_and_check(cimplan, model, cost_model, tmp_path):
    shapes = [word for shape in model.shapes for word in ("--shape", shape)]
    plan_path = tmp_path / "plan.json"
    run = cimplan("compile", model.path(), *shapes, "--cost-model", cost_model, "--json", "-o", plan_path)
    assert run.code == 0, run.err
    assert run.json["checked"] is True
    assert run.json["program_verified"] is True
    assert run.json["speedup"] >= 1
    assert find_faults(DualModePlan.load(plan_path)) == []


def test_the_reproduction_runs_from_the_command_line(cimplan, tmp_path):
    run = cimplan("reproduce", "cmswitch", "--only", "vgg16", "--json", "-o", tmp_path / "out")
    assert run.code == 0, run.err
    assert {row["cost_model"] for row in run.json["vgg16"]} == {"published", "resident"}
    assert (tmp_path / "out" / "index.html").is_file()
    refused(cimplan("reproduce", "cmswitch", "--only", "figure3"), "figure3")
    refused(cimplan("reproduce", "cmswitch", "--host", "measured"), "--host")


def test_the_model_is_never_overwritten_and_outputs_are_two_files(cimplan, model_file, tmp_path):
    before = model_file.read_bytes()
    for option in ("-o", "--program"):
        run = cimplan("compile", model_file, "--hardware", "dual-mode-small", option, model_file)
        assert run.code == 2
        assert "file that the command reads" in run.err
    assert model_file.read_bytes() == before
    both = tmp_path / "both"
    assert cimplan("compile", model_file, "--hardware", "dual-mode-small", "-o", both, "--program", both).code == 2
    assert list(tmp_path.iterdir()) == []


def lstm_between_products(path: Path) -> Path:
    from onnx import numpy_helper

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.full(shape, 0.1, np.float32), name)

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("LSTM", ["a", "w", "r"], ["", "h"], hidden_size=4, name="cell"),
        helper.make_node("MatMul", ["h", "w2"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight("w1", 8, 6), weight("w", 1, 16, 6), weight("r", 1, 16, 4), weight("w2", 4, 3)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_matrix_work_that_no_array_computes_is_refused_or_named(cimplan, tmp_path):
    model = lstm_between_products(tmp_path / "lstm.onnx")
    refused = cimplan("compile", model, *SMALL)
    assert refused.code == 2
    assert "'cell'" in refused.err and "recurrent" in refused.err and "--allow-uncovered" in refused.err
    plan = tmp_path / "plan.json"
    done = cimplan("compile", model, *SMALL, "--allow-uncovered", "--json", "-o", plan)
    assert done.code == 0
    assert [item["name"] for item in done.json["uncovered"]] == ["cell"]
    assert [op["name"] for op in json.loads(plan.read_text())["operators"]] == ["first", "last"]
    text = cimplan("compile", model, *SMALL, "--allow-uncovered")
    assert "uncovered" in text.out and "cell (LSTM)" in text.out
    checked = cimplan("check", plan)  # it holds, and its optimum is not proven in the file
    assert checked.code == 1 and "holds    every count, byte and cycle" in checked.out
    compared = cimplan("compare", model, *SMALL, "--allow-uncovered", "--json")
    assert all(row["uncovered"][0]["name"] == "cell" for row in compared.json["methods"])
    assert cimplan("compare", model, *SMALL).code == 2


def test_a_plan_that_hides_what_it_leaves_out_is_caught(tmp_path):
    from dataclasses import replace

    from cimplan.api.compiling import compile_plan
    from cimplan.api.models import load

    model = load(lstm_between_products(tmp_path / "lstm.onnx"))
    plan = compile_plan(model, "dual-mode-small", allow_uncovered=True)
    assert find_faults(plan, model.graph) == []
    assert find_faults(replace(plan, uncovered=()), model.graph)


def test_an_einsum_with_weights_is_compiled_like_the_product_it_is(cimplan, tmp_path):
    from onnx import numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Einsum", ["x", "w"], ["y"], equation="bi,io->bo", name="e")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((16, 8), np.float32), "w")],
    )
    path = tmp_path / "einsum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    done = cimplan("compile", path, *SMALL, "--json")
    assert done.code == 0 and done.json["segments"][0]["operators"] == ["e"]


def test_a_limit_with_nothing_in_hand_is_named_as_it_was_given(cimplan):
    run = cimplan("compile", "zoo:mobilenet_v2", "--time-limit", "1us")
    assert run.code == 1
    assert "the time limit of 1e-06 s has passed before there was a result" in run.err


def test_compare_says_that_its_time_limit_is_of_each_method(cimplan):
    said = " ".join(cimplan("compare", "--help").out.split())
    assert "--time-limit 10s Of each method" in said
