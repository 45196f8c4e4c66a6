"""How weights lie in arrays and which bytes of a tensor belong to which weights.

A box of one matrix is cut into tiles of `rows` inputs by ``columns // columns_per_weight`` outputs, one array each.
The matrices of several groups take arrays of their own, except that with block-diagonal packing matrices so small that
several fit on disjoint rows and columns of one array share it. Arrays go through the groups, within a group through its
columns, and within a column through its rows.

A tensor that a matrix multiplies is laid out input by input, group after group, and a result output by output, so
every slice of a matrix has its share of the bytes: output c of C has the bytes from ``size * c // C`` to
``size * (c + 1) // C``. A run-time matrix is one share for each group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cimplan.program.language import Box, OperatorDecl, Packing

Range = tuple[int, int]


def arrays_of_box(box: Box, rows: int, weight_columns: int, packing: Packing) -> int:
    """Return how many arrays hold a box once.

    Parameters
    ----------
    box : Box
        Not empty.
    rows, weight_columns : int
        Inputs and outputs of an array, in whole weights.
    packing : {"block_diagonal", "one_per_group"}
        Whether groups share arrays.
    """
    groups = box.groups[1] - box.groups[0]
    inputs = box.inputs[1] - box.inputs[0]
    outputs = box.outputs[1] - box.outputs[0]
    packed = min(rows // inputs, weight_columns // outputs) if packing == "block_diagonal" else 0
    if packed > 1:
        return -(-groups // packed)
    return groups * -(-inputs // rows) * -(-outputs // weight_columns)


def tiles_of_box(box: Box, rows: int, weight_columns: int, packing: Packing) -> Iterator[Box]:
    """Yield what each array of a box holds, in the order of the arrays.

    Parameters
    ----------
    box, rows, weight_columns, packing
        As for `arrays_of_box`.
    """
    inputs = box.inputs[1] - box.inputs[0]
    outputs = box.outputs[1] - box.outputs[0]
    packed = min(rows // inputs, weight_columns // outputs) if packing == "block_diagonal" else 0
    for group in range(*box.groups, max(packed, 1)):
        groups = (group, min(group + max(packed, 1), box.groups[1]))
        for column in range(*box.outputs, weight_columns):
            for row in range(*box.inputs, rows):
                yield Box(
                    groups,
                    (row, min(row + rows, box.inputs[1])),
                    (column, min(column + weight_columns, box.outputs[1])),
                )


def output_spans(operator: OperatorDecl, box: Box) -> list[Range]:
    """Return the outputs a box contributes to, counted through all groups: output n of group g is ``g * M + n``."""
    return _spans(box.groups, box.outputs, operator.outputs)


def input_shares(operator: OperatorDecl, boxes: Iterable[Box], size_bytes: int) -> list[Range]:
    """Return the bytes of a multiplied tensor that boxes need, as disjoint ascending ranges."""
    whole = operator.groups * operator.inputs
    spans = (span for box in boxes for span in _spans(box.groups, box.inputs, operator.inputs))
    return _merged(_share(span, whole, size_bytes) for span in spans)


def output_shares(operator: OperatorDecl, boxes: Iterable[Box], size_bytes: int) -> list[Range]:
    """Return the bytes of the result that boxes contribute to, as disjoint ascending ranges."""
    whole = operator.groups * operator.outputs
    spans = (span for box in boxes for span in output_spans(operator, box))
    return _merged(_share(span, whole, size_bytes) for span in spans)


def matrix_shares(operator: OperatorDecl, boxes: Iterable[Box], size_bytes: int) -> list[Range]:
    """Return the bytes of a tensor that a run-time matrix is made of that boxes need."""
    return _merged(_share(box.groups, operator.groups, size_bytes) for box in boxes)


def outputs_of_bytes(operator: OperatorDecl, size_bytes: int, start: int, stop: int) -> Range:
    """Return the outputs, counted through all groups, that a range of the result's bytes belongs to."""
    whole = operator.groups * operator.outputs
    if size_bytes == 0:
        return (0, 0)
    first = -(-start * whole // size_bytes)
    if size_bytes * first // whole > start:
        first -= 1
    return (first, -(-stop * whole // size_bytes))


def spread(size_bytes: int, count: int) -> list[Range]:
    """Return the ranges into which bytes fall that are spread evenly over arrays."""
    return [(size_bytes * number // count, size_bytes * (number + 1) // count) for number in range(count)]


def _spans(groups: Range, part: Range, whole: int) -> list[Range]:
    if part == (0, whole):
        return [(groups[0] * whole, groups[1] * whole)]
    return [(group * whole + part[0], group * whole + part[1]) for group in range(*groups)]


def _share(span: Range, whole: int, size_bytes: int) -> Range:
    return (size_bytes * span[0] // whole, size_bytes * span[1] // whole)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, stop in sorted(ranges):
        if start == stop:
            continue
        if merged and start <= merged[-1][1]:
            if stop > merged[-1][1]:
                merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
