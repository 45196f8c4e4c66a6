"""What a tensor costs that changes the device."""

from __future__ import annotations

from cimplan.graph.operators import Edge
from cimplan.hardware.schema import Bus


def transfer_ns(edge: Edge, bus: Bus) -> float:
    """Return b·N_out/B_shared: the tensors of an edge over the shared bus, as stored in the network.

    Source: Klein et al. 2026 (arXiv 2607.05240). Charged only if the two ends sit on different devices.
    """
    return edge.size_bytes / bus.bandwidth_gbps
