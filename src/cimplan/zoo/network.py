"""A network under construction: nodes, inputs, outputs, and weights that exist only while they are written.

A weight is a recipe (shape, spread, seed) until the model is built in memory or streamed to a file, so a network of
hundreds of megabytes is written in the memory of one small chunk, and a weightless network carries no data at all.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 17
"""LayerNormalization exists, and ReduceMean still has its axes as an attribute."""

IR_VERSION = 8
"""What ONNX 1.12 wrote with opset 17; every runtime of the last years reads it."""

WEIGHTLESS_KEY = "cimplan.weightless"
"""Model metadata that marks a graph whose weights have shapes and no data."""

WEIGHTLESS_LOCATION = "weightless"
"""The external file such weights point to. It does not exist."""

_CHUNK_ELEMENTS = 1 << 20

# Field tags of the ONNX protobuf schema, wire type 2 (length-delimited).
_MODEL_GRAPH = bytes([7 << 3 | 2])
_GRAPH_INITIALIZER = bytes([5 << 3 | 2])
_TENSOR_RAW_DATA = bytes([9 << 3 | 2])


class Initializer(Protocol):
    """A constant of the graph: a tensor without its data, and the data in chunks."""

    @property
    def name(self) -> str:
        """Name of the tensor."""

    @property
    def elements(self) -> int:
        """Number of elements."""

    @property
    def data_bytes(self) -> int:
        """Bytes of `chunks` added up."""

    def header(self) -> TensorProto:
        """Return the tensor without its raw data."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw data, little-endian."""


@dataclass(frozen=True)
class Constant:
    """A small constant with real data: a shape, a scale, an anchor."""

    name: str
    value: np.ndarray[Any, Any]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(self.value.size)

    @property
    def data_bytes(self) -> int:
        """Bytes of the data."""
        return int(self.value.nbytes)

    def header(self) -> TensorProto:
        """Return the tensor without its raw data."""
        return TensorProto(
            name=self.name, dims=self.value.shape, data_type=helper.np_dtype_to_tensor_dtype(self.value.dtype)
        )

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw data, little-endian."""
        yield self.value.astype(self.value.dtype.newbyteorder("<")).tobytes()


@dataclass(frozen=True)
class RandomWeight:
    """A float32 weight drawn from a normal distribution; the same name, shape and seed give the same bytes."""

    name: str
    shape: tuple[int, ...]
    deviation: float
    seed: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def data_bytes(self) -> int:
        """Bytes of the data."""
        return 4 * self.elements

    def header(self) -> TensorProto:
        """Return the tensor without its raw data."""
        return TensorProto(name=self.name, dims=self.shape, data_type=TensorProto.FLOAT)

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw data, little-endian."""
        # Seeded by name, so that a weight does not depend on the order in which the network is written.
        generator = np.random.default_rng([self.seed, zlib.crc32(self.name.encode())])
        for start in range(0, self.elements, _CHUNK_ELEMENTS):
            chunk = generator.standard_normal(min(_CHUNK_ELEMENTS, self.elements - start), dtype=np.float32)
            chunk *= np.float32(self.deviation)
            yield chunk.astype("<f4", copy=False).tobytes()


@dataclass(frozen=True)
class Shape:
    """A weight without data: it points to an external file that does not exist."""

    name: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def data_bytes(self) -> int:
        """None of the data is in the model."""
        return 0

    def header(self) -> TensorProto:
        """Return the tensor with its external location."""
        tensor = TensorProto(
            name=self.name, dims=self.shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=WEIGHTLESS_LOCATION)
        return tensor

    def chunks(self) -> Iterator[bytes]:
        """Yield nothing."""
        return iter(())


@dataclass
class Network:
    """A network under construction.

    Parameters
    ----------
    name : str
        Name of the graph.
    seed : int, optional
        Of the random weights; without one the network is weightless.

    Attributes
    ----------
    parameters : int
        Elements of the weights, each shared weight once; small constants do not count.
    initializers : dict of str to Initializer
        Weights and small constants by name.
    """

    name: str
    seed: int | None = None
    parameters: int = 0
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    _outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    initializers: dict[str, Initializer] = field(default_factory=dict)

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        """Declare a graph input and return its name."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, tensor: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> None:
        """Declare a tensor to be a graph output."""
        self._outputs.append(helper.make_tensor_value_info(tensor, dtype, list(shape)))

    def constant(self, name: str, value: Any, dtype: type[np.generic]) -> str:
        """Add a small constant, or reuse the one of this name, and return its name."""
        self.initializers.setdefault(name, Constant(name, np.asarray(value, dtype=dtype)))
        return name

    def weight(self, name: str, shape: Sequence[int], *, deviation: float = 0.0, shared: bool = False) -> str:
        """Add a weight and return its name.

        Parameters
        ----------
        name : str
            Of the tensor.
        shape : sequence of int
            Of the tensor.
        deviation : float
            Standard deviation of the random values; their mean is zero.
        shared : bool
            True for the second copy of a weight that counts as a parameter only once.
        """
        weight = (
            Shape(name, tuple(shape)) if self.seed is None else RandomWeight(name, tuple(shape), deviation, self.seed)
        )
        self.initializers[name] = weight
        if not shared:
            self.parameters += weight.elements
        return name

    def node(self, op_type: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name, which is also the node's."""
        return self.nodes(op_type, inputs, name, [name], **attributes)[0]

    def nodes(
        self, op_type: str, inputs: Sequence[str], name: str, outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs and return their names."""
        self._nodes.append(helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes))
        return list(outputs)

    def build(self) -> onnx.ModelProto:
        """Return the model, weights included."""
        model = self.skeleton()
        for initializer in self.initializers.values():
            tensor = initializer.header()
            if initializer.data_bytes:
                tensor.raw_data = b"".join(initializer.chunks())
            model.graph.initializer.append(tensor)
        return model

    def write(self, path: Path) -> None:
        """Write the model to a file in the memory of one chunk of weights.

        The result is an ordinary ONNX file: protobuf fields may come in any order, so the graph's length is computed
        first and the weights follow the rest of the graph.
        """
        model = self.skeleton()
        graph = model.graph.SerializeToString(deterministic=True)
        model.ClearField("graph")
        size = len(graph) + sum(_field_size(_tensor_size(initializer)) for initializer in self.initializers.values())
        with path.open("wb") as stream:
            stream.write(model.SerializeToString(deterministic=True))
            stream.write(_MODEL_GRAPH + _varint(size) + graph)
            for initializer in self.initializers.values():
                _write_tensor(stream, initializer)

    def skeleton(self) -> onnx.ModelProto:
        """Return the model without any of its initializers."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs)
        model = helper.make_model(
            graph, producer_name="cimplan", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
        )
        if self.seed is None:
            model.metadata_props.add(key=WEIGHTLESS_KEY, value="true")
        return model


def is_weightless(model: onnx.ModelProto) -> bool:
    """Tell whether a model declares that its weights have no data."""
    return any(entry.key == WEIGHTLESS_KEY and entry.value == "true" for entry in model.metadata_props)


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _field_size(payload_bytes: int) -> int:
    return 1 + len(_varint(payload_bytes)) + payload_bytes


def _tensor_size(initializer: Initializer) -> int:
    header: int = initializer.header().ByteSize()
    return header + (_field_size(initializer.data_bytes) if initializer.data_bytes else 0)


def _write_tensor(stream: BinaryIO, initializer: Initializer) -> None:
    stream.write(_GRAPH_INITIALIZER + _varint(_tensor_size(initializer)))
    stream.write(initializer.header().SerializeToString(deterministic=True))
    if initializer.data_bytes:
        stream.write(_TENSOR_RAW_DATA + _varint(initializer.data_bytes))
        for chunk in initializer.chunks():
            stream.write(chunk)
