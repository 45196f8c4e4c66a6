"""The operator graph: what a network computes, without any notion of hardware or time.

Orientation: M = outputs (crossbar columns), N = inputs (crossbar rows), as in the source paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

BITS_OF_DTYPE: Mapping[str, int] = {
    "bool": 8,
    "int2": 2,
    "uint2": 2,
    "float4e2m1": 4,
    "float6e2m3": 6,
    "float6e3m2": 6,
    "int4": 4,
    "uint4": 4,
    "int8": 8,
    "uint8": 8,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
    "int16": 16,
    "uint16": 16,
    "float16": 16,
    "bfloat16": 16,
    "int32": 32,
    "uint32": 32,
    "float32": 32,
    "int64": 64,
    "uint64": 64,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
    "string": 64,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph: its type and shape, never its data.

    Attributes
    ----------
    name : str
        Name in the ONNX graph; unique.
    dtype : str
        A key of `BITS_OF_DTYPE`.
    shape : tuple of int
        All dimensions are known and not negative.
    constant : bool
        True for weights, scales and everything else known before inference.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool = False

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Packed size in bytes, rounded up."""
        return -(-self.elements * BITS_OF_DTYPE[self.dtype] // 8)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The second product of a recurrent operator, whose vectors are known one step after another.

    Its matrix has the outputs of the `MatrixWork` it belongs to, for each group, and is multiplied with as many
    vectors.

    Attributes
    ----------
    inputs : int
        N, inputs of the recurrent weight matrix: the hidden size.
    steps : int
        Steps that wait for each other.
    rounds_per_step : int
        Products with gates behind them in one step, one after another: 2 for a GRU that resets before it multiplies.
    """

    inputs: int
    steps: int
    rounds_per_step: int = 1

    @property
    def rounds(self) -> int:
        """Products with gates behind them in one inference, one after another."""
        return self.steps * self.rounds_per_step


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """An operator lowered to matrix-vector multiplications (MVMs).

    Attributes
    ----------
    outputs : int
        M, outputs of one weight matrix (crossbar columns), per group.
    inputs : int
        N, inputs of one weight matrix (crossbar rows), per group.
    mvms : int
        N_mvm, input vectors each group is multiplied with in one inference.
    groups : int
        Independent matrices of this size (grouped or depthwise convolution, batched MatMul).
    stationary : {"constant", "activation"}
        Whether the matrix is known before inference (weights) or computed during it.
    recurrence : Recurrence or None
        The recurrent product of an LSTM, GRU or RNN; the fields above are then its input product. Groups are the
        directions.
    """

    outputs: int
    inputs: int
    mvms: int
    groups: int = 1
    stationary: Literal["constant", "activation"] = "constant"
    recurrence: Recurrence | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulate operations in one inference."""
        return self.weights * self.mvms

    @property
    def weights(self) -> int:
        """Elements of the stationary operand, all groups."""
        recurrent = 0 if self.recurrence is None else self.recurrence.inputs
        return self.outputs * (self.inputs + recurrent) * self.groups

    @property
    def products(self) -> tuple[MatrixWork, ...]:
        """The products it is made of, each without recurrence: one, or the input product and the recurrent one."""
        if self.recurrence is None:
            return (self,)
        first = replace(self, recurrence=None)
        return first, replace(first, inputs=self.recurrence.inputs)


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of the graph.

    Attributes
    ----------
    name : str
        Unique in the graph; made from the first output where the model gives none.
    op_type, domain : str
        As in ONNX; the default domain is the empty string.
    inputs, outputs : tuple of str
        Tensor names in ONNX order; absent optional ones are left out.
    work : MatrixWork or None
        The lowering, where the operator is matrix work.
    no_work_reason : str
        Why there is no lowering, or why the lowering is not weight-stationary; empty where there is nothing to say.
    view : bool
        True if the operator only renames data (Reshape, Flatten, Squeeze, Unsqueeze, Identity).
    weight_input : str
        Name of the stationary tensor; empty without matrix work.
    unlowered : bool
        True if it does, or may do, matrix work that has no lowering: fused attention, control flow around products,
        an operator of an unknown domain.
    body_weight_bytes : int
        Constants inside its subgraphs (If, Loop, Scan); they are not planned.
    file_nodes : tuple of str
        Names of the nodes of the user's file that it stands for, where the graph was optimised; empty otherwise and
        for what the optimiser added.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    work: MatrixWork | None = None
    no_work_reason: str = ""
    view: bool = False
    weight_input: str = ""
    unlowered: bool = False
    body_weight_bytes: int = 0
    file_nodes: tuple[str, ...] = ()

    @property
    def one_product(self) -> MatrixWork | None:
        """Its matrix work where that is one product with something to multiply; recurrent work is more than one."""
        work = self.work
        return work if work is not None and work.recurrence is None and work.macs > 0 else None


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that flow between two operators.

    Attributes
    ----------
    source, target : int
        Indices into `OperatorGraph.operators`; source < target.
    tensors : tuple of str
        The tensors that flow, each once.
    size_bytes : int
        Their sizes added up.
    """

    source: int
    target: int
    tensors: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class OperatorGraph:
    """A network as operators in topological order.

    Attributes
    ----------
    name : str
        Name of the model.
    operators : tuple of Operator
        Topologically ordered, ties as in the file: the same file gives the same order.
    tensors : mapping of str to Tensor
        Every tensor an operator names.
    inputs, outputs : tuple of str
        The graph's own inputs (without initializers) and outputs.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """One edge per pair of operators between which data flow, sorted by (source, target)."""
        producer = {tensor: index for index, op in enumerate(self.operators) for tensor in op.outputs}
        flows: dict[tuple[int, int], dict[str, None]] = {}
        for target, op in enumerate(self.operators):
            for tensor in op.inputs:
                source = producer.get(tensor)
                if source is not None:
                    flows.setdefault((source, target), {})[tensor] = None
        return tuple(
            Edge(source, target, tuple(names), sum(self.tensors[name].size_bytes for name in names))
            for (source, target), names in sorted(flows.items())
        )

    def activation_inputs(self, op: Operator) -> tuple[Tensor, ...]:
        """Tensors an operator reads that are computed during inference, each once."""
        return tuple(self.tensors[name] for name in dict.fromkeys(op.inputs) if not self.tensors[name].constant)

    def activation_outputs(self, op: Operator) -> tuple[Tensor, ...]:
        """Tensors an operator writes."""
        return tuple(self.tensors[name] for name in op.outputs)

    def weight_bytes(self, op: Operator) -> int:
        """Bytes of the constants an operator reads."""
        constants = (self.tensors[name] for name in dict.fromkeys(op.inputs))
        return sum(tensor.size_bytes for tensor in constants if tensor.constant)

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of what the file stores, each tensor once, however many operators read it; with subgraphs' constants.

        What operators make of constants is not stored; a Constant node's tensor is.
        """
        made = {name for op in self.operators if op.op_type != "Constant" for name in op.outputs}
        stored = (tensor for name, tensor in self.tensors.items() if tensor.constant and name not in made)
        return sum(tensor.size_bytes for tensor in stored) + sum(op.body_weight_bytes for op in self.operators)
