"""CSV tables come back as they were, and no cell is a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import brute_force

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.export import FORMATS
from cimplan.export.tables import OPERATOR_COLUMNS, TRANSFER_COLUMNS, operators_csv, transfers_csv
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.schedule import Solution


def plan_with_names(first: str, second: str) -> Plan:
    problem = Problem(
        (first, second),
        ((Option(HOST, 10),), (Option(HOST, 50), Option(CIM, 20, 3))),
        (Dependency(0, 1, 7, 70),),
        budget=3,
        tick_ns=0.5,
    )
    schedule = brute_force(problem)
    assert schedule is not None
    return plan_from(problem, Solution("oracle", "optimal", schedule, schedule.makespan(problem)))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_operators_and_transfers_come_back() -> None:
    plan = plan_with_names("load", "conv")
    first, second = rows(operators_csv(plan))
    assert tuple(first) == OPERATOR_COLUMNS
    assert (first["name"], first["place"], first["start_ns"], first["finish_ns"]) == ("load", "host", "0", "5")
    assert (first["cim_ns"], first["gain_ns"], first["core"]) == ("", "", "0")
    assert (second["start_ns"], second["finish_ns"], second["crossbars"]) == ("8.5", "18.5", "3")
    assert float(second["gain_ns"]) == 11.5
    assert second["reason"] == plan.operators[1].reason
    (move,) = rows(transfers_csv(plan))
    assert tuple(move) == TRANSFER_COLUMNS
    assert list(move.values()) == ["load", "conv", "70", "5", "8.5"]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx"])
def test_a_name_that_looks_like_a_formula_gets_an_apostrophe(name: str) -> None:
    plan = plan_with_names(name, "conv")
    assert rows(operators_csv(plan))[0]["name"] == "'" + name
    assert rows(transfers_csv(plan))[0]["source"] == "'" + name


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=12))
def test_any_name_comes_back(name: str) -> None:
    plan = plan_with_names(name, name + "'")
    found = [row["name"] for row in rows(operators_csv(plan))]
    assert [
        text if text == given else text.removeprefix("'") for text, given in zip(found, plan.assignment, strict=True)
    ] == [
        name,
        name + "'",
    ]
    assert not any(text[:1] in tuple("=+-@\t\r\n") for text in found)


def test_the_transfers_are_written_beside_the_operators(tmp_path: Path) -> None:
    plan = plan_with_names("load", "conv")
    written = FORMATS["csv"](plan, tmp_path / "plan.csv")
    assert written == (tmp_path / "plan.csv", tmp_path / "plan.transfers.csv")
    assert written[0].read_bytes().decode() == operators_csv(plan)
    assert written[1].read_bytes().decode() == transfers_csv(plan)
