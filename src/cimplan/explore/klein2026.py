"""The evaluation of Klein et al. 2026 (arXiv 2607.05240), computed again: Table I and Figures 3 to 5.

Every instance (host, network, MVM latency, crossbar budget) is solved on its own with the exact method, without help
from its neighbours, so that the times stand beside those of the paper; every answer passes the independent checker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError
from cimplan.explore.latency_share import LatencyShare, latency_share
from cimplan.explore.open_question import OpenQuestion, open_question
from cimplan.explore.parts import choose_parts
from cimplan.explore.published import BUDGETS, LATENCIES_NS, MODELS, TIME_LIMIT_S, TITLES
from cimplan.explore.reproduction_hosts import ReproductionHost

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.partition.formulation import ModelSize
    from cimplan.plan.plan import Plan

TABLE_1: Final = "table1"
FIGURE_3: Final = "figure3"
FIGURE_4: Final = "figure4"
FIGURE_5: Final = "figure5"
OPEN_QUESTION: Final = "open-question"
PARTS: Final = (TABLE_1, FIGURE_3, FIGURE_4, FIGURE_5, OPEN_QUESTION)

MODELS_OF_PART: Final[Mapping[str, tuple[str, ...]]] = {
    TABLE_1: MODELS,
    FIGURE_3: ("resnet18",),
    FIGURE_4: MODELS,
    FIGURE_5: ("yolov5n",),
    OPEN_QUESTION: MODELS,
}
FASTEST_NS: Final = min(LATENCIES_NS)

Shape = tuple[str, float, int]
"""Model, MVM latency in nanoseconds, crossbars: an instance without its host."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One solved instance.

    Attributes
    ----------
    host, model : str
        Key of the host, name of the network.
    mvm_latency_ns : float
        Of the accelerator.
    crossbars : int
        Budget.
    status, solver_claims : str
        "optimal" or "feasible": as far as it was verified, and by the method's word.
    host_only_ns, makespan_ns, lower_bound_ns : float
        End-to-end latency without the accelerator and with it, and what no plan can beat.
    crossbars_used, operators, operators_on_cim : int
        Of the plan.
    solve_s : float
        Wall seconds of the method.
    share : LatencyShare
        What the makespan goes to.
    """

    host: str
    model: str
    mvm_latency_ns: float
    crossbars: int
    status: str
    solver_claims: str
    host_only_ns: float
    makespan_ns: float
    lower_bound_ns: float
    crossbars_used: int
    operators: int
    operators_on_cim: int
    solve_s: float
    share: LatencyShare

    @property
    def speedup(self) -> float:
        """Host-only latency over the plan's."""
        return self.host_only_ns / self.makespan_ns if self.makespan_ns else 1.0

    @property
    def gap(self) -> float:
        """(makespan - lower bound) / makespan."""
        return (self.makespan_ns - self.lower_bound_ns) / self.makespan_ns if self.makespan_ns else 0.0


@dataclass(frozen=True, slots=True)
class SolveStatistics:
    """Times and gaps over the instances of one network on one host."""

    instances: int
    optimal: int
    mean_s: float
    most_s: float
    mean_gap: float


@dataclass(frozen=True)
class Reproduction:
    """All that was computed.

    Attributes
    ----------
    hosts : tuple of ReproductionHost
        In the order asked for.
    parts : tuple of str
        Of `PARTS`.
    instances : tuple of Instance
        By host, then model, latency and budget in the paper's order.
    sizes : mapping
        Size of the published programme by (host, model).
    curves : mapping
        (crossbars, speed-up) steps at the least MVM latency, by (host, model); empty without Figure 3 or 4.
    plans : mapping
        Plan of YOLOv5n at 100 crossbars and the least MVM latency, by host; with Figure 5.
    question : OpenQuestion or None
        Why the published ResNet speed-ups do not follow from the stated model.
    elapsed_s : float
        Wall seconds of everything.
    """

    hosts: tuple[ReproductionHost, ...]
    parts: tuple[str, ...]
    instances: tuple[Instance, ...]
    sizes: Mapping[tuple[str, str], ModelSize]
    curves: Mapping[tuple[str, str], tuple[tuple[int, float], ...]] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    question: OpenQuestion | None = None
    elapsed_s: float = 0.0

    def host(self, key: str) -> ReproductionHost:
        """Return a host by its key."""
        return next(host for host in self.hosts if host.key == key)

    def instance(self, host: str, model: str, mvm_latency_ns: float, crossbars: int) -> Instance | None:
        """Return an instance, or None if it was not computed."""
        return self._index.get((host, model, mvm_latency_ns, crossbars))

    def speedup(self, host: str, model: str, mvm_latency_ns: float, crossbars: int) -> float | None:
        """Return the speed-up of an instance, or None if it was not computed."""
        found = self.instance(host, model, mvm_latency_ns, crossbars)
        return None if found is None else found.speedup

    def statistics(self, host: str, model: str) -> SolveStatistics | None:
        """Return times and gaps over all instances of a network on a host, or None if there are none."""
        mine = [item for item in self.instances if item.host == host and item.model == model]
        if not mine:
            return None
        return SolveStatistics(
            instances=len(mine),
            optimal=sum(item.status == "optimal" for item in mine),
            mean_s=fmean(item.solve_s for item in mine),
            most_s=max(item.solve_s for item in mine),
            mean_gap=fmean(item.gap for item in mine),
        )

    def models(self, part: str) -> tuple[str, ...]:
        """Return the networks of a part that some host has a profile of."""
        return tuple(model for model in MODELS_OF_PART[part] if any(model in host.profiles for host in self.hosts))

    @cached_property
    def _index(self) -> dict[tuple[str, str, float, int], Instance]:
        return {(item.host, item.model, item.mvm_latency_ns, item.crossbars): item for item in self.instances}


def parse_parts(only: Iterable[str]) -> tuple[str, ...]:
    """Return the parts a user asks for; see `choose_parts`."""
    return choose_parts(only, PARTS)


def models_needed(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the networks that parts are about, in the paper's order."""
    needed = {model for part in parts for model in MODELS_OF_PART[part]}
    return tuple(model for model in MODELS if model in needed)


def shapes_needed(parts: Iterable[str]) -> tuple[Shape, ...]:
    """Return the instances that parts need on every host, in the paper's order."""
    needed: set[Shape] = set()
    for part in parts:
        latencies = (FASTEST_NS,) if part in (FIGURE_4, OPEN_QUESTION) else LATENCIES_NS
        needed.update(
            (model, latency, budget) for model in MODELS_OF_PART[part] for latency in latencies for budget in BUDGETS
        )
    return tuple(
        (model, latency, budget)
        for model in MODELS
        for latency in LATENCIES_NS
        for budget in BUDGETS
        if (model, latency, budget) in needed
    )


def reproduce(
    hosts: Sequence[ReproductionHost],
    parts: Sequence[str] = PARTS,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
    say: Callable[[str], None] = lambda _text: None,
) -> Reproduction:
    """Compute parts of the paper's evaluation on hosts.

    Parameters
    ----------
    hosts : sequence of ReproductionHost
        At least one.
    parts : sequence of str
        Of `PARTS`.
    time_limit_s : float
        Of one instance; the paper's 600 s by default.
    seed : int
        Of the method.
    say : callable, optional
        Told what is going on.

    Returns
    -------
    Reproduction
        Networks that a host has no profile of are missing on it.

    Raises
    ------
    InputError
        If no host has a profile of a network that a single requested part needs.
    InternalError
        If the checker refuses an answer.
    """
    from cimplan.partition.formulation import model_size

    began = time.perf_counter()
    _require_networks(hosts, parts)
    shapes = shapes_needed(parts)
    instances: list[Instance] = []
    sizes: dict[tuple[str, str], ModelSize] = {}
    curves: dict[tuple[str, str], tuple[tuple[int, float], ...]] = {}
    plans: dict[str, Plan] = {}
    for host in hosts:
        networks: dict[tuple[str, float], CostedNetwork] = {}
        for model, latency, budget in shapes:
            if model not in host.profiles:
                continue
            if (model, latency) not in networks:
                networks[model, latency] = _costed(host, model, latency)
            costed = networks[model, latency]
            if (host.key, model) not in sizes:
                sizes[host.key, model] = model_size(costed.problem)
            say(f"{host.key}: {TITLES[model]}, {latency:g} ns, {budget} crossbars")
            instances.append(_solve(host.key, model, latency, budget, costed, time_limit_s, seed))
        if FIGURE_3 in parts or FIGURE_4 in parts:
            for (model, latency), costed in networks.items():
                if latency == FASTEST_NS:
                    say(f"{host.key}: every budget of {TITLES[model]}")
                    curves[host.key, model] = _curve(costed, time_limit_s, seed)
        if FIGURE_5 in parts and ("yolov5n", FASTEST_NS) in networks:
            plans[host.key] = _plan(networks["yolov5n", FASTEST_NS], 100, time_limit_s, seed)
    question = None
    if OPEN_QUESTION in parts:
        say("the open question")
        question = open_question(hosts)
    return Reproduction(
        hosts=tuple(hosts),
        parts=tuple(parts),
        instances=tuple(instances),
        sizes=sizes,
        curves=curves,
        plans=plans,
        question=question,
        elapsed_s=time.perf_counter() - began,
    )


def _require_networks(hosts: Sequence[ReproductionHost], parts: Sequence[str]) -> None:
    have = {model for host in hosts for model in host.profiles}
    missing = [part for part in parts if not have & set(MODELS_OF_PART[part])]
    if missing and len(parts) == 1:
        needed = " and ".join(TITLES[model] for model in MODELS_OF_PART[parts[0]])
        raise InputError(
            f"there is no profile for {parts[0]}",
            where="--host",
            why=f"it is about {needed}, and the profiles are of {', '.join(sorted(have))}",
            fix="Add a profile of that network, or use --host measured",
        )


def _costed(host: ReproductionHost, model: str, mvm_latency_ns: float) -> CostedNetwork:
    from cimplan.cost.build import build_problem
    from cimplan.hardware import with_overrides

    return build_problem(host.profiles[model], with_overrides(host.hardware, mvm_latency_ns=mvm_latency_ns))


def _solve(
    host: str, model: str, mvm_latency_ns: float, budget: int, costed: CostedNetwork, time_limit_s: float, seed: int
) -> Instance:
    from cimplan.cost.problem import HOST
    from cimplan.errors import InternalError
    from cimplan.partition.methods import solve
    from cimplan.partition.prove import with_certificate
    from cimplan.plan.check import require
    from cimplan.plan.proof import claim, prove
    from cimplan.plan.proof import status as said
    from cimplan.plan.structure import host_only_makespan

    problem = costed.problem.with_budget(budget)
    solution = solve(problem, method="exact", time_limit_s=time_limit_s, seed=seed)
    require(problem, solution)
    schedule, host_only = solution.schedule, host_only_makespan(problem)
    if schedule is None or host_only is None:
        raise InternalError("the method gave no plan", where=f"{model}, {budget} crossbars")
    places = [options[choice].place for options, choice in zip(problem.options, schedule.chosen, strict=True)]
    makespan, proven = schedule.makespan(problem), prove(problem, with_certificate(problem, solution))
    return Instance(
        host=host,
        model=model,
        mvm_latency_ns=mvm_latency_ns,
        crossbars=budget,
        status=said(makespan, proven.lower_bound, proven.part),
        solver_claims=claim(makespan, proven.lower_bound),
        host_only_ns=host_only * problem.tick_ns,
        makespan_ns=makespan * problem.tick_ns,
        lower_bound_ns=proven.lower_bound * problem.tick_ns,
        crossbars_used=schedule.crossbars(problem),
        operators=len(problem),
        operators_on_cim=sum(place != HOST for place in places),
        solve_s=solution.solve_s,
        share=latency_share(problem, schedule),
    )


def _curve(costed: CostedNetwork, time_limit_s: float, seed: int) -> tuple[tuple[int, float], ...]:
    from cimplan.partition.methods import solve
    from cimplan.plan.check import require
    from cimplan.plan.structure import host_only_makespan

    problem = costed.problem.with_budget(max(*BUDGETS, costed.crossbars_of_everything))
    solution = solve(problem, method="exact", time_limit_s=time_limit_s, seed=seed, curve=True)
    require(problem, solution)
    host_only = host_only_makespan(problem) or 0
    return tuple((point.crossbars, host_only / point.makespan) for point in solution.curve if point.makespan)


def _plan(costed: CostedNetwork, budget: int, time_limit_s: float, seed: int) -> Plan:
    from cimplan.partition.methods import solve
    from cimplan.plan.plan import build_plan

    problem = costed.problem.with_budget(budget)
    solution = solve(problem, method="exact", time_limit_s=time_limit_s, seed=seed)
    return build_plan(costed, solution, problem=problem)
