"""The figures of the CMSwitch reproduction with our numbers and the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from cimplan.explore import published_cmswitch as published
from cimplan.explore.cmswitch import COST_MODELS, Reproduction
from cimplan.explore.cmswitch_cases import ALLOCATION, BATCH, END_TO_END, READINGS, SEQUENCE, SWITCHING
from cimplan.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, new_figure, tidy
from cimplan.report.cmswitch_tables import DEFAULTS, allocation, batch, end_to_end, readings, sequence, switching
from cimplan.report.plots import Series, grouped_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES: Final = {"published": "the paper's formula", "resident": "resident (ours)"}
COLOURS: Final = {"published": BLUE, "resident": ORANGE}
_SHARES: Final = (
    ("run_share", "running", BLUE),
    ("write_share", "writing weights", ORANGE),
    ("switch_share", "switching", VERMILION),
    ("write_back_share", "writing back", GREEN),
)
_PHASES: Final = {"prefill": "-", "decode": "--"}
_MARKS: Final = ("o", "s", "D", "^", "v", "P", "X")
_NETWORK_COLOURS: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, GREY)


def figures(result: Reproduction) -> dict[str, Figure]:
    """Return all figures of a reproduction by file name without suffix, in the order of the page."""
    makers = {
        END_TO_END: ("end-to-end", end_to_end_figure),
        SEQUENCE: ("sequence", sequence_figure),
        BATCH: ("batch", batch_figure),
        ALLOCATION: ("allocation", allocation_figure),
        SWITCHING: ("switching", switching_figure),
        READINGS: ("readings", readings_figure),
    }
    return {name: make(result) for part, (name, make) in makers.items() if part in result.parts}


def end_to_end_figure(result: Reproduction) -> Figure:
    """Mean speed-up of each network under both cost models, printed averages as lines."""
    rows = end_to_end(result)
    titles = list(dict.fromkeys(row["title"] for row in rows))
    figure = new_figure(8.0, 3.6)
    series = []
    for cost_model in COST_MODELS:
        found = {row["title"]: row for row in rows if row["cost_model"] == cost_model}
        series.append(
            Series(
                NAMES[cost_model],
                [found[title]["speedup"] if title in found else None for title in titles],
                [found[title]["printed"] if title in found else None for title in titles],
            )
        )
    axes = grouped_bars(
        titles,
        series,
        vertical="speed-up over all arrays computing",
        ax=figure.subplots(),
        number="{:.2f}",
        legend=False,
    )
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    return figure


def sequence_figure(result: Reproduction) -> Figure:
    """Speed-up and share of arrays that remember, by sequence length."""
    rows = sequence(result)
    sweep = [row for row in rows if _is_sweep(result, row)]
    other = [row for row in rows if not _is_sweep(result, row)]
    figure = new_figure(9.0, 3.4)
    grid = figure.subplots(1, 3)
    _lines(grid[0], sweep, "speedup", "printed")
    grid[0].set_ylabel("speed-up")
    _lines(grid[1], sweep, "run_memory_share", "printed_memory_share", scale=100.0)
    grid[1].set_ylabel("arrays holding data (%)")
    _lines(grid[2], other, "speedup", "printed")
    grid[2].set_ylabel("speed-up")
    for axes, found in zip(grid, (sweep, sweep, other), strict=True):
        if found:
            axes.set_title(f"{found[0]['title']}, batch {found[0]['batch']}", fontsize="medium")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def _is_sweep(result: Reproduction, row: dict[str, Any]) -> bool:
    return bool(row["model"] == result.evaluation.sweep and row["batch"] == result.evaluation.sweep_batch)


def _lines(axes: Any, rows: Sequence[dict[str, Any]], name: str, printed: str, *, scale: float = 1.0) -> None:
    for phase, style in _PHASES.items():
        for cost_model in COST_MODELS:
            points = [
                (row["seq"], scale * row[name])
                for row in rows
                if row["cost_model"] == cost_model and row["phase"] == phase
            ]
            if points:
                label = f"{phase}, {NAMES[cost_model]}"
                axes.plot(*zip(*points, strict=True), style, marker="o", ms=3.5, color=COLOURS[cost_model], label=label)
    stated = {row["seq"]: scale * row[printed] for row in rows if row[printed] is not None}
    if stated:
        axes.plot(
            list(stated),
            list(stated.values()),
            "D",
            color=INK,
            ms=5,
            markeredgecolor="white",
            label="printed",
            zorder=3,
        )
    lengths = sorted({row["seq"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths], fontsize="x-small")
    axes.minorticks_off()
    axes.set_xlabel("sequence length")
    tidy(axes)


def batch_figure(result: Reproduction) -> Figure:
    """Speed-up of each network by batch size, one panel per cost model."""
    rows = batch(result)
    figure = new_figure(8.0, 3.2)
    grid = figure.subplots(1, len(COST_MODELS), sharey=True)
    for axes, cost_model in zip(grid, COST_MODELS, strict=True):
        for index, model in enumerate(result.evaluation.networks):
            points = [
                (row["batch"], row["speedup"])
                for row in rows
                if row["model"] == model and row["cost_model"] == cost_model
            ]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    marker=_MARKS[index % len(_MARKS)],
                    ms=4,
                    color=_NETWORK_COLOURS[index % len(_NETWORK_COLOURS)],
                    label=published.TITLES[model],
                )
        axes.set_xscale("log", base=2)
        sizes = result.evaluation.batches
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("batch size")
        axes.set_title(NAMES[cost_model], fontsize="medium")
        tidy(axes)
    grid[0].set_ylabel("speed-up")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def allocation_figure(result: Reproduction) -> Figure:
    """Arrays of each operator, compute and memory, averaged over the time of its segments."""
    rows = [row for row in allocation(result) if row["cost_model"] == COST_MODELS[0]]
    models = list(dict.fromkeys((row["model"], row["title"], row["batch"]) for row in rows))
    figure = new_figure(9.0, max(1.0, 2.9 * len(models)))
    grid = figure.subplots(max(1, len(models)), 1, squeeze=False)
    for (axes,), (model, title, size) in zip(grid, models, strict=False):
        found = [row for row in rows if row["model"] == model]
        places = list(range(len(found)))
        compute = [row["compute_arrays"] for row in found]
        axes.bar(places, compute, 0.7, color=BLUE, label="compute for it")
        axes.bar(
            places, [row["memory_arrays"] for row in found], 0.7, bottom=compute, color=ORANGE, label="hold its data"
        )
        names = [_short(row["operator"]) for row in found]
        axes.set_xticks(places, names, rotation=30, ha="right", fontsize="x-small")
        axes.set_ylabel("arrays")
        axes.set_title(f"{title}, batch {size}, {NAMES[COST_MODELS[0]]}", fontsize="medium")
        tidy(axes)
    grid[0][0].legend(frameon=False, fontsize="small", ncols=2)
    return figure


def _short(name: str) -> str:
    head, dot, tail = name.partition(".")
    return (tail if dot and head.startswith("layer") else name).removesuffix(".product")


def switching_figure(result: Reproduction) -> Figure:
    """What the latency goes to, one bar per network and cost model."""
    rows = switching(result)
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    labels = [f"{row['title']}\n{row['cost_model']}" for row in rows]
    places = list(range(len(rows)))
    bottom = [0.0] * len(rows)
    for name, title, colour in _SHARES:
        values = [100.0 * row[name] for row in rows]
        axes.bar(places, values, 0.75, bottom=bottom, color=colour, label=title)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    axes.set_xticks(places, labels, fontsize="xx-small", rotation=45, ha="right")
    axes.set_ylabel("share of the latency (%)")
    axes.set_ylim(0, 102)
    tidy(axes)
    figure.legend(loc="outside lower center", ncols=len(_SHARES), frameon=False, fontsize="small")
    return figure


def readings_figure(result: Reproduction) -> Figure:
    """Speed-ups of every network under every reading."""
    rows = readings(result)
    models = [case.model for case in result.evaluation.table()]
    figure = new_figure(8.0, 0.8 + 0.26 * len(rows))
    axes = figure.subplots()
    for index, model in enumerate(models):
        points = [(row[model], place) for place, row in enumerate(rows) if model in row]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                _MARKS[index % len(_MARKS)],
                ms=4.5,
                color=_NETWORK_COLOURS[index % len(_NETWORK_COLOURS)],
                label=published.TITLES[model],
            )
    names = [
        f"{row['variant']} ({row['cost_model']})" if row["variant"] == DEFAULTS else row["variant"] for row in rows
    ]
    axes.set_yticks(range(len(rows)), names, fontsize="x-small")
    axes.invert_yaxis()
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_xscale("log")
    ticks = [1, 1.2, 1.5, 2, 3, 5, 10]
    top = max((row[model] for row in rows for model in models if model in row), default=2.0)
    axes.set_xticks([tick for tick in ticks if tick <= 1.1 * top], [f"{tick:g}" for tick in ticks if tick <= 1.1 * top])
    axes.minorticks_off()
    axes.set_xlabel("speed-up over all arrays computing")
    tidy(axes, grid="both")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure
