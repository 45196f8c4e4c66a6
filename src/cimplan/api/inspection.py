"""What is in a model and what of it could run on an accelerator, before anything is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.api.models import Model
from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.hardware.schema import Hardware


@dataclass(frozen=True, slots=True)
class InspectedOperator:
    """One operator as the file has it.

    Attributes
    ----------
    name, op_type : str
        As in the graph.
    output_shapes : tuple of tuple of int
        Shape of each output.
    macs : int
        Multiply-accumulate operations; 0 without matrix work.
    outputs, inputs, mvms, groups : int
        Lowered sizes M (columns) and N (rows) of one group, MVMs per inference, groups; 0 without matrix work.
    activation_bytes : int
        Inputs and outputs that are computed during inference.
    weight_bytes : int
        Constants the operator reads.
    body_weight_bytes : int
        Constants inside its subgraphs (If, Loop, Scan); nothing in there is planned.
    crossbars : int or None
        Crossbars it would occupy; None if it cannot run there.
    reason : str
        Why it cannot run on the accelerator; empty if it can.
    steps, recurrent_inputs : int
        Of an LSTM, GRU or RNN: steps that wait for each other, and inputs of its recurrent matrix; 0 of others.
    """

    name: str
    op_type: str
    output_shapes: tuple[tuple[int, ...], ...]
    macs: int
    outputs: int
    inputs: int
    mvms: int
    groups: int
    activation_bytes: int
    weight_bytes: int
    crossbars: int | None
    reason: str
    body_weight_bytes: int = 0
    steps: int = 0
    recurrent_inputs: int = 0

    @property
    def lowered(self) -> str:
        """The lowered size for people, such as ``64 x 27`` or ``32 groups of 1 x 9``."""
        if not self.macs:
            return ""
        size = f"{self.outputs} x {self.inputs}"
        if self.steps:
            size += f" + {self.outputs} x {self.recurrent_inputs}"
        return size if self.groups == 1 else f"{self.groups} groups of {size}"


@dataclass(frozen=True)
class Inspection:
    """A model seen through a hardware description.

    Attributes
    ----------
    model, hardware : str
        Names for people.
    available : int
        Crossbars on the accelerator.
    rows : tuple of InspectedOperator
        In topological order.
    weight_bytes : int
        Constants of the file, each once however many operators read it, with those inside subgraphs.
    remark : str
        What the sizes on crossbars take for granted; empty if nothing.
    """

    model: str
    hardware: str
    available: int
    rows: tuple[InspectedOperator, ...]
    weight_bytes: int
    remark: str = ""

    @property
    def macs(self) -> int:
        """All multiply-accumulate operations."""
        return sum(row.macs for row in self.rows)

    @property
    def not_planned_bytes(self) -> int:
        """Those of them that lie inside subgraphs of control flow, which run on the host whole."""
        return sum(row.body_weight_bytes for row in self.rows)

    @property
    def supported(self) -> int:
        """Operators that could run on the accelerator."""
        return sum(row.crossbars is not None for row in self.rows)

    @property
    def crossbars(self) -> int:
        """Crossbars for all of them."""
        return sum(row.crossbars or 0 for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "model": self.model,
            "hardware": self.hardware,
            "crossbars_available": self.available,
            "crossbars_for_everything": self.crossbars,
            "macs": self.macs,
            "weight_bytes": self.weight_bytes,
            "not_planned_bytes": self.not_planned_bytes,
            "supported": self.supported,
            "remark": self.remark,
            "operators": [asdict(row) for row in self.rows],
        }


def inspect_model(model: Model, hardware: Hardware | str | Path) -> Inspection:
    """Read a model and say what each operator is and whether it could be offloaded.

    Raises
    ------
    InputError
        If the model or the hardware cannot be read, or the hardware has no crossbar accelerator.
    """
    from cimplan.cost.crossbar import crossbar_cost, unsupported_reason
    from cimplan.cost.precision import float_weights
    from cimplan.hardware import load as load_hardware
    from cimplan.hardware.schema import Hardware as HardwareType

    chip = hardware if isinstance(hardware, HardwareType) else load_hardware(hardware)
    accelerator = chip.accelerator
    if accelerator is None:
        raise InputError(
            "this hardware has no crossbar accelerator",
            where=f"hardware {chip.name!r}",
            fix="Choose a preset for partition: see `cimplan hardware list`",
        )
    graph = model.graph
    rows = []
    for op in graph.operators:
        reason = unsupported_reason(op, accelerator)
        work = op.work
        cost = None if reason or work is None else crossbar_cost(graph, op, work, accelerator)
        moved = {tensor.name: tensor for tensor in (*graph.activation_inputs(op), *graph.activation_outputs(op))}
        rows.append(
            InspectedOperator(
                name=op.name,
                op_type=op.op_type,
                output_shapes=tuple(graph.tensors[name].shape for name in op.outputs),
                macs=0 if work is None else work.macs,
                outputs=0 if work is None else work.outputs,
                inputs=0 if work is None else work.inputs,
                mvms=0 if work is None else work.mvms,
                groups=0 if work is None else work.groups,
                activation_bytes=sum(tensor.size_bytes for tensor in moved.values()),
                weight_bytes=graph.weight_bytes(op),
                crossbars=None if cost is None else cost.crossbars,
                reason=reason,
                body_weight_bytes=op.body_weight_bytes,
                steps=0 if work is None or work.recurrence is None else work.recurrence.steps,
                recurrent_inputs=0 if work is None or work.recurrence is None else work.recurrence.inputs,
            )
        )
    return Inspection(
        model.name,
        chip.name,
        accelerator.crossbars,
        tuple(rows),
        graph.constant_bytes,
        float_weights(graph, accelerator),
    )
