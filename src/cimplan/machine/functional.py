"""A functional model of a dual-mode chip: run a program on numbers and compare with ONNX Runtime.

Every array holds the numbers its `CIM.write_xb` put there, and a product is what the arrays of its `CIM.read_xb`
make of it: each tile multiplies its inputs, copies share the vectors, tiles and segments add up. Whatever rides along
with a matrix operator runs on the host. Arithmetic is that of the network's own numbers, in double precision: the
model has no converters and no noise.

Where data lie is not simulated here: that is what `cimplan.program.verifier` proves, and a program that it refuses is
not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from cimplan.errors import InputError, NoAnswerError
from cimplan.graph.operators import Operator
from cimplan.graph.read import graph_from_model
from cimplan.hardware.schema import DualModeChip
from cimplan.machine.lowered import Lowering, held_matrix, lowering, require_known
from cimplan.machine.values import NetworkValues
from cimplan.program.language import Box, Multiply, OperatorDecl, Program, WriteMatrix
from cimplan.program.tiling import tiles_of_box
from cimplan.program.verifier import verify

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Simulation:
    """What a program computed, beside what ONNX Runtime computes.

    Attributes
    ----------
    outputs, reference : mapping of str to array
        Outputs of the network: from the program, and from ONNX Runtime without graph optimisations.
    """

    outputs: Mapping[str, Values]
    reference: Mapping[str, Values]

    def differences(self) -> dict[str, float]:
        """Return for each output the largest difference as a share of the largest value of the reference."""
        shares = {}
        for name, expected in self.reference.items():
            largest = float(np.max(np.abs(expected), initial=0.0))
            difference = np.abs(self.outputs[name].astype(np.float64) - expected.astype(np.float64))
            shares[name] = float(np.max(difference, initial=0.0)) / (largest or 1.0)
        return shares

    def agrees(self, tolerance: float = 1e-4) -> bool:
        """Whether no output differs by more than a share of its largest value."""
        return all(share <= tolerance for share in self.differences().values())


def simulate(program: Program, chip: DualModeChip, model: onnx.ModelProto, inputs: Mapping[str, Values]) -> Simulation:
    """Run a program on numbers.

    Parameters
    ----------
    program : Program
        Compiled from this model.
    chip : DualModeChip
        The chip.
    model : onnx.ModelProto
        The network with its weights. Its matrix operators must be Conv, Gemm or MatMul.
    inputs : mapping of str to array
        A value for every input of the network.

    Raises
    ------
    NoAnswerError
        If the verifier refuses the program, or it is not a program of this network.
    InputError
        If an input is missing, or the machine does not compute one of the operators.
    """
    verify(program, chip).require_ok()
    missing = {entry.name for entry in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    missing -= set(inputs)
    if missing:
        raise InputError(f"no value is given for input {min(missing)!r}")
    machine = _Machine(program, chip, model, inputs)
    machine.run()
    outputs = {entry.name: machine.values.get(entry.name) for entry in model.graph.output}
    return Simulation(outputs, _reference(model, inputs))


@dataclass
class _Work:
    """An operator that the arrays are computing."""

    decl: OperatorDecl
    operator: Operator
    weights_left: int
    lowering: Lowering | None = None
    matrix: Values | None = None
    products: Values | None = None


class _Machine:
    """Arrays with numbers in them."""

    def __init__(
        self, program: Program, chip: DualModeChip, model: onnx.ModelProto, inputs: Mapping[str, Values]
    ) -> None:
        self.program = program
        self.chip = chip
        operators = {operator.name: operator for operator in graph_from_model(model).operators}
        self.works: dict[str, _Work] = {}
        for decl in program.operators:
            operator = operators.get(decl.name)
            if operator is None or operator.work is None:
                raise NoAnswerError(
                    "the program is not one of this network", why=f"the network has no matrix operator {decl.name!r}"
                )
            work = operator.work
            if (work.inputs, work.outputs, work.groups, work.mvms) != (
                decl.inputs,
                decl.outputs,
                decl.groups,
                decl.mvms,
            ):
                raise NoAnswerError(
                    "the program is not one of this network", why=f"{decl.name!r} has another size there"
                )
            self.works[decl.name] = _Work(decl, operator, decl.inputs * decl.outputs * decl.groups)
        products = frozenset(work.operator.outputs[0] for work in self.works.values())
        self.values = NetworkValues(model, inputs, products)
        for checked in self.works.values():
            require_known(*self._node(checked))
        self.tiles: list[tuple[Box, Values] | None] = [None] * chip.arrays

    def run(self) -> None:
        """Run all segments."""
        for segment in self.program.segments:
            for statement in segment.prepare:
                if isinstance(statement, WriteMatrix):
                    self._write(statement)
            for stage in segment.stages:
                for step in stage.body:
                    if isinstance(step, WriteMatrix):
                        self._write(step)
                    elif isinstance(step, Multiply):
                        self._multiply(step)

    def _matrix(self, work: _Work) -> Values:
        if work.matrix is None:
            node, weight = self._node(work)
            held = held_matrix(node, self.values.get(work.operator.weight_input), weight)
            work.matrix = held.astype(np.float64)
        return work.matrix

    def _node(self, work: _Work) -> tuple[onnx.NodeProto, int]:
        """Return the node of an operator and which of its inputs the arrays hold."""
        node = self.values.node_of(work.operator.outputs[0])
        return node, list(node.input).index(work.operator.weight_input)

    def _lowering(self, work: _Work) -> Lowering:
        node, weight = self._node(work)
        return lowering(node, [self.values.get(name) if name else None for name in node.input], weight)

    def _boxes(self, boxes: tuple[Box, ...]) -> list[Box]:
        return [
            tile
            for box in boxes
            for tile in tiles_of_box(box, self.chip.rows, self.chip.weight_columns, self.program.packing)
        ]

    def _write(self, statement: WriteMatrix) -> None:
        matrix = self._matrix(self.works[statement.tiles.operator])
        tiles = self._boxes(statement.tiles.boxes)
        for number, array in enumerate(statement.arrays):
            tile = tiles[number % len(tiles)]
            self.tiles[array] = (tile, matrix[tuple(slice(*part) for part in (tile.groups, tile.inputs, tile.outputs))])

    def _multiply(self, statement: Multiply) -> None:
        work = self.works[statement.tiles.operator]
        if work.lowering is None:
            work.lowering = self._lowering(work)
        vectors = work.lowering.vectors()
        if work.products is None:
            work.products = np.zeros((work.decl.groups, work.decl.outputs, work.decl.mvms))
        arrays = list(statement.arrays)
        needed = len(self._boxes(statement.tiles.boxes))
        for number, array in enumerate(arrays):
            held = self.tiles[array]
            if held is None:
                raise NoAnswerError(f"array {array} multiplies and holds no weights")
            tile, weights = held
            # Copies of a tile take turns of equal length.
            copies = len(range(number % needed, len(arrays), needed))
            copy = number // needed
            turn = slice(work.decl.mvms * copy // copies, work.decl.mvms * (copy + 1) // copies)
            groups, outputs = slice(*tile.groups), slice(*tile.outputs)
            entering = vectors[groups, slice(*tile.inputs), turn].astype(np.float64)
            work.products[groups, outputs, turn] += weights.transpose(0, 2, 1) @ entering
        work.weights_left -= sum(box.weights for box in statement.tiles.boxes)
        if work.weights_left == 0:
            node, _ = self._node(work)
            result = work.lowering.result(work.products)
            self.values.put(work.operator.outputs[0], result.astype(self.values.get(node.input[0]).dtype))
            work.lowering = work.matrix = work.products = None


def _reference(model: onnx.ModelProto, inputs: Mapping[str, Values]) -> dict[str, Values]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in model.graph.output]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
