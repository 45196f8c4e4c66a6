"""Tables of a sweep: no cell of a CSV file is a formula, and Parquet keeps texts as they are."""

from __future__ import annotations

import csv

import polars as pl
import pytest

from cimplan.explore.tables import write

COLUMNS = [("model", "text"), ("=axis", "text"), ("crossbars", "whole"), ("gap", "decimal"), ("on", "truth")]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe_in_csv(tmp_path, start):
    name = f"{start}cmd|' /C calc'!A0"
    rows = [
        {"model": name, "=axis": None, "crossbars": -1, "gap": -0.5, "on": True},
        {"model": "plain", "=axis": "", "crossbars": 2, "gap": None, "on": None},
    ]
    write(rows, COLUMNS, tmp_path / "t.csv")
    write(rows, COLUMNS, tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        header, first, second = csv.reader(stream)
    assert header == ["model", "'=axis", "crossbars", "gap", "on"]
    # Numbers are numbers, negative ones included.
    assert first == [f"'{name}", "", "-1", "-0.5", "true"]
    assert second == ["plain", "", "2", "", ""]
    kept = pl.read_parquet(tmp_path / "t.parquet")
    assert (kept.columns[1], kept["model"].to_list()) == ("=axis", [name, "plain"])
