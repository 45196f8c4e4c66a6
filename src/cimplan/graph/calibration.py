"""The data that set the ranges of a quantised network: files of the user's, or seeded random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cimplan.errors import InputError, did_you_mean
from cimplan.files import is_folder
from cimplan.graph.arrays import read_arrays
from cimplan.graph.nodes import TensorType

Sample = Mapping[str, np.ndarray[Any, Any]]
_NO_VALUES: Sample = {}
_LARGEST_INPUT = 2**31
_FIX = "Give a folder of .npz files, one per sample with an array per input, or of .npy files for a single input"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Samples, and where they come from.

    Attributes
    ----------
    samples : tuple of mapping of str to array
        An array per input and sample, of the input's type and shape.
    origin : str
        For people: "3 samples from a folder", or "random data, seed 0".
    """

    samples: tuple[Sample, ...]
    origin: str


def random_calibration(
    inputs: Mapping[str, TensorType], seed: int, samples: int = 1, values: Sample = _NO_VALUES
) -> Calibration:
    """Return standard normal samples; integers are 0 or 1, so that they index any table.

    Parameters
    ----------
    inputs : mapping of str to TensorType
        The network's inputs.
    seed : int
        Same seed, same data.
    samples : int
        How many.
    values : mapping of str to array, optional
        Inputs that are the same in every sample.

    Raises
    ------
    InputError
        If an input is neither a number nor a truth value, or has too many elements.
    """
    generator = np.random.default_rng(seed)
    drawn = tuple(
        {name: _draw(generator, name, kind) for name, kind in inputs.items()} | dict(values) for _ in range(samples)
    )
    return Calibration(drawn, f"random data, seed {seed}")


def _draw(generator: np.random.Generator, name: str, kind: TensorType) -> np.ndarray[Any, Any]:
    dtype = _numpy_type(name, kind)
    if math.prod(kind.shape) > _LARGEST_INPUT:
        raise InputError(
            f"the input of shape {list(kind.shape)} is too large",
            where=f"input {name!r}",
            why=f"random data of more than {_LARGEST_INPUT} elements are not made",
            fix="Check the shape, or give samples of your own (--calibration DIR)",
        )
    if np.issubdtype(dtype, np.floating):
        return generator.standard_normal(kind.shape).astype(dtype)
    return generator.integers(0, 2, kind.shape).astype(dtype)


def _numpy_type(name: str, kind: TensorType) -> np.dtype[Any]:
    try:
        dtype = np.dtype(kind.dtype)
    except TypeError as error:
        raise _no_data(name, kind) from error
    if dtype.kind not in "fiub":
        raise _no_data(name, kind)
    return dtype


def _no_data(name: str, kind: TensorType) -> InputError:
    return InputError(
        f"there are no calibration data of type {kind.dtype}",
        where=f"input {name!r}",
        why="numpy has no such numbers",
        fix="Export the model with float32 inputs",
    )


def calibration_from(folder: Path, inputs: Mapping[str, TensorType]) -> Calibration:
    """Read samples from a folder, in the order of the file names.

    Parameters
    ----------
    folder : Path
        Holds `.npz` files (an array per input, by name) or, for a network with one input, `.npy` files.
    inputs : mapping of str to TensorType
        The network's inputs.

    Raises
    ------
    InputError
        If the folder holds no samples, or one has a wrong name, type or shape.
    """
    if not is_folder(folder):
        raise InputError("is not a folder of calibration data", where=str(folder), fix=_FIX)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".npz") and path.is_file())
    if not files:
        raise InputError("holds no calibration data", where=str(folder), fix=_FIX)
    samples = tuple(_sample(path, inputs) for path in files)
    return Calibration(samples, f"{len(samples)} sample{'s' if len(samples) > 1 else ''} from {folder.name}")


def _sample(path: Path, inputs: Mapping[str, TensorType]) -> Sample:
    arrays = _arrays(path, inputs)
    for name in arrays:
        if name not in inputs:
            raise InputError(f"{name!r} is no input of the model", where=str(path), fix=did_you_mean(name, inputs))
    for name, kind in inputs.items():
        if name not in arrays:
            raise InputError(f"lacks an array for the input {name!r}", where=str(path), fix=_FIX)
        array = arrays[name]
        if array.shape != kind.shape:
            raise InputError(
                f"{name!r} has shape {array.shape} in place of {kind.shape}",
                where=str(path),
                fix="One file is one sample, in the model's own shape, batch included",
            )
        if array.dtype != _numpy_type(name, kind):
            raise InputError(
                f"{name!r} is {array.dtype} in place of {kind.dtype}",
                where=str(path),
                fix=f"Convert the data with array.astype('{kind.dtype}')",
            )
        if not np.all(np.isfinite(array)):
            raise InputError(f"{name!r} holds values that are not finite", where=str(path), fix="Remove the sample")
    return arrays


def _arrays(path: Path, inputs: Mapping[str, TensorType]) -> dict[str, np.ndarray[Any, Any]]:
    array = read_arrays(path, _FIX)
    if isinstance(array, dict):
        return array
    if len(inputs) != 1:
        raise InputError(
            f"is one array for a model with {len(inputs)} inputs", where=str(path), fix=f"{_FIX}: {', '.join(inputs)}"
        )
    return {next(iter(inputs)): array}
