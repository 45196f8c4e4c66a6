"""What an operator costs on crossbars: how many it occupies and how long it takes.

Source of the formulas: Klein et al. 2026 (arXiv 2607.05240), with the named options of the hardware description.
Orientation: an operator's weight matrix has N inputs (rows) and M outputs (columns), for each of G groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cimplan.errors import InternalError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph
from cimplan.hardware.schema import Accelerator


@dataclass(frozen=True, slots=True)
class CrossbarCost:
    """An operator on crossbars.

    Attributes
    ----------
    crossbars : int
        Crossbars it occupies.
    input_ns, mvm_ns, output_ns : float
        Moving the input activations in, multiplying, moving the outputs out.
    write_ns : float
        Programming in this inference; 0 where the weights are in place.
    network_ns : float
        Inputs and outputs of the network over the shared bus; 0 where they are free.
    """

    crossbars: int
    input_ns: float
    mvm_ns: float
    output_ns: float
    write_ns: float = 0.0
    network_ns: float = 0.0

    @property
    def total_ns(self) -> float:
        """T_acc, the parts one after another."""
        return self.write_ns + self.input_ns + self.mvm_ns + self.output_ns + self.network_ns


def crossbars_needed(work: MatrixWork, accelerator: Accelerator) -> int:
    """Return how many crossbars hold the weights of an operator.

    One matrix of M outputs and N inputs is cut into ⌈N/rows⌉·⌈M/weight_columns⌉ tiles, one crossbar each. How the
    matrices of G groups are packed is an option of the hardware:

    - `one_per_group`: each group like that; the naive bound.
    - `block_diagonal`: tiles of several groups share a crossbar where they can. Groups have their own inputs and
      outputs, so their tiles must lie on disjoint rows **and** disjoint columns. A tile that spans all rows or all
      columns leaves room for no other; only the corner tile that spans neither (for a small group: the whole group),
      of r rows and c columns, is shared, by min(⌊rows/r⌋, ⌊weight_columns/c⌋) groups.
    - `shared_rows`: groups side by side, ⌊weight_columns/M⌋ in a crossbar, on the same rows.
    - `published_formula`: ⌈N/rows⌉·⌈G·M/weight_columns⌉, equation (1) of the source with M_v = all outputs.

    A recurrent operator holds two matrices, each in crossbars of its own; its directions are the groups.

    Returns
    -------
    int
        0 for a matrix without elements.
    """
    if work.recurrence is not None:
        return sum(crossbars_needed(product, accelerator) for product in work.products)
    if work.weights == 0:
        return 0
    rows, columns, groups = accelerator.rows, accelerator.weight_columns, work.groups
    row_tiles, column_tiles = -(-work.inputs // rows), -(-work.outputs // columns)
    packing = accelerator.group_packing
    if packing == "published_formula":
        return row_tiles * -(-groups * work.outputs // columns)
    if packing == "shared_rows":
        return row_tiles * column_tiles * -(-groups // _groups_side_by_side(work, columns))
    corner_rows, corner_columns = work.inputs % rows, work.outputs % columns
    if packing == "one_per_group" or not corner_rows or not corner_columns:
        return groups * row_tiles * column_tiles
    shared_by = min(rows // corner_rows, columns // corner_columns)
    return groups * (row_tiles * column_tiles - 1) + -(-groups // shared_by)


def mvm_time_ns(work: MatrixWork, crossbars: int, accelerator: Accelerator) -> float:
    """Return N_mvm·T_mvm, times the input slices.

    With `shared_rows` every group in a crossbar takes an MVM of its own; with tiles in series every crossbar waits
    for the others. A recurrent operator takes its input product for all steps, then in each round of each step the
    MVMs of its sequences and the gates behind them.

    Raises
    ------
    InternalError
        If a recurrent operator is to be costed and the accelerator has no gate latency.
    """
    if work.recurrence is not None:
        if accelerator.gate_latency_ns is None:
            raise InternalError("an operator has steps, and gates have no latency", why="it cannot be offloaded then")
        given, recurrent = work.products
        rounds = work.recurrence.rounds_per_step
        again = replace(recurrent, mvms=recurrent.mvms * rounds)
        return (
            mvm_time_ns(given, crossbars_needed(given, accelerator), accelerator)
            + mvm_time_ns(again, crossbars_needed(again, accelerator), accelerator)
            + work.recurrence.rounds * accelerator.gate_latency_ns
        )
    if crossbars == 0:
        return 0.0
    turns = crossbars if accelerator.tile_execution == "series" else 1
    if accelerator.group_packing == "shared_rows":
        turns *= min(work.groups, _groups_side_by_side(work, accelerator.weight_columns))
    return work.mvms * turns * accelerator.input_slices * accelerator.mvm_latency_ns


def _groups_side_by_side(work: MatrixWork, columns: int) -> int:
    return max(1, columns // work.outputs)


def write_time_ns(work: MatrixWork, crossbars: int, accelerator: Accelerator) -> float:
    """Return the time to program an operator's matrix in an inference, 0 where its weights are in place.

    The matrix moves in over the internal bandwidth at `weight_bits` an element; then its crossbars are programmed,
    together or one after another.
    """
    charged = work.stationary == "activation" or accelerator.weight_write == "every_inference"
    if not charged or crossbars == 0:
        return 0.0
    if accelerator.write_latency_ns is None:
        raise InternalError("writing is charged and has no latency", why="the hardware schema should have refused it")
    turns = crossbars if accelerator.write_execution == "series" else 1
    moved = -(-work.weights * accelerator.weight_bits // 8)
    return moved / accelerator.internal_bandwidth_gbps + turns * accelerator.write_latency_ns


def moved_bytes(graph: OperatorGraph, operator: Operator, accelerator: Accelerator) -> tuple[int, int]:
    """Return b·N_in and b·N_out: bytes of activations an operator reads and writes inside the accelerator.

    The stationary operand is not an input: constant weights stay, and an activation in their place is charged as
    writing. An activation that is both operands at once counts as both.
    """
    names = list(operator.inputs)
    if operator.work is not None and operator.work.stationary == "activation" and operator.weight_input in names:
        names.remove(operator.weight_input)
    tensors = [graph.tensors[name] for name in dict.fromkeys(names)]
    inputs = [tensor for tensor in tensors if not tensor.constant]
    outputs = graph.activation_outputs(operator)
    if accelerator.element_bytes == "tensor":
        return sum(t.size_bytes for t in inputs), sum(t.size_bytes for t in outputs)
    element = -(-accelerator.activation_bits // 8)
    return element * sum(t.elements for t in inputs), element * sum(t.elements for t in outputs)


def crossbar_cost(graph: OperatorGraph, operator: Operator, work: MatrixWork, accelerator: Accelerator) -> CrossbarCost:
    """Return what an operator costs on the accelerator.

    T_acc = b·N_in/B_cim + N_mvm·T_mvm + b·N_out/B_cim, plus writing where it is charged. Partial sums and activation
    functions are pipelined and free, except between the steps of a recurrent operator, which wait for them.
    """
    crossbars = crossbars_needed(work, accelerator)
    read, written = moved_bytes(graph, operator, accelerator)
    return CrossbarCost(
        crossbars=crossbars,
        input_ns=read / accelerator.internal_bandwidth_gbps,
        mvm_ns=mvm_time_ns(work, crossbars, accelerator),
        output_ns=written / accelerator.internal_bandwidth_gbps,
        write_ns=write_time_ns(work, crossbars, accelerator),
    )


def unsupported_reason(operator: Operator, accelerator: Accelerator) -> str:
    """Return why an operator cannot be offloaded, or an empty text if it can."""
    work = operator.work
    if work is None:
        return operator.no_work_reason or f"{operator.op_type} is not matrix work"
    if operator.op_type not in accelerator.operators:
        return f"{operator.op_type} is not among the operator types of the accelerator"
    if work.stationary == "activation" and not accelerator.allow_activation_products:
        return operator.no_work_reason or (
            "its two operands are both computed in the inference, and allow_activation_products is false"
        )
    if work.weights == 0:
        return "its weight matrix has no elements"
    if work.recurrence is not None and accelerator.gate_latency_ns is None:
        return (
            f"its {work.recurrence.steps:,} steps wait for their gates, and the hardware file does not say how long: "
            "accelerator.gate_latency"
        )
    return ""
