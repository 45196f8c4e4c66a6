"""Values that a user gives for inputs of a network, made fit for the types and shapes the file declares."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cimplan.errors import InputError, did_you_mean
from cimplan.graph.binding import Dimension, declared
from cimplan.graph.nodes import RuleError, dtype_code

if TYPE_CHECKING:
    import onnx

Values = Mapping[str, np.ndarray[Any, Any]]

_SHOWN_ELEMENTS = 8


def values_of(
    inputs: Sequence[onnx.ValueInfoProto],
    given: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the given values as arrays of the declared types and shapes.

    One number fills an input whose shape is known, and stands for one element where its only dimension is open; a list
    is put into the known shape if it has as many elements.

    Parameters
    ----------
    inputs : sequence of onnx.ValueInfoProto
        The inputs without initializers.
    given : mapping of str to array, number or sequence
        By input name.
    shapes : mapping of str to tuple of int
        Shapes the user gave for inputs.
    where : str
        The model, for errors.

    Raises
    ------
    InputError
        If a value is for no input, or does not fit its type or shape.
    """
    by_name = {value.name: value for value in inputs}
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in given.items():
        if name not in by_name:
            raise InputError(
                f"a value is given for {name!r}, which is no input of the model",
                where=where,
                fix=did_you_mean(name, by_name) if by_name else "The model has no inputs",
            )
        place = f"{where}: input {name!r}"
        try:
            dtype, dims = declared(by_name[name])
        except RuleError as error:
            raise InputError(f"a value cannot be given for an input that {error}", where=place) from error
        array = _of_type(value, dtype, place)
        found[name] = _of_shape(array, shapes.get(name, dims), place)
    return found


def described(values: Values) -> dict[str, str]:
    """Return what a file says of values: small ones themselves, of large ones type, shape and hash."""
    return {name: _described(value) for name, value in sorted(values.items())}


def _described(value: np.ndarray[Any, Any]) -> str:
    if value.size <= _SHOWN_ELEMENTS:
        return str(value.tolist())
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return f"{value.dtype} {'x'.join(map(str, value.shape))} sha256:{digest}"


def _of_type(value: Any, dtype: str, place: str) -> np.ndarray[Any, Any]:
    from onnx import helper

    try:
        wanted = np.dtype(helper.tensor_dtype_to_np_dtype(dtype_code(dtype)))
        array = np.asarray(value)
    except (KeyError, RuleError, ValueError, TypeError) as error:
        raise InputError(f"a value cannot be made {dtype}", where=place, why=str(error)[:200]) from error
    if array.dtype.kind not in "biuf" or wanted.kind not in "biufV" or wanted == np.dtype(object):
        raise InputError(f"a value of type {array.dtype} does not fit", where=place, why=f"the model declares {dtype}")
    with np.errstate(all="ignore"):
        made = array.astype(wanted)
    if wanted.kind in "biu" and not np.array_equal(made.astype(np.float64), array.astype(np.float64)):
        raise InputError("a value does not fit the type of the input", where=place, why=f"the model declares {dtype}")
    return made


def _of_shape(array: np.ndarray[Any, Any], dims: Sequence[Dimension] | None, place: str) -> np.ndarray[Any, Any]:
    if dims is None:
        return array
    sizes = [dim for dim in dims if isinstance(dim, int)]
    whole = tuple(sizes) if len(sizes) == len(dims) else None
    if array.ndim == 0:
        if whole is not None:
            return np.full(whole, array)
        if len(dims) == 1:
            return array.reshape(1)
        raise InputError(
            "one number cannot fill an input of open shape", where=place, fix="Give its shape too, with --shape"
        )
    if whole is not None and array.ndim == 1 and array.size == np.prod(whole, dtype=object):
        return array.reshape(whole)
    fits = array.ndim == len(dims) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(dims, array.shape, strict=True)
    )
    if not fits:
        shown = ", ".join("?" if dim is None else str(dim) for dim in dims)
        raise InputError(
            f"a value of shape {list(array.shape)} does not fit", where=place, why=f"the input is ({shown})"
        )
    return array
