"""Tensors that sit in files beside the model: their place is checked, and weights are never read."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError
from cimplan.files import is_file, open_input
from cimplan.graph.folding import LARGEST_VALUE, small_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import onnx

_FIX = "Save the model with its data file in the model's own folder"


def check_external_data(tensors: Iterable[onnx.TensorProto], model_path: Path) -> None:
    """Refuse external data outside the model's folder.

    A model names its data files itself, so a model from elsewhere could name any file of this machine. A location
    must be relative and, with links followed, lie in the folder of the model (of the link or of the file it leads to).

    Parameters
    ----------
    tensors : iterable of onnx.TensorProto
        Every tensor of the model.
    model_path : Path
        The model's file.

    Raises
    ------
    InputError
        If a location is missing, absolute, or leaves the folder.
    """
    from onnx import TensorProto

    checked: set[str] = set()
    for tensor in tensors:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if location in checked:
            continue
        where = f"{model_path}: tensor {tensor.name!r}"
        if not location or not isinstance(location, str) or "\0" in location:
            raise InputError("external data without a file name", where=where, fix=_FIX)
        if PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor:
            raise InputError(f"external data at an absolute path ({location!r})", where=where, fix=_FIX)
        if not _inside(location, model_path):
            raise InputError(f"external data outside the model's folder ({location!r})", where=where, fix=_FIX)
        checked.add(location)


def require_external_data(tensors: Iterable[onnx.TensorProto], model_path: Path) -> tuple[Path, ...]:
    """Return the external data files of a model that is to be run, once their places are checked and they are there.

    Parameters
    ----------
    tensors : iterable of onnx.TensorProto
        Every tensor of the model.
    model_path : Path
        The model's file.

    Raises
    ------
    InputError
        As `check_external_data`; if a file is not there.
    """
    held = list(tensors)
    check_external_data(held, model_path)
    locations = {entry.value for tensor in held for entry in tensor.external_data if entry.key == "location"}
    found = tuple(model_path.parent / location for location in sorted(locations))
    for path in found:
        if not is_file(path):
            raise InputError(
                "the model's weights are missing, and running it needs them",
                where=str(model_path),
                why=f"its external data file {path.relative_to(model_path.parent).as_posix()!r} is not beside it",
                fix="Put the file there; a model without weights can be inspected and compiled, not run",
            )
    return found


def small_external_value(tensor: onnx.TensorProto, model_path: Path) -> np.ndarray[Any, Any] | None:
    """Read a tensor outside the model file that is small enough to decide a shape.

    Asked for only where a shape depends on it, such as the target of a Reshape. Its place must have been checked.

    Parameters
    ----------
    tensor : onnx.TensorProto
        With its place in `external_data`.
    model_path : Path
        The model's file.

    Returns
    -------
    array or None
        None if it is large, absent or incomplete.
    """
    from onnx import TensorProto

    entries = {entry.key: entry.value for entry in tensor.external_data}
    if any(size < 0 for size in tensor.dims) or math.prod(tensor.dims) > LARGEST_VALUE:
        return None
    whole = TensorProto()
    whole.CopyFrom(tensor)
    whole.data_location = TensorProto.DEFAULT
    whole.ClearField("external_data")
    path = model_path.parent / entries.get("location", "")
    try:
        if not is_file(path):
            return None
        with open_input(path) as stream:
            stream.seek(int(entries.get("offset", "0")))
            # No element is longer than 16 bytes; without a length the tensor runs to the end of the file.
            whole.raw_data = stream.read(min(int(entries.get("length", "-1")) % (1 << 62), LARGEST_VALUE * 16))
    except (OSError, ValueError, OverflowError):
        return None
    return small_value(whole)


def _inside(location: str, model_path: Path) -> bool:
    parts = PureWindowsPath(location).parts
    if ".." in parts:
        return False
    try:
        target = (model_path.parent / location).resolve()
        folders = {model_path.parent.resolve(), model_path.resolve().parent}
    except (OSError, RuntimeError):  # a loop of links
        return False
    return any(target.is_relative_to(folder) for folder in folders)
