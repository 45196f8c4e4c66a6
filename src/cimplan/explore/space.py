"""The description of a design space: which models, which hardware, what varies, and how to search it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from cimplan import units
from cimplan.explore.axes import Axis, Part, Value, values_of
from cimplan.files import require_version
from cimplan.hardware import document
from cimplan.hardware.document import Document

if TYPE_CHECKING:
    from cimplan.hardware.schema import Hardware

SCHEMA_VERSION = 1
"""Of the format of spaces."""

GRID_LIMIT = 1_000_000
SEARCH_LIMIT = 10**15
CROSSBARS_FIELD = "accelerator.crossbars"
HOST_FIELD = "host.estimate"
MEASURED = "measured"
OPTION_AXES = ("options.time_limit", "options.seed")

Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Place = Literal["host", "cim"]
Price = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False, strict=False)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Search(Part):
    """How to walk through the space."""

    kind: Literal["grid", "random", "nsga2", "tpe"] = Field("grid", description="Every point, or a sampler.")
    points: Annotated[int, Field(ge=1, le=GRID_LIMIT)] | None = Field(
        None, description="Points to evaluate for each model; needed unless the search is a grid."
    )
    batch: Annotated[int, Field(ge=1, le=10_000)] = Field(
        16, description="Points asked for at a time (the population of nsga2); part of the search's result."
    )
    seed: Seed = Field(0, description="Seed of the sampler.")

    @model_validator(mode="after")
    def _complete(self) -> Search:
        if self.kind != "grid" and self.points is None:
            raise ValueError(f"a {self.kind} search needs points")
        return self


class Prices(Part):
    """What area and energy are computed from; both are left out of the results where nothing is given."""

    area_mm2_per_crossbar: Price | None = Field(None, description="Area of one crossbar with its converters.")
    energy_pj_per_mvm: Price | None = Field(
        None, description="Energy of one MVM of one crossbar with one slice of its input."
    )
    host_power_w: Price | None = Field(None, description="Power of the host while it computes.")
    energy_pj_per_byte: Price | None = Field(None, description="Energy of a byte over the shared bus.")

    @model_validator(mode="after")
    def _complete(self) -> Prices:
        if self.energy_pj_per_mvm is None and (self.host_power_w is not None or self.energy_pj_per_byte is not None):
            raise ValueError("energy is computed only where energy_pj_per_mvm is given")
        return self


class Options(Part):
    """Options of the partition methods."""

    time_limit: str | None = Field(None, description="Of one solve, such as 10s.")
    seed: Seed = Field(0, description="Seed of methods that use randomness.")
    fix: dict[str, dict[str, Place]] = Field(
        default_factory=dict, description="Model, as written above, to operator to host or cim: placements to keep."
    )


Objective = Literal["latency", "crossbars", "area", "energy"]


class Space(Part):
    """A design space."""

    schema_version: Literal[1] = Field(description="Version of this format: 1.")
    name: str = Field(min_length=1, max_length=200, description="Name of the sweep.")
    models: Names = Field(min_length=1, description="ONNX files (relative to this file) or zoo:NAME.")
    hardware: str = Field("rram-256", description="Preset, or a YAML file relative to this one.")
    host: str | None = Field(
        None,
        description="measured (this machine) or a processor with an estimate; left out: the estimate the hardware "
        "names, or else measured.",
    )
    profiles: dict[str, str] = Field(
        default_factory=dict, description="Saved host profiles by model, as the models are written above."
    )
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="Threads of a measurement.")
    vary: dict[str, Axis] = Field(default_factory=dict, description="Hardware field to a list of values or a range.")
    methods: Names = Field(("exact",), min_length=1, description="Partition methods.")
    options: Options = Field(default_factory=lambda: Options.model_validate({}), description="Options of the methods.")
    search: Search = Field(default_factory=lambda: Search.model_validate({}), description="How to search.")
    objectives: Annotated[
        tuple[Objective, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = Field(("latency", "crossbars"), min_length=1, description="What to minimise.")
    prices: Prices = Field(default_factory=lambda: Prices.model_validate({}), description="Area and energy.")

    def axes(self) -> dict[str, tuple[Value, ...]]:
        """Return the values of every axis, in the order of the file."""
        return {name: values_of(axis) for name, axis in self.vary.items()}


@dataclass(frozen=True)
class LoadedSpace:
    """A space that was read and checked.

    Attributes
    ----------
    space : Space
        The description.
    folder : Path
        What its paths are relative to.
    hardware : Hardware
        The base of all designs.
    document : Document
        Where each field stands, for errors.
    """

    space: Space
    folder: Path
    hardware: Hardware
    document: Document

    def model_source(self, model: str) -> str | Path:
        """Return what `cimplan.api.models.load` takes for a model of the space."""
        return model if model.startswith("zoo:") else self.folder / model

    def profile_path(self, model: str) -> Path | None:
        """Return the saved profile of a model, if the space names one."""
        name = self.space.profiles.get(model)
        return None if name is None else self.folder / name

    def place(self, *path: str | int) -> str:
        """Return file, line and field path of a field."""
        return self.document.place(path)


@dataclass(frozen=True)
class Design:
    """One point of the space, as the user would write it."""

    model: str
    method: str
    values: tuple[tuple[str, Value], ...]

    def value_of(self, name: str, otherwise: Any = None) -> Any:
        """Return the value on an axis, or something else if there is no such axis."""
        return dict(self.values).get(name, otherwise)


def grid(space: Space) -> Iterator[Design]:
    """Yield every point of the space in a fixed order: model, method, then the axes as in the file."""
    axes = space.axes()
    for model, method in itertools.product(space.models, space.methods):
        for values in itertools.product(*axes.values()):
            yield Design(model, method, tuple(zip(axes, values, strict=True)))


def designs_per_model(space: Space) -> int:
    """Return the number of points of the whole space for one model."""
    return math.prod((len(space.methods), *(len(values) for values in space.axes().values())))


def points_wanted(space: Space) -> int:
    """Return the number of points a sweep of the space has."""
    each = designs_per_model(space)
    return len(space.models) * (each if space.search.kind == "grid" else min(space.search.points or 0, each))


def seconds(text: str) -> float:
    """Return a time limit in seconds."""
    return units.parse_duration_ns(text) / 1e9


def load_space(path: Path) -> LoadedSpace:
    """Read a space.

    Raises
    ------
    InputError
        With file, line, field path, reason and suggestion.
    """
    return _checked(document.read(path, start="Start from the example in docs/exploration.md"), path.parent)


def space_from(value: Mapping[str, Any], folder: Path | None = None) -> LoadedSpace:
    """Return the space of a mapping as in a file, its paths relative to a folder; errors as for `load_space`."""
    return _checked(Document(dict(value), "space"), folder or Path())


def _checked(found: Document, folder: Path) -> LoadedSpace:
    from cimplan.explore.space_check import check, explain

    require_version(
        found.value,
        SCHEMA_VERSION,
        kind="space",
        where=found.place(("schema_version",)),
        remake="Start again from the example in docs/exploration.md",
    )
    try:
        space = Space.model_validate(found.value)
    except ValidationError as error:
        raise explain(error, found) from error
    return LoadedSpace(space, folder, check(space, folder, found), found)


__all__ = [
    "CROSSBARS_FIELD",
    "GRID_LIMIT",
    "HOST_FIELD",
    "MEASURED",
    "OPTION_AXES",
    "SEARCH_LIMIT",
    "Design",
    "LoadedSpace",
    "Objective",
    "Options",
    "Prices",
    "Search",
    "Space",
    "designs_per_model",
    "grid",
    "load_space",
    "points_wanted",
    "seconds",
    "space_from",
]
