"""Files at the edge: read strictly and within bounds, written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from cimplan import files
from cimplan.errors import InputError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "'a' is given twice"),
        ('{"outer": [{"a": 1, "a": 1}]}', "'a' is given twice"),
        ('{"a": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"a": "\\ud800"}', "is not a plan"),
        ('{"\\uDFFF": 1}', "is not a plan"),
        ("[" * 100_000, "is not a plan"),
        ("{", ":1:2: is not a plan"),
    ],
)
def test_json_that_cannot_be_trusted_is_refused(tmp_path, text, words):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        files.read_json(path, "plan")
    assert words in str(caught.value)


def test_a_whole_surrogate_pair_and_long_numbers_are_read(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"a": "\\ud83d\\ude00", "b": ' + "9" * 300 + "}")
    assert files.read_json(path, "plan") == {"a": "\N{GRINNING FACE}", "b": 10**300 - 1}


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs pipes in the file system")
def test_a_pipe_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(files, "SIZE_LIMIT_BYTES", 1 << 20)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        with pytest.raises(InputError, match="larger than"):
            files.read_json(Path(f"/dev/fd/{endless.stdout.fileno()}"), "plan")
        endless.kill()


def test_writing_through_a_link_keeps_the_link(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "target.txt"]


def test_a_name_of_wide_characters_can_be_written(tmp_path):
    path = tmp_path / ("\N{GRINNING FACE}" * 63)
    files.write_text(path, "content")
    assert path.read_text() == "content"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
def test_only_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe"):
        files.write_text(pipe, "content")
    with pytest.raises(InputError, match="folder"):
        files.write_text(tmp_path, "content")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links in the file system")
class TestPlacesThatAreNoFile:
    def test_a_pipe_that_nobody_writes_to_is_empty_at_once(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with files.open_input(tmp_path / "pipe", pipes=True) as stream:
            assert stream.read() == b""

    def test_a_pipe_that_somebody_writes_to_is_read_to_its_end(self, tmp_path):
        reading, writing = os.pipe()
        content = b"x" * 200_000  # more than a pipe holds

        def write() -> None:
            with os.fdopen(writing, "wb") as stream:
                stream.write(content)

        writer = threading.Thread(target=write)
        writer.start()
        with files.open_input(Path(f"/dev/fd/{reading}"), pipes=True) as stream:
            assert stream.read() == content
        writer.join()
        os.close(reading)

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (os.mkfifo, "a device or a pipe"),
            (os.mkdir, "a folder"),
            (lambda path: path.symlink_to("/dev/zero"), "a device or a pipe"),
            (lambda path: path.symlink_to(path), "symbolic links"),
            (lambda path: None, "No such file"),
        ],
    )
    def test_whatever_is_no_file_is_refused_with_the_reason(self, tmp_path, make, why):
        make(tmp_path / "place")
        with pytest.raises(OSError) as raised:
            files.open_input(tmp_path / "place")
        assert why in raised.value.strerror

    def test_a_name_that_no_file_can_have_is_refused_with_the_reason(self):
        for name in ("a\0b", "x" * 300):
            with pytest.raises(OSError) as raised:
                files.open_input(Path(name))
            assert raised.value.strerror

    def test_links_in_a_circle_cannot_be_written(self, tmp_path):
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(InputError, match="cannot write"):
            files.write_text(tmp_path / "a", "text")
        assert (tmp_path / "a").is_symlink()


def test_a_key_that_comes_twice_among_very_many_is_found_without_comparing_them_all(tmp_path):
    path = tmp_path / "many.json"
    names = ", ".join(f'"{number}": 0' for number in range(300_000))
    path.write_text(f'{{{names}, "299999": 1}}')
    with pytest.raises(InputError, match="'299999' is given twice"):
        files.read_json(path, "plan")
