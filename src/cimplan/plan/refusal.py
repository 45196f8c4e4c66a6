"""Errors of a file's structure in the words of cimplan: the path of the field, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cimplan.errors import InputError

if TYPE_CHECKING:
    from pydantic import ValidationError


def refusal(error: ValidationError, path: Path | str, kind: str, fix: str) -> InputError:
    """Return the error for a file that does not have the structure it should have.

    Parameters
    ----------
    error : ValidationError
        What pydantic found.
    path : Path or str
        The file.
    kind : str
        What the file should be.
    fix : str
        What the user can do.
    """
    faults = error.errors(include_url=False)
    first = faults[0]
    message = {"extra_forbidden": "this key is not known", "missing": "this key is missing"}.get(
        first["type"], first["msg"]
    )
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return InputError(
        f"is not a valid {kind}", where=f"{path}: {field_path(first['loc'])}", why=f"{message}{more}", fix=fix
    )


def field_path(location: tuple[int | str, ...]) -> str:
    """Return a location as a field path such as ``operators[3].start_ns``."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
