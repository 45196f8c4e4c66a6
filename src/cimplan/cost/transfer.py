"""What a tensor costs that changes the device.

A plan has an edge for every pair of operators that exchange tensors. The network's own inputs and outputs have no
operator at their other end: they come from the host and go to the host. Where `bus.network_io` is charged, an operator
on the accelerator therefore takes, beside its own time, the transfer of the network's inputs that it reads and of the
network's outputs that it makes. That is exact for an operator that waits for nothing else, and whose outputs only the
network gives; else it is never too little: the transfer begins after all that the operator waits for, and other
readers of an output wait for it too.
"""

from __future__ import annotations

from cimplan.graph.operators import Edge, Operator, OperatorGraph
from cimplan.hardware.schema import Bus


def transfer_ns(edge: Edge, bus: Bus) -> float:
    """Return b·N_out/B_shared: the tensors of an edge over the shared bus, as stored in the network.

    Source: Klein et al. 2026 (arXiv 2607.05240). Charged only if the two ends sit on different devices.
    """
    return edge.size_bytes / bus.bandwidth_gbps


def network_bytes(graph: OperatorGraph, op: Operator) -> int:
    """Return the bytes of the network's inputs that an operator reads and of the network's outputs that it makes.

    As stored in the network, each tensor once. Weights that the model lists as inputs are none.
    """
    read = [name for name in dict.fromkeys(op.inputs) if name in graph.inputs and not graph.tensors[name].constant]
    made = [name for name in dict.fromkeys(op.outputs) if name in graph.outputs]
    return sum(graph.tensors[name].size_bytes for name in (*read, *made))
