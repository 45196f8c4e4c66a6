"""Shape rules for operators that onnx does not know: ONNX Runtime's own.

Every rule takes a `NodeView` and returns the types of the outputs in order; a node with fewer outputs ignores the
rest. Rules are written from the operator documentation of ONNX Runtime (ContribOperators.md) and compared with the
shapes of real runs in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cimplan.graph.nodes import NodeView, TensorType
from cimplan.graph.rules import elementwise, products, transformer, windows
from cimplan.operator_types import MICROSOFT, NCHWC

Rule = Callable[[NodeView], list[TensorType]]


def _all(domain: str, names: str, rule: Rule) -> dict[tuple[str, str], Rule]:
    return {(domain, name): rule for name in names.split()}


_LIKE_FIRST = (
    "QLinearSigmoid QLinearLeakyRelu QLinearSoftmax Gelu FastGelu BiasGelu QuickGelu BiasAdd BiasSoftmax BiasDropout "
    "RotaryEmbedding GroupNorm Inverse Trilu MoE QMoE"
)

RULES: Mapping[tuple[str, str], Rule] = {
    **_all(MICROSOFT, _LIKE_FIRST, elementwise.like_first),
    **_all(MICROSOFT, "QLinearAdd QLinearMul", elementwise.broadcasting(0, 3)),
    **_all(MICROSOFT, "QLinearWhere", elementwise.broadcasting(0, 4, 1)),
    **_all(MICROSOFT, "QLinearConcat", elementwise.quantised_concat),
    **_all(MICROSOFT, "QLinearReduceMean", elementwise.reduction),
    **_all(MICROSOFT, "QuantizeLinear", elementwise.quantise),
    **_all(MICROSOFT, "DequantizeLinear", elementwise.dequantise),
    **_all(MICROSOFT, "Pad", elementwise.pad),
    **_all(MICROSOFT, "BiasSplitGelu", elementwise.halve_last),
    **_all(MICROSOFT, "ExpandDims", elementwise.expand_dims),
    **_all(MICROSOFT, "QLinearConv", windows.quantised_convolution),
    **_all(MICROSOFT, "QLinearConvTranspose", windows.quantised_transposed_convolution),
    **_all(MICROSOFT, "FusedConv NhwcConv NhwcFusedConv", windows.convolution),
    **_all(MICROSOFT, "NhwcMaxPool QLinearAveragePool MaxpoolWithMask", windows.pooling),
    **_all(MICROSOFT, "QLinearGlobalAveragePool", windows.global_pooling),
    **_all(NCHWC, "Conv", windows.convolution),
    **_all(NCHWC, "MaxPool AveragePool", windows.pooling),
    **_all(NCHWC, "GlobalAveragePool GlobalMaxPool", windows.global_pooling),
    **_all(NCHWC, "Upsample", windows.upsample),
    **_all(NCHWC, "ReorderOutput", windows.reorder_output),
    **_all(MICROSOFT, "FusedGemm GemmFastGelu", products.gemm_rule),
    **_all(MICROSOFT, "GemmFloat8", products.float8_gemm_rule),
    **_all(MICROSOFT, "MatMulInteger16", products.integer_matmul_rule),
    **_all(MICROSOFT, "QGemm", products.quantised_gemm_rule),
    **_all(MICROSOFT, "FusedMatMul TransposeMatMul FusedMatMulActivation", products.matmul_rule),
    **_all(MICROSOFT, "DynamicQuantizeMatMul MatMulIntegerToFloat", products.float_matmul_rule),
    **_all(MICROSOFT, "MatMulNBits MatMulBnb4", products.packed_rule),
    **_all(MICROSOFT, "SkipLayerNormalization SkipSimplifiedLayerNormalization", transformer.skip_layer_normalisation),
    **_all(MICROSOFT, "EmbedLayerNormalization", transformer.embed_layer_normalisation),
    **_all(MICROSOFT, "Attention", transformer.attention),
    **_all(MICROSOFT, "QAttention", transformer.quantised_attention),
    **_all(MICROSOFT, "MultiHeadAttention", transformer.multi_head_attention),
    **_all(MICROSOFT, "GroupQueryAttention", transformer.group_query_attention),
    **_all(MICROSOFT, "DynamicQuantizeLSTM", transformer.recurrent),
    # ONNX Runtime saves its own forms of these in the default domain, whatever the opset.
    **_all("", "LayerNormalization SimplifiedLayerNormalization", transformer.layer_normalisation),
    **_all("", "FusedConv", windows.convolution),
    **_all("", "MaxPool AveragePool LpPool", windows.pooling),
    **_all("", "ConvTranspose", windows.transposed_convolution),
}
"""Rule by (domain, operator)."""

BETTER_THAN_ONNX = frozenset({"MaxPool", "AveragePool", "LpPool", "ConvTranspose"})
"""Standard operators whose rule here comes before onnx's.

Under `ceil_mode` onnx counts a last window that starts in the trailing padding, which no run produces; of a transposed
convolution it adds `output_padding` to an output that `auto_pad` has fixed.
"""
