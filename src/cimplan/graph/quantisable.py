"""A float model as ONNX Runtime's quantiser can take it: the same function, written in the way the quantiser reads.

The quantiser looks for weights among the initializers of the main graph, in float32, by operators of the default
domain, and makes names by adding endings to those it finds. What other exporters write is brought into that form in a
copy: functions are expanded, constants become initializers, 16-bit and 64-bit floats become float32 inside (inputs and
outputs keep their types), and every name is replaced by one that no ending can turn into another, until the end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cimplan.errors import InputError
from cimplan.graph.nodes import domain_of, dtype_code, dtype_name
from cimplan.graph.structure import unique_names

if TYPE_CHECKING:
    import onnx

WIDENED: Final = frozenset({"float16", "bfloat16", "float64"})
"""Element types of weights that the quantiser does not take as they are."""

_ALIAS: Final = "ai.onnx"
_INITIALIZERS_ARE_CONSTANT_FROM_IR: Final = 4
_LARGEST_DENSE_BYTES: Final = 2_000_000_000
_BIASED: Final = frozenset({"Conv", "ConvTranspose", "Gemm"})
_BIAS: Final = 2
_TYPE_ATTRIBUTES: Final = frozenset({"to", "dtype", "output_dtype", "stash_type", "softmax_precision"})
_NARROWED_BY: Final = frozenset({"Relu", "Clip"})
_MASK_FROM: Final = 1e30
PASSING: Final = frozenset(
    {"Add", "Sub", "Mul", "Where", "Min", "Max", "Neg", "Cast", "Identity", "Concat", "Slice", "Gather", "Pad"}
    | {"Reshape", "Transpose", "Expand", "Tile", "Squeeze", "Unsqueeze", "Flatten", "Split", "Constant"}
)
"""Operators that hand on values as large as those they read."""
_PLACEHOLDER: Final = re.compile(r"([tn])(\d+)_(.*)", re.DOTALL)


def brought_into_form(model: onnx.ModelProto, widened: Iterable[str]) -> onnx.ModelProto:
    """Return a float model in the form that the quantiser reads, except for its names.

    Parameters
    ----------
    model : onnx.ModelProto
        With its weights, external ones read; it is used up.
    widened : iterable of str
        Element types, of `WIDENED`, that become float32.

    Raises
    ------
    InputError
        If a sparse tensor is not well formed or too large.
    """
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    _drop_domain_alias(model)
    _fix_initializers(model)
    _densify(model)
    _move_constants(model.graph)
    _widen(model, frozenset(dtype_code(name) for name in widened))
    return model


def separated(model: onnx.ModelProto) -> None:
    """Give every output and every bias that the quantiser would treat wrongly a tensor of its own, in place.

    A tensor that feeds one Relu takes its range from the Relu's output; as an output of the network it would lose its
    negative values. A bias is scaled by the product it belongs to, so two products cannot share one.
    """
    import onnx

    graph = model.graph
    taken = set(_names(graph))
    narrowed = {name for node in graph.node if node.op_type in _NARROWED_BY for name in node.input[:1]}
    made = {name for node in graph.node for name in node.output}
    for name in dict.fromkeys(value.name for value in graph.output):
        if name in narrowed and name in made:
            inner = _fresh(name, taken)
            _rename(graph, {name: inner}, outputs=False)
            graph.node.append(onnx.helper.make_node("Identity", [inner], [name], name=_fresh(f"{name}_out", taken)))
    uses = Counter(name for node in _all_nodes(graph) for name in node.input)
    uses.update(value.name for value in graph.output)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type in _BIASED and len(node.input) > _BIAS and uses[node.input[_BIAS]] > 1:
            bias = constants.get(node.input[_BIAS])
            if bias is not None:
                uses[bias.name] -= 1
                own = graph.initializer.add()
                own.CopyFrom(bias)
                own.name = _fresh(bias.name, taken)
                node.input[_BIAS] = own.name


class Placeholders:
    """Names that no ending turns into another, in place of a model's own.

    Parameters
    ----------
    model : onnx.ModelProto
        Renamed in place: tensors, inputs, outputs and nodes, which must have a name of their own each.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        tensors = dict.fromkeys(filter(None, _names(model.graph)))
        self.of_tensor: Mapping[str, str] = {name: f"t{number}_" for number, name in enumerate(tensors)}
        self._tensors = list(tensors)
        self._nodes = [node.name for node in model.graph.node]
        self.of_node: Mapping[str, str] = {name: f"n{number}_" for number, name in enumerate(self._nodes)}
        _rename(model.graph, self.of_tensor)
        for node in model.graph.node:
            node.name = self.of_node[node.name]

    def restore(self, model: onnx.ModelProto) -> None:
        """Give a model that was made from the renamed one the first names again, and what was added unique names."""
        graph = model.graph
        taken = {*self._tensors}
        back = {placeholder: name for name, placeholder in self.of_tensor.items()}
        for name in _names(graph):
            if name and name not in back:
                back[name] = _unique(self._words(name), taken)
        _rename(graph, back)
        taken = {*filter(None, self._nodes)}
        for node in graph.node:
            found = _PLACEHOLDER.fullmatch(node.name)
            kept = found is not None and found[1] == "n" and not found[3]
            node.name = self._words(node.name) if kept else _unique(self._words(node.name), taken)

    def _words(self, name: str) -> str:
        found = _PLACEHOLDER.fullmatch(name)
        if found is None:
            return name
        return (self._tensors if found[1] == "t" else self._nodes)[int(found[2])] + found[3]


def _unique(name: str, taken: set[str]) -> str:
    """Return a name, with a number at its end if it is taken; and take it."""
    chosen, number = name, 1
    while chosen in taken:
        chosen, number = f"{name}_{number}", number + 1
    taken.add(chosen)
    return chosen


def _fresh(name: str, taken: set[str]) -> str:
    return _unique(f"{name}_own", taken)


def not_finite(tensor: onnx.TensorProto) -> str:
    """Return "NaN" or "infinity" if a tensor of floats holds such values, else the empty text."""
    if dtype_name(tensor.data_type) not in {"float32", *WIDENED}:
        return ""
    values = _array(tensor)
    if values.dtype not in (np.float32, np.float64, np.float16):
        values = values.astype(np.float32)
    if np.isnan(values).any():
        return "NaN"
    return "infinity" if np.isinf(values).any() else ""


def is_mask(tensor: onnx.TensorProto) -> bool:
    """Tell whether a tensor of floats holds values that only a mask has, such as the least float32."""
    if dtype_name(tensor.data_type) not in {"float32", *WIDENED}:
        return False
    values = _array(tensor)
    return bool(values.size) and float(np.abs(values.astype(np.float64)).max()) >= _MASK_FROM


def named(model: onnx.ModelProto) -> None:
    """Give every node of the main graph a name of its own, in place, as the operator graph does."""
    nodes = model.graph.node
    for node, name in zip(
        nodes,
        unique_names([node.name or next(filter(None, node.output), "") for node in nodes], "model"),
        strict=True,
    ):
        node.name = name


def needs_folding(model: onnx.ModelProto, weighted: Iterable[str]) -> bool:
    """Tell whether a weight is computed from constants, or a batch normalisation can be folded.

    `weighted` are the names of the weights.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    return any(name not in constants for name in weighted) or any(
        node.op_type == "BatchNormalization" for node in model.graph.node
    )


def _drop_domain_alias(model: onnx.ModelProto) -> None:
    """Write the default domain as the empty text, its other spelling being unknown to shape inference."""
    for node in _all_nodes(model.graph):
        node.domain = domain_of(node)
    versions = [entry for entry in model.opset_import if entry.domain in ("", _ALIAS)]
    for entry in versions:
        entry.domain = ""
    for entry in versions[1:]:
        model.opset_import.remove(entry)


def _fix_initializers(model: onnx.ModelProto) -> None:
    """Take initializers out of the inputs: an input that may be replaced by the caller has no fixed scale."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer} | {
        tensor.values.name for tensor in graph.sparse_initializer
    }
    kept = [value for value in graph.input if value.name not in constants]
    if len(kept) < len(graph.input):
        del graph.input[:]
        graph.input.extend(kept)
        model.ir_version = max(model.ir_version, _INITIALIZERS_ARE_CONSTANT_FROM_IR)


def _densify(model: onnx.ModelProto) -> None:
    for graph in _all_graphs(model.graph):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(dense(sparse))
        del graph.sparse_initializer[:]


def dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Return a sparse tensor as a dense one of the same name.

    Raises
    ------
    InputError
        If it is larger than 2 GB, or its indices do not fit its shape.
    """
    from onnx import numpy_helper

    name = str(sparse.values.name)
    shape = tuple(sparse.dims)
    values, indices = _array(sparse.values), _array(sparse.indices)
    if any(size < 0 for size in shape) or math.prod(shape) * values.dtype.itemsize > _LARGEST_DENSE_BYTES:
        raise InputError(
            "the sparse tensor is too large to be written out",
            where=f"tensor {name!r}",
            fix="Export the model without sparse tensors",
        )
    filled = np.zeros(shape, values.dtype)
    try:
        places = indices if indices.ndim < 2 else np.ravel_multi_index(tuple(indices.T), shape)
        filled.reshape(-1)[places] = values
    except (IndexError, ValueError) as error:
        raise InputError(
            "the indices of a sparse tensor do not fit it",
            where=f"tensor {name!r}",
            fix="Export the model without sparse tensors",
        ) from error
    return numpy_helper.from_array(filled, name)


def _move_constants(graph: onnx.GraphProto) -> None:
    """Turn Constant nodes of numbers into initializers; those that are outputs stay."""
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        tensor = _constant(node) if node.op_type == "Constant" and not outputs.intersection(node.output) else None
        if tensor is None:
            kept.append(node)
        else:
            tensor.name = node.output[0]
            graph.initializer.append(tensor)
    if len(kept) < len(graph.node):
        # Nodes taken out of a message would lose their storage, hence the copies.
        rest = [_copy(node) for node in kept]
        del graph.node[:]
        graph.node.extend(rest)


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return what a Constant node of numbers makes."""
    from onnx import numpy_helper

    for attribute in node.attribute:
        if attribute.name == "value":
            tensor: onnx.TensorProto = _copy(attribute.t)
            return tensor
        if attribute.name == "sparse_value":
            return dense(attribute.sparse_tensor)
        if attribute.name == "value_float":
            return numpy_helper.from_array(np.array(attribute.f, np.float32))
        if attribute.name == "value_floats":
            return numpy_helper.from_array(np.array(attribute.floats, np.float32))
        if attribute.name == "value_int":
            return numpy_helper.from_array(np.array(attribute.i, np.int64))
        if attribute.name == "value_ints":
            return numpy_helper.from_array(np.array(attribute.ints, np.int64))
    return None


def _copy(message: Any) -> Any:
    found = type(message)()
    found.CopyFrom(message)
    return found


def _widen(model: onnx.ModelProto, codes: frozenset[int]) -> None:
    """Let a network compute in float32 where it computes in other floats, between casts at its inputs and outputs."""
    import onnx

    if not codes:
        return
    graph = model.graph
    taken = set(_names(graph))
    single = int(onnx.TensorProto.FLOAT)
    ends = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    inputs = [value.name for value in graph.input if ends[value.name] in codes]
    outputs = [name for name in dict.fromkeys(value.name for value in graph.output) if ends[name] in codes]
    for inner in _all_graphs(graph):
        for tensor in inner.initializer:
            _widen_tensor(tensor, codes)
        for value in inner.value_info if inner is graph else (*inner.input, *inner.output, *inner.value_info):
            _widen_type(value.type, codes)
        for node in inner.node:
            for attribute in node.attribute:
                if attribute.name in _TYPE_ATTRIBUTES and attribute.i in codes:
                    attribute.i = single
                if attribute.HasField("t"):
                    _widen_tensor(attribute.t, codes)
                if attribute.HasField("tp"):
                    _widen_type(attribute.tp, codes)
    casts = []
    for name in inputs:
        wide = _fresh(name, taken)
        # An input that is an output too passes through as it is.
        _rename(graph, {name: wide}, inputs=False, outputs=False)
        casts.append(onnx.helper.make_node("Cast", [name], [wide], name=_fresh(f"{name}_in", taken), to=single))
    nodes = [*casts, *(_copy(node) for node in graph.node)]
    del graph.node[:]
    graph.node.extend(nodes)
    for name in outputs:
        if name not in inputs:
            wide = _fresh(name, taken)
            _rename(graph, {name: wide}, outputs=False)
            cast = onnx.helper.make_node("Cast", [wide], [name], name=_fresh(f"{name}_out", taken), to=ends[name])
            graph.node.append(cast)


def _widen_tensor(tensor: onnx.TensorProto, codes: frozenset[int]) -> None:
    from onnx import numpy_helper

    if tensor.data_type in codes:
        tensor.CopyFrom(numpy_helper.from_array(_array(tensor).astype(np.float32), tensor.name))


def _widen_type(kind: onnx.TypeProto, codes: frozenset[int]) -> None:
    import onnx

    if kind.HasField("tensor_type"):
        if kind.tensor_type.elem_type in codes:
            kind.tensor_type.elem_type = onnx.TensorProto.FLOAT
    elif kind.HasField("sequence_type"):
        _widen_type(kind.sequence_type.elem_type, codes)
    elif kind.HasField("optional_type"):
        _widen_type(kind.optional_type.elem_type, codes)


def _array(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    """Return a tensor's values.

    Raises
    ------
    InputError
        If its data do not fit its shape.
    """
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InputError(
            "a tensor cannot be read",
            where=f"tensor {tensor.name!r}",
            why=str(error)[:200],
            fix="Export the model again",
        ) from error


def _all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the bodies of its nodes."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from _all_graphs(body)


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for inner in _all_graphs(graph):
        yield from inner.node


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds, such as the branches of an If."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield every name of a tensor, those of bodies included."""
    for inner in _all_graphs(graph):
        for value in (*inner.input, *inner.output, *inner.initializer, *inner.value_info):
            yield value.name
        for node in inner.node:
            yield from node.input
            yield from node.output


def _rename(graph: onnx.GraphProto, names: Mapping[str, str], *, inputs: bool = True, outputs: bool = True) -> None:
    """Rename tensors wherever they are named; on request not in the main graph's inputs and outputs.

    Names are unique over a graph and its bodies, so one mapping does.
    """

    def new(name: str) -> str:
        return names.get(name, name)

    _rename_values(graph.initializer, new)
    _rename_values(graph.value_info, new)
    _rename_values(graph.input if inputs else (), new)
    _rename_values(graph.output if outputs else (), new)
    for node in graph.node:
        for ends in (node.input, node.output):
            for index, name in enumerate(ends):
                if name in names:
                    ends[index] = names[name]
        for body in bodies(node):
            _rename(body, names)


def _rename_values(values: Iterable[Any], new: Callable[[str], str]) -> None:
    for value in values:
        value.name = new(value.name)
