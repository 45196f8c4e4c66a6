"""Figures by their structure: what is drawn equals what was given, nothing overlaps, axes say what they show."""

from __future__ import annotations

import itertools
import sys

import pytest
from matplotlib import rcParams
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from cimplan.errors import InputError
from cimplan.explore.latency_share import LatencyShare
from cimplan.plan.timeline import timeline
from cimplan.report.canvas import SERIES, new_figure, save, svg_text
from cimplan.report.plots import (
    Series,
    budget_curve,
    grouped_bars,
    latency_shares,
    pareto_front,
    schedule_gantt,
    speedup_heat_map,
)
from reference_profiles import reproduction

SPEEDUPS = {(25, 50.0): 1.5, (25, 1000.0): 1.0, (100, 50.0): 30.9, (100, 1000.0): None}


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_a_heat_map_writes_every_number_and_leaves_unknown_cells_empty():
    axes = speedup_heat_map(SPEEDUPS, title="ours")
    assert texts(axes) == ["1.5×", "30.9×", "1.0×", "–"]
    (image,) = axes.images
    assert image.get_array().tolist()[0] == [1.5, 30.9]
    assert image.get_array().mask.tolist() == [[False, False], [False, True]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["25", "100"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["50 ns", "1 µs"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("crossbars", "MVM latency", "ours")


def test_heat_maps_with_shared_limits_have_the_same_colours():
    colours = {
        tuple(speedup_heat_map({(25, 50.0): 2.0, (50, 50.0): other}, limits=(1, 40)).images[0].norm([2.0]))
        for other in (3.0, 30.0)
    }
    assert len(colours) == 1


def test_numbers_stand_out_from_their_cells():
    for text in speedup_heat_map({(25, 50.0): 1.0, (50, 50.0): 30.0}).texts:
        assert text.get_color() == ("white" if text.get_text() == "1.0×" else "#222222")


def test_a_heat_map_of_nothing_known_is_drawn():
    assert texts(speedup_heat_map({(25, 50.0): None})) == ["–"]


def test_a_budget_curve_steps_where_the_next_crossbar_pays():
    axes = budget_curve([(0, 1.0), (10, 2.0), (40, 3.0)], published={25: 2.5}, until=60)
    curve, marks = axes.lines
    assert curve.get_drawstyle() == "steps-post"
    assert curve.get_xydata().tolist() == [[0, 1], [10, 2], [40, 3], [60, 3]]
    assert marks.get_xydata().tolist() == [[25, 2.5]]
    assert axes.get_xlabel() == "crossbars"
    assert axes.get_ylabel() == "speed-up over the host alone"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["optimum of every budget", "published"]


def test_a_pareto_front_is_drawn_over_all_designs():
    points = [(1.0, 5.0), (2.0, 2.0), (3.0, 3.0)]
    axes = pareto_front(points, [(2.0, 2.0), (1.0, 5.0)], horizontal="crossbars", vertical="latency (ms)")
    assert axes.collections[0].get_offsets().tolist() == [[1, 5], [2, 2], [3, 3]]
    assert axes.lines[0].get_xydata().tolist() == [[1, 5], [2, 2]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("crossbars", "latency (ms)")


def test_stacked_parts_reach_the_latency():
    shares = [("25", LatencyShare(3e6, 1e6, 2e6, 5e5, 0)), ("50", LatencyShare(1e6, 0, 0, 0, 0))]
    axes = latency_shares(shares)
    stacks = [[container.patches[bar] for container in axes.containers] for bar in range(2)]
    for (_, share), stack in zip(shares, stacks, strict=True):
        below = 0.0
        for patch in stack:
            assert patch.get_y() == pytest.approx(below)
            below += patch.get_height()
        assert below == pytest.approx(share.total_ns / 1e6)
    assert axes.get_ylabel() == "latency (ms)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["25", "50"]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["host", "host and crossbars at once", "crossbars", "transfer"]


def test_grouped_bars_stand_side_by_side_with_their_numbers():
    series = [Series("25", [1.0, 2.0], [1.5, None]), Series("50", [3.0, None]), Series("100", [4.0, 5.0])]
    axes = grouped_bars(["a", "b"], series, vertical="speed-up", horizontal="network", title="title")
    bars = sorted(
        (bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height())
        for container in axes.containers
        if isinstance(container, BarContainer)
        for bar in container
    )
    assert [height for _, _, height in bars] == [1, 3, 4, 2, 5]
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(bars))
    assert sorted(texts(axes)) == ["1.0", "2.0", "3.0", "4.0", "5.0"]
    line = axes.collections[-1].get_segments()
    assert [segment[:, 1].tolist() for segment in line] == [[1.5, 1.5]]
    (left, _), (right, _) = line[0]
    assert (left, right) == pytest.approx(bars[0][:2])
    colours = [container.patches[0].get_facecolor() for container in axes.containers]
    assert len(set(colours)) == len(series)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_schedule_has_a_lane_per_unit_and_no_overlap():
    (plan,) = reproduction().plans.values()
    figure = schedule_gantt(plan)
    (axes,) = figure.axes
    rows = timeline(plan)
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.title for row in rows]
    assert axes.get_xlabel() == "time (ms)"
    assert len(axes.collections) == len(rows)
    for bars, row in zip(axes.collections, rows, strict=True):
        spans = [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
        assert len(spans) == len(row.bars)
        assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(spans))
        heights = {(path.vertices[:, 1].min(), path.vertices[:, 1].max()) for path in bars.get_paths()}
        assert len(heights) <= 1
    drawn = sum(len(bars.get_paths()) for bars in axes.collections)
    assert drawn == len(plan.operators) + len(plan.transfers)


def test_a_figure_becomes_the_same_file_each_time(tmp_path):
    def draw():
        return budget_curve([(0, 1.0), (10, 2.0)]).figure

    for suffix in (".svg", ".png", ".pdf"):
        first, again = tmp_path / f"first{suffix}", tmp_path / f"again{suffix}"
        save(draw(), first)
        save(draw(), again)
        assert first.read_bytes() == again.read_bytes()
    assert svg_text(draw()).startswith("<svg")
    assert ">crossbars<" in (tmp_path / "first.svg").read_text()


def test_a_figure_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.svg, \.png or \.pdf"):
        save(new_figure(), tmp_path / "figure.gif")


def test_drawing_leaves_matplotlib_as_it_was(tmp_path):
    before = dict(rcParams)
    pyplot = "matplotlib.pyplot" in sys.modules
    save(speedup_heat_map(SPEEDUPS).figure, tmp_path / "map.svg")
    assert dict(rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == pyplot


def test_plots_draw_where_they_are_told():
    figure = Figure()
    axes = figure.subplots()
    assert budget_curve([(0, 1.0)], ax=axes) is axes
    assert speedup_heat_map(SPEEDUPS, ax=axes) is axes


def test_colours_can_be_told_apart_in_grey():
    def luminance(colour):
        red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for one, other in itertools.pairwise(SERIES[:4]):
        assert abs(luminance(one) - luminance(other)) > 0.04


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"cimplan\[explore\]"):
        new_figure()
