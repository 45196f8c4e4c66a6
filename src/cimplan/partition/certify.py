"""The proof of a fold, in the form that the checker verifies."""

from __future__ import annotations

from cimplan.partition.fold import keeps_lead
from cimplan.partition.structure import members
from cimplan.partition.tables import Tables
from cimplan.plan.certificate import Block, Certificate, FillerGroup, Front, Point, Step


def certify(
    tables: Tables, bound: int, budget: int, *, searched: int | None = None, steps: tuple[Step, ...] = ()
) -> Certificate:
    """Write down the spine, the fillers, and the trade-offs of every block.

    Parameters
    ----------
    tables : Tables
        The enumerated blocks.
    bound : int
        The bound in ticks.
    budget : int
        Crossbars for which it holds.
    searched : int, optional
        The set of exact fillers of the search that closed the gap; None if the fold alone gives the bound.
    steps : tuple of Step
        Bounds for several budgets, the last of them that of `budget`.
    """
    spine = tables.spine
    blocks = []
    for k, interior in enumerate(spine.interiors):
        if not interior:
            blocks.append(Block("chain"))
            continue
        fronts = tuple(
            Front(q, to, tuple(Point(way.crossbars, way.time, way.host_time, way.lead) for way in some))
            for q, ways in sorted(tables.ways[k].items())
            for to, some in sorted(ways.items())
        )
        blocks.append(Block("enumeration", fronts))
    groups = tuple(
        FillerGroup(group.operators, tables.delayed and keeps_lead(tables.network, group)) for group in spine.groups
    )
    return Certificate(
        bound,
        budget,
        spine.cuts,
        tuple(blocks),
        groups,
        exhausted=searched is not None,
        searched=tuple(members(searched or 0)),
        steps=steps,
    )
