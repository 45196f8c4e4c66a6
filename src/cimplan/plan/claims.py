"""What a plan file says beyond its schedule: whether it follows from the rest of the file, as far as anything does.

This is what every reader of a plan looks at. What takes longer, proofs and reasons, is left to `verification`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.errors import InputError
from cimplan.plan.check import check
from cimplan.plan.proof import bound_by_sums, status
from cimplan.plan.schedule import Schedule
from cimplan.plan.structure import host_only_makespan

if TYPE_CHECKING:
    from cimplan.plan.document import CurvePart, FreePart, OperatorPart, SchedulePart
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
        raise InputError(
            f"a plan has at most {MOST_PLACES} places, this one has {places}", where="operators", fix=REMAKE
        )
    for number, operator in enumerate(plan.operators):
        _require_times(operator, plan.fixes, problem.tick_ns, f"operators[{number}]")
    _require_cores(plan.operators, happened, problem)
    _require_host_only(plan, problem)
    _require_fixes(plan)
    _require_curve(plan, problem)
    _require_proof(plan, problem, happened.makespan, "")
    _require_status(plan, "")
    if plan.without_fixes is not None:
        _require_free(plan, plan.without_fixes)


def _wrong(where: str, why: str) -> InputError:
    return InputError("does not follow from the rest of the plan", where=where, why=why, fix=REMAKE)


def _require_times(operator: OperatorPart, fixes: Mapping[str, str], tick_ns: float, where: str) -> None:
    """Compare the times at each place with the options there; a file may not record what the user has ruled out."""
    options = [*operator.options, *(operator.ruled_out or ())]
    unknown = operator.name in fixes and operator.ruled_out is None
    for field, given, there in (
        ("host_ns", operator.host_ns, [option.duration_ns for option in options if option.place == HOST]),
        ("cim_ns", operator.cim_ns, [option.duration_ns for option in options if option.place != HOST]),
    ):
        if there and given != min(there):
            raise _wrong(f"{where}.{field}", f"the quickest option there takes {min(there)!r} ns")
        if not there and given is not None and not unknown:
            raise _wrong(f"{where}.{field}", "there is no option there")
    for number, option in enumerate(operator.ruled_out or ()):
        to_ticks(option.duration_ns, tick_ns, f"{where}.ruled_out[{number}].duration_ns")


def _require_fixes(plan: Plan) -> None:
    """Make sure that the places the user has fixed are those that operators have lost options for."""
    known = {operator.name: operator for operator in plan.operators}
    for name, place in plan.fixes.items():
        if name not in known:
            raise _wrong("fixes", f"there is no operator {name!r}")
        if any(option.place != place for option in known[name].options):
            raise _wrong("fixes", f"{name!r} is said to be fixed on {place!r}, and has other options")
        if any(option.place == place for option in known[name].ruled_out or ()):
            raise _wrong("fixes", f"{name!r} is said to be fixed on {place!r}, and an option there is ruled out")
    for number, operator in enumerate(plan.operators):
        if operator.ruled_out and operator.name not in plan.fixes:
            raise _wrong(f"operators[{number}].ruled_out", "the user has not fixed this operator")
    if plan.without_fixes is not None and not plan.fixes:
        raise _wrong("without_fixes", "nothing is fixed")


def _require_free(plan: Plan, free: FreePart) -> None:
    """Check the schedule without fixes, and that it is no worse than the plan, which is one without fixes too."""
    problem, schedule = plan.problem_without_fixes(), schedule_of(free.schedule)
    where = "without_fixes"
    bound = to_ticks(free.lower_bound_ns, plan.tick_ns, f"{where}.lower_bound_ns")
    makespan = to_ticks(free.makespan_ns, plan.tick_ns, f"{where}.makespan_ns")
    report = check(problem, schedule, status=free.solver_claims, lower_bound=bound, makespan=makespan)
    if not report.passed:
        raise InputError(
            "the plan without fixes does not hold", where=where, why=report.violations[0].message, fix=REMAKE
        )
    if free.lower_bound_ns > plan.makespan_ns:
        raise _wrong(f"{where}.lower_bound_ns", "the plan itself is quicker, and one without fixes too")
    _require_proof(free, problem, makespan, f"{where}.")
    _require_status(free, f"{where}.")


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
    """Refuse points that no crossbars could reach, or whose words are not what their numbers say."""
    least, least_crossbars = bound_by_sums(problem) * problem.tick_ns, problem.least_crossbars()
    for number, point in enumerate(plan.curve):
        where = f"curve[{number}]"
        claims = "optimal" if point.makespan_ns == point.lower_bound_ns else "feasible"
        if point.solver_claims != claims:
            raise _wrong(f"{where}.solver_claims", "optimal means that makespan and lower bound are equal")
        if point.status == "optimal" and claims != "optimal":
            raise _wrong(f"{where}.status", "optimal means that makespan and lower bound are equal")
        if point.makespan_ns < least:
            raise _wrong(f"{where}.makespan_ns", f"even with all crossbars it takes {least!r} ns")
        if point.crossbars < plan.crossbars_used and point.makespan_ns < plan.lower_bound_ns:
            raise _wrong(f"{where}.makespan_ns", "it is less than the plan's lower bound with more crossbars")
        if point.schedule is not None:
            _require_reached(point, problem, where)
    if plan.curve and plan.curve[0].crossbars == 0 and least_crossbars == 0:
        _require_host_alone(plan, problem)


def _require_reached(point: CurvePart, problem: Problem, where: str) -> None:
    """Check the schedule of a point of the curve."""
    if point.schedule is None:
        return
    ticks = to_ticks(point.makespan_ns, problem.tick_ns, f"{where}.makespan_ns")
    report = check(problem.with_budget(point.crossbars), schedule_of(point.schedule), makespan=ticks)
    if not report.passed:
        raise _wrong(f"{where}.schedule", report.violations[0].message)


def _require_host_alone(plan: Plan, problem: Problem) -> None:
    """Make sure that without crossbars the curve is what the host alone takes, where nothing else is possible."""
    if plan.host_only_ns is None or any(
        option.place != HOST and not option.crossbars for options in problem.options for option in options
    ):
        return
    point = plan.curve[0]
    quicker = point.makespan_ns < plan.host_only_ns and problem.host_cores == 1
    if quicker or point.makespan_ns > plan.host_only_ns or point.lower_bound_ns > plan.host_only_ns:
        raise _wrong("curve[0].makespan_ns", f"without crossbars the host alone takes {plan.host_only_ns!r} ns")


def schedule_of(part: SchedulePart) -> Schedule:
    """Return a schedule that a file holds beside the plan's own."""
    return Schedule(part.options, part.starts)


def _require_status(part: Plan | FreePart, where: str) -> None:
    """Make sure that "optimal" is only said of what is verified, and the method's claim is what its bound says."""
    if part.solver_claims != ("optimal" if part.makespan_ns == part.lower_bound_ns else "feasible"):
        raise _wrong(f"{where}solver_claims", "optimal means that makespan and lower bound are equal")
    if part.status != status(part.makespan_ns, part.lower_bound_ns, part.proof):
        raise _wrong(
            f"{where}status",
            f"it is {part.status!r}, and the proof is {part.proof.verdict!r}: optimal means that makespan and lower "
            "bound are equal, and the bound verified",
        )


def _require_proof(part: Plan | FreePart, problem: Problem, makespan: int, where: str) -> None:
    """Compare what the file says became of a proof with what that can prove."""
    certificate, proof = part.certificate, part.proof
    if certificate is None and proof.verdict == "verified":
        by_sums = bound_by_sums(problem) * problem.tick_ns
        if not proof.bound_ns == part.lower_bound_ns <= by_sums:
            raise _wrong(
                f"{where}proof.verdict", f"there is no certificate, and sums over the costs prove {by_sums!r} ns"
            )
        return
    if (certificate is None) != (proof.verdict == "none"):
        has = "no" if certificate is None else "a"
        raise _wrong(f"{where}proof.verdict", f"it is {proof.verdict!r}, and there is {has} certificate")
    if certificate is None:
        if proof.bound_ns:
            raise _wrong(f"{where}proof.bound_ns", "without a certificate nothing is verified")
        return
    if not 0 <= certificate.lower_bound <= makespan:
        raise InputError(
            "the proof in the plan is wrong",
            where=f"{where}certificate.lower_bound",
            why=f"it claims {_short(certificate.lower_bound)} ticks, and the plan itself takes {makespan}",
            fix=REMAKE,
        )
    most = min(certificate.lower_bound * problem.tick_ns, part.lower_bound_ns)
    if proof.bound_ns > most or (proof.verdict == "verified" and proof.bound_ns < part.lower_bound_ns):
        raise _wrong(f"{where}proof", f"the certificate cannot verify it: it claims {most!r} ns")


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**20 else "very many"
