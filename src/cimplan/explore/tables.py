"""Results of a sweep as a table: CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError
from cimplan.files import replacing

if TYPE_CHECKING:
    import polars as pl

FORMATS = {".csv": "CSV", ".parquet": "Parquet"}


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as a polars frame, columns in the order in which they first appear."""
    import polars as pl

    columns = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame({name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in columns})


def check_path(path: Path) -> None:
    """Refuse a file that no table can be written to, before anything is computed.

    Raises
    ------
    InputError
        If the suffix is not known or the folder does not exist.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError("the table's format is not known", where=str(path), fix=f"Use {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise InputError("cannot write the table", where=str(path), why="its folder does not exist")


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows as CSV or Parquet, by the file's suffix, whole or not at all.

    Raises
    ------
    InputError
        If the suffix is another, or the file cannot be written.
    """
    check_path(path)
    table = frame(rows)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".csv":
            table.write_csv(temporary)
        else:
            table.write_parquet(temporary)
