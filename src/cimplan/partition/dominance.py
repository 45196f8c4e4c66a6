"""Labels that no other label makes useless: what every dynamic programme here keeps."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = tuple[int, ...]
"""What matters about a partial schedule; less is better in each."""

Labelled: TypeAlias = tuple[Numbers, Any]
"""Numbers, and how they came about."""

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
        return _by_arrays(labels)
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


def _by_arrays(labels: list[Labelled]) -> list[Labelled]:
    """Compare each surviving label with all after it at once; none before it in the order can be worse."""
    numbers = np.array([label[0] for label in labels], dtype=np.int64)
    index = np.arange(len(labels))
    kept: list[int] = []
    while len(index):
        kept.append(int(index[0]))
        survives = (numbers[1:] < numbers[0]).any(axis=1)
        numbers, index = numbers[1:][survives], index[1:][survives]
    return [labels[i] for i in kept]
