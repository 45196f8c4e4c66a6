"""Sweeps: right results, grouped work, recorded failures, resumption, and tables of fixed columns."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import polars as pl
import pytest

from cimplan import api
from cimplan.api import models, partitioning
from cimplan.errors import InputError, NoAnswerError
from cimplan.explore import prepare
from cimplan.explore.engine import SerialEngine
from cimplan.explore.points import run_task
from cimplan.explore.space import space_from
from cimplan.explore.store import Store
from cimplan.explore.sweep import run_sweep
from cimplan.explore.tables import check_path, frame, write
from cimplan.hardware import from_description
from cimplan.hardware import load as load_hardware
from explore.explore_cases import space_value

assert api


class Counting(SerialEngine):
    """Counts tasks and points, and can stop like a crash after some tasks."""

    def __init__(self, stop_after=None):
        self.tasks = []
        self.stop_after = stop_after

    def run(self, function, tasks):
        for task, outcome in super().run(function, tasks):
            if self.stop_after is not None and len(self.tasks) >= self.stop_after:
                raise KeyboardInterrupt
            self.tasks.append(task)
            yield task, outcome


def sweep(folder, engine=None, store="sweep.db", retry_failed=False, progress=None, **changes):
    loaded = space_from(space_value(**changes), folder)
    with Store(f"sqlite:///{folder / store}") as opened:
        return run_sweep(loaded, opened, engine=engine, retry_failed=retry_failed, progress=progress)


def test_every_point_is_what_partition_says(folder):
    engine = Counting()
    vary = {
        "accelerator.crossbars": [0, 1, 2, 4, 9],
        "accelerator.mvm_latency": ["50ns", "20us"],
        "bus.bandwidth": ["1GB/s", "16GB/s"],
    }
    result = sweep(folder, engine, vary=vary, methods=["exact", "greedy"])
    assert len(result.rows) == 40
    # One run of the exact method for all crossbars, one of greedy for each number.
    assert sorted(len(task.keys) for task in engine.tasks) == [1] * 20 + [5] * 4
    profile = partitioning.estimate(models.load(folder / "tiny.onnx"), "cortex-a72")
    for row in result.rows:
        description = load_hardware("rram-256-arm").to_description()
        for name in vary:
            section, _, field = name.partition(".")
            description[section][field] = row[name]
        plan = partitioning.partition(None, from_description(description), profile, method=row["method"])
        assert row["makespan_ns"] == plan.makespan_ns
        assert row["lower_bound_ns"] == plan.lower_bound_ns
        assert row["status"] == plan.status
        assert row["crossbars_used"] <= row["crossbars_available"] == row["accelerator.crossbars"]
        assert row["speedup"] == pytest.approx(row["host_only_ns"] / row["makespan_ns"])
        if row["method"] == "exact":
            assert row["status"] == "optimal"


def test_a_stopped_sweep_goes_on_where_it_was(folder):
    vary = {"accelerator.crossbars": {"from": 0, "to": 9, "step": 1}, "accelerator.rows": [64, 128, 256]}
    whole = sweep(folder, store="whole.db", vary=vary, methods=["heft", "exact"])
    with pytest.raises(KeyboardInterrupt):
        sweep(folder, Counting(stop_after=7), vary=vary, methods=["heft", "exact"])
    rest = Counting()
    resumed = sweep(folder, rest, vary=vary, methods=["heft", "exact"])
    assert len(rest.tasks) == 33 - 7
    assert resumed.status.reused == 7
    assert resumed.rows == whole.rows
    again = Counting()
    assert sweep(folder, again, vary=vary, methods=["heft", "exact"]).rows == whole.rows
    assert again.tasks == []


def test_another_space_over_the_same_points_computes_only_what_is_new(folder):
    first = Counting()
    sweep(folder, first, vary={"accelerator.crossbars": [1, 2, 3]})
    second = Counting()
    result = sweep(folder, second, name="other", vary={"accelerator.crossbars": [2, 3, 4, 5]})
    assert [budget for task in second.tasks for budget, _ in task.keys] == [4, 5]
    assert result.status.reused == 2
    assert [row["accelerator.crossbars"] for row in result.rows] == [2, 3, 4, 5]


def test_the_same_design_in_other_units_is_the_same_point(folder):
    first, second = Counting(), Counting()
    sweep(folder, first, vary={"accelerator.mvm_latency": ["100ns"], "bus.bandwidth": ["1GB/s", "1000MB/s"]})
    assert len(first.tasks) == 1
    result = sweep(folder, second, vary={"bus.bandwidth": ["1GB/s"], "accelerator.mvm_latency": ["0.1us"]})
    assert second.tasks == []
    assert result.rows[0]["accelerator.mvm_latency"] == "0.1us"


def test_a_point_that_fails_is_recorded_and_does_not_stop_the_others(folder):
    vary = {"accelerator.weight_write": ["every_inference", "never"], "accelerator.crossbars": [1, 3]}
    told = []
    result = sweep(folder, vary=vary, progress=told.append)
    assert [row["status"] for row in result.rows] == ["failed", "failed", "optimal", "optimal"]
    assert "write_latency" in result.rows[0]["error"]
    assert result.status.failed == 2 and result.status.done == result.status.total == 4
    assert [status.done for status in told] == sorted(status.done for status in told)
    # Not tried again unless asked to.
    same = Counting()
    assert sweep(folder, same, vary=vary).status.failed == 2
    assert same.tasks == []
    retried = Counting()
    assert sweep(folder, retried, vary=vary, retry_failed=True).status.failed == 2
    assert len(retried.tasks) == 1 and len(retried.tasks[0].keys) == 2


def test_any_error_of_a_task_is_recorded_with_its_kind(folder):
    class Failing(SerialEngine):
        def run(self, function, tasks):
            for task in tasks:
                yield task, ZeroDivisionError("by zero")

    result = sweep(folder, Failing())
    assert {row["error"] for row in result.rows} == {"ZeroDivisionError: by zero"}
    assert [row["crossbars_available"] for row in result.rows] == [0, 1, 2, 4] * 2


def test_a_budget_below_what_is_fixed_is_infeasible_and_says_so(folder):
    # Names are those of the graph as the host runs it.
    graph = partitioning.estimate(models.load(folder / "tiny.onnx"), "cortex-a72").graph_record
    by_inputs = {op.work.inputs: op.name for op in graph.operators if op.work is not None and op.op_type != "Gemm"}
    options = {"fix": {"tiny.onnx": {by_inputs[9 * 32]: "cim", by_inputs[9 * 3]: "host"}}}
    result = sweep(folder, vary={"accelerator.crossbars": [0, 1, 2, 5]}, options=options)
    statuses = [row["status"] for row in result.rows]
    assert statuses[0] == "infeasible" and statuses[-1] == "optimal"
    assert "need" in result.rows[0]["error"] and "0 are available" in result.rows[0]["error"]
    assert result.rows[-1]["makespan_ns"] >= sweep(folder, vary={"accelerator.crossbars": [5]}).rows[0]["makespan_ns"]
    alone = sweep(folder, vary={"accelerator.crossbars": [0]}, options=options, store="alone.db")
    assert alone.rows == result.rows[:1]


def test_a_placement_of_an_unknown_operator_is_refused_with_its_place(folder):
    with pytest.raises(InputError, match=r"options\.fix\.tiny\.onnx\.pol.*Did you mean"):
        sweep(folder, options={"fix": {"tiny.onnx": {"pol": "host"}}})


def test_options_can_vary(folder):
    engine = Counting()
    vary = {"options.seed": [0, 1], "options.time_limit": ["10s", None], "accelerator.crossbars": [2]}
    result = sweep(folder, engine, vary=vary)
    assert {(task.solve.seed, task.solve.time_limit_s) for task in engine.tasks} == {
        (0, 10.0), (0, None), (1, 10.0), (1, None),
    }  # fmt: skip
    assert len({row["makespan_ns"] for row in result.rows}) == 1


def test_energy_and_area_follow_their_prices(folder):
    plain = sweep(folder, vary={"accelerator.crossbars": [0, 5]})
    assert "energy_uj" not in dict(plain.columns) and "area_mm2" not in dict(plain.columns)
    prices = {"energy_pj_per_mvm": 100, "host_power_w": 2.0, "energy_pj_per_byte": 0, "area_mm2_per_crossbar": 0.5}
    host, chip = sweep(folder, vary={"accelerator.crossbars": [0, 5]}, prices=prices).rows
    # The host alone: 2 W for its time, 1 W being 1 uJ a microsecond.
    assert host["energy_uj"] == pytest.approx(2.0 * host["makespan_ns"] / 1e3)
    assert (host["area_mm2"], chip["area_mm2"]) == (0.0, 2.5)
    assert [row["makespan_ns"] for row in plain.rows] == [host["makespan_ns"], chip["makespan_ns"]]
    free = {**prices, "host_power_w": 0}
    only_mvms = sweep(folder, vary={"accelerator.crossbars": [5]}, prices=free).rows[0]["energy_uj"]
    fast = {"accelerator.crossbars": [5], "accelerator.mvm_latency": ["1ps"]}
    for bits, passes in ((8, 1), (3, 3), (1, 8)):
        sliced = sweep(folder, vary={**fast, "accelerator.input_bits_per_slice": [bits]}, prices=free)
        assert sliced.rows[0]["energy_uj"] == pytest.approx(passes * only_mvms)
    # Every output pixel is one MVM of one crossbar: three convolutions of 24 x 24, one vector.
    hidden = 24 * 24
    crossbars = {"stem": 1, "left": 2, "right": 1}
    assert only_mvms == pytest.approx(100 * (sum(hidden * number for number in crossbars.values()) + 1) / 1e6)


def test_a_measured_host_is_kept_and_named_by_its_machine(folder, monkeypatch):
    measured = []
    real = partitioning.estimate(models.load(folder / "tiny.onnx"), "cortex-a72")

    def measure(model, **_):
        measured.append(model.name)
        slower = {name: time.model_copy(update={"host_ns": time.host_ns * (1 + len(measured))})
                  for name, time in real.times.items()}  # fmt: skip
        return real.model_copy(update={"times": slower})

    monkeypatch.setattr(partitioning, "profile", measure)
    first = sweep(folder, host="measured")
    assert sweep(folder, host="measured").rows == first.rows
    assert len(measured) == 1
    # Another machine on the same store measures for itself, and its points are its own.
    monkeypatch.setattr("cimplan.cost.session.cpu_name", lambda: "Another Processor")
    second = sweep(folder, host="measured")
    assert len(measured) == 2
    assert second.sweep != first.sweep
    assert second.rows[0]["host_only_ns"] > first.rows[0]["host_only_ns"]
    assert sweep(folder, host="measured", threads=2).sweep not in (first.sweep, second.sweep)


def test_hosts_can_vary_and_default_to_what_the_hardware_names(folder, monkeypatch):
    def refuse(*_args, **_named):
        raise AssertionError("the hardware names an estimate")

    monkeypatch.setattr(partitioning, "profile", refuse)
    plain = sweep(folder)
    varied = sweep(folder, vary={"host.estimate": ["cortex-a72"], **space_value()["vary"]})
    assert [row["makespan_ns"] for row in varied.rows] == [row["makespan_ns"] for row in plain.rows]
    with pytest.raises(AssertionError, match="names an estimate"):
        sweep(folder, vary={"host.estimate": ["cortex-a72", None]})


def test_a_saved_profile_is_used_and_must_be_of_the_model(folder):
    profile = partitioning.estimate(models.load(folder / "tiny.onnx"), "cortex-a72")
    slower = {name: time.model_copy(update={"host_ns": 3 * time.host_ns}) for name, time in profile.times.items()}
    profile.model_copy(update={"times": slower}).save(folder / "board.json")
    rows = sweep(folder, profiles={"tiny.onnx": "board.json"}).rows
    assert rows[0]["host_only_ns"] == pytest.approx(3 * sweep(folder).rows[0]["host_only_ns"], rel=1e-6)
    other = profile.model.model_copy(update={"sha256": "0" * 64})
    profile.model_copy(update={"model": other}).save(folder / "board.json")
    with pytest.raises(InputError, match="not of the model"):
        sweep(folder, profiles={"tiny.onnx": "board.json"})


def test_a_sweep_that_runs_already_is_refused(folder, monkeypatch):
    monkeypatch.setattr("cimplan.explore.locks._PATIENCE_S", 0.1)
    loaded = space_from(space_value(), folder)
    with Store(f"sqlite:///{folder / 'sweep.db'}") as store:
        identity = prepare.Preparation(loaded, store, lambda _text: None).sweep
        with store.exclusive(identity), pytest.raises(NoAnswerError, match="another process"):
            sweep(folder)


def test_a_task_is_all_a_worker_needs(folder):
    import pickle

    engine = Counting()
    result = sweep(folder, engine)
    for task in engine.tasks:
        again = pickle.loads(pickle.dumps(task))
        assert again == replace(task, hardware=dict(task.hardware))
        for _, _, point in run_task(again):
            assert any(point.items() <= row.items() for row in result.rows)
    assert "time" not in json.dumps(result.rows[0]).lower() and "solve_s" not in result.rows[0]


VARIED = {
    "accelerator.write_latency": [None, "56us"],
    "accelerator.input_bits_per_slice": [None, 1],
    "accelerator.differential_columns": [True, False],
    "accelerator.operators": [["Conv", "Gemm"]],
}
COLUMNS = {
    "model": pl.String,
    "method": pl.String,
    "accelerator.write_latency": pl.String,
    "accelerator.input_bits_per_slice": pl.Int64,
    "accelerator.differential_columns": pl.Boolean,
    "accelerator.operators": pl.String,
    "status": pl.String,
    "solver_claims": pl.String,
    "error": pl.String,
    "crossbars_available": pl.Int64,
    "crossbars_used": pl.Int64,
    "makespan_ns": pl.Float64,
    "lower_bound_ns": pl.Float64,
    "gap": pl.Float64,
    "host_only_ns": pl.Float64,
    "speedup": pl.Float64,
}


def test_tables_have_fixed_columns_and_types_whatever_the_points_came_to(folder):
    class Failing(SerialEngine):
        def run(self, function, tasks):
            for task in tasks:
                yield task, RuntimeError("no")

    good = sweep(folder, vary=VARIED, store="good.db")
    bad = sweep(folder, Failing(), vary=VARIED, store="bad.db")
    for result in (good, bad):
        table = frame(result.rows, result.columns)
        assert dict(table.schema) == COLUMNS
        assert table.height == 8
    assert frame([], good.columns).schema == frame(good.rows, good.columns).schema
    table = frame(good.rows, good.columns)
    assert table["accelerator.operators"].to_list() == ["Conv, Gemm"] * 8
    assert table["accelerator.input_bits_per_slice"].to_list() == [None, None, 1, 1] * 2


def test_csv_and_parquet_hold_the_same_rows_in_the_same_order(folder):
    result = sweep(folder, vary=VARIED)
    write(result.rows, result.columns, folder / "t.csv")
    write(result.rows, result.columns, folder / "t.parquet")
    parquet = pl.read_parquet(folder / "t.parquet")
    assert parquet.equals(frame(result.rows, result.columns))
    csv = pl.read_csv(folder / "t.csv", schema=dict(parquet.schema))
    assert csv.equals(parquet)
    with pytest.raises(InputError, match=r"Use \.csv or \.parquet"):
        write(result.rows, result.columns, folder / "t.xlsx")
    with pytest.raises(InputError, match="no such folder"):
        write(result.rows, result.columns, folder / "no" / "t.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
def test_a_pipe_is_refused_before_anything_is_computed(tmp_path):
    pipe = tmp_path / "t.csv"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe"):
        check_path(pipe)
