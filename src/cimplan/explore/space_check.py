"""What is wrong with a space: where, why, and what to do, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from cimplan.errors import CimplanError, InputError, did_you_mean
from cimplan.explore.axes import Range, Value, values_of
from cimplan.explore.space import (
    GRID_LIMIT,
    HOST_FIELD,
    MEASURED,
    OPTION_AXES,
    SEARCH_LIMIT,
    Options,
    Prices,
    Search,
    Space,
    designs_per_model,
    points_wanted,
    seconds,
)
from cimplan.files import is_file
from cimplan.hardware.document import Document
from cimplan.hardware.loading import known_fields, load, preset_names
from cimplan.hardware.schema import Hardware

_PARTS: dict[str, type[BaseModel]] = {"options": Options, "search": Search, "prices": Prices, "vary": Range}
_AXIS_SECTIONS = ("host", "bus", "accelerator")


def explain(error: ValidationError, found: Document) -> InputError:
    """Turn the fault that stands first in the file into an error of our own; what is missing comes last."""
    faults = [(_without_tags(fault["loc"]), fault) for fault in error.errors(include_url=False)]
    # A list whose items are wrong is also said to be too short.
    around = {path[:length] for path, _ in faults for length in range(len(path))}
    faults = [(path, fault) for path, fault in faults if path not in around]
    path, fault = min(faults, key=lambda item: (item[1]["type"] == "missing", _line(item[0], found)))
    place = found.place(path)
    if fault["type"] == "extra_forbidden":
        part = _PARTS.get(str(path[0]), Space) if len(path) > 1 else Space
        names = [info.alias or name for name, info in part.model_fields.items()]
        return InputError("the field is not known", where=place, fix=did_you_mean(str(path[-1]), names))
    if fault["type"] == "missing":
        return InputError("a field is missing", where=place, fix=f"Add {path[-1]}")
    reason = fault["msg"].removeprefix("Value error, ")
    if fault["type"] != "value_error":
        shown = repr(fault["input"])
        reason += f", and this is {shown if len(shown) <= 60 else shown[:57] + '...'}"
    return InputError(
        "the value is not valid", where=place, why=reason[:1].lower() + reason[1:], fix=_description(path)
    )


def check(space: Space, folder: Path, found: Document) -> Hardware:
    """Refuse a space that cannot be swept; return its hardware.

    Raises
    ------
    InputError
        With file, line, field path, reason and suggestion.
    """
    _check_names(space, folder, found)
    hardware = _hardware(space, folder, found)
    _check_host(space, found)
    for name in space.vary:
        _check_axis(space, name, hardware, found)
    _check_time_limit(space.options.time_limit, found.place(("options", "time_limit")))
    for index, objective in enumerate(space.objectives):
        needed = {"area": space.prices.area_mm2_per_crossbar, "energy": space.prices.energy_pj_per_mvm}
        if objective in needed and needed[objective] is None:
            field = "area_mm2_per_crossbar" if objective == "area" else "energy_pj_per_mvm"
            raise InputError(
                f"the objective {objective!r} has no price",
                where=found.place(("objectives", index)),
                fix=f"Add prices: with {field}",
            )
    _check_size(space, found)
    return hardware


def _check_names(space: Space, folder: Path, found: Document) -> None:
    from cimplan.partition.methods import METHODS

    for field in ("models", "methods", "objectives"):
        _refuse_twice(getattr(space, field), field, found)
    for index, model in enumerate(space.models):
        _check_model(model, folder, found.place(("models", index)))
    for index, method in enumerate(space.methods):
        place = found.place(("methods", index))
        if method not in METHODS:
            raise InputError(f"the method {method!r} is not known", where=place, fix=did_you_mean(method, METHODS))
        if not METHODS[method].available():
            needs = METHODS[method].needs
            raise InputError(f"the method {method!r} needs {needs}", where=place, fix=f"pip install {needs}")
    for path, names in ((("profiles",), space.profiles), (("options", "fix"), space.options.fix)):
        for name in names:
            if name not in space.models:
                raise InputError(
                    f"{name!r} is not a model of the space",
                    where=found.place((*path, name)),
                    fix=did_you_mean(name, space.models),
                )
    for name, profile in space.profiles.items():
        if not is_file(folder / profile):
            raise InputError(
                "cannot read the profile",
                where=found.place(("profiles", name)),
                why=f"there is no file {str(folder / profile)!r}",
                fix="Make it with `cimplan profile`",
            )


def _refuse_twice(names: Sequence[str], field: str, found: Document) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise InputError(f"{name!r} is given twice", where=found.place((field, index)), fix="Keep one of the two")
        seen.add(name)


def _check_model(model: str, folder: Path, place: str) -> None:
    from cimplan.zoo import describe
    from cimplan.zoo.reference import PREFIX

    if model.startswith(PREFIX):
        try:
            entry = describe(model.removeprefix(PREFIX).partition("?")[0])
        except InputError as error:
            raise InputError(error.what, where=place, why=error.why, fix=error.fix) from error
        if entry.weightless:
            raise InputError(
                f"{model!r} has no weights, so it cannot be run on a host", where=place, fix="Choose another model"
            )
    elif not is_file(folder / model):
        raise InputError(
            "cannot read the model",
            where=place,
            why=f"there is no file {str(folder / model)!r}",
            fix="Give an ONNX file, relative to this one, or a reference network such as zoo:resnet18",
        )


def _hardware(space: Space, folder: Path, found: Document) -> Hardware:
    names = preset_names()
    place = found.place(("hardware",))
    if space.hardware in names:
        hardware = load(space.hardware)
    elif is_file(folder / space.hardware):
        hardware = load(folder / space.hardware)
    else:
        raise InputError(
            f"there is no hardware preset or file {space.hardware!r}",
            where=place,
            fix=did_you_mean(space.hardware, names),
        )
    if hardware.accelerator is None:
        raise InputError(
            f"the hardware {hardware.name!r} has no accelerator to partition for",
            where=place,
            fix="Choose a preset such as rram-256",
        )
    return hardware


def _check_host(space: Space, found: Document) -> None:
    if space.host is not None:
        if HOST_FIELD in space.vary:
            raise InputError(
                "the host is given and varies", where=found.place(("host",)), fix=f"Keep either host or {HOST_FIELD}"
            )
        _check_processor(space.host, found.place(("host",)))


def _check_processor(name: str, place: str) -> None:
    from cimplan.cost.estimate import names

    if name != MEASURED and name not in names():
        raise InputError(
            f"there is no estimate for the host {name!r}",
            where=place,
            fix=f"{did_you_mean(name, (*names(), MEASURED))} {MEASURED!r} measures this machine",
        )


def _check_axis(space: Space, name: str, hardware: Hardware, found: Document) -> None:
    place = found.place(("vary", name))
    fields = [known for known in known_fields() if known.partition(".")[0] in _AXIS_SECTIONS and "." in known]
    known = [*fields, *OPTION_AXES]
    if name not in known:
        raise InputError(f"{name!r} is not something that can vary", where=place, fix=did_you_mean(name, known))
    try:
        values = values_of(space.vary[name])
    except ValueError as error:
        raise InputError(
            "the range is not valid", where=place, why=str(error), fix="Write it like {from: 0, to: 200, step: 25}"
        ) from error
    if isinstance(space.vary[name], Range):
        # Fields are bounded from below and above: what holds for both ends holds between them.
        for value in (values[0], values[-1]):
            _check_value(name, value, hardware, place)
        return
    for index, value in enumerate(values):
        _check_value(name, value, hardware, found.place(("vary", name, index)))


def _check_value(name: str, value: Value, hardware: Hardware, place: str) -> None:
    if name == "options.time_limit":
        if value is not None and not isinstance(value, str):
            raise InputError("a time limit is a duration", where=place, fix="Write it like 10s, or null for none")
        _check_time_limit(value, place)
        return
    if name == "options.seed":
        try:
            Options.model_validate({"seed": value})
        except ValidationError as error:
            raise InputError("a seed is a whole number, at least 0", where=place) from error
        return
    if name == HOST_FIELD and value is not None:
        _check_processor(str(value), place)
    description = with_value(hardware.to_description(), name, value)
    section, _, field = name.partition(".")
    try:
        Hardware.model_validate(description)
    except ValidationError as error:
        # A value may fit only together with those of other axes: what is between fields is found point by point.
        for fault in error.errors(include_url=False):
            if fault["loc"][:2] == (section, field):
                shown = "null" if value is None else repr(value)
                example = fault.get("ctx", {}).get("example")
                raise InputError(
                    f"{shown} is not a value of {name}",
                    where=place,
                    why=fault["msg"][:1].lower() + fault["msg"][1:],
                    fix=f"Write it like {example}" if example else "",
                ) from error


def with_value(description: dict[str, Any], name: str, value: Value) -> dict[str, Any]:
    """Return a hardware description with one field replaced, or left out for None."""
    section, _, field = name.partition(".")
    part = {key: old for key, old in description.get(section, {}).items() if key != field}
    if value is not None:
        part[field] = list(value) if isinstance(value, tuple) else value
    return {**description, section: part}


def _check_time_limit(text: str | None, place: str) -> None:
    if text is None:
        return
    try:
        limit = seconds(text)
    except CimplanError as error:
        raise InputError(error.what, where=place, why=error.why, fix=error.fix) from error
    if limit <= 0:
        raise InputError("a time limit is more than 0", where=place)


def _check_size(space: Space, found: Document) -> None:
    place = found.place(("vary",))
    size = designs_per_model(space) * len(space.models)
    if points_wanted(space) > GRID_LIMIT:
        raise InputError(
            "the sweep is too large",
            where=place if space.search.kind == "grid" else found.place(("search", "points")),
            why=f"it has {points_wanted(space):,} points, the limit is {GRID_LIMIT:,}",
            fix="Use search: {kind: nsga2, points: 1000}" if space.search.kind == "grid" else "Ask for fewer points",
        )
    if size > SEARCH_LIMIT:
        raise InputError(
            "the space is too large to search",
            where=place,
            why=f"it has {size:,} points, the limit is {SEARCH_LIMIT:,}",
            fix="Take coarser steps",
        )


def _without_tags(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    # vary, NAME, then the kind of axis that was tried, which is not in the file
    return (*path[:2], *path[3:]) if path[:1] == ("vary",) and path[2:3] in (("list",), ("range",)) else path


def _line(path: tuple[str | int, ...], found: Document) -> int:
    while path and path not in found.lines:
        path = path[:-1]
    return found.lines.get(path, 0)


def _description(path: tuple[str | int, ...]) -> str:
    """Return what the field means, as advice."""
    part: type[BaseModel] = Space
    for name in path[:2]:
        info = next((info for field, info in part.model_fields.items() if (info.alias or field) == name), None)
        if info is None:
            return ""
        if part is Space and name in _PARTS and len(path) > 1 and name != "vary":
            part = _PARTS[str(name)]
            continue
        return f"It means: {info.description}"
    return ""
