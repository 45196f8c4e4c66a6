"""From a model to a proven partition plan, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cimplan import limits
from cimplan.api.fixing import fixed, placed, without_fixes
from cimplan.api.models import Model, load
from cimplan.errors import InputError
from cimplan.units import check_seconds

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.cost.profile_file import HostProfile
    from cimplan.hardware.schema import Hardware
    from cimplan.partition.progress import ProgressCallback
    from cimplan.plan.plan import Plan
    from cimplan.plan.schedule import Schedule, Solution

SOLVING_SHARE: Final = 0.8
"""Part of a time limit after which the method ends; verifying its proof takes what is left."""

PROVING_SHARE: Final = 0.9
"""Part of a time limit after which nothing more is proven, only verified."""

MEASURING_SHARE: Final = 0.25
"""Part of the time limit of a plan that measuring the host may be planned to take."""

_LEAST_S: Final = 0.01

_PRESSED_S: Final = 0.2
"""Seconds to compute gains in after Ctrl-C, or when the time is up: small networks need less."""

_FINISHING_S_PER_OPERATOR: Final = 1e-3
"""Seconds to keep for what is done with a schedule before it is a plan."""

VERIFYING: Final = "verifying the proof"
"""Phase that `on_solution` is told last, when the method has ended."""


def profile(
    model: Model | str | Path,
    *,
    threads: int = 1,
    measure_s: float | None = None,
    fresh: bool = False,
    progress: Callable[[str], None] | None = None,
) -> HostProfile:
    """Measure every operator of a model on this machine with ONNX Runtime.

    Parameters
    ----------
    model : Model, str or Path
        What to measure.
    threads : int
        Threads of the runtime within an operator.
    measure_s : float, optional
        Rough time to spend on it.
    fresh : bool
        Measure now, even if the cache has a profile of this model, machine, runtime and number of threads.
    progress : callable, optional
        Told what is going on.

    Returns
    -------
    HostProfile
        Times marked measured.

    Raises
    ------
    InputError
        If the model cannot be read or run, or `measure_s` is not positive and finite.
    """
    from cimplan.cost.profile import TIME_BUDGET_S, cached_or_measure, measure

    check_seconds(measure_s, "time to measure")
    found = _as_model(model)
    require_weights(found)

    def count(run: int, runs: int) -> None:
        if progress is not None:
            progress(f"measuring the host, run {run} of {runs}")

    take = measure if fresh else cached_or_measure
    taken = take(
        found.path,
        shapes=found.shapes,
        values=found.values,
        threads=threads,
        time_budget_s=TIME_BUDGET_S if measure_s is None else measure_s,
        progress=count,
    )
    return named(taken, found)


def estimate(model: Model | str | Path, processor: str = "cortex-a72") -> HostProfile:
    """Estimate every operator of a model on a processor that is not at hand.

    Parameters
    ----------
    model : Model, str or Path
        What to estimate.
    processor : str
        Name of a processor with published parameters.

    Returns
    -------
    HostProfile
        Times marked estimated.

    Raises
    ------
    InputError
        If the model cannot be read or the processor is unknown.
    """
    from cimplan.cost.estimate import estimate as estimate_path

    found = _as_model(model)
    require_weights(found)
    return named(estimate_path(found.path, processor, shapes=found.shapes, values=found.values), found)


def cost(
    model: Model | str | Path | None,
    hardware: Hardware | str | Path | None = None,
    profile: HostProfile | str | Path | None = None,
    *,
    crossbars: int | None = None,
    mvm_latency_ns: float | None = None,
    bus_bandwidth_gbps: float | None = None,
    threads: int = 1,
    measure_s: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> CostedNetwork:
    """Put a price on every option of every operator; the input of every partition method.

    Parameters
    ----------
    model : Model, str or Path, optional
        May be left out if a profile is given, which holds all that planning needs.
    hardware : Hardware, str or Path, optional
        A description, a preset's name or a file; the paper's accelerator if left out.
    profile : HostProfile, str or Path, optional
        Host times; measured now (or taken from the cache) if left out.
    crossbars, mvm_latency_ns, bus_bandwidth_gbps : optional
        Values that replace those of the hardware.
    threads, measure_s
        For a measurement, as in `profile`.
    progress : callable, optional
        Told what is going on.

    Returns
    -------
    CostedNetwork
        The network, its costs, and the problem.

    Raises
    ------
    InputError
        If something cannot be read, or the profile is of another model or of other input shapes.
    """
    from cimplan.cost.build import build_problem
    from cimplan.cost.layout import of_network
    from cimplan.cost.profile import load as load_profile
    from cimplan.graph.values import described
    from cimplan.hardware import DEFAULT_PRESET, with_overrides
    from cimplan.hardware import load as load_hardware
    from cimplan.hardware.schema import Hardware as HardwareType

    chip = hardware if isinstance(hardware, HardwareType) else load_hardware(hardware or DEFAULT_PRESET)
    chip = with_overrides(
        chip, crossbars=crossbars, mvm_latency_ns=mvm_latency_ns, bus_bandwidth_gbps=bus_bandwidth_gbps
    )
    found = None if model is None else _as_model(model)
    where = "profile"
    if isinstance(profile, (str, Path)):
        where = str(profile)
        profile = load_profile(Path(profile))
    if profile is not None:
        if found is not None:
            profile.require_model(found.path, where)
            profile.require_shapes(found.shapes, where)
            profile.require_values(described(found.values), where)
    elif found is None:
        raise InputError("there is neither a model nor a profile", fix="Give one of the two")
    elif chip.host.estimate is not None:
        profile = estimate(found, chip.host.estimate)
    else:
        profile = _measured(found, threads, measure_s, progress)
    if found is not None:
        profile = of_network(profile, found.path)
    return build_problem(profile, chip)


def _measured(
    model: Model, threads: int, measure_s: float | None, progress: Callable[[str], None] | None
) -> HostProfile:
    return profile(model, threads=threads, measure_s=measure_s, progress=progress)


def partition(
    model: Model | str | Path | None,
    hardware: Hardware | str | Path | None = None,
    profile: HostProfile | str | Path | None = None,
    *,
    crossbars: int | None = None,
    mvm_latency_ns: float | None = None,
    bus_bandwidth_gbps: float | None = None,
    fix: Mapping[str, str] | None = None,
    method: str = "exact",
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Plan | None = None,
    curve: bool = False,
    threads: int = 1,
    progress: Callable[[str], None] | None = None,
    on_solution: ProgressCallback | None = None,
) -> Plan:
    """Decide which operators run on the crossbars and when, with the least end-to-end latency.

    Parameters
    ----------
    model, hardware, profile, crossbars, mvm_latency_ns, bus_bandwidth_gbps, threads, progress
        As in `cost`.
    fix : mapping of str to str, optional
        Operators the user has placed: name, as in `Plan.operators`, or the name of a node of the file that one
        operator stands for, to ``"host"`` or ``"cim"``, in any case.
    method : str
        Name in `cimplan.partition.methods.METHODS`.
    time_limit_s : float, optional
        Stop solving then, with the best plan and bound found; positive and finite. Verifying the proof comes after.
    seed : int
        Of methods that use randomness; the same input and seed give the same plan.
    warm_start : Plan, optional
        A plan of the same network to start from.
    curve : bool
        Also compute the optimum of every crossbar budget.
    on_solution : callable, optional
        Told incumbent and bound during the solve, and `VERIFYING` as the last phase where there is a proof.

    Returns
    -------
    Plan
        Has passed the independent checker.

    Raises
    ------
    InputError
        If something cannot be read or does not fit together.
    NoAnswerError
        If no plan satisfies the constraints, with demand, limit, and a change that would.
    """
    check_seconds(time_limit_s, "time limit")
    began = time.perf_counter()
    with limits.time_limit(time_limit_s):
        costed = cost(
            model,
            hardware,
            profile,
            crossbars=crossbars,
            mvm_latency_ns=mvm_latency_ns,
            bus_bandwidth_gbps=bus_bandwidth_gbps,
            threads=threads,
            measure_s=measuring_s(time_limit_s),
            progress=progress,
        )
    return solve(
        costed,
        fix=fix,
        method=method,
        time_limit_s=None if time_limit_s is None else max(_LEAST_S, time_limit_s - (time.perf_counter() - began)),
        seed=seed,
        warm_start=warm_start,
        curve=curve,
        on_solution=on_solution,
    )


def measuring_s(time_limit_s: float | None) -> float | None:
    """Return how long to measure the host for a plan with a time limit; None for as long as usual."""
    from cimplan.cost.profile import TIME_BUDGET_S

    if time_limit_s is None or MEASURING_SHARE * time_limit_s >= TIME_BUDGET_S:
        return None
    return MEASURING_SHARE * time_limit_s


def solve(
    costed: CostedNetwork,
    *,
    fix: Mapping[str, str] | None = None,
    method: str = "exact",
    time_limit_s: float | None = None,
    seed: int = 0,
    warm_start: Plan | None = None,
    curve: bool = False,
    on_solution: ProgressCallback | None = None,
) -> Plan:
    """Solve a costed network; parameters, result and errors as for `partition`.

    Ctrl-C ends the solve with the best plan so far, and after that the verification of its proof: the plan says so
    (`cimplan.plan.summary.interruption`). What the noise of a measured profile means for the plan is sampled between
    the two (`cimplan.api.sampling`).
    """
    from cimplan.api.interrupts import interrupts
    from cimplan.api.sampling import sample
    from cimplan.partition.methods import solve as solve_problem
    from cimplan.partition.progress import Progress
    from cimplan.partition.prove import with_certificate
    from cimplan.plan.context import context_of
    from cimplan.plan.plan import plan_from

    check_seconds(time_limit_s, "time limit")
    fixes = placed(costed, fix or {})
    problem = fixed(costed.problem, fixes)
    start = None if warm_start is None else warm_start.schedule_for(problem)
    began = time.perf_counter()
    ends_s = time_limit_s
    if ends_s is not None:
        # Checking, replaying and explaining the plan come last, and are not to be cut short.
        ends_s = max(ends_s / 2, ends_s - _FINISHING_S_PER_OPERATOR * len(problem))

    def left(part: float = 1.0) -> float | None:
        if ends_s is None:
            return None
        return max(_LEAST_S, part * ends_s - (time.perf_counter() - began))

    with interrupts() as noticed:
        try:
            with limits.time_limit(left()):
                solution = solve_problem(
                    problem,
                    method=method,
                    time_limit_s=left(SOLVING_SHARE),
                    seed=seed,
                    warm_start=start,
                    progress=on_solution,
                    curve=curve,
                    unfixed=costed.problem,
                )
        except limits.TimeLimitError:
            solution = _host_alone(problem, method, time.perf_counter() - began, start)
        free = None
        with suppress(KeyboardInterrupt, limits.TimeLimitError):
            if not noticed.pressed:
                with limits.time_limit(left()):
                    solution = with_certificate(problem, solution, left(PROVING_SHARE))
                    free = without_fixes(costed.problem, problem, solution, left(PROVING_SHARE)) if fixes else None
        noticed.hold()
        solution = _with_endings(solution, curve=curve, interrupted=noticed.pressed)
        if warm_start is None:
            with suppress(limits.TimeLimitError), limits.time_limit(None if ends_s is None else 1.0):
                solution = _not_empty_handed(problem, solution)

        @contextmanager
        def verifying() -> Iterator[None]:
            if on_solution is not None:
                makespan = None if solution.schedule is None else solution.schedule.makespan(problem)
                on_solution(Progress(time.perf_counter() - began, makespan, solution.lower_bound, VERIFYING))
            with noticed.let_one_through(), limits.time_limit(left()):
                yield

        @contextmanager
        def explaining() -> Iterator[None]:
            # To the end of the limit: what comes after takes no longer than the second that a limit may be late.
            ends = None if time_limit_s is None else max(_PRESSED_S, time_limit_s - (time.perf_counter() - began))
            if noticed.pressed:
                ends = _PRESSED_S
            with noticed.let_one_through(), limits.time_limit(ends):
                yield

        sampled = sample(
            costed, problem, solution, seed=seed, time_limit_s=time_limit_s, stopped=lambda: noticed.pressed
        )
        context = replace(
            context_of(costed),
            sampled=sampled,
            verifying=verifying,
            explaining=explaining,
            fixes=fixes,
            without_fixes=free,
        )
        return plan_from(problem, solution, context, unfixed=costed.problem)


def _host_alone(problem: Problem, method: str, took_s: float, start: Schedule | None) -> Solution:
    """Return the answer to begin with, for a method that had none when the time was up."""
    from cimplan.partition.bounds import lower_bound
    from cimplan.partition.timing import least_choices, list_schedule, retimed
    from cimplan.plan.proof import STOPPED
    from cimplan.plan.schedule import Solution

    schedule = list_schedule(problem, least_choices(problem))
    if start is not None:
        known = retimed(problem, start.chosen, start.start)
        schedule = min(known, schedule, key=lambda item: item.makespan(problem))
    return Solution(
        method=method,
        status="feasible",
        schedule=schedule,
        lower_bound=lower_bound(problem),
        solve_s=took_s,
        statistics={STOPPED: "time limit"},
    )


def _with_endings(solution: Solution, *, curve: bool, interrupted: bool) -> Solution:
    """Return a solution whose statistics say what ended it early, and why a curve is not there."""
    from cimplan.plan.proof import INTERRUPTED, STOPPED
    from cimplan.plan.summary import CURVE

    statistics = dict(solution.statistics)
    if interrupted:
        statistics.setdefault(STOPPED, INTERRUPTED)
    if curve and not solution.curve:
        stopped = statistics.get(STOPPED, "proof")
        statistics[CURVE] = (
            f"none: {stopped} before it was there"
            if stopped in (INTERRUPTED, "time limit")
            else f"none: the method {solution.method!r} gives none"
        )
    return replace(solution, statistics=statistics)


def _not_empty_handed(problem: Problem, solution: Solution) -> Solution:
    """Return the greedy schedule under the bound of a MIP solver that was stopped before it found any schedule.

    What a MIP method starts from is the host alone, which is no answer to a user who pressed Ctrl-C. A schedule that
    the solver did find stays, even a worse one: methods are compared by what they find.
    """
    from cimplan.partition.methods import solve as solve_problem
    from cimplan.partition.timing import least_choices, list_schedule
    from cimplan.plan.summary import SCHEDULE_OF

    found = solution.schedule
    if not solution.method.startswith("ilp") or solution.status != "feasible" or found is None:
        return solution
    if found != list_schedule(problem, least_choices(problem)):
        return solution
    greedy = solve_problem(problem, "greedy").schedule
    if greedy is None or greedy.makespan(problem) >= found.makespan(problem):
        return solution
    return replace(
        solution,
        status="optimal" if greedy.makespan(problem) == solution.lower_bound else "feasible",
        schedule=greedy,
        statistics={**solution.statistics, SCHEDULE_OF: "greedy"},
    )


def named(profile: HostProfile, model: Model) -> HostProfile:
    """Return the profile under the name that people know the model by; a cached file's name is a hash."""
    return profile.model_copy(
        update={
            "model": profile.model.model_copy(update={"name": model.name}),
            "graph_record": profile.graph_record.model_copy(update={"name": model.name}),
        }
    )


def _as_model(model: Model | str | Path) -> Model:
    return model if isinstance(model, Model) else load(model)


def require_weights(model: Model) -> None:
    """Refuse a network that cannot be run, because it has no weights.

    Raises
    ------
    InputError
        With what to do.
    """
    if model.weightless:
        raise InputError(
            "the network has no weights, so it cannot be run on a host",
            where=model.source,
            fix="Use `cimplan compile` for weightless networks, or give an ONNX file with weights",
        )
