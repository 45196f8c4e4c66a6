"""Results of a sweep as a table: CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError
from cimplan.files import check_writable, replacing

if TYPE_CHECKING:
    import polars as pl

FORMATS = {".csv": "CSV", ".parquet": "Parquet"}


def frame(rows: Iterable[dict[str, Any]], columns: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Return rows as a polars frame.

    Parameters
    ----------
    rows : iterable of dict
        What a row does not have is missing in the frame.
    columns : sequence of (str, str)
        Names and types ("text", "whole", "decimal", "truth"), as `SweepResult.columns` gives them; so that a table
        has the same columns and types whatever its points came to.
    """
    import polars as pl

    types = {"text": pl.String, "whole": pl.Int64, "decimal": pl.Float64, "truth": pl.Boolean}
    held = list(rows)
    return pl.DataFrame(
        [
            pl.Series(name, [_cell(row.get(name), kind) for row in held], dtype=types[kind], strict=True)
            for name, kind in columns
        ]
    )


def _cell(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "text":
        # An axis may mix quantities and plain values: true stays what the file has.
        return str(value).lower() if isinstance(value, bool) else str(value)
    return float(value) if kind == "decimal" else value


def _without_formulas(table: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    from cimplan.export.tables import text_cell

    return pl.DataFrame(
        [
            pl.Series(
                text_cell(column.name),
                [None if text is None else text_cell(text) for text in column] if column.dtype == pl.String else column,
                dtype=column.dtype,
            )
            for column in table
        ]
    )


def check_path(path: Path) -> None:
    """Refuse a file that no table can be written to, before anything is computed.

    Raises
    ------
    InputError
        If the suffix is not known, the folder does not exist, or the path is a folder or a device.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError("the table's format is not known", where=str(path), fix=f"Use {' or '.join(FORMATS)}")
    check_writable(path)


def write(rows: Iterable[dict[str, Any]], columns: Sequence[tuple[str, str]], path: Path) -> None:
    """Write rows as CSV or Parquet, by the file's suffix, whole or not at all.

    CSV is opened in spreadsheets, so its texts are kept from being formulas (`cimplan.export.tables`); Parquet holds
    them as they are.

    Raises
    ------
    InputError
        If the suffix is another, or the file cannot be written.
    """
    check_path(path)
    table = frame(rows, columns)
    with replacing(path) as temporary:
        try:
            if path.suffix.lower() == ".csv":
                _without_formulas(table).write_csv(temporary)
            else:
                table.write_parquet(temporary)
        except OSError as error:
            raise InputError(
                "cannot write the table", where=str(path), why=str(error), fix="Choose another file"
            ) from error
