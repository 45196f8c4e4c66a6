"""Tables of a plan as CSV: the operators, and beside them the transfers.

The files follow RFC 4180 in UTF-8 with a header line. Names come from the model, and a
spreadsheet runs a cell as a formula if its text begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break; such
*texts* get an apostrophe in front, which spreadsheets hide. Numbers are written as numbers, negative ones included.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cimplan.files import replacing
from cimplan.plan.plan import Plan

OPERATOR_COLUMNS: Final = (
    "name",
    "op_type",
    "place",
    "start_ns",
    "finish_ns",
    "crossbars",
    "label",
    "core",
    "host_ns",
    "cim_ns",
    "host_time",
    "gain_ns",
    "reason",
    "file_nodes",
    "reorder_ns",
    "network_bytes",
)
TRANSFERS: Final = "transfers"
"""Name of the table beside that of the operators."""
TRANSFER_COLUMNS: Final = ("source", "target", "size_bytes", "start_ns", "finish_ns")

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def operators_csv(plan: Plan) -> str:
    """Return the operators of a plan as CSV, one row each, in topological order."""
    return csv_text(OPERATOR_COLUMNS, ([getattr(item, name) for name in OPERATOR_COLUMNS] for item in plan.operators))


def transfers_csv(plan: Plan) -> str:
    """Return the transfers of a plan as CSV, one row each, sorted by start."""
    return csv_text(TRANSFER_COLUMNS, ([getattr(item, name) for name in TRANSFER_COLUMNS] for item in plan.transfers))


def write_csv(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Write the operators to `path` and the transfers beside it, each whole or not at all; return both paths.

    The transfers of ``plan.csv`` go to ``plan.transfers.csv``.
    """
    return write_tables(path, operators_csv(plan), {TRANSFERS: transfers_csv(plan)})


def paths_of(path: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Return where the tables of a plan go: the first to `path`, the named ones beside it."""
    return path, *(path.with_name(f"{path.stem}.{name}{path.suffix or '.csv'}") for name in names)


def write_tables(path: Path, first: str, others: Mapping[str, str]) -> tuple[Path, ...]:
    """Write tables as `paths_of` places them, each whole or not at all; return the paths."""
    paths = paths_of(path, others)
    for target, text in zip(paths, (first, *others.values()), strict=True):
        with replacing(target) as temporary:
            temporary.write_bytes(text.encode())
    return paths


def text_cell(text: str) -> str:
    """Return a text as no spreadsheet takes it for a formula; see the module."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def cell(value: object) -> str:
    """Return a value as the text of a cell; see the module for texts that look like formulas."""
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    if value is None:
        return ""
    if isinstance(value, str):
        return text_cell(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # with "\n" a lone carriage return would go unquoted
    writer.writerow(header)
    for row in rows:
        writer.writerow([cell(value) for value in row])
    return text.getvalue()
