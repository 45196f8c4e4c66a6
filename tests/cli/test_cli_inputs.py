"""--dim and --value on the command line."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Gather", ["x", "r"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 16]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(0), "zero"),
            numpy_helper.from_array(np.array(1), "one"),
            numpy_helper.from_array(np.ones((16, 8), np.float32), "w"),
        ],
    )
    path = tmp_path / "valued.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_every_command_takes_named_sizes_and_values(cimplan, model: Path, tmp_path: Path) -> None:
    given = ("--dim", "rows=9", "--value", "n=5")
    inspected = cimplan("inspect", model, *given, "--json")
    assert inspected.code == 0 and inspected.json["operators"][-1]["output_shapes"] == [[5, 8]]
    assert cimplan("compile", model, *given, "--hardware", "dual-mode-small", "--json").code == 0
    profile, plan = tmp_path / "host.json", tmp_path / "plan.json"
    assert cimplan("profile", model, *given, "--measure-for", "50ms", "-o", profile).code == 0
    assert cimplan("partition", model, *given, "--profile", profile, "-o", plan).code == 0
    compared = cimplan("compare", model, *given, "--profile", profile, "--methods", "greedy,cpu-only", "--json")
    assert compared.code == 0 and compared.json["methods"][0]["status"] != "failed"
    exported = tmp_path / "annotated.onnx"
    assert cimplan("export", plan, "--to", "onnx", "--model", model, *given, "-o", exported).code == 0
    assert exported.is_file()


def test_values_come_from_files_too(cimplan, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", n=np.int64(6))
    np.save(tmp_path / "x.npy", np.zeros((9, 16), np.float32))
    done = cimplan("inspect", model, "--value", tmp_path / "inputs.npz", "--value", f"x={tmp_path / 'x.npy'}", "--json")
    assert done.code == 0 and done.json["operators"][-1]["output_shapes"] == [[6, 8]]


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--dim", "rows", "is not a size"),
        ("--dim", "rows=-1", "is not a size"),
        ("--dim", "row=9", "Did you mean 'rows'"),
        ("--value", "n", "is not a value"),
        ("--value", "n=many", "is not a value"),
        ("--value", "missing.npz", "cannot be read"),
        ("--value", "n=2.5", "does not fit the type"),
    ],
)
def test_what_does_not_fit_is_refused(cimplan, model: Path, option: str, text: str, said: str) -> None:
    done = cimplan("inspect", model, option, text)
    assert done.code == 2 and said in done.err


def _with_header(path: Path, shape: str, kind: str = "<i8") -> None:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def _text_inside(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("n", "[6]")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("sizes.npy", lambda path: _with_header(path, "(0, 1000000000000000000000)")),
        ("negative.npy", lambda path: _with_header(path, "(-1,)")),
        ("cut.npy", lambda path: _with_header(path, "(2,)")),
        ("nested.npy", lambda path: _with_header(path, "(" * 45 + ")" * 45)),
        ("objects.npy", lambda path: np.save(path, np.array([{1: 2}], dtype=object))),
        ("archive.npy", lambda path: path.write_bytes(b"PK\3\4")),
        ("text.npz", _text_inside),
        ("array.npz", lambda path: _with_header(path, "(0,)")),
        ("pipe.npy", os.mkfifo),
        ("folder.npy", Path.mkdir),
    ],
)
def test_no_file_of_values_is_taken_for_what_it_is_not(cimplan, model: Path, tmp_path: Path, name: str, write) -> None:
    path = tmp_path / name
    write(path)
    done = cimplan("inspect", model, "--value", f"n={path}" if name.endswith(".npy") else path)
    assert done.code == 2 and name in done.err


def test_names_of_inputs_need_the_model_beside_a_profile(cimplan, model: Path, tmp_path: Path) -> None:
    profile = tmp_path / "host.json"
    assert (
        cimplan("profile", model, "--dim", "rows=9", "--value", "n=5", "--measure-for", "50ms", "-o", profile).code == 0
    )
    done = cimplan("partition", "--profile", profile, "--value", "n=5")
    assert done.code == 2 and "need the model" in done.err


def test_checking_against_the_model_takes_them_too(cimplan, model: Path, tmp_path: Path) -> None:
    given = ("--dim", "rows=9", "--value", "n=5")
    profile, plan = tmp_path / "host.json", tmp_path / "plan.json"
    assert cimplan("profile", model, *given, "--measure-for", "50ms", "-o", profile).code == 0
    assert cimplan("partition", model, *given, "--profile", profile, "-o", plan).code == 0
    checked = cimplan("check", plan, "--model", model, "--profile", profile, *given, "--json")
    assert checked.code == 0 and checked.json["costs"] == "matched"
    other = cimplan("check", plan, "--model", model, "--profile", profile, "--dim", "rows=9", "--value", "n=6")
    assert other.code == 2 and "not made with this value" in other.err
    assert cimplan("check", plan, "--dim", "rows=9").code == 2
