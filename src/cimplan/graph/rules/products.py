"""Shapes of matrix products: Gemm, MatMul and their fused and quantised forms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cimplan.graph.nodes import NodeView, RuleError, TensorType, dtype_name
from cimplan.operator_types import TABLE


@dataclass(frozen=True, slots=True)
class Product:
    """A (batched) matrix product after all transpositions.

    Attributes
    ----------
    left, right : int
        Input indices of the operands.
    left_batch, right_batch, batch : tuple of int
        Leading dimensions of the operands, and broadcast.
    rows, inner, columns : int
        The product is (rows × inner) · (inner × columns).
    shape : tuple of int
        The result's shape.
    """

    left: int
    right: int
    left_batch: tuple[int, ...]
    right_batch: tuple[int, ...]
    batch: tuple[int, ...]
    rows: int
    inner: int
    columns: int
    shape: tuple[int, ...]

    @property
    def batch_size(self) -> int:
        """Number of matrix products."""
        return math.prod(self.batch)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to.

    Raises
    ------
    RuleError
        If they do not.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise RuleError(f"has inputs of shapes {', '.join(map(str, shapes))}, which do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def _operands(node: NodeView) -> tuple[int, int]:
    """Return which inputs are the two operands."""
    row = TABLE.get((node.domain, node.op_type))
    return (0, 1) if row is None else (row.data, row.weight)


def gemm(node: NodeView) -> Product:
    """Read a Gemm-like operator: two matrices, `transA`, `transB`.

    Raises
    ------
    RuleError
        If they do not fit.
    """
    left, right = _operands(node)
    a, b = node.shape(left), node.shape(right)
    if len(a) != 2 or len(b) != 2:
        raise RuleError(f"multiplies shapes {a} and {b}, which are not matrices")
    rows, inner = a[::-1] if node.integer("transA", 0) else a
    inner_b, columns = b[::-1] if node.integer("transB", 0) else b
    if inner != inner_b:
        raise RuleError(f"multiplies shapes {a} and {b}, which do not fit")
    return Product(left, right, (), (), (), rows, inner, columns, (rows, columns))


def matmul(node: NodeView) -> Product:
    """Read a MatMul-like operator: numpy's rules, and the transpositions of FusedMatMul.

    Raises
    ------
    RuleError
        If the operands do not fit.
    """
    left, right = _operands(node)
    a, b = node.shape(left), node.shape(right)
    if not a or not b:
        raise RuleError(f"multiplies shapes {a} and {b}, one of which is a scalar")
    full_a = (1, *a) if len(a) == 1 else _transposed(a, node, "A")
    full_b = (*b, 1) if len(b) == 1 else _transposed(b, node, "B")
    if full_a[-1] != full_b[-2]:
        raise RuleError(f"multiplies shapes {a} and {b}, which do not fit")
    batch = broadcast(full_a[:-2], full_b[:-2])
    rows, inner, columns = full_a[-2], full_a[-1], full_b[-1]
    shape = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    return Product(left, right, full_a[:-2], full_b[:-2], batch, rows, inner, columns, shape)


def _transposed(shape: tuple[int, ...], node: NodeView, operand: str) -> tuple[int, ...]:
    if node.integer(f"transBatch{operand}", 0) and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    if node.integer(f"trans{operand}", 0):
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def packed_product(node: NodeView) -> Product:
    """Read a product with block-quantised weights, whose true sizes K and N are attributes."""
    a = node.shape(0)
    inner, columns = node.integer("K"), node.integer("N")
    if not a or a[-1] != inner:
        raise RuleError(f"multiplies shape {a} with a weight of {inner} inputs")
    batch, rows = a[:-2], a[-2] if len(a) > 1 else 1
    return Product(0, 1, batch, (), batch, rows, inner, columns, (*a[:-1], columns))


def gemm_rule(node: NodeView) -> list[TensorType]:
    """Gemm and its fused forms."""
    return [TensorType(node.dtype(0), gemm(node).shape)]


def quantised_gemm_rule(node: NodeView) -> list[TensorType]:
    """QGemm: float output where no output scale is given."""
    dtype = "float32"
    if node.has_input(7):
        dtype = node.dtype(8) if node.has_input(8) else node.dtype(0)
    return [TensorType(dtype, gemm(node).shape)]


def float8_gemm_rule(node: NodeView) -> list[TensorType]:
    """GemmFloat8: the element type of the output is the attribute `dtype`, float unless given."""
    return [TensorType(dtype_name(node.integer("dtype", 1)), gemm(node).shape)]


def integer_matmul_rule(node: NodeView) -> list[TensorType]:
    """MatMulInteger16: sums of 32 bits, unsigned where both operands are."""
    signed = not (node.dtype(0).startswith("u") and node.dtype(1).startswith("u"))
    return [TensorType("int32" if signed else "uint32", matmul(node).shape)]


def matmul_rule(node: NodeView) -> list[TensorType]:
    """FusedMatMul and relatives."""
    return [TensorType(node.dtype(0), matmul(node).shape)]


def float_matmul_rule(node: NodeView) -> list[TensorType]:
    """Integer products with a float result: the type of the scale, input 2."""
    return [TensorType(node.dtype(2), matmul(node).shape)]


def packed_rule(node: NodeView) -> list[TensorType]:
    """MatMulNBits and relatives."""
    return [TensorType(node.dtype(0), packed_product(node).shape)]
