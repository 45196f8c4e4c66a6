"""Files: weights are never read, and what is no ONNX model is refused in one paragraph."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from graph_models import integers, model, save, small_cnn, value, weight
from onnx import TensorProto, helper

from cimplan.errors import InputError
from cimplan.graph.nodes import dtype_name
from cimplan.graph.operators import BITS_OF_DTYPE, MatrixWork
from cimplan.graph.read import read_graph
from cimplan.graph.skim import KEPT_BYTES, read_skeleton, without_weights


def gemm_with_large_weight(size: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "shape"], ["y"]),
    ]
    return model(nodes, {"x": [3, size]}, ["y"], [weight("w", size, 64), integers("shape", [-1])])


def test_large_weights_lose_their_payload_and_small_tensors_keep_it(tmp_path: Path) -> None:
    net = gemm_with_large_weight(64)
    for skeleton in (read_skeleton(save(net, tmp_path / "net.onnx")), without_weights(net)):
        large, small = skeleton.graph.initializer
        assert list(large.dims) == [64, 64] and large.data_type == TensorProto.FLOAT and large.name == "w"
        assert not large.raw_data
        assert onnx.numpy_helper.to_array(small).tolist() == [-1]
        assert skeleton.ByteSize() < KEPT_BYTES
    assert len(net.graph.initializer[0].raw_data) == 64 * 64 * 4


def test_everything_but_payload_survives(tmp_path: Path) -> None:
    net = small_cnn()
    net.doc_string = "d" * 10_000
    net.graph.node[0].doc_string = "n" * 10_000
    entry = net.metadata_props.add()
    entry.key, entry.value = "k", "v" * 10_000
    expected = onnx.ModelProto()
    expected.CopyFrom(net)
    for tensor in expected.graph.initializer:
        if tensor.ByteSize() > KEPT_BYTES:
            tensor.ClearField("raw_data")
    assert read_skeleton(save(net, tmp_path / "net.onnx")) == expected
    assert without_weights(net) == expected


@pytest.mark.parametrize(
    "field", ["float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"]
)
def test_payload_of_every_kind_is_dropped(tmp_path: Path, field: str) -> None:
    net = gemm_with_large_weight(64)
    tensor = net.graph.initializer[0]
    tensor.ClearField("raw_data")
    getattr(tensor, field).extend([b"abcd"] * 4096 if field == "string_data" else [1] * 9000)
    skeleton = read_skeleton(save(net, tmp_path / "net.onnx"))
    assert not getattr(skeleton.graph.initializer[0], field)
    assert list(skeleton.graph.initializer[0].dims) == [64, 64]


def test_weights_in_subgraphs_and_attributes_are_dropped(tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        return helper.make_graph(
            [
                helper.make_node("Constant", [], ["k"], value=weight("t", 64, 64)),
                helper.make_node("MatMul", ["x", "k"], [f"m{name}"]),
                helper.make_node("MatMul", [f"m{name}", "big"], [name]),
            ],
            name,
            [],
            [value(name, [2, 64])],
            [weight("big", 64, 64)],
        )

    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))]
    net = model(nodes, [value("x", [2, 64]), value("c", [], TensorProto.BOOL)], ["y"])
    path = save(net, tmp_path / "net.onnx")
    assert path.stat().st_size > 60_000
    assert read_skeleton(path).ByteSize() < 2000
    assert read_graph(path).tensors["y"].shape == (2, 64)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _sparse_file(path: Path, rows: int) -> Path:
    """Write a model whose weight of rows × 1024 floats is a hole in the file: no disk, no memory."""
    payload = rows * 1024 * 4
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [3, rows]}, ["y"])
    head = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 1024]).SerializeToString()
    head += b"\x4a" + _varint(payload)  # field 9, raw_data
    tensor_field = b"\x2a" + _varint(len(head) + payload)  # graph field 5, initializer
    graph = net.graph.SerializeToString()
    net.ClearField("graph")
    with path.open("wb") as stream:
        stream.write(net.SerializeToString())
        stream.write(b"\x3a" + _varint(len(graph) + len(tensor_field) + len(head) + payload))
        stream.write(graph + tensor_field + head)
        stream.truncate(stream.tell() + payload)
    return path


def test_a_model_above_2_gb_is_read_in_little_memory(tmp_path: Path) -> None:
    path = _sparse_file(tmp_path / "large.onnx", 700_000)
    assert path.stat().st_size > 2 << 30
    # VmHWM is of this process alone; ru_maxrss of a new process starts at its parent's peak, here the whole run's.
    script = (
        "import sys; from pathlib import Path; import onnx; from cimplan.graph.read import read_graph;"
        "size = lambda: int(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]);"
        "before = size(); graph = read_graph(Path(sys.argv[1]));"
        "print(graph.operators[0].work.macs, size() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    macs, peak_kib = map(int, done.stdout.split())
    assert macs == 3 * 700_000 * 1024
    assert peak_kib < 300 * 1024


def _external(path: Path, location: str, **changes: str) -> Path:
    net = gemm_with_large_weight(64)
    tensor = net.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in ({"location": location, "offset": "0", "length": str(64 * 64 * 4)} | changes).items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return save(net, path)


def test_external_data_need_not_even_exist(tmp_path: Path) -> None:
    graph = read_graph(_external(tmp_path / "net.onnx", "weights/absent.bin"))
    assert graph.operators[0].work == MatrixWork(64, 64, 3)


def test_small_external_tensors_that_decide_shapes_are_read(tmp_path: Path) -> None:
    net = gemm_with_large_weight(64)
    onnx.save(net, tmp_path / "net.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    assert not onnx.load(tmp_path / "net.onnx", load_external_data=False).graph.initializer[1].raw_data
    assert read_graph(tmp_path / "net.onnx").tensors["y"].shape == (3 * 64,)
    (tmp_path / "data.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="'y' is unknown"):
        read_graph(tmp_path / "net.onnx")
    (tmp_path / "data.bin").unlink()
    with pytest.raises(InputError, match="'y' is unknown"):
        read_graph(tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/etc/passwd", "absolute path"),
        ("C:\\data\\w.bin", "absolute path"),
        ("\\\\host\\share\\w.bin", "absolute path"),
        ("../w.bin", "outside the model's folder"),
        ("sub/../../w.bin", "outside the model's folder"),
        ("sub\\..\\..\\w.bin", "outside the model's folder"),
        ("", "without a file name"),
        ("a\0b", "without a file name"),
    ],
)
def test_external_data_outside_the_models_folder_are_refused(tmp_path: Path, location: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_graph(_external(tmp_path / "net.onnx", location))
    assert "tensor 'w'" in str(caught.value)


def test_external_data_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="outside the model's folder"):
        read_graph(_external(folder / "net.onnx", "link/w.bin"))
    (folder / "file.bin").symlink_to(tmp_path / "secret" / "w.bin")
    with pytest.raises(InputError, match="outside the model's folder"):
        read_graph(_external(folder / "net.onnx", "file.bin"))
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(InputError, match="outside the model's folder"):
        read_graph(_external(folder / "net.onnx", "loop/w.bin"))


def test_external_data_of_a_linked_model_may_sit_with_the_real_file(tmp_path: Path) -> None:
    # How model hubs keep their caches: both files are links into one folder.
    (tmp_path / "store").mkdir()
    (tmp_path / "view").mkdir()
    _external(tmp_path / "store" / "m", "w.bin")
    (tmp_path / "store" / "d").write_bytes(b"")
    (tmp_path / "view" / "net.onnx").symlink_to(tmp_path / "store" / "m")
    (tmp_path / "view" / "w.bin").symlink_to(tmp_path / "store" / "d")
    assert read_graph(tmp_path / "view" / "net.onnx").operators[0].work == MatrixWork(64, 64, 3)


NOT_MODELS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "text": (b"This is not a model.\n", "is not an ONNX model|holds no operators|not a whole ONNX model"),
    "long text": (b"This is not a model.\n" * 1000, "not a whole ONNX model"),
    "html": (b"<!DOCTYPE html><html>" + b"<p>" * 2000, "not a whole ONNX model"),
    "zeros": (b"\0" * 10_000, "not a whole ONNX model"),
    "lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "ort format": (b"\x18\0\0\0ORTM" + b"\0" * 100, "ORT format"),
    "endless number": (b"\x08" + b"\xff" * 5000, "longer than ten bytes"),
    "group wire type": (b"\x0b" * 5000, "wire type 3"),
    "empty message": (helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString(), "holds no operators"),
}


@pytest.mark.parametrize("kind", NOT_MODELS)
def test_what_is_no_model_is_refused(tmp_path: Path, kind: str) -> None:
    content, message = NOT_MODELS[kind]
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_graph(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read_graph(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_graph(tmp_path / "absent.onnx")
    with pytest.raises(InputError, match="the name of no file"):
        read_graph(Path("a\0b"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs file permissions")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = save(small_cnn(), tmp_path / "net.onnx")
    path.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        read_graph(path)


def test_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    content = small_cnn().SerializeToString().replace(b"Sigmoid", b"Sigm\xff\xfed")
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_graph(path)


def _contents() -> dict[str, bytes]:
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    lstm = model(
        [
            helper.make_node("LSTM", ["x", "w", "r"], ["l"], hidden_size=4),
            helper.make_node("Shape", ["l"], ["s"]),
            helper.make_node("Expand", ["x0", "s"], ["e"]),
            helper.make_node("QLinearAdd", ["q", "f", "z", "q", "f", "z", "f", "z"], ["y"], domain="com.microsoft"),
        ],
        [value("x", [5, 2, 3]), value("x0", [1]), value("q", [3, 4], TensorProto.UINT8)],
        ["l", "e", "y"],
        [weight("w", 1, 16, 3), weight("r", 1, 16, 4), weight("f"), integers("z", 0, "uint8")],
    )
    return {"cnn": small_cnn().SerializeToString(), "light": light.read_bytes(), "lstm": lstm.SerializeToString()}


def _truncated(content: bytes, generator: random.Random) -> bytes:
    return content[: generator.randrange(len(content))]


def _mutated(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice([1, 1, 2, 5, 20])):
        changed[generator.randrange(len(changed))] = generator.randrange(256)
    return bytes(changed)


def _cut_out(content: bytes, generator: random.Random) -> bytes:
    start = generator.randrange(len(content))
    return content[:start] + content[start + generator.randrange(1, 40) :]


@pytest.mark.parametrize("damage", [_truncated, _mutated, _cut_out], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["cnn", "light", "lstm"])
def test_a_damaged_file_gives_a_graph_or_a_clear_error(
    tmp_path: Path, name: str, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    content = _contents()[name]
    generator = random.Random(f"{name} {damage.__name__}")
    path = tmp_path / "net.onnx"
    refused = 0
    for _ in range(150):
        path.write_bytes(damage(content, generator))
        try:
            graph = read_graph(path)
        except InputError as error:
            assert "\n" not in str(error)[:-1] or len(str(error)) < 2000
            refused += 1
        else:
            assert all(size >= 0 for tensor in graph.tensors.values() for size in tensor.shape)
            assert all(edge.source < edge.target for edge in graph.edges)
    assert refused > 15


def test_every_element_type_of_onnx_has_a_size(tmp_path: Path) -> None:
    kinds = [kind for kind in TensorProto.DataType.values() if kind != TensorProto.UNDEFINED]
    assert {dtype_name(kind) for kind in kinds} <= BITS_OF_DTYPE.keys()
    initializers = [TensorProto(name=f"t{kind}", data_type=kind, dims=[3]) for kind in kinds]
    nodes = [helper.make_node("Mystery", [f"t{kind}" for kind in kinds], ["m"], domain="org.example")]
    net = model(nodes, {}, ["m"], initializers, value_info=[value("m", [3])])
    graph = read_graph(save(net, tmp_path / "net.onnx"))
    assert {graph.tensors[f"t{kind}"].size_bytes for kind in kinds} == {1, 2, 3, 6, 12, 24, 48}
