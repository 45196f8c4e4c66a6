"""Plots of plans and sweeps: functions that take data and an axes, and return the axes.

Nothing is shown or saved here and no state of matplotlib is touched; `report.canvas.save` writes a figure. Colours can
be told apart with any colour vision and in grey; every axis says what it shows and in which unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cimplan.report.canvas import BLUE, GREY, INK, ORANGE, SERIES, SKY, VERMILION, axes_or_new, new_figure, tidy
from cimplan.units import format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

    from cimplan.explore.latency_share import LatencyShare
    from cimplan.plan.plan import Plan

PUBLISHED: Final = "published"

_DARK_FROM: Final = 0.55
_BAR_WIDTH: Final = 0.8


def speedup_heat_map(
    speedups: Mapping[tuple[int, float], float | None],
    *,
    ax: Axes | None = None,
    title: str = "",
    limits: tuple[float, float] | None = None,
) -> Axes:
    """Draw speed-ups over crossbar budgets (columns) and MVM latencies (rows), each cell with its number.

    Parameters
    ----------
    speedups : mapping of (int, float) to float or None
        By crossbars and MVM latency in nanoseconds; None or missing where unknown, drawn as an empty cell.
    ax : matplotlib Axes, optional
        Where to draw; the axes of a new figure if left out.
    title : str
        Of the axes.
    limits : tuple of float, optional
        Speed-ups of the darkest and the lightest colour, to compare several maps; those of the data if left out.

    Returns
    -------
    matplotlib Axes
        With one image and one text per cell.
    """
    axes = axes_or_new(ax, 4.2, 3.2)
    from matplotlib.colors import LogNorm

    budgets = sorted({crossbars for crossbars, _ in speedups})
    latencies = sorted({latency for _, latency in speedups})
    rows = [[speedups.get((budget, latency)) for budget in budgets] for latency in latencies]
    known = [value for row in rows for value in row if value is not None]
    low, high = limits or (min(known, default=1.0), max(known, default=1.0))
    norm = LogNorm(vmin=low, vmax=max(high, low * 1.01))
    axes.imshow(
        [[float("nan") if value is None else value for value in row] for row in rows],
        norm=norm,
        cmap="cividis",
        aspect="auto",
    )
    for line, row in enumerate(rows):
        for column, value in enumerate(row):
            light = value is None or float(norm(value)) > _DARK_FROM
            axes.text(
                column,
                line,
                "–" if value is None else f"{value:.1f}×",
                ha="center",
                va="center",
                color=INK if light else "white",
            )
    axes.set_xticks(range(len(budgets)), [str(budget) for budget in budgets])
    axes.set_yticks(range(len(latencies)), [format_duration(latency) for latency in latencies])
    axes.set_xlabel("crossbars")
    axes.set_ylabel("MVM latency")
    axes.set_title(title, fontsize="medium")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def budget_curve(
    steps: Sequence[tuple[int, float]],
    *,
    ax: Axes | None = None,
    label: str = "optimum of every budget",
    published: Mapping[int, float] | None = None,
    value: str = "speed-up over the host alone",
    colour: str = BLUE,
    until: int | None = None,
) -> Axes:
    """Draw the optimum over the crossbar budget: a step function, flat until the next crossbar pays.

    Parameters
    ----------
    steps : sequence of (int, float)
        Crossbars from which a value holds, and the value, ascending.
    ax : matplotlib Axes, optional
        Where to draw.
    label : str
        Of the curve.
    published : mapping of int to float, optional
        Values to put beside it, by crossbars.
    value : str
        What the vertical axis shows, with its unit if it has one.
    colour : str
        Of the curve.
    until : int, optional
        Crossbars at which the drawing ends; a little after the last step if left out.
    """
    axes = axes_or_new(ax)
    crossbars = [number for number, _ in steps]
    values = [height for _, height in steps]
    last = max([*crossbars, *(published or {}), 1])
    end = until if until is not None else round(last * 1.05) + 1
    if steps:
        axes.step([*crossbars, max(end, crossbars[-1])], [*values, values[-1]], where="post", color=colour, label=label)
    if published:
        axes.plot(list(published), list(published.values()), "D", color=VERMILION, markersize=6, label=PUBLISHED)
    axes.set_xlim(0, end)
    axes.set_ylim(0, 1.08 * max(*values, *(published or {}).values(), 0.0, axes.dataLim.ymax))
    axes.set_xlabel("crossbars")
    axes.set_ylabel(value)
    tidy(axes, grid="both")
    axes.legend(frameon=False, loc="best")
    return axes


def pareto_front(
    points: Sequence[tuple[float, float]],
    front: Sequence[tuple[float, float]],
    *,
    horizontal: str,
    vertical: str,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw designs over two objectives that are both to be small, and those that no other design beats in both.

    Parameters
    ----------
    points : sequence of (float, float)
        All designs.
    front : sequence of (float, float)
        Those on the front, in any order.
    horizontal, vertical : str
        What the axes show, with units.
    ax : matplotlib Axes, optional
        Where to draw.
    title : str
        Of the axes.
    """
    axes = axes_or_new(ax, 5.2, 3.8)
    axes.scatter([x for x, _ in points], [y for _, y in points], s=14, color=GREY, linewidths=0, label="designs")
    best = sorted(front)
    axes.plot(
        [x for x, _ in best],
        [y for _, y in best],
        drawstyle="steps-post",
        marker="o",
        markersize=5,
        color=BLUE,
        label="Pareto front",
    )
    axes.set_xlabel(horizontal)
    axes.set_ylabel(vertical)
    axes.set_title(title, fontsize="medium")
    tidy(axes, grid="both")
    axes.legend(frameon=False, loc="best")
    return axes


def latency_shares(
    bars: Sequence[tuple[str, LatencyShare]], *, ax: Axes | None = None, title: str = "", legend: bool = True
) -> Axes:
    """Draw what the latency of plans goes to: stacked bars whose heights are the latencies.

    Parameters
    ----------
    bars : sequence of (str, LatencyShare)
        Label of each bar and its parts.
    ax : matplotlib Axes, optional
        Where to draw.
    title : str
        Of the axes.
    legend : bool
        Whether to draw one.
    """
    axes = axes_or_new(ax)
    parts = (
        ("host", BLUE, [share.host_ns for _, share in bars]),
        ("host and crossbars at once", SKY, [share.both_ns for _, share in bars]),
        ("crossbars", ORANGE, [share.cim_ns for _, share in bars]),
        ("transfer", GREY, [share.transfer_ns + share.idle_ns for _, share in bars]),
    )
    below = [0.0] * len(bars)
    for name, colour, times in parts:
        heights = [time_ns / 1e6 for time_ns in times]
        axes.bar(range(len(bars)), heights, _BAR_WIDTH, bottom=below, color=colour, label=name)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_xticks(range(len(bars)), [label for label, _ in bars])
    axes.set_xlim(-0.6, len(bars) - 0.4)
    axes.set_ylabel("latency (ms)")
    axes.set_title(title, fontsize="medium")
    tidy(axes)
    if legend:
        axes.legend(frameon=False, fontsize="small")
    return axes


@dataclass(frozen=True, slots=True)
class Series:
    """Bars of one colour.

    Attributes
    ----------
    name : str
        In the legend.
    values : sequence of float or None
        One per group; None draws nothing.
    published : sequence of float or None
        Drawn as a line across the bar; may be empty.
    """

    name: str
    values: Sequence[float | None]
    published: Sequence[float | None] = ()


def grouped_bars(
    groups: Sequence[str],
    series: Sequence[Series],
    *,
    vertical: str,
    horizontal: str = "",
    ax: Axes | None = None,
    title: str = "",
    log: bool = False,
    number: str = "{:.1f}",
    legend: bool = True,
) -> Axes:
    """Draw bars side by side in groups, each with its number, and published values as lines across them.

    Parameters
    ----------
    groups : sequence of str
        Labels under the groups.
    series : sequence of Series
        One colour each.
    vertical, horizontal : str
        What the axes show, with units.
    ax : matplotlib Axes, optional
        Where to draw.
    title : str
        Of the axes.
    log : bool
        Whether the vertical axis is logarithmic.
    number : str
        Format of the numbers on the bars.
    legend : bool
        Whether to draw one.
    """
    axes = axes_or_new(ax)
    if log:
        axes.set_yscale("log")
    width = _BAR_WIDTH / max(len(series), 1)
    lines: list[tuple[float, float]] = []
    for index, one in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * width
        placed = [(group + offset, value) for group, value in enumerate(one.values) if value is not None]
        axes.bar(
            [place for place, _ in placed],
            [value for _, value in placed],
            width * 0.94,
            color=SERIES[index % len(SERIES)],
            label=one.name,
        )
        for place, value in placed:
            _number(axes, number.format(value), place, value)
        lines += [(group + offset, value) for group, value in enumerate(one.published) if value is not None]
    if lines:
        half = width * 0.47
        for colour, thickness, label in (("white", 3.6, "_outline"), (INK, 1.8, PUBLISHED)):
            axes.hlines(
                [value for _, value in lines],
                [place - half for place, _ in lines],
                [place + half for place, _ in lines],
                colors=colour,
                linewidth=thickness,
                label=label,
                zorder=3,
            )
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_ylabel(vertical)
    axes.set_xlabel(horizontal)
    axes.set_title(title, fontsize="medium")
    tidy(axes)
    axes.margins(y=0.12)
    if legend:
        axes.legend(frameon=False, fontsize="small", ncols=len(series) + bool(lines), loc="best")
    return axes


def _number(axes: Axes, text: str, place: float, value: float) -> None:
    """Write a number above a bar, legible where a line passes behind it."""
    axes.annotate(
        text,
        (place, value),
        xytext=(0, 2.5),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize="x-small",
        zorder=4,
        bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
    )


def schedule_gantt(plan: Plan, *, title: str = "") -> Figure:
    """Draw when each operator and transfer of a plan runs: one lane per unit, no two bars of a lane overlap.

    Parameters
    ----------
    plan : Plan
        What to draw.
    title : str
        Of the figure; model, latency and status if left out.

    Returns
    -------
    matplotlib Figure
        As high as the lanes need.
    """
    from matplotlib.patches import Patch

    from cimplan.plan.plot import draw_timeline
    from cimplan.plan.timeline import timeline

    lanes = timeline(plan)
    figure = new_figure(9.0, 1.4 + 0.3 * len(lanes))
    axes: Axes = figure.subplots()
    draw_timeline(plan, axes)
    for bars in axes.collections:
        _shade(bars)
    if title:
        axes.set_title(title, fontsize="medium", parse_math=False)
    tidy(axes, grid="x")
    colours = (("host", BLUE), ("crossbars", ORANGE), ("bus", GREY))
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in colours],
        frameon=False,
        fontsize="small",
        ncols=len(colours),
        loc="outside lower center",
    )
    return figure


def _shade(bars: Collection) -> None:
    """Tell neighbours of a lane apart by two shades: white edges would hide bars that are thinner than they."""
    from matplotlib.colors import to_rgb, to_rgba_array

    faces = to_rgba_array(bars.get_facecolor())
    red, green, blue = to_rgb((faces[0][0], faces[0][1], faces[0][2])) if len(faces) else (0.0, 0.0, 0.0)
    base = (red, green, blue)
    lighter = (_lighter(red), _lighter(green), _lighter(blue))
    shades = [base if number % 2 == 0 else lighter for number in range(len(bars.get_paths()))]
    bars.set_facecolor(shades)
    bars.set_edgecolor(shades)
    bars.set_linewidth(0.4)


def _lighter(channel: float) -> float:
    return channel + (1 - channel) * 0.3


__all__ = [
    "PUBLISHED",
    "Series",
    "budget_curve",
    "grouped_bars",
    "latency_shares",
    "pareto_front",
    "schedule_gantt",
    "speedup_heat_map",
]
