"""From the answer of a method to the content of a plan: checked, replayed, and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.errors import InternalError, NoAnswerError
from cimplan.limits import TimeLimitError
from cimplan.plan.certificate import Step
from cimplan.plan.check import check, require
from cimplan.plan.curve import look_at, own_schedule, prove_steps
from cimplan.plan.document import (
    Counts,
    CurvePart,
    DependencyPart,
    FreePart,
    OperatorPart,
    OptionPart,
    PlaceCount,
    ProfilePart,
    RegionPart,
    SchedulePart,
    TimeKind,
    TimeKinds,
    TransferPart,
)
from cimplan.plan.fixes import fixes_of, ruled_out, without
from cimplan.plan.proof import PROOF_NODES, PROOF_SEARCH_NODES, REFUTED, Proven, claim, prove, status
from cimplan.plan.reasons import explain, quickest_move
from cimplan.plan.replay import Replay, replay
from cimplan.plan.sampled import SAMPLES, SAMPLES_SOLVED, Sampled
from cimplan.plan.schedule import CurvePoint, Schedule, Solution
from cimplan.plan.structure import host_only_makespan, regions
from cimplan.plan.words import rests_on_a_solver

VERIFY_S: Final = "verify_s"
"""Entry of a plan's statistics: seconds that verifying the certificate took."""


@dataclass(frozen=True)
class PlanContext:
    """What a plan says beside the problem and its solution.

    Attributes
    ----------
    model, hardware : str
        Names for people.
    op_types : tuple of str
        ONNX type of each operator; empty if unknown.
    unsupported : mapping of str to str
        By operator name: why it has no accelerator option.
    host_times : mapping of str to str
        By operator name: where its host time comes from.
    profile : ProfilePart
        The host profile in short.
    network_io : {"charged", "free"}
        Whether inputs and outputs of the network cross the bus.
    remarks : tuple of str
        What else the costs rest on, a sentence each.
    reorders, reorder_ns, network_bytes : mapping by operator name
        As in `OperatorPart`; operators without any are left out.
    transfer_reorder_ns : tuple of float
        As in `DependencyPart`, per dependency; empty if none has any.
    inputs : mapping of str to str
        SHA-256 of what went in, by kind ("model", "profile", "hardware").
    sampled : Sampled, optional
        What the noise of the host profile means for the plan, where that is known.
    fixes : mapping of str to str
        Operators that the user has placed, and where.
    without_fixes : Solution or None
        The answer to the problem without these fixes (`cimplan.plan.fixes.without`), where there is one.
    file_nodes : mapping of str to tuple of str
        By operator name: nodes of the model file it stands for.
    verifying : callable
        Makes the context in which the certificate is verified; of the whole way from a solution to a plan, only there
        does Ctrl-C cost nothing but the verification.
    explaining : callable
        Makes the context in which gains are computed; where it ends in `TimeLimitError`, those left are not known.
    """

    model: str = ""
    hardware: str = ""
    op_types: tuple[str, ...] = ()
    unsupported: Mapping[str, str] = field(default_factory=dict)
    host_times: Mapping[str, TimeKind] = field(default_factory=dict)
    profile: ProfilePart = field(default_factory=ProfilePart)
    network_io: Literal["charged", "free"] = "free"
    remarks: tuple[str, ...] = ()
    reorders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reorder_ns: Mapping[str, float] = field(default_factory=dict)
    network_bytes: Mapping[str, int] = field(default_factory=dict)
    transfer_reorder_ns: tuple[float, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    sampled: Sampled | None = None
    fixes: Mapping[str, str] = field(default_factory=dict)
    without_fixes: Solution | None = None
    file_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    verifying: Callable[[], AbstractContextManager[object]] = nullcontext
    explaining: Callable[[], AbstractContextManager[object]] = nullcontext


def content(
    problem: Problem, solution: Solution, context: PlanContext, *, unfixed: Problem | None = None
) -> dict[str, Any]:
    """Check and replay a solution and return the fields of its plan.

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solution : Solution
        What the method answered.
    context : PlanContext
        Names, kinds of times, input hashes.
    unfixed : Problem, optional
        The problem before the user fixed places, on which the host-only latency is computed; `problem` if left out.

    Returns
    -------
    dict
        Field names and values of `cimplan.plan.plan.Plan`.

    Raises
    ------
    NoAnswerError
        If the method found no schedule.
    InternalError
        If the checker refuses the solution or the replay does not reproduce it.
    """
    if solution.schedule is None:
        raise _no_schedule(problem, solution)
    require(problem, solution)
    happened, solution = _replayed(problem, solution, solution.schedule)
    schedule, tick_ns = happened.schedule, problem.tick_ns
    unfixed = unfixed or problem
    makespan = happened.makespan
    host_only = host_only_makespan(unfixed)
    crossbars = schedule.crossbars(problem)
    proven = _unrefuted(problem, solution, schedule, prove(problem, solution, context.verifying), context.explaining)
    lower_bound = proven.lower_bound
    statistics = dict(solution.statistics)
    if context.sampled is not None:
        statistics |= {SAMPLES: context.sampled.samples, SAMPLES_SOLVED: context.sampled.solved}
    if lower_bound < solution.lower_bound:
        statistics[REFUTED] = solution.lower_bound
    if proven.certificate is not None:
        statistics[VERIFY_S] = round(proven.took_s, 3)
    out = ruled_out(problem, unfixed)
    fixes = fixes_of(problem, unfixed, context.fixes)
    said = status(makespan, lower_bound, proven.part)
    return {
        "model": context.model,
        "hardware": context.hardware,
        "method": solution.method,
        "status": said,
        "solver_claims": claim(makespan, lower_bound),
        "makespan_ns": makespan * tick_ns,
        "lower_bound_ns": lower_bound * tick_ns,
        "gap": gap(makespan, lower_bound),
        "host_only_ns": None if host_only is None else host_only * tick_ns,
        "speedup": None if host_only is None else speedup(host_only, makespan),
        **_spread(context),
        "crossbars_used": crossbars,
        "crossbars_available": problem.budget,
        "solve_s": solution.solve_s,
        "operators": _operators(problem, unfixed, happened, context, proven, optimal=said == "optimal", out=out),
        "dependencies": tuple(
            DependencyPart(
                source=problem.names[edge.source],
                target=problem.names[edge.target],
                transfer_ns=edge.transfer * tick_ns,
                size_bytes=edge.size_bytes,
                reorder_ns=context.transfer_reorder_ns[number] if context.transfer_reorder_ns else 0.0,
            )
            for number, edge in enumerate(problem.dependencies)
        ),
        **derived(problem, happened),
        "fixes": fixes,
        "without_fixes": _without_fixes(problem, out, context) if fixes else None,
        "curve": _curve(problem, solution, schedule, proven, context),
        "curve_proofs": solution.curve_proofs,
        "host_cores": problem.host_cores,
        "tick_ns": tick_ns,
        "times": TimeKinds(host=context.profile.kind),
        "network_io": context.network_io,
        "remarks": context.remarks,
        "profile": context.profile,
        "statistics": {name: statistics[name] for name in sorted(statistics)},
        "certificate": proven.certificate,
        "proof": proven.part,
        "inputs": dict(sorted(context.inputs.items())),
        "checked": True,
    }


def _spread(context: PlanContext) -> dict[str, Any]:
    """Return what is known of the noise of the host's times."""
    fields: dict[str, Any] = {"profile_disturbed": bool(context.profile.disturbed)}
    if (sampled := context.sampled) is not None:
        fields |= {
            "host_only_ns_quartiles": sampled.host_only_ns_quartiles,
            "speedup_range": sampled.speedup_range,
            "placement_robust_share": sampled.robust_share,
        }
    return fields


def derived(problem: Problem, happened: Replay) -> dict[str, Any]:
    """Return transfers, regions and counts of a plan: what follows from its schedule."""
    tick_ns, names = problem.tick_ns, problem.names
    schedule = happened.schedule
    chosen = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
    found = regions(problem, [option.place for option in chosen])
    transfers = tuple(
        TransferPart(
            source=names[move.source],
            target=names[move.target],
            size_bytes=move.size_bytes,
            start_ns=move.start * tick_ns,
            finish_ns=move.finish * tick_ns,
        )
        for move in happened.transfers
    )
    parts = tuple(
        RegionPart(
            place=region.place,
            operators=tuple(names[index] for index in region.operators),
            crossbars=sum(chosen[index].crossbars for index in region.operators),
            start_ns=min(schedule.start[index] for index in region.operators) * tick_ns,
            finish_ns=max(happened.finish[index] for index in region.operators) * tick_ns,
        )
        for region in found
    )
    places = {
        place: PlaceCount(
            operators=sum(option.place == place for option in chosen),
            regions=sum(region.place == place for region in found),
            busy_ns=sum(option.duration for option in chosen if option.place == place) * tick_ns,
        )
        for place in problem.places()
    }
    counts = Counts(
        operators=len(problem),
        with_choice=sum(len({option.place for option in options}) > 1 for options in problem.options),
        places=places,
        regions=len(found),
        transfers=len(transfers),
        transfer_bytes=sum(move.size_bytes for move in happened.transfers),
        transfer_ns=sum(move.finish - move.start for move in happened.transfers) * tick_ns,
    )
    return {"transfers": transfers, "regions": parts, "counts": counts}


def gap(makespan: int, lower_bound: int) -> float:
    """Return (makespan - bound) / makespan; 0 for an empty schedule."""
    return (makespan - lower_bound) / makespan if makespan else 0.0


def speedup(host_only: int, makespan: int) -> float:
    """Return how much faster the plan is than the host alone; 1 where neither takes any time."""
    return host_only / makespan if makespan else 1.0


def _no_schedule(problem: Problem, solution: Solution) -> NoAnswerError:
    check(problem, None, status=solution.status).require(f"answer of the method {solution.method!r}")
    if solution.status == "infeasible":
        least = problem.least_crossbars()
        return NoAnswerError(
            "no plan fits the crossbar budget",
            why=f"operators that must run on the accelerator need {least} crossbars, {problem.budget} are available",
            fix=f"Raise the budget to at least {least} (--crossbars {least}), or fix fewer operators there",
        )
    return NoAnswerError(
        f"the method {solution.method!r} found no plan in its time",
        fix="Give it more time (--time-limit), or use --method exact",
    )


def _replayed(problem: Problem, solution: Solution, schedule: Schedule) -> tuple[Replay, Solution]:
    """Replay the solution; where it waits without need, take the replayed times instead of its own."""
    happened = replay(problem, schedule)
    makespan = schedule.makespan(problem)
    if happened.makespan > makespan or (solution.status == "optimal" and happened.makespan != makespan):
        raise InternalError(
            "the replay does not reproduce the plan",
            why=f"the method {solution.method!r} says {makespan} ticks ({solution.status}), "
            f"the replay takes {happened.makespan}",
            fix="Please report it with the model and the command",
        )
    solution = replace(solution, schedule=happened.schedule)
    if happened.makespan < makespan:
        better = CurvePoint(schedule.crossbars(problem), happened.makespan, solution.lower_bound, happened.schedule)
        solution = replace(
            solution,
            status="optimal" if solution.lower_bound == happened.makespan > 0 else "feasible",
            curve=_improved(solution.curve, better),
        )
    require(problem, solution)
    return happened, solution


def _improved(curve: Sequence[CurvePoint], better: CurvePoint) -> tuple[CurvePoint, ...]:
    """Put a better point into a curve and drop those it beats."""
    if not curve:
        return ()
    kept = [point for point in curve if point.crossbars < better.crossbars or point.makespan < better.makespan]
    return tuple(sorted([*kept, better], key=lambda point: point.crossbars))


def _curve(
    problem: Problem, solution: Solution, schedule: Schedule, proven: Proven, context: PlanContext
) -> tuple[CurvePart, ...]:
    """Return the points of the curve, each checked and verified for itself as far as a few seconds go."""
    points, tick_ns = solution.curve, problem.tick_ns
    if not points:
        return ()
    steps = [Step(problem.budget, round(proven.part.bound_ns / tick_ns))]
    with suppress(KeyboardInterrupt, TimeLimitError), context.verifying():
        found = prove_steps(problem, solution.curve_proofs, nodes=PROOF_NODES, search_nodes=PROOF_SEARCH_NODES)
        if found.refuted:
            raise InternalError(
                "a certificate of the curve is wrong",
                why="; ".join(found.refuted[:3]),
                fix="This is a fault of the method that made it: please report it with the model and the command",
            )
        steps += found.steps
    known = [own_schedule(schedule, problem)]
    alone = host_only_makespan(problem)
    if alone is not None:
        known.append((0, alone))
    reports = look_at(problem, points, steps, known)
    return tuple(
        CurvePart(
            crossbars=point.crossbars,
            makespan_ns=point.makespan * tick_ns,
            lower_bound_ns=point.lower_bound * tick_ns,
            status=report.status,
            solver_claims=claim(point.makespan, point.lower_bound),
            schedule=None if point.schedule is None else schedule_part(point.schedule),
        )
        for point, report in zip(points, reports, strict=True)
    )


def _without_fixes(problem: Problem, out: Sequence[Sequence[Option]], context: PlanContext) -> FreePart | None:
    """Return what is known of the problem without the user's fixes, checked and proven like the plan itself."""
    solution = context.without_fixes
    if solution is None or solution.schedule is None:
        return None
    free, tick_ns = without(problem, out), problem.tick_ns
    require(free, solution)
    makespan = solution.schedule.makespan(free)
    proven = prove(free, solution, context.verifying)
    return FreePart(
        makespan_ns=makespan * tick_ns,
        lower_bound_ns=proven.lower_bound * tick_ns,
        status=status(makespan, proven.lower_bound, proven.part),
        solver_claims=claim(makespan, proven.lower_bound),
        schedule=schedule_part(solution.schedule),
        certificate=proven.certificate,
        proof=proven.part,
    )


def schedule_part(schedule: Schedule) -> SchedulePart:
    """Return a schedule as a part of a file."""
    return SchedulePart(options=schedule.chosen, starts=schedule.start)


def _unrefuted(
    problem: Problem,
    solution: Solution,
    schedule: Schedule,
    proven: Proven,
    explaining: Callable[[], AbstractContextManager[object]],
) -> Proven:
    """Drop a solver's bound, where it was not verified, if moving one operator of its own schedule beats it.

    A bound of our own that is beaten is a fault of ours, and not dropped.
    """
    if proven.part.verdict == "verified" or not rests_on_a_solver(solution.method, solution.statistics):
        return proven
    quickest: int | None = 0  # a bound that there is no time to test is not told
    with suppress(TimeLimitError, KeyboardInterrupt), explaining():
        quickest = quickest_move(problem, schedule)
    if quickest is None or quickest >= proven.lower_bound:
        return proven
    return replace(proven, lower_bound=round(proven.part.bound_ns / problem.tick_ns))


def _operators(
    problem: Problem,
    unfixed: Problem,
    happened: Replay,
    context: PlanContext,
    proven: Proven,
    *,
    optimal: bool,
    out: Sequence[Sequence[Option]],
) -> tuple[OperatorPart, ...]:
    schedule, tick_ns = happened.schedule, problem.tick_ns
    reasons = explain(
        problem,
        schedule,
        unfixed=unfixed,
        unsupported=context.unsupported,
        lower_bound=proven.lower_bound,
        proven=optimal,
        limited=context.explaining,
    )
    parts = []
    for index, (name, options) in enumerate(zip(problem.names, problem.options, strict=True)):
        chosen = options[schedule.chosen[index]]
        known = unfixed.options[index]
        on_host = [option.duration for option in known if option.place == HOST]
        on_cim = [option.duration for option in known if option.place != HOST]
        gain = reasons[index].gain
        parts.append(
            OperatorPart(
                name=name,
                op_type=context.op_types[index] if context.op_types else "",
                place=chosen.place,
                start_ns=schedule.start[index] * tick_ns,
                finish_ns=happened.finish[index] * tick_ns,
                crossbars=chosen.crossbars,
                label=chosen.label,
                core=happened.core[index] if happened.core[index] >= 0 else None,
                host_ns=min(on_host) * tick_ns if on_host else None,
                cim_ns=min(on_cim) * tick_ns if on_cim else None,
                host_time=context.host_times.get(name, context.profile.kind),
                reorders=context.reorders.get(name, ()),
                reorder_ns=context.reorder_ns.get(name, 0.0),
                network_bytes=context.network_bytes.get(name, 0),
                gain_ns=None if gain is None else gain * tick_ns,
                reason=reasons[index].text,
                file_nodes=context.file_nodes.get(name, ()),
                options=_option_parts(options, tick_ns),
                ruled_out=_option_parts(out[index], tick_ns),
            )
        )
    return tuple(parts)


def _option_parts(options: Sequence[Option], tick_ns: float) -> tuple[OptionPart, ...]:
    return tuple(
        OptionPart(
            place=option.place,
            duration_ns=option.duration * tick_ns,
            crossbars=option.crossbars,
            label=option.label,
        )
        for option in options
    )
