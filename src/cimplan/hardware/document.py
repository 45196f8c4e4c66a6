"""A strict reader for small YAML documents that remembers the line of every value.

Only what a description needs is understood: mappings with text keys, sequences, text, whole numbers, decimal
numbers, true, false and null. Anchors, aliases, tags, merge keys, duplicate keys, several documents, deep nesting
and huge files are refused, each with its line. Plain scalars are read as in JSON, so `no` and `1:30` stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cimplan.errors import InputError
from cimplan.files import open_input

SIZE_LIMIT_BYTES = 256 * 1024
_START = "Start from `cimplan hardware show rram-256`"
DEPTH_LIMIT = 16
VALUES_LIMIT = 20_000
_TWICE_SHOWN = 3

_WHOLE = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_SPECIAL = {".nan", ".inf", "-.inf", "+.inf", "nan", "inf", "-inf", "+inf", "infinity", "-infinity"}
_DIGITS_LIMIT = 30

FieldPath = tuple[str | int, ...]


def path_text(path: FieldPath) -> str:
    """Return a field path as a person writes it: ``accelerator.operators[2]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class Document:
    """A parsed description.

    Attributes
    ----------
    value : mapping of str to value
        The content.
    where : str
        Name of the file, for errors.
    lines : dict
        Line, counted from 1, of every key and item by its field path; ``()`` is the whole document.
    """

    value: dict[str, Any]
    where: str
    lines: dict[FieldPath, int] = field(default_factory=dict)

    def place(self, path: FieldPath) -> str:
        """Return ``file:line, field path`` of a field, or of the nearest field around it that exists."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        place = f"{self.where}:{self.lines.get(known, 1)}"
        return f"{place}, {path_text(path)}" if path else place


def read(path: Path, *, start: str = _START) -> Document:
    """Read a description from a file; `start` says where to get one from.

    Raises
    ------
    InputError
        If the file cannot be read, is too large, is not UTF-8 text, or is not a plain YAML mapping.
    """
    try:
        with open_input(path, pipes=True) as stream:
            content = stream.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(
            "cannot read the file", where=str(path), why=str(error.strerror), fix="Check the name of the file"
        ) from error
    if len(content) > SIZE_LIMIT_BYTES:
        raise InputError(
            "the file is too large for a description",
            where=str(path),
            why=f"the limit is {SIZE_LIMIT_BYTES} bytes",
            fix="Give a description, which is a page or two",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError("the file is not UTF-8 text", where=f"{path}:{line}", fix="Save it as UTF-8") from error
    return parse(text, str(path), start=start)


def parse(text: str, where: str, *, start: str = _START) -> Document:
    """Parse the text of a description; `where` names it in errors, `start` says where to get one from.

    Raises
    ------
    InputError
        With the line of what is wrong.
    """
    lines: dict[FieldPath, int] = {(): 1}
    twice: list[tuple[FieldPath, int]] = []
    try:
        events = _plain_events(text, where)
        first = next(events, None)
        if first is None:
            raise InputError("the file is empty", where=where, fix=start)
        value = _value(first, events, (), lines, twice, where)
        for _ in events:  # a second document would stand here, and is refused
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        why = "; ".join(part for part in (error.context, error.problem) if part)
        raise InputError(
            "the file is not YAML", where=f"{where}:{line}", why=why, fix="Write fields as name: value, one a line"
        ) from error
    except yaml.YAMLError as error:
        raise InputError(
            "the file is not YAML",
            where=where,
            why=" ".join(str(error).split()),
            fix="Write fields as name: value, one a line",
        ) from error
    except ValueError as error:  # a version, or an escaped character, of more digits than a number may have
        raise InputError(
            "the file is not YAML", where=where, why="a number in it is too long", fix="Remove it"
        ) from error
    if twice:
        raise _given_twice(twice, lines, where)
    if not isinstance(value, dict):
        kind = type(value).__name__ if value is not None else "nothing"
        raise InputError(
            "the file is not a description",
            where=f"{where}:1",
            why=f"it holds {kind}, not a mapping of fields",
            fix=start,
        )
    return Document(value, where, lines)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _plain_events(text: str, where: str) -> Iterator[yaml.Event]:
    """Yield the node events of one document; refuse whatever is not plain."""
    documents = 0
    depth = 0
    values = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = f"{where}:{_line(event)}"
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise InputError("the file holds more than one document", where=place, fix="Keep one per file")
        elif isinstance(event, yaml.AliasEvent):
            raise InputError("aliases are not allowed here", where=place, fix=f"Write out what *{event.anchor} means")
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            if values > VALUES_LIMIT:
                raise InputError(
                    "the file holds too much for a description",
                    where=place,
                    why=f"the limit is {VALUES_LIMIT} names and values",
                    fix="Write a range in place of a long list, as the docs show it",
                )
            if event.anchor is not None:
                raise InputError("anchors are not allowed here", where=place, fix=f"Remove &{event.anchor}")
            tag = getattr(event, "tag", None)
            if tag is not None:
                raise InputError("tags are not allowed here", where=place, fix=f"Remove {tag!r}")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_LIMIT:
                    raise InputError(
                        "the file is nested too deeply",
                        where=place,
                        why=f"the limit is {DEPTH_LIMIT}",
                        fix="Write it as the docs show it",
                    )
            yield event
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            yield event


def _value(
    event: yaml.Event,
    events: Iterator[yaml.Event],
    path: FieldPath,
    lines: dict[FieldPath, int],
    twice: list[tuple[FieldPath, int]],
    where: str,
) -> Any:
    lines.setdefault(path, _line(event))
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event, f"{where}:{_line(event)}")
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        for item in events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            items.append(_value(item, events, (*path, len(items)), lines, twice, where))
        return items
    found: dict[str, Any] = {}
    for key in events:
        if isinstance(key, yaml.MappingEndEvent):
            break
        line = _line(key)
        if not isinstance(key, yaml.ScalarEvent) or not key.value:
            raise InputError("a field name must be text", where=f"{where}:{line}", fix="Write fields as name: value")
        name = key.value
        if name in found:
            twice.append(((*path, name), line))
            if len(twice) > _TWICE_SHOWN:
                raise _given_twice(twice, lines, where)
            # Read on without keeping it, for others that are given twice.
            _value(next(events), events, (*path, name), {}, twice, where)
            continue
        lines[(*path, name)] = line
        found[name] = _value(next(events), events, (*path, name), lines, twice, where)
    return found


def _given_twice(twice: list[tuple[FieldPath, int]], lines: dict[FieldPath, int], where: str) -> InputError:
    """Return the error about fields that are given again, with the first few of them."""
    path, line = twice[0]
    others = [f"{path_text(path)} (line {line})" for path, line in twice[1:_TWICE_SHOWN]]
    more = " and others" if len(twice) > _TWICE_SHOWN else ""
    return InputError(
        "the field is given twice",
        where=f"{where}:{line}, {path_text(path)}",
        why=f"it is already in line {lines.get(path, 1)}" + (f"; so are {', '.join(others)}{more}" if others else ""),
        fix="Keep one of each" if others else "Keep one of them",
    )


def _scalar(event: yaml.ScalarEvent, place: str) -> str | int | float | bool | None:
    text: str = event.value
    if event.style is not None:
        return text
    if text in ("", "null", "~"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _DECIMAL.fullmatch(text):
        if len(text) > _DIGITS_LIMIT:
            raise InputError(
                "the number is too long", where=place, why=f"it has {len(text)} characters", fix="Round it"
            )
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    if text.lower() in _SPECIAL:
        return float(text.lower().replace(".", ""))
    return text
