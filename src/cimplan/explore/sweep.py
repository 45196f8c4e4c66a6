"""A sweep: from a space to results in a store, resumable at any moment."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cimplan.errors import CimplanError, InputError
from cimplan.explore.engine import Engine, SerialEngine
from cimplan.explore.points import CURVE_METHOD, PointResult, Task, pack_profile, point_key, profile_key, run_task
from cimplan.explore.search import search
from cimplan.explore.space import CROSSBARS_FIELD, Design, LoadedSpace, grid, grid_size
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
        Of this run.
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
    """A finished sweep: its identity in the store, its status, and its rows in the order of the space."""

    sweep: str
    status: Status
    rows: list[dict[str, Any]]


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
        If a model or the hardware cannot be read.
    NoAnswerError
        If another process computes the same sweep.
    """
    started = time.monotonic()
    space = loaded.space
    maker = _TaskMaker(loaded, store, say or (lambda _text: None))
    sweep = maker.sweep
    total = grid_size(space) if space.search.kind == "grid" else min(space.search.points or 0, grid_size(space))
    with store.exclusive(sweep):
        store.add_sweep(
            sweep,
            name=space.name,
            space=space.model_dump(mode="json", by_alias=True),
            total=total,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if retry_failed:
            store.forget_failed(sweep)
        counts = {"done": 0, "reused": 0, "failed": 0}

        def report() -> None:
            if progress is not None:
                progress(Status(total=total, elapsed_s=time.monotonic() - started, **counts))

        numbered = 0

        def evaluate(designs: Sequence[Design]) -> list[dict[str, Any]]:
            """Return the results of designs, computed or from the store, in their order."""
            nonlocal numbered
            keys = [maker.key(design) for design in designs]
            store.add_members(
                sweep,
                (
                    (numbered + index, key, maker.describe(design))
                    for index, (design, key) in enumerate(zip(designs, keys, strict=True))
                ),
            )
            numbered += len(designs)
            found = store.known(list(dict.fromkeys(keys)))
            reused = sum(key in found for key in keys)
            counts["reused"] += reused
            counts["done"] += reused
            counts["failed"] += sum(found[key]["status"] == "failed" for key in keys if key in found)
            report()
            missing = [(design, key) for design, key in zip(designs, keys, strict=True) if key not in found]
            shares: dict[str, int] = {}
            for _, key in missing:
                shares[key] = shares.get(key, 0) + 1
            tasks = maker.tasks({key: design for design, key in reversed(missing)})
            for task, outcome in (engine or SerialEngine()).run(run_task, tasks):
                results = _recorded(task, outcome)
                store.add_points(results)
                for key, status, result in results:
                    found[key] = result
                    counts["done"] += shares[key]
                    counts["failed"] += shares[key] * (status == "failed")
                report()
            return [found[key] for key in keys]

        if space.search.kind == "grid":
            evaluate(list(grid(space)))
        else:
            search(space, evaluate)
    status = Status(total=total, elapsed_s=time.monotonic() - started, **counts)
    return SweepResult(sweep, status, store.rows(sweep))


def _recorded(task: Task, outcome: list[PointResult] | BaseException) -> list[PointResult]:
    """Return what to store of a task: its results, or for each of its points why there is none."""
    if not isinstance(outcome, BaseException):
        return outcome
    reason = str(outcome) or type(outcome).__name__
    if not isinstance(outcome, CimplanError):
        reason = f"{type(outcome).__name__}: {reason}"
    return [
        (key, "failed", {"status": "failed", "error": reason, "crossbars_available": budget})
        for budget, key in task.keys
    ]


class _TaskMaker:
    """Prepares profiles and hardware once, and groups points that one solve can answer."""

    def __init__(self, loaded: LoadedSpace, store: Store, say: Callable[[str], None]) -> None:
        from cimplan.hardware import load as load_hardware

        self._space = loaded.space
        self._base = load_hardware(loaded.hardware_source()).to_description()
        self._axes = loaded.space.axes()
        self._profiles: dict[str, bytes] = {}
        for model in loaded.space.models:
            say(f"preparing {model}")
            self._profiles[model] = _stored_profile(loaded, store, model)
        inputs = {
            "space": loaded.space.model_dump(mode="json", by_alias=True),
            "hardware": self._base,
            "profiles": {model: profile_key(packed) for model, packed in self._profiles.items()},
        }
        self.sweep = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def hardware(self, design: Design) -> dict[str, Any]:
        """Return the hardware description of a design."""
        value = {name: dict(part) if isinstance(part, dict) else part for name, part in self._base.items()}
        for name, new in design.values:
            section, _, field = name.partition(".")
            value.setdefault(section, {})[field] = new
        return value

    def key(self, design: Design) -> str:
        """Return the key of a design's point."""
        space = self._space
        return point_key(
            self._profiles[design.model], self.hardware(design), design.method, space.time_limit_s, space.prices
        )

    def describe(self, design: Design) -> dict[str, Any]:
        """Return the columns of a design."""
        return {"model": design.model, "method": design.method, **dict(design.values)}

    def tasks(self, missing: dict[str, Design]) -> Iterable[Task]:
        """Yield tasks for points by key; those that differ in crossbars only share one, if the method allows."""
        groups: dict[str, list[tuple[int, str, Design]]] = {}
        for key, design in missing.items():
            budget = self._budget(design)
            rest = tuple(item for item in design.values if item[0] != CROSSBARS_FIELD)
            alone = design.method != CURVE_METHOD or isinstance(budget, bool) or not isinstance(budget, int)
            group = key if alone else json.dumps([design.model, rest])
            groups.setdefault(group, []).append((budget if isinstance(budget, int) else 0, key, design))
        for members in groups.values():
            design = members[0][2]
            yield Task(
                keys=tuple(sorted((budget, key) for budget, key, _ in members)),
                profile=self._profiles[design.model],
                hardware=self.hardware(design),
                method=design.method,
                time_limit_s=self._space.time_limit_s,
                prices=self._space.prices,
            )

    def _budget(self, design: Design) -> Any:
        value = design.value_of(CROSSBARS_FIELD)
        return self._base.get("accelerator", {}).get("crossbars", 0) if value is None else value


def _stored_profile(loaded: LoadedSpace, store: Store, model: str) -> bytes:
    """Return the profile of a model for this store: a measurement is kept, so that a resumed sweep is the same."""
    from cimplan.api import models, partitioning
    from cimplan.cost.profile_file import load as load_profile
    from cimplan.files import sha256_of

    space = loaded.space
    source = loaded.model_source(model)
    path = loaded.profile_path(model)
    if path is not None:
        profile = load_profile(path)
        profile.require_model(models.load(source).path, str(path))
        return store.add_profile(f"file-{sha256_of(path)}"[:64], pack_profile(profile))
    found = models.load(source)
    if space.host != "measured":
        return pack_profile(partitioning.estimate(found, space.host))
    key = hashlib.sha256(f"{sha256_of(found.path)} threads={space.threads}".encode()).hexdigest()
    stored = store.profile(key)
    if stored is not None:
        return stored
    if found.weightless:
        raise InputError("the network has no weights, so it cannot be run on a host", where=model)
    return store.add_profile(key, pack_profile(partitioning.profile(found, threads=space.threads)))
