"""How large a network may be: far beyond all that exist, and small enough that no number in a file can hurt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.graph.operators import OperatorGraph

MOST_ELEMENTS: Final = 2**40
"""Of one tensor, and weights of one operator: a terabyte in int8, some hundred times the largest layers known."""

MOST_MVMS: Final = 2**50
"""Of one operator in one inference."""

_NAME_SHOWN = 60


def check_sizes(graph: OperatorGraph, where: str) -> None:
    """Refuse a network with a tensor or an operator of absurd size.

    Parameters
    ----------
    graph : OperatorGraph
        The network.
    where : str
        The file, for the error.

    Raises
    ------
    InputError
        Names the first one.
    """
    for tensor in graph.tensors.values():
        if _product(tensor.shape) > MOST_ELEMENTS:
            shown = "x".join(map(_shown, tensor.shape[:8]))
            raise _absurd(f"the tensor {_short(tensor.name)} has the shape {shown}", where, MOST_ELEMENTS)
    for op in graph.operators:
        work = op.work
        if work is None:
            continue
        if _product((work.outputs, work.inputs, work.groups)) > MOST_ELEMENTS:
            raise _absurd(f"the operator {_short(op.name)} has too many weights", where, MOST_ELEMENTS)
        if work.mvms > MOST_MVMS:
            raise _absurd(f"the operator {_short(op.name)} has {_shown(work.mvms)} products", where, MOST_MVMS)


def _absurd(what: str, where: str, most: int) -> InputError:
    return InputError(
        what,
        where=where,
        why=f"no network is taken beyond {most:,} of them",
        fix="Check the sizes in the file and those given with --shape and --dim",
    )


def _product(sizes: tuple[int, ...]) -> int:
    """Return the product; a shape with a zero has no elements, and a long one of ones is not long to multiply."""
    return 0 if 0 in sizes else math.prod(sizes)


def _shown(number: int) -> str:
    return str(number) if number.bit_length() < 64 else f"about 2^{number.bit_length() - 1}"


def _short(name: str) -> str:
    return repr(name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}…")
