"""Exhaustive segmentation: every way to cut the pieces, every variant, every number of arrays in memory mode.

Solves every segment anew and keeps no table over cuts: what the dynamic programme saves is done here the long way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from cimplan.dualmode.rates import NEVER
from cimplan.dualmode.variants import SegmentModel
from cimplan.dualmode.windows import PartRange, PieceNetwork, Window


def window_of(network: PieceNetwork, first: int, end: int) -> Window:
    ranges, sizes = [], []
    for operator, split in enumerate(network.splits):
        low = max(first - network.offsets[operator], 0)
        high = min(end - network.offsets[operator], split.pieces)
        if low < high:
            ranges.append(PartRange(operator, low, high))
            sizes.append(split.size(low, high))
    return Window(tuple(ranges), tuple(sizes))


def segmentations(pieces: int) -> Iterator[list[tuple[int, int]]]:
    for count in range(pieces):
        for cuts in combinations(range(1, pieces), count):
            marks = [0, *cuts, pieces]
            yield list(pairwise(marks))


def best_cost(network: PieceNetwork, model: SegmentModel, *, memory: bool = True, longest: int | None = None) -> int:
    """Return the least cost of any segmentation."""
    chip = model.rates.chip
    modes = range(chip.arrays + 1) if memory else range(1)
    solved: dict[tuple[int, int], list[tuple[int, int, list[int]]]] = {}
    for first in range(network.pieces):
        for end in range(first + 1, network.pieces + 1):
            window = window_of(network, first, end)
            ways = []
            if sum(size.arrays for size in window.sizes) <= chip.arrays:
                for variant in model.variants(network, window, memory=memory):
                    curve = model.curve(variant.segment, modes=len(modes), duplicate=True)
                    costs = [int(cost) + variant.after_cycles for cost in curve]
                    ways.append((variant.enters, variant.leaves, costs))
            solved[first, end] = ways
    best = NEVER
    for cuts in segmentations(network.pieces):
        if longest is not None and any(end - first > longest for first, end in cuts):
            continue
        reached = {(0, 0): 0}
        for first, end in cuts:
            following: dict[tuple[int, int], int] = {}
            for (mode, state), cost in reached.items():
                for enters, leaves, costs in solved[first, end]:
                    if enters != state:
                        continue
                    for now in modes:
                        switched = chip.switch_to_memory_cycles * max(0, now - mode)
                        switched += chip.switch_to_compute_cycles * max(0, mode - now)
                        total = cost + switched + costs[now]
                        if total < following.get((now, leaves), NEVER):
                            following[now, leaves] = total
            reached = following
        best = min([best, *reached.values()])
    return best
