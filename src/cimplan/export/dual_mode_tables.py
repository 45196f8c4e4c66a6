"""Tables of a dual-mode plan as CSV: the segments, and beside them their parts and their arrays in memory mode.

Rules of the files: see `cimplan.export.tables`. Cycles are cycles of the chip; array numbers read ``0-15, 40``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cimplan.export.tables import csv_text, write_tables
from cimplan.plan.dual_mode import NETWORK, DualModePlan
from cimplan.plan.mode_history import ranges_text, segment_starts

SEGMENT_COLUMNS: Final = (
    "segment",
    "start_cycle",
    "switch_cycles",
    "write_cycles",
    "cycles",
    "write_back_cycles",
    "total_cycles",
    "compute_arrays",
    "memory_arrays",
    "memory_mode_arrays",
    "to_compute",
    "to_memory",
    "operators",
)
PARTS: Final = "parts"
STORES: Final = "stores"
"""Names of the tables beside that of the segments."""
PART_COLUMNS: Final = (
    "segment",
    "operator",
    "op_type",
    "arrays",
    "compute_arrays",
    "input_arrays",
    "output_arrays",
    "cycles",
    "operations",
    "input_bytes",
    "output_bytes",
    "weight_bytes",
    "placement",
)
STORE_COLUMNS: Final = (
    "segment",
    "source",
    "target",
    "arrays",
    "held_bytes",
    "kept_from_previous",
    "kept_for_next",
    "readers",
    "placement",
)


def segments_csv(plan: DualModePlan) -> str:
    """Return the segments of a plan as CSV, one row each, in the order they run."""
    return csv_text(SEGMENT_COLUMNS, _segments(plan))


def parts_csv(plan: DualModePlan) -> str:
    """Return what each segment does of each operator as CSV."""
    return csv_text(PART_COLUMNS, _parts(plan))


def stores_csv(plan: DualModePlan) -> str:
    """Return the arrays in memory mode of each segment as CSV."""
    return csv_text(STORE_COLUMNS, _stores(plan))


def write_csv(plan: DualModePlan, path: Path) -> tuple[Path, ...]:
    """Write the segments to `path` and parts and stores beside it, each whole or not at all; return the paths.

    The parts of ``plan.csv`` go to ``plan.parts.csv``, the arrays in memory mode to ``plan.stores.csv``.
    """
    return write_tables(path, segments_csv(plan), {PARTS: parts_csv(plan), STORES: stores_csv(plan)})


def _segments(plan: DualModePlan) -> Iterator[Sequence[Any]]:
    for index, (start, segment) in enumerate(zip(segment_starts(plan), plan.segments, strict=False)):
        yield (
            index,
            start,
            segment.switch_cycles,
            segment.write_cycles,
            segment.cycles,
            segment.write_back_cycles,
            segment.total_cycles,
            segment.compute_arrays,
            segment.memory_arrays,
            segment.memory_mode_arrays,
            ranges_text(segment.to_compute),
            ranges_text(segment.to_memory),
            "; ".join(plan.operators[part.operator].name for part in segment.parts),
        )


def _parts(plan: DualModePlan) -> Iterator[Sequence[Any]]:
    for index, segment in enumerate(plan.segments):
        for part in segment.parts:
            op = plan.operators[part.operator]
            numbers = (getattr(part, name) for name in PART_COLUMNS[3:-1])
            yield (index, op.name, op.op_type, *numbers, ranges_text(part.placement))


def _stores(plan: DualModePlan) -> Iterator[Sequence[Any]]:
    for index, segment in enumerate(plan.segments):
        for store in segment.stores:
            ends = (_end(plan, store.source), _end(plan, store.target))
            numbers = (getattr(store, name) for name in STORE_COLUMNS[3:-2])
            readers = "; ".join(plan.operators[reader].name for reader in store.readers)
            yield (index, *ends, *numbers, readers, ranges_text(store.placement))


def _end(plan: DualModePlan, operator: int | None) -> str:
    if operator is None:
        return ""
    return "network input" if operator == NETWORK else plan.operators[operator].name
