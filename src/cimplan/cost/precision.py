"""Whether crossbars can hold the weights of a network as they are."""

from __future__ import annotations

from cimplan.cost.crossbar import unsupported_reason
from cimplan.graph.operators import BITS_OF_DTYPE, Operator, OperatorGraph
from cimplan.hardware.schema import Accelerator

_FLOATS = ("float", "bfloat")
_INT8_BITS = 8


def float_weights(graph: OperatorGraph, accelerator: Accelerator) -> str:
    """Return a sentence for people if weights are floating-point numbers of more bits than a crossbar holds.

    The costs are then those of the network with its weights rounded to what crossbars hold, on a host that computes
    with the floats. Weights that the network keeps as whole numbers and dequantises are whole numbers.

    Returns
    -------
    str
        Empty if the weights of all operators that could be offloaded fit.
    """
    offered = [op for op in graph.operators if not unsupported_reason(op, accelerator)]
    maker = {name: op for op in graph.operators for name in op.outputs}
    found = [
        dtype
        for op in offered
        if (dtype := _stored(graph, op, maker)).startswith(_FLOATS) and BITS_OF_DTYPE[dtype] > accelerator.weight_bits
    ]
    if not found:
        return ""
    types = ", ".join(sorted(set(found)))
    many = "s have" if len(found) > 1 else " has"
    advice = "`cimplan quantize MODEL -o INT8.onnx` quantises it" if accelerator.weight_bits <= _INT8_BITS else ""
    return (
        f"{len(found)} operator{many} {types} weights, crossbars hold {accelerator.weight_bits} bits: "
        f"costed as if quantised{'; ' if advice else ''}{advice}"
    )


def _stored(graph: OperatorGraph, op: Operator, maker: dict[str, Operator]) -> str:
    """Return the type an operator's weights are stored as, before they are dequantised."""
    name = op.weight_input
    while name in maker and maker[name].op_type == "DequantizeLinear":
        name = maker[name].inputs[0]
    return graph.tensors[name].dtype if name in graph.tensors and graph.tensors[name].constant else ""
