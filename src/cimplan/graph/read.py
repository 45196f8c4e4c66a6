"""From an ONNX file or model to the operator graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError
from cimplan.graph.attention import split_attention
from cimplan.graph.binding import bind_inputs
from cimplan.graph.bodies import body_of
from cimplan.graph.bounds import check_sizes
from cimplan.graph.expansion import require_bounded_functions
from cimplan.graph.external import check_external_data, small_external_value
from cimplan.graph.lowering import FROM_CONSTANTS, NO_PRODUCT, lower
from cimplan.graph.nodes import NodeView, RuleError, TensorType, captured_names, domain_of, dtype_name, words
from cimplan.graph.operators import BITS_OF_DTYPE, Operator, OperatorGraph, Tensor
from cimplan.graph.shapes import ONLY_TENSORS, WITHOUT_SEQUENCES, ShapeInference, whole_declarations
from cimplan.graph.skim import read_skeleton, without_weights
from cimplan.graph.structure import a_cycle, topological_order, unique_names

if TYPE_CHECKING:
    import numpy as np
    import onnx

    ExternalReader = Callable[[onnx.TensorProto], "np.ndarray[Any, Any] | None"]

_NO_SHAPES: Mapping[str, tuple[int, ...]] = {}
_NO_VALUES: Mapping[str, np.ndarray[Any, Any]] = {}
_NO_RECORD: Mapping[str, tuple[str, tuple[int, ...]]] = {}
_MOST_ELEMENTS = 2**50
"""Of a tensor: a petabyte of bytes; what is computed from larger ones only overflows."""
_OPSETS_NEEDED = 3  # since this version of the format a model must import its operator sets
_NOT_ONNX_FIX = "Check the file with onnx.checker.check_model, or export the model again"
# Operators without inputs, or with constant inputs, whose result still differs from run to run.
RANDOM = frozenset(words("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Dropout"))


def read_graph(
    path: Path,
    *,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Mapping[str, np.ndarray[Any, Any]] = _NO_VALUES,
    recorded: Mapping[str, tuple[str, tuple[int, ...]]] = _NO_RECORD,
    where: str = "",
    split: bool = False,
) -> OperatorGraph:
    """Read an ONNX file as an operator graph, without its weights.

    Every node of the file is one operator, Constant nodes included; calls of functions the model itself defines are
    replaced by the functions' nodes. Weight data are never read, whatever the size of the file, and external data
    files are opened only for a small tensor that decides a shape. The file is not changed.

    Parameters
    ----------
    path : Path
        The model.
    shapes : mapping of str to tuple of int
        Shapes of inputs the model leaves open. A named dimension set for one input is set for all.
    values : mapping of str to array
        Values of inputs on which shapes depend.
    recorded : mapping of str to (str, tuple of int)
        Element type and shape of tensors known from a run; they come before inference.
    where : str
        What errors call the model; its path if left out.
    split : bool
        Write fused attention in two (`cimplan.graph.attention`), so that its projection is an operator of its own, as
        it is when the model is measured.

    Returns
    -------
    OperatorGraph
        The network with complete shapes.

    Raises
    ------
    InputError
        If the file is no ONNX model, is not well formed, or leaves a shape open.
    """
    model = read_skeleton(path)
    check_external_data(all_tensors(model.graph), path)
    return _graph_from_skeleton(
        model,
        path.stem,
        where or str(path),
        shapes,
        values,
        recorded,
        lambda tensor: small_external_value(tensor, path),
        split=split,
    )


def inputs_of(path: Path) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model, without initializers that it lists among them.

    Raises
    ------
    InputError
        If the file is no ONNX model.
    """
    graph = read_skeleton(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in constants]


def graph_from_model(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES,
    values: Mapping[str, np.ndarray[Any, Any]] = _NO_VALUES,
    recorded: Mapping[str, tuple[str, tuple[int, ...]]] = _NO_RECORD,
) -> OperatorGraph:
    """Read a model in memory as an operator graph; as `read_graph`. The model is not changed.

    Parameters
    ----------
    model : onnx.ModelProto
        The model, with or without weight data; it may exceed 2 GB.
    shapes, values, recorded
        As for `read_graph`.

    Raises
    ------
    InputError
        If the model is not well formed or leaves a shape open.
    """
    name = str(model.graph.name) or "model"
    return _graph_from_skeleton(without_weights(model), name, name, shapes, values, recorded, lambda _: None)


def _graph_from_skeleton(
    model: onnx.ModelProto,
    name: str,
    where: str,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray[Any, Any]],
    recorded: Mapping[str, tuple[str, tuple[int, ...]]],
    external: ExternalReader,
    *,
    split: bool = False,
) -> OperatorGraph:
    require_readable(model, where)
    model = _inlined(model, where)
    if split:
        split_attention(model)
    return _Reader(model, name, where).graph(shapes, values, recorded, external)


def require_readable(model: onnx.ModelProto, where: str) -> None:
    """Refuse a model whose names are no text, or whose functions expand without bounds: before anybody opens it.

    Raises
    ------
    InputError
        Says which of the two.
    """
    # The protobuf library hands out bytes where a text field does not hold UTF-8.
    if not all(isinstance(text, str) for text in _texts(model)):
        raise InputError("is not an ONNX model", where=where, why="a name in it is not UTF-8 text", fix=_NOT_ONNX_FIX)
    if model.functions:
        require_bounded_functions(model, where)


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """Yield every name of a model that reading looks at."""
    for opset in model.opset_import:
        yield opset.domain
    yield model.graph.name
    yield from _texts_of(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from _texts_of_nodes(function.node)


def _texts_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _texts_of(attribute.g)
            for subgraph in attribute.graphs:
                yield from _texts_of(subgraph)


def _texts_of(graph: onnx.GraphProto) -> Iterator[object]:
    yield from _texts_of_nodes(graph.node)
    for value in itertools.chain(graph.input, graph.output, graph.value_info):
        yield value.name
        for dim in value.type.tensor_type.shape.dim:
            yield dim.dim_param
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name


def _inlined(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Replace calls of the model's own functions by the functions' nodes."""
    if not model.functions:
        return model
    from onnx import inliner
    from onnx.checker import ValidationError

    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, ValidationError) as error:
        raise InputError(
            "the functions the model defines cannot be expanded", where=where, why=str(error)[:200], fix=_NOT_ONNX_FIX
        ) from error


def all_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a graph: initializers, and those in attributes and subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from all_tensors(attribute.g)
            for subgraph in attribute.graphs:
                yield from all_tensors(subgraph)


class _Reader:
    """Checks the structure of one model, then gives every tensor a type and every node its lowering."""

    def __init__(self, model: onnx.ModelProto, name: str, where: str) -> None:
        graph = model.graph
        if not graph.node:
            raise InputError(
                "holds no operators",
                where=where,
                why="it is empty or not an ONNX model",
                fix="Give a model in the binary ONNX format, such as model.onnx",
            )
        self.name = name
        self.where = where
        self.opsets: dict[str, int] = {}
        for opset in model.opset_import:
            domain = "" if opset.domain == "ai.onnx" else opset.domain
            self.opsets[domain] = max(1, min(opset.version, 2**31 - 1))
        if "" not in self.opsets and model.ir_version >= _OPSETS_NEEDED and any(not node.domain for node in graph.node):
            raise self._malformed("does not say which version of the ONNX operators it uses", "")
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        constants = self.initializers.keys() | self.sparse.keys()
        if len(constants) < len(graph.initializer) + len(graph.sparse_initializer):
            raise self._malformed("two initializers have the same name", "")
        # Before version 4 of the format every initializer is listed among the inputs too.
        self.inputs = [value for value in graph.input if value.name not in constants]
        self.outputs = [value.name for value in graph.output]
        for value in graph.output:
            kind = value.type.WhichOneof("value")
            if kind not in (None, "tensor_type"):
                what = kind.removesuffix("_type").replace("_", " ")
                raise InputError(
                    f"the output {value.name!r} is not a tensor but of the type {what}",
                    where=where,
                    why=ONLY_TENSORS,
                    fix=WITHOUT_SEQUENCES,
                )
        self.declarations = [*graph.value_info, *graph.output]
        nodes = list(graph.node)
        names = unique_names([node.name or next(filter(None, node.output), "") for node in nodes], where)
        reads = [list(dict.fromkeys([*filter(None, node.input), *captured_names(node)])) for node in nodes]
        order = self._order(nodes, names, reads)
        self.nodes = [nodes[index] for index in order]
        self.names = [names[index] for index in order]
        self.reads = [reads[index] for index in order]

    def _order(
        self, nodes: Sequence[onnx.NodeProto], names: Sequence[str], reads: Sequence[Sequence[str]]
    ) -> list[int]:
        """Check that every tensor has one source, and return the nodes' indices in topological order."""
        given = itertools.chain(
            (value.name for value in self.inputs),
            self.initializers.keys() | self.sparse.keys(),
        )
        source: dict[str, int] = dict.fromkeys(given, -1)
        if len({value.name for value in self.inputs}) < len(self.inputs):
            raise self._malformed("two inputs have the same name", "")
        for index, node in enumerate(nodes):
            for output in filter(None, node.output):
                if output in source:
                    other = f"the node {names[source[output]]!r}" if source[output] >= 0 else "an input or initializer"
                    raise self._malformed(f"the tensor {output!r} is made twice", names[index], f"{other} gives it too")
                source[output] = index
        successors: list[list[int]] = [[] for _ in nodes]
        for index, wanted in enumerate(reads):
            for tensor in wanted:
                maker = source.get(tensor)
                if maker is None:
                    raise self._malformed(f"reads the tensor {tensor!r}, which nothing makes", names[index])
                if maker >= 0:
                    successors[maker].append(index)
        for output in self.outputs:
            if output not in source:
                raise self._malformed(f"the output {output!r} is made by nothing", "")
        order = topological_order(successors)
        if len(order) < len(nodes):
            cycle = [names[index] for index in a_cycle(successors, order)]
            shown = " -> ".join([*cycle[:5], *(["…"] if len(cycle) > 5 else []), cycle[0]])
            raise self._malformed("the graph has a cycle", "", shown)
        return order

    def _malformed(self, what: str, node: str, why: str = "") -> InputError:
        where = f"{self.where}: node {node!r}" if node else self.where
        return InputError(what, where=where, why=why, fix=_NOT_ONNX_FIX)

    def graph(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, np.ndarray[Any, Any]],
        recorded: Mapping[str, tuple[str, tuple[int, ...]]],
        external: ExternalReader,
    ) -> OperatorGraph:
        """Return the operator graph."""
        known = {name: TensorType(dtype, tuple(shape)) for name, (dtype, shape) in recorded.items()}
        bound, sizes = bind_inputs(self.inputs, shapes, known, self.where)
        types = bound | self._constant_types()
        needed = frozenset(itertools.chain(self.outputs, *self.reads))
        types = ShapeInference(
            self.nodes,
            self.names,
            types,
            self.initializers,
            known,
            whole_declarations(self.declarations, sizes),
            self.opsets,
            needed,
            self.where,
            external,
            given_values=values,
        ).run()
        constants = self._constants()
        operators = [
            self._operator(node, name, reads, types, constants)
            for node, name, reads in zip(self.nodes, self.names, self.reads, strict=True)
        ]
        named = dict.fromkeys(
            itertools.chain(
                bound,
                itertools.chain.from_iterable((*operator.inputs, *operator.outputs) for operator in operators),
                self.outputs,
            )
        )
        found = OperatorGraph(
            name=self.name,
            operators=tuple(operators),
            tensors={name: self._tensor(name, types[name], name in constants) for name in named},
            inputs=tuple(value.name for value in self.inputs),
            outputs=tuple(self.outputs),
        )
        check_sizes(found, self.where)
        return found

    def _constant_types(self) -> dict[str, TensorType]:
        """Return the types of the initializers."""
        types: dict[str, TensorType] = {}
        entries: Iterable[tuple[str, int, Sequence[int]]] = itertools.chain(
            ((name, tensor.data_type, tensor.dims) for name, tensor in self.initializers.items()),
            ((name, sparse.values.data_type, sparse.dims) for name, sparse in self.sparse.items()),
        )
        for name, code, dims in entries:
            try:
                types[name] = TensorType(dtype_name(code), tuple(dims))
            except RuleError as error:
                raise self._malformed(f"the initializer {name!r} {error}", "") from error
            if any(size < 0 for size in dims):
                raise self._malformed(f"the initializer {name!r} has a negative size", "")
        return types

    def _constants(self) -> set[str]:
        """Return the tensors known before inference: initializers, Constant nodes, and what follows from them alone.

        A node fed by constants only still is an operator, because ONNX Runtime executes it in every inference.
        """
        constants = self.initializers.keys() | self.sparse.keys()
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if node.op_type in RANDOM or not (reads or node.op_type == "Constant"):
                continue
            if all(name in constants for name in reads):
                constants.update(filter(None, node.output))
        return constants

    def _operator(
        self,
        node: onnx.NodeProto,
        name: str,
        reads: Sequence[str],
        types: Mapping[str, TensorType],
        constants: set[str],
    ) -> Operator:
        view = NodeView(node, types.get)
        output = next((types.get(made) for made in node.output if made), None)
        try:
            lowered = lower(view, output, lambda index: view.has_input(index) and node.input[index] in constants)
        except RuleError as error:
            raise self._malformed(f"the node {error}", name) from error
        reason = lowered.reason
        if reason == NO_PRODUCT and node.output and all(made in constants for made in node.output if made):
            reason = FROM_CONSTANTS
        inside = body_of(node)
        unlowered = lowered.unlowered
        if inside is not None:
            unlowered = bool(inside.products)
            reason += inside.remark
        return Operator(
            name=name,
            op_type=node.op_type,
            domain=domain_of(node),
            inputs=tuple(filter(None, [*node.input, *(read for read in reads if read not in node.input)])),
            outputs=tuple(output for output in node.output if output in types),
            work=lowered.work,
            no_work_reason=reason,
            view=lowered.view,
            weight_input=lowered.weight_input,
            unlowered=unlowered,
            body_weight_bytes=0 if inside is None else inside.weight_bytes,
        )

    def _tensor(self, name: str, kind: TensorType, constant: bool) -> Tensor:
        if kind.dtype not in BITS_OF_DTYPE:
            raise self._malformed(f"the tensor {name!r} has the unknown element type {kind.dtype!r}", "")
        tensor = Tensor(name, kind.dtype, kind.shape, constant)
        if tensor.elements > _MOST_ELEMENTS:
            raise InputError(
                f"the tensor {name!r} is larger than any machine holds",
                where=self.where,
                why=f"its shape is {'x'.join(map(str, kind.shape))[:200]}",
                fix="Check the shapes of the model, or give another one with --shape",
            )
        return tensor
