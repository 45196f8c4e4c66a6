"""Errors a user can act on: what happened, where, why, and what to do about it.

Every error that leaves cimplan on purpose is a `CimplanError`. The command line prints it as one paragraph and
ends with its exit code: 1 the question has no answer, 2 bad usage or bad input, 3 an internal fault.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        """Return the whole message as one paragraph."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        parts = [part if part.endswith("?") else part.rstrip(".") + "." for part in (head, self.why, self.fix) if part]
        return " ".join(parts)

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
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known names: {', '.join(names)}"
