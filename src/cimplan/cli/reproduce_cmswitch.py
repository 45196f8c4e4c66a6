"""The tables of `cimplan reproduce cmswitch` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cimplan.cli.console import emit, table


def print_cmswitch(value: Mapping[str, Any]) -> None:
    """Print the JSON value of a reproduction as tables; printed numbers of the paper stand in brackets."""
    emit(f"{value['source']}, on {value['hardware']}; in brackets: printed in the paper")
    if "end_to_end" in value:
        _print_end_to_end(value)
    if "sequence" in value:
        _head("By sequence length")
        table(
            ("network", "batch", "phase", "tokens", "cost model", "speed-up", "hold data, running"),
            (
                (
                    row["title"],
                    row["batch"],
                    row["phase"],
                    row["seq"],
                    row["cost_model"],
                    _beside(row["speedup"], row["printed"], "{:.2f}"),
                    _beside(100 * row["run_memory_share"], _percent(row["printed_memory_share"]), "{:.1f} %"),
                )
                for row in value["sequence"]
            ),
            right=(1, 3, 5, 6),
        )
    if "batch" in value:
        _head("By batch size")
        table(
            ("network", "batch", "cost model", "speed-up"),
            ((row["title"], row["batch"], row["cost_model"], f"{row['speedup']:.2f}") for row in value["batch"]),
            right=(1, 3),
        )
    if "allocation" in value:
        _head("Arrays by operator")
        table(
            ("network", "cost model", "operator", "needs", "segments", "compute", "hold data", "bound by"),
            (
                (
                    row["title"],
                    row["cost_model"],
                    row["operator"],
                    row["arrays"],
                    row["segments"],
                    f"{row['compute_arrays']:.1f}",
                    f"{row['memory_arrays']:.1f}",
                    row["bound"],
                )
                for row in value["allocation"]
            ),
            right=(3, 4, 5, 6),
        )
    if "vgg16" in value:
        _head("Segments of VGG16 (printed: convolutions 1-4, 5-6, then one each)")
        table(
            ("segments", "cost model", "compute", "hold data", "cycles", "operators"),
            (
                (
                    f"{row['first_segment']}-{row['last_segment']}",
                    row["cost_model"],
                    f"{row['compute_arrays']:.1f}",
                    f"{row['memory_arrays']:.1f}",
                    f"{row['cycles']:,}",
                    row["operators"],
                )
                for row in value["vgg16"]
            ),
            right=(2, 3, 4),
        )
    if "switching" in value:
        _head("What the time goes to, % (switching printed: 3 to 5 %)")
        names = ("run_share", "write_share", "switch_share", "write_back_share")
        table(
            ("network", "cost model", "running", "writing weights", "switching", "writing back"),
            (
                (row["title"], row["cost_model"], *(f"{100 * row[name]:.4f}" for name in names))
                for row in value["switching"]
            ),
            right=(2, 3, 4, 5),
        )
    if "compile_time" in value:
        _head("Compile time, s (ratio printed: 2.8 to 6.3)")
        table(
            ("network", "cost model", "all compute", "dual mode", "ratio"),
            (
                (
                    row["title"],
                    row["cost_model"],
                    f"{row['all_compute_s']:.2f}",
                    f"{row['dual_mode_s']:.2f}",
                    f"{row['ratio']:.1f}",
                )
                for row in value["compile_time"]
            ),
            right=(2, 3, 4),
        )
    if value.get("readings"):
        _print_readings(value["readings"])
    if "programs" in value:
        _head("Verified programs")
        table(
            ("network", "batch", "tokens", "phase", "segments", "statements"),
            (
                (
                    row["title"],
                    row["batch"],
                    row["seq"] or "",
                    row["phase"],
                    f"{row['segments']:,}",
                    f"{row['statements']:,}",
                )
                for row in value["programs"]
            ),
            right=(1, 2, 4, 5),
        )


def _print_end_to_end(value: Mapping[str, Any]) -> None:
    _head("End to end: speed-up over all arrays computing, mean and range over batch sizes")
    table(
        ("network", "cost model", "speed-up", "least", "largest"),
        (
            (
                row["title"],
                row["cost_model"],
                _beside(row["speedup"], row["printed"], "{:.2f}"),
                _beside(row["least"], row["printed_least"], "{:.2f}"),
                _beside(row["largest"], row["printed_largest"], "{:.2f}"),
            )
            for row in value["end_to_end"]
        ),
        right=(2, 3, 4),
    )
    overall = value["overall"]
    if overall["published"] is not None:
        emit(
            f"mean over networks: {overall['published']:.2f} published, {overall['resident']:.2f} resident "
            f"({overall['printed']:.2f})"
        )


def _print_readings(rows: list[Mapping[str, Any]]) -> None:
    _head("Speed-up with one thing changed")
    fixed = ("variant", "group", "cost_model", "mean")
    models = [name for name in rows[0] if name not in fixed]
    table(
        ("changed", "cost model", *models, "mean"),
        (
            (
                row["variant"],
                row["cost_model"],
                *(f"{row[model]:.2f}" if model in row else "–" for model in models),
                f"{row['mean']:.2f}",
            )
            for row in rows
        ),
        right=range(2, 3 + len(models)),
    )


def _head(text: str) -> None:
    emit()
    emit(text)


def _beside(ours: float, printed: float | None, form: str) -> str:
    return form.format(ours) + (f" ({form.format(printed)})" if printed is not None else "")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
