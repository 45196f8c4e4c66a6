"""The description of a design space: which models, which hardware, what varies, and how to search it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cimplan import units
from cimplan.errors import CimplanError, InputError, did_you_mean
from cimplan.hardware import document
from cimplan.hardware.document import Document
from cimplan.hardware.loading import known_fields

Scalar = str | int | float | bool
POINTS_LIMIT = 1_000_000
CROSSBARS_FIELD = "accelerator.crossbars"


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Range(_Part):
    """Equally spaced values between two ends, both included.

    Quantities carry a unit (``from: 50ns``); whole numbers stay whole.
    """

    first: Scalar = Field(alias="from", description="First value.")
    last: Scalar = Field(alias="to", description="Last value.")
    steps: Annotated[int, Field(ge=2, le=100_000)] | None = Field(None, description="Number of values.")
    step: Annotated[int, Field(ge=1)] | None = Field(None, description="Distance of whole numbers.")
    scale: Literal["linear", "log"] = Field("linear", description="Spacing.")

    def values(self) -> tuple[Scalar, ...]:
        """Return the values, first to last."""
        first, unit = _split(self.first)
        last, other = _split(self.last)
        if unit != other:
            try:
                last *= units.conversion(other, unit)
            except InputError as error:
                raise ValueError(f"the ends do not fit together: {error.what}") from error
        if last < first:
            raise ValueError("the range runs backwards")
        whole = isinstance(first, int) and isinstance(last, int) and not unit
        if self.step is not None:
            if not whole or self.steps is not None or self.scale != "linear":
                raise ValueError("step goes with whole numbers, without steps and scale")
            if (last - first) / self.step > POINTS_LIMIT:
                raise ValueError("the range has too many values")
            return tuple(range(int(first), int(last) + 1, self.step))
        if self.steps is None:
            raise ValueError("a range needs steps, or step for whole numbers")
        share = [index / (self.steps - 1) for index in range(self.steps)]
        if self.scale == "log":
            if first <= 0:
                raise ValueError("a logarithmic range starts above 0")
            numbers = [math.exp(math.log(first) + part * math.log(last / first)) for part in share]
        else:
            numbers = [first + part * (last - first) for part in share]
        numbers[0], numbers[-1] = first, last
        if whole:
            return tuple(dict.fromkeys(round(number) for number in numbers))
        return tuple(dict.fromkeys(f"{number:.6g}{unit}" if unit else float(f"{number:.6g}") for number in numbers))


def _split(value: Scalar) -> tuple[float, str]:
    if isinstance(value, bool):
        raise ValueError("a range is of numbers or quantities")
    if not isinstance(value, str):
        return value, ""
    try:
        return units.split_quantity(value)
    except InputError as error:
        raise ValueError(error.what) from error


class Search(_Part):
    """How to walk through the space."""

    kind: Literal["grid", "random", "nsga2", "tpe"] = Field("grid", description="Every point, or a sampler.")
    points: Annotated[int, Field(ge=1, le=POINTS_LIMIT)] | None = Field(
        None, description="Points to evaluate; needed unless the search is a grid."
    )
    batch: Annotated[int, Field(ge=1, le=10_000)] = Field(
        16, description="Points asked for at a time (the population of nsga2); part of the search's result."
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(0, description="Seed of the sampler.")

    @model_validator(mode="after")
    def _complete(self) -> Search:
        if self.kind != "grid" and self.points is None:
            raise ValueError(f"a {self.kind} search needs points")
        return self


class Prices(_Part):
    """What area and energy are computed from; both are left out of the results where nothing is given."""

    area_mm2_per_crossbar: Annotated[float, Field(ge=0, strict=False)] | None = Field(
        None, description="Area of one crossbar with its converters."
    )
    energy_pj_per_mvm: Annotated[float, Field(ge=0, strict=False)] | None = Field(
        None, description="Energy of one MVM of one crossbar."
    )
    host_power_w: Annotated[float, Field(ge=0, strict=False)] | None = Field(
        None, description="Power of the host while it computes."
    )
    energy_pj_per_byte: Annotated[float, Field(ge=0, strict=False)] = Field(
        0.0, description="Energy of a byte over the shared bus."
    )


Objective = Literal["latency", "crossbars", "area", "energy"]


class Space(_Part):
    """A design space."""

    schema_version: Literal[1] = Field(description="Version of this format: 1.")
    name: str = Field(min_length=1, max_length=200, description="Name of the sweep.")
    models: Annotated[tuple[str, ...], BeforeValidator(_to_tuple)] = Field(
        min_length=1, description="ONNX files (relative to this file) or zoo:NAME."
    )
    hardware: str = Field("rram-256", description="Preset, or a YAML file relative to this one.")
    host: str = Field(
        "measured", description="measured: this machine; a processor with an estimate; or profile: FILE per model."
    )
    profiles: dict[str, str] = Field(
        default_factory=dict, description="Saved profiles by model, as the models are written above."
    )
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="Threads of a measurement.")
    vary: dict[str, Annotated[tuple[Scalar, ...], BeforeValidator(_to_tuple), Field(min_length=1)] | Range] = Field(
        default_factory=dict, description="Hardware field to a list of values or a range."
    )
    methods: Annotated[tuple[str, ...], BeforeValidator(_to_tuple)] = Field(
        ("exact",), min_length=1, description="Partition methods."
    )
    time_limit: str | None = Field(None, description="Of one solve, such as 10s.")
    search: Search = Field(default_factory=lambda: Search.model_validate({}), description="How to search.")
    objectives: Annotated[tuple[Objective, ...], BeforeValidator(_to_tuple)] = Field(
        ("latency", "crossbars"), min_length=1, description="What to minimise."
    )
    prices: Prices = Field(default_factory=lambda: Prices.model_validate({}), description="Area and energy.")

    @property
    def time_limit_s(self) -> float | None:
        """Seconds one solve may take."""
        return None if self.time_limit is None else units.parse_duration_ns(self.time_limit) / 1e9

    def axes(self) -> dict[str, tuple[Scalar, ...]]:
        """Return the values of every axis, in the order of the file."""
        return {name: self.axis(name) for name in self.vary}

    def axis(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of one axis."""
        values = self.vary[name]
        return values.values() if isinstance(values, Range) else tuple(dict.fromkeys(values))


@dataclass(frozen=True)
class LoadedSpace:
    """A space and the folder its paths are relative to."""

    space: Space
    folder: Path

    def model_source(self, model: str) -> str | Path:
        """Return what `cimplan.api.models.load` takes for a model of the space."""
        return model if model.startswith("zoo:") else self._path(model)

    def profile_path(self, model: str) -> Path | None:
        """Return the saved profile of a model, if the space names one."""
        name = self.space.profiles.get(model)
        return None if name is None else self._path(name)

    def hardware_source(self) -> str:
        """Return what `cimplan.hardware.load` takes: a preset or a path relative to the space's file."""
        from cimplan.hardware import preset_names

        return self.space.hardware if self.space.hardware in preset_names() else str(self._path(self.space.hardware))

    def _path(self, name: str) -> Path:
        return self.folder / name


@dataclass(frozen=True)
class Design:
    """One point of the space, as the user would write it."""

    model: str
    method: str
    values: tuple[tuple[str, Scalar], ...]

    def value_of(self, name: str) -> Scalar | None:
        """Return the value on an axis; None if the axis does not exist."""
        return dict(self.values).get(name)


def grid(space: Space) -> Iterator[Design]:
    """Yield every point of the space in a fixed order: model, method, then the axes as in the file."""
    axes = space.axes()
    for model, method in itertools.product(space.models, space.methods):
        for values in itertools.product(*axes.values()):
            yield Design(model, method, tuple(zip(axes, values, strict=True)))


def grid_size(space: Space) -> int:
    """Return the number of points of the whole space."""
    return math.prod((len(space.models), len(space.methods), *(len(values) for values in space.axes().values())))


def load_space(path: Path) -> LoadedSpace:
    """Read a space.

    Raises
    ------
    InputError
        With file, line, field path, reason and suggestion.
    """
    found = document.read(path)
    try:
        space = Space.model_validate(found.value)
    except ValidationError as error:
        raise _explain(error, found) from error
    _check(space, found)
    return LoadedSpace(space, path.parent)


def space_from(value: Mapping[str, Any], folder: Path) -> LoadedSpace:
    """Return the space of a mapping as in a file; errors as for `load_space`."""
    found = Document(dict(value), "space")
    try:
        space = Space.model_validate(found.value)
    except ValidationError as error:
        raise _explain(error, found) from error
    _check(space, found)
    return LoadedSpace(space, folder)


def _check(space: Space, found: Document) -> None:
    from cimplan.partition.methods import METHODS

    known = [name for name in known_fields() if "." in name]
    for name in space.vary:
        if name not in known:
            raise InputError(
                "the axis is not a hardware field", where=found.place(("vary", name)), fix=did_you_mean(name, known)
            )
        try:
            space.axis(name)
        except ValueError as error:
            raise InputError("the axis is not valid", where=found.place(("vary", name)), why=str(error)) from error
    for index, method in enumerate(space.methods):
        if method not in METHODS:
            raise InputError(
                "the method is not known", where=found.place(("methods", index)), fix=did_you_mean(method, METHODS)
            )
    for name in space.profiles:
        if name not in space.models:
            raise InputError(
                "a profile is given for a model that is not in the space",
                where=found.place(("profiles", name)),
                fix=did_you_mean(name, space.models),
            )
    try:
        _ = space.time_limit_s
    except CimplanError as error:
        raise InputError(error.what, where=found.place(("time_limit",)), why=error.why, fix=error.fix) from error
    for index, objective in enumerate(space.objectives):
        needed = {"area": space.prices.area_mm2_per_crossbar, "energy": space.prices.energy_pj_per_mvm}
        if objective in needed and needed[objective] is None:
            raise InputError(
                f"the objective {objective!r} has no price",
                where=found.place(("objectives", index)),
                fix="Add prices: with area_mm2_per_crossbar or energy_pj_per_mvm",
            )
    if space.search.kind == "grid" and grid_size(space) > POINTS_LIMIT:
        raise InputError(
            "the space is too large for a grid",
            where=found.place(("vary",)),
            why=f"it has {grid_size(space):,} points, the limit is {POINTS_LIMIT:,}",
            fix="Use search: {kind: nsga2, points: 1000}",
        )


def _explain(error: ValidationError, found: Document) -> InputError:
    """Turn the first fault into an error of our own."""
    fault = min(error.errors(include_url=False), key=lambda item: found.lines.get(_known(item["loc"], found), 0))
    path = _known(fault["loc"], found)
    if fault["type"] == "extra_forbidden":
        parts: dict[str, type[_Part]] = {"search": Search, "prices": Prices, "vary": Range}
        part = parts.get(str(fault["loc"][0]) if len(fault["loc"]) > 1 else "", Space)
        names = [info.alias or name for name, info in part.model_fields.items()]
        return InputError(
            "the field is not known", where=found.place(path), fix=did_you_mean(str(fault["loc"][-1]), names)
        )
    if fault["type"] == "missing":
        return InputError("a field is missing", where=found.place(path), fix=f"Add {fault['loc'][-1]}")
    reason = fault["msg"].removeprefix("Value error, ")
    return InputError("the value is not valid", where=found.place(path), why=reason[:1].lower() + reason[1:])


def _known(path: tuple[str | int, ...], found: Document) -> tuple[str | int, ...]:
    while path and path not in found.lines:
        path = path[:-1]
    return path
