"""Plans as files for other tools.

`FORMATS` names them; each writer takes a plan and a path and returns the paths it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cimplan.plan.plan import Plan

Writer = Callable[["Plan", Path], tuple[Path, ...]]


def _trace(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Timeline for Perfetto (Chrome trace-event JSON)."""
    from cimplan.export.trace import write_trace

    return write_trace(plan, path)


def _csv(plan: Plan, path: Path) -> tuple[Path, ...]:
    """Tables of operators and transfers (CSV)."""
    from cimplan.export.tables import write_csv

    return write_csv(plan, path)


FORMATS: Mapping[str, Writer] = {"csv": _csv, "trace": _trace}
"""Name of a format to its writer; the first line of a writer's docstring describes the format."""
