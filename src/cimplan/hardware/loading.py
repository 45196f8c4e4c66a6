"""Reading hardware descriptions: presets by name, files by path, each fault with its line and a suggestion."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cimplan.errors import InputError, did_you_mean
from cimplan.files import is_file, is_folder, require_version
from cimplan.hardware import document
from cimplan.hardware.document import Document, FieldPath, path_text
from cimplan.hardware.schema import Hardware, Part

SCHEMA_VERSION = 1
"""Of the format of hardware descriptions."""

DEFAULT_PRESET = "rram-256"

_SUFFIXES = (".yaml", ".yml")


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    folder = resources.files("cimplan.hardware") / "presets"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def preset_text(name: str) -> str:
    """Return the YAML text of a preset, comments included.

    Raises
    ------
    InputError
        If there is no preset of that name.
    """
    names = preset_names()
    if name not in names:
        raise InputError(f"there is no hardware preset {name!r}", fix=did_you_mean(name, names))
    return (resources.files("cimplan.hardware") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


def load_preset(name: str) -> Hardware:
    """Return a preset.

    Raises
    ------
    InputError
        If there is no preset of that name.
    """
    return parse(preset_text(name), f"preset {name}")


def load(name_or_path: str | Path) -> Hardware:
    """Return a hardware description, from a preset's name or a file's path.

    A preset wins over a file of the same name; write ``./name`` for the file.

    Raises
    ------
    InputError
        If there is neither, or the description is not valid.
    """
    text = str(name_or_path)
    names = preset_names()
    if text in names and not isinstance(name_or_path, Path):
        return load_preset(text)
    path = Path(name_or_path)
    if is_file(path):
        return _from_document(document.read(path))
    if is_folder(path):
        raise InputError(
            "cannot read the hardware description",
            where=text,
            why="it is a folder",
            fix="Give a preset (see `cimplan hardware list`) or a YAML file",
        )
    if path.suffix.lower() in _SUFFIXES or len(path.parts) > 1:
        raise InputError(
            "cannot read the hardware description",
            where=text,
            why="there is no such file",
            fix="Give a preset (see `cimplan hardware list`) or a YAML file",
        )
    raise InputError(
        f"there is no hardware preset or file {text!r}", fix=did_you_mean(text, names), why="--hardware takes either"
    )


def parse(text: str, where: str = "hardware description") -> Hardware:
    """Return the hardware that a YAML text describes.

    Raises
    ------
    InputError
        With line, field path, reason and suggestion of the first fault.
    """
    return _from_document(document.parse(text, where))


def from_description(value: Mapping[str, Any], where: str = "hardware description") -> Hardware:
    """Return the hardware of a mapping as `Hardware.to_description` gives it.

    Raises
    ------
    InputError
        With field path, reason and suggestion of the first fault.
    """
    return _from_document(Document(dict(value), where))


def check(path: str | Path) -> tuple[Hardware, tuple[str, ...]]:
    """Read a description and say what a careful reader would remark.

    Returns
    -------
    hardware : Hardware
        The description.
    remarks : tuple of str
        Numbers without a source, one remark each.

    Raises
    ------
    InputError
        If the description is not valid.
    """
    hardware = load(path)
    unsourced = [name for name in number_fields(hardware) if name not in hardware.sources]
    return hardware, tuple(f"{name} has no entry in sources" for name in unsourced)


def number_fields(hardware: Hardware) -> dict[str, str]:
    """Return every number of a description that was set, as field path to the value as written in a file."""
    found: dict[str, str] = {}
    for section in ("host", "bus", "accelerator", "dual_mode"):
        part = getattr(hardware, section)
        if part is None:
            continue
        for name, info in type(part).model_fields.items():
            value = getattr(part, name)
            if name in part.model_fields_set and isinstance(value, (int, float)) and not isinstance(value, bool):
                alias = info.alias or name
                found[f"{section}.{alias}"] = str(hardware.to_description()[section][alias])
    return found


def with_overrides(
    hardware: Hardware,
    *,
    crossbars: int | None = None,
    mvm_latency_ns: float | None = None,
    bus_bandwidth_gbps: float | None = None,
    network_io: str | None = None,
    internal_bandwidth_gbps: float | None = None,
    rows: int | None = None,
    columns: int | None = None,
    host_cores: int | None = None,
    accelerator: Mapping[str, Any] | None = None,
    dual_mode: Mapping[str, Any] | None = None,
) -> Hardware:
    """Return a description with some fields replaced, validated like a file.

    Parameters
    ----------
    hardware : Hardware
        The description to start from; it is not changed.
    crossbars, mvm_latency_ns, internal_bandwidth_gbps, rows, columns : optional
        New values of the accelerator.
    bus_bandwidth_gbps, network_io, host_cores : optional
        New values of bus and host.
    accelerator, dual_mode : mapping, optional
        Any other fields of these sections, named and written as in a file (``{"cell_bits": 4}``).

    Raises
    ------
    InputError
        If the section to change is missing, a field is unknown, or a value is not valid.
    """
    value = hardware.to_description()
    changes: dict[str, dict[str, Any]] = {
        "accelerator": {
            "crossbars": crossbars,
            "mvm_latency": None if mvm_latency_ns is None else f"{mvm_latency_ns!r}ns",
            "internal_bandwidth": None if internal_bandwidth_gbps is None else f"{internal_bandwidth_gbps!r}GB/s",
            "rows": rows,
            "columns": columns,
            **(accelerator or {}),
        },
        "bus": {
            "bandwidth": None if bus_bandwidth_gbps is None else f"{bus_bandwidth_gbps!r}GB/s",
            "network_io": network_io,
        },
        "host": {"cores": host_cores},
        "dual_mode": dict(dual_mode or {}),
    }
    for section, fields in changes.items():
        wanted = {name: new for name, new in fields.items() if new is not None}
        if not wanted:
            continue
        if section not in value:
            raise InputError(
                f"cannot change {section}.{next(iter(wanted))}",
                where=f"hardware {hardware.name!r}",
                why=f"it has no section {section}",
                fix="Choose other hardware with --hardware",
            )
        value[section] |= wanted
    where = f"hardware {hardware.name!r} with overrides"
    changed = from_description(value, where).to_description()
    given = hardware.to_description()
    overridden = {
        f"{section}.{name}": "overridden by the user"
        for section, fields in changes.items()
        for name, new in fields.items()
        # What is set to the value it has keeps its source.
        if new is not None and changed[section].get(name) != given[section].get(name)
    }
    return from_description(changed | {"sources": changed["sources"] | overridden}, where)


def _from_document(found: Document) -> Hardware:
    require_version(
        found.value,
        SCHEMA_VERSION,
        kind="hardware description",
        where=found.place(("schema_version",)),
        remake="Start again from `cimplan hardware show NAME`",
    )
    try:
        hardware = Hardware.model_validate(found.value)
    except ValidationError as error:
        raise _explain(error, found) from error
    known = known_fields()
    for name in hardware.sources:
        if name not in known:
            raise InputError(
                "a source is given for an unknown field",
                where=found.place(("sources", name)),
                fix=did_you_mean(name, known),
            )
    return hardware


def known_fields() -> tuple[str, ...]:
    """Return the path of every field a description may have, sections as ``section.field``."""
    paths: list[str] = []
    for name, info in Hardware.model_fields.items():
        part = _part_of(info.annotation)
        if part is None:
            paths.append(name)
        else:
            paths += [f"{name}.{inner.alias or field}" for field, inner in part.model_fields.items()]
    return tuple(paths)


def _part_of(annotation: Any) -> type[Part] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Part):
            return candidate
    return None


def _model_at(path: FieldPath) -> type[BaseModel]:
    model: type[BaseModel] = Hardware
    for name in path:
        info = next((info for field, info in model.model_fields.items() if (info.alias or field) == name), None)
        part = _part_of(info.annotation) if info else None
        if part is None:
            break
        model = part
    return model


def _explain(error: ValidationError, found: Document) -> InputError:
    """Turn the fault that stands first in the file into an error of our own.

    A misspelt field is both unknown and missing: what is missing comes last.
    """
    faults = sorted(
        error.errors(include_url=False), key=lambda fault: (fault["type"] == "missing", _line(found, fault))
    )
    fault = faults[0]
    path: FieldPath = fault["loc"]
    context = fault.get("ctx", {})
    fix = context.get("fix", "")
    kind = fault["type"]
    if kind == "inconsistent" and context["field"]:
        path = (*path, context["field"])
    names = sorted(info.alias or name for name, info in _model_at(path[:-1]).model_fields.items())
    if kind == "extra_forbidden":
        what, why = "the field is not known", ""
        fix = did_you_mean(str(path[-1]), names)
    elif kind == "missing":
        what, why = "a field is missing", _description(path)
        fix = f"Add {path[-1]}"
    else:
        what, why = "the value is not valid", _reason(fault)
        fix = fix or _advice(fault, path)
    more = len(faults) - 1
    if more:
        fix = f"{fix.rstrip('.') or 'Correct it'} ({more} more fault{'s' * (more > 1)} in this file)"
    return InputError(what, where=found.place(path), why=why, fix=fix)


def _line(found: Document, fault: ErrorDetails) -> int:
    path: FieldPath = fault["loc"]
    while path and path not in found.lines:
        path = path[:-1]
    return found.lines.get(path, 0)


def _reason(fault: ErrorDetails) -> str:
    shown = repr(fault["input"])
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    reason = fault["msg"][:1].lower() + fault["msg"][1:]
    return reason if fault["type"] in ("inconsistent", "quantity") else f"{reason}, and this is {shown}"


def _advice(fault: ErrorDetails, path: FieldPath) -> str:
    if fault["type"] == "quantity":
        return f"Write it like {fault['ctx']['example']}"
    if fault["type"] == "literal_error" and len(path) > 1 and "operators" in path:
        from cimplan.hardware.schema import MATRIX_OPERATORS

        return did_you_mean(str(fault["input"]), MATRIX_OPERATORS)
    return _description(path)


def _description(path: FieldPath) -> str:
    if not path:
        return ""
    for name, info in _model_at(path[:-1]).model_fields.items():
        if (info.alias or name) == path[-1]:
            return f"It means: {info.description}"
    return ""


__all__ = [
    "DEFAULT_PRESET",
    "check",
    "from_description",
    "known_fields",
    "load",
    "load_preset",
    "number_fields",
    "parse",
    "path_text",
    "preset_names",
    "preset_text",
    "with_overrides",
]
