"""What a caller may choose for a dual-mode compile."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final, get_args, get_type_hints

from cimplan.errors import InputError, did_you_mean
from cimplan.plan.dual_mode import Readings

MATCHING_MAIN_BANDWIDTH: Final = {"published": "each", "resident": "shared"}
"""The reading of the main bandwidth that each cost model takes by default."""


@dataclass(frozen=True)
class CompileOptions:
    """Options of a dual-mode compile.

    Attributes
    ----------
    readings : Readings
        Cost model and readings; see `make_readings` for the defaults of each cost model.
    method : str
        A key of `cimplan.dualmode.methods.METHODS`.
    split_sizes : tuple of int or None
        Arrays that a piece of an oversized operator may take, each tried; None tries the ladder of
        `cimplan.dualmode.split.LADDER`.
    segment_pieces : int or None
        Largest number of pieces in one segment. What it costs shows in the lower bound.
    time_limit_s : float or None
        Wall seconds. When they are over, the rest of the search takes short cuts; what that costs shows in the bound.
    ends_s : float or None
        Wall seconds after which the search ends with what it has, or in `TimeLimitError`; segments are made of it then.
    allow_uncovered : bool
        Whether matrix work that the arrays cannot compute is left out of the plan, which then names it, or refused.

    Raises
    ------
    InputError
        If a limit is not positive, or the readings contradict each other.
    """

    readings: Readings = field(default_factory=Readings)
    method: str = "exact"
    split_sizes: tuple[int, ...] | None = None
    segment_pieces: int | None = None
    time_limit_s: float | None = None
    allow_uncovered: bool = False
    ends_s: float | None = None

    def __post_init__(self) -> None:
        if self.split_sizes is not None and (not self.split_sizes or min(self.split_sizes) < 1):
            raise InputError(f"split sizes {self.split_sizes} are not usable", why="each must be at least one array")
        if self.segment_pieces is not None and self.segment_pieces < 1:
            raise InputError(f"a segment of {self.segment_pieces} pieces holds nothing", fix="Give at least 1")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise InputError(f"a time limit of {self.time_limit_s} s leaves no time", fix="Give a positive number")
        if self.readings.cost_model == "resident" and self.readings.main_bandwidth == "each":
            raise InputError(
                "the resident cost model has no reading in which the main bandwidth serves each operator in full",
                why="what does not lie in memory arrays passes one main memory",
                fix="Take main_bandwidth=shared, or the published cost model",
            )


def make_readings(**chosen: str) -> Readings:
    """Return readings from names, with the defaults of the chosen cost model for what is left out.

    Parameters
    ----------
    **chosen : str
        Fields of `Readings` and their values.

    Raises
    ------
    InputError
        If a reading or its value is unknown.
    """
    types = get_type_hints(Readings)
    known = {entry.name: get_args(types[entry.name]) for entry in fields(Readings)}
    for name, value in chosen.items():
        if name not in known:
            raise InputError(f"there is no reading {name!r}", fix=did_you_mean(name, known))
        if value not in known[name]:
            raise InputError(f"{value!r} is not a value of {name}", fix=did_you_mean(value, known[name]))
    model = chosen.get("cost_model", "published")
    chosen.setdefault("main_bandwidth", MATCHING_MAIN_BANDWIDTH[model])
    return Readings(**chosen)  # type: ignore[arg-type]
