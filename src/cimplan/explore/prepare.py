"""What a sweep is made of: profiles and hardware, prepared once, and tasks that one solve can answer."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from typing import Any

from cimplan.errors import InputError, did_you_mean
from cimplan.explore.points import (
    CURVE_METHOD,
    RESULT_COLUMNS,
    Solve,
    Task,
    design_key,
    hash_of,
    pack_profile,
    point_key,
    profile_key,
    unpack_profile,
)
from cimplan.explore.space import CROSSBARS_FIELD, HOST_FIELD, MEASURED, Design, LoadedSpace, seconds
from cimplan.explore.space_check import with_value
from cimplan.explore.store import Store


class Preparation:
    """A space whose models have host profiles.

    Parameters
    ----------
    loaded : LoadedSpace
        The space.
    store : Store
        Keeps what was measured, so that a resumed sweep is the same.
    say : callable
        Told what is going on.

    Raises
    ------
    InputError
        If a model or a profile cannot be read, or a placement names an unknown operator.
    """

    def __init__(self, loaded: LoadedSpace, store: Store, say: Callable[[str], None]) -> None:
        self._loaded = loaded
        self._space = loaded.space
        self._base = loaded.hardware.to_description()
        self._axes = loaded.space.axes()
        self._profiles: dict[tuple[str, str], tuple[bytes, str]] = {}
        # Neighbours differ in few values: what two designs share is hashed once.
        self._hardware: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._keys: dict[tuple[Any, ...], str] = {}
        for model in loaded.space.models:
            for host in self._hosts():
                say(f"preparing {model}")
                packed = _packed_profile(loaded, store, model, host)
                self._profiles[model, host] = packed, profile_key(packed)
            self._check_placements(model)

    @cached_property
    def sweep(self) -> str:
        """Identity of the sweep: the hash of everything it depends on."""
        inputs: dict[str, Any] = {
            "space": self._space.model_dump(mode="json", by_alias=True),
            "hardware": self._base,
            "profiles": [[*name, key] for name, (_, key) in self._profiles.items()],
        }
        if self._space.search.kind in ("nsga2", "tpe"):
            # Another version may walk another way.
            inputs["optuna"] = version("optuna")
        return hash_of(inputs)

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Names and types of the columns of the sweep's table: the design, then the result."""
        found = [("model", "text"), ("method", "text")]
        found += [(name, _kind(values)) for name, values in self._axes.items()]
        prices = self._space.prices
        absent = {"area_mm2": prices.area_mm2_per_crossbar is None, "energy_uj": prices.energy_pj_per_mvm is None}
        return found + [column for column in RESULT_COLUMNS if not absent.get(column[0], False)]

    def describe(self, design: Design) -> dict[str, Any]:
        """Return the columns of a design."""
        values = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in design.values}
        return {"model": design.model, "method": design.method, **values}

    def key(self, design: Design) -> str:
        """Return the key of a design's point."""
        group = _group(design)
        key = self._keys.get(group)
        if key is None:
            profile = self._profiles[design.model, self._host(design)][1]
            key = design_key(profile, self._description(design), self._solve(design), self._space.prices)
            self._keys[group] = key
        return point_key(key, self._budget(design))

    def tasks(self, missing: Iterable[tuple[str, Design]]) -> Iterator[Task]:
        """Yield tasks for points by key; those that differ in crossbars only share one, if the method allows."""
        groups: dict[tuple[Any, ...], dict[str, Design]] = {}
        for key, design in missing:
            group = _group(design) if self.by_curve(design) else (key,)
            groups.setdefault(group, {})[key] = design
        for members in groups.values():
            design = next(iter(members.values()))
            yield Task(
                keys=tuple(sorted((self._budget(member), key) for key, member in members.items())),
                profile=self._profiles[design.model, self._host(design)][0],
                hardware=self._description(design),
                solve=self._solve(design),
                prices=self._space.prices,
            )

    def by_curve(self, design: Design) -> bool:
        """Return whether one run answers a design at every number of crossbars."""
        return design.method == CURVE_METHOD and self._space.prices.energy_pj_per_mvm is None

    def whole_curve(self, design: Design) -> list[tuple[str, Design]]:
        """Return a design with every number of crossbars on the axis, and the keys; they cost nothing extra."""
        if CROSSBARS_FIELD not in self._axes or not self.by_curve(design):
            return [(self.key(design), design)]
        found = []
        for crossbars in self._axes[CROSSBARS_FIELD]:
            values = tuple((name, crossbars if name == CROSSBARS_FIELD else value) for name, value in design.values)
            other = Design(design.model, design.method, values)
            found.append((self.key(other), other))
        return found

    def _hosts(self) -> list[str]:
        """Return the hosts that occur: the name of an estimate, or `MEASURED`."""
        if self._space.host is not None:
            return [self._space.host]
        values = self._axes.get(HOST_FIELD, (self._loaded.hardware.host.estimate,))
        return [MEASURED if value is None else str(value) for value in values]

    def _host(self, design: Design) -> str:
        if self._space.host is not None:
            return self._space.host
        value = design.value_of(HOST_FIELD, self._loaded.hardware.host.estimate)
        return MEASURED if value is None else str(value)

    def _solve(self, design: Design) -> Solve:
        options = self._space.options
        limit = design.value_of("options.time_limit", options.time_limit)
        return Solve(
            method=design.method,
            time_limit_s=None if limit is None else seconds(limit),
            seed=design.value_of("options.seed", options.seed),
            fix=tuple(sorted(options.fix.get(design.model, {}).items())),
        )

    def _budget(self, design: Design) -> int:
        accelerator = self._loaded.hardware.accelerator
        return int(design.value_of(CROSSBARS_FIELD, 0 if accelerator is None else accelerator.crossbars))

    def _description(self, design: Design) -> dict[str, Any]:
        """Return the hardware of a design apart from its crossbars, in its normal form where it is valid."""
        from cimplan.hardware import from_description

        changes = tuple(
            (name, value)
            for name, value in design.values
            if not name.startswith("options.") and name not in (CROSSBARS_FIELD, HOST_FIELD)
        )
        known = self._hardware.get(changes)
        if known is not None:
            return known
        description = self._base
        for name, value in changes:
            description = with_value(description, name, value)
        # What is not valid is said by the task, which records it for each of its points.
        with suppress(InputError):
            description = from_description(description).to_description()
        self._hardware[changes] = description
        return description

    def _check_placements(self, model: str) -> None:
        from cimplan.cost.build import planned_operators

        wanted = self._space.options.fix.get(model, {})
        for name, (packed, _) in self._profiles.items():
            if name[0] != model or not wanted:
                continue
            known = planned_operators(unpack_profile(packed))
            for operator in wanted:
                if operator not in known:
                    raise InputError(
                        f"the model has no operator {operator!r}",
                        where=self._loaded.place("options", "fix", model, operator),
                        fix=did_you_mean(operator, known),
                    )


def _group(design: Design) -> tuple[Any, ...]:
    rest = tuple((name, type(value), value) for name, value in design.values if name != CROSSBARS_FIELD)
    return design.model, design.method, rest


def _kind(values: tuple[Any, ...]) -> str:
    """Return the type of a column that holds these values."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return "truth"
    if any(isinstance(value, (bool, str, tuple)) for value in present) or not present:
        return "text"
    return "whole" if all(isinstance(value, int) for value in present) else "decimal"


def _packed_profile(loaded: LoadedSpace, store: Store, model: str, host: str) -> bytes:
    """Return the profile of a model for this store."""
    from cimplan.api import models, partitioning
    from cimplan.cost.layout import of_network
    from cimplan.cost.profile_file import load as load_profile
    from cimplan.files import sha256_of

    found = models.load(loaded.model_source(model))
    path = loaded.profile_path(model)
    if path is not None:
        profile = load_profile(path)
        profile.require_model(found.path, str(path))
        return pack_profile(of_network(profile, found.path))
    # A measurement is never the same twice, so a resumed sweep takes the one it began with. The key says of which
    # machine it is, because a store may be shared. An estimate is kept to save the time.
    threads = loaded.space.threads
    source = _machine(threads) if host == MEASURED else {"estimate": host, **_runtime()}
    key = hash_of([sha256_of(found.path), found.name, source])
    stored = store.profile(key)
    if stored is None:
        fresh = partitioning.profile(found, threads=threads) if host == MEASURED else partitioning.estimate(found, host)
        stored = store.add_profile(key, pack_profile(fresh))
    return stored


def _machine(threads: int) -> dict[str, Any]:
    """Return what tells two measuring machines apart: processor, system, threads, runtime."""
    from cimplan.cost.session import cpu_name

    return {
        "cpu": cpu_name(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "threads": threads,
        **_runtime(),
    }


def _runtime() -> dict[str, str]:
    """Return the versions that decide what graph is profiled, and how."""
    return {name: version(name) for name in ("onnxruntime", "cimplan")}
