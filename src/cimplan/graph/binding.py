"""The shapes of a network's inputs: what the file fixes, what the user sets, what a profile run recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cimplan.errors import InputError, did_you_mean
from cimplan.graph.nodes import RuleError, TensorType, dtype_name

if TYPE_CHECKING:
    import onnx

Dimension = int | str | None
"""A size, the name of a size, or nothing."""


def declared(value: onnx.ValueInfoProto) -> tuple[str, tuple[Dimension, ...] | None]:
    """Return the element type and the dimensions a file declares for a tensor; None for no shape at all.

    Raises
    ------
    RuleError
        If it is not a tensor (a sequence, a map, an optional), or has a negative size.
    """
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise RuleError(f"is not a tensor but {(kind or 'of no type').removesuffix('_type').replace('_', ' ')}")
    tensor = value.type.tensor_type
    dtype = dtype_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return dtype, None
    dims: list[Dimension] = []
    for dim in tensor.shape.dim:
        which = dim.WhichOneof("value")
        if which == "dim_value":
            # Some exporters write -1 for a size they do not know.
            dims.append(int(dim.dim_value) if dim.dim_value >= 0 else None)
        else:
            dims.append(dim.dim_param or None)
    return dtype, tuple(dims)


def bind_inputs(
    inputs: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, tuple[int, ...]],
    recorded: Mapping[str, TensorType],
    where: str,
) -> tuple[dict[str, TensorType], dict[str, int]]:
    """Give every input of a network a complete shape.

    A named dimension has one size wherever it appears: set for one input, it is set for all.

    Parameters
    ----------
    inputs : sequence of onnx.ValueInfoProto
        The inputs without initializers.
    shapes : mapping of str to tuple of int
        Shapes the user sets.
    recorded : mapping of str to TensorType
        Types known from a run; used for inputs the user does not set.
    where : str
        The model, for errors.

    Returns
    -------
    dict of str to TensorType
        Type of each input.
    dict of str to int
        Size of each named dimension.

    Raises
    ------
    InputError
        If a shape is for no input, contradicts the file, or leaves a dimension open.
    """
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise InputError(
                f"a shape is given for {name!r}, which is no input of the model",
                where=where,
                fix=did_you_mean(name, names) if names else "The model has no inputs",
            )
    sizes: dict[str, int] = {}
    open_inputs: list[tuple[str, str, tuple[Dimension, ...] | None]] = []
    bound: dict[str, TensorType] = {}
    for value in inputs:
        try:
            dtype, dims = declared(value)
        except RuleError as error:
            raise InputError(
                f"the input {value.name!r} {error}",
                where=where,
                fix="Only networks whose inputs are tensors can be planned",
            ) from error
        if dims is not None:
            # An input without elements is an exporter's way to say "any size".
            dims = tuple(None if dim == 0 else dim for dim in dims)
        known = recorded.get(value.name)
        given = shapes.get(value.name, known.shape if known else None)
        if given is not None:
            _check_given(value.name, dims, given, where)
            for dim, size in zip(dims or (), given, strict=False):
                if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                    raise InputError(
                        f"the dimension {dim!r} is given as {sizes[dim]} and as {size}",
                        where=where,
                        why=f"{value.name!r} and an earlier input share it",
                        fix="Give one size",
                    )
            bound[value.name] = TensorType(dtype, tuple(given))
        else:
            open_inputs.append((value.name, dtype, dims))
    unresolved = []
    for name, dtype, dims in open_inputs:
        resolved = None if dims is None else [sizes.get(dim) if isinstance(dim, str) else dim for dim in dims]
        if resolved is None or None in resolved:
            unresolved.append((name, dims, resolved))
        else:
            bound[name] = TensorType(dtype, tuple(dim for dim in resolved if dim is not None))
    if unresolved:
        raise _unresolved_error(unresolved, where)
    return bound, sizes


def _check_given(name: str, dims: tuple[Dimension, ...] | None, given: Sequence[int], where: str) -> None:
    text = ",".join(map(str, given))
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in given):
        raise InputError(
            f"the shape {text} of {name!r} has a size that is not a positive whole number",
            where=where,
            fix="Give sizes such as --shape name=1,3,224,224",
        )
    if dims is None:
        return
    wanted = _written(dims)
    if len(dims) != len(given):
        raise InputError(
            f"the shape {text} of {name!r} has {len(given)} dimensions",
            where=where,
            why=f"the model declares {wanted}",
            fix=f"Give {len(dims)} sizes",
        )
    for axis, (dim, size) in enumerate(zip(dims, given, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise InputError(
                f"the shape {text} of {name!r} contradicts the model",
                where=where,
                why=f"the model fixes dimension {axis} at {dim}: {wanted}",
                fix="Give that size, or export the model with a dynamic dimension",
            )


def _written(dims: tuple[Dimension, ...] | None) -> str:
    if dims is None:
        return "no shape"
    return "(" + ", ".join("?" if dim is None else str(dim) for dim in dims) + ")"


def _unresolved_error(
    unresolved: Sequence[tuple[str, tuple[Dimension, ...] | None, Sequence[int | None] | None]], where: str
) -> InputError:
    """Say which dimensions are open and how to set them."""
    missing, options = [], []
    for name, dims, resolved in unresolved:
        if dims is None or resolved is None:
            missing.append(f"the shape of the input {name!r}")
            options.append(f"--shape {name}=1,3,224,224")
            continue
        parts = [
            f"{axis} ({dim or 'unnamed'})"
            for axis, (dim, size) in enumerate(zip(dims, resolved, strict=True))
            if size is None
        ]
        listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if parts[1:] else parts[0]
        missing.append(f"dimension{'s' if parts[1:] else ''} {listed} of the input {name!r} {_written(dims)}")
        # An example only: images where there are four dimensions, else sequences.
        usual = 224 if len(dims) == 4 else 128
        example = [1 if size is None and axis == 0 else size or usual for axis, size in enumerate(resolved)]
        options.append(f"--shape {name}={','.join(map(str, example))}")
    return InputError(
        f"the model does not fix {'; '.join(missing)}",
        where=where,
        why="Sizes are never guessed",
        fix=f"Set every size, for example {' '.join(options)}",
    )
