"""The schema of a chip and its host, and validated presets.

The names below are loaded on first use, so that importing the room stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cimplan.hardware.loading import (
        DEFAULT_PRESET,
        check,
        from_description,
        load,
        load_preset,
        number_fields,
        parse,
        preset_names,
        preset_text,
        with_overrides,
    )
    from cimplan.hardware.schema import Accelerator, Bus, DualModeChip, Hardware, Host

__all__ = [
    "DEFAULT_PRESET",
    "Accelerator",
    "Bus",
    "DualModeChip",
    "Hardware",
    "Host",
    "check",
    "from_description",
    "load",
    "load_preset",
    "number_fields",
    "parse",
    "preset_names",
    "preset_text",
    "with_overrides",
]

_SCHEMA = frozenset({"Accelerator", "Bus", "DualModeChip", "Hardware", "Host"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{'schema' if name in _SCHEMA else 'loading'}"), name)
