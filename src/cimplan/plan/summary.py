"""What a person wants to know of a plan first, as data: names and texts, without any printing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from cimplan.cost.problem import CIM, HOST
from cimplan.plan.build import VERIFY_S
from cimplan.plan.document import OperatorPart
from cimplan.plan.plan import Plan
from cimplan.plan.proof import INTERRUPTED, PROOF_INTERRUPTED, PROOF_OUT_OF_TIME, REFUTED, STOPPED
from cimplan.plan.sampled import SAMPLES, SAMPLES_SOLVED
from cimplan.plan.words import fixes_words, price_of_fixes, word_of
from cimplan.units import format_duration, format_size

TOP_REASONS = 8
SCHEDULE_OF = "schedule_of"
"""Entry of a plan's statistics: the method whose schedule stands in for that of a method that found none in time."""

CURVE = "curve"
"""Entry of a plan's statistics: why a curve that was asked for is not there."""

_LONG_S = 1.0
"""Seconds of a verification worth telling."""


def summary(plan: Plan) -> list[tuple[str, str]]:
    """Return the facts of a plan in the order a person asks for them.

    Parameters
    ----------
    plan : Plan
        Any plan.

    Returns
    -------
    list of tuple of str
        What a fact is called, and the fact with its unit; empty where it does not apply.
    """
    counts = plan.counts
    kind = plan.times.host
    threads = f"{plan.profile.threads} thread{'s' if plan.profile.threads != 1 else ''}" if plan.profile.threads else ""
    # Views cost nothing, so "measured" and "estimated" describe the host times that count.
    parts = (f"host times {kind}", plan.profile.machine, threads, _when(plan.profile.date, datetime.now(UTC)))
    origin = ", ".join(part for part in parts if part)
    if kind == "estimated":
        origin += "; how they spread is not known"
    host_only = "impossible: some operators cannot run on the host"
    return [
        ("host only", host_only if plan.host_only_ns is None else _host_only(plan, plan.host_only_ns)),
        ("this plan", format_duration(plan.makespan_ns)),
        ("schedule", _schedule(plan)),
        ("stopped", _stopped(plan)),
        ("fixed by you", fixes_words(plan)),
        ("cost of that", price_of_fixes(plan)),
        ("speed-up", "" if plan.speedup is None else _speedup(plan.speedup) + _range(plan)),
        ("placement", _robust(plan)),
        ("lower bound", _bound(plan)),
        ("certificate", _certificate(plan)),
        ("crossbars", f"{plan.crossbars_used} of {plan.crossbars_available}"),
        ("operators", _by_place(plan)),
        ("regions", _regions(plan)),
        (
            "transfers",
            f"{counts.transfers}, {format_size(counts.transfer_bytes)}, {format_duration(counts.transfer_ns)}"
            if counts.transfers
            else "none",
        ),
        ("network i/o", _network_io(plan)),
        ("layout", _layout(plan)),
        ("busy", _busy(plan)),
        ("curve", str(plan.statistics.get(CURVE, ""))),
        *(("remark", remark) for remark in plan.remarks),
        ("times", origin if kind != "unknown" else ""),
        ("disturbed", f"{plan.profile.disturbed}; profile again when the machine is quiet" * plan.profile_disturbed),
        ("other host", plan.profile.mismatch),
        ("solved in", f"{plan.solve_s:.3f} s"),
        ("checked", "yes, by independent checker and replay" if plan.checked else "no"),
    ]


def interruption(plan: Plan) -> str:
    """Return what Ctrl-C has cut short of the making of a plan, as a sentence; empty where it has cut nothing."""
    if plan.statistics.get(STOPPED) == INTERRUPTED:
        done = "the method had ended before" if plan.solver_claims == "optimal" else "this is the best plan so far"
        return f"interrupted: {done}"
    if PROOF_INTERRUPTED in plan.proof.notes:
        return "interrupted while the proof was verified: the plan is complete, `cimplan check` goes on with its proof"
    return ""


def top_reasons(plan: Plan, count: int = TOP_REASONS) -> list[str]:
    """Return the reasons that matter most, one line each: gains of offloading first, then what stays out and why.

    Parameters
    ----------
    plan : Plan
        Any plan.
    count : int
        Most lines; at least a quarter of them go to operators that stay on the host, where there are any.
    """
    offloaded = sorted(
        (operator for operator in plan.operators if operator.place != HOST),
        key=lambda operator: (-(operator.gain_ns or 0.0), operator.start_ns),
    )
    staying = sorted(
        (operator for operator in plan.operators if operator.place == HOST and operator.gain_ns is not None),
        key=lambda operator: (operator.gain_ns or 0.0, operator.start_ns),
    )
    for_staying = min(len(staying), max(count // 4, count - len(offloaded)))
    shown = offloaded[: count - for_staying] + staying[:for_staying]
    lines = [_line(operator) for operator in shown]
    only = [operator for operator in plan.operators if operator.place == HOST and operator.gain_ns is None]
    if only:
        types = sorted({operator.op_type for operator in only if operator.op_type})
        named = ", ".join(types[:6]) + (", …" if len(types) > 6 else "")
        lines.append(
            f"{len(only)} operator{'s' if len(only) != 1 else ''} can run only on the host: {named}".rstrip(": ")
        )
    return lines


def _line(operator: OperatorPart) -> str:
    kind = f" ({operator.op_type})" if operator.op_type else ""
    return f"{operator.name}{kind}: {operator.reason}"


def _schedule(plan: Plan) -> str:
    other = plan.statistics.get(SCHEDULE_OF)
    return "" if other is None else f"of {other}: {plan.method} found none before it was stopped"


def _speedup(value: float) -> str:
    text = f"{value:.3g} x"
    return text if value >= 1 else f"{text} (slower than the host alone)"


def _host_only(plan: Plan, host_only_ns: float) -> str:
    text = format_duration(host_only_ns)
    if plan.host_only_ns_quartiles is None:
        return text
    lower, upper = map(format_duration, plan.host_only_ns_quartiles)
    return f"{text}, quartiles {lower} and {upper}"


def _range(plan: Plan) -> str:
    if plan.speedup_range is None:
        return ""
    low, high = plan.speedup_range
    count = plan.statistics.get(SAMPLES, 0)
    return f", {low:.3g} to {high:.3g} x with the noise of the host (5 to 95 % of {count} samples)"


def _robust(plan: Plan) -> str:
    """Return how often the placement stays as good as the best."""
    if plan.placement_robust_share is None:
        return ""
    solved = plan.statistics.get(SAMPLES_SOLVED, 0)
    share = f"{100 * plan.placement_robust_share:.0f} %"
    return f"within 1 % of the best in {share} of {solved} samples of the host's noise that were solved again"


def _when(date: str, now: datetime) -> str:
    """Return the day and the age of a measurement; empty where its date does not read."""
    try:
        taken = datetime.fromisoformat(date)
    except ValueError:
        return ""
    taken = taken if taken.tzinfo else taken.replace(tzinfo=UTC)
    days = (now - taken).days
    age = f"{days} day{'s' if days != 1 else ''} ago" if days > 0 else "today" if days == 0 else "in the future"
    return f"on {taken.date().isoformat()} ({age})"


def _bound(plan: Plan) -> str:
    word, refuted = word_of(plan.method, plan.statistics), plan.statistics.get(REFUTED)
    if isinstance(refuted, int):
        claim = format_duration(refuted * plan.tick_ns)
        return f"{format_duration(plan.lower_bound_ns)}, gap {100 * plan.gap:.2f} %: {word} said {claim}, refuted"
    if plan.status == "optimal":
        return f"{format_duration(plan.lower_bound_ns)}, gap 0: proven optimal{_under(plan)}"
    if plan.lower_bound_ns == 0:
        return "none: this method proves nothing"
    whose = f": the word of {word}" if plan.proof.verdict != "verified" else ""
    if plan.solver_claims == "optimal":
        return f"{format_duration(plan.lower_bound_ns)}, gap 0{whose}, not verified"
    return f"{format_duration(plan.lower_bound_ns)}, gap {100 * plan.gap:.2f} %{whose}"


def _under(plan: Plan) -> str:
    if not plan.fixes:
        return ""
    return " with this operator fixed" if len(plan.fixes) == 1 else " with these operators fixed"


def _stopped(plan: Plan) -> str:
    stopped = plan.statistics.get(STOPPED)
    if stopped not in (INTERRUPTED, "time limit"):
        return ""
    curve = "; the curve as far as it got" if plan.curve else ""
    return f"{stopped}: {'after the search' if plan.solver_claims == 'optimal' else 'best plan so far'}{curve}"


def _certificate(plan: Plan) -> str:
    """Return how far the bound was verified without the solver."""
    proof, took_s = plan.proof, plan.statistics.get(VERIFY_S, 0.0)
    if proof.verdict == "none":
        return "none"
    seconds = f"{took_s:.0f} s" if isinstance(took_s, (int, float)) and took_s >= _LONG_S else ""
    within = f" in {seconds}" if seconds else ""
    if proof.verdict == "verified":
        how = "verified without the solver" if plan.certificate is not None else "none needed: sums over the costs"
        return f"{how}{within}"
    goes_on = "`cimplan check PLAN` goes on"
    if PROOF_INTERRUPTED in proof.notes:
        after = f" after {seconds}" if seconds else ""
        return f"not verified: that was interrupted{after}, {goes_on}"
    if PROOF_OUT_OF_TIME in proof.notes:
        return f"not verified: the time limit came first, {goes_on}"
    if proof.bound_ns == 0:
        than = f" than {seconds}" if seconds else ""
        return f"not verified: that takes more search{than}, {goes_on}"
    share = 100 * (1 - proof.bound_ns / plan.makespan_ns) if plan.makespan_ns else 0.0
    return (
        f"verified without the solver up to {format_duration(proof.bound_ns)} ({share:.2f} % below this plan){within}, "
        f"{goes_on}"
    )


def _by_place(plan: Plan) -> str:
    text = ", ".join(f"{count.operators} on {_called(place)}" for place, count in plan.counts.places.items())
    return f"{plan.counts.operators}: {text}" if text else "none"


def _regions(plan: Plan) -> str:
    return ", ".join(f"{count.regions} on {_called(place)}" for place, count in plan.counts.places.items())


def network_io(rule: Literal["charged", "free"]) -> str:
    """Return in words what `bus.network_io` means."""
    do = "cross the bus to and from the accelerator" if rule == "charged" else "do not cross the bus"
    return f"{rule}: the network's inputs and outputs {do} (bus.network_io)"


def _network_io(plan: Plan) -> str:
    moved = sum(operator.network_bytes for operator in plan.operators if operator.place != HOST)
    return network_io(plan.network_io) + (f", {format_size(moved)} in this plan" if moved else "")


def _layout(plan: Plan) -> str:
    """Return what changing the host's layout takes; empty for a host that has only one."""
    alone = sum(operator.reorder_ns for operator in plan.operators)
    crossing = {(move.source, move.target) for move in plan.transfers}
    moved = sum(edge.reorder_ns for edge in plan.dependencies if (edge.source, edge.target) in crossing)
    if not alone and not moved:
        return ""
    kept = sum(operator.reorder_ns for operator in plan.operators if operator.place == HOST)
    return (
        f"reorders of the host's blocks: {format_duration(kept)} with the operators that still need them, "
        f"{format_duration(moved)} with transfers; {format_duration(alone)} on the host alone"
    )


def _busy(plan: Plan) -> str:
    if not plan.makespan_ns:
        return ""
    return ", ".join(
        f"{_called(place)} {format_duration(count.busy_ns)}"
        + (f" ({100 * count.busy_ns / (plan.makespan_ns * plan.host_cores):.0f} %)" if place == HOST else "")
        for place, count in plan.counts.places.items()
    )


def _called(place: str) -> str:
    return "CIM" if place == CIM else place
