"""A sweep: from a space to results in a store, resumable at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cimplan.explore.engine import Engine, SerialEngine
from cimplan.explore.points import PointResult, Task, failure, run_task
from cimplan.explore.prepare import Preparation
from cimplan.explore.search import search
from cimplan.explore.space import Design, LoadedSpace, Space, grid, points_wanted
from cimplan.explore.store import Store


@dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Attributes
    ----------
    done, total : int
        Points finished in all, and points of the sweep.
    reused : int
        Points that were already in the store.
    failed : int
        Points recorded with a reason instead of a result.
    elapsed_s : float
        Of this run, after the models were prepared.
    """

    done: int
    total: int
    reused: int
    failed: int
    elapsed_s: float

    @property
    def rate_per_s(self) -> float:
        """Points this run computes in a second."""
        return (self.done - self.reused) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds left at this rate; None before the first point."""
        return (self.total - self.done) / self.rate_per_s if self.rate_per_s > 0 else None


@dataclass(frozen=True)
class SweepResult:
    """A finished sweep.

    Attributes
    ----------
    sweep : str
        Its identity in the store.
    status : Status
        How far it is: done.
    rows : list of dict
        Its points in the order of the space.
    columns : list of (str, str)
        Names and types of the columns.
    """

    sweep: str
    status: Status
    rows: list[dict[str, Any]]
    columns: list[tuple[str, str]]


def run_sweep(
    loaded: LoadedSpace,
    store: Store,
    *,
    engine: Engine | None = None,
    retry_failed: bool = False,
    progress: Callable[[Status], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> SweepResult:
    """Compute all points of a space that the store does not have yet.

    Parameters
    ----------
    loaded : LoadedSpace
        The space.
    store : Store
        Where results are kept.
    engine : Engine, optional
        Where tasks run; this process if left out.
    retry_failed : bool
        Try failed points again.
    progress : callable, optional
        Told after every task.
    say : callable, optional
        Told what is going on while models are prepared.

    Returns
    -------
    SweepResult
        Complete.

    Raises
    ------
    InputError
        If a model cannot be read, or store or engine are lost; what was stored stays.
    NoAnswerError
        If another process computes the same sweep.
    """
    space = loaded.space
    prepared = Preparation(loaded, store, say or (lambda _text: None))
    sweep = prepared.sweep
    with store.exclusive(sweep):
        store.begin_sweep(
            sweep,
            name=space.name,
            space=space.model_dump(mode="json", by_alias=True),
            columns=prepared.columns,
            total=points_wanted(space),
        )
        if retry_failed:
            store.forget_failed(sweep)
        run = _Run(prepared, store, engine or SerialEngine(), points_wanted(space), progress or (lambda _status: None))
        if space.search.kind == "grid":
            run.grid(space)
        else:
            search(space, run.evaluate)
    return SweepResult(sweep, run.status(), store.rows(sweep), prepared.columns)


@dataclass
class _Run:
    """One run of a sweep, and what it has counted so far."""

    prepared: Preparation
    store: Store
    engine: Engine
    total: int
    progress: Callable[[Status], None]
    done: int = 0
    reused: int = 0
    failed: int = 0
    numbered: int = 0
    started: float = field(default_factory=time.monotonic)

    def status(self) -> Status:
        return Status(self.done, self.total, self.reused, self.failed, time.monotonic() - self.started)

    def grid(self, space: Space) -> None:
        """Compute all points of the space."""
        prepared, store = self.prepared, self.store
        if store.count_members(prepared.sweep) < self.total:
            store.add_members(
                prepared.sweep,
                (
                    (number, prepared.key(design), prepared.describe(design))
                    for number, design in enumerate(grid(space))
                ),
            )
        known = store.statuses(prepared.sweep)
        shares: dict[str, int] = {}
        missing: dict[str, Design] = {}
        for design in grid(space):
            key = prepared.key(design)
            if key in known:
                self._count(known[key], 1)
                self.reused += 1
            else:
                shares[key] = shares.get(key, 0) + 1
                missing.setdefault(key, design)
        self._compute(prepared.tasks(missing.items()), shares)

    def evaluate(self, designs: Sequence[Design]) -> list[dict[str, Any]]:
        """Return the results of designs, computed or from the store, in their order."""
        prepared, store = self.prepared, self.store
        keys = [prepared.key(design) for design in designs]
        store.add_members(
            prepared.sweep,
            (
                (self.numbered + index, key, prepared.describe(design))
                for index, (key, design) in enumerate(zip(keys, designs, strict=True))
            ),
        )
        self.numbered += len(designs)
        found = store.results(dict.fromkeys(keys))
        shares: dict[str, int] = {}
        missing: dict[str, Design] = {}
        for key, design in zip(keys, designs, strict=True):
            if key in found:
                self._count(found[key]["status"], 1)
                self.reused += 1
            else:
                shares[key] = shares.get(key, 0) + 1
                # What the same run answers too is likely to be asked for next.
                missing.update(prepared.whole_curve(design))
        extra = [key for key in missing if key not in shares]
        for key in store.results(extra):
            del missing[key]
        self._compute(prepared.tasks(missing.items()), shares)
        # Read back: if another sweep has stored a point first, its result is the one that counts.
        found |= store.results(shares)
        return [found[key] for key in keys]

    def _compute(self, tasks: Iterable[Task], shares: dict[str, int]) -> None:
        self.progress(self.status())
        for task, outcome in self.engine.run(run_task, tasks):
            results = _recorded(task, outcome)
            self.store.add_points(results)
            for key, status, _ in results:
                self._count(status, shares.get(key, 0))
            self.progress(self.status())

    def _count(self, status: str, points: int) -> None:
        self.done += points
        self.failed += points * (status == "failed")


def _recorded(task: Task, outcome: list[PointResult] | BaseException) -> list[PointResult]:
    """Return what to store of a task: its results, or for each of its points why there is none."""
    if not isinstance(outcome, BaseException):
        return outcome
    failures = [(key, failure(outcome, budget)) for budget, key in task.keys]
    return [(key, result["status"], result) for key, result in failures]
