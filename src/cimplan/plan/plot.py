"""The timeline of a plan as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cimplan.cost.problem import CIM, HOST
from cimplan.errors import InputError
from cimplan.plan.timeline import BUS, timeline
from cimplan.plan.words import plan_status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cimplan.plan.plan import Plan

# Okabe and Ito: told apart by everyone, also in grey.
_COLOURS: Final = {HOST: "#0072B2", CIM: "#E69F00", BUS: "#999999"}
_OTHER: Final = "#009E73"


def draw_timeline(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw the timeline of a plan: one row per host core, crossbar group and bus lane.

    Parameters
    ----------
    plan : Plan
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; the axes of a new figure if left out.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "a plan is drawn with matplotlib, which is not installed",
            fix="Install it with: pip install 'cimplan[explore]'",
        ) from error
    rows = timeline(plan)
    axes: Axes = ax if ax is not None else Figure(figsize=(10, 1.2 + 0.32 * len(rows)), layout="constrained").subplots()
    for height, row in enumerate(rows):
        spans = [(bar.start_ns / 1e6, (bar.finish_ns - bar.start_ns) / 1e6) for bar in row.bars]
        axes.broken_barh(
            spans, (height - 0.4, 0.8), facecolors=_COLOURS.get(row.place, _OTHER), edgecolors="white", linewidth=0.3
        )
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, max(plan.makespan_ns / 1e6, 1e-6))
    axes.set_xlabel("time (ms)")
    axes.set_title(f"{plan.model or 'plan'}: {plan.makespan_ns / 1e6:.4g} ms, {plan_status(plan)}", parse_math=False)
    return axes
