"""Parse an ONNX file without its weights: memory stays bounded by the structure, not by the data.

Protobuf can only parse a message whole, weights included, and no message above 2 GB. Planning needs dimensions,
never weight values, so the file is copied field by field at the level of the wire format and the payload of every
tensor above `KEPT_BYTES` is stepped over, unread. Small tensors stay: shapes are computed from them.

The wire format and the field numbers are those of the protobuf encoding guide and of `onnx.proto`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cimplan.errors import InputError

if TYPE_CHECKING:
    import onnx

KEPT_BYTES = 4096
"""A tensor message longer than this loses its payload."""

_LARGEST_SKELETON_BYTES = 1 << 30
_DEEPEST_NESTING = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Which fields of a message are messages that may hold tensors.
_CHILDREN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# Fields that are dropped: the payload of a tensor, and the training graphs of a model.
_DROPPED: Mapping[str, frozenset[int]] = {"tensor": frozenset({4, 5, 6, 7, 9, 10, 11}), "model": frozenset({20})}
_NOTHING: frozenset[int] = frozenset()
_EXPECT_ONNX = "Give a model in the binary ONNX format, such as model.onnx"


class _MalformedError(Exception):
    """The bytes are not a protobuf message."""


def read_skeleton(path: Path) -> onnx.ModelProto:
    """Parse an ONNX file without the payload of its large tensors.

    Parameters
    ----------
    path : Path
        The model. It may be larger than 2 GB. External data are not opened.

    Returns
    -------
    onnx.ModelProto
        The model; tensors above `KEPT_BYTES` keep name, type and dimensions only.

    Raises
    ------
    InputError
        If the file cannot be read or is not a whole ONNX model.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

    try:
        if path.is_dir():
            raise InputError("is a folder, not a model", where=str(path), fix=_EXPECT_ONNX)
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            skeleton = _skeleton_bytes(stream, size, str(path))
    except OSError as error:
        raise InputError(
            "cannot read the model", where=str(path), why=str(error.strerror), fix="Check the path"
        ) from error
    except ValueError as error:  # a path with a null character
        raise InputError("is not a usable path", where=repr(str(path)), why=str(error)) from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(skeleton)
    except DecodeError as error:
        raise InputError(
            "is not an ONNX model", where=str(path), why="its fields have wrong types", fix=_EXPECT_ONNX
        ) from error
    return model


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model in memory that lacks the payload of its large tensors.

    The weights are neither copied nor serialised together, so the model may exceed 2 GB. Weights that sit in
    subgraphs or attributes are copied once and dropped; networks keep the bulk of theirs among the initializers.
    """
    import onnx

    copy = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name in ("graph", "training_info"):
            continue
        if hasattr(value, "extend"):
            getattr(copy, field.name).extend(value)
        else:
            setattr(copy, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name == "initializer":
            for tensor in value:
                copy.graph.initializer.append(_without_payload(tensor))
        elif hasattr(value, "extend"):
            getattr(copy.graph, field.name).extend(value)
        else:
            setattr(copy.graph, field.name, value)
    for node in copy.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.ByteSize() > KEPT_BYTES:
                attribute.t.CopyFrom(_without_payload(attribute.t))
    return copy


def _without_payload(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a tensor as it is if it is small, else with name, type and dimensions only."""
    import onnx

    if tensor.ByteSize() <= KEPT_BYTES:
        return tensor
    bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    bare.data_location = tensor.data_location
    bare.external_data.extend(tensor.external_data)
    return bare


def _skeleton_bytes(stream: BinaryIO, size: int, where: str) -> bytes:
    """Return the serialised model without the payload of its large tensors."""
    if size == 0:
        raise InputError("is empty", where=where, fix=_EXPECT_ONNX)
    head = stream.read(64)
    stream.seek(0)
    if head.startswith(b"version https://git-lfs"):
        raise InputError(
            "is a Git LFS pointer, not the model", where=where, fix="Fetch the model itself with 'git lfs pull'"
        )
    if head[4:8] == b"ORTM":
        raise InputError("is in the ORT format of ONNX Runtime", where=where, fix=_EXPECT_ONNX)
    if size <= KEPT_BYTES:
        return stream.read()
    out = bytearray()
    try:
        _copy_message(stream, size, "model", out, 0)
    except _MalformedError as error:
        raise InputError("is not a whole ONNX model", where=where, why=str(error), fix=_EXPECT_ONNX) from error
    return bytes(out)


def _copy_message(stream: BinaryIO, end: int, kind: str, out: bytearray, depth: int) -> None:
    """Copy the fields of one message, which ends at offset `end`, without what is dropped."""
    if depth > _DEEPEST_NESTING:
        raise _MalformedError(f"messages are nested more than {_DEEPEST_NESTING} deep")
    children = _CHILDREN[kind]
    dropped = _DROPPED.get(kind, _NOTHING)
    while (position := stream.tell()) < end:
        tag, tag_bytes = _read_varint(stream)
        field, wire = tag >> 3, tag & 7
        if field == 0:
            raise _MalformedError(f"byte {position} starts no field")
        if wire == _BYTES:
            length, length_bytes = _read_varint(stream)
            start = stream.tell()
            if start + length > end:
                raise _MalformedError(f"it is cut off: the field at byte {position} ends beyond the data")
            if field in dropped:
                stream.seek(length, io.SEEK_CUR)
            elif length > KEPT_BYTES and field in children:
                child = bytearray()
                _copy_message(stream, start + length, children[field], child, depth + 1)
                out += tag_bytes
                out += _varint(len(child))
                out += child
            else:
                if len(out) + length > _LARGEST_SKELETON_BYTES:
                    raise _MalformedError("it holds more than 1 GB that is not tensor data")
                out += tag_bytes
                out += length_bytes
                out += _read(stream, length)
            continue
        if wire == _VARINT:
            _, value = _read_varint(stream)
        elif wire == _FIXED64:
            value = _read(stream, 8)
        elif wire == _FIXED32:
            value = _read(stream, 4)
        else:
            raise _MalformedError(f"the field at byte {position} has the unknown wire type {wire}")
        if field not in dropped:
            out += tag_bytes
            out += value
    if stream.tell() != end:
        raise _MalformedError(f"a message ends at byte {stream.tell()} in place of {end}")


def _read(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise _MalformedError("it is cut off")
    return data


def _read_varint(stream: BinaryIO) -> tuple[int, bytes]:
    """Read a base-128 integer; return its value and its bytes."""
    first = _read(stream, 1)
    if first[0] < 0x80:
        return first[0], first
    raw = bytearray(first)
    value = first[0] & 0x7F
    shift = 7
    while True:
        byte = _read(stream, 1)[0]
        raw.append(byte)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, bytes(raw)
        shift += 7
        if shift >= 70:
            raise _MalformedError("an integer is longer than ten bytes")


def _varint(value: int) -> bytes:
    """Encode a non-negative integer in base 128."""
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)
