"""Shapes of ONNX Runtime's fused transformer operators."""

from __future__ import annotations

from cimplan.graph.nodes import NodeView, RuleError, TensorType


def _sequence(node: NodeView, index: int) -> tuple[int, int, int]:
    shape = node.shape(index)
    if len(shape) != 3:
        raise RuleError(f"has an input of shape {shape} in place of (batch, sequence, hidden)")
    return shape[0], shape[1], shape[2]


def _statistics(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape of mean and deviation: the normalised dimensions shrink to 1."""
    axis %= len(shape) or 1
    return (*shape[:axis], *[1] * (len(shape) - axis))


def layer_normalisation(node: NodeView) -> list[TensorType]:
    """LayerNormalization of ONNX Runtime: Y, mean, inverse deviation. Simplified: without the mean."""
    shape = node.shape(0)
    statistics = TensorType("float32", _statistics(shape, node.integer("axis", -1)))
    normalised = TensorType(node.dtype(1) if node.has_input(1) else node.dtype(0), shape)
    return [normalised, statistics, statistics]


def skip_layer_normalisation(node: NodeView) -> list[TensorType]:
    """(Skip)(Simplified)LayerNormalization: output, mean, inverse deviation, sum of input and skip."""
    first = node.type(0)
    statistics = TensorType("float32", _statistics(first.shape, -1))
    return [first, statistics, statistics, first]


def embed_layer_normalisation(node: NodeView) -> list[TensorType]:
    """EmbedLayerNormalization: output, mask index, embedding sum. Input 2 holds the word embeddings."""
    ids, table = node.shape(0), node.shape(2)
    if len(ids) != 2 or len(table) != 2:
        raise RuleError(f"embeds ids of shape {ids} from a table of shape {table}")
    embedded = TensorType(node.dtype(2), (*ids, table[1]))
    return [embedded, TensorType("int32", (ids[0],)), embedded]


def attention(node: NodeView) -> list[TensorType]:
    """Attention with packed projection weights, input 1: (hidden, Q + K + V). Past is input 4."""
    return _packed_attention(node, node.dtype(0), past=4)


def quantised_attention(node: NodeView) -> list[TensorType]:
    """QAttention: the result has the type of the input's scale, input 3. Past is input 8."""
    return _packed_attention(node, node.dtype(3), past=8)


def _packed_attention(node: NodeView, dtype: str, past: int) -> list[TensorType]:
    batch, length, _ = _sequence(node, 0)
    weight = node.shape(1)
    if len(weight) != 2:
        raise RuleError(f"has projection weights of shape {weight}")
    sizes = node.integers("qkv_hidden_sizes", [weight[1] // 3] * 3)
    if len(sizes) != 3:
        raise RuleError("has qkv_hidden_sizes that are not three numbers")
    heads = node.integer("num_heads")
    if heads < 1:
        raise RuleError("has no heads")
    earlier = node.shape(past)[3] if node.has_input(past) and len(node.shape(past)) == 5 else 0
    present = TensorType(dtype, (2, batch, heads, earlier + length, sizes[1] // heads))
    return [TensorType(dtype, (batch, length, sizes[2])), present]


def multi_head_attention(node: NodeView) -> list[TensorType]:
    """MultiHeadAttention: query (B, S, D) or packed (B, S, heads, 3, size); key and value likewise or per head."""
    query = node.shape(0)
    heads = node.integer("num_heads")
    if heads < 1:
        raise RuleError("has no heads")
    if len(query) == 5:
        batch, length, hidden, keys = query[0], query[1], query[2] * query[4], query[1]
    else:
        batch, length, hidden = _sequence(node, 0)
        keys = length
        if node.has_input(1):
            key = node.shape(1)
            keys = key[2] if len(key) == 4 else key[1]
        if node.has_input(2):
            value = node.shape(2)
            hidden = value[1] * value[3] if len(value) == 4 else value[2]
    earlier = node.shape(6)[2] if node.has_input(6) else 0
    present = TensorType(node.dtype(0), (batch, heads, earlier + keys, hidden // heads))
    return [TensorType(node.dtype(0), (batch, length, hidden)), present, present]


def group_query_attention(node: NodeView) -> list[TensorType]:
    """GroupQueryAttention: query (B, S, heads * size), or packed with key and value. Past is input 3.

    The cache that comes back holds max(past, total length) positions where the total length, input 6, is known
    before inference, else past + S.
    """
    batch, length, width = _sequence(node, 0)
    heads, kv_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    if heads < 1 or kv_heads < 1:
        raise RuleError("has no heads")
    size = width // heads if node.has_input(1) else width // (heads + 2 * kv_heads)
    earlier = node.shape(3)[2] if node.has_input(3) else 0
    total = node.value(6)
    positions = max(earlier, int(total.reshape(-1)[0])) if total is not None and total.size else earlier + length
    present = TensorType(node.dtype(0), (batch, kv_heads, positions, size))
    return [TensorType(node.dtype(0), (batch, length, heads * size)), present, present]


def recurrent(node: NodeView) -> list[TensorType]:
    """DynamicQuantizeLSTM: X (sequence, batch, input); outputs Y, last hidden and last cell state."""
    length, batch, _ = _sequence(node, 0)
    hidden = node.integer("hidden_size")
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    state = TensorType(node.dtype(0), (directions, batch, hidden))
    return [TensorType(node.dtype(0), (length, directions, batch, hidden)), state, state]
