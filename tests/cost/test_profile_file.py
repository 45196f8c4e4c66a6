"""The profile file: it travels unchanged, and a faulty one is refused by name."""

from __future__ import annotations

import json

import pytest
from cost_cases import small_graph, small_profile

from cimplan import files
from cimplan.cost import profile_file
from cimplan.errors import InputError
from cimplan.files import sha256_of


def saved(tmp_path, change=None):
    path = tmp_path / "host.json"
    small_profile().save(path)
    if change is not None:
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))
    return path


def test_a_profile_survives_the_file_with_its_graph(tmp_path):
    profile = small_profile()
    profile.save(tmp_path / "host.json")
    found = profile_file.load(tmp_path / "host.json")
    assert found == profile
    assert found.graph() == small_graph()
    assert found.graph().edges == small_graph().edges
    assert list(found.host_ns.items()) == [
        ("conv", 9000.4),
        ("relu", 2000.0),
        ("reshape", 0.0),
        ("gemm", 5000.0),
        ("outer", 700.0),
    ]
    assert found.total_ns == pytest.approx(16700.4)
    assert list(tmp_path.iterdir()) == [tmp_path / "host.json"]


def _set(*path, to):
    def change(value):
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return change


def _delete(*path):
    def change(value):
        for part in path[:-1]:
            value = value[part]
        del value[path[-1]]

    return change


FAULTS = [
    (_delete("times"), "is not a host profile"),
    (_delete("graph"), "is not a host profile"),
    (_delete("machine"), "entry of the profile is missing"),
    (_delete("machine", "cpu"), "machine.cpu"),
    (_delete("times", "gemm"), "no time for 1 of 5 operators"),
    (_delete("times", "gemm", "host_ns"), "times.gemm.host_ns"),
    (_set("times", "gemm", "host_ns", to=-1.0), "greater than or equal to 0"),
    (_set("times", "gemm", "host_ns", to=0.0), "must be positive"),
    (_set("times", "gemm", "host_ns", to="12"), "valid number"),
    (_set("times", "gemm", "host_ns", to=True), "valid number"),
    (_set("times", "gemm", "host_ns", to=None), "valid number"),
    (_set("times", "gemm", "host_ns", to=float("nan")), "finite"),
    (_set("times", "gemm", "host_ns", to=float("inf")), "finite"),
    (_set("times", "gemm", "kind", to="guessed"), "times.gemm.kind"),
    (_set("times", "gemm", "kind", to="free (view)"), "only a view may be free"),
    (_set("times", "reshape", "host_ns", to=3.0), "only a view may be free"),
    (_set("times", "ghost", to={"host_ns": 1.0, "kind": "measured"}), "unknown operator"),
    (_set("times", "gemm", "joules", to=1.0), "not known"),
    (_set("schema_version", to=2), "schema_version"),
    (_set("origin", to="invented"), "origin"),
    (_set("model", "sha256", to="xyz"), "model.sha256"),
    (_set("graph", "operators", 3, "work", "inputs", to=-5), "graph.operators[3].work.inputs (operator 'gemm')"),
    (_delete("graph", "operators", 3, "op_type"), "graph.operators[3].op_type"),
    (_set("graph", "operators", 3, "name", to="conv"), "two operators have the same name"),
    (_set("graph", "operators", to=[]), "unknown operator"),
    (_set("graph", "operators", to={}), "graph.operators"),
    (_delete("graph", "tensors", "c"), "the tensor 'c' is missing"),
    (_set("graph", "tensors", "c", "dtype", to="int9"), "Did you mean 'int8'"),
    (_set("graph", "tensors", "c", "shape", to=[1, -4]), "graph.tensors.c.shape[1]"),
    (_set("graph", "tensors", "c", "shape", to="1x4"), "graph.tensors.c.shape"),
    (_set("graph", "operators", 1, "inputs", to=["z"]), "'z' is made later"),
    (_set("graph", "inputs", to=[]), "nothing makes 'x'"),
    (_set("graph", "operators", 1, "outputs", to=["c"]), "made twice"),
    (_set("graph", "operators", 1, "outputs", to=["w"]), "topological order"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_a_faulty_profile_is_refused_by_name(tmp_path, change, message):
    path = saved(tmp_path, change)
    with pytest.raises(InputError) as caught:
        profile_file.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"null", b"\xff", b'{"times": 1, "graph": 2}', b"[" * 100_000]
)
def test_a_file_that_is_no_profile_is_refused(tmp_path, content):
    path = tmp_path / "host.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        profile_file.load(path)
    with pytest.raises(InputError, match="cannot read"):
        profile_file.load(tmp_path / "none.json")


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "host.json"
    with path.open("wb") as stream:
        stream.truncate(files.SIZE_LIMIT_BYTES + 1)
    with pytest.raises(InputError, match="larger than"):
        profile_file.load(path)


def test_the_profile_of_another_model_is_refused_with_both_hashes(tmp_path):
    model = tmp_path / "other.onnx"
    model.write_bytes(b"other")
    profile = small_profile()
    assert not profile.matches(model)
    with pytest.raises(InputError) as caught:
        profile.require_model(model)
    assert caught.value.exit_code == 2
    assert "0" * 64 in str(caught.value)
    assert sha256_of(model) in str(caught.value)
    same = profile.model_copy(update={"model": profile.model.model_copy(update={"sha256": sha256_of(model)})})
    assert same.matches(model)
    same.require_model(model)
