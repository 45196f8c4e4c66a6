"""What a plan file says beyond its schedule: whether it follows from the rest of the file, as far as anything does.

What does not follow is taken as said: which time an operator would take at a place that it cannot choose (the user has
fixed another), what would be gained by moving it, why it is where it is, how long the method took; and of the curve all
but the point of the plan itself, as the file has no other schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.errors import InputError
from cimplan.plan.structure import host_only_makespan

if TYPE_CHECKING:
    from cimplan.plan.document import OperatorPart
    from cimplan.plan.plan import Plan
    from cimplan.plan.replay import Replay

MOST_PLACES: Final = 100
"""Places of one plan: what each does is counted, and real hardware has two or three."""

REMAKE: Final = "Make the plan again rather than editing it"


def to_ticks(time_ns: float, tick_ns: float, where: str) -> int:
    """Return a time in ticks.

    Raises
    ------
    InputError
        If it is not a whole number of ticks; with the path of the field.
    """
    try:
        ticks = round(time_ns / tick_ns)
        exact = ticks * tick_ns == time_ns
    except (OverflowError, ValueError):  # beyond what a float can count
        exact = False
    if not exact:
        raise InputError(
            f"{time_ns!r} ns is not a whole number of ticks", where=where, why=f"a tick is {tick_ns!r} ns", fix=REMAKE
        )
    return ticks


def require_claims(plan: Plan, problem: Problem, happened: Replay) -> None:
    """Refuse a plan whose claims contradict the rest of it.

    Parameters
    ----------
    plan : Plan
        What is claimed.
    problem : Problem
        The problem in the plan.
    happened : Replay
        The plan's schedule as it was replayed.

    Raises
    ------
    InputError
        If something does not follow from the rest; with the path of the field.
    """
    places = len(problem.places())
    if places > MOST_PLACES:
        raise InputError(f"a plan has at most {MOST_PLACES} places, this one has {places}", where="operators")
    for number, operator in enumerate(plan.operators):
        _require_times(operator, problem.options[number], problem.tick_ns, f"operators[{number}]")
    _require_cores(plan.operators, happened, problem)
    _require_host_only(plan, problem)
    _require_curve(plan, problem)
    _require_proof(plan, happened.makespan)


def _wrong(where: str, why: str) -> InputError:
    return InputError("does not follow from the rest of the plan", where=where, why=why, fix=REMAKE)


def _require_times(operator: OperatorPart, options: Sequence[Option], tick_ns: float, where: str) -> None:
    """Compare the times at each place with the options there; a place that the user has ruled out has none left."""
    for field, given, there in (
        ("host_ns", operator.host_ns, [option.duration for option in options if option.place == HOST]),
        ("cim_ns", operator.cim_ns, [option.duration for option in options if option.place != HOST]),
    ):
        if there and given != min(there) * tick_ns:
            raise _wrong(f"{where}.{field}", f"the quickest option there takes {min(there) * tick_ns!r} ns")


def _require_cores(operators: Sequence[OperatorPart], happened: Replay, problem: Problem) -> None:
    """Make sure that each operator has a host core to itself exactly if it needs one."""
    busy = {index for index, core in enumerate(happened.core) if core >= 0}
    free_at: dict[int, int] = {}
    for index in sorted(range(len(operators)), key=lambda v: (happened.schedule.start[v], v)):
        core, where = operators[index].core, f"operators[{index}].core"
        if (core is not None) != (index in busy):
            raise _wrong(where, "an operator has a core if it takes time on the host, and only then")
        if core is None:
            continue
        if core >= problem.host_cores or free_at.get(core, 0) > happened.schedule.start[index]:
            raise _wrong(where, f"core {core} is taken, or there is none of this number")
        free_at[core] = happened.finish[index]


def _require_host_only(plan: Plan, problem: Problem) -> None:
    """Compare the latency without the accelerator with the times on the host."""
    on_host = [
        None
        if operator.host_ns is None
        else Option(HOST, to_ticks(operator.host_ns, problem.tick_ns, f"operators[{number}].host_ns"))
        for number, operator in enumerate(plan.operators)
    ]
    alone = tuple((option,) for option in on_host if option is not None)
    expected = None
    if len(alone) == len(on_host):
        ticks = host_only_makespan(
            Problem(problem.names, alone, problem.dependencies, problem.budget, problem.host_cores, problem.tick_ns)
        )
        expected = None if ticks is None else ticks * problem.tick_ns
    if plan.host_only_ns != expected:
        raise _wrong("host_only_ns", f"with the times on the host it is {expected!r}")


def _require_curve(plan: Plan, problem: Problem) -> None:
    """Refuse points that no crossbars could reach, or whose status is not what their bound says."""
    least = _least_makespan(problem) * problem.tick_ns
    for number, point in enumerate(plan.curve):
        if (point.status == "optimal") != (point.makespan_ns == point.lower_bound_ns):
            raise _wrong(f"curve[{number}].status", "optimal means that makespan and lower bound are equal")
        if point.makespan_ns < least:
            raise _wrong(f"curve[{number}].makespan_ns", f"even with all crossbars it takes {least!r} ns")


def _least_makespan(problem: Problem) -> int:
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


def _require_proof(plan: Plan, makespan: int) -> None:
    """Compare what the file says became of its proof with what that can prove."""
    certificate, proof = plan.certificate, plan.proof
    if (certificate is None) != (proof.verdict == "none"):
        has = "no" if certificate is None else "a"
        raise _wrong("proof.verdict", f"it is {proof.verdict!r}, and there is {has} certificate")
    if certificate is None:
        if proof.bound_ns:
            raise _wrong("proof.bound_ns", "without a certificate nothing is verified")
        return
    if not 0 <= certificate.lower_bound <= makespan:
        raise InputError(
            "the proof in the plan is wrong",
            where="certificate.lower_bound",
            why=f"it claims {_short(certificate.lower_bound)} ticks, and the plan itself takes {makespan}",
            fix=REMAKE,
        )
    most = min(certificate.lower_bound * plan.tick_ns, plan.lower_bound_ns)
    if proof.bound_ns > most or (proof.verdict == "verified" and proof.bound_ns < plan.lower_bound_ns):
        raise _wrong("proof", f"the certificate cannot verify it: it claims {most!r} ns")


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**20 else "very many"
