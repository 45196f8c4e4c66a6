"""Small builders of reference networks and weightless transformer graphs."""

from __future__ import annotations

from cimplan.zoo.catalogue import ZOO, build, describe, names, write

__all__ = ["ZOO", "build", "describe", "names", "write"]
