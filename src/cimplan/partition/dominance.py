"""Labels that no other label makes useless: what every dynamic programme here keeps."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = tuple[int, ...]
"""What matters about a partial schedule; less is better in each."""

Labelled: TypeAlias = tuple[Numbers, Any]
"""Numbers, and how they came about."""

_ROWS = 512
"""Labels that are compared with each other at once."""

_PAIRWISE = 40
"""Labels up to which they are compared one by one rather than as arrays."""


def undominated(labels: list[Labelled]) -> list[Labelled]:
    """Drop labels that are not smaller in any number than another one; of equal ones the first stays.

    Sorts the labels by their numbers. All must have equally many.
    """
    if len(labels) < 2:
        return labels
    labels.sort(key=_numbers)
    if len(labels) > _PAIRWISE:
        rows = undominated_rows(np.array([label[0] for label in labels], dtype=np.int64))
        return [labels[row] for row in rows]
    kept: list[Labelled] = []
    for label in labels:
        numbers = label[0]
        for other, _ in kept:
            for a, b in zip(other, numbers, strict=True):
                if a > b:
                    break
            else:
                break
        else:
            kept.append(label)
    return kept


def _numbers(label: Labelled) -> Numbers:
    return label[0]


def add_step(rising: list[int], falling: list[int], first: int, second: int) -> bool:
    """Add a pair to a staircase, of which no step is in both numbers as large as another one; drop what it beats.

    Parameters
    ----------
    rising, falling : list of int
        First and second numbers of the steps; changed in place.
    first, second : int
        The pair.

    Returns
    -------
    bool
        Whether no step was as small in both numbers already.
    """
    at = bisect_right(rising, first)
    if at and falling[at - 1] <= second:
        return False
    until = at
    while at and rising[at - 1] == first:
        at -= 1
    while until < len(rising) and falling[until] >= second:
        until += 1
    rising[at:until] = [first]
    falling[at:until] = [second]
    return True


def undominated_rows(
    numbers: npt.NDArray[np.int64], known: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.intp]:
    """Return the rows that are smaller in some column than each other row; of equal ones the first.

    Parameters
    ----------
    numbers : numpy.ndarray of int64
        One row per label.
    known : numpy.ndarray of int64, optional
        More rows that make others useless.

    Returns
    -------
    numpy.ndarray of intp
        Indices of rows, sorted by their numbers.
    """
    if known is not None:
        better = np.flatnonzero(~_covered(known.T, numbers.T).any(axis=0))
        return better[undominated_rows(numbers[better])]
    if len(numbers) < 2:
        return np.arange(len(numbers))
    varying = numbers[:, (numbers != numbers[0]).any(axis=0)]
    if not varying.shape[1]:
        return np.zeros(1, dtype=np.intp)
    order = np.lexsort(varying.T[::-1])  # what makes a row useless comes before it
    columns = np.ascontiguousarray(varying[order].T)
    kept = np.zeros(0, dtype=np.intp)
    for begin in range(0, len(order), _ROWS):
        some = np.arange(begin, min(begin + _ROWS, len(order)))
        if len(kept):
            some = some[~_covered(columns[:, kept], columns[:, some]).any(axis=0)]
        inside = np.triu(_covered(columns[:, some], columns[:, some]), 1)
        kept = np.concatenate([kept, some[~inside.any(axis=0)]])
    return order[kept]


def _covered(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return, for each pair, whether a label of the first is nowhere larger than a label of the second."""
    covered: npt.NDArray[np.bool_] = one[0][:, None] <= other[0]
    for a, b in zip(one[1:], other[1:], strict=True):
        covered &= a[:, None] <= b
    return covered
