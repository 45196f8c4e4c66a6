"""Weights that sit in files beside the model: their place is checked, their content never read."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from cimplan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
