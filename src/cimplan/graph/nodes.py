"""One node as the shape rules and the lowering see it: attributes, types and small known values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (a key of `operators.BITS_OF_DTYPE`) and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]


class RuleError(Exception):
    """A node contradicts the definition of its operator; the message says how."""


_DTYPE_ALIASES = {"float": "float32", "double": "float64"}


@cache
def dtype_name(code: int) -> str:
    """Return the name of an ONNX element type, such as "uint8".

    Raises
    ------
    RuleError
        If ONNX defines no such type.
    """
    from onnx import TensorProto

    if code == TensorProto.UNDEFINED:
        raise RuleError("has no element type")
    try:
        name = str(TensorProto.DataType.Name(code)).lower()
    except ValueError as error:
        raise RuleError(f"has the unknown element type {code}") from error
    return _DTYPE_ALIASES.get(name, name)


@cache
def dtype_code(name: str) -> int:
    """Return the ONNX element type of a name that `dtype_name` gave.

    Raises
    ------
    RuleError
        If there is no such name.
    """
    from onnx import TensorProto

    originals = {alias: original for original, alias in _DTYPE_ALIASES.items()}
    try:
        return int(TensorProto.DataType.Value(originals.get(name, name).upper()))
    except ValueError as error:
        raise RuleError(f"has the unknown element type {name!r}") from error


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text; keeps long lists of operators readable."""
    return tuple(text.split())


def domain_of(node: onnx.NodeProto) -> str:
    """Return the domain of a node; the default domain is the empty string."""
    return "" if node.domain == "ai.onnx" else node.domain


class NodeView:
    """A node with the types of its inputs.

    Parameters
    ----------
    node : onnx.NodeProto
        The node.
    type_of : callable
        Gives the type of a tensor name, or None where it is unknown.
    value_of : callable
        Gives the value of a small tensor that is known before inference, or None.
    """

    def __init__(
        self,
        node: onnx.NodeProto,
        type_of: Callable[[str], TensorType | None],
        value_of: Callable[[str], np.ndarray[Any, Any] | None] = lambda _: None,
    ) -> None:
        self.proto = node
        self.op_type: str = node.op_type
        self.domain = domain_of(node)
        self.inputs: Sequence[str] = tuple(node.input)
        self.outputs: Sequence[str] = tuple(node.output)
        self._type_of = type_of
        self._value_of = value_of
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    def has_input(self, index: int) -> bool:
        """Return whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def type(self, index: int) -> TensorType:
        """Return the type of an input.

        Raises
        ------
        RuleError
            If the input is missing.
        """
        if not self.has_input(index):
            raise RuleError(f"lacks its input {index}")
        found = self._type_of(self.inputs[index])
        if found is None:
            raise RuleError(f"has the input {self.inputs[index]!r} of unknown shape")
        return found

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input; raises like `type`."""
        return self.type(index).shape

    def dtype(self, index: int) -> str:
        """Return the element type of an input; raises like `type`."""
        return self.type(index).dtype

    def value(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the value of an input if it is small and known before inference."""
        return self._value_of(self.inputs[index]) if self.has_input(index) else None

    def has(self, name: str) -> bool:
        """Return whether an attribute is given."""
        return name in self._attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute.

        Raises
        ------
        RuleError
            If it is absent without default, or no integer.
        """
        from onnx import AttributeProto

        attribute = self._attributes.get(name)
        if attribute is None:
            if default is None:
                raise RuleError(f"lacks its attribute {name!r}")
            return default
        if attribute.type != AttributeProto.INT:
            raise RuleError(f"has an attribute {name!r} that is not an integer")
        return int(attribute.i)

    def integers(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return a list-of-integers attribute; raises like `integer`."""
        from onnx import AttributeProto

        attribute = self._attributes.get(name)
        if attribute is None:
            return tuple(default)
        if attribute.type != AttributeProto.INTS:
            raise RuleError(f"has an attribute {name!r} that is not a list of integers")
        return tuple(attribute.ints)

    def text(self, name: str, default: str) -> str:
        """Return a text attribute; raises like `integer`."""
        from onnx import AttributeProto

        attribute = self._attributes.get(name)
        if attribute is None:
            return default
        if attribute.type != AttributeProto.STRING:
            raise RuleError(f"has an attribute {name!r} that is not text")
        return bytes(attribute.s).decode("utf-8", "replace")


def captured_names(node: onnx.NodeProto) -> list[str]:
    """Return the outer tensors that the subgraphs of a node read without naming them as inputs, each once."""
    found: dict[str, None] = {}
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            found.update(dict.fromkeys(_free_names(graph)))
    return list(found)


def _free_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names a graph reads and does not define."""
    defined = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    defined |= {tensor.values.name for tensor in graph.sparse_initializer}
    free: dict[str, None] = {}
    for node in graph.node:
        for name in [*node.input, *captured_names(node)]:
            if name and name not in defined:
                free[name] = None
        defined.update(node.output)
    for value in graph.output:
        if value.name not in defined:
            free[value.name] = None
    return list(free)
