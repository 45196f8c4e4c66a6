"""Every error that cimplan raises on purpose, as a text to review: what, where, why, and what to do.

Renew the golden file with ``python tests/errors/collect.py`` from the top of the repository, and read the difference.

The messages are read from the source: each place that makes an `InputError`, a `NoAnswerError` or one of their kinds.
What is filled in stands in braces, as it stands in the source; names that hold texts are replaced by these, and
alternatives are divided by a bar.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "cimplan"
GOLDEN = Path(__file__).with_name("messages.txt")
KINDS = ("InputError", "NoAnswerError", "TimeLimitError", "MemoryLimitError")
FIELDS = ("what", "where", "why", "fix")

Scope = dict[str, list[ast.expr]]


@dataclass(frozen=True)
class Message:
    """One place that makes an error; empty where it says nothing."""

    module: str
    function: str
    kind: str
    what: str
    where: str
    why: str
    fix: str

    def __str__(self) -> str:
        lines = [f"{self.kind} in {self.function}"]
        lines += [f"    {name:5}  {text}" for name in FIELDS if (text := getattr(self, name))]
        return "\n".join(lines) + "\n"


def messages() -> list[Message]:
    """Return every message, by module and in the order of the source."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += _of(tree, path.relative_to(SOURCE).as_posix())
    return found


def text() -> str:
    """Return the content of the golden file."""
    parts = ["Made by tests/errors/collect.py; every message that a user may read.\n"]
    module = ""
    for message in messages():
        if message.module != module:
            module = message.module
            parts.append(f"\n## {module}\n")
        parts.append(f"\n{message}")
    return "".join(parts)


def _of(tree: ast.Module, module: str) -> Iterator[Message]:
    outer = _assigned(tree.body)

    def visit(node: ast.AST, function: str, scope: Scope) -> Iterator[Message]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = child.name if function == "module" else f"{function}.{child.name}"
                inner = scope | (_assigned(list(ast.walk(child))) if isinstance(child, ast.FunctionDef) else {})
                yield from visit(child, name, inner)
                continue
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in KINDS:
                given = dict(zip(FIELDS, child.args, strict=False))
                given |= {item.arg: item.value for item in child.keywords if item.arg in FIELDS}
                texts = {name: _text(given[name], scope) if name in given else "" for name in FIELDS}
                yield Message(module, function, child.func.id, **texts)
            yield from visit(child, function, scope)

    yield from visit(tree, "module", outer)


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> Scope:
    """Return what is assigned to names, one after another."""
    found: Scope = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(name, ast.Name):
                            found.setdefault(name.id, []).append(value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _text(node: ast.expr, scope: Scope, depth: int = 0) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value, scope, depth) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.IfExp):
        return " | ".join(_text(part, scope, depth) or "(nothing)" for part in (node.body, node.orelse))
    if isinstance(node, ast.BoolOp):
        return " | ".join(_text(value, scope, depth) or "(nothing)" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, scope, depth) + _text(node.right, scope, depth)
    if isinstance(node, ast.Name) and depth < 3 and node.id in scope:
        held = [value for value in scope[node.id] if _is_text(value)]
        if held and len(held) == len(scope[node.id]):
            return " | ".join(dict.fromkeys(_text(value, scope, depth + 1) or "(nothing)" for value in held))
    return f"{{{ast.unparse(node)}}}"


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")
