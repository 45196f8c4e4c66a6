"""Rows of a store as they come back: what was changed by anything else than cimplan is refused, and named.

Designs and results carry a digest of themselves and of what their row says beside them. It finds edits and damage; it
is no signature, as whoever can write to a store can compute it, too. Rows without one, from before there were digests,
are taken if they have the shape of a row.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cimplan.errors import InputError

_DIGEST = "digest"
_KINDS = ("text", "whole", "decimal", "truth")


def sealed(value: Mapping[str, Any], *beside: str | int) -> dict[str, Any]:
    """Return a design or a result with a digest of it and of other columns of its row."""
    return {**value, _DIGEST: _digest(value, beside)}


def read_json(text: Any) -> Any:
    """Read what a column of JSON holds; None where it is no JSON, so that who asks can name the row."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def checked_rows(rows: Iterable[Mapping[str, Any]], where: str) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield rows with key, status and result, each with its result.

    Raises
    ------
    InputError
        About the first row that was changed.
    """
    for row in rows:
        key, status = row["key"], row["status"]
        result = _opened(row["result"], (key, status))
        if result is None or result.get("status", status) != status or not _is_result(result):
            raise _edited("cimplan_points", {"key": key}, where)
        yield row, result


def checked_design(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the design of a row with sweep, number and key.

    Raises
    ------
    InputError
        If the row was changed.
    """
    design = _opened(row["design"], (row["sweep"], row["number"], row["key"]))
    if design is None:
        raise _edited("cimplan_members", {"sweep": row["sweep"], "number": row["number"]}, where)
    return design


def checked_sweep(row: Mapping[str, Any], groups: Iterable[Mapping[str, Any]], where: str) -> None:
    """Refuse a sweep whose row, or counted points, do not have the types that they are written with.

    Raises
    ------
    InputError
        If the row was changed.
    """
    columns = row["columns"]
    fits = (
        isinstance(row["sweep"], str)
        and isinstance(row["name"], str)
        and isinstance(row["total"], int)
        and _is_moment(row["started"])
        and _is_moment(row["resumed"])
        and isinstance(columns, list)
        and all(isinstance(item, list) and len(item) == 2 for item in columns)
        and all(isinstance(name, str) and kind in _KINDS for name, kind in columns)
        and len({name for name, _ in columns}) == len(columns)
    )
    if not fits:
        raise _edited("cimplan_sweeps", {"sweep": row["sweep"]}, where)
    for group in groups:
        if not isinstance(group["status"], str) or not _is_moment(group["last"]):
            raise _edited("cimplan_points", {"status": group["status"]}, where)


def _opened(value: Any, beside: tuple[str | int, ...]) -> dict[str, Any] | None:
    """Return a value without its digest; None if the digest is another one's."""
    if not isinstance(value, dict):
        return None
    inside = {name: part for name, part in value.items() if name != _DIGEST}
    return inside if _DIGEST not in value or value[_DIGEST] == _digest(inside, beside) else None


def _digest(value: Mapping[str, Any], beside: tuple[str | int, ...]) -> str:
    text = json.dumps([value, *beside], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _is_result(result: Mapping[str, Any]) -> bool:
    from cimplan.explore.points import RESULT_COLUMNS

    return all(_fits(result[name], kind) for name, kind in RESULT_COLUMNS if result.get(name) is not None)


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int if kind == "whole" else (int, float)):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


def _is_moment(value: Any) -> bool:
    """Tell whether a value is a time in seconds since 1970 that a calendar has."""
    return isinstance(value, (int, float)) and 0 <= value < 2.5e11


def _edited(table: str, row: Mapping[str, Any], where: str) -> InputError:
    names = " and ".join(f"{name} = {str(value)[:64]!r}" for name, value in row.items())
    return InputError(
        f"a row of {table} was changed by something else than cimplan",
        where=where,
        why=f"the row with {names} is not as it was stored",
        fix="Bring back a copy of the store, or delete that row and run `cimplan explore SPACE.yaml` again",
    )
