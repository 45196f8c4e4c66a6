"""What given input shapes mean for the symbolic dimensions of a model that ONNX Runtime has opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cimplan.errors import InputError, did_you_mean
from cimplan.graph.binding import names_a_size, unresolved_error

if TYPE_CHECKING:
    import onnxruntime as ort


def symbolic_sizes(session: ort.InferenceSession, shapes: Mapping[str, tuple[int, ...]], where: str) -> dict[str, int]:
    """Return the sizes that given input shapes mean for the model's symbolic dimensions; `where` names it in errors.

    Raises
    ------
    InputError
        If a shape names no input, does not fit it, leaves a dimension open, or two shapes disagree.
    """
    inputs = {value.name: value for value in session.get_inputs()}
    for name in shapes:
        if name not in inputs:
            raise InputError(f"the model has no input {name!r}", where=where, fix=did_you_mean(name, inputs))
    sizes: dict[str, int] = {}
    unresolved = []
    for name, value in inputs.items():
        given = shapes.get(name)
        declared = tuple(size if isinstance(size, int) or names_a_size(size) else None for size in value.shape)
        if given is not None and len(given) != len(declared):
            raise InputError(
                f"the shape {list(given)} does not fit",
                where=f"{where}: input {name!r}",
                why=f"the model declares {value.shape}",
                fix="Give a shape that does, with --shape",
            )
        for position, size in enumerate(declared):
            if isinstance(size, int):
                if given is not None and given[position] != size:
                    raise InputError(
                        f"the shape {list(given)} does not fit",
                        where=f"{where}: input {name!r}",
                        why=f"the model declares {value.shape}",
                        fix="Give a shape that does, with --shape",
                    )
                continue
            if given is None:
                unresolved.append((name, declared, [part if isinstance(part, int) else None for part in declared]))
                break
            if size and sizes.setdefault(size, given[position]) != given[position]:
                raise InputError(
                    f"the dimension {size!r} is given as {sizes[size]} and as {given[position]}",
                    where=f"{where}: input {name!r}",
                    fix="Give one size, with --shape or --dim",
                )
    if unresolved:
        raise unresolved_error(unresolved, where)
    return sizes
