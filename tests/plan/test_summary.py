"""The summary a person wants, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oracle import brute_force

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.partition.prove import with_certificate
from cimplan.plan.build import PlanContext
from cimplan.plan.certificate import Block, Certificate
from cimplan.plan.document import CurvePart, ProfilePart, ProofPart
from cimplan.plan.plan import Plan, plan_from
from cimplan.plan.proof import PROOF_INTERRUPTED
from cimplan.plan.schedule import Schedule, Solution
from cimplan.plan.summary import interruption, summary, top_reasons

PROBLEM = Problem(
    names=("load", "conv", "relu", "fc", "add"),
    options=(
        (Option(HOST, 500),),
        (Option(HOST, 2000), Option(CIM, 400, 3)),
        (Option(HOST, 100),),
        (Option(HOST, 900), Option(CIM, 100, 4)),
        (Option(HOST, 20),),
    ),
    dependencies=(
        Dependency(0, 1, 70, 700),
        Dependency(1, 2, 60, 600),
        Dependency(1, 4, 60, 600),
        Dependency(2, 3, 50, 500),
        Dependency(3, 4, 40, 400),
    ),
    budget=5,
)


def optimal() -> Plan:
    schedule = brute_force(PROBLEM)
    assert schedule is not None
    context = PlanContext(
        op_types=("Quant", "Conv", "Relu", "Gemm", "Add"),
        profile=ProfilePart(kind="measured", machine="Some CPU", threads=1),
    )
    solution = Solution("exact", "optimal", schedule, schedule.makespan(PROBLEM))
    return plan_from(PROBLEM, with_certificate(PROBLEM, solution), context)


def test_the_summary_answers_the_first_questions() -> None:
    facts = dict(summary(optimal()))
    assert facts["host only"] == "3.52 µs"
    assert facts["this plan"] == "2.05 µs"
    assert facts["speed-up"] == "1.72 x"
    assert facts["lower bound"] == "2.05 µs, gap 0: proven optimal"
    assert facts["crossbars"] == "3 of 5"
    assert facts["operators"] == "5: 4 on host, 1 on CIM"
    assert facts["regions"] == "2 on host, 1 on CIM"
    assert facts["transfers"] == "3, 1.9 kB, 190 ns"
    assert facts["times"] == "host times measured, Some CPU, 1 thread"
    assert facts["checked"].startswith("yes")


def test_an_unproven_plan_that_loses_says_so() -> None:
    slow = Schedule((0, 0, 0, 1, 0), (0, 500, 2500, 2650, 2790))
    facts = dict(summary(plan_from(PROBLEM, Solution("greedy", "feasible", slow, 1405))))
    assert facts["lower bound"] == "1.405 µs, gap 50.00 %: the word of 'greedy'"
    unproven = dict(summary(plan_from(PROBLEM, Solution("greedy", "feasible", slow))))
    assert unproven["lower bound"] == "none: this method proves nothing"
    lossy = Problem(("a",), ((Option(HOST, 1), Option(CIM, 4, 1)),), (), 1)
    facts = dict(summary(plan_from(lossy, Solution("all-cim", "feasible", Schedule((1,), (0,))))))
    assert facts["speed-up"] == "0.25 x (slower than the host alone)"
    assert facts["transfers"] == "none"


def test_the_top_reasons_tell_gains_and_what_stays_out() -> None:
    assert top_reasons(optimal()) == [
        "conv (Conv): CIM saves 1.47 µs on 3 crossbars",
        "fc (Gemm): CIM would save 710 ns, but the 4 crossbars it needs are better used elsewhere",
        "3 operators can run only on the host: Add, Quant, Relu",
    ]
    assert top_reasons(optimal(), 1) == [
        "conv (Conv): CIM saves 1.47 µs on 3 crossbars",
        "3 operators can run only on the host: Add, Quant, Relu",
    ]


def test_the_summary_says_what_became_of_the_certificate() -> None:
    problem = Problem(("a", "b"), ((Option(HOST, 6),), (Option(HOST, 2),)), (Dependency(0, 1, 0),), 0)
    certificate = Certificate(8, 0, (0, 1), (Block("chain"),) * 3)

    def line(certificate: Certificate | None, bound: int = 8, status: Any = "optimal") -> str:
        solution = Solution("exact", status, Schedule((0, 0), (0, 6)), bound, certificate)
        return dict(summary(plan_from(problem, solution)))["certificate"]

    assert line(None) == "none needed: sums over the costs"
    assert line(certificate) == "verified without the solver"
    partly = Certificate(8, 0, dropped=(0, 1), blocks=(Block("chain"),), exhausted=True)
    more = "not verified: that takes more search, `cimplan check PLAN` goes on"
    assert line(partly) == more
    assert line(replace(partly, lower_bound=7), 7, "feasible") == more
    assert line(replace(certificate, lower_bound=6)) == "verified without the solver"
    without = Certificate(6, 0, (0,), (Block("chain"),) * 2, dropped=(1,))
    assert line(without) == (
        "verified without the solver up to 6 ns (25.00 % below this plan), `cimplan check PLAN` goes on"
    )


def test_the_summary_says_what_cut_the_plan_short_and_how_long_its_proof_took() -> None:
    plan = optimal()

    def facts(**changes: Any) -> dict[str, str]:
        return dict(summary(plan.model_copy(update=changes)))

    assert not facts()["stopped"]
    assert facts(statistics={"stopped": "interrupted"})["stopped"] == "interrupted: after the search"
    cut = facts(
        statistics={"stopped": "time limit", "curve": "none: time limit before it was there"}, solver_claims="feasible"
    )
    assert cut["stopped"] == "time limit: best plan so far"
    point = CurvePart(crossbars=0, makespan_ns=3.0, lower_bound_ns=2.0, status="feasible", solver_claims="feasible")
    part = facts(statistics={"stopped": "interrupted"}, curve=(point,))["stopped"]
    assert part == "interrupted: after the search; the curve as far as it got"
    assert cut["curve"] == "none: time limit before it was there"
    proof = ProofPart(verdict="verified", bound_ns=plan.makespan_ns)
    assert facts(proof=proof, statistics={"verify_s": 0.4})["certificate"] == "verified without the solver"
    assert facts(proof=proof, statistics={"verify_s": 12.3})["certificate"] == "verified without the solver in 12 s"
    stopped = ProofPart(verdict="incomplete", bound_ns=0.0, notes=(PROOF_INTERRUPTED,))
    assert facts(proof=stopped, statistics={"verify_s": 2.1})["certificate"].startswith(
        "not verified: that was interrupted after 2 s"
    )


def test_an_interruption_is_one_sentence() -> None:
    plan = optimal()
    assert interruption(plan) == ""
    cut = plan.model_copy(update={"statistics": {"stopped": "interrupted"}, "solver_claims": "feasible"})
    assert interruption(cut) == "interrupted: this is the best plan so far"
    stopped = ProofPart(verdict="incomplete", bound_ns=0.0, notes=(PROOF_INTERRUPTED,))
    assert "plan is complete" in interruption(plan.model_copy(update={"proof": stopped}))


def test_an_empty_plan_has_a_summary() -> None:
    plan = plan_from(Problem((), (), (), 0), Solution("exact", "optimal", Schedule((), ())))
    assert dict(summary(plan))["this plan"] == "0 ns"
    assert top_reasons(plan) == []
