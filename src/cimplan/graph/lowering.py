"""From operators to matrix work: which weight matrix, and how many vectors it is multiplied with.

Orientation: M = outputs (crossbar columns), N = inputs (crossbar rows). Each rule is a small function whose docstring
is the user's documentation; `documentation()` collects them. What has no lowering has a reason in plain words.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cimplan.graph.nodes import NodeView, RuleError, TensorType
from cimplan.graph.operators import MatrixWork, Recurrence
from cimplan.graph.rules.einsum import contraction
from cimplan.graph.rules.products import Product, gemm, matmul, packed_product
from cimplan.graph.rules.windows import Layout, channels_last
from cimplan.operator_types import KNOWN_DOMAINS, MICROSOFT, NCHWC, TABLE, OperatorType

VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "ExpandDims"})

TWO_ACTIVATIONS = "multiplies two activations: there are no weights to keep in the array"
COMPUTED_WEIGHTS = "its weights are computed during inference"
EINSUM = "its equation is not a product of two matrices"
FOREIGN = "an operator of a foreign domain: what it computes is not known"
VIEW = "only renames data"
CONSTANT = "a constant"
FROM_CONSTANTS = "makes a constant, from constants alone"
NO_PRODUCT = "not a product with a weight matrix"


@dataclass(frozen=True, slots=True)
class Lowered:
    """The lowering of one operator.

    Attributes
    ----------
    work : MatrixWork or None
        The matrix work.
    reason : str
        Why there is none, or why it is not weight-stationary.
    weight_input : str
        The stationary tensor; empty without work.
    view : bool
        True if the operator only renames data.
    unlowered : bool
        True if it does matrix work, or may do so, that has no lowering.
    """

    work: MatrixWork | None = None
    reason: str = ""
    weight_input: str = ""
    view: bool = False
    unlowered: bool = False


Rule = Callable[[NodeView, TensorType, Callable[[int], bool]], Lowered]


def lower(node: NodeView, output: TensorType | None, constant: Callable[[int], bool]) -> Lowered:
    """Lower one operator.

    Parameters
    ----------
    node : NodeView
        The node with the types of its inputs.
    output : TensorType or None
        Type of its first output; None if that is absent or has no type.
    constant : callable
        Whether the input of an index is known before inference.

    Raises
    ------
    RuleError
        If the node contradicts its operator's definition.
    """
    row = TABLE.get((node.domain, node.op_type))
    if row is not None:
        if row.lowering == "none":
            return Lowered(reason=row.reason, unlowered=True)
        if output is not None:
            return _RULES[row.lowering](node, output, constant)
    if node.domain in ("", MICROSOFT) and node.op_type in VIEWS:
        return Lowered(reason=VIEW, view=True)
    if node.domain not in KNOWN_DOMAINS:
        return Lowered(reason=FOREIGN, unlowered=True)
    return Lowered(reason=CONSTANT if node.op_type == "Constant" else NO_PRODUCT)


def _stationary(
    work: MatrixWork, node: NodeView, weight: int, constant: Callable[[int], bool], why_not: str
) -> Lowered:
    """Return weight-stationary work, or the same work with a computed matrix and the reason why."""
    if constant(weight):
        return Lowered(work, "", node.inputs[weight])
    return Lowered(replace(work, stationary="activation"), why_not, node.inputs[weight])


def _row(node: NodeView) -> OperatorType:
    return TABLE[node.domain, node.op_type]


def _require_fit(node: NodeView, filters: tuple[int, ...], channels: int) -> None:
    """Refuse a weight in ONNX's own order that does not fit the image's channels or the node's `kernel_shape`.

    Shape inference does not look at either, and the host's run of the model would be the first to fail.
    """
    given = Layout.of(node.shape(0), channels_last(node)).channels
    if given != channels:
        raise RuleError(
            f"convolves an input of {given} channels with a weight of shape {filters}, which is for {channels} channels"
        )
    kernel = node.integers("kernel_shape", filters[2:])
    if kernel != filters[2:]:
        raise RuleError(f"says that its kernel is {kernel}, and its weight of shape {filters} has another")


def convolution(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """Convolution of any rank (1-D, 2-D, 3-D), by im2col.

    M = C_out / groups, N = C_in / groups · Π kernel, one vector per output position: N_mvm = batch · Π output
    extents. The kernel is that of the weight, so `kernel_shape` may be absent and a 1×7 kernel stays 1×7. Padding
    counts: its zeros occupy rows like data. Strides, dilations and `auto_pad` act through the output extents. Grouped
    and depthwise convolutions are `groups` independent matrices. The bias is added outside the array. What
    ONNX Runtime pads channels to in its blocked layout (com.microsoft.nchwc) is the host's and does not count.
    """
    index = _row(node).weight
    filters = node.shape(index)
    groups = node.integer("group", 1)
    if len(filters) < 3 or groups < 1 or filters[0] % groups:
        raise RuleError(f"convolves with a weight of shape {filters} in {groups} groups")
    # The fp16 operators keep (C_out, kernel, C_in / groups), all others (C_out, C_in / groups, kernel):
    # the product is the same.
    inputs = math.prod(filters[1:])
    image = Layout.of(output.shape, channels_last(node))
    if node.domain != NCHWC and not node.op_type.startswith("Nhwc"):
        _require_fit(node, filters, filters[1] * groups)
    if any(extent < 1 for extent in image.spatial):
        raise RuleError(f"has a weight of shape {filters}, larger than its input of shape {node.shape(0)}")
    work = MatrixWork(filters[0] // groups, inputs, image.batch * math.prod(image.spatial), groups)
    return _stationary(work, node, index, constant, COMPUTED_WEIGHTS)


def transposed_convolution(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """ConvTranspose of any rank: every input position is one vector.

    A position's C_in / groups values give C_out / groups · Π kernel products, which are then added up where their
    windows overlap (outside the array). So M = C_out / groups · Π kernel, N = C_in / groups, and
    N_mvm = batch · Π input extents. Output padding and strides move results and add no work.
    """
    del output
    index = _row(node).weight
    filters = node.shape(index)
    groups = node.integer("group", 1)
    if len(filters) < 3 or groups < 1 or filters[0] % groups:
        raise RuleError(f"convolves with a weight of shape {filters} in {groups} groups")
    _require_fit(node, filters, filters[0])
    image = Layout.of(node.shape(0), channels_last(node))
    outputs = math.prod(filters[1:])
    work = MatrixWork(outputs, filters[0] // groups, image.batch * math.prod(image.spatial), groups)
    return _stationary(work, node, index, constant, COMPUTED_WEIGHTS)


def _product(product: Product, node: NodeView, constant: Callable[[int], bool]) -> Lowered:
    """Lower a product whose weights may stand on either side."""
    if not constant(product.right) and constant(product.left):
        # Y = W · X: the columns of X are the vectors and the rows of W the outputs.
        groups = math.prod(product.left_batch)
        vectors = product.columns * product.batch_size // max(groups, 1)
        work = MatrixWork(product.rows, product.inner, vectors, groups)
        return _stationary(work, node, product.left, constant, TWO_ACTIVATIONS)
    groups = math.prod(product.right_batch)
    vectors = product.rows * product.batch_size // max(groups, 1)
    work = MatrixWork(product.columns, product.inner, vectors, groups)
    return _stationary(work, node, product.right, constant, TWO_ACTIVATIONS)


def fully_connected(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """Gemm and its fused and quantised forms, with `transA` and `transB`.

    For Y = A · B with the weights in B: M = columns of B, N = rows of B, one vector per row of A. With the weights in
    A: M = rows of A, N = columns of A, one vector per column of B. The bias is added outside the array.
    """
    del output
    return _product(gemm(node), node, constant)


def matrix_product(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """MatMul and its fused and quantised forms, batched, with the weights on either side.

    As Gemm; leading dimensions of the activation multiply the number of vectors, leading dimensions of the weights
    are as many independent matrices. A product of two activations is matrix work, but not weight-stationary: the
    second operand counts as the matrix, and it would have to be written into the array in every inference.
    """
    del output
    return _product(matmul(node), node, constant)


def packed_product_rule(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """MatMulNBits and MatMulBnb4: weights in blocks of 2 to 8 bits, with K inputs and N outputs as attributes."""
    del output
    return _product(packed_product(node), node, constant)


def einsum(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """Einsum of two operands that is a matrix product, whatever the names and the order of its labels.

    Labels of both operands that the result lacks are the inputs: N is the product of their sizes. Labels that only
    the weights and the result have are the outputs M, those that only the activation and the result have the vectors,
    those of all three as many independent matrices. A label that stands twice in an operand, or that is summed over
    in one operand alone, makes it another kind of operator.
    """
    del output
    found = contraction(node)
    if found is None:
        # A sum over three or more operands, or of two without a matrix product, may still multiply a lot.
        return Lowered(reason=EINSUM, unlowered=len(node.inputs) > 1)
    if not constant(1) and constant(0):
        work = MatrixWork(found.rows, found.inner, found.columns, found.groups)
        return _stationary(work, node, 0, constant, TWO_ACTIVATIONS)
    work = MatrixWork(found.columns, found.inner, found.rows, found.groups)
    return _stationary(work, node, 1, constant, TWO_ACTIVATIONS)


def recurrent(node: NodeView, output: TensorType, constant: Callable[[int], bool]) -> Lowered:
    """RNN, LSTM, GRU and DynamicQuantizeLSTM: an input product for all steps, and a recurrent one step by step.

    With g gates (RNN 1, GRU 3, LSTM 4), hidden size H, input size I, T steps and B sequences, each direction is a
    group. Input product: M = g·H, N = I, N_mvm = T·B, all at once. Recurrent product: M = g·H, N = H, and B MVMs in
    each of T steps, which wait for each other and for the gates in between (`gate_latency` of the hardware). A GRU
    with `linear_before_reset` = 0 multiplies twice in a step: its candidate needs the reset state. Directions run
    beside each other. Biases, peepholes and clipping belong to the gates.
    """
    del output
    gates = {"RNN": 1, "GRU": 3}.get(node.op_type, 4)
    data, weights, recurrence = node.shape(0), node.shape(1), node.shape(2)
    if len(data) != 3 or len(weights) != 3 or len(recurrence) != 3:
        raise RuleError(f"has an input of shape {data} and weights of shapes {weights} and {recurrence}")
    if node.op_type == "DynamicQuantizeLSTM":  # keeps its weights transposed
        weights, recurrence = (weights[0], *weights[:0:-1]), (recurrence[0], *recurrence[:0:-1])
    batch_first = node.integer("layout", 0) == 1
    steps, batch = (data[1], data[0]) if batch_first else (data[0], data[1])
    directions, outputs, inputs = weights
    hidden = recurrence[2]
    two_ways = node.text("direction", "forward") == "bidirectional"
    if (
        inputs != data[2]
        or recurrence != (directions, outputs, hidden)
        or outputs != gates * hidden
        or directions != (2 if two_ways else 1)
        or node.integer("hidden_size", hidden) != hidden
    ):
        raise RuleError(f"has weights of shapes {weights} and {recurrence} that do not fit its input of shape {data}")
    rounds = 2 if node.op_type == "GRU" and not node.integer("linear_before_reset", 0) else 1
    work = MatrixWork(outputs, inputs, steps * batch, directions, recurrence=Recurrence(hidden, steps, rounds))
    # The product is stationary only if both matrices are known.
    return _stationary(work, node, 1, lambda index: constant(index) and constant(2), COMPUTED_WEIGHTS)


_RULES: Mapping[str, Rule] = {
    "convolution": convolution,
    "transposed convolution": transposed_convolution,
    "gemm": fully_connected,
    "matmul": matrix_product,
    "packed": packed_product_rule,
    "einsum": einsum,
    "recurrent": recurrent,
}


def documentation() -> list[tuple[str, str]]:
    """Return (operators, text) for every lowering, for the user's documentation."""
    operators: dict[str, list[str]] = {}
    for row in TABLE.values():
        if row.offloadable:
            operators.setdefault(row.lowering, []).append(row.title)
    return [(", ".join(names), inspect.getdoc(_RULES[lowering]) or "") for lowering, names in operators.items()]
