"""Complete static types of all tensors of a network.

Nodes are visited in topological order. Each output's type comes from the first source that knows it whole: a profile
run that recorded it; onnx's inference for this one node (helped by the values of small tensors, `folding`); the
own rules for ONNX Runtime's operators (`rules`); what the file declares. What the file declares comes last because
optimisers leave stale declarations behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cimplan.errors import InputError
from cimplan.graph.binding import declared
from cimplan.graph.folding import KnownValues, constant_type
from cimplan.graph.nodes import NodeView, RuleError, TensorType, captured_names, domain_of, dtype_code, dtype_name
from cimplan.graph.rules import BETTER_THAN_ONNX, RULES
from cimplan.graph.rules.windows import reorder_input
from cimplan.operator_types import INTERNAL_NHWC, NCHWC

if TYPE_CHECKING:
    import onnx

_SIZED_BY_FLOATS = frozenset({"Resize", "Upsample", "Range"})
_SIZED_BY_DATA = frozenset({"NonZero", "NonMaxSuppression", "Unique", "Compress", "StringSplit", "Loop"})
_DEFAULT_BLOCK = 16
_MISFIT = "does not fit its inputs"
_NO_RULE = "for which there is no shape rule"
ONLY_TENSORS = "only tensors can be planned"
WITHOUT_SEQUENCES = (
    "Export the model without it (skl2onnx: zipmap=False), or keep the part before it with onnx.utils.extract_model"
)


@dataclass
class ShapeInference:
    """One pass over a network.

    Attributes
    ----------
    nodes : sequence of onnx.NodeProto
        In topological order.
    names : sequence of str
        Their unique names, for errors.
    types : dict of str to TensorType
        Types of inputs and initializers; the pass adds all others.
    initializers : mapping of str to onnx.TensorProto
        The constants; large ones without payload.
    recorded, declared_types : mapping of str to TensorType
        Types from a run, and whole ones the file declares.
    opsets : mapping of str to int
        Version of each operator set.
    needed : frozenset of str
        Tensors that somebody reads. Others may stay without type.
    where : str
        The model, for errors.
    external : callable
        Reads a small tensor kept outside the model file, or gives None.
    outer_value : callable
        Gives the value of a small tensor of the graph around this one, or None.
    given_values : mapping of str to array
        Values of inputs that the user gave.
    """

    nodes: Sequence[onnx.NodeProto]
    names: Sequence[str]
    types: dict[str, TensorType]
    initializers: Mapping[str, onnx.TensorProto]
    recorded: Mapping[str, TensorType]
    declared_types: Mapping[str, TensorType]
    opsets: Mapping[str, int]
    needed: frozenset[str]
    where: str
    external: Callable[[onnx.TensorProto], np.ndarray[Any, Any] | None] = lambda _: None
    outer_value: Callable[[str], np.ndarray[Any, Any] | None] = lambda _: None
    given_values: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    _values: KnownValues = field(init=False)
    _schemas: dict[tuple[str, str], onnx.defs.OpSchema | None] = field(init=False, default_factory=dict)
    _imports: list[onnx.OperatorSetIdProto] = field(init=False)
    _consumers: dict[str, list[onnx.NodeProto]] = field(init=False)

    def __post_init__(self) -> None:
        from onnx import helper

        producers = {name: node for node in self.nodes for name in node.output if name}
        self._values = KnownValues(
            self.initializers,
            producers,
            self.types.get,
            self.opsets.get("", 1),
            self.external,
            self.outer_value,
            self.given_values,
        )
        self._imports = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        self._consumers = {}
        for node in self.nodes:
            if node.domain == NCHWC:
                for name in node.input:
                    self._consumers.setdefault(name, []).append(node)

    def run(self) -> dict[str, TensorType]:
        """Return the type of every tensor.

        Raises
        ------
        InputError
            If a needed tensor's shape cannot be found; names the node and says why.
        """
        for name, node in zip(self.names, self.nodes, strict=True):
            self._visit(name, node)
        return self.types

    def _visit(self, name: str, node: onnx.NodeProto) -> None:
        outputs = [output for output in node.output if output]
        found = {output: self.recorded[output] for output in outputs if output in self.recorded}
        why = ""
        if len(found) < len(outputs):
            try:
                inferred = self._infer(node)
            except RuleError as error:
                inferred, why = {}, str(error)
            for output in outputs:
                known = found.get(output) or inferred.get(output) or self.declared_types.get(output)
                if known is not None:
                    found[output] = known
        for output in outputs:
            if output in found:
                self.types[output] = found[output]
            elif output in self.needed:
                raise self._unknown(name, node, output, why)

    def _infer(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Return the whole types of a node's outputs, as far as they follow from its inputs."""
        domain = domain_of(node)
        if domain == "" and node.op_type == "Constant":
            return {node.output[0]: constant_type(node)} if node.output else {}
        view = NodeView(node, self.types.get, self._values.get)
        if domain == INTERNAL_NHWC:
            return self._infer_channels_last(node)
        if domain == "" and node.op_type in ("Loop", "If"):
            return self._infer_loop(node) if node.op_type == "Loop" else self._infer_if(node)
        schema = self._schema(node.op_type, domain)
        if schema is not None and not (domain == "" and node.op_type in BETTER_THAN_ONNX):
            return self._infer_by_schema(node, schema)
        rule = RULES.get((domain, node.op_type))
        if domain == NCHWC and node.op_type == "ReorderInput":
            rule = reorder_input(self._block)
        if rule is None:
            raise RuleError(f"is of the operator {_title(node)}, {_NO_RULE}")
        outputs = rule(view)
        return {name: known for name, known in zip(node.output, outputs, strict=False) if name}

    def _schema(self, op_type: str, domain: str) -> onnx.defs.OpSchema | None:
        from onnx import defs

        key = (domain, op_type)
        if key not in self._schemas:
            try:
                self._schemas[key] = defs.get_schema(op_type, self.opsets.get(domain, 1), domain)
            except defs.SchemaError:
                self._schemas[key] = None
        return self._schemas[key]

    def _infer_by_schema(
        self, node: onnx.NodeProto, schema: onnx.defs.OpSchema, types: Mapping[str, TensorType] | None = None
    ) -> dict[str, TensorType]:
        """Run onnx's inference on one node."""
        from onnx import helper, numpy_helper
        from onnx.checker import ValidationError
        from onnx.shape_inference import InferenceError, infer_node_outputs

        types = self.types if types is None else types
        input_types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name in [*node.input, *captured_names(node)]:
            if not name or name in input_types:
                continue
            known = types.get(name)
            if known is None:
                raise RuleError(f"has the input {name!r} of unknown shape")
            try:
                input_types[name] = helper.make_tensor_type_proto(dtype_code(known.dtype), known.shape)
            except ValueError as error:  # beyond 64 bits
                raise RuleError(f"has the input {name!r} of a size that no tensor can have") from error
            if len(known.shape) <= 1 and (known.dtype.startswith(("int", "bool")) or node.op_type in _SIZED_BY_FLOATS):
                value = self._values.get(name)
                if value is not None:
                    data[name] = numpy_helper.from_array(np.asarray(value), name)
        try:
            inferred = infer_node_outputs(schema, node, input_types, data, opset_imports=self._imports)
        except (InferenceError, ValidationError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise RuleError(f"{_MISFIT} ({_first_line(error)})") from error
        outputs = {name: _whole(kind) for name, kind in inferred.items()}
        if not all(outputs.get(name) for name in node.output if name):
            outputs |= self._infer_body(node, input_types, data)
        return {name: known for name, known in outputs.items() if known is not None}

    def _infer_loop(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Infer what a Loop carries from round to round, where the body keeps its type.

        What it collects over the rounds has as many elements as there are rounds, which only a run can tell.
        """
        body = _subgraph(node, "body")
        states = [self.types[name] for name in node.input[2:] if name in self.types]
        if body is None or len(states) != len(node.input[2:]) or len(body.input) < 2 + len(states):
            raise RuleError("is a Loop whose body does not fit its inputs")
        given = [TensorType("int64", ()), TensorType("bool", ()), *states]
        found = self._infer_subgraph(body, dict(zip((value.name for value in body.input), given, strict=False)))
        carried = zip(node.output, found[1:], states, strict=False)
        return {name: state for name, result, state in carried if name and result == state}

    def _infer_if(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Infer an If: the branch taken, where the condition is known before inference, else what both agree on."""
        branches = [_subgraph(node, name) for name in ("then_branch", "else_branch")]
        condition = self._values.get(node.input[0]) if node.input else None
        if condition is not None and condition.size == 1:
            branches = [branches[0 if bool(condition.reshape(())) else 1]]
        results = [self._infer_subgraph(branch, {}) for branch in branches if branch is not None]
        agreed = [same[0] if len(set(same)) == 1 else None for same in zip(*results, strict=False)]
        return {name: known for name, known in zip(node.output, agreed, strict=False) if name and known}

    def _infer_subgraph(self, graph: onnx.GraphProto, given: Mapping[str, TensorType]) -> list[TensorType | None]:
        """Return the types of a subgraph's outputs, None for those that stay unknown."""
        initializers = {tensor.name: tensor for tensor in graph.initializer}
        inner = self.types | dict(given)
        for name, tensor in initializers.items():
            inner[name] = TensorType(dtype_name(tensor.data_type), tuple(tensor.dims))
        passed = ShapeInference(
            nodes=graph.node,
            names=[node.name or node.op_type for node in graph.node],
            types=inner,
            initializers=initializers,
            recorded={},
            declared_types=whole_declarations([*graph.value_info, *graph.output], {}),
            opsets=self.opsets,
            needed=frozenset(),
            where=self.where,
            external=self.external,
            outer_value=self._values.get,
        )
        found = passed.run()
        return [found.get(value.name) for value in graph.output]

    def _infer_body(
        self,
        node: onnx.NodeProto,
        input_types: Mapping[str, onnx.TypeProto],
        data: Mapping[str, onnx.TensorProto],
    ) -> dict[str, TensorType | None]:
        """Infer a node whose operator onnx defines by a function body: as a model of this one node."""
        from onnx import helper, shape_inference
        from onnx.checker import ValidationError

        graph = helper.make_graph(
            [node],
            "one_node",
            [helper.make_value_info(name, kind) for name, kind in input_types.items()],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
            list(data.values()),
        )
        model = helper.make_model(graph, opset_imports=self._imports)
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True)
        except (shape_inference.InferenceError, ValidationError, RuntimeError, ValueError) as error:
            raise RuleError(f"{_MISFIT} ({_first_line(error)})") from error
        return {value.name: _whole(value.type) for value in inferred.graph.output}

    def _infer_channels_last(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Infer an operator of the internal NHWC domain: as the standard operator, with the data turned to NCHW."""
        schema = self._schema(node.op_type, "")
        if schema is None or not node.input or not node.output:
            raise RuleError(f"is of the operator {_title(node)}, {_NO_RULE}")
        data = NodeView(node, self.types.get).type(0)
        turned = dict(self.types)
        turned[node.input[0]] = TensorType(data.dtype, (*data.shape[:1], *data.shape[-1:], *data.shape[1:-1]))
        found = self._infer_by_schema(node, schema, turned)
        return {
            name: TensorType(known.dtype, (*known.shape[:1], *known.shape[2:], *known.shape[1:2]))
            for name, known in found.items()
        }

    def _block(self, node: NodeView) -> int:
        """Return the block size behind a ReorderInput: its convolution's padded channels tell, else any blocked weight.

        ONNX Runtime takes 8 or 16 channels a block after the processor and does not write it down.
        """
        channels = node.shape(0)[-1 if node.integer("channels_last", 0) else 1]
        for consumer in self._consumers.get(node.outputs[0], []):
            if consumer.op_type == "Conv" and len(consumer.input) > 1 and consumer.input[1] in self.types:
                weight = self.types[consumer.input[1]].shape
                group = NodeView(consumer, self.types.get).integer("group", 1)
                padded = weight[1] * group if len(weight) > 1 else 0
                if padded >= channels > 0:
                    return next((block for block in (8, 16, 32) if -(-channels // block) * block == padded), padded)
        return _DEFAULT_BLOCK

    def _unknown(self, name: str, node: onnx.NodeProto, output: str, why: str) -> InputError:
        if not why:
            why = (
                f"the result of {node.op_type} has as many elements as the data happen to give"
                if node.op_type in _SIZED_BY_DATA
                else f"it does not follow from the inputs of {_title(node)}"
            )
        else:
            why = f"the node {why}"
        declare = f"write the shape of {output!r} into the value_info of the model"
        if why.startswith(f"the node {_MISFIT}"):
            fix = "Check the sizes given with --shape, or export the model again"
        elif why.endswith(ONLY_TENSORS):
            fix = WITHOUT_SEQUENCES
        elif why.endswith(_NO_RULE):
            fix = f"Use standard operators in its place, or {declare}, from which it is taken then"
        else:
            # All inputs have their sizes here, so --shape could not help.
            fix = (
                "If it depends on the value of an input, give that with --value NAME=VALUE; `cimplan profile` and "
                f"`cimplan partition` take it from a run of the model; or {declare}"
            )
        return InputError(
            f"the shape of the tensor {output!r} is unknown",
            where=f"{self.where}: node {name!r}",
            why=why,
            fix=fix,
        )


def whole_declarations(values: Sequence[onnx.ValueInfoProto], sizes: Mapping[str, int]) -> dict[str, TensorType]:
    """Return the tensors whose declared type is whole once named dimensions have their sizes.

    Parameters
    ----------
    values : sequence of onnx.ValueInfoProto
        The declarations.
    sizes : mapping of str to int
        Sizes of named dimensions.
    """
    types: dict[str, TensorType] = {}
    for value in values:
        try:
            dtype, dims = declared(value)
        except RuleError:
            continue
        shape = [sizes.get(dim) if isinstance(dim, str) else dim for dim in dims] if dims is not None else [None]
        if None not in shape:
            types[value.name] = TensorType(dtype, tuple(size for size in shape if size is not None))
    return types


def _whole(kind: onnx.TypeProto) -> TensorType | None:
    """Return an inferred type if it is a tensor with all sizes known."""
    what = kind.WhichOneof("value")
    if what is not None and what != "tensor_type":
        raise RuleError(f"makes a {what.removesuffix('_type').replace('_', ' ')}; {ONLY_TENSORS}")
    if what is None or not kind.tensor_type.HasField("shape"):
        return None
    shape = []
    for dim in kind.tensor_type.shape.dim:
        if dim.WhichOneof("value") != "dim_value":
            return None
        if dim.dim_value < 0:
            raise RuleError("has an output with a negative size; its window or padding does not fit its input")
        shape.append(int(dim.dim_value))
    return TensorType(dtype_name(kind.tensor_type.elem_type), tuple(shape))


def _subgraph(node: onnx.NodeProto, name: str) -> onnx.GraphProto | None:
    return next((attribute.g for attribute in node.attribute if attribute.name == name), None)


def _title(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].removeprefix("[ShapeInferenceError] ")[:200].rstrip(".") if lines else type(error).__name__
