"""Search through spaces too large for a grid: random points, NSGA-II and TPE through Optuna.

Each model is searched on its own, since networks cannot be traded for each other. A search is a deterministic
function of its seed and of the results of its points. Results come from the store where it has them, so a search that
was killed walks the same way again without computing anything twice.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cimplan.explore.axes import Value
from cimplan.explore.space import Design, Objective, Space, designs_per_model

if TYPE_CHECKING:
    from optuna.trial import Trial

Evaluate = Callable[[Sequence[Design]], list[dict[str, Any]]]

_COLUMNS: dict[Objective, str] = {
    "latency": "makespan_ns",
    "crossbars": "crossbars_used",
    "area": "area_mm2",
    "energy": "energy_uj",
}

_FRUITLESS_ROUNDS = 20
"""Rounds without a new point after which a sampler has converged, and the rest is drawn at random."""


def search(space: Space, evaluate: Evaluate) -> None:
    """Walk through a space as it says, at `points` different points of each model, or all if there are fewer.

    Parameters
    ----------
    space : Space
        With a search other than a grid.
    evaluate : callable
        Gives the results of designs, in their order.
    """
    if space.search.kind == "random":
        for model in space.models:
            evaluate(list(_random(space, model)))
        return
    with _quiet_optuna():
        walks = [_Walk(space, model) for model in space.models]
        while walks:
            asked = [(walk, walk.ask()) for walk in walks]
            results = iter(evaluate([design for _, designs in asked for design in designs]))
            for walk, designs in asked:
                walk.tell([(design, next(results)) for design in designs])
            walks = [walk for walk in walks if not walk.finished]


def _random(space: Space, model: str) -> Iterator[Design]:
    """Yield different random points, as many as a search takes."""
    size = designs_per_model(space)
    rng = random.Random(f"{space.search.seed} {model}")
    for number in rng.sample(range(size), min(space.search.points or 0, size)):
        yield _design_at(space, model, number)


def _design_at(space: Space, model: str, number: int) -> Design:
    """Return the point with this number in the order of the grid of a model."""
    values: list[tuple[str, Value]] = []
    for name, choices in reversed(space.axes().items()):
        number, index = divmod(number, len(choices))
        values.append((name, choices[index]))
    return Design(model, space.methods[number], tuple(reversed(values)))


class _Walk:
    """The search of one model: rounds of asking a sampler for points and telling it their results."""

    def __init__(self, space: Space, model: str) -> None:
        import optuna

        self._space = space
        self._model = model
        self._axes = space.axes()
        self._choices: dict[str, Sequence[Any]] = {"method": space.methods, **self._axes}
        # Samplers see the position on an axis: the axes are ordered, and positions are exact.
        self._distributions: dict[str, Any] = {
            name: (
                optuna.distributions.CategoricalDistribution(list(range(len(values))))
                if name == "method"
                else optuna.distributions.IntDistribution(0, len(values) - 1)
            )
            for name, values in self._choices.items()
            if len(values) > 1
        }
        self._study = optuna.create_study(
            directions=["minimize"] * len(space.objectives), sampler=_sampler(space, space.models.index(model))
        )
        self._wanted = min(space.search.points or 0, designs_per_model(space))
        self._seen: dict[Design, list[float] | None] = {}
        self._asked: list[tuple[Trial, Design]] = []
        self._fruitless = 0

    @property
    def finished(self) -> bool:
        return len(self._seen) >= self._wanted

    def ask(self) -> list[Design]:
        """Return the new points of the next round; may be none, if the sampler only repeats itself."""
        left = self._wanted - len(self._seen)
        if self._fruitless >= _FRUITLESS_ROUNDS:
            # Of as many random points as are wanted in all, at least those that are left are new.
            new = (design for design in _random(self._space, self._model) if design not in self._seen)
            return [design for design, _ in zip(new, range(left), strict=False)]
        # A round larger than the whole search would only be thrown away.
        asked = min(self._space.search.batch, self._wanted)
        trials = [self._study.ask(self._distributions) for _ in range(asked)]
        self._asked = [(trial, self._design(trial)) for trial in trials]
        new_designs = list(dict.fromkeys(design for _, design in self._asked if design not in self._seen))[:left]
        self._fruitless = 0 if new_designs else self._fruitless + 1
        return new_designs

    def tell(self, results: Sequence[tuple[Design, dict[str, Any]]]) -> None:
        """Take the results of the points that `ask` returned."""
        from optuna.trial import TrialState

        for design, result in results:
            self._seen[design] = _values(result, self._space.objectives)
        for trial, design in self._asked:
            values = self._seen.get(design)
            if values is None:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                self._study.tell(trial, values)
        self._asked = []

    def _design(self, trial: Trial) -> Design:
        at = {name: values[trial.params.get(name, 0)] for name, values in self._choices.items()}
        return Design(self._model, at["method"], tuple((name, at[name]) for name in self._axes))


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Keep Optuna's log and its remarks on experimental features from the user of cimplan."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _sampler(space: Space, number: int) -> Any:
    import optuna

    seed = (space.search.seed + number) % 2**31
    if space.search.kind == "nsga2":
        return optuna.samplers.NSGAIISampler(population_size=max(2, space.search.batch), seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=space.search.batch)


def _values(result: dict[str, Any], objectives: Sequence[Objective]) -> list[float] | None:
    """Return what is minimised; None if the point has no result."""
    values = [result.get(_COLUMNS[objective]) for objective in objectives]
    return None if any(value is None for value in values) else [float(value) for value in values if value is not None]


def pareto(rows: Sequence[dict[str, Any]], objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    """Return the rows that no other row beats: per model, none is at least as good everywhere and better once.

    Of equal rows the first one stands for all.
    """
    by_model: dict[str, list[tuple[list[float], dict[str, Any]]]] = {}
    for row in rows:
        values = _values(row, objectives)
        if values is not None:
            by_model.setdefault(str(row["model"]), []).append((values, row))
    front: list[dict[str, Any]] = []
    for points in by_model.values():
        kept: list[list[float]] = []
        # Sorted, a point can only be beaten by one before it.
        for values, row in sorted(points, key=lambda item: item[0]):
            if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other in kept):
                kept.append(values)
                front.append(row)
    return front
