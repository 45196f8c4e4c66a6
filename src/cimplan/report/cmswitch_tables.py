"""The numbers of the CMSwitch reproduction as rows: what the CSV files, the JSON and the page hold."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from importlib.metadata import version
from statistics import fmean
from typing import Any, Final

from cimplan.explore import published_cmswitch as published
from cimplan.explore.cmswitch import COST_MODELS, Outcome, Reproduction
from cimplan.explore.cmswitch_allocation import OperatorArrays
from cimplan.explore.cmswitch_cases import (
    ALLOCATION,
    BATCH,
    COMPILE_TIME,
    END_TO_END,
    PROGRAMS,
    READINGS,
    SEQUENCE,
    SWITCHING,
    VGG16,
    Case,
)

Row = dict[str, Any]

DEFAULTS: Final = "defaults"
"""Name of the row of readings in which nothing is changed."""

_LAYER: Final = re.compile(r"^layer(\d+)\.")


def to_json(result: Reproduction) -> Row:
    """Return everything as plain JSON values; parts that were not asked for are missing."""
    value: Row = {
        "schema_version": 1,
        "reproduction": "cmswitch",
        "source": published.SOURCE,
        "cimplan": version("cimplan"),
        "hardware": result.hardware.name,
        "elapsed_s": result.elapsed_s,
    }
    rows = {
        END_TO_END: end_to_end,
        SEQUENCE: sequence,
        BATCH: batch,
        ALLOCATION: allocation,
        VGG16: vgg16,
        SWITCHING: switching,
        COMPILE_TIME: compile_time,
        READINGS: readings,
        PROGRAMS: programs,
    }
    found = {part.replace("-", "_"): rows[part](result) for part in result.parts}
    if END_TO_END in result.parts:
        value["overall"] = {name: result.overall(name) for name in COST_MODELS} | {"printed": published.OVERALL_SPEEDUP}
    return value | found


def end_to_end(result: Reproduction) -> list[Row]:
    """Return the end-to-end table: one row per network and cost model, over all batch sizes."""
    rows = []
    for model in result.evaluation.networks:
        stated = published.END_TO_END.get(model)
        for cost_model in COST_MODELS:
            found = result.speedups(model, cost_model)
            if found:
                rows.append(
                    {
                        "model": model,
                        "title": published.TITLES[model],
                        "cost_model": cost_model,
                        "speedup": fmean(found.values()),
                        "least": min(found.values()),
                        "largest": max(found.values()),
                        **{f"batch_{size}": value for size, value in found.items()},
                        "printed": None if stated is None else stated.average,
                        "printed_least": None if stated is None else stated.least,
                        "printed_largest": None if stated is None else stated.largest,
                    }
                )
    return rows


def sequence(result: Reproduction) -> list[Row]:
    """Return the sweeps over sequence lengths."""
    rows = []
    for case in result.evaluation.cases(SEQUENCE):
        prefill = case.phase == "prefill"
        sweep = case.model == result.evaluation.sweep and case.batch == result.evaluation.sweep_batch
        speedups = published.OPT_SEQUENCE_SPEEDUPS if sweep else published.BERT_SEQUENCE_SPEEDUPS
        shares = published.OPT_MEMORY_SHARE if sweep else {}
        for cost_model in COST_MODELS:
            one = result.outcome(case, cost_model)
            if one is not None and case.seq is not None:
                rows.append(
                    {
                        **_outcome(one),
                        "printed": speedups.get(case.seq) if prefill else None,
                        "printed_memory_share": shares.get(case.seq) if prefill else None,
                    }
                )
    return rows


def batch(result: Reproduction) -> list[Row]:
    """Return the sweep over batch sizes."""
    return _outcomes(result, result.evaluation.cases(BATCH))


def switching(result: Reproduction) -> list[Row]:
    """Return what the latency of each network goes to."""
    return [
        {
            **row,
            "printed_switch_share_least": published.SWITCH_SHARE[0],
            "printed_switch_share": published.SWITCH_SHARE[1],
        }
        for row in _outcomes(result, result.evaluation.cases(SWITCHING))
    ]


def allocation(result: Reproduction) -> list[Row]:
    """Return the arrays of each operator; of a transformer those of a layer in the middle."""
    return [
        {
            "model": case.model,
            "title": published.TITLES[case.model],
            "batch": case.batch,
            "cost_model": cost_model,
            "operator": one.name,
            "arrays": one.arrays,
            "segments": one.segments,
            "compute_arrays": one.compute,
            "memory_arrays": one.memory,
            "bound": one.bound,
            "cycles": one.cycles,
        }
        for (case, cost_model), found in result.arrays.items()
        for one in middle_layer(found)
    ]


def middle_layer(found: Sequence[OperatorArrays]) -> list[OperatorArrays]:
    """Return the operators of the middle layer of a transformer, or all of another network."""
    layers = {int(match[1]) for one in found if (match := _LAYER.match(one.name))}
    if not layers:
        return list(found)
    middle = f"layer{sorted(layers)[len(layers) // 2]}."
    return [one for one in found if one.name.startswith(middle)]


def vgg16(result: Reproduction) -> list[Row]:
    """Return the segments of VGG16, those in a row with the same operators together."""
    return [
        {
            "cost_model": cost_model,
            "first_segment": run.first,
            "last_segment": run.end - 1,
            "operators": " ".join(run.operators),
            "compute_arrays": run.compute,
            "memory_arrays": run.memory,
            "cycles": run.cycles,
        }
        for cost_model, runs in result.runs.items()
        for run in runs
    ]


def compile_time(result: Reproduction) -> list[Row]:
    """Return compile times of dual-mode and all-compute searches."""
    return [
        {
            **_case(one.case),
            "cost_model": one.cost_model,
            "all_compute_s": one.all_compute_s,
            "dual_mode_s": one.dual_mode_s,
            "ratio": one.ratio,
            "printed_ratio_least": published.COMPILE_TIME_RATIO[0],
            "printed_ratio_largest": published.COMPILE_TIME_RATIO[1],
        }
        for one in result.compile_times
    ]


def readings(result: Reproduction) -> list[Row]:
    """Return the speed-up of each network under every reading, the defaults first."""
    cases = [case for case in result.evaluation.table() if result.outcome(case, COST_MODELS[0])]
    asked = [(DEFAULTS, "", "defaults", "published"), (DEFAULTS, "", "defaults", "resident")]
    asked += [(one.name, one.name, one.group, one.cost_model) for one in result.evaluation.variants]
    rows = []
    for name, variant, group, cost_model in asked:
        found = {case.model: result.outcome(case, cost_model, variant) for case in cases}
        speedups = {model: one.speedup for model, one in found.items() if one is not None}
        if speedups:
            mean = fmean(speedups.values())
            rows.append({"variant": name, "group": group, "cost_model": cost_model, **speedups, "mean": mean})
    stated = {
        case.model: published.END_TO_END[case.model].average for case in cases if case.model in published.END_TO_END
    }
    if rows and stated:
        mean = fmean(stated.values())
        rows.append({"variant": "printed", "group": "printed", "cost_model": "", **stated, "mean": mean})
    return rows


def programs(result: Reproduction) -> list[Row]:
    """Return the verified programs."""
    return [
        {**_case(one.case), "segments": one.segments, "statements": one.statements, "verified": True}
        for one in result.programs
    ]


def outcome_rows(result: Reproduction) -> list[Row]:
    """Return every compiled case."""
    return [{**_outcome(one), "variant": one.variant} for one in result.outcomes]


def csv_tables(result: Reproduction) -> dict[str, str]:
    """Return CSV text by file name."""
    tables: dict[str, Sequence[Row]] = {"outcomes.csv": outcome_rows(result)}
    value = to_json(result)
    for part in result.parts:
        tables[f"{part}.csv"] = value[part.replace("-", "_")]
    return {name: _csv(rows) for name, rows in tables.items() if rows}


def _csv(rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _outcomes(result: Reproduction, cases: Sequence[Case]) -> list[Row]:
    found = [result.outcome(case, cost_model) for case in cases for cost_model in COST_MODELS]
    return [_outcome(one) for one in found if one is not None]


def _case(case: Case) -> Row:
    return {
        "model": case.model,
        "title": published.TITLES[case.model],
        "batch": case.batch,
        "seq": case.seq,
        "phase": case.phase,
    }


def _outcome(one: Outcome) -> Row:
    return {
        **_case(one.case),
        "cost_model": one.cost_model,
        "speedup": one.speedup,
        "latency_cycles": one.latency_cycles,
        "all_compute_cycles": one.all_compute_cycles,
        "lower_bound_cycles": one.lower_bound_cycles,
        "run_share": one.cycles["compute"] / one.latency_cycles,
        "switch_share": one.switch_share,
        "write_share": one.write_share,
        "write_back_share": one.cycles["write_back"] / one.latency_cycles,
        "memory_share": one.memory_share,
        "run_memory_share": one.run_memory_share,
        "segments": one.segments,
        "split_size": one.split_size,
        "status": one.status,
        "compile_s": one.compile_s,
    }
