"""Search through spaces too large for a grid: random points, NSGA-II and TPE through Optuna.

A search is a deterministic function of its seed and of the results of its points. Results come from the store where
it has them, so a search that was killed walks the same way again without computing anything twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from cimplan.explore.space import Design, Objective, Space, grid_size

Evaluate = Callable[[Sequence[Design]], list[dict[str, Any]]]

_COLUMNS: dict[Objective, str] = {
    "latency": "makespan_ns",
    "crossbars": "crossbars_used",
    "area": "area_mm2",
    "energy": "energy_uj",
}


def search(space: Space, evaluate: Evaluate) -> None:
    """Walk through a space as it says, at most `points` different points.

    Parameters
    ----------
    space : Space
        With a search other than a grid.
    evaluate : callable
        Gives the results of designs, in their order.
    """
    if space.search.kind == "random":
        _random(space, evaluate)
    else:
        _optuna(space, evaluate)


def _design_at(space: Space, number: int) -> Design:
    """Return the point with this number in the order of the grid."""
    axes = space.axes()
    values = []
    for name, choices in reversed(axes.items()):
        number, index = divmod(number, len(choices))
        values.append((name, choices[index]))
    number, method = divmod(number, len(space.methods))
    return Design(space.models[number], space.methods[method], tuple(reversed(values)))


def _random(space: Space, evaluate: Evaluate) -> None:
    wanted = min(space.search.points or 0, grid_size(space))
    numbers = random.Random(space.search.seed).sample(range(grid_size(space)), wanted)
    evaluate([_design_at(space, number) for number in numbers])


def _optuna(space: Space, evaluate: Evaluate) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes = space.axes()
    choices: dict[str, Sequence[Any]] = {"model": space.models, "method": space.methods, **axes}
    # Samplers see the position on an axis: the axes are ordered, and positions are exact.
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        name: (
            optuna.distributions.CategoricalDistribution(list(range(len(values))))
            if name in ("model", "method")
            else optuna.distributions.IntDistribution(0, len(values) - 1)
        )
        for name, values in choices.items()
        if len(values) > 1
    }
    wanted = min(space.search.points or 0, grid_size(space))
    # Optuna orders what it samples by name; the objectives decide only what is good.
    study = optuna.create_study(directions=["minimize"] * len(space.objectives), sampler=_sampler(space))
    seen: dict[Design, list[float]] = {}
    fruitless = 0
    while len(seen) < wanted and fruitless < 50:
        trials = [study.ask(distributions) for _ in range(space.search.batch)]
        designs = []
        for trial in trials:
            at = {name: values[trial.params.get(name, 0)] for name, values in choices.items()}
            designs.append(Design(at["model"], at["method"], tuple((name, at[name]) for name in axes)))
        new = list(dict.fromkeys(design for design in designs if design not in seen))[: wanted - len(seen)]
        fruitless = 0 if new else fruitless + 1
        for design, result in zip(new, evaluate(new), strict=True):
            seen[design] = [_value(result, objective) for objective in space.objectives]
        for trial, design in zip(trials, designs, strict=True):
            values = seen.get(design)
            if values is None or float("inf") in values:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, values)


def _sampler(space: Space) -> Any:
    import optuna

    if space.search.kind == "nsga2":
        return optuna.samplers.NSGAIISampler(population_size=max(2, space.search.batch), seed=space.search.seed)
    return optuna.samplers.TPESampler(seed=space.search.seed, n_startup_trials=space.search.batch)


def _value(result: dict[str, Any], objective: Objective) -> float:
    value = result.get(_COLUMNS[objective])
    return float("inf") if value is None else float(value)


def pareto(rows: Sequence[dict[str, Any]], objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    """Return the rows that no other row beats: per model, none is at least as good everywhere and better once."""
    complete = [row for row in rows if all(row.get(_COLUMNS[objective]) is not None for objective in objectives)]
    by_model: dict[str, list[tuple[tuple[float, ...], dict[str, Any]]]] = {}
    for row in complete:
        values = tuple(float(row[_COLUMNS[objective]]) for objective in objectives)
        by_model.setdefault(str(row["model"]), []).append((values, row))
    front: list[dict[str, Any]] = []
    for points in by_model.values():
        kept: list[tuple[float, ...]] = []
        # Sorted, a point can only be beaten by one before it.
        for values, row in sorted(points, key=lambda item: item[0]):
            if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other in kept):
                kept.append(values)
                front.append(row)
    return front
