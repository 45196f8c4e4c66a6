"""Searches: deterministic, resumable, complete, quiet, and better than chance where they should be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.explore.engine import SerialEngine
from cimplan.explore.search import pareto, search
from cimplan.explore.space import Space, grid, points_wanted, space_from
from cimplan.explore.store import Store
from cimplan.explore.sweep import run_sweep
from explore.explore_cases import space_value

VARY = {
    "accelerator.crossbars": {"from": 0, "to": 9, "step": 1},
    "accelerator.rows": [32, 64, 128, 256],
    "accelerator.columns": [32, 64, 128, 256],
    "accelerator.mvm_latency": {"from": "50ns", "to": "1us", "steps": 4, "scale": "log"},
}
PRICES = {"area_mm2_per_crossbar": 0.1, "energy_pj_per_mvm": 100, "host_power_w": 1.0}
KINDS = ["random", "nsga2", "tpe"]


def space(kind: str, points: int = 40, seed: int = 3, batch: int = 8, **changes) -> Space:
    value = {"vary": VARY, "search": {"kind": kind, "points": points, "seed": seed, "batch": batch}, **changes}
    return Space.model_validate(space_value(**value))


def walk(described: Space, result=None):
    """The designs a search visits, with made-up results."""
    visited = []

    def evaluate(designs):
        visited.extend(designs)
        return [(result or made_up)(design) for design in designs]

    search(described, evaluate)
    return visited


def made_up(design):
    values = dict(design.values)
    crossbars, rows = values["accelerator.crossbars"], values["accelerator.rows"]
    return {"model": design.model, "makespan_ns": 1e6 / (1 + crossbars) + rows, "crossbars_used": crossbars}


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_visits_as_many_different_points_as_asked_and_the_seed_decides_which(kind):
    first = walk(space(kind))
    assert len(first) == len(set(first)) == 40
    assert set(first) <= set(grid(space(kind)))
    assert walk(space(kind)) == first
    assert walk(space(kind, seed=4)) != first


@pytest.mark.parametrize("kind", KINDS)
def test_a_space_smaller_than_the_search_is_visited_whole(kind):
    vary = {"accelerator.crossbars": [0, 1, 2], "accelerator.rows": [64, 128]}
    small = space(kind, points=500, vary=vary)
    assert sorted(map(repr, walk(small))) == sorted(map(repr, grid(small)))
    assert points_wanted(small) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_each_model_is_searched_on_its_own(kind):
    both = space(kind, models=["a.onnx", "b.onnx"], points=20)
    visited = walk(both)
    assert [sum(design.model == model for design in visited) for model in both.models] == [20, 20]
    assert points_wanted(both) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_points_without_a_result_do_not_stop_a_search(kind):
    def sometimes(design):
        return {"status": "failed"} if dict(design.values)["accelerator.rows"] > 64 else made_up(design)

    assert len(set(walk(space(kind), sometimes))) == 40
    assert len(set(walk(space(kind), lambda _design: {"status": "infeasible"}))) == 40


@pytest.mark.parametrize("kind", ["nsga2", "tpe"])
def test_a_sampler_finds_better_points_than_chance(kind):
    axes = ["accelerator.crossbars", "accelerator.rows", "accelerator.columns", "host.cores"]
    vary = {name: {"from": 1, "to": 40, "step": 1} for name in axes}

    def valley(design):
        return {"makespan_ns": float(sum((value - 17) ** 2 for _, value in design.values)), "crossbars_used": 1}

    def best(kind, seed):
        described = space(kind, points=120, seed=seed, batch=20, vary=vary, objectives=["latency"])
        return min(valley(design)["makespan_ns"] for design in walk(described, valley))

    assert sum(best(kind, seed) for seed in range(2)) < sum(best("random", seed) for seed in range(2))


class Stopping(SerialEngine):
    def __init__(self, after):
        self.left = after
        self.tasks = []

    def run(self, function, tasks):
        for task, outcome in super().run(function, tasks):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            self.tasks.append(task)
            yield task, outcome


@pytest.mark.parametrize("prices", [None, PRICES], ids=["curve", "energy"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_was_stopped_walks_the_same_way_again(folder, kind, prices):
    objectives = ["latency", "crossbars"] if prices is None else ["latency", "energy", "area"]
    value = space_value(
        vary=VARY,
        search={"kind": kind, "points": 24, "seed": 5, "batch": 6},
        objectives=objectives,
        prices=prices or {},
        methods=["exact", "greedy"],
    )
    loaded = space_from(value, folder)
    with Store(f"sqlite:///{folder / 'whole.db'}") as store:
        whole = run_sweep(loaded, store)
    assert len(whole.rows) == whole.status.done == whole.status.total == 24
    tasks = []
    with Store(f"sqlite:///{folder / 'parts.db'}") as store:
        for after in (3, 5):
            engine = Stopping(after)
            with pytest.raises(KeyboardInterrupt):
                run_sweep(loaded, store, engine=engine)
            tasks += engine.tasks
        engine = Stopping(-1)
        resumed = run_sweep(loaded, store, engine=engine)
        tasks += engine.tasks
        assert store.sweeps()[0].computed_again == 0
    assert resumed.rows == whole.rows
    keys = [key for task in tasks for _, key in task.keys]
    assert len(keys) == len(set(keys))


def test_the_crossbar_axis_costs_a_search_nothing(folder):
    value = space_value(vary=VARY, search={"kind": "random", "points": 200, "seed": 1})
    engine = Stopping(-1)
    with Store(f"sqlite:///{folder / 's.db'}") as store:
        result = run_sweep(space_from(value, folder), store, engine=engine)
    others = {tuple(row[name] for name in VARY if name != "accelerator.crossbars") for row in result.rows}
    assert len(engine.tasks) == len(others) <= 64
    assert len(result.rows) == 200


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 6)), max_size=30))
@settings(deadline=None)
def test_the_front_is_what_brute_force_finds(points):
    rows = [{"model": model, "makespan_ns": float(x), "crossbars_used": y} for model, x, y in points]
    random.Random(1).shuffle(rows)
    front = pareto(rows, ["latency", "crossbars"])
    expected = {
        (row["model"], row["makespan_ns"], row["crossbars_used"])
        for row in rows
        if not any(
            other["model"] == row["model"]
            and other["makespan_ns"] <= row["makespan_ns"]
            and other["crossbars_used"] <= row["crossbars_used"]
            and (other["makespan_ns"], other["crossbars_used"]) != (row["makespan_ns"], row["crossbars_used"])
            for other in rows
        )
    }
    found = [(row["model"], row["makespan_ns"], row["crossbars_used"]) for row in front]
    assert set(found) == expected and len(found) == len(expected)


def test_a_point_without_a_result_is_not_on_the_front():
    rows = [{"model": "a", "status": "failed"}, {"model": "a", "makespan_ns": 5.0, "crossbars_used": 2}]
    assert pareto(rows, ["latency", "crossbars"]) == rows[1:]


@pytest.mark.parametrize("kind", ["nsga2", "tpe"])
def test_a_round_larger_than_the_search_asks_for_no_more_points_than_the_search_has(kind, monkeypatch):
    import optuna

    asked = []
    ask = optuna.study.Study.ask
    monkeypatch.setattr(optuna.study.Study, "ask", lambda *args: asked.append(1) or ask(*args))
    assert len(walk(space(kind, points=5, batch=10_000))) == 5
    # Every round has to find something new, or the rest is drawn at random.
    assert len(asked) <= 5 * 5
