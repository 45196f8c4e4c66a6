"""Options of the commands that compile for dual-mode chips, and how their text becomes values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan.cli.options import number_or_text, parse_settings
from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.hardware.schema import Hardware

ChipOption = Annotated[
    str, typer.Option("--hardware", metavar="NAME|FILE", help="Preset or YAML description of a dual-mode chip.")
]
CostModelOption = Annotated[
    str | None,
    typer.Option(
        "--cost-model",
        metavar="published|resident",
        help="The published formula, or memory arrays that serve only what lies in them.  [default: published]",
    ),
]
ReadingOption = Annotated[
    list[str] | None,
    typer.Option("--reading", metavar="NAME=VALUE", help="How the cost model is read; repeatable (see the docs)."),
]
ArraysOption = Annotated[int | None, typer.Option("--arrays", metavar="N", help="Arrays on the chip.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Another field of the chip, such as write_cycles=0; repeatable."),
]
SplitOption = Annotated[
    list[int] | None,
    typer.Option(
        "--split-size",
        metavar="N",
        min=1,
        max=10**9,
        help="Most arrays a piece of an operator may take; repeatable, the best is kept.  [default: many are tried]",
    ),
]
PiecesOption = Annotated[
    int | None,
    typer.Option("--segment-pieces", metavar="N", min=1, max=10**9, help="Most pieces in one segment."),
]
UncoveredOption = Annotated[
    bool,
    typer.Option(
        "--allow-uncovered", help="Leave out matrix work that no array can compute; the answer names it as uncovered."
    ),
]


@dataclass(frozen=True)
class ChipChoice:
    """What the user chose of the chip and the cost model.

    Attributes
    ----------
    hardware : Hardware
        With the overrides.
    readings : dict of str to str
        By field of `cimplan.plan.dual_mode.Readings`.
    """

    hardware: Hardware
    readings: dict[str, str]


def choose(
    hardware: str | Hardware,
    cost_model: str | None,
    reading: list[str] | None,
    arrays: int | None,
    set_fields: list[str] | None,
) -> ChipChoice:
    """Load the chip, change what shall be changed, and check the names of the readings.

    Raises
    ------
    InputError
        If something is unknown, not valid or given twice.
    """
    from cimplan.dualmode.options import make_readings
    from cimplan.hardware import load as load_hardware
    from cimplan.hardware import with_overrides

    readings = parse_settings(reading, "--reading")
    if cost_model is not None and readings.setdefault("cost_model", cost_model) != cost_model:
        raise InputError(
            "the cost model is given twice", where="--reading cost_model and --cost-model", fix="Give it once"
        )
    make_readings(**readings)
    fields: dict[str, Any] = {
        name.removeprefix("dual_mode."): number_or_text(value)
        for name, value in parse_settings(set_fields, "--set").items()
    }
    if arrays is not None and fields.setdefault("arrays", arrays) != arrays:
        raise InputError("the number of arrays is given twice", where="--set arrays and --arrays", fix="Give it once")
    chip = load_hardware(hardware) if isinstance(hardware, str) else hardware
    return ChipChoice(with_overrides(chip, dual_mode=fields) if fields else chip, readings)
