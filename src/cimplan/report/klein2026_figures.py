"""The figures of Klein et al. 2026 with our numbers and the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cimplan.explore.klein2026 import FASTEST_NS, FIGURE_3, FIGURE_4, FIGURE_5, OPEN_QUESTION, Instance, Reproduction
from cimplan.explore.open_question import FITTED_MODEL
from cimplan.explore.published import (
    BUDGETS,
    LATENCIES_NS,
    RESNET18_SPEEDUPS,
    SPEEDUPS_50NS,
    TITLES,
    PublishedHost,
)
from cimplan.plan.words import plan_status
from cimplan.report.canvas import BLUE, GREEN, INK, ORANGE, VERMILION, new_figure, tidy
from cimplan.report.klein2026_tables import published_operators
from cimplan.report.plots import Series, budget_curve, grouped_bars, latency_shares, schedule_gantt, speedup_heat_map
from cimplan.units import format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cimplan.explore.reproduction_hosts import ReproductionHost

_PUBLISHED_MARKS: Final[tuple[tuple[PublishedHost, str, str], ...]] = (("arm", VERMILION, "D"), ("x86", GREEN, "s"))


def figures(result: Reproduction) -> dict[str, Figure]:
    """Return all figures of a reproduction by file name without suffix, in the order of the page."""
    found: dict[str, Figure] = {}
    if FIGURE_3 in result.parts and result.models(FIGURE_3):
        found["figure3"] = figure3(result)
    if FIGURE_4 in result.parts and result.models(FIGURE_4):
        found["figure4"] = figure4(result)
    if any(result.curves.values()):
        found["budget-curves"] = budget_curves(result)
    if FIGURE_5 in result.parts and result.models(FIGURE_5):
        found["figure5-latency"] = figure5_latency(result)
        found["figure5-operators"] = figure5_operators(result)
    for host in result.hosts:
        if host.key in result.plans:
            found[f"schedule-{_slug(host.key)}"] = schedule(result, host)
    if OPEN_QUESTION in result.parts and result.question is not None:
        found["open-question"] = open_question_figure(result)
    return found


def figure3(result: Reproduction) -> Figure:
    """ResNet-18 over budgets and latencies: one row per host, ours beside the published."""
    hosts = [host for host in result.hosts if "resnet18" in host.profiles]
    ours = {
        host.key: {
            (budget, latency): result.speedup(host.key, "resnet18", latency, budget)
            for budget in BUDGETS
            for latency in LATENCIES_NS
        }
        for host in hosts
    }
    published: dict[str, Mapping[tuple[int, float], float | None]] = {
        host.key: {
            (budget, latency): RESNET18_SPEEDUPS[host.published].get((budget, latency))
            for budget in BUDGETS
            for latency in LATENCIES_NS
        }
        for host in hosts
    }
    values = [value for maps in (ours, published) for one in maps.values() for value in one.values() if value]
    limits = (min(values), max(values))
    figure = new_figure(8.0, 0.4 + 2.7 * len(hosts))
    grid = figure.subplots(len(hosts), 2, squeeze=False)
    for row, host in zip(grid, hosts, strict=True):
        speedup_heat_map(ours[host.key], ax=row[0], title=f"{_short(host)}: ours, {host.origin}", limits=limits)
        speedup_heat_map(published[host.key], ax=row[1], title=f"{_published(host)}: published", limits=limits)
        row[1].set_ylabel("")
    figure.suptitle("ResNet-18: speed-up over the host alone", fontsize="large")
    return figure


def figure4(result: Reproduction) -> Figure:
    """Four networks at the least MVM latency: bars for each budget, published values as lines."""
    models = result.models(FIGURE_4)
    figure = new_figure(8.0, 0.4 + 2.9 * len(result.hosts))
    grid = figure.subplots(len(result.hosts), 1, squeeze=False)
    for row, host in zip(grid, result.hosts, strict=True):
        series = [
            Series(
                f"{budget} crossbars",
                [result.speedup(host.key, model, FASTEST_NS, budget) for model in models],
                [SPEEDUPS_50NS[host.published, model][budget] if model in host.profiles else None for model in models],
            )
            for budget in BUDGETS
        ]
        grouped_bars(
            [TITLES[model] for model in models],
            series,
            ax=row[0],
            vertical="speed-up",
            title=f"{_short(host)}, {host.origin}; published: {_published(host)}",
            log=True,
            legend=False,
        )
        row[0].set_ylim(bottom=0.9)
        row[0].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        row[0].minorticks_off()
    _legend_below(figure, grid[0][0])
    figure.suptitle(f"Speed-up over the host alone at {format_duration(FASTEST_NS)} per MVM", fontsize="large")
    return figure


def budget_curves(result: Reproduction) -> Figure:
    """The optimum of every budget for each network: one panel per network, one curve per host."""
    models = [model for model in TITLES if any(result.curves.get((host.key, model)) for host in result.hosts)]
    figure = new_figure(8.0, 0.3 + 2.5 * ((len(models) + 1) // 2))
    grid = figure.subplots((len(models) + 1) // 2, 2, squeeze=False)
    panels = [panel for row in grid for panel in row]
    colours = (BLUE, ORANGE, GREEN)
    for panel, model in zip(panels, models, strict=False):
        until = max(210, *(steps[-1][0] + 10 for (_, name), steps in result.curves.items() if name == model and steps))
        for host, colour in zip(result.hosts, colours * len(result.hosts), strict=False):
            steps = result.curves.get((host.key, model))
            if steps:
                budget_curve(steps, ax=panel, label=f"{_short(host)}, {host.origin}", colour=colour, until=until)
                published = SPEEDUPS_50NS[host.published, model]
                panel.plot(
                    list(published),
                    list(published.values()),
                    "D",
                    color=colour,
                    markersize=5,
                    markeredgecolor="white",
                    label=f"published, {_published(host)}",
                )
        panel.set_yscale("log")
        panel.set_ylim(0.95, 50)
        panel.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        panel.minorticks_off()
        panel.set_ylabel("speed-up")
        panel.set_title(TITLES[model], fontsize="medium")
        legend = panel.get_legend()
        if legend is not None:
            legend.remove()
    for panel in panels[len(models) :]:
        panel.set_visible(False)
    _legend_below(figure, panels[0], columns=2)
    figure.suptitle(f"The optimum of every crossbar budget at {format_duration(FASTEST_NS)} per MVM", fontsize="large")
    return figure


def figure5_latency(result: Reproduction) -> Figure:
    """What the latency of YOLOv5n goes to, by budget within each MVM latency."""
    hosts = [host for host in result.hosts if "yolov5n" in host.profiles]
    figure = new_figure(8.0, 0.4 + 2.9 * len(hosts))
    grid = figure.subplots(len(hosts), len(LATENCIES_NS), squeeze=False, sharey="row")
    for row, host in zip(grid, hosts, strict=True):
        for column, (panel, latency) in enumerate(zip(row, LATENCIES_NS, strict=True)):
            found = [result.instance(host.key, "yolov5n", latency, budget) for budget in BUDGETS]
            bars = [(str(item.crossbars), item.share) for item in found if item is not None]
            latency_shares(bars, ax=panel, title=f"{format_duration(latency)} per MVM", legend=False)
            host_only = next((item.host_only_ns for item in found if item is not None), 0.0) / 1e6
            panel.axhline(host_only, color=VERMILION, linewidth=1, linestyle="--", label="host alone")
            panel.set_ylim(0, host_only * 1.08)
            panel.set_xlabel("crossbars")
            if column:
                panel.set_ylabel("")
            else:
                panel.set_ylabel(f"{_short(host)}, {host.origin}\nlatency (ms)")
    _legend_below(figure, grid[0][0])
    figure.suptitle("YOLOv5n: what the latency goes to", fontsize="large")
    return figure


def figure5_operators(result: Reproduction) -> Figure:
    """Operators of YOLOv5n on the accelerator, by MVM latency and budget, and the published numbers."""
    hosts = [host for host in result.hosts if "yolov5n" in host.profiles]
    figure = new_figure(8.0, 0.4 + 2.6 * len(hosts))
    grid = figure.subplots(len(hosts), 1, squeeze=False)
    for number, (row, host) in enumerate(zip(grid, hosts, strict=True)):
        series = []
        for budget in BUDGETS:
            found = [result.instance(host.key, "yolov5n", latency, budget) for latency in LATENCIES_NS]
            series.append(
                Series(
                    f"{budget} crossbars",
                    [None if item is None else item.operators_on_cim for item in found],
                    [None if item is None else _stated(host, item) for item in found],
                )
            )
        grouped_bars(
            [format_duration(latency) for latency in LATENCIES_NS],
            series,
            ax=row[0],
            vertical="operators",
            horizontal="MVM latency" if number == len(hosts) - 1 else "",
            title=f"{_short(host)}, {host.origin}; published: {_published(host)}",
            number="{:.0f}",
            legend=False,
        )
    _legend_below(figure, grid[0][0])
    figure.suptitle("YOLOv5n: operators on the crossbars", fontsize="large")
    return figure


def _stated(host: ReproductionHost, item: Instance) -> int | None:
    stated = published_operators(host.published, item)
    return None if stated is None else stated[0]


def schedule(result: Reproduction, host: ReproductionHost) -> Figure:
    """The timeline of YOLOv5n on one host."""
    plan = result.plans[host.key]
    return schedule_gantt(
        plan,
        title=f"YOLOv5n, {_short(host)} ({host.origin}), {plan.crossbars_available} crossbars, "
        f"{format_duration(FASTEST_NS)} per MVM: {format_duration(plan.makespan_ns)}, {plan_status(plan)}",
    )


def open_question_figure(result: Reproduction) -> Figure:
    """ResNet speed-ups as published, beside what equation (1) lets any even host reach."""
    question = result.question
    networks = [] if question is None else [item for item in question.networks if item.model.startswith("resnet")]
    figure = new_figure(8.0, 3.2)
    grid = figure.subplots(1, max(len(networks), 1), squeeze=False)
    for panel, network in zip(grid[0], networks, strict=False):
        places = list(range(len(network.rows)))
        ceiling = 100.0
        panel.bar(
            places,
            [min(row.bound_if_even, ceiling) for row in network.rows],
            0.75,
            color="#cfe3f1",
            edgecolor=BLUE,
            label="most under eq. (1), time even over MACs",
        )
        for place, row in zip(places, network.rows, strict=True):
            text = f"≤ {row.bound_if_even:.1f}" if row.bound_if_even < ceiling else "no bound"
            panel.annotate(text, (place, 1.0), xytext=(0, 3), textcoords="offset points", ha="center", fontsize="small")
        for name, colour, marker in _PUBLISHED_MARKS:
            values = [row.published[name] for row in network.rows]
            panel.plot(
                places,
                values,
                marker,
                color=colour,
                markersize=7,
                markeredgecolor="white",
                label=f"published, {name.replace('arm', 'ARM')}",
            )
        if question is not None and question.fitted is not None and network.model == FITTED_MODEL:
            fitted = [question.fitted.speedups[row.crossbars] for row in network.rows]
            panel.plot(
                places, fitted, "_", color=INK, markersize=22, markeredgewidth=2, label="fitted ARM host, solved"
            )
        panel.set_yscale("log")
        panel.set_ylim(1, ceiling)
        panel.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        panel.minorticks_off()
        panel.set_xticks(places, [str(row.crossbars) for row in network.rows])
        panel.set_xlabel("crossbars")
        panel.set_ylabel("speed-up")
        panel.set_title(
            f"{TITLES[network.model]}: needs {network.crossbars_of_everything} crossbars", fontsize="medium"
        )
        tidy(panel)
    _legend_below(figure, grid[0][0])
    return figure


def _legend_below(figure: Figure, panel: Axes, *, columns: int | None = None) -> None:
    """Put one legend for all panels under the figure."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns or len(labels), frameon=False, fontsize="small"
    )


def _short(host: ReproductionHost) -> str:
    """A name that fits a panel's title."""
    name = host.processor.split(",")[0].replace("(R)", "").replace("(TM)", "")
    return " ".join(name.split())


def _published(host: ReproductionHost) -> str:
    return "Ryzen 9 3900X" if host.published == "x86" else "Cortex-A72"


def _slug(text: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in text.lower()).strip("-")
