"""All messages as a set: in step with the golden file, and each says what to do where something can be done."""

from __future__ import annotations

from . import collect

MESSAGES = collect.messages()
# Errors of Python callers that hand over wrong objects, and texts that say what to do by themselves.
SAY_ENOUGH = {
    "cost/build.py",
    "cost/problem.py",
    "dualmode/options.py",
    "machine/functional.py",
    "machine/values.py",
    "report/canvas.py",
    "units.py",
}


def test_the_golden_file_is_in_step():
    assert collect.GOLDEN.read_text(encoding="utf-8") == collect.text(), (
        "messages have changed: renew the file with `python tests/errors/collect.py`, and read the difference"
    )


def test_every_message_is_a_sentence_in_parts():
    for message in MESSAGES:
        assert message.what, message
        for part in (message.what, message.why, message.fix):
            # The parts are joined with full stops.
            assert not part.endswith((".", ":", " ")) and part == part.strip(), message
        start = message.fix[:1]
        assert start == start.upper() or message.fix.startswith(("{", "pip install", "form is")), message


def test_a_message_says_what_to_do():
    silent = {f"{m.module}: {m.what}" for m in MESSAGES if not m.fix and m.module not in SAY_ENOUGH}
    assert silent <= {
        # Nothing but the text itself can be said: it names the value, and what it has to be.
        "cost/imported.py: the times of the nodes are more than the run",
        "cost/imported.py: ONNX Runtime cannot save the graph of the model",
        "cost/profile.py: threads must be from 1 to {_MOST_THREADS}, and runs at least 1",
        "cost/script.py: a value of type {value.dtype} cannot be part of the program",
        "explore/cmswitch_readings.py: this hardware has no dual-mode chip",
        "explore/points.py: the method found no plan",
        "explore/space_check.py: a seed is a whole number, at least 0",
        "explore/space_check.py: a time limit is more than 0",
        "graph/quantised.py: the quantised model has other outputs than the float one",
        "graph/values.py: a value cannot be given for an input that {error}",
        "graph/values.py: a value cannot be made {dtype}",
        "graph/values.py: a value does not fit the type of the input",
        "graph/values.py: a value of shape {list(array.shape)} does not fit",
        "graph/values.py: a value of type {array.dtype} does not fit",
    }


def test_names_that_hold_texts_are_read_as_these(tmp_path, monkeypatch):
    (tmp_path / "room.py").write_text(
        "_FIX = 'Mend it'\n"
        "def door(n):\n"
        "    why = f'it has {n}' if n else 'it is empty'\n"
        "    raise InputError('is wrong', where=str(n), why=why, fix=_FIX)\n"
    )
    monkeypatch.setattr(collect, "SOURCE", tmp_path)
    (message,) = collect.messages()
    assert str(message) == (
        "InputError in door\n    what   is wrong\n    where  {str(n)}\n"
        "    why    it has {n} | it is empty\n    fix    Mend it\n"
    )
