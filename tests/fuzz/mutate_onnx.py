"""Mutations of ONNX models where their structure is: any field of any message, and what hurts readers of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper

from .mutate import WORDS


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_INTEGERS = (0, 1, -1, 2, 3, 7, 16, 17, 255, 2**31 - 1, -(2**31))
_LONG = (*_INTEGERS, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"))
_OPERATORS = _words(
    "Conv Gemm MatMul Relu Add Reshape Transpose Concat Split Slice Gather Shape Squeeze Unsqueeze Expand "
    "Tile Pad If Loop Scan Constant ConstantOfShape LSTM GRU RNN ConvTranspose MaxPool GlobalAveragePool "
    "BatchNormalization Einsum Resize QuantizeLinear DequantizeLinear QLinearConv QLinearMatMul "
    "MatMulInteger ConvInteger Cast Range NonZero TopK SequenceConstruct SequenceAt Optional "
    "StringNormalizer Attention NoSuchOperator Where Flatten Identity Softmax "
)
_ATTRIBUTES = _words(
    "axis axes kernel_shape strides pads dilations group auto_pad perm to value keepdims transA transB "
    "alpha shape output_padding output_shape equation then_branch else_branch body hidden_size direction "
    "split num_outputs mode "
)
_EXTERNAL = (
    "weights.bin",
    "../outside.bin",
    "/etc/passwd",
    "",
    ".",
    "a" * 300,
    "weights.bin\0x",
    "no.bin",
    "\N{GRINNING FACE}",
)


def model(rng: Random, content: bytes) -> bytes:
    """Return a model with one change; what no longer parses comes back as it is."""
    try:
        proto = onnx.load_model_from_string(content)
    except Exception:
        return content
    if rng.random() < 0.55:
        _any_field(rng, proto)
    else:
        rng.choice(_SPECIAL)(rng, proto)
    return bytes(proto.SerializeToString())


def _messages(message: Message, depth: int = 0) -> Iterator[Message]:
    yield message
    if depth > 12:
        return
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner, depth + 1)


def _any_field(rng: Random, proto: onnx.ModelProto) -> None:
    messages = list(_messages(proto))
    message = rng.choice(messages)
    # Mostly a field that is set; now and then one that is not.
    fields = [field for field, _ in message.ListFields()]
    if not fields or rng.random() < 0.15:
        fields = list(message.DESCRIPTOR.fields)
    field = rng.choice(fields)
    if rng.random() < 0.12:
        message.ClearField(field.name)
    elif field.is_repeated:
        _repeated(rng, message, field, messages, proto)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        _replace(rng, getattr(message, field.name), messages)
    else:
        setattr(message, field.name, _scalar(rng, field, getattr(message, field.name), proto))


def _replace(rng: Random, target: Message, messages: list[Message]) -> None:
    alike = [other for other in messages if other.DESCRIPTOR.full_name == target.DESCRIPTOR.full_name]
    source = rng.choice(alike) if alike else None
    if source is None or rng.random() < 0.2:
        target.SetInParent()
        target.Clear()
        return
    copy = type(source)()
    copy.CopyFrom(source)
    target.CopyFrom(copy)


def _repeated(rng: Random, message: Message, field: Any, messages: list[Message], proto: onnx.ModelProto) -> None:
    values = getattr(message, field.name)
    at = rng.randrange(len(values)) if len(values) else 0
    kind = rng.randrange(5)
    if kind == 0 and len(values):
        del values[at]
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if kind == 1 and len(values):
            values.add().CopyFrom(values[at])
        elif kind == 2 and len(values) > 1:
            held = [type(value).FromString(value.SerializeToString()) for value in values]
            rng.shuffle(held)
            del values[:]
            for value in held:
                values.add().CopyFrom(value)
        else:
            _replace(rng, values[at] if len(values) and kind == 3 else values.add(), messages)
        return
    old = values[at] if len(values) else None
    if kind == 1 and old is not None:
        values.extend([old] * rng.choice((1, 5, 100)))
    elif kind in (2, 3) and old is not None:
        values[at] = _scalar(rng, field, old, proto)
    else:
        values.append(_scalar(rng, field, old, proto))


def _scalar(rng: Random, field: Any, old: Any, proto: onnx.ModelProto) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        names = _names(proto)
        if names and rng.random() < 0.7:
            return rng.choice(names)
        return rng.choice((*WORDS, *_OPERATORS, *_ATTRIBUTES))
    if kind == FieldDescriptor.TYPE_BYTES:
        held = old or b""
        return rng.choice((b"", held[:-1], held * 2, b"\xff\xfe", b"SAME_UPPER", b"VALID", b"x" * 3000))
    if kind in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return rng.choice(_FLOATS)
    if kind == FieldDescriptor.TYPE_ENUM:
        return rng.choice(list(field.enum_type.values_by_number))
    if kind in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64):
        pool = _LONG if old is None or rng.random() < 0.5 else (old + 1, old - 1, old * 2, old // 2)
        number = rng.choice(pool)
        return number % 2**64 if kind == FieldDescriptor.TYPE_UINT64 else max(-(2**63), min(2**63 - 1, number))
    if kind == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    number = rng.choice(_INTEGERS)
    return max(number, 0) if kind == FieldDescriptor.TYPE_UINT32 else number


def _names(proto: onnx.ModelProto) -> list[str]:
    found: set[str] = set()
    for node in proto.graph.node:
        found.update((*node.input, *node.output, node.name))
    found.update(tensor.name for tensor in proto.graph.initializer)
    return sorted(found)


def _node(rng: Random, proto: onnx.ModelProto) -> onnx.NodeProto | None:
    return rng.choice(proto.graph.node) if proto.graph.node else None


def _cycle(rng: Random, proto: onnx.ModelProto) -> None:
    node, other = _node(rng, proto), _node(rng, proto)
    if node is not None and other is not None and node.input and other.output:
        node.input[rng.randrange(len(node.input))] = rng.choice(other.output)


def _operator(rng: Random, proto: onnx.ModelProto) -> None:
    node = _node(rng, proto)
    if node is not None:
        node.op_type = rng.choice(_OPERATORS)
        node.domain = rng.choice((node.domain, "", "ai.onnx", "com.microsoft", "ai.onnx.ml", "no.domain"))


def _attribute(rng: Random, proto: onnx.ModelProto) -> None:
    node = _node(rng, proto)
    if node is None:
        return
    values: Any = rng.choice(
        (
            rng.choice(_LONG),
            [rng.choice(_INTEGERS) for _ in range(rng.randrange(1, 5))],
            [rng.choice(_LONG) for _ in range(rng.choice((1, 2, 4, 40)))],
            rng.choice(_FLOATS),
            rng.choice(WORDS[:12]),
            rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "ij,jk->ik", "bi,io->bo", "...i,...i", "->")),
        )
    )
    node.attribute.append(helper.make_attribute(rng.choice(_ATTRIBUTES), values))


def _dims(rng: Random, proto: onnx.ModelProto) -> None:
    values = [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]
    if not values:
        return
    shape = rng.choice(values).type.tensor_type.shape
    kind = rng.randrange(4)
    if kind == 0 and shape.dim:
        shape.dim[rng.randrange(len(shape.dim))].dim_value = rng.choice(_LONG)
    elif kind == 1 and shape.dim:
        shape.dim[rng.randrange(len(shape.dim))].dim_param = rng.choice(("batch", "", "n" * 300, "a+b", "\x1b[2J"))
    elif kind == 2:
        for _ in range(rng.choice((1, 2, 70))):
            shape.dim.add().dim_value = rng.choice((0, 1, 2, 2**31, 2**62))
    elif shape.dim:
        del shape.dim[rng.randrange(len(shape.dim))]


def _weight(rng: Random, proto: onnx.ModelProto) -> None:
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    kind = rng.randrange(5)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice((*_LONG, tensor.dims[0] + 1))
    elif kind == 1:
        tensor.data_type = rng.choice(list(TensorProto.DataType.values()))
    elif kind == 2:
        tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
    elif kind == 3:
        tensor.name = rng.choice(_names(proto))
    else:
        tensor.dims.extend([rng.choice((0, 1, 2**31, 2**62))] * rng.choice((1, 2, 60)))


def _external(rng: Random, proto: onnx.ModelProto) -> None:
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (
        ("location", rng.choice(_EXTERNAL)),
        ("offset", str(rng.choice((0, 4, -1, 2**63, 2**70, "x", "1e9", "٣")))),
        ("length", str(rng.choice((0, 4, 64, -1, 2**63, 10**30, "")))),
        ("checksum", "zz"),
    ):
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value


def _subgraph(rng: Random, proto: onnx.ModelProto) -> None:
    """Put the graph, or a copy of it some levels deep, into an If or a Loop."""
    body = onnx.GraphProto()
    body.CopyFrom(proto.graph)
    for _ in range(rng.choice((1, 1, 3, 30, 120))):
        outer = onnx.GraphProto(name="g")
        kind = rng.choice(("If", "Loop", "Scan"))
        node = outer.node.add(op_type=kind, name=rng.choice(("", "n", "stem")))
        node.input.append(rng.choice(_names(proto) or [""]))
        node.output.extend(value.name for value in body.output)
        for name in ("then_branch", "else_branch") if kind == "If" else ("body",):
            attribute = node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
            attribute.g.CopyFrom(body if name != "else_branch" else onnx.GraphProto())
        body = outer
    proto.graph.node.add().CopyFrom(body.node[0])


def _function(rng: Random, proto: onnx.ModelProto) -> None:
    """Add functions that call each other: in a row, in a ring, or twice each, which doubles with every level."""
    levels = rng.choice((1, 2, 5, 24))
    twice = rng.choice((1, 1, 2, 6))
    ring = rng.random() < 0.25
    for level in range(levels):
        function = proto.functions.add(name=f"f{level}", domain="local")
        function.input.append("x")
        function.output.append("y")
        function.opset_import.add(domain="", version=17)
        function.opset_import.add(domain="local", version=1)
        source = "x"
        last = level == levels - 1 and not ring
        for step in range(twice):
            target = "y" if step == twice - 1 else f"t{step}"
            called = ("Relu", "") if last else (f"f{(level + 1) % levels}", "local")
            function.node.add(op_type=called[0], domain=called[1], input=[source], output=[target])
            source = target
    proto.opset_import.add(domain="local", version=1)
    names = _names(proto) or ["x"]
    proto.graph.node.add(op_type="f0", domain="local", input=[rng.choice(names)], output=[rng.choice((*names, "fy"))])


def _opset(rng: Random, proto: onnx.ModelProto) -> None:
    if proto.opset_import and rng.random() < 0.7:
        rng.choice(proto.opset_import).version = rng.choice((0, 1, 7, 11, 12, 13, 18, 21, 23, 999, -5, 2**62))
    else:
        proto.opset_import.add(
            domain=rng.choice(("", "ai.onnx", "com.microsoft", "x")), version=rng.choice((1, 13, 99))
        )


def _many(rng: Random, proto: onnx.ModelProto) -> None:
    node = _node(rng, proto)
    if node is None or not node.output:
        return
    name = node.output[0]
    for number in range(rng.choice((3, 60, 400))):
        copy = proto.graph.node.add()
        copy.CopyFrom(node)
        copy.name = rng.choice(("", node.name, f"n{number}"))
        del copy.output[:]
        copy.output.append(f"many{number}")
        if copy.input and rng.random() < 0.6:
            copy.input[0] = name
        name = copy.output[0]


def _edge(rng: Random, proto: onnx.ModelProto) -> None:
    node = _node(rng, proto)
    names = _names(proto)
    if node is None or not names:
        return
    ends = rng.choice((node.input, node.output))
    kind = rng.randrange(4)
    if kind == 0 and len(ends):
        ends[rng.randrange(len(ends))] = rng.choice((*names, ""))
    elif kind == 1:
        ends.append(rng.choice((*names, "", "fresh")))
    elif kind == 2 and len(ends):
        del ends[rng.randrange(len(ends))]
    else:
        proto.graph.output.add().CopyFrom(helper.make_tensor_value_info(rng.choice(names), TensorProto.FLOAT, None))


_SPECIAL = (_cycle, _operator, _attribute, _dims, _weight, _external, _subgraph, _function, _opset, _many, _edge)
