"""From operators to matrix work: which weight matrix, and how many vectors it is multiplied with.

Orientation: M = outputs (crossbar columns), N = inputs (crossbar rows). Each rule is a small function whose docstring
is the user's documentation; `documentation()` collects them. What has no lowering has a reason in plain words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cimplan.graph.nodes import NodeView, RuleError, TensorType, words
from cimplan.graph.operators import MatrixWork
from cimplan.graph.rules.products import Product, gemm, matmul, packed_product
from cimplan.graph.rules.windows import INTERNAL_NHWC, NCHWC, Layout, channels_last

MICROSOFT = "com.microsoft"
VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "ExpandDims"})

TWO_ACTIVATIONS = "multiplies two activations: there are no weights to keep in the array"
COMPUTED_WEIGHTS = "its weights are computed during inference"
RECURRENT = "a recurrent operator: its steps wait for each other, so it runs on the host as one operator"
CONTROL_FLOW = "control flow: its subgraph runs on the host as one operator"
FUSED_ATTENTION = "fused attention: it multiplies activations with each other, so it runs on the host as one operator"
EXPERTS = "a mixture of experts: which weights it uses depends on the data"
DEFORMED = "a deformable convolution: where it reads depends on the data"
EINSUM = "Einsum is not lowered to matrix work"
VIEW = "only renames data"
CONSTANT = "a constant"
FROM_CONSTANTS = "makes a constant, from constants alone"
NO_PRODUCT = "not a product with a weight matrix"

_REASONS: Mapping[str, str] = {
    **dict.fromkeys(("RNN", "LSTM", "GRU", "DynamicQuantizeLSTM"), RECURRENT),
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), CONTROL_FLOW),
    **dict.fromkeys(
        words(
            "Attention QAttention MultiHeadAttention GroupQueryAttention PackedAttention PackedMultiHeadAttention "
            "DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention SparseAttention LongformerAttention"
        ),
        FUSED_ATTENTION,
    ),
    **dict.fromkeys(("MoE", "QMoE"), EXPERTS),
    "DeformConv": DEFORMED,
    "Einsum": EINSUM,
    "Constant": CONSTANT,
}


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
    """

    work: MatrixWork | None = None
    reason: str = ""
    weight_input: str = ""
    view: bool = False


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
    rule = _RULES.get((node.domain, node.op_type))
    if rule is not None and output is not None:
        return rule(node, output, constant)
    if node.domain in ("", MICROSOFT) and node.op_type in VIEWS:
        return Lowered(reason=VIEW, view=True)
    return Lowered(reason=_REASONS.get(node.op_type, NO_PRODUCT))


def _stationary(
    work: MatrixWork, node: NodeView, weight: int, constant: Callable[[int], bool], why_not: str
) -> Lowered:
    """Return weight-stationary work, or the same work with a computed matrix and the reason why."""
    if constant(weight):
        return Lowered(work, "", node.inputs[weight])
    computed = MatrixWork(work.outputs, work.inputs, work.mvms, work.groups, "activation")
    return Lowered(computed, why_not, node.inputs[weight])


def _weight_index(node: NodeView) -> int:
    return 3 if node.op_type == "QLinearConv" else 1


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
    and depthwise convolutions are `groups` independent matrices. The bias is added outside the array. In the blocked
    layout of ONNX Runtime (com.microsoft.nchwc) channels are padded to whole blocks of 8 or 16 and count as such.
    """
    index = _weight_index(node)
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
    filters = node.shape(1)
    groups = node.integer("group", 1)
    if len(filters) < 3 or groups < 1 or filters[0] % groups:
        raise RuleError(f"convolves with a weight of shape {filters} in {groups} groups")
    _require_fit(node, filters, filters[0])
    image = Layout.of(node.shape(0), channels_last(node))
    outputs = math.prod(filters[1:])
    work = MatrixWork(outputs, filters[0] // groups, image.batch * math.prod(image.spatial), groups)
    return _stationary(work, node, 1, constant, COMPUTED_WEIGHTS)


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


def _table(rule: Rule, *operators: tuple[str, str]) -> dict[tuple[str, str], Rule]:
    return {(domain, name): rule for domain, names in operators for name in names.split()}


_RULES: Mapping[tuple[str, str], Rule] = {
    **_table(
        convolution,
        ("", "Conv ConvInteger QLinearConv FusedConv"),
        (MICROSOFT, "QLinearConv FusedConv NhwcConv NhwcFusedConv"),
        (NCHWC, "Conv"),
        (INTERNAL_NHWC, "Conv QLinearConv ConvInteger FusedConv"),
    ),
    **_table(transposed_convolution, ("", "ConvTranspose"), (INTERNAL_NHWC, "ConvTranspose")),
    **_table(fully_connected, ("", "Gemm"), (MICROSOFT, "FusedGemm QGemm GemmFastGelu")),
    **_table(
        matrix_product,
        ("", "MatMul MatMulInteger QLinearMatMul"),
        (MICROSOFT, "FusedMatMul TransposeMatMul FusedMatMulActivation DynamicQuantizeMatMul MatMulIntegerToFloat"),
    ),
    **_table(packed_product_rule, (MICROSOFT, "MatMulNBits MatMulBnb4")),
}


def documentation() -> list[tuple[str, str]]:
    """Return (operators, text) for every lowering, for the user's documentation."""
    operators: dict[Rule, list[str]] = {}
    for (domain, name), rule in _RULES.items():
        operators.setdefault(rule, []).append(f"{domain}.{name}" if domain else name)
    return [(", ".join(names), (rule.__doc__ or "").strip()) for rule, names in operators.items()]
