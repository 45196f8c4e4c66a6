"""ONNX files at the level of protobuf's wire format: edited field by field, weights neither parsed nor held.

An edit gives pieces: bytes of its own, and ranges of the file that stay as they are. From them comes a model without
weights (a skeleton), or a copy whose nodes have names of their own. The wire format and the field numbers are those
of the protobuf encoding guide and of `onnx.proto`. Nothing beyond the standard library is imported: the program that
`cimplan profile --script` writes holds this module.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

KEPT_BYTES = 4096
"""A tensor message longer than this loses its payload in a skeleton."""

OUTER_NAME = "cimplan_outer_"
"""What the nodes of the network itself are called by a renaming edit, before their number in the file."""

INNER_NAME = "cimplan_inner_"
"""What the nodes inside bodies (of If, Loop, Scan) are called by a renaming edit, before a running number."""

_DEEPEST_NESTING = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_COPIED_AT_ONCE = 1 << 20

# Which fields of a message are messages that may hold tensors or nodes.
_CHILDREN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# What a skeleton lacks: the payload of a tensor, and the training graphs of a model.
_PAYLOAD: Mapping[str, frozenset[int]] = {"tensor": frozenset({4, 5, 6, 7, 9, 10, 11}), "model": frozenset({20})}
_NOTHING: frozenset[int] = frozenset()
_NODE, _NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE = "node", 1, 2, 3, 4
_MODEL_GRAPH = 7
_GRAPH_TENSOR, _GRAPH_SPARSE, _GRAPH_INPUT = 5, 15, 11
_TENSOR_NAME, _SPARSE_VALUES, _VALUE_NAME = 8, 1, 1
_TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 9, 13, 14
_TENSOR_ELSEWHERE = frozenset({_TENSOR_EXTERNAL, _TENSOR_LOCATION})
_PAGE_BYTES = 4096


class MalformedError(Exception):
    """The bytes are not a protobuf message."""


@dataclass(frozen=True)
class Node:
    """A node of the graph file: its name, type and the tensors it names, absent ones left out."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class Edited:
    """What an edit gives.

    Attributes
    ----------
    pieces : list
        Bytes, or (start, length) of a range of the file.
    length : int
        Bytes of all pieces.
    """

    pieces: list[Any] = field(default_factory=list)
    length: int = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self.pieces.append(data)
        self.length += len(data)

    def keep(self, start: int, length: int) -> None:
        """Append a range of the file; ranges that meet become one."""
        if self.pieces and isinstance(self.pieces[-1], tuple) and sum(self.pieces[-1]) == start:
            self.pieces[-1] = (self.pieces[-1][0], self.pieces[-1][1] + length)
        else:
            self.pieces.append((start, length))
        self.length += length

    def extend(self, other: Edited) -> None:
        """Append another edit of the same file."""
        self.pieces.extend(other.pieces)
        self.length += other.length

    def chunks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the result, the ranges read from the file it was made of."""
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
                continue
            start, left = piece
            stream.seek(start)
            while left:
                data = _read(stream, min(left, _COPIED_AT_ONCE))
                left -= len(data)
                yield data


@dataclass
class Editor:
    """One pass over a model.

    Attributes
    ----------
    payload : bool
        Whether large tensors keep their payload.
    rename : bool
        Whether every node gets a name of ours: `OUTER_NAME` and its number in the file for a node of the network,
        `INNER_NAME` and a running number for one inside a body. No two nodes share a name then, and a profiler's event
        says for sure whether it is of the network or of a body.
    inputs : set of str, optional
        Inputs to keep; the others are dropped unless they are initializers. All are kept if left out.
    """

    payload: bool = True
    rename: bool = False
    inputs: set[str] | None = None
    _outer: int = 0
    _inner: int = 0

    def edit(self, stream: BinaryIO, size: int) -> Edited:
        """Return the edited model.

        Raises
        ------
        MalformedError
            If the bytes are no message.
        """
        return self._message(stream, size, "model", 0, outer=False)

    def _message(self, stream: BinaryIO, end: int, kind: str, depth: int, *, outer: bool) -> Edited:
        if depth > _DEEPEST_NESTING:
            raise MalformedError(f"messages are nested more than {_DEEPEST_NESTING} deep")
        children = _CHILDREN[kind]
        dropped = _NOTHING if self.payload else _PAYLOAD.get(kind, _NOTHING)
        initializers = (
            self._initializers(stream, end) if kind == "graph" and outer and self.inputs is not None else None
        )
        result = Edited()
        for position, tag, wire, start, length in fields(stream, end):
            if tag in dropped:
                continue
            if initializers is not None and tag == _GRAPH_INPUT and wire == _BYTES:
                name = _text_of(stream, start, length, _VALUE_NAME)
                if name not in initializers and name not in (self.inputs or ()):
                    continue
            if self.rename and kind == _NODE and tag == _NODE_NAME:
                continue
            holds_nodes = self.rename and children.get(tag) in ("graph", "function", _NODE, "attribute")
            holds_nodes = holds_nodes or (self.inputs is not None and kind == "model" and tag == _MODEL_GRAPH)
            if wire != _BYTES or tag not in children or not (holds_nodes or (not self.payload and length > KEPT_BYTES)):
                result.keep(position, start + length - position)
                continue
            stream.seek(start)
            child = self._message(
                stream, start + length, children[tag], depth + 1, outer=kind == "model" and tag == _MODEL_GRAPH
            )
            if self.rename and children[tag] == _NODE:
                if kind == "graph" and outer:
                    new = f"{OUTER_NAME}{self._outer}"  # a file may give its graph in several fields, which are one
                    self._outer += 1
                else:
                    new = f"{INNER_NAME}{self._inner}"
                    self._inner += 1
                child.add(_field(_NODE_NAME, new.encode()))
            result.add(encode_varint(tag << 3 | _BYTES) + encode_varint(child.length))
            result.extend(child)
        return result

    def _initializers(self, stream: BinaryIO, end: int) -> set[str]:
        """Return the names of a graph's initializers; the stream stands where it stood."""
        here = stream.tell()
        names = set()
        for _, tag, wire, start, length in fields(stream, end):
            if wire == _BYTES and tag == _GRAPH_TENSOR:
                names.add(_text_of(stream, start, length, _TENSOR_NAME))
            elif wire == _BYTES and tag == _GRAPH_SPARSE:
                for _, inner, _, first, count in _fields_at(stream, start, length):
                    if inner == _SPARSE_VALUES:
                        names.add(_text_of(stream, first, count, _TENSOR_NAME))
        stream.seek(here)
        return names


def weights_moved(stream: BinaryIO, size: int, *, data_name: str, least_bytes: int) -> tuple[Edited, Edited]:
    """Return a model whose large initializers lie in a file beside it, and what stands in that file.

    ONNX Runtime maps such a file into memory, where it holds several copies of weights that stand in the model itself.

    Parameters
    ----------
    stream, size
        The model file.
    data_name : str
        What the file beside the model will be called.
    least_bytes : int
        Initializers whose bytes are fewer stay where they are.

    Returns
    -------
    model, data : Edited
        Both are edits of `stream`.

    Raises
    ------
    MalformedError
        If the bytes are no message.
    """
    model, data = Edited(), Edited()
    for position, tag, wire, start, length in list(_fields_at(stream, 0, size)):
        if tag != _MODEL_GRAPH or wire != _BYTES:
            model.keep(position, start + length - position)
            continue
        graph = Edited()
        for at, inner, kind, first, count in list(_fields_at(stream, start, length)):
            moved = None
            if inner == _GRAPH_TENSOR and kind == _BYTES and count >= least_bytes:
                moved = _tensor_moved(stream, first, count, data, data_name, least_bytes)
            if moved is None:
                graph.keep(at, first + count - at)
            else:
                graph.add(encode_varint(inner << 3 | _BYTES) + encode_varint(moved.length))
                graph.extend(moved)
        model.add(encode_varint(tag << 3 | _BYTES) + encode_varint(graph.length))
        model.extend(graph)
    return model, data


def _tensor_moved(
    stream: BinaryIO, start: int, length: int, data: Edited, data_name: str, least_bytes: int
) -> Edited | None:
    """Return a tensor whose bytes have been added to `data`; None if they are few, or not in one piece."""
    parts = list(_fields_at(stream, start, length))
    raw = [part for part in parts if part[1] == _TENSOR_RAW]
    if len(raw) != 1 or raw[0][4] < least_bytes or any(part[1] in _TENSOR_ELSEWHERE for part in parts):
        return None
    _, _, _, first, count = raw[0]
    padding = -data.length % _PAGE_BYTES
    if padding:
        data.add(bytes(padding))
    entries = {"location": data_name, "offset": str(data.length), "length": str(count)}
    data.keep(first, count)
    tensor = Edited()
    for position, tag, _, at, long in parts:
        if tag != _TENSOR_RAW:
            tensor.keep(position, at + long - position)
    for key, value in entries.items():
        tensor.add(_field(_TENSOR_EXTERNAL, _field(1, key.encode()) + _field(2, value.encode())))
    tensor.add(encode_varint(_TENSOR_LOCATION << 3 | _VARINT) + encode_varint(1))
    return tensor


def nodes_of(stream: BinaryIO, size: int) -> list[Node]:
    """Return the nodes of a model's network in the order of the file, those inside bodies left out.

    Raises
    ------
    MalformedError
        If the bytes are no message.
    """
    found = []
    for _, tag, _, start, length in list(_fields_at(stream, 0, size)):
        if tag != _MODEL_GRAPH:
            continue
        for _, inner, _, first, count in list(_fields_at(stream, start, length)):
            if inner != 1:
                continue
            texts: dict[int, list[str]] = {}
            for _, part, wire, at, long in list(_fields_at(stream, first, count)):
                if wire == _BYTES and part in (_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE):
                    stream.seek(at)
                    texts.setdefault(part, []).append(_read(stream, long).decode("utf-8", "replace"))
            found.append(
                Node(
                    "".join(texts.get(_NODE_NAME, [])[-1:]),
                    "".join(texts.get(_NODE_TYPE, [])[-1:]),
                    tuple(filter(None, texts.get(_NODE_INPUT, []))),
                    tuple(filter(None, texts.get(_NODE_OUTPUT, []))),
                )
            )
    return found


def fields(stream: BinaryIO, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields of the message between the stream's place and `end`.

    Yields
    ------
    tuple of int
        Where the field begins, its number, its wire type, where its content begins, and the content's length. The
        stream may be moved in between.

    Raises
    ------
    MalformedError
        If the bytes are no message.
    """
    position = stream.tell()
    while position < end:
        stream.seek(position)
        tag, _ = _read_varint(stream)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise MalformedError(f"byte {position} starts no field")
        start = stream.tell()
        if wire == _BYTES:
            length, taken = _read_varint(stream)
            start += taken
            if start + length > end:
                raise MalformedError(f"it is cut off: the field at byte {position} ends beyond the data")
        elif wire == _VARINT:
            _, length = _read_varint(stream)
        elif wire == _FIXED64:
            length = 8
        elif wire == _FIXED32:
            length = 4
        else:
            raise MalformedError(f"the field at byte {position} has the unknown wire type {wire}")
        yield position, number, wire, start, length
        position = start + length
    if position != end:
        raise MalformedError(f"a message ends at byte {position} in place of {end}")


def _fields_at(stream: BinaryIO, start: int, length: int) -> Iterator[tuple[int, int, int, int, int]]:
    stream.seek(start)
    return fields(stream, start + length)


def _text_of(stream: BinaryIO, start: int, length: int, wanted: int) -> str:
    """Return a text field of the message at a place, empty if it has none."""
    text = b""
    for _, tag, wire, first, count in _fields_at(stream, start, length):
        if tag == wanted and wire == _BYTES:
            stream.seek(first)
            text = _read(stream, count)
    return text.decode("utf-8", "replace")


def field_start(number: int, length: int) -> bytes:
    """Return what stands before the bytes of a text, a message or other data of a length."""
    return encode_varint(number << 3 | _BYTES) + encode_varint(length)


def _field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(content)) + content


def _read(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise MalformedError("it is cut off")
    return data


def _read_varint(stream: BinaryIO) -> tuple[int, int]:
    """Read a base-128 integer; return its value and how many bytes it took."""
    value = shift = 0
    for taken in range(1, 11):
        byte = _read(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, taken
        shift += 7
    raise MalformedError("an integer is longer than ten bytes")


def encode_varint(value: int) -> bytes:
    """Encode a non-negative integer in base 128."""
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


def skeleton(stream: BinaryIO, size: int, most_bytes: int) -> bytes:
    """Return a serialised model without the payload of its large tensors.

    Raises
    ------
    MalformedError
        If the bytes are no message, or what remains is longer than `most_bytes`.
    """
    edited = Editor(payload=False).edit(stream, size)
    if edited.length > most_bytes:
        raise MalformedError(f"it holds more than {most_bytes >> 30} GB that is not tensor data")
    out = io.BytesIO()
    for chunk in edited.chunks(stream):
        out.write(chunk)
    return out.getvalue()
