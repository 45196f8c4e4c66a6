"""Why the published ResNet speed-ups cannot follow from the stated model, in numbers.

Equation (1) of Klein et al. 2026 gives each operator its crossbars; at 256×256 ResNet-18 needs 201 of them and
ResNet-50 422. Three views of what that means for the speed-ups printed at 25, 50, 100 and 200 crossbars:

1. Whatever the accelerator, what stays on the host takes its time (`offload_bounds`). If the host's time went with the
   multiply-accumulates, the speed-up would be bounded by the share of them that fits.
2. No host is that even. How uneven it has to be for a printed speed-up to be possible is a number that holds for every
   host and every accelerator, and that a profile can be held against.
3. The host that fits the printed ResNet-18 row best (its time goes with the MVMs of each layer) is solved exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from cimplan.explore.offload_bounds import amdahl_bound, least_unevenness, most_value
from cimplan.explore.published import (
    BUDGETS,
    HOST_NS_PER_MVM_FIT,
    HOST_PRESETS,
    LATENCIES_NS,
    MODELS,
    ROUNDING,
    SPEEDUPS_50NS,
    PublishedHost,
)

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.problem import Problem
    from cimplan.explore.reproduction_hosts import ReproductionHost

FITTED_MODEL: Final = "resnet18"
FITTED_HOST: Final[PublishedHost] = "arm"


@dataclass(frozen=True, slots=True)
class BudgetBound:
    """What fits into some crossbars, and what a printed speed-up then asks of the host.

    Attributes
    ----------
    crossbars : int
        The budget.
    share_of_macs : float
        Largest share of the multiply-accumulates of all supported operators that fits.
    bound_if_even : float
        Largest speed-up of a host whose time goes with multiply-accumulates; infinite if all fit.
    published, least_unevenness : mapping
        By host of the paper: the printed speed-up, and how many times more host time per multiply-accumulate some
        offloaded operator must take than some operator that stays.
    """

    crossbars: int
    share_of_macs: float
    bound_if_even: float
    published: Mapping[PublishedHost, float]
    least_unevenness: Mapping[PublishedHost, float]


@dataclass(frozen=True, slots=True)
class NetworkBounds:
    """A network under equation (1).

    Attributes
    ----------
    model : str
        Its name.
    crossbars_of_everything : int
        Crossbars of all supported operators.
    macs : int
        Their multiply-accumulates in one inference.
    rows : tuple of BudgetBound
        By budget.
    """

    model: str
    crossbars_of_everything: int
    macs: int
    rows: tuple[BudgetBound, ...]


@dataclass(frozen=True, slots=True)
class HostBounds:
    """A network on a host of ours.

    Attributes
    ----------
    host, model : str
        Key and name.
    unevenness : float
        Most over least host time per multiply-accumulate among supported operators.
    bounds : mapping of int to float
        By budget: speed-up that no plan can beat on this host, however fast accelerator and bus.
    """

    host: str
    model: str
    unevenness: float
    bounds: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class FittedHost:
    """ResNet-18 on the host that the printed row suggests.

    Attributes
    ----------
    ns_per_mvm : float
        Host time of a supported operator per MVM it would take on the accelerator.
    supported_ms, other_ms : float
        Host time of all supported operators; of all others, chosen so that the speed-up with everything offloaded is
        the printed one.
    speedups : mapping of int to float
        Optimum by budget under equation (1), each solved exactly and checked.
    published : mapping of int to float
        As printed.
    """

    ns_per_mvm: float
    supported_ms: float
    other_ms: float
    speedups: Mapping[int, float]
    published: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """All three views."""

    networks: tuple[NetworkBounds, ...]
    hosts: tuple[HostBounds, ...]
    fitted: FittedHost | None


def open_question(hosts: Sequence[ReproductionHost]) -> OpenQuestion:
    """Return the three views for the networks that the hosts have profiles of."""
    from cimplan.cost.build import build_problem

    networks: dict[str, NetworkBounds] = {}
    on_hosts: list[HostBounds] = []
    fitted: FittedHost | None = None
    for host in hosts:
        for model, profile in host.profiles.items():
            costed = build_problem(profile, host.hardware)
            networks.setdefault(model, network_bounds(model, costed))
            on_hosts.append(_host_bounds(host.key, model, costed))
            if fitted is None and model == FITTED_MODEL:
                fitted = fitted_host(costed)
    return OpenQuestion(tuple(networks[model] for model in MODELS if model in networks), tuple(on_hosts), fitted)


def network_bounds(model: str, costed: CostedNetwork) -> NetworkBounds:
    """Return what fits into each budget of the paper."""
    crossbars, macs = _supported(costed)
    total = sum(macs)
    rows = []
    for budget in BUDGETS:
        share = most_value(macs, crossbars, budget) / total
        published = {host: row[budget] for (host, name), row in SPEEDUPS_50NS.items() if name == model}
        rows.append(
            BudgetBound(
                crossbars=budget,
                share_of_macs=share,
                bound_if_even=amdahl_bound(share),
                published=dict(published),
                # The least value that is printed like this.
                least_unevenness={host: least_unevenness(share, value - ROUNDING) for host, value in published.items()},
            )
        )
    return NetworkBounds(model, sum(crossbars), total, tuple(rows))


def _supported(costed: CostedNetwork) -> tuple[list[int], list[int]]:
    """Return crossbars and multiply-accumulates of the supported operators."""
    crossbars, macs = [], []
    for operator, cost in zip(costed.graph.operators, costed.operators, strict=True):
        if cost.cim is not None and operator.work is not None:
            crossbars.append(cost.crossbars)
            macs.append(operator.work.macs)
    return crossbars, macs


def _host_bounds(host: str, model: str, costed: CostedNetwork) -> HostBounds:
    crossbars, macs = _supported(costed)
    times = [cost.host_ns for cost in costed.operators if cost.cim is not None]
    rates = [time_ns / work for time_ns, work in zip(times, macs, strict=True)]
    total = costed.host_only_ns
    bounds = {budget: amdahl_bound(most_value(times, crossbars, budget) / total) for budget in BUDGETS}
    return HostBounds(host, model, max(rates) / min(rates), bounds)


def fitted_host(costed: CostedNetwork) -> FittedHost:
    """Return ResNet-18 on a host whose time goes with MVMs, on the bus of the ARM host, at the least MVM latency.

    Parameters
    ----------
    costed : CostedNetwork
        Of ResNet-18 on any host: only its graph counts.
    """
    from cimplan.cost.build import build_problem
    from cimplan.hardware import load, with_overrides

    hardware = with_overrides(load(HOST_PRESETS[FITTED_HOST]), mvm_latency_ns=min(LATENCIES_NS))
    network = build_problem(costed.profile, hardware)
    published = SPEEDUPS_50NS[FITTED_HOST, FITTED_MODEL]
    everything = network.crossbars_of_everything
    bare = _with_host_times(network, 0.0)
    supported_ns = _host_ns(bare)
    # Operators that only the host can run add the same to both latencies: (s + r) / (a + r) is the printed speed-up.
    offloaded_ns = _best_ns(bare, everything)
    target = published[max(published)]
    other_ns = max(0.0, (supported_ns - target * offloaded_ns) / (target - 1))
    problem = _with_host_times(network, other_ns)
    return FittedHost(
        ns_per_mvm=HOST_NS_PER_MVM_FIT,
        supported_ms=supported_ns / 1e6,
        other_ms=other_ns / 1e6,
        speedups={budget: _host_ns(problem) / _best_ns(problem, budget) for budget in BUDGETS},
        published=dict(published),
    )


def _with_host_times(network: CostedNetwork, other_ns: float) -> Problem:
    """Return the problem with fitted host times; `other_ns` is shared by the operators that cannot be offloaded."""
    problem = network.problem
    paired = list(zip(network.graph.operators, network.operators, problem.options, strict=True))
    others = sum(cost.cim is None and not operator.view for operator, cost, _ in paired)
    share = round(other_ns / problem.tick_ns / max(others, 1))
    options = []
    for operator, cost, found in paired:
        if cost.cim is not None and operator.work is not None:
            duration = round(operator.work.mvms * HOST_NS_PER_MVM_FIT / problem.tick_ns)
        else:
            duration = 0 if operator.view else share
        options.append(
            tuple(replace(option, duration=duration) if option.place == "host" else option for option in found)
        )
    return replace(problem, options=tuple(options))


def _host_ns(problem: Problem) -> float:
    from cimplan.plan.structure import host_only_makespan

    return (host_only_makespan(problem) or 0) * problem.tick_ns


def _best_ns(problem: Problem, budget: int) -> float:
    from cimplan.partition.methods import solve
    from cimplan.plan.check import require

    limited = problem.with_budget(budget)
    solution = solve(limited, method="exact", time_limit_s=60.0)
    report = require(limited, solution)
    return (report.makespan or 0) * problem.tick_ns
