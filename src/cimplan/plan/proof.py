"""What becomes of a proof when a plan is made: how far it was verified, and what may be called optimal.

A method says of its schedule that none is quicker. That is its word, and the word of the solvers it leans on. A plan
says "optimal" only where the bound was verified without them: by the certificate, or by sums over the costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from cimplan.cost.problem import HOST, Problem
from cimplan.limits import TimeLimitError
from cimplan.plan.certificate import Certificate
from cimplan.plan.certificate_check import CertificateReport, verify_certificate
from cimplan.plan.document import Claim, ProofPart
from cimplan.plan.schedule import Solution

PROOF_NODES: Final = 20_000
"""Effort of verifying the tables of a certificate when a plan is made: mostly a tenth of a second, seconds at most."""

PROOF_SEARCH_NODES: Final = 40_000
"""Effort of searching what the fold leaves open then: a second at most. `Plan.verify_proof` goes on for longer."""

STOPPED: Final = "stopped"
"""Entry of a plan's statistics: what stopped the method, among others `INTERRUPTED`."""

INTERRUPTED: Final = "interrupted"

PROOF_OUT_OF_TIME: Final = "the time limit ended verifying"
"""Note of a proof that could not be verified in what the method left of the time limit."""

PROOF_INTERRUPTED: Final = "verifying was interrupted"
"""Note of a proof whose verification Ctrl-C has ended."""

REFUTED: Final = "refuted"
"""Entry of a plan's statistics: ticks that the method claimed to be unbeatable, and that a search has refuted."""

BY_SUMS: Final = "the longest path, or what only the host can run, takes as long"
"""Note of a proof that needs no certificate."""


@dataclass(frozen=True)
class Proven:
    """How far the lower bound of an answer was verified.

    Attributes
    ----------
    certificate : Certificate or None
        The proof; it may claim more than the method's own where the verifier itself has proven more.
    part : ProofPart
        For the file.
    lower_bound : int
        Ticks that may be claimed: those of the method, unless they were refuted.
    took_s : float
        Seconds of it.
    """

    certificate: Certificate | None
    part: ProofPart
    lower_bound: int
    took_s: float


def bound_by_sums(problem: Problem) -> int:
    """Return the longest path if each operator takes its quickest option, or what must run on the host if longer."""
    finish = [0] * len(problem)
    begin = [0] * len(problem)
    outgoing: list[list[int]] = [[] for _ in finish]
    for edge in problem.dependencies:
        outgoing[edge.source].append(edge.target)
    for v, options in enumerate(problem.options):
        finish[v] = begin[v] + min(option.duration for option in options)
        for w in outgoing[v]:
            begin[w] = max(begin[w], finish[v])
    load = sum(
        min(option.duration for option in options)
        for options in problem.options
        if all(option.place == HOST for option in options)
    )
    return max([-(-load // problem.host_cores), *finish])


def claim(makespan: int, lower_bound: int) -> Claim:
    """Return what a method says of a schedule with its own bound."""
    return "optimal" if makespan == lower_bound else "feasible"


def status(makespan: float, lower_bound: float, part: ProofPart) -> Claim:
    """Return what may be said of a schedule: "optimal" only with a verified bound. Nothing is quicker than nothing."""
    proven = makespan == 0 or part.verdict == "verified"
    return "optimal" if proven and makespan == lower_bound else "feasible"


def prove(
    problem: Problem, solution: Solution, verifying: Callable[[], AbstractContextManager[object]] = nullcontext
) -> Proven:
    """Verify the lower bound of an answer as far as a few seconds go.

    Where a method claims more than its certificate, the search of the verifier may still reach it: then the
    certificate says so. Where that search finds something quicker, the claim is dropped. Ctrl-C and the time limit
    end the verification, not the plan; after one that ended the solve early there is less verification.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        The answer.
    verifying : callable
        Makes the context in which the certificate is verified.

    Raises
    ------
    InternalError
        If the certificate is wrong.
    """
    began = time.perf_counter()
    certificate, bound, tick_ns = solution.certificate, solution.lower_bound, problem.tick_ns
    if certificate is None:
        part = ProofPart(verdict="none", bound_ns=0.0)
        if 0 < bound <= bound_by_sums(problem):
            part = ProofPart(verdict="verified", bound_ns=bound * tick_ns, notes=(BY_SUMS,))
        return Proven(None, part, bound, time.perf_counter() - began)
    hurried = solution.status != "optimal" and solution.statistics.get(STOPPED) == INTERRUPTED
    less = 10 if hurried else 1
    nodes, search_nodes = PROOF_NODES // less, PROOF_SEARCH_NODES // less
    report = CertificateReport("incomplete", 0, ())
    interrupted: tuple[str, ...] = ()
    try:
        with verifying():
            report = verify_certificate(problem, certificate, nodes=nodes, search_nodes=search_nodes)
            if report.verified and report.bound < bound:
                more = replace(certificate, lower_bound=bound, exhausted=True)
                better = verify_certificate(problem, more, nodes=nodes, search_nodes=search_nodes)
                if better.verdict == "refuted":
                    bound = report.bound
                elif better.verified or not better.final:
                    certificate = more
                    report = better if better.verified else replace(report, notes=better.notes)
    except KeyboardInterrupt:
        interrupted = (PROOF_INTERRUPTED,)
    except TimeLimitError:
        interrupted = (PROOF_OUT_OF_TIME,)
    report.require()
    verified = report.verified and report.bound >= bound
    part = ProofPart(
        verdict="verified" if verified else "incomplete",
        bound_ns=min(report.bound, bound) * tick_ns,
        notes=report.notes if verified else (*report.notes, *interrupted),
    )
    return Proven(certificate, part, bound, time.perf_counter() - began)
