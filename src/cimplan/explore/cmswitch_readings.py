"""What is varied to show how much a reproduction depends on what its source leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError

if TYPE_CHECKING:
    from cimplan.hardware.schema import Hardware


@dataclass(frozen=True)
class Variant:
    """One departure from the defaults.

    Attributes
    ----------
    name : str
        For people, unique.
    group : str
        "reading", "pieces", "chip" or "several".
    readings : mapping of str to str
        Readings that differ.
    scale : mapping of str to float
        Factors of the chip's fields.
    split_sizes : tuple of int or None
        Piece sizes to try, for both sides; None for all.
    cost_model : str
        The cost model it departs from.
    """

    name: str
    group: str
    readings: Mapping[str, str] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    split_sizes: tuple[int, ...] | None = None
    cost_model: str = "published"

    def scaled(self, hardware: Hardware) -> dict[str, float | int]:
        """Return the chip's fields as this variant has them.

        Raises
        ------
        InputError
            If the hardware has no dual-mode chip.
        """
        if hardware.dual_mode is None:
            raise InputError("this hardware has no dual-mode chip", where=f"hardware {hardware.name!r}")
        values: dict[str, float | int] = {}
        for name, factor in self.scale.items():
            value = getattr(hardware.dual_mode, name)
            values[name] = round(value * factor) if isinstance(value, int) else value * factor
        return values


def _reading(**readings: str) -> Variant:
    return Variant(", ".join(f"{name}={value}" for name, value in readings.items()), "reading", readings)


VARIANTS: Final[tuple[Variant, ...]] = (
    _reading(data_moved="inputs"),
    _reading(data_moved="inputs_outputs"),
    _reading(convolution_inputs="im2col"),
    _reading(weight_writes="free"),
    _reading(weight_writes="main_bandwidth"),
    _reading(weight_writes="array_cycles"),
    _reading(main_bandwidth="shared"),
    _reading(duplication="linear"),
    _reading(group_packing="one_per_group"),
    Variant("pieces of 8 arrays", "pieces", split_sizes=(8,)),
    Variant("pieces of 96 arrays", "pieces", split_sizes=(96,)),
    Variant("op_per_cycle x 1/4", "chip", scale={"op_per_cycle": 0.25}),
    Variant("op_per_cycle x 4", "chip", scale={"op_per_cycle": 4.0}),
    Variant("memory_bytes_per_cycle x 1/4", "chip", scale={"memory_bytes_per_cycle": 0.25}),
    Variant("memory_bytes_per_cycle x 4", "chip", scale={"memory_bytes_per_cycle": 4.0}),
    Variant("main_bytes_per_cycle x 1/4", "chip", scale={"main_bytes_per_cycle": 0.25}),
    Variant("main_bytes_per_cycle x 4", "chip", scale={"main_bytes_per_cycle": 4.0}),
    Variant("write_cycles x 1/4", "chip", scale={"write_cycles": 0.25}),
    Variant("write_cycles x 4", "chip", scale={"write_cycles": 4.0}),
    Variant("switching x 100", "chip", scale={"switch_to_compute_cycles": 100, "switch_to_memory_cycles": 100}),
    Variant("inputs only, writing free", "several", readings={"data_moved": "inputs", "weight_writes": "free"}),
    Variant(
        "inputs only, writing free, pieces of 96 arrays",
        "several",
        readings={"data_moved": "inputs", "weight_writes": "free"},
        split_sizes=(96,),
    ),
    Variant("resident, writing free", "several", readings={"weight_writes": "free"}, cost_model="resident"),
)
"""One change at a time, then the few combinations worth knowing. None is chosen for the figure it gives."""
