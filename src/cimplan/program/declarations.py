"""The head of a program: whether it fits the chip and its declarations make sense."""

from __future__ import annotations

from collections.abc import Callable

from cimplan.hardware.schema import DualModeChip
from cimplan.program.coverage import Products
from cimplan.program.language import OperatorDecl, Program, TensorDecl
from cimplan.program.printer import quote
from cimplan.program.state import OperatorState, TensorState
from cimplan.program.violations import Rule

Report = Callable[[int, Rule, str, int], None]


def check_chip(program: Program, chip: DualModeChip, report: Report) -> None:
    """Compare what the program assumes of the chip with the chip."""
    facts = program.chip
    for name in ("arrays", "rows", "columns", "columns_per_weight", "array_bytes"):
        assumed, real = getattr(facts, name), getattr(chip, name)
        if assumed != real:
            report(facts.line, "chip", f"the program is for a chip with {name} {assumed}, and this one has {real}", 0)


def declared(program: Program, report: Report) -> tuple[dict[str, TensorState], dict[str, OperatorState]]:
    """Return the state of all tensors and operators at the start, and report declarations that contradict others."""
    tensors: dict[str, TensorState] = {}
    for tensor in program.tensors:
        if tensor.name in tensors:
            before = tensors[tensor.name].decl.line
            report(tensor.line, "declaration", f"tensor {quote(tensor.name)} is declared twice", before)
            continue
        state = TensorState(tensor)
        if tensor.kind in ("input", "constant"):
            state.main.add(0, tensor.size_bytes)
        tensors[tensor.name] = state
    operators: dict[str, OperatorState] = {}
    for operator in program.operators:
        if operator.name in operators:
            before = operators[operator.name].decl.line
            report(operator.line, "declaration", f"operator {quote(operator.name)} is declared twice", before)
            continue
        if min(operator.inputs, operator.outputs, operator.groups, operator.mvms) < 1:
            report(operator.line, "declaration", f"operator {quote(operator.name)} has a size of 0", 0)
            continue
        _check_tensors(operator, tensors, report)
        products = Products(operator.inputs, operator.groups * operator.outputs)
        operators[operator.name] = OperatorState(operator, products)
    for state in tensors.values():
        if state.decl.kind in ("value", "output") and state.maker is None:
            name = quote(state.decl.name)
            report(state.decl.line, "declaration", f"no operator writes tensor {name}", 0)
    return tensors, operators


def _check_tensors(operator: OperatorDecl, tensors: dict[str, TensorState], report: Report) -> None:
    """Look at the tensors an operator names, and note it as the maker of its result."""
    name, line = quote(operator.name), operator.line
    used = (*operator.matrix, *operator.reads, *operator.adds)
    for tensor in dict.fromkeys((*used, operator.writes)):
        if tensor not in tensors:
            report(line, "declaration", f"operator {name} uses tensor {quote(tensor)}, which is not declared", 0)
    if not operator.matrix:
        report(line, "declaration", f"operator {name} has no matrix", 0)
    if not operator.reads:
        report(line, "declaration", f"operator {name} reads nothing", 0)
    if operator.writes in used:
        report(line, "declaration", f"operator {name} reads its own result", 0)
    constants = [tensor for tensor in operator.matrix if _kind(tensors, tensor) == "constant"]
    if constants and len(operator.matrix) > 1:
        report(line, "declaration", f"the matrix of {name} is a constant and something else", 0)
    result = tensors.get(operator.writes)
    if result is None:
        return
    if result.decl.kind in ("input", "constant"):
        report(line, "declaration", f"operator {name} writes the {result.decl.kind} {quote(operator.writes)}", 0)
    elif result.maker is not None:
        before = result.maker
        report(line, "declaration", f"{quote(before.name)} and {name} both write {quote(operator.writes)}", before.line)
    else:
        result.maker = operator


def _kind(tensors: dict[str, TensorState], name: str) -> str:
    decl: TensorDecl | None = tensors[name].decl if name in tensors else None
    return decl.kind if decl is not None else ""
