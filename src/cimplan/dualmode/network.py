"""From an operator graph to the matrix operators a dual-mode chip schedules.

Only matrix work takes arrays. Element-wise work rides along with the last matrix operator it depends on; operators
that only move data (reshapes, transposes, concatenations) are looked through. Whatever comes before the first matrix
operator, such as the look-up of embeddings, belongs to the network's inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cimplan.errors import InputError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import NETWORK, MatrixOperator, Readings, Uncovered
from cimplan.plan.uncovered import uncovered_of

_NAMED: Final = 5
"""Operators that an error names; the others are counted."""

MOVES_DATA: Final = frozenset(
    {
        "Concat",
        "DepthToSpace",
        "DequantizeLinear",
        "Expand",
        "Flatten",
        "Identity",
        "QuantizeLinear",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operator types that change where or how data lie but compute nothing new."""


def require_covered(graph: OperatorGraph, *, allow_uncovered: bool) -> tuple[Uncovered, ...]:
    """Return the matrix work that the arrays do not compute, where leaving it out was asked for.

    Raises
    ------
    InputError
        If there is such work and it was not asked to leave it out; names the operators and the reasons.
    """
    found = uncovered_of(graph)
    if found and not allow_uncovered:
        names = ", ".join(repr(item.name) for item in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        reasons = "; ".join(dict.fromkeys(f"{item.op_type}: {item.reason}" for item in found))
        raise InputError(
            f"{len(found)} operator{'s' if len(found) > 1 else ''} with matrix work cannot run in arrays",
            where=f"{graph.name}: {names}{more}",
            why=reasons,
            fix="Leave them out of the plan with --allow-uncovered (allow_uncovered=True), which then names them, or "
            "use `cimplan partition`, which runs them on a host",
        )
    return found


def matrix_operators(graph: OperatorGraph, chip: DualModeChip, readings: Readings) -> tuple[MatrixOperator, ...]:
    """Return the matrix operators of a graph in topological order.

    Activations count as `chip.activation_bits` and weights as `chip.weight_bits` an element, however the file stores
    them: a float model is compiled as its quantised form would be.

    Raises
    ------
    InputError
        If the graph has no matrix work.
    """
    origin = _Origins(graph)
    consumers: list[_Draft] = []
    for op in graph.operators:
        sources = origin.of_inputs(op)
        work = op.one_product
        if work is not None:
            moving = moving_operand(graph, op)
            draft = _Draft(op, work, moving, origin.root(moving.name))
            draft.reads = origin.of(moving.name)
            draft.waits = set(sources)
            consumers.append(draft)
            origin.set_outputs(op, {len(consumers) - 1})
        elif op.view or op.op_type in MOVES_DATA:
            origin.set_outputs(op, sources, moved=True)
        else:
            last = max(sources, default=NETWORK)
            if last != NETWORK:
                consumers[last].riders.append(op.name)
                consumers[last].waits |= sources - {last}
            origin.set_outputs(op, {last} if sources else set())
    if not consumers:
        raise InputError(
            f"{graph.name!r} has no matrix work",
            why="a dual-mode chip computes convolutions, fully connected layers and matrix products; there are none",
            fix="`cimplan inspect` shows each operator and the reason why it is not matrix work",
        )
    leaving = {source for name in graph.outputs for source in origin.of(name)}
    return tuple(draft.finish(index in leaving, chip, readings) for index, draft in enumerate(consumers))


def moving_operand(graph: OperatorGraph, op: Operator) -> Tensor:
    """Return the operand of a matrix operator that is not held by the arrays."""
    for tensor in graph.activation_inputs(op):
        if tensor.name != op.weight_input:
            return tensor
    return graph.tensors[op.weight_input or op.inputs[0]]


def bytes_of(elements: int, bits: int) -> int:
    """Return the packed size of elements in bytes, rounded up."""
    return -(-elements * bits // 8)


class _Origins:
    """For each tensor the matrix operators whose results it carries."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._tensors: Mapping[str, Tensor] = graph.tensors
        self._of: dict[str, frozenset[int]] = {name: frozenset({NETWORK}) for name in graph.inputs}
        self._root: dict[str, str] = {}

    def of(self, name: str) -> frozenset[int]:
        """Return the origins of a tensor; a constant has none."""
        return self._of.get(name, frozenset())

    def of_inputs(self, op: Operator) -> frozenset[int]:
        """Return the origins of everything an operator reads."""
        return frozenset().union(*(self.of(name) for name in op.inputs))

    def root(self, name: str) -> str:
        """Return the tensor that a tensor is only another arrangement of."""
        return self._root.get(name, name)

    def set_outputs(self, op: Operator, origins: Iterable[int], *, moved: bool = False) -> None:
        """Record what an operator's results carry, and whether they are one moved tensor."""
        shared = frozenset(origins)
        carried = [name for name in op.inputs if self.of(name)]
        if moved and len(carried) == 1 and len(op.outputs) == 1:
            self._root[op.outputs[0]] = self.root(carried[0])
        for name in op.outputs:
            self._of[name] = shared


class _Draft:
    """A matrix operator while its riders are being collected."""

    def __init__(self, op: Operator, work: MatrixWork, moving: Tensor, operand: str) -> None:
        self.op = op
        self.work = work
        self.moving = moving
        self.operand = operand
        self.reads: frozenset[int] = frozenset()
        self.waits: set[int] = set()
        self.riders: list[str] = []

    def finish(self, leaves: bool, chip: DualModeChip, readings: Readings) -> MatrixOperator:
        work = self.work
        unrolled = work.inputs * work.mvms * work.groups
        moved = unrolled if readings.convolution_inputs == "im2col" else min(self.moving.elements, unrolled)
        return MatrixOperator(
            name=self.op.name,
            op_type=self.op.op_type,
            inputs=work.inputs,
            outputs=work.outputs,
            mvms=work.mvms,
            groups=work.groups,
            stationary=work.stationary,
            operand=self.operand,
            input_bytes=bytes_of(moved, chip.activation_bits),
            output_bytes=bytes_of(work.outputs * work.mvms * work.groups, chip.activation_bits),
            weight_bytes=bytes_of(work.weights, chip.weight_bits),
            reads=tuple(sorted(self.reads or {NETWORK})),
            waits_for=tuple(sorted(self.waits - {NETWORK})),
            riders=tuple(self.riders),
            leaves=leaves,
        )
