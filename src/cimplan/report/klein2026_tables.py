"""The numbers of a reproduction as rows: what the CSV files, the JSON and the page hold."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from cimplan.explore.klein2026 import (
    FASTEST_NS,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    MODELS_OF_PART,
    OPEN_QUESTION,
    TABLE_1,
    Instance,
    Reproduction,
)
from cimplan.explore.published import (
    BUDGETS,
    HOST_TITLES,
    RESNET18_SPEEDUPS,
    SOURCE,
    SPEEDUPS_50NS,
    TABLE_ONE,
    TITLES,
    YOLOV5N_OFFLOADED,
    PublishedHost,
)
from cimplan.explore.reproduction_hosts import ReproductionHost

Row = dict[str, Any]


def to_json(result: Reproduction) -> Row:
    """Return everything as plain JSON values; parts that were not asked for are missing."""
    value: Row = {
        "schema_version": 1,
        "reproduction": "klein2026",
        "source": SOURCE,
        "cimplan": version("cimplan"),
        "elapsed_s": result.elapsed_s,
        "hosts": [host_row(host) for host in result.hosts],
    }
    rows = {
        TABLE_1: table_one,
        FIGURE_3: figure_three,
        FIGURE_4: figure_four,
        FIGURE_5: figure_five,
        OPEN_QUESTION: question_rows,
    }
    return value | {part.replace("-", "_"): rows[part](result) for part in result.parts}


def host_row(host: ReproductionHost) -> Row:
    """Return what a reader has to know of a host."""
    first = next(iter(host.profiles.values()))
    return {
        "host": host.key,
        "origin": host.origin,
        "processor": host.processor,
        "architecture": first.machine.architecture,
        "threads": first.machine.threads,
        "onnxruntime": first.machine.onnxruntime or None,
        "hardware": host.hardware.name,
        "published_host": HOST_TITLES[host.published],
        "host_only_ms": {model: profile.total_ns / 1e6 for model, profile in host.profiles.items()},
        "notes": {model: list(profile.notes) for model, profile in host.profiles.items()},
    }


def table_one(result: Reproduction) -> list[Row]:
    """Table I: one row per network, sizes beside the published, times and gaps per host and over all hosts."""
    rows = []
    for model in result.models(TABLE_1):
        sizes = {size for (_, name), size in result.sizes.items() if name == model}
        size = max(sizes, key=lambda found: found.operators)
        published = TABLE_ONE[model]
        found = [(host, result.statistics(host.key, model)) for host in result.hosts]
        per_host: list[Row] = [
            {
                "host": host.key,
                "origin": host.origin,
                "instances": one.instances,
                "optimal": one.optimal,
                "solve_s": one.mean_s,
                "most_solve_s": one.most_s,
                "gap": one.mean_gap,
            }
            for host, one in found
            if one is not None
        ]
        instances = sum(one["instances"] for one in per_host)
        rows.append(
            {
                "model": model,
                "operators": size.operators,
                "decision_variables": size.decision_variables,
                "constraints": size.constraints,
                "solve_s": sum(one["solve_s"] * one["instances"] for one in per_host) / instances,
                "gap": sum(one["gap"] * one["instances"] for one in per_host) / instances,
                "same_size": len(sizes) == 1
                and (size.operators, size.decision_variables, size.constraints)
                == (published.operators, published.decision_variables, published.constraints),
                "published": {
                    "operators": published.operators,
                    "decision_variables": published.decision_variables,
                    "constraints": published.constraints,
                    "solve_s": published.solve_s,
                    "solve_text": published.solve_text,
                    "gap": published.gap,
                },
                "hosts": per_host,
            }
        )
    return rows


def figure_three(result: Reproduction) -> list[Row]:
    """Figure 3: ResNet-18 over budgets and latencies."""
    return [
        _speedup_row(
            result, item, RESNET18_SPEEDUPS[_published(result, item)].get((item.crossbars, item.mvm_latency_ns))
        )
        for item in result.instances
        if item.model == MODELS_OF_PART[FIGURE_3][0]
    ]


def figure_four(result: Reproduction) -> list[Row]:
    """Figure 4: all networks at the least MVM latency."""
    return [
        _speedup_row(result, item, SPEEDUPS_50NS[_published(result, item), item.model].get(item.crossbars))
        for item in result.instances
        if item.mvm_latency_ns == FASTEST_NS
    ]


def figure_five(result: Reproduction) -> list[Row]:
    """Figure 5: what the latency of YOLOv5n goes to, and how many operators are offloaded."""
    rows = []
    for item in result.instances:
        if item.model != MODELS_OF_PART[FIGURE_5][0]:
            continue
        stated = published_operators(_published(result, item), item)
        share = item.share
        rows.append(
            {
                **_where(result, item),
                "makespan_ms": item.makespan_ns / 1e6,
                "host_ms": share.host_ns / 1e6,
                "host_and_cim_ms": share.both_ns / 1e6,
                "cim_ms": share.cim_ns / 1e6,
                "transfer_ms": share.transfer_ns / 1e6,
                "idle_ms": share.idle_ns / 1e6,
                "host_only_ms": item.host_only_ns / 1e6,
                "operators": item.operators,
                "operators_on_cim": item.operators_on_cim,
                "published_operators_on_cim": None if stated is None else stated[0],
                "published_makespan_ms": None if stated is None else stated[1],
                "crossbars_used": item.crossbars_used,
                "status": item.status,
                "solver_claims": item.solver_claims,
            }
        )
    return rows


def published_operators(host: PublishedHost, item: Instance) -> tuple[int, float | None] | None:
    """Return operators offloaded and latency in ms that the paper states for an instance of YOLOv5n, if it does.

    Where it names no budget, the statement is put at the largest one.
    """
    for stated in YOLOV5N_OFFLOADED[host]:
        budget = max(BUDGETS) if stated.crossbars is None else stated.crossbars
        if (budget, stated.latency_ns) == (item.crossbars, item.mvm_latency_ns):
            return stated.operators, stated.makespan_ms
    return None


def question_rows(result: Reproduction) -> Row:
    """Return the open question in numbers."""
    question = result.question
    if question is None:
        return {}
    return {
        "networks": [
            {
                "model": network.model,
                "crossbars_of_everything": network.crossbars_of_everything,
                "macs": network.macs,
                "crossbars": row.crossbars,
                "largest_share_of_macs": row.share_of_macs,
                "bound_if_time_even_over_macs": None if math.isinf(row.bound_if_even) else row.bound_if_even,
                "published_arm": row.published.get("arm"),
                "published_x86": row.published.get("x86"),
                "least_unevenness_arm": row.least_unevenness.get("arm"),
                "least_unevenness_x86": row.least_unevenness.get("x86"),
            }
            for network in question.networks
            for row in network.rows
        ],
        "hosts": [
            {
                "host": one.host,
                "model": one.model,
                "unevenness": one.unevenness,
                "bound_by_host_work": {
                    str(budget): None if math.isinf(bound) else bound for budget, bound in one.bounds.items()
                },
            }
            for one in question.hosts
        ],
        "fitted_host": None
        if question.fitted is None
        else {
            "ns_per_mvm": question.fitted.ns_per_mvm,
            "supported_ms": question.fitted.supported_ms,
            "other_ms": question.fitted.other_ms,
            "speedups": {str(budget): value for budget, value in question.fitted.speedups.items()},
            "published": {str(budget): value for budget, value in question.fitted.published.items()},
        },
    }


def instance_rows(result: Reproduction) -> list[Row]:
    """Return every solved instance."""
    return [
        {
            **_where(result, item),
            "status": item.status,
            "solver_claims": item.solver_claims,
            "host_only_ns": item.host_only_ns,
            "makespan_ns": item.makespan_ns,
            "lower_bound_ns": item.lower_bound_ns,
            "gap": item.gap,
            "speedup": item.speedup,
            "crossbars_used": item.crossbars_used,
            "operators": item.operators,
            "operators_on_cim": item.operators_on_cim,
            "solve_s": item.solve_s,
        }
        for item in result.instances
    ]


def csv_tables(result: Reproduction) -> dict[str, str]:
    """Return CSV text by file name; nested values of the JSON become columns of their own."""
    tables: dict[str, Sequence[Row]] = {"instances.csv": instance_rows(result)}
    if TABLE_1 in result.parts:
        tables["table1.csv"] = [
            {
                **{name: row[name] for name in ("model", "operators", "decision_variables", "constraints")},
                **{f"published_{name}": value for name, value in row["published"].items() if name != "solve_text"},
                **host,
            }
            for row in table_one(result)
            for host in row["hosts"]
        ]
    if FIGURE_3 in result.parts:
        tables["figure3.csv"] = figure_three(result)
    if FIGURE_4 in result.parts:
        tables["figure4.csv"] = figure_four(result)
    if FIGURE_5 in result.parts:
        tables["figure5.csv"] = figure_five(result)
    if any(result.curves.values()):
        tables["budget-curves.csv"] = [
            {"host": host, "model": model, "crossbars": crossbars, "speedup": value}
            for (host, model), steps in result.curves.items()
            for crossbars, value in steps
        ]
    if result.question is not None:
        tables["open-question.csv"] = question_rows(result)["networks"]
    return {name: _csv(rows) for name, rows in tables.items() if rows}


def _csv(rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _speedup_row(result: Reproduction, item: Instance, published: float | None) -> Row:
    return {
        **_where(result, item),
        "speedup": item.speedup,
        "published_speedup": published,
        "makespan_ms": item.makespan_ns / 1e6,
        "host_only_ms": item.host_only_ns / 1e6,
        "crossbars_used": item.crossbars_used,
        "status": item.status,
        "solver_claims": item.solver_claims,
    }


def _where(result: Reproduction, item: Instance) -> Row:
    return {
        "host": item.host,
        "origin": result.host(item.host).origin,
        "model": item.model,
        "title": TITLES[item.model],
        "mvm_latency_ns": item.mvm_latency_ns,
        "crossbars": item.crossbars,
    }


def _published(result: Reproduction, item: Instance) -> PublishedHost:
    return result.host(item.host).published
