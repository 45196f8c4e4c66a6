"""Einsum: what its equation says of two operands, and when that is a matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cimplan.graph.nodes import NodeView, RuleError


@dataclass(frozen=True, slots=True)
class Contraction:
    """An Einsum of two operands as a (batched) matrix product: (rows x inner) times (inner x columns), by group.

    Attributes
    ----------
    rows, columns : int
        Product of the sizes that only the first or only the second operand has, and the result.
    inner : int
        Product of the sizes that both operands have and the result has not.
    groups : int
        Product of the sizes that both operands and the result have.
    """

    rows: int
    columns: int
    inner: int
    groups: int


def contraction(node: NodeView) -> Contraction | None:
    """Classify the labels of an Einsum; None if it is no product of two matrices.

    It is one if there are two operands, no label stands twice in one of them, at least one label is summed over, and
    each that is stands in both: a label in one operand alone would be added up before the product.

    Raises
    ------
    RuleError
        If the equation does not fit the operands.
    """
    shapes = [node.shape(index) for index in range(len(node.inputs))]
    terms, result = _labels(node.text("equation", ""), shapes)
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            # A size of 1 is broadcast.
            if 1 not in (size, sizes.get(label, 1)) and sizes[label] != size:
                raise RuleError(f"gives the label {label!r} the sizes {sizes[label]} and {size}")
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    if any(label not in sizes for label in result) or len(set(result)) < len(result):
        raise RuleError(f"has an equation with a result {''.join(result)!r} that does not follow from its operands")
    if len(terms) != 2 or any(len(set(term)) < len(term) for term in terms):
        return None
    first, second, kept = set(terms[0]), set(terms[1]), set(result)
    summed = (first | second) - kept
    if not summed or not summed <= (first & second):
        return None

    def product(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    return Contraction(
        rows=product((first - second) & kept),
        columns=product((second - first) & kept),
        inner=product(summed),
        groups=product(first & second & kept),
    )


def _labels(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand and of the result; what an ellipsis stands for gets labels of its own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    written = left.split(",")
    if len(written) != len(shapes):
        raise RuleError(f"has an equation for {len(written)} operands and {len(shapes)} of them")
    terms = [_expand(text, len(shape)) for text, shape in zip(written, shapes, strict=True)]
    if arrow:
        hidden = max((sum(label.startswith(".") for label in term) for term in terms), default=0)
        return terms, _expand(right, len(right.replace("...", "")) + (hidden if "..." in right else 0))
    # Without an arrow: what an ellipsis stands for, then every label that stands once, in alphabetical order.
    seen = [label for term in terms for label in term]
    hidden_labels = sorted({label for label in seen if label.startswith(".")}, key=lambda label: -int(label[1:]))
    once = sorted(label for label in set(seen) if not label.startswith(".") and seen.count(label) == 1)
    return terms, [*hidden_labels, *once]


def _expand(text: str, rank: int) -> list[str]:
    """Return the labels of a term; the dimensions of an ellipsis are numbered from the last, as they broadcast."""
    before, dots, after = text.partition("...")
    labels = [*before, *after]
    hidden = rank - len(labels)
    if not all(label.isalpha() for label in labels) or hidden < 0 or (hidden and not dots):
        raise RuleError(f"has a term {text!r} in its equation that does not fit {rank} dimensions")
    return [*before, *(f".{number}" for number in range(hidden - 1, -1, -1)), *after]
