"""What one array more would gain in a segment of a plan: allocated again, with the same pieces."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from cimplan.dualmode.compile import make_model
from cimplan.dualmode.methods import METHODS
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.variants import Variant
from cimplan.dualmode.windows import PartRange, PieceNetwork, Window, shapes_of
from cimplan.errors import InternalError
from cimplan.plan.dual_mode import DualModePlan, Segment

Role = Literal["compute", "memory", ""]


class OneArrayMore:
    """Allocates the segments of a plan again, on a chip with one array more."""

    def __init__(self, plan: DualModePlan) -> None:
        chip = plan.chip
        larger = chip.model_copy(update={"arrays": chip.arrays + 1})
        shapes = shapes_of(plan.operators, chip, plan.readings)
        self._rules = METHODS[plan.method].rules if plan.method in METHODS else METHODS["exact"].rules
        self._network = PieceNetwork.cut(plan.operators, shapes, plan.split_size, chip)
        self._same = make_model(Rates.of(chip, plan.readings))
        self._larger = make_model(Rates.of(larger, plan.readings))
        self._arrays = chip.arrays
        self._done = [0] * len(plan.operators)
        self._known: dict[Hashable, tuple[int, Role]] = {}

    def window(self, segment: Segment) -> Window:
        """Return the pieces of the next segment; call it once for each, in order."""
        ranges = []
        sizes = []
        for part in segment.parts:
            split = self._network.splits[part.operator]
            first = self._done[part.operator]
            end = first + 1
            while end < split.pieces and split.size(first, end).operations < part.operations:
                end += 1
            self._done[part.operator] = end
            ranges.append(PartRange(part.operator, first, end))
            sizes.append(split.size(first, end))
            if sizes[-1].operations != part.operations:
                raise InternalError("the plan cannot be explained", why="its pieces are not those of its split size")
        return Window(tuple(ranges), tuple(sizes))

    def gain(self, segment: Segment, window: Window) -> tuple[int, Role]:
        """Return the cycles that one array more saves in a segment, and what it would do."""
        variant = self._variant(segment, window)
        if variant is None:
            return 0, ""
        key = (variant.segment, segment.memory_mode_arrays)
        if key not in self._known:
            duplicate = self._rules.duplicate
            mode = segment.memory_mode_arrays
            curve = self._larger.curve(variant.segment, modes=self._modes(mode), duplicate=duplicate)
            now = segment.cycles + segment.write_cycles
            computing = now - int(curve[mode])
            remembering = now - int(curve[mode + 1]) if mode + 1 < len(curve) else 0
            if max(computing, remembering) <= 0:
                self._known[key] = (0, "")
            elif computing >= remembering:
                self._known[key] = (computing, "compute")
            else:
                self._known[key] = (remembering, "memory")
        return self._known[key]

    def _modes(self, mode: int) -> int:
        return min(mode, self._arrays) + 2 if self._rules.memory else 1

    def _variant(self, segment: Segment, window: Window) -> Variant | None:
        """Return the variant a segment was made from: of those that agree with it, the first that costs as much."""
        enters = int(any(store.kept_from_previous for store in segment.stores))
        leaves = int(any(store.kept_for_next for store in segment.stores))
        mode = segment.memory_mode_arrays
        for variant in self._same.variants(self._network, window, memory=self._rules.memory):
            agrees = (variant.enters, variant.leaves, variant.after_cycles) == (
                enters,
                leaves,
                segment.write_back_cycles,
            )
            if not agrees:
                continue
            curve = self._same.curve(
                variant.segment, modes=mode + 1 if self._rules.memory else 1, duplicate=self._rules.duplicate
            )
            if int(curve[mode]) == segment.cycles + segment.write_cycles:
                return variant
        return None
