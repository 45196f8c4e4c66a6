"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.api.models import Model

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="ONNX file, or zoo:NAME.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1,3,224,224", help="Shape of an input with open dimensions; repeatable."),
]
DimOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=N", help="Size of a dimension by the name the model gives it; repeatable."),
]
ValueOption = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="NAME=V|FILE.npz",
        help="Value of an input on which shapes or times depend: a number, numbers with commas, NAME=FILE.npy, or a "
        "file of arrays by name; repeatable.",
    ),
]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
MeasureOption = Annotated[
    str | None, typer.Option("--measure-for", metavar="10s", help="Rough time to spend on measuring this machine.")
]
HardwareOption = Annotated[str, typer.Option("--hardware", metavar="NAME|FILE", help="Preset or YAML description.")]


def files_named(*names: str | None) -> tuple[Path, ...]:
    """Return those of the names that are paths, not reference networks or presets; such files are never overwritten."""
    return tuple(Path(name) for name in names if name and not name.startswith("zoo:"))


def parse_shapes(texts: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
    """Parse ``name=1,3,224,224`` into shapes by input name.

    Raises
    ------
    InputError
        If a text has another form, or a name is given twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or ():
        name, equals, dimensions = text.rpartition("=")
        parts = [part.strip() for part in dimensions.split(",")] if dimensions.strip() else []
        if not equals or not name or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise InputError(f"{text!r} is not a shape", where="--shape", fix="Write --shape name=1,3,224,224")
        if name in shapes:
            raise InputError(f"the shape of {name!r} is given twice", where="--shape", fix="Give it once")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def parse_dims(texts: Iterable[str] | None) -> dict[str, int]:
    """Parse ``num_atoms=100`` into sizes by the name of a dimension.

    Raises
    ------
    InputError
        If a text has another form, or a name is given twice.
    """
    dims: dict[str, int] = {}
    for text in texts or ():
        name, equals, size = text.rpartition("=")
        size = size.strip()
        if not equals or not name or not (size.isascii() and size.isdigit() and len(size) < 10):
            raise InputError(f"{text!r} is not a size", where="--dim", fix="Write --dim NAME=100")
        if name in dims:
            raise InputError(f"the dimension {name!r} is given twice", where="--dim", fix="Give it once")
        dims[name] = int(size)
    return dims


def parse_values(texts: Iterable[str] | None) -> dict[str, Any]:
    """Parse ``sr=16000``, ``x=1,2,3``, ``x=FILE.npy`` or ``FILE.npz`` into values by input name.

    Raises
    ------
    InputError
        If a text has another form, a file cannot be read, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, written = text.rpartition("=")
        if written.endswith(".npz") and not equals:
            found = _archive(Path(written))
        elif equals and name and written.endswith(".npy"):
            found = {name: _single(Path(written))}
        elif equals and name and written.strip():
            found = {name: _numbers(written, text)}
        else:
            raise InputError(f"{text!r} is not a value", where="--value", fix=_WRITE_VALUE)
        for key, value in found.items():
            if key in values:
                raise InputError(f"the value of {key!r} is given twice", where="--value", fix="Give it once")
            values[key] = value
    return values


_WRITE_VALUE = "Write --value NAME=16000, --value NAME=1,2,3, --value NAME=FILE.npy or --value FILE.npz"
_TRUTH = {"true": True, "false": False}


def _numbers(written: str, text: str) -> Any:
    parts = [part.strip().lower() for part in written.split(",")]
    numbers = [_TRUTH[part] if part in _TRUTH else number_or_text(part) for part in parts]
    if any(isinstance(number, str) for number in numbers):
        raise InputError(f"{text!r} is not a value", where="--value", fix=_WRITE_VALUE)
    return numbers[0] if len(numbers) == 1 else numbers


def _archive(path: Path) -> dict[str, Any]:
    from cimplan.graph.arrays import read_arrays

    found = read_arrays(path, _WRITE_VALUE)
    if not isinstance(found, dict):
        raise InputError("is one array without a name", where=str(path), fix=_WRITE_VALUE)
    return found


def _single(path: Path) -> Any:
    from cimplan.graph.arrays import read_arrays

    found = read_arrays(path, _WRITE_VALUE)
    if isinstance(found, dict):
        raise InputError("is not one array but a file of several", where=str(path), fix=_WRITE_VALUE)
    return found


def load_model(
    model: str, shape: Iterable[str] | None, dim: Iterable[str] | None, value: Iterable[str] | None
) -> Model:
    """Find a model, with what the options say of its inputs."""
    from cimplan.api.models import load

    return load(model, shapes=parse_shapes(shape), dims=parse_dims(dim), values=parse_values(value))


def parse_fixes(texts: Iterable[str] | None) -> dict[str, str]:
    """Parse ``NODE=host`` or ``NODE=cim``, in any case, into places by operator name; ``cpu`` is also the host.

    Raises
    ------
    InputError
        If a text has another form, or an operator is fixed twice.
    """
    fixes: dict[str, str] = {}
    for text in texts or ():
        name, equals, place = text.rpartition("=")
        place = place.strip().lower()
        place = {"cpu": "host"}.get(place, place)
        if not equals or not name or place not in ("host", "cim"):
            raise InputError(
                f"{text!r} is not a placement", where="--fix", fix="Write --fix NODE=host or --fix NODE=cim"
            )
        if name in fixes:
            raise InputError(f"{name!r} is fixed twice", where="--fix", fix="Give it once")
        fixes[name] = place
    return fixes


def parse_settings(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """Parse ``NAME=VALUE`` into values by name.

    Parameters
    ----------
    texts : iterable of str or None
        What the user wrote.
    option : str
        The option it was written for, for the error.

    Raises
    ------
    InputError
        If a text has another form, or a name is given twice.
    """
    settings: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            raise InputError(f"{text!r} is not a setting", where=option, fix=f"Write {option} NAME=VALUE")
        if name in settings:
            raise InputError(f"{name!r} is set twice", where=option, fix="Give it once")
        settings[name] = value
    return settings


def number_or_text(text: str) -> int | float | str:
    """Return the number a text stands for, or the text, as a YAML file would have it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
