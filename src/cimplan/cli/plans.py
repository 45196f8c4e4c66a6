"""Plan files as arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cimplan.plan.dual_mode import DualModePlan


def dual_mode_plan(value: object, path: Path) -> DualModePlan:
    """Return the plan of a file that still holds what it says.

    Parameters
    ----------
    value : object
        What the file holds.
    path : Path
        The file, for messages.

    Raises
    ------
    InputError
        If it is no such plan, or something in it does not follow from the rest.
    """
    from cimplan.errors import InputError
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.plan.dual_mode_check import find_faults

    plan = DualModePlan.from_json(value, where=str(path))
    faults = find_faults(plan)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(
            "the plan does not hold what it says",
            where=str(path),
            why=f"{faults[0]}{more}",
            fix="Compile the model again rather than editing the plan",
        )
    return plan
