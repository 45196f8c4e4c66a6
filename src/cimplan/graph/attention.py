"""Fused attention in two: the projection of queries, keys and values by weights, and the attention of activations.

ONNX Runtime fuses both into one operator (com.microsoft Attention, QAttention). Arrays can hold the weights of the
projection, and nothing of the rest; so for planning the operator is written as the product, a Split, and a
MultiHeadAttention, which takes the same bias and mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cimplan.operator_types import MICROSOFT

if TYPE_CHECKING:
    import onnx

PROJECTION: Final = "/projection"
"""What the product is called after the operator it was part of."""

SPLIT: Final = "/split"
"""What the Split behind it is called."""

_KEPT: Final = ("num_heads", "scale", "mask_filter_value", "unidirectional")
# Inputs of each operator: what the product takes, and mask, past and additive bias of the attention.
_PRODUCT: Final = {"Attention": (0, 1), "QAttention": (0, 1, 3, 4, 6, 7)}
_MASK: Final = {"Attention": 3, "QAttention": 5}
_PAST: Final = {"Attention": 4, "QAttention": 8}
_ADDED: Final = {"Attention": 5, "QAttention": -1}


def split_attention(model: onnx.ModelProto) -> bool:
    """Write every fused attention of a model in two, in place, where that says the same.

    An attention that keeps earlier keys and values, or rotates them, stays whole.

    Returns
    -------
    bool
        Whether there was one.
    """
    graph = model.graph
    if not any(_splits(node) for node in graph.node):
        return False
    widths = {tensor.name: tensor.dims[-1] for tensor in graph.initializer if len(tensor.dims) == 2}
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    nodes = list(graph.node)
    del graph.node[:]
    found = False
    for node in nodes:
        width = widths.get(node.input[1]) if _splits(node) else None
        if width is None:
            graph.node.append(node)
            continue
        found = True
        graph.node.extend(_parts(node, width, opset, graph))
    return found


def _splits(node: onnx.NodeProto) -> bool:
    if node.domain != MICROSOFT or node.op_type not in _PRODUCT or len(node.input) < 2:
        return False
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    outputs = [name for name in node.output if name]
    used = len(outputs) == 1 and node.output[0] == outputs[0]
    kept = _given(node, _PAST[node.op_type]) or (node.op_type == "Attention" and _given(node, 6))
    return used and not kept and not flags.get("do_rotary") and not flags.get("past_present_share_buffer")


def _given(node: onnx.NodeProto, index: int) -> str:
    """Return the name of an input, empty if it is absent."""
    return str(node.input[index]) if 0 <= index < len(node.input) else ""


def _parts(node: onnx.NodeProto, width: int, opset: int, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    from onnx import helper

    name, made = node.name or node.output[0], node.output[0]
    attributes = {attribute.name: attribute for attribute in node.attribute}
    sizes = list(attributes["qkv_hidden_sizes"].ints) if "qkv_hidden_sizes" in attributes else [width // 3] * 3
    operands = [_given(node, index) for index in _PRODUCT[node.op_type]]
    projected = f"{made}{PROJECTION}"
    if node.op_type == "QAttention":
        product = helper.make_node(
            "MatMulIntegerToFloat", operands, [projected], f"{name}{PROJECTION}", None, MICROSOFT
        )
    else:
        product = helper.make_node("MatMul", operands, [projected], f"{name}{PROJECTION}")
    parts = [f"{projected}_{part}" for part in ("query", "key", "value")]
    if opset >= 13:
        graph.initializer.append(helper.make_tensor(f"{made}{SPLIT}", 7, [3], sizes))
        split = helper.make_node("Split", [projected, f"{made}{SPLIT}"], parts, f"{name}{SPLIT}", axis=2)
    else:
        split = helper.make_node("Split", [projected], parts, f"{name}{SPLIT}", axis=2, split=sizes)
    rest = [_given(node, 2), _given(node, _MASK[node.op_type]), _given(node, _ADDED[node.op_type])]
    while rest and not rest[-1]:
        rest.pop()
    attention = helper.make_node("MultiHeadAttention", [*parts, *rest], [made], name, None, MICROSOFT)
    attention.attribute.extend(attributes[kept] for kept in _KEPT if kept in attributes)
    return [product, split, attention]
