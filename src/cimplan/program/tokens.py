"""The words of the meta-operator language: text to tokens in one pass, with line and column for errors."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NoReturn

from cimplan.errors import InputError

SIZE_LIMIT_CHARACTERS = 512 * 1024 * 1024
NAME_LIMIT_CHARACTERS = 65_536
NUMBER_LIMIT_DIGITS = 18

Kind = Literal["word", "number", "string", "mark", "comment", "end"]

_TOKEN = re.compile(
    r"[ \t\r\n]*"
    r"(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)"
    r"|(?P<number>[0-9]+)"
    r"|(?P<mark>\.\.|[{}()\[\],;:])"
    r'|(?P<string>"[^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*")'
    r"|(?P<comment>(?:\#|//)[^\n]*)"
    r"|(?P<end>\Z))"
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.))", re.DOTALL)
_PLAIN_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_LAST_CODE_POINT = 0x10FFFF


class Tokens:
    """The tokens of a text and a position among them.

    Parameters
    ----------
    text : str
        The program.
    where : str
        Its file name, for errors.

    Raises
    ------
    InputError
        If the text is too long or holds something that is no token.
    """

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        if len(text) > SIZE_LIMIT_CHARACTERS:
            raise InputError(
                "the program is too long",
                where=where,
                why=f"the limit is {SIZE_LIMIT_CHARACTERS} characters",
                fix="Give a program as `cimplan compile --program` writes it",
            )
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._kinds: list[str] = []
        self._texts: list[str] = []
        self._offsets: list[int] = []
        self._at = 0
        self._read(text)

    def _read(self, text: str) -> None:
        kinds, texts, offsets, match_at = self._kinds, self._texts, self._offsets, _TOKEN.match
        position = 0
        while True:
            match = match_at(text, position)
            if match is None:
                self._unknown(text, position)
            kind = match.lastgroup
            position = match.end()
            if kind is None or kind == "comment":
                continue
            kinds.append(kind)
            texts.append(match[kind])
            offsets.append(match.start(kind))
            if kind == "end":
                return

    def _unknown(self, text: str, position: int) -> NoReturn:
        while text[position] in " \t\r\n":
            position += 1
        if text[position] == '"':
            what = "the name does not end"
            why = "a name ends with a double quote in the same line"
        else:
            what = f"unexpected character {text[position]!r}"
            why = ""
        raise InputError(what, where=self.place_of(position), why=why, fix="See docs/meta-operators.md for the grammar")

    def place_of(self, offset: int) -> str:
        """Return ``file:line:column`` of an offset into the text."""
        line = bisect_right(self._line_starts, offset)
        return f"{self._where}:{line}:{offset - self._line_starts[line - 1] + 1}"

    @property
    def line(self) -> int:
        """Line of the next token, from 1."""
        return bisect_right(self._line_starts, self._offsets[self._at])

    @property
    def place(self) -> str:
        """Return ``file:line:column`` of the next token."""
        return self.place_of(self._offsets[self._at])

    @property
    def next(self) -> str:
        """Text of the next token; a string with its quotes, empty at the end."""
        return self._texts[self._at]

    @property
    def next_kind(self) -> str:
        """Kind of the next token."""
        return self._kinds[self._at]

    def fail(self, expected: str) -> NoReturn:
        """Refuse the next token.

        Raises
        ------
        InputError
            Always, with line and column.
        """
        found = "the end of the text" if self.next_kind == "end" else _shortened(self.next)
        raise InputError(
            f"expected {expected}, found {found}",
            where=self.place,
            fix="See docs/meta-operators.md for the grammar",
        )

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this word or mark."""
        if self._texts[self._at] == text:
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume this word or mark."""
        if self._texts[self._at] != text:
            self.fail(f"'{text}'")
        self._at += 1

    def number(self) -> int:
        """Consume a whole number."""
        if self._kinds[self._at] != "number":
            self.fail("a whole number")
        digits = self._texts[self._at]
        if len(digits) > NUMBER_LIMIT_DIGITS:
            self.fail(f"a number of at most {NUMBER_LIMIT_DIGITS} digits")
        self._at += 1
        return int(digits)

    def string(self) -> str:
        """Consume a name in double quotes and return what it stands for."""
        if self._kinds[self._at] != "string":
            self.fail("a name in double quotes")
        quoted = self._texts[self._at]
        if len(quoted) > NAME_LIMIT_CHARACTERS:
            self.fail(f"a name of at most {NAME_LIMIT_CHARACTERS} characters")
        name = quoted[1:-1]
        if "\\" in name:
            name = _ESCAPE.sub(self._unescaped, name)
        self._at += 1
        return name

    def _unescaped(self, match: re.Match[str]) -> str:
        code, plain = match.groups()
        if code is not None and int(code, 16) <= _LAST_CODE_POINT:
            return chr(int(code, 16))
        if plain in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[plain]
        raise InputError(
            f"unknown escape {match[0]!r} in a name",
            where=self.place_of(self._offsets[self._at] + 1 + match.start()),
            fix='Use \\", \\\\, \\n, \\t or \\u{hex}',
        )


def _shortened(text: str, limit: int = 60) -> str:
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"'{shown}'"
