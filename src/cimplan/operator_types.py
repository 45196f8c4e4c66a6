"""One table of ONNX operator types: how each becomes matrix work, whether it may be offloaded, what stays free.

It lies below `graph`, which turns a row into sizes, and `hardware`, whose descriptions name operator types. A type
that is not in the table is no matrix work. `docs/operators.md` is written from this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

MICROSOFT: Final = "com.microsoft"
NCHWC: Final = "com.microsoft.nchwc"
INTERNAL_NHWC: Final = "com.ms.internal.nhwc"
KNOWN_DOMAINS: Final = frozenset({"", "ai.onnx.ml", "ai.onnx.preview.training", MICROSOFT, NCHWC, INTERNAL_NHWC})
"""Domains whose operators are known; what an operator of another domain computes, nobody here knows."""

Lowering = Literal["convolution", "transposed convolution", "gemm", "matmul", "packed", "einsum", "recurrent", "none"]


@dataclass(frozen=True, slots=True)
class OperatorType:
    """One row of the table.

    Attributes
    ----------
    domain, name : str
        As in ONNX; the default domain is the empty string.
    lowering : str
        The rule that gives its matrix work; ``"none"`` for matrix work that is not lowered.
    data, weight : int
        Which inputs are the two operands.
    reason : str
        Why it is not lowered; empty otherwise.
    free : str
        What it also computes that is not charged when it runs on crossbars: work outside the array that the source
        paper pipelines with the products.
    """

    domain: str
    name: str
    lowering: Lowering
    data: int = 0
    weight: int = 1
    reason: str = ""
    free: str = ""

    @property
    def title(self) -> str:
        """Name with the domain before it."""
        return f"{self.domain}.{self.name}" if self.domain else self.name

    @property
    def offloadable(self) -> bool:
        """Whether it may run on crossbars, where its weights are constant."""
        return self.lowering != "none"


_BIAS = "bias"
_ACTIVATION = "bias, activation"
_REQUANTISED = "bias, requantisation"
_GATES = "nothing: its gates take gate_latency in every step"

CONTROL_FLOW: Final = "control flow: its subgraph runs on the host as one operator"
FUSED_ATTENTION: Final = (
    "fused attention: it multiplies activations with each other, so it runs on the host as one operator"
)
WHOLE_ATTENTION: Final = (
    "fused attention that cannot be split here (it keeps earlier keys, or its weights are not constant); otherwise its "
    "projection is planned as a product of its own"
)
EXPERTS: Final = "a mixture of experts: which weights it uses depends on the data"
DEFORMED: Final = "a deformable convolution: where it reads depends on the data"
IN_ATTRIBUTES: Final = "its weights are attributes of the node, where no array takes them from"
GENERATION: Final = "a search over a network inside it, which runs on the host as one operator"
NOT_LOWERED: Final = "its products are not lowered to matrix work"


def _rows(
    lowering: Lowering,
    names: str,
    domain: str = "",
    *,
    data: int = 0,
    weight: int = 1,
    reason: str = "",
    free: str = "",
) -> Iterator[OperatorType]:
    for name in names.split():
        yield OperatorType(domain, name, lowering, data, weight, reason, free)


def _all() -> Iterator[OperatorType]:
    yield from _rows("convolution", "Conv", free=_BIAS)
    yield from _rows("convolution", "FusedConv", free="bias, activation, sum")
    yield from _rows("convolution", "ConvInteger", free="zero points")
    yield from _rows("convolution", "QLinearConv", weight=3, free=_REQUANTISED)
    yield from _rows("convolution", "QLinearConv", MICROSOFT, weight=3, free=_REQUANTISED)
    yield from _rows("convolution", "FusedConv NhwcFusedConv", MICROSOFT, free="bias, activation, sum")
    yield from _rows("convolution", "NhwcConv", MICROSOFT, free=_BIAS)
    yield from _rows("convolution", "Conv", NCHWC, free="bias, activation, sum")
    yield from _rows("convolution", "Conv FusedConv", INTERNAL_NHWC, free=_ACTIVATION)
    yield from _rows("convolution", "ConvInteger", INTERNAL_NHWC, free="zero points")
    yield from _rows("convolution", "QLinearConv", INTERNAL_NHWC, weight=3, free=_REQUANTISED)
    overlap = "bias, sums where windows overlap"
    yield from _rows("transposed convolution", "ConvTranspose", free=overlap)
    yield from _rows("transposed convolution", "ConvTranspose", INTERNAL_NHWC, free=overlap)
    yield from _rows("transposed convolution", "ConvTransposeWithDynamicPads", MICROSOFT, free=overlap)
    for domain in (MICROSOFT, INTERNAL_NHWC):
        yield from _rows(
            "transposed convolution", "QLinearConvTranspose", domain, weight=3, free=f"{overlap}, requantisation"
        )
    yield from _rows("gemm", "Gemm", free=_BIAS)
    yield from _rows("gemm", "FusedGemm GemmFastGelu", MICROSOFT, free=_ACTIVATION)
    yield from _rows("gemm", "GemmFloat8", MICROSOFT, free="bias, activation, scales")
    yield from _rows("gemm", "QGemm", MICROSOFT, weight=3, free=_REQUANTISED)
    yield from _rows("matmul", "MatMul")
    yield from _rows("matmul", "MatMulInteger", free="zero points")
    yield from _rows("matmul", "QLinearMatMul", weight=3, free="requantisation")
    yield from _rows("matmul", "FusedMatMul TransposeMatMul", MICROSOFT, free="scale alpha")
    yield from _rows("matmul", "FusedMatMulActivation", MICROSOFT, free="scale alpha, activation")
    yield from _rows("matmul", "DynamicQuantizeMatMul", MICROSOFT, free="bias, quantisation of the input, scales")
    yield from _rows("matmul", "MatMulIntegerToFloat", MICROSOFT, free="bias, scales, zero points")
    yield from _rows("matmul", "MatMulInteger16", MICROSOFT)
    yield from _rows("packed", "MatMulNBits MatMulBnb4", MICROSOFT, free="bias, scales of the blocks")
    yield from _rows("einsum", "Einsum", free="order of the axes")
    yield from _rows("recurrent", "RNN LSTM GRU", free=_GATES)
    yield from _rows("recurrent", "DynamicQuantizeLSTM", MICROSOFT, free=_GATES)

    yield from _rows("none", "If Loop Scan SequenceMap", reason=CONTROL_FLOW)
    yield from _rows("none", "Attention", reason=FUSED_ATTENTION)
    yield from _rows(
        "none",
        "MultiHeadAttention GroupQueryAttention PackedAttention PackedMultiHeadAttention "
        "DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention SparseAttention PagedAttention "
        "LongformerAttention QOrderedAttention QOrderedLongformerAttention",
        MICROSOFT,
        reason=FUSED_ATTENTION,
    )
    yield from _rows("none", "Attention QAttention", MICROSOFT, reason=WHOLE_ATTENTION)
    yield from _rows("none", "MoE QMoE", MICROSOFT, reason=EXPERTS)
    yield from _rows("none", "DeformConv", reason=DEFORMED)
    yield from _rows("none", "LinearClassifier LinearRegressor", "ai.onnx.ml", reason=IN_ATTRIBUTES)
    yield from _rows("none", "BeamSearch WhisperBeamSearch GreedySearch Sampling", MICROSOFT, reason=GENERATION)
    yield from _rows(
        "none",
        "AttnLSTM QOrderedMatMul MatMulFpQ4 SparseToDenseMatMul WordConvEmbedding GatedRelativePositionBias "
        "CausalConvWithState LinearAttention",
        MICROSOFT,
        reason=NOT_LOWERED,
    )


TABLE: Final[Mapping[tuple[str, str], OperatorType]] = {(row.domain, row.name): row for row in _all()}
"""Row by (domain, name)."""

OFFLOADABLE: Final[tuple[str, ...]] = tuple(sorted({row.name for row in TABLE.values() if row.offloadable}))
"""Names, without domain, that a hardware description may list as supported."""
