"""Everything that a plan file claims, verified again from the file alone: proofs, the curve, gains and reasons.

`claims` looks at what every reader of a plan must know; here is what takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cimplan.cost.problem import HOST, Problem
from cimplan.errors import InputError
from cimplan.plan.certificate import Certificate, Step
from cimplan.plan.certificate_check import (
    DEFAULT_NODES,
    DEFAULT_SEARCH_NODES,
    CertificateReport,
    verify_certificate,
)
from cimplan.plan.claims import REMAKE, schedule_of, to_ticks
from cimplan.plan.curve import PointReport, ProvenSteps, look_at, prove_steps
from cimplan.plan.document import Claim
from cimplan.plan.proof import bound_by_sums
from cimplan.plan.reasons import UNKNOWN, both_wordings
from cimplan.plan.schedule import CurvePoint

if TYPE_CHECKING:
    from cimplan.plan.document import FreePart
    from cimplan.plan.plan import Plan

Verdict = Literal["verified", "incomplete", "none"]


@dataclass(frozen=True)
class Proof:
    """What became of a lower bound.

    Attributes
    ----------
    verdict : {"verified", "incomplete", "none"}
        "none" if there is nothing to verify it by.
    bound_ns : float
        The bound that holds.
    status : {"optimal", "feasible"}
        "optimal" if it holds for the whole latency.
    claimed : bool
        Whether the file claims any bound.
    report : CertificateReport or None
        How the certificate fared.
    """

    verdict: Verdict
    bound_ns: float
    status: Claim
    claimed: bool
    report: CertificateReport | None

    @property
    def holds(self) -> bool:
        """True if all that is claimed was proven."""
        return self.verdict == "verified" or (not self.claimed and self.report is None)


@dataclass(frozen=True)
class Verification:
    """What a plan file proves.

    Attributes
    ----------
    proof : Proof
        Of the plan's lower bound.
    without_fixes : Proof or None
        Of the plan without the user's fixes.
    curve : tuple of PointReport
        What holds of each point of the curve.
    curve_steps : ProvenSteps
        How the proofs of the curve fared.
    differences : tuple of str
        Gains and reasons that do not follow from the costs and the schedule.
    unknown : tuple of str
        What the file gives nothing to compare with.
    nodes : int
        Nodes that all searches took.
    """

    proof: Proof
    without_fixes: Proof | None
    curve: tuple[PointReport, ...]
    curve_steps: ProvenSteps
    differences: tuple[str, ...]
    unknown: tuple[str, ...]
    nodes: int

    @property
    def complete(self) -> bool:
        """True if everything that the file claims, and that follows from its costs, was proven."""
        free = self.without_fixes is None or self.without_fixes.holds
        return self.proof.holds and free and not self.curve_open and not self.differences

    @property
    def curve_open(self) -> tuple[int, ...]:
        """Numbers of the points of the curve of which not all is proven."""
        return tuple(n for n, point in enumerate(self.curve) if not (point.bounded and point.reached))


def verify_plan(plan: Plan, *, nodes: int = DEFAULT_NODES, search_nodes: int = DEFAULT_SEARCH_NODES) -> Verification:
    """Verify everything that a plan claims, for the costs in it.

    Parameters
    ----------
    plan : Plan
        As `Plan.from_json` returns it.
    nodes, search_nodes : int
        Effort for each proof, as in `verify_certificate`.

    Raises
    ------
    InputError
        If a certificate is wrong, or a point of the curve is refuted.
    """
    problem, schedule = plan.problem(), plan.ticks()
    proof = _proof(plan, problem, plan.certificate, nodes, search_nodes, "certificate")
    free = None
    if plan.without_fixes is not None:
        unfixed = plan.problem_without_fixes()
        part = plan.without_fixes
        free = _proof(part, unfixed, part.certificate, nodes, search_nodes, "without_fixes.certificate")
    steps = prove_steps(problem, plan.curve_proofs, nodes=nodes, search_nodes=search_nodes)
    if steps.refuted:
        raise _wrong_proof("curve_proofs", steps.refuted)
    points = _points(plan)
    known = [(schedule.crossbars(problem), schedule.makespan(problem))]
    if plan.host_only_ns is not None and not plan.fixes:
        known.append((0, to_ticks(plan.host_only_ns, plan.tick_ns, "host_only_ns")))
    bounds = [*steps.steps, Step(problem.budget, round(proof.bound_ns / plan.tick_ns))]
    _refute(points, bounds, plan.tick_ns)
    curve = look_at(problem, points, bounds, known) if points else []
    differences, unknown = _explanations(plan, problem)
    return Verification(
        proof=proof,
        without_fixes=free,
        curve=tuple(curve),
        curve_steps=steps,
        differences=tuple(differences),
        unknown=tuple(unknown),
        nodes=steps.nodes + sum(one.report.nodes for one in (proof, free) if one is not None and one.report),
    )


def _proof(
    part: Plan | FreePart,
    problem: Problem,
    certificate: Certificate | None,
    nodes: int,
    search_nodes: int,
    where: str,
) -> Proof:
    """Verify a lower bound by its certificate, or else by sums; what these prove beyond it is not told."""
    tick_ns, claimed, report = problem.tick_ns, part.lower_bound_ns, None
    bound = min(bound_by_sums(problem) * tick_ns, claimed)
    verdict: Verdict = "verified" if 0 < claimed <= bound else "none"
    if certificate is not None:
        report = verify_certificate(problem, certificate, nodes=nodes, search_nodes=search_nodes)
        if report.verdict == "refuted":
            raise _wrong_proof(where, report.notes)
        # Where the file claims no bound, whatever its certificate proves is the answer.
        bound = report.bound * tick_ns if verdict == "none" else max(bound, report.bound * tick_ns)
        verdict = "verified" if bound >= claimed and (claimed or report.verified) else "incomplete"
    elif verdict == "none":
        bound = 0.0
    return Proof(verdict, bound, "optimal" if bound >= part.makespan_ns else "feasible", claimed > 0, report)


def _wrong_proof(where: str, notes: Iterable[str]) -> InputError:
    return InputError("the proof in the plan is wrong", where=where, why="; ".join([*notes][:3]), fix=REMAKE)


def _points(plan: Plan) -> list[CurvePoint]:
    return [
        CurvePoint(
            point.crossbars,
            to_ticks(point.makespan_ns, plan.tick_ns, f"curve[{number}].makespan_ns"),
            to_ticks(point.lower_bound_ns, plan.tick_ns, f"curve[{number}].lower_bound_ns"),
            None if point.schedule is None else schedule_of(point.schedule),
        )
        for number, point in enumerate(plan.curve)
    ]


def _refute(points: Iterable[CurvePoint], bounds: Iterable[Step], tick_ns: float) -> None:
    """Refuse points that are quicker than what is proven for as many crossbars."""
    proven = list(bounds)
    for number, point in enumerate(points):
        for step in proven:
            if step.budget >= point.crossbars and step.bound > point.makespan:
                raise InputError(
                    "a point of the curve is refuted by a proof in the plan",
                    where=f"curve[{number}].makespan_ns",
                    why=f"within {step.budget} crossbars nothing is quicker than {step.bound * tick_ns!r} ns",
                    fix=REMAKE,
                )


def _explanations(plan: Plan, problem: Problem) -> tuple[list[str], list[str]]:
    """Return what is wrong with gains and reasons, and what the file gives nothing to compare with."""
    unknown = []
    recorded = all(operator.ruled_out is not None for operator in plan.operators)
    unfixed = plan.problem_without_fixes() if recorded else problem
    if plan.fixes and not recorded:
        unknown.append("gains and reasons of the fixed operators")
    differences: list[str] = []
    untold = 0
    schedule = plan.ticks()
    words = both_wordings(problem, schedule, unfixed=unfixed)
    for number, operator in enumerate(plan.operators):
        if operator.name in plan.fixes and not recorded:
            continue
        if operator.gain_ns is None and operator.reason.endswith(UNKNOWN):
            untold += 1
            continue
        found = [some[number] for some in words]
        gain = None if found[0].gain is None else found[0].gain * plan.tick_ns
        if operator.gain_ns != gain:
            differences.append(f"operators[{number}].gain_ns: it is {operator.gain_ns!r}, recomputed {gain!r}")
        only = found[0].gain is None and operator.place == HOST and operator.reason.startswith(f"{found[0].text}: ")
        if not only and operator.reason not in {one.text for one in found}:
            differences.append(f"operators[{number}].reason: {operator.reason!r}, recomputed {found[0].text!r}")
    if untold:
        unknown.append(f"gains and reasons of {untold} operators, for which there was no time")
    return differences, unknown
