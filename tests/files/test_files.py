"""Files at the edge: read strictly and within bounds, written whole or not at all."""

from __future__ import annotations

import os
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


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device without an end")
def test_a_file_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(files, "SIZE_LIMIT_BYTES", 1 << 20)
    with pytest.raises(InputError, match="larger than"):
        files.read_json(Path("/dev/zero"), "plan")


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
