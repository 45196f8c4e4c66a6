"""Host profiles from elsewhere: measured on a board without cimplan, or by ONNX Runtime's own profiler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cimplan.api.models import Model, load
from cimplan.units import check_seconds

if TYPE_CHECKING:
    from cimplan.cost.profile_file import HostProfile


def profile_script(model: Model | str | Path, *, threads: int = 1, measure_s: float | None = None) -> str:
    """Return a Python program that measures a model where cimplan is not installed.

    It needs Python 3.8 or later, onnxruntime and numpy, and takes the model's file; what it writes reads as a host
    profile wherever one is taken.

    Parameters
    ----------
    model : Model, str or Path
        What it measures; shapes given for it become part of the program.
    threads : int
        Threads within an operator.
    measure_s : float, optional
        Rough time to spend on it.

    Returns
    -------
    str
        The source.

    Raises
    ------
    InputError
        If the model cannot be read, a shape is not known, or `measure_s` is not positive and finite.
    """
    from cimplan.api.partitioning import require_weights
    from cimplan.cost.profile import TIME_BUDGET_S
    from cimplan.cost.script import script_for

    check_seconds(measure_s, "time to measure")
    found = model if isinstance(model, Model) else load(model)
    require_weights(found)
    seconds = TIME_BUDGET_S if measure_s is None else measure_s
    return script_for(
        found.path, name=found.name, threads=threads, time_budget_s=seconds, shapes=found.shapes, values=found.values
    )


def import_profile(model: Model | str | Path, events: str | Path, *, threads: int | None = None) -> HostProfile:
    """Return the host profile of a model from the file that ONNX Runtime's own profiler wrote.

    Parameters
    ----------
    model : Model, str or Path
        What was profiled.
    events : str or Path
        The file that ``SessionOptions.enable_profiling`` has written.
    threads : int, optional
        Threads within an operator; what the file says of them if left out.

    Returns
    -------
    HostProfile
        Times marked measured; they contain what profiling costs.

    Raises
    ------
    InputError
        If a file cannot be read, or the profile is not of this model as ONNX Runtime optimises it here.
    """
    from cimplan.api.partitioning import named, require_weights
    from cimplan.cost.imported import import_profile as import_path

    found = model if isinstance(model, Model) else load(model)
    require_weights(found)
    return named(import_path(found.path, Path(events), shapes=found.shapes, threads=threads), found)
