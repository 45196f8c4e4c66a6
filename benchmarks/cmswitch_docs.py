"""Bring tables and figures of docs/reproduce-cmswitch.md and docs/dual-mode-readings.md up to date.

Run from the project's folder: ``python benchmarks/cmswitch_docs.py``. Text between ``<!-- begin NAME -->`` and
``<!-- end NAME -->`` is replaced, the rest of the pages stays. Cycles are the same everywhere; compile times are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from cimplan.explore import published_cmswitch as published
from cimplan.explore.cmswitch import COST_MODELS, Reproduction, reproduce
from cimplan.explore.cmswitch_cases import PARTS
from cimplan.files import write_text
from cimplan.hardware import load
from cimplan.report import cmswitch_tables as tables
from cimplan.report.canvas import svg_text
from cimplan.report.cmswitch_figures import figures
from cimplan.report.cmswitch_text import differences, how_made

DOCS = Path(__file__).parents[1] / "docs"
SHOWN = ("end-to-end", "sequence", "batch", "allocation", "readings")


def main() -> None:
    update(reproduce(load("dynaplasia"), PARTS, say=print))


def update(result: Reproduction) -> None:
    """Write figures and tables of a reproduction into the documentation."""
    for name, figure in figures(result).items():
        if name in SHOWN:
            write_text(DOCS / "figures" / f"cmswitch-{name}.svg", svg_text(figure))
    _fill(DOCS / "reproduce-cmswitch.md", blocks(result))
    _fill(DOCS / "dual-mode-readings.md", {"readings": readings(result), "lessons": lessons(result)})


def _fill(page: Path, found: dict[str, str]) -> None:
    text = page.read_text(encoding="utf-8")
    for name, block in found.items():
        mark = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not mark.search(text):
            raise SystemExit(f"{page}: there is no block {name}")
        text = mark.sub(lambda match, block=block: f"{match[1]}{block}\n{match[2]}", text)
    write_text(page, text)


def blocks(result: Reproduction) -> dict[str, str]:
    return {
        "machine": machine(result),
        "made": bullets(how_made(result)),
        "end-to-end": end_to_end(result),
        "sequence": sequence(result),
        "batch": batch(result),
        "allocation": allocation(result),
        "vgg16": vgg16(result),
        "switching": switching(result),
        "compile-time": compile_time(result),
        "programs": programs(result),
        "differences": bullets(differences(result)),
    }


def machine(result: Reproduction) -> str:
    optimal = sum(one.status == "optimal" for one in result.outcomes)
    return (
        f"{len(result.outcomes)} plans, {optimal} of them optimal for the pieces that were tried, each checked; "
        f"{result.elapsed_s / 60:.0f} min in all; cimplan {version('cimplan')}, hardware `{result.hardware.name}`."
    )


def end_to_end(result: Reproduction) -> str:
    rows = tables.end_to_end(result)
    lines = []
    for title in dict.fromkeys(row["title"] for row in rows):
        found = {row["cost_model"]: row for row in rows if row["title"] == title}
        one = found["published"]
        printed = f"{one['printed']:.2f} ({one['printed_least']:.2f} to {one['printed_largest']:.2f})"
        lines.append([title, *(_range(found[name]) for name in COST_MODELS), printed])
    means = [f"**{result.overall(name):.2f}**" for name in COST_MODELS]
    lines.append(["**mean**", *means, f"**{published.OVERALL_SPEEDUP}**"])
    table = markdown(["network", "published cost model", "resident cost model", "printed"], lines)
    return f"![Speed-up end to end, ours and printed](figures/cmswitch-end-to-end.svg)\n\n{table}"


def _range(row: dict[str, Any]) -> str:
    return f"{row['speedup']:.2f} ({row['least']:.2f} to {row['largest']:.2f})"


def sequence(result: Reproduction) -> str:
    lines = []
    rows = tables.sequence(result)
    keys = dict.fromkeys((row["title"], row["batch"], row["phase"], row["seq"]) for row in rows)
    for title, size, phase, length in keys:
        found = {
            row["cost_model"]: row
            for row in rows
            if (row["title"], row["batch"], row["phase"], row["seq"]) == (title, size, phase, length)
        }
        one, other = found["published"], found["resident"]
        lines.append(
            [
                f"{title}, batch {size}, {phase}",
                length,
                f"{one['speedup']:.2f}",
                _or_dash(one["printed"], "{:.2f}"),
                f"{100 * one['run_memory_share']:.1f}",
                _or_dash(None if one["printed_memory_share"] is None else 100 * one["printed_memory_share"], "{:.1f}"),
                f"{other['speedup']:.3f}",
                f"{100 * other['run_memory_share']:.1f}",
            ]
        )
    head = ["network", "tokens", "speed-up", "printed", "hold data, %", "printed %", "resident", "hold data, %"]
    note = "Arrays that hold data: mean while segments run. In decode, tokens are those already in the cache."
    return f"![By sequence length](figures/cmswitch-sequence.svg)\n\n{markdown(head, lines)}\n\n{note}"


def batch(result: Reproduction) -> str:
    sizes = result.evaluation.batches
    rows = tables.batch(result)
    lines = []
    for title in dict.fromkeys(row["title"] for row in rows):
        for cost_model in COST_MODELS:
            found = {
                row["batch"]: row["speedup"] for row in rows if (row["title"], row["cost_model"]) == (title, cost_model)
            }
            lines.append([title, cost_model, *(f"{found[size]:.2f}" for size in sizes)])
    table = markdown(["network", "cost model", *(f"batch {size}" for size in sizes)], lines)
    return f"![Speed-up by batch size](figures/cmswitch-batch.svg)\n\n{table}"


def allocation(result: Reproduction) -> str:
    lines = [
        [
            f"{row['title']}, batch {row['batch']}",
            f"`{row['operator']}`",
            f"{row['arrays']:,}",
            row["segments"],
            f"{row['compute_arrays']:.1f}",
            f"{row['memory_arrays']:.1f}",
            row["bound"],
        ]
        for row in tables.allocation(result)
        if row["cost_model"] == COST_MODELS[0]
    ]
    head = ["network", "operator", "arrays for its weights", "segments", "compute", "hold data", "bound by"]
    return f"![Arrays by operator](figures/cmswitch-allocation.svg)\n\n{markdown(head, lines)}"


def vgg16(result: Reproduction) -> str:
    rows = [row for row in tables.vgg16(result) if row["cost_model"] == COST_MODELS[0]]
    lines = [
        [
            f"{row['first_segment']}"
            + (f"-{row['last_segment']}" if row["last_segment"] > row["first_segment"] else ""),
            ", ".join(row["operators"].split()),
            f"{row['compute_arrays']:.1f}",
            f"{row['memory_arrays']:.1f}",
            f"{row['cycles']:,}",
        ]
        for row in rows
    ]
    return markdown(["segments", "operators", "compute", "hold data", "cycles"], lines)


def switching(result: Reproduction) -> str:
    names = ("run_share", "write_share", "switch_share", "write_back_share")
    lines = [
        [row["title"], row["cost_model"], *(f"{100 * row[name]:.3f}" for name in names)]
        for row in tables.switching(result)
    ]
    head = ["network", "cost model", "running, %", "writing weights, %", "switching, %", "writing back, %"]
    return markdown(head, lines)


def compile_time(result: Reproduction) -> str:
    lines = [
        [
            row["title"],
            row["cost_model"],
            f"{row['all_compute_s']:.2f}",
            f"{row['dual_mode_s']:.2f}",
            f"{row['ratio']:.1f}",
        ]
        for row in tables.compile_time(result)
    ]
    return markdown(["network", "cost model", "all compute, s", "dual mode, s", "ratio"], lines)


def programs(result: Reproduction) -> str:
    lines = [
        [
            row["title"],
            row["batch"],
            row["seq"] or "–",
            row["phase"] or "–",
            f"{row['segments']:,}",
            f"{row['statements']:,}",
        ]
        for row in tables.programs(result)
    ]
    return markdown(["network", "batch", "tokens", "phase", "segments", "statements"], lines)


def readings(result: Reproduction) -> str:
    models = [case.model for case in result.evaluation.table()]
    lines = []
    for row in tables.readings(result):
        name = row["variant"] if row["group"] not in ("reading",) else f"`{row['variant']}`"
        if row["variant"] == tables.DEFAULTS:
            name = f"**defaults, {row['cost_model']}**"
        values = [_or_dash(row.get(model), "{:.2f}") for model in models]
        lines.append([name, row["cost_model"] or "–", *values, f"{row['mean']:.2f}"])
    head = ["changed", "cost model", *(published.TITLES[model] for model in models), "mean"]
    return f"![Speed-up under every reading](figures/cmswitch-readings.svg)\n\n{markdown(head, lines)}"


def lessons(result: Reproduction) -> str:
    rows = {row["variant"]: row for row in tables.readings(result) if row["cost_model"] == "published"}
    resident = next(row for row in tables.readings(result) if row["cost_model"] == "resident")
    base = rows[tables.DEFAULTS]
    models = [case.model for case in result.evaluation.table()]

    def spread(name: str) -> str:
        values = [rows[name][model] for model in models]
        return f"{rows[name]['mean']:.2f} ({min(values):.2f} to {max(values):.2f})"

    transformers = [model for model in models if model not in ("mobilenet_v2", "resnet18", "vgg16")]
    mean_transformers = fmean(resident[model] for model in transformers)
    return bullets(
        [
            f"By default the mean is {base['mean']:.2f}; printed is {published.OVERALL_SPEEDUP}. Below: means, with "
            "their range over the networks.",
            "Whether weights count as data moved decides most: without them "
            f"{spread('data_moved=inputs_outputs')}, with inputs alone {spread('data_moved=inputs')}.",
            f"How writing is charged decides the rest: free {spread('weight_writes=free')}, at main bandwidth "
            f"{spread('weight_writes=main_bandwidth')}. Writing is most of the time, so the gain in running time is "
            "diluted by it.",
            f"Main bandwidth: a quarter of it gives {spread('main_bytes_per_cycle x 1/4')}, four times as much "
            f"{spread('main_bytes_per_cycle x 4')}. Arrays in memory mode are worth what main memory lacks.",
            f"Throughput of an array: a quarter {spread('op_per_cycle x 1/4')}, four times "
            f"{spread('op_per_cycle x 4')}.",
            f"Pieces: at a fixed size of 96 arrays {spread('pieces of 96 arrays')}, of 8 arrays "
            f"{spread('pieces of 8 arrays')}.",
            f"Switching a hundred times dearer: {spread('switching x 100')}. At one cycle an array it does not matter.",
            f"The resident cost model gives {resident['mean']:.2f}; its transformers {mean_transformers:.3f}, "
            f"MobileNetV2 {resident['mobilenet_v2']:.2f}.",
        ]
    )


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


if __name__ == "__main__":
    main()
