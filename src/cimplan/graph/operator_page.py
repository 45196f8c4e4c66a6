"""The page of operators in the documentation, written from the table and the docstrings of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from cimplan.graph.lowering import documentation
from cimplan.operator_types import TABLE, OperatorType

_HEAD = """# Operators

Which ONNX operators are matrix work, how they are lowered, and what of them is not charged on crossbars. This page is
written from `cimplan.operator_types.TABLE` (`cimplan.graph.operator_page.page`), the one table that the reader, the
cost model and hardware files share; a test compares them.

M = outputs = crossbar columns, N = inputs = crossbar rows, N_mvm = vectors in one inference. An operator may be
offloaded if its weights are known before inference (or the hardware allows products of activations) and its type is
among `accelerator.operators` of the hardware file, which is all of them unless it says otherwise. Whatever is in no
table here (Relu, Softmax, LayerNormalization, …) multiplies by no weight matrix and stays on the host.

`compile` lowers what is in the first table except recurrent operators. What it cannot lower it refuses by name, or
leaves out and lists as `uncovered` with `--allow-uncovered`.

## Lowered

| operators | lowering | free on crossbars |
|---|---|---|
"""

_NOT_LOWERED = """
## Matrix work that is not lowered

These multiply by weights, or by each other's results, in a way no array takes over. They run on the host as one
operator each.

| operators | why |
|---|---|
"""

_RULES = """
## Rules
"""


def page() -> str:
    """Return the page as Markdown."""
    lowered = [row for row in TABLE.values() if row.offloadable]
    others = [row for row in TABLE.values() if not row.offloadable]
    lines = [
        f"| {_titles(rows)} | {lowering} | {free or 'nothing'} |"
        for (lowering, free), rows in groupby(lowered, key=lambda row: (row.lowering, row.free))
    ]
    reasons: dict[str, list[OperatorType]] = {}
    for row in others:
        reasons.setdefault(row.reason, []).append(row)
    why = [f"| {_titles(rows)} | {reason} |" for reason, rows in reasons.items()]
    rules = [f"\n### {names}\n\n{text}\n" for names, text in documentation()]
    return _HEAD + "\n".join(lines) + "\n" + _NOT_LOWERED + "\n".join(why) + "\n" + _RULES + "".join(rules)


def _titles(rows: Iterable[OperatorType]) -> str:
    return ", ".join(f"`{row.title}`" for row in rows)
