"""What the verifier finds, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cimplan.errors import NoAnswerError

Rule = Literal[
    "chip", "declaration", "array", "mode", "switch", "role", "capacity", "weights", "data", "order", "stage", "result"
]
"""Which rule is broken; each is explained in ``docs/meta-operators.md``."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule.

    Attributes
    ----------
    line : int
        Line of the program's text, from 1.
    rule : str
        Which rule.
    message : str
        What is wrong, in words of the program.
    cause : int
        Line of an earlier statement that led to it, 0 if there is none.
    """

    line: int
    rule: Rule
    message: str
    cause: int = 0

    def __str__(self) -> str:
        """Return the violation as one line."""
        cause = f" (see line {self.cause})" if self.cause else ""
        return f"line {self.line}: {self.message}{cause} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What the verifier says of a program.

    Attributes
    ----------
    violations : tuple of Violation
        In the order in which they were found, which is that of the lines except for what shows only at the end.
    statements : int
        Statements looked at.
    truncated : bool
        Whether the verifier gave up because there were too many violations.
    """

    violations: tuple[Violation, ...]
    statements: int
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether the program may run."""
        return not self.violations

    def require_ok(self, where: str = "program") -> None:
        """Raise if the program may not run.

        Parameters
        ----------
        where : str
            Name of the program's file.

        Raises
        ------
        NoAnswerError
            With the first violations and their lines.
        """
        if self.ok:
            return
        more = len(self.violations) - _SHOWN
        lines = [str(violation) for violation in self.violations[:_SHOWN]]
        if more > 0:
            lines.append(f"and {more} more")
        raise NoAnswerError(
            "the program breaks rules of the chip",
            where=where,
            why="; ".join(lines),
            fix="Make it again with `cimplan compile MODEL --program FILE`",
        )
