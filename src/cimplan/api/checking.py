"""The costs of a plan, made anew from the files that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.plan.plan import Plan


def compare_costs(
    plan: Plan,
    model: str | Path | None = None,
    hardware: str | Path | None = None,
    profile: str | Path | None = None,
    *,
    mvm_latency_ns: float | None = None,
    bus_bandwidth_gbps: float | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Rebuild the costs of a plan and return in what they differ; an empty list if in nothing.

    Parameters
    ----------
    plan : Plan
        The plan. The crossbars that it has available are its question, and taken from it.
    model, hardware, profile : str or Path, optional
        What it was made of. A profile holds all that is needed of the model; a model alone will do where the hardware
        names a processor whose times are estimated. Without hardware, the preset that the plan names is taken.
    mvm_latency_ns, bus_bandwidth_gbps : float, optional
        Values that replace those of the hardware, as when the plan was made.
    shapes : mapping of str to tuple of int, optional
        Of inputs with open dimensions; those that the plan or the profile records if left out.
    dims, values : mapping, optional
        Sizes by name and values of inputs, as in `cimplan.load`.
    progress : callable, optional
        Told what is going on.

    Raises
    ------
    InputError
        If something cannot be read, or does not suffice to rebuild the costs.
    """
    from cimplan.api.models import load
    from cimplan.api.partitioning import cost
    from cimplan.cost.profile import load as load_profile
    from cimplan.hardware import load as load_hardware
    from cimplan.plan.comparison import differences
    from cimplan.plan.context import context_of

    if model is None and profile is None:
        raise InputError(
            "hardware alone does not give the costs of a plan",
            why="the operators and their host times come from a model and a profile",
            fix="Add --profile, or --model where the hardware names an estimated processor",
        )
    chip = load_hardware(hardware if hardware is not None else _preset(plan))
    taken = None if profile is None else load_profile(Path(profile))
    found = None
    if model is not None:
        given = dict(shapes or {})
        if not given and not dims and taken is None and _is_open(model):
            given = {name: tuple(shape) for name, shape in plan.profile.input_shapes.items()}
        found = load(model, shapes=given, dims=dims, values=values)
    if taken is None and chip.host.estimate is None:
        raise InputError(
            "the host times of this plan cannot be rebuilt without a profile",
            why=f"those of {chip.name!r} are measured, and no two measurements are the same",
            fix="Give the profile that the plan was made with (--profile)",
        )

    def rebuilt(crossbars: int | None) -> list[str]:
        costed = cost(
            found,
            chip,
            taken,
            crossbars=crossbars,
            mvm_latency_ns=mvm_latency_ns,
            bus_bandwidth_gbps=bus_bandwidth_gbps,
            progress=progress,
        )
        return differences(plan, costed.problem, context_of(costed))

    # A description says where its numbers are from, so the hash tells a count that was asked for from its own.
    differing = rebuilt(plan.crossbars_available)
    if differing and chip.accelerator is not None and chip.accelerator.crossbars == plan.crossbars_available:
        differing = min(differing, rebuilt(None), key=len)
    return differing


def _is_open(model: str | Path) -> bool:
    """Tell whether a model leaves dimensions of its inputs open, so that it takes shapes from elsewhere."""
    from cimplan.api.models import load

    try:
        _ = load(model).graph
    except InputError:  # it says which dimension is not known, or whatever else is wrong when it is read again
        return True
    return False


def _preset(plan: Plan) -> str:
    from cimplan.hardware.loading import preset_names

    if plan.hardware not in preset_names():
        raise InputError(
            f"there is no preset {plan.hardware!r}, which the plan names as its hardware",
            fix="Give the hardware file that the plan was made with (--hardware)",
        )
    return plan.hardware
