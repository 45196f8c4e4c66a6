"""What of a network's matrix work a dual-mode chip does not compute."""

from __future__ import annotations

from typing import Final

from cimplan.graph.operators import OperatorGraph
from cimplan.plan.dual_mode import Uncovered

STEP_BY_STEP: Final = "a recurrent operator: its steps wait for each other, which no segment of arrays expresses"


def uncovered_of(graph: OperatorGraph) -> tuple[Uncovered, ...]:
    """Return the operators that multiply, or may do so, and have no lowering for arrays."""
    return tuple(
        Uncovered(op.name, op.op_type, STEP_BY_STEP if op.work is not None else op.no_work_reason)
        for op in graph.operators
        if op.unlowered or (op.work is not None and op.work.recurrence is not None)
    )
