"""Mutations of trees (YAML, JSON), of words (programs) and of bytes; each is a function of a random generator."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

Tree = Any

WORDS = (
    "",
    " ",
    "\x00",
    "\x1b[31mred",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "../../../etc/passwd",
    "a" * 300,
    "n" * 20_000,
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp",
    "\N{COMBINING ACUTE ACCENT}" * 40,
    "\N{GRINNING FACE}",
    "NaN",
    "1e400",
    "0x10",
    "1:30",
    "no",
    "${HOME}",
    "%s%n",
    "{0}",
    "host",
    "cim",
    "optimal",
    "10ns",
    "0ns",
    "1e300s",
    "-1GB/s",
    "99999999999999999999kB",
)
NUMBERS: tuple[int | float, ...] = (
    0,
    1,
    -1,
    2,
    255,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    -(2**63),
    10**200,
    0.0,
    -0.0,
    0.5,
    1e-9,
    5e-324,
    1e15,
    1e16 + 2,
    1e300,
    -1e300,
    1.7e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_][A-Za-z_.0-9]*|\d+|\.\.|\s+|.', re.DOTALL)


class Again(str):
    """A key that may stand twice in a mapping."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def value(rng: Random) -> Any:
    """Return a value that no schema expects."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(WORDS)
    if kind == 2:
        return rng.choice((True, False, None))
    if kind == 3:
        return rng.choice(([], {}, [[]], [None], {"": 0}, [0] * 2000, {"a": {"b": 1}}))
    if kind == 4:
        deep: Any = 0
        for _ in range(rng.choice((3, 20, 120))):
            deep = [deep] if rng.random() < 0.5 else {"x": deep}
        return deep
    return rng.choice(NUMBERS[:10])


def _slots(tree: Tree) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in list(items):
        yield tree, key
        yield from _slots(inner)


def _near(rng: Random, old: Any) -> Any:
    """Return a value like another: what passes a schema and may break what comes after it."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice((old + 1, old - 1, -old, old * 2, old * 1000, old // 2, float(old), str(old), 0, old << 40))
    if isinstance(old, float):
        return rng.choice(
            (old * 2, old / 3, -old, old + 1, old * 1e9, old * 1e-9, round(old) if abs(old) < 1e18 else 0)
        )
    if isinstance(old, str):
        return rng.choice((old + "x", old[:-1], old.upper(), old * 2, old[::-1], f" {old}", old.replace("n", "\u00f1")))
    return value(rng)


def tree(rng: Random, root: Tree) -> Tree:
    """Return a copy of a tree with one change."""
    root = copy.deepcopy(root)
    slots = list(_slots(root))
    if not slots:
        return value(rng)
    # Deep and long parts must not hide the short ones: first a section, then a place within it.
    top = rng.choice(list(root)) if isinstance(root, dict) else rng.randrange(len(root))
    if rng.random() < 0.6:
        slots = [(root, top), *_slots(root[top])]
    holder, key = rng.choice(slots)
    old = holder[key]
    kind = rng.randrange(12)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = value(rng)
    elif kind in (2, 3, 4):
        holder[key] = _near(rng, old)
    elif kind == 5:
        if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(old))
        else:
            holder[Again(key)] = copy.deepcopy(old)
    elif kind == 6:
        other, place = rng.choice(slots)
        holder[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(old)
    elif kind == 7:
        if isinstance(holder, dict):
            holder[rng.choice(("new", str(key) + "x", rng.choice(WORDS)))] = holder.pop(key)
        else:
            rng.shuffle(holder)
    elif kind == 8:
        _everywhere(root, old, _near(rng, old))
    elif kind == 9:
        _everywhere(root, old, value(rng))
    elif kind == 10:
        same = [(one, at) for one, at in _slots(root) if type(one[at]) is type(old)]
        other, place = rng.choice(same)
        holder[key] = copy.deepcopy(other[place])
    else:
        inside = [old] if isinstance(old, (list, dict)) else [holder]
        for _ in range(rng.choice((1, 3, 40))):
            if isinstance(inside[0], dict):
                inside[0][rng.choice(("extra", *WORDS[:8]))] = value(rng)
            else:
                inside[0].append(copy.deepcopy(rng.choice(inside[0])) if inside[0] else value(rng))
    return root


def _everywhere(root: Tree, old: Any, new: Any) -> None:
    """Replace a scalar wherever it stands, keys included, so that references to it still hold."""
    if isinstance(old, (list, dict)) or isinstance(new, (list, dict)):
        return
    for holder, key in list(_slots(root)):
        if key in holder if isinstance(holder, dict) else key < len(holder):
            found = holder[key]
            if type(found) is type(old) and found == old:
                holder[key] = new
            if isinstance(holder, dict) and isinstance(old, str) and isinstance(new, str) and key == old:
                holder[new] = holder.pop(key)


def json_bytes(root: Tree) -> bytes:
    """Return a tree as JSON, with keys given twice, NaN and half surrogates where they are."""
    return json.dumps(root, indent=None, ensure_ascii=False).encode("utf-8", "surrogatepass")


def yaml_bytes(root: Tree) -> bytes:
    """Return a tree as YAML."""
    return "".join(_yaml(root, 0)).encode("utf-8", "surrogatepass")


def _yaml(node: Tree, depth: int) -> Iterator[str]:
    if isinstance(node, dict) and node and depth < 60:
        yield "\n" if depth else ""
        for key, inner in node.items():
            yield "  " * depth + _scalar(str(key)) + ":"
            yield from _yaml(inner, depth + 1)
        return
    yield f" {_flow(node)}\n"


def _flow(node: Tree) -> str:
    if isinstance(node, dict):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(inner)}" for key, inner in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(map(_flow, node)) + "]"
    if isinstance(node, float) and node != node:
        return ".nan"
    if isinstance(node, float) and node in (float("inf"), float("-inf")):
        return ".inf" if node > 0 else "-.inf"
    return _scalar(node) if isinstance(node, str) else json.dumps(node)


def _scalar(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_./:-]+", text) else json.dumps(text)


def yaml_text(rng: Random, content: bytes) -> bytes:
    """Return YAML with one thing in it that a strict reader has to refuse, or almost."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(9)
    if kind == 0:
        lines[at] = lines[at].replace(
            ": ", f": {rng.choice(('&a ', '*a ', '!!python/object:os.system ', '!x ', '|', '? '))}"
        )
    elif kind == 1:
        lines.insert(at, rng.choice(("---", "...", "<<: {a: 1}", "%YAML 1.1", "\t- x", "- y", "# c", "'")))
    elif kind == 2:
        lines[at] = " " * rng.randrange(8) + lines[at]
    elif kind == 3:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 4:
        lines[at] = lines[at].lstrip()
    elif kind == 5:
        lines[at] += rng.choice((" #", " [", " {", ":", " : :", " '", ' "', "\r", "\x85", "\u2028"))
    elif kind == 6:
        lines[at] = lines[at].replace(":", rng.choice(("", "::", " :", ":\n")))
    elif kind == 7:
        lines[at] = rng.choice(("[" * 3000, "{a: " * 400, "- " * 500, "? " * 300)) + lines[at]
    else:
        del lines[at]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def program_text(rng: Random, content: bytes) -> bytes:
    """Return a program with words, lines or blocks changed."""
    text = content.decode("utf-8", "surrogateescape")
    if rng.random() < 0.35:
        return _lines(rng, text).encode("utf-8", "surrogateescape")
    tokens = _TOKEN.findall(text)
    real = [at for at, token in enumerate(tokens) if not token.isspace()]
    at = rng.choice(real)
    old = tokens[at]
    alike = [token for token in tokens if _class(token) == _class(old)]
    kind = rng.randrange(8)
    if kind == 0:
        tokens[at] = ""
    elif kind == 1:
        tokens[at] = f"{old} {old}"
    elif kind in (2, 3):
        tokens[at] = rng.choice(alike)
    elif kind == 4:
        tokens[at] = rng.choice(
            (";", "{", "}", "..", "[", ",", "parallel", "segment 9", "CM.switch", '"', '"\\u{110000}"', "//")
        )
    elif kind == 5:
        tokens[at] = _new_token(rng, old)
    elif kind == 6:
        new = _new_token(rng, old)
        tokens = [new if token == old else token for token in tokens]
    else:
        other = rng.choice(real)
        tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens).encode("utf-8", "surrogateescape")


def _class(token: str) -> str:
    return "n" if token.isdigit() else "s" if token.startswith('"') else "w" if token[0].isalpha() else "m"


def _new_token(rng: Random, old: str) -> str:
    if old.isdigit():
        number = int(old)
        near = (0, 1, number + 1, number * 2, number * 1000, 2**31, 2**63, 2**64, 10**17, 10**40, 10**400)
        return str(rng.choice((max(0, number - 1), *near)))
    if old.startswith('"'):
        return json.dumps(rng.choice(WORDS), ensure_ascii=False)
    return rng.choice(("", "é", "x" * 5000, "segment", "stage", "0", "-1", "1.5", "main", "buffer"))


def _lines(rng: Random, text: str) -> str:
    lines = text.split("\n")
    at, to = sorted((rng.randrange(len(lines)), rng.randrange(len(lines))))
    to = min(to, at + 12)
    block = lines[at : to + 1]
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at : to + 1]
    elif kind == 1:
        lines[at:at] = block
    elif kind == 2:
        place = rng.randrange(len(lines))
        lines[place:place] = block
    elif kind == 3:
        lines[at], lines[to] = lines[to], lines[at]
    elif kind == 4:
        lines[at:at] = block * rng.choice((3, 50))
    else:
        rng.shuffle(block)
        lines[at : to + 1] = block
    return "\n".join(lines)


def noise(rng: Random, content: bytes) -> bytes:
    """Return bytes with noise of the kinds that transfers, editors and attackers add."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        size = len(data)
        at = rng.randrange(size + 1)
        kind = rng.randrange(8)
        if kind == 0 and size:
            data[min(at, size - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 60))))
        elif kind == 2:
            del data[at : at + rng.choice((1, 4, 60, 1000))]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at : at + rng.choice((1, 8, 200))]
        elif kind == 5:
            data[at:at] = rng.choice(
                (b"[" * 5000, b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b'"', b"\xc0\xaf")
            )
        elif kind == 6 and size:
            data[min(at, size - 1)] = rng.choice((0, 0x7F, 0x80, 0xFF))
        else:
            to = rng.randrange(size + 1)
            data[at:at] = data[min(at, to) : min(max(at, to), min(at, to) + 300)]
    return bytes(data)
