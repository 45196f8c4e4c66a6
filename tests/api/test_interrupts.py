"""Ctrl-C while a plan is made costs the search or the proof, never the plan."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from cimplan.api import interrupts as module
from cimplan.api import partitioning
from cimplan.api.interrupts import interrupts
from cimplan.partition import methods
from cimplan.plan import build, proof
from cimplan.plan.summary import interruption, summary

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(os.name == "nt", reason="sends SIGINT to itself"),
]


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def no_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ECHO_S", 0.0)


@pytest.fixture(scope="module")
def costed() -> Any:
    return partitioning.cost("zoo:mobilenet_v2", "rram-256-arm", crossbars=50)


@pytest.fixture
def ctrl_c_in_verification(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []

    def verify(*_: object, **__: object) -> None:
        calls.append(1)
        press_ctrl_c()

    monkeypatch.setattr(proof, "verify_certificate", verify)
    return calls


def test_ctrl_c_in_the_verification_keeps_the_plan(costed, ctrl_c_in_verification):
    before = signal.getsignal(signal.SIGINT)
    plan = partitioning.solve(costed)
    assert ctrl_c_in_verification == [1]
    assert (plan.status, plan.solver_claims) == ("feasible", "optimal")  # nothing has verified it
    assert plan.checked and plan.certificate is not None
    assert (plan.proof.verdict, plan.proof.bound_ns) == ("incomplete", 0)
    assert plan.proof.notes == ("verifying was interrupted",)
    assert "interrupted" in dict(summary(plan))["certificate"]
    assert interruption(plan)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_keyboard_interrupt_raised_in_the_verification_keeps_the_plan(costed, monkeypatch):
    def verify(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(proof, "verify_certificate", verify)
    assert partitioning.solve(costed).proof.notes == ("verifying was interrupted",)


@pytest.mark.parametrize("name", ["require", "explain", "regions", "host_only_makespan"])
def test_ctrl_c_anywhere_between_solver_and_plan_keeps_the_plan(costed, monkeypatch, name):
    do = getattr(build, name)

    def pressed(*arguments: Any, **options: Any) -> Any:
        press_ctrl_c()
        return do(*arguments, **options)

    monkeypatch.setattr(build, name, pressed)
    plan = partitioning.solve(costed)
    assert plan.status == "optimal"
    assert plan.proof.verdict == "verified"


@pytest.fixture
def ctrl_c_while_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = methods.solve

    def interrupted(problem: Any, *arguments: Any, **options: Any) -> Any:
        found = solve(problem, *arguments, **options)
        with suppress(KeyboardInterrupt):
            press_ctrl_c()
        return replace(found, curve=())

    monkeypatch.setattr(methods, "solve", interrupted)


@pytest.mark.usefixtures("ctrl_c_while_solving", "ctrl_c_in_verification", "no_echo")
def test_a_second_ctrl_c_in_the_verification_keeps_the_best_plan(costed):
    plan = partitioning.solve(costed)
    assert plan.checked
    assert plan.statistics["stopped"] == "interrupted"
    assert plan.proof.notes == ("verifying was interrupted",)


@pytest.mark.usefixtures("ctrl_c_while_solving")
def test_an_interrupted_solve_says_so_and_what_became_of_its_curve(costed):
    plan = partitioning.solve(costed, curve=True)
    facts = dict(summary(plan))
    assert facts["stopped"].startswith("interrupted")
    assert facts["curve"] == "none: interrupted before it was there"
    assert interruption(plan).startswith("interrupted: ")


def test_the_verification_is_the_last_phase(costed):
    phases = []
    plan = partitioning.solve(costed, on_solution=lambda state: phases.append(state))
    assert [state.phase for state in phases].count(partitioning.VERIFYING) == 1
    assert phases[-1].phase == partitioning.VERIFYING
    assert phases[-1].gap == 0
    assert plan.statistics["verify_s"] >= 0


def test_a_curve_that_is_not_there_has_a_reason(costed):
    plan = partitioning.solve(costed, method="greedy", curve=True)
    assert "'greedy' gives none" in dict(summary(plan))["curve"]
    assert not dict(summary(partitioning.solve(costed, method="greedy")))["curve"]
    assert not dict(summary(partitioning.solve(costed, curve=True)))["curve"]


def test_ctrl_c_is_one_even_if_it_comes_twice():
    with interrupts() as noticed:
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        press_ctrl_c()
        assert noticed.pressed


def test_ctrl_c_is_only_marked_while_held(no_echo):
    with interrupts() as noticed:
        noticed.hold()
        press_ctrl_c()
        assert noticed.pressed
        with pytest.raises(KeyboardInterrupt), noticed.let_one_through():
            press_ctrl_c()
        press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_nothing_changes_in_another_thread():
    handlers = []

    def work() -> None:
        with interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]


def test_a_name_that_is_not_known_gets_the_nearest_few(costed):
    with pytest.raises(partitioning.InputError) as caught:
        partitioning.solve(costed, fix={"nope": "cim"})
    assert len(str(caught.value)) < 400
    nodes = {node for operator in costed.graph.operators for node in operator.file_nodes}
    assert f"The nearest of {len(nodes | set(costed.problem.names))} names" in str(caught.value)
