"""The shapes of a network's inputs: what the file fixes, what the user sets, what a profile run recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from cimplan.errors import InputError, did_you_mean
from cimplan.graph.nodes import RuleError, TensorType, dtype_name

if TYPE_CHECKING:
    import onnx

Dimension = int | str | None
"""A size, the name of a size, or nothing."""


_NO_NAMES = ("none", "null", "unknown")
"""What exporters write for a size without a name, beside signs and numbers such as ``?`` and ``-1``."""


def names_a_size(text: str | None) -> bool:
    """Tell whether the text of a dimension names a size, so that equal texts are equal sizes.

    Paddle writes ``?`` for every size it does not know.
    """
    text = text or ""
    return any(character.isalpha() for character in text) and text.strip().lower() not in _NO_NAMES


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
            dims.append(dim.dim_param if names_a_size(dim.dim_param) else None)
    return dtype, tuple(dims)


def bind_inputs(
    inputs: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, tuple[int, ...]],
    recorded: Mapping[str, TensorType],
    where: str,
) -> tuple[dict[str, TensorType], dict[str, int]]:
    """Give every input of a network a complete shape.

    A named dimension has one size wherever it appears: set for one input, it is set for all. Signs are no names.

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
        raise unresolved_error(unresolved, where)
    return bound, sizes


def shapes_of_dimensions(
    inputs: Sequence[onnx.ValueInfoProto],
    dimensions: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs that follow from sizes of named dimensions, with those given already.

    Parameters
    ----------
    inputs : sequence of onnx.ValueInfoProto
        The inputs without initializers.
    dimensions : mapping of str to int
        Sizes by the names the file gives to dimensions.
    shapes : mapping of str to tuple of int
        Shapes the user gave for whole inputs; they stay as they are.
    where : str
        The model, for errors.

    Returns
    -------
    dict of str to tuple of int
        An input that still has an open dimension is not in it.

    Raises
    ------
    InputError
        If a name is of no dimension of an input, or a shape says another size.
    """
    found = dict(shapes)
    known: set[str] = set()
    for value in inputs:
        try:
            dims = declared(value)[1]
        except RuleError:
            continue  # bind_inputs says what is wrong with it
        known.update(dim for dim in dims or () if isinstance(dim, str))
        if value.name in shapes:
            for dim, size in zip(dims or (), shapes[value.name], strict=False):
                if isinstance(dim, str) and dimensions.get(dim, size) != size:
                    raise InputError(
                        f"the dimension {dim!r} is given as {dimensions[dim]} and as {size}",
                        where=where,
                        why=f"the shape of {value.name!r} has it too",
                        fix="Give one size",
                    )
            continue
        sizes = [dimensions.get(dim) if isinstance(dim, str) else dim for dim in dims or ()]
        if dims and None not in sizes:
            found[value.name] = tuple(size for size in sizes if size is not None)
    for name in dimensions:
        if name not in known:
            raise InputError(
                f"no input has a dimension named {name!r}",
                where=where,
                why="only names that the model gives to dimensions of its inputs can be set"
                + ("" if known else ", and it gives none"),
                fix=did_you_mean(name, known) if known else "Give whole shapes with --shape",
            )
    return found


def _check_given(name: str, dims: tuple[Dimension, ...] | None, given: Sequence[int], where: str) -> None:
    text = ",".join(map(str, given))
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in given):
        raise InputError(
            f"the shape {text} of {name!r} has a size that is not a whole number",
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


def unresolved_error(
    unresolved: Sequence[tuple[str, tuple[Dimension, ...] | None, Sequence[int | None] | None]], where: str
) -> InputError:
    """Return the error that says which dimensions are open and how to set them.

    Parameters
    ----------
    unresolved : sequence of tuple
        Name of an input, its declared dimensions, and as far as known their sizes.
    where : str
        The model.
    """
    missing, options, to_fill = [], [], False
    named: dict[str, None] = {}
    letters = (letter * times for times in count(1) for letter in "NMKLPQRS")
    for name, dims, resolved in unresolved:
        if dims is None or resolved is None:
            missing.append(f"the shape of the input {name!r}")
            options.append(f"--shape {name}=1,3,224,224")
            continue
        parts = [
            f"{axis} ({'unnamed' if dim is None else repr(dim)})"
            for axis, (dim, size) in enumerate(zip(dims, resolved, strict=True))
            if size is None
        ]
        listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if parts[1:] else parts[0]
        missing.append(f"dimension{'s' if parts[1:] else ''} {listed} of the input {name!r} {_written(dims)}")
        # An example only: images where there are four dimensions; of others nobody knows what is usual.
        example: list[int | str] = []
        for axis, (dim, size) in enumerate(zip(dims, resolved, strict=True)):
            if size is None and axis and len(dims) != 4:
                example.append(dim if isinstance(dim, str) and dim.isidentifier() else next(letters))
            else:
                example.append(size or (224 if axis else 1))
        options.append(f"--shape {name}={','.join(map(str, example))}")
        to_fill = to_fill or any(isinstance(size, str) for size in example)
        named.update(
            (dim, None) for dim, size in zip(dims, resolved, strict=True) if isinstance(dim, str) and size is None
        )
    return InputError(
        f"the model does not fix {'; '.join(missing)}",
        where=where,
        why="Sizes are never guessed",
        fix=f"Set every size, for example {' '.join(options)}"
        + (", with numbers for the names" if to_fill else "")
        + (f", or each name once: {' '.join(f'--dim {dim}=N' for dim in named)}" if named else ""),
    )
