"""Parse an ONNX file without its weights: memory stays bounded by the structure, not by the data.

Protobuf can only parse a message whole, weights included, and no message above 2 GB. Planning needs dimensions,
never weight values, so the file is copied field by field at the level of the wire format (`cimplan.graph.wire`) and
the payload of every tensor above `KEPT_BYTES` is stepped over, unread. Small tensors stay: shapes are computed from
them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cimplan.errors import InputError
from cimplan.files import open_input
from cimplan.graph.expansion import require_bounded_functions
from cimplan.graph.wire import KEPT_BYTES, MalformedError, skeleton

if TYPE_CHECKING:
    import onnx

_LARGEST_SKELETON_BYTES = 1 << 30
_EXPECT_ONNX = "Give a model in the binary ONNX format, such as model.onnx"


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
        If the file cannot be read or is not a whole ONNX model, or its functions cannot be expanded.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

    try:
        if path.is_dir():
            raise InputError("is a folder, not a model", where=str(path), fix=_EXPECT_ONNX)
        with open_input(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            bare = _skeleton_bytes(stream, size, str(path))
    except OSError as error:
        raise InputError(
            "cannot read the model", where=str(path), why=str(error.strerror), fix="Check the path"
        ) from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bare)
    except DecodeError as error:
        raise InputError(
            "is not an ONNX model", where=str(path), why="its fields have wrong types", fix=_EXPECT_ONNX
        ) from error
    require_bounded_functions(model, str(path))
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
    try:
        return skeleton(stream, size, _LARGEST_SKELETON_BYTES)
    except MalformedError as error:
        raise InputError("is not a whole ONNX model", where=where, why=str(error), fix=_EXPECT_ONNX) from error
