"""Names of any length in errors and suggestions: shown so that a person can read the rest."""

from __future__ import annotations

from cimplan.errors import InputError, did_you_mean, shortened

LONG = "n" * 500_000


def test_a_name_that_nobody_would_read_is_shortened_and_what_is_around_it_is_kept():
    error = InputError(f"there is no operator {LONG!r}", where=f"/models/{LONG}.onnx", fix="Choose another one")
    text = str(error)
    assert len(text) < 500
    assert text.startswith("/models/nnn") and ".onnx: there is no operator" in text and text.endswith("another one.")
    assert error.where == f"/models/{LONG}.onnx"


def test_paths_and_sentences_stay_whole():
    for text in ("/a" * 150, "word " * 10_000, ""):
        assert shortened(text) == text


def test_a_suggestion_compares_no_names_that_nobody_could_have_mistyped():
    assert len(did_you_mean(LONG, ["exact", "greedy"])) < 100
    assert did_you_mean("exakt", ["exact", LONG]) == "Did you mean 'exact'?"


def test_a_suggestion_lists_some_of_very_many_names():
    text = did_you_mean("?", [f"operator-{number}" for number in range(100_000)])
    assert len(text) < 2_000 and text.endswith("and 99950 more")
