"""The declarations of a plan's program: which tensors there are, and what each operator reads and writes.

A plan knows operators and how many bytes flow; tensors get names here. The result of an operator has the operator's
name. What no operator of the plan makes, such as the network's input or the keys and values of earlier tokens, is an
input.
"""

from __future__ import annotations

from dataclasses import dataclass

from cimplan.plan.dual_mode import NETWORK, DualModePlan, MatrixOperator
from cimplan.program.language import OperatorDecl, TensorDecl, TensorKind


@dataclass(frozen=True)
class Names:
    """The declarations of a program.

    Attributes
    ----------
    tensors : tuple of TensorDecl
        Inputs, constants and results.
    operators : tuple of OperatorDecl
        In the order of the plan.
    sizes : dict of str to int
        Bytes of each tensor.
    constants : frozenset of str
        Names of the constants.
    readers : dict of str to tuple of int
        Operators that read a tensor in any way, ascending.
    """

    tensors: tuple[TensorDecl, ...]
    operators: tuple[OperatorDecl, ...]
    sizes: dict[str, int]
    constants: frozenset[str]
    readers: dict[str, tuple[int, ...]]


def declare(plan: DualModePlan) -> Names:
    """Return the declarations of a plan's program."""
    drafting = _Drafting(plan)
    operators = tuple(drafting.operator(index, op) for index, op in enumerate(plan.operators))
    readers: dict[str, list[int]] = {}
    for index, decl in enumerate(operators):
        for tensor in dict.fromkeys((*decl.reads, *decl.matrix, *decl.adds)):
            readers.setdefault(tensor, []).append(index)
    tensors = tuple(TensorDecl(name, size, drafting.kinds[name]) for name, size in drafting.sizes.items())
    return Names(
        tensors=tensors,
        operators=operators,
        sizes=drafting.sizes,
        constants=frozenset(name for name, kind in drafting.kinds.items() if kind == "constant"),
        readers={name: tuple(found) for name, found in readers.items()},
    )


class _Drafting:
    """Collects tensors while operators are declared."""

    def __init__(self, plan: DualModePlan) -> None:
        self.plan = plan
        self.sizes: dict[str, int] = {}
        self.kinds: dict[str, TensorKind] = {}
        self._inputs: dict[str, str] = {}
        read = {source for op in plan.operators for source in (*op.reads, *op.waits_for)}
        self._operator_names: list[str] = []
        self._results: list[str] = []
        taken: set[str] = set()
        for index, op in enumerate(plan.operators):
            name = op.name
            while name in taken:
                name += "'"
            taken.add(name)
            self._operator_names.append(name)
            leaves = op.leaves or index not in read
            self._results.append(self._tensor(name, op.output_bytes, "output" if leaves else "value"))

    def _tensor(self, name: str, size_bytes: int, kind: TensorKind) -> str:
        """Declare a tensor under a name that is still free."""
        while name in self.sizes:
            name += "'"
        self.sizes[name] = size_bytes
        self.kinds[name] = kind
        return name

    def operator(self, index: int, op: MatrixOperator) -> OperatorDecl:
        """Declare an operator and the inputs and weights it needs."""
        made = [source for source in op.reads if source != NETWORK]
        reads = [self._results[source] for source in made]
        if NETWORK in op.reads:
            outside = op.input_bytes - sum(self.plan.operators[source].output_bytes for source in made)
            if outside > 0 or not made:
                reads.append(self._input(op.operand or f"{op.name}.input", max(outside, 0)))
        others = [source for source in op.waits_for if source not in op.reads]
        if op.stationary == "constant":
            matrix = [self._tensor(f"{op.name}.weight", op.weight_bytes, "constant")]
        else:
            sources = others or made
            others = []
            matrix = [self._results[source] for source in sources]
            outside = op.weight_bytes - sum(self.plan.operators[source].output_bytes for source in sources)
            if outside > 0 or not matrix:
                matrix.append(self._input(f"{op.name}.matrix", max(outside, 0)))
        return OperatorDecl(
            name=self._operator_names[index],
            inputs=op.inputs,
            outputs=op.outputs,
            groups=op.groups,
            mvms=op.mvms,
            moved_bytes=op.input_bytes,
            matrix=tuple(matrix),
            reads=tuple(reads),
            adds=tuple(self._results[source] for source in others),
            writes=self._results[index],
        )

    def _input(self, name: str, size_bytes: int) -> str:
        """Declare an input of the network once; readers that count it differently make it as large as the largest."""
        known = self._inputs.get(name)
        if known is None:
            known = self._inputs[name] = self._tensor(name, size_bytes, "input")
        self.sizes[known] = max(self.sizes[known], size_bytes)
        return known
