"""cimplan: exact, fast planning of neural networks on computing-in-memory hardware.

>>> import cimplan as cp
>>> hardware = cp.Hardware.preset("rram-256")
>>> hardware.accelerator.crossbars
100

Everything is loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cimplan.api.checking import compare_costs
    from cimplan.api.compiling import Compiled, compile
    from cimplan.api.models import Model, load, quantize
    from cimplan.api.partitioning import estimate, partition, profile
    from cimplan.api.profiles import import_profile, profile_script
    from cimplan.errors import CimplanError, InputError, NoAnswerError
    from cimplan.hardware.schema import Hardware
    from cimplan.plan.plan import Plan

__version__ = "0.1.0"

_HOME = {
    "CimplanError": "cimplan.errors",
    "Compiled": "cimplan.api.compiling",
    "Hardware": "cimplan.hardware.schema",
    "InputError": "cimplan.errors",
    "Model": "cimplan.api.models",
    "NoAnswerError": "cimplan.errors",
    "Plan": "cimplan.plan.plan",
    "compare_costs": "cimplan.api.checking",
    "compile": "cimplan.api.compiling",
    "estimate": "cimplan.api.partitioning",
    "import_profile": "cimplan.api.profiles",
    "load": "cimplan.api.models",
    "partition": "cimplan.api.partitioning",
    "profile": "cimplan.api.partitioning",
    "profile_script": "cimplan.api.profiles",
    "quantize": "cimplan.api.models",
}

__all__ = [
    "CimplanError",
    "Compiled",
    "Hardware",
    "InputError",
    "Model",
    "NoAnswerError",
    "Plan",
    "compare_costs",
    "compile",
    "estimate",
    "import_profile",
    "load",
    "partition",
    "profile",
    "profile_script",
    "quantize",
]


class _Package(ModuleType):
    """Keeps `cimplan.partition` the function: importing the room of the same name must not replace it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
