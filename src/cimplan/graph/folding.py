"""Values of small tensors that are known before inference: shapes and the arithmetic on them.

Exported networks compute the target of a Reshape or the sizes of a Resize by small integer graphs of Shape, Gather,
Concat and the like. Their values decide shapes, so they are computed here, on demand, and never for large tensors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cimplan.graph.nodes import RuleError, TensorType, domain_of, words

if TYPE_CHECKING:
    import onnx

LARGEST_VALUE = 1024
"""Tensors with more elements have no known value."""

_DEEPEST_CHAIN = 150

_FOLDED = frozenset(
    words(
        "Abs Add And Cast CastLike Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Floor Gather "
        "GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg "
        "NonZero Not Or Pad Pow Range "
        "ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Sign Slice "
        "Split Sqrt Squeeze Sub Tile TopK Transpose Unsqueeze Where"
    )
)


class _TooDeepError(Exception):
    """A chain of nodes is too long to follow."""


class KnownValues:
    """Looks up or computes the values of small tensors.

    Parameters
    ----------
    initializers : mapping of str to onnx.TensorProto
        The model's constants.
    producers : mapping of str to onnx.NodeProto
        The node that makes each tensor.
    type_of : callable
        Type of a tensor, None while it is unknown.
    opset : int
        Version of the default operator set.
    external : callable
        Reads a small tensor kept outside the model file, or gives None.
    outer : callable
        Gives the value of a tensor that this graph does not make itself, or None.
    given : mapping of str to array
        Values of inputs that the user gave.
    """

    def __init__(
        self,
        initializers: Mapping[str, onnx.TensorProto],
        producers: Mapping[str, onnx.NodeProto],
        type_of: Callable[[str], TensorType | None],
        opset: int,
        external: Callable[[onnx.TensorProto], np.ndarray[Any, Any] | None] = lambda _: None,
        outer: Callable[[str], np.ndarray[Any, Any] | None] = lambda _: None,
        given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self._initializers = initializers
        self._producers = producers
        self._type_of = type_of
        self._opset = opset
        self._external = external
        self._outer = outer
        self._found: dict[str, np.ndarray[Any, Any] | None] = {
            name: value for name, value in (given or {}).items() if value.size <= LARGEST_VALUE
        }

    def get(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return the value of a tensor, or None if it is large, or depends on the network's input.

        Ask only for tensors whose type is known: the answer is remembered.
        """
        try:
            return self._get(name, 0)
        except _TooDeepError:
            return None

    def _get(self, name: str, _depth: int) -> np.ndarray[Any, Any] | None:
        if name in self._found:
            return self._found[name]
        if _depth > _DEEPEST_CHAIN:
            raise _TooDeepError
        value: np.ndarray[Any, Any] | None = None
        if name in self._initializers:
            tensor = self._initializers[name]
            value = self._external(tensor) if is_external(tensor) else small_value(tensor)
        elif name in self._producers:
            known = self._type_of(name)
            if known is None or math.prod(known.shape) <= LARGEST_VALUE:
                value = self._compute(name, _depth)
        else:
            value = self._outer(name)
        self._found[name] = value
        return value

    def _compute(self, name: str, depth: int) -> np.ndarray[Any, Any] | None:
        node = self._producers[name]
        if domain_of(node) != "":
            return None
        if node.op_type in ("Shape", "Size"):
            return self._shape(node)
        if node.op_type == "Constant":
            return constant_value(node)
        if node.op_type not in _FOLDED:
            return None
        values: dict[str, np.ndarray[Any, Any]] = {}
        for source in node.input:
            if source and source not in values:
                value = self._get(source, depth + 1)
                if value is None:
                    return None
                values[source] = value
        if _result_size(node, values) > LARGEST_VALUE:
            return None
        return _evaluate(node, values, self._opset, name)

    def _shape(self, node: onnx.NodeProto) -> np.ndarray[Any, Any] | None:
        source = self._type_of(node.input[0]) if node.input else None
        if source is None:
            return None
        if node.op_type == "Size":
            return np.array(math.prod(source.shape), np.int64)
        limits = {attribute.name: int(attribute.i) for attribute in node.attribute}
        start, end = limits.get("start", 0), limits.get("end")
        return np.array(source.shape[slice(start, end)], np.int64)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Return whether a tensor's data are outside the model file."""
    from onnx import TensorProto

    return tensor.data_location == TensorProto.EXTERNAL


def small_value(tensor: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    """Return a tensor's value if it is small and inside the model file."""
    from onnx import numpy_helper

    if is_external(tensor) or any(size < 0 for size in tensor.dims) or math.prod(tensor.dims) > LARGEST_VALUE:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return None


def constant_value(node: onnx.NodeProto) -> np.ndarray[Any, Any] | None:
    """Return the value of a Constant node if it is small."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            return small_value(attribute.t)
        if attribute.name == "value_int":
            return np.array(attribute.i, np.int64)
        if attribute.name == "value_float":
            return np.array(attribute.f, np.float32)
        if attribute.name == "value_ints" and len(attribute.ints) <= LARGEST_VALUE:
            return np.array(attribute.ints, np.int64)
        if attribute.name == "value_floats" and len(attribute.floats) <= LARGEST_VALUE:
            return np.array(attribute.floats, np.float32)
    return None


def constant_type(node: onnx.NodeProto) -> TensorType:
    """Return the type of a Constant node's output, from any form of its value.

    Raises
    ------
    RuleError
        If it holds no value.
    """
    from cimplan.graph.nodes import dtype_name

    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            return TensorType(dtype_name(attribute.t.data_type), tuple(attribute.t.dims))
        if attribute.name == "sparse_value":
            sparse = attribute.sparse_tensor
            return TensorType(dtype_name(sparse.values.data_type), tuple(sparse.dims))
        if attribute.name in ("value_int", "value_float", "value_string"):
            return TensorType({"i": "int64", "f": "float32", "s": "string"}[attribute.name[6]], ())
        if attribute.name == "value_ints":
            return TensorType("int64", (len(attribute.ints),))
        if attribute.name == "value_floats":
            return TensorType("float32", (len(attribute.floats),))
        if attribute.name == "value_strings":
            return TensorType("string", (len(attribute.strings),))
    raise RuleError("is a Constant without a value")


def _result_size(node: onnx.NodeProto, values: Mapping[str, np.ndarray[Any, Any]]) -> float:
    """Return how many elements a node would make, for those whose output may dwarf their inputs."""
    inputs = [values[name] for name in node.input if name]
    try:
        if node.op_type == "ConstantOfShape":
            return float(np.prod(inputs[0].astype(float)))
        if node.op_type in ("Expand", "Tile"):
            sizes = inputs[1].astype(float)
            return float(np.prod(np.maximum(sizes, 1))) * max(inputs[0].size, 1)
        if node.op_type == "Range":
            return abs(float(inputs[1] - inputs[0])) / abs(float(inputs[2]))
        if node.op_type == "Pad":
            grown = float(np.abs(inputs[1].astype(float)).sum())
            return float(math.prod(size + grown for size in inputs[0].shape))
    except (IndexError, ValueError, TypeError, ZeroDivisionError):
        return math.inf
    return 0.0


def _evaluate(
    node: onnx.NodeProto, values: Mapping[str, np.ndarray[Any, Any]], opset: int, wanted: str
) -> np.ndarray[Any, Any] | None:
    """Run one node on known values with onnx's own reference implementation.

    As a model of this one node: only of a model does it take the version of the operator that the opset means, such as
    an Unsqueeze whose axes are an attribute.
    """
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    made = [name for name in node.output if name]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            graph = helper.make_graph(
                [node],
                "one_node",
                [
                    helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                    for name, value in values.items()
                ],
                [helper.make_empty_tensor_value_info(name) for name in made],
            )
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
            results = ReferenceEvaluator(model).run(None, dict(values))
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # an unknown value only: whoever needs it reports what is missing
    result = dict(zip(made, results, strict=True))[wanted]
    if not isinstance(result, np.ndarray) or result.size > LARGEST_VALUE:
        return np.asarray(result) if np.isscalar(result) else None
    return result
