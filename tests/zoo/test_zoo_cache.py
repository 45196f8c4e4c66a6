"""The cache: where it is, that it serves what was asked for, and what happens when it cannot be written."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
from pathlib import Path

import onnx
import pytest

import cimplan.zoo.cache as zoo_cache
from cimplan.cache import cache_directory, cached_file
from cimplan.errors import InputError
from cimplan.zoo import build
from cimplan.zoo.reference import parse


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "not there" / "yet"
    monkeypatch.setenv("CIMPLAN_CACHE_DIR", str(folder))
    return folder


def test_network_is_built_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zoo_cache.cached("mobilenet_v2?seed=5")
    assert path.parent == folder
    assert onnx.load(path) == build("mobilenet_v2", seed=5)
    written = path.stat().st_mtime_ns
    assert zoo_cache.cached(parse("zoo:mobilenet_v2?seed=5&batch=1")) == path
    assert path.stat().st_mtime_ns == written
    assert list(folder.iterdir()) == [path]


def test_weightless_network_is_cached_too() -> None:
    path = zoo_cache.cached("opt_13b?phase=decode")
    assert onnx.load(path, load_external_data=False) == build("opt_13b", phase="decode")


def test_parameters_and_builders_have_their_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {zoo_cache.cached(f"yolov5n?batch={batch}") for batch in (1, 2)}
    monkeypatch.setattr(zoo_cache, "_builder_hash", lambda: "of a later version")
    paths |= {zoo_cache.cached(f"yolov5n?batch={batch}") for batch in (1, 2)}
    assert len(paths) == 4


def test_builder_hash_follows_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "yolo.py").write_text("SIZE = 640\n")
    monkeypatch.setattr(zoo_cache, "__file__", str(tmp_path / "cache.py"))
    zoo_cache._builder_hash.cache_clear()
    one = zoo_cache._builder_hash()
    (tmp_path / "yolo.py").write_text("SIZE = 320\n")
    zoo_cache._builder_hash.cache_clear()
    two = zoo_cache._builder_hash()
    zoo_cache._builder_hash.cache_clear()
    assert one != two


def test_other_forms_are_made_elsewhere() -> None:
    with pytest.raises(InputError, match="no form 'int8'"):
        zoo_cache.cached("resnet18", form="int8")


def test_keys_that_read_alike_do_not_meet(folder: Path) -> None:
    one = cached_file("a b", ".txt", lambda path: path.write_text("1") and None)
    two = cached_file("a-b", ".txt", lambda path: path.write_text("2") and None)
    long = [cached_file("x" * 500 + end, ".txt", lambda path: None) for end in "12"]
    assert (one.read_text(), two.read_text()) == ("1", "2")
    assert long[0] != long[1]
    assert all(len(path.name) < 100 for path in folder.iterdir())


def test_failed_build_leaves_nothing(folder: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise InputError("the model cannot be made")

    with pytest.raises(InputError, match="cannot be made"):
        cached_file("key", ".onnx", fail)
    assert list(folder.iterdir()) == []
    assert cached_file("key", ".onnx", lambda path: path.write_text("whole") and None).read_text() == "whole"


def test_what_a_killed_process_left_is_removed_after_a_day(folder: Path) -> None:
    unfinished: list[Path] = []
    for key in ("short", "x" * 100):
        cached_file(key, ".onnx", unfinished.append)
    old, young = unfinished
    others = [folder / ".mine.tmp", folder / "plan.json", folder / f"{old.name}.json"]
    for path in (old, young, *others):
        path.write_text("half")
    for path in (old, *others):
        os.utime(path, (0, 0))
    cached_file("other", ".txt", lambda path: None)
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in others)
    os.utime(young, (0, 0))
    # Also where nothing has to be made.
    cached_file("other", ".txt", lambda path: pytest.fail("it is there"))
    assert not young.exists()


def test_full_disk_names_the_variable(folder: Path) -> None:
    def fill(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match=r"cache cannot be written.*No space.*CIMPLAN_CACHE_DIR"):
        cached_file("key", ".onnx", fill)
    assert list(folder.iterdir()) == []


def test_other_faults_of_a_build_are_not_blamed_on_the_cache() -> None:
    with pytest.raises(FileNotFoundError):
        cached_file("key", ".onnx", lambda path: (path.parent / "no calibration").read_bytes() and None)


def test_unwritable_cache_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CIMPLAN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match="Set CIMPLAN_CACHE_DIR to a folder you can write to"):
        zoo_cache.cached("yolov5n")


def test_read_only_folder_names_the_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match=r"Permission denied.*CIMPLAN_CACHE_DIR"):
        zoo_cache.cached("yolov5n")


def test_file_another_process_holds_open_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows refuses to replace an open file."""

    def make(path: Path) -> None:
        path.write_text("mine")
        final.write_text("theirs")

    def refuse(*_args: object) -> None:
        raise PermissionError(errno.EACCES, "Access is denied")

    final = cached_file("key", ".txt", lambda path: None)
    final.unlink()
    monkeypatch.setattr(Path, "replace", refuse)
    assert cached_file("key", ".txt", make) == final
    assert final.read_text() == "theirs"


def _build_in_process(barrier: object, _index: int) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    onnx.load(zoo_cache.cached("mobilenet_v2"))


def test_processes_that_build_at_once_do_not_disturb_each_other(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_build_in_process, args=(barrier, index)) for index in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    (path,) = folder.iterdir()
    assert onnx.load(path) == build("mobilenet_v2")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/cimplan"),
        ("linux", {"XDG_CACHE_HOME": "/elsewhere"}, "/elsewhere/cimplan"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/cimplan"),
        ("linux", {"CIMPLAN_CACHE_DIR": "/mine", "XDG_CACHE_HOME": "/elsewhere"}, "/mine"),
        ("linux", {"CIMPLAN_CACHE_DIR": "~/mine"}, "home/mine"),
        ("darwin", {"XDG_CACHE_HOME": "/elsewhere"}, "home/Library/Caches/cimplan"),
        ("win32", {"LOCALAPPDATA": "/appdata"}, "/appdata/cimplan"),
        ("win32", {}, "home/AppData/Local/cimplan"),
    ],
)
def test_directory_follows_the_platform(
    platform: str, variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CIMPLAN_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == tmp_path / expected
