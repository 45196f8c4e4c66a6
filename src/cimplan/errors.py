"""Errors a user can act on: what happened, where, why, and what to do about it.

Every error that leaves cimplan on purpose is a `CimplanError`. The command line prints it as one paragraph and
ends with its exit code: 1 the question has no answer, 2 bad usage or bad input, 3 an internal fault.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST_WORD = 300
_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
_NAME_LIMIT = 200
_KNOWN_SHOWN = 50


def shortened(text: str) -> str:
    """Return text for people, in which the middle of names longer than any real one is left out.

    Files hold names of any length; names of files and of operators have some tens of characters, paths a few hundred.
    """

    def cut(found: re.Match[str]) -> str:
        return f"{found[0][:100]}…{found[0][-50:]}"

    return _WORD.sub(cut, text) if len(text) > _LONGEST_WORD else text


class CimplanError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    what : str
        What went wrong, as a sentence without its full stop.
    where : str, optional
        File, line, field path or node name.
    why : str, optional
        The cause.
    fix : str, optional
        What the user can do.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        super().__init__(what)

    def __str__(self) -> str:
        """Return the whole message as one paragraph; names that no reader would finish are shortened."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        parts = [part if part.endswith("?") else part.rstrip(".") + "." for part in (head, self.why, self.fix) if part]
        return shortened(" ".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every field when the error crosses a process boundary."""
        return (_rebuild, (type(self), self.what, self.where, self.why, self.fix))


def _rebuild(kind: type[CimplanError], what: str, where: str, why: str, fix: str) -> CimplanError:
    return kind(what, where=where, why=why, fix=fix)


class NoAnswerError(CimplanError):
    """The question is well put and has no answer: infeasible, or two things that do not belong together."""

    exit_code = 1


class InputError(CimplanError):
    """Bad usage or bad input: a file, a field or an option."""

    exit_code = 2


class InternalError(CimplanError):
    """A fault of cimplan itself, such as a plan that the checker refuses."""

    exit_code = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known name, or the list of known names.

    Parameters
    ----------
    name : str
        What the user wrote.
    known : iterable of str
        The valid names.

    Returns
    -------
    str
        A sentence for the `fix` of an error.
    """
    names = sorted(known)
    # Comparing takes the product of both lengths, and a name that long is no slip of the finger.
    alike = [candidate for candidate in names if len(candidate) <= _NAME_LIMIT] if len(name) <= _NAME_LIMIT else []
    close = get_close_matches(name, alike, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    more = f" and {len(names) - _KNOWN_SHOWN} more" if len(names) > _KNOWN_SHOWN else ""
    return f"Known names: {', '.join(names[:_KNOWN_SHOWN])}{more}"
