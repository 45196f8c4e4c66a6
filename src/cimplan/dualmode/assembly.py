"""From the answer of a search to segments with arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from cimplan.dualmode.placement import Placed, Placer, switch_cycles
from cimplan.dualmode.segmentation import Choice
from cimplan.dualmode.variants import Allocation, SegmentModel, StoreCount
from cimplan.dualmode.windows import PieceNetwork, Window
from cimplan.limits import watch
from cimplan.plan.dual_mode import ArrayRange, Part, Segment, Store, WriteBack


def assemble(
    network: PieceNetwork, choices: Sequence[Choice], model: SegmentModel, *, duplicate: bool
) -> tuple[Segment, ...]:
    """Return the segments of an answer, with arrays placed so that as few as possible switch.

    Parameters
    ----------
    network : PieceNetwork
        What was searched.
    choices : sequence of Choice
        The answer.
    model : SegmentModel
        The cost model it was searched with.
    duplicate : bool
        Whether the method duplicates.
    """
    chip = model.rates.chip
    placer = Placer(chip.arrays)
    each = (chip.switch_to_memory_cycles, chip.switch_to_compute_cycles)
    known: dict[Hashable, Allocation] = {}
    segments = []
    for choice in choices:
        watch()
        key = (choice.variant, choice.memory_mode)
        allocation = known.get(key)
        if allocation is None:
            allocation = model.allocate(choice.variant, choice.memory_mode, duplicate=duplicate)
            known[key] = allocation
        placed = placer.place(allocation, choice.memory_mode)
        segments.append(
            Segment(
                parts=_parts(network, choice.window, allocation, placed),
                stores=tuple(
                    _store(network, choice, store, arrays)
                    for store, arrays in zip(allocation.stores, placed.stores, strict=True)
                ),
                memory_mode_arrays=choice.memory_mode,
                to_memory=placed.to_memory,
                to_compute=placed.to_compute,
                write_backs=tuple(
                    WriteBack(choice.window.ranges[part].operator, size) for part, size in choice.variant.written_back
                ),
                cycles=allocation.cycles,
                switch_cycles=switch_cycles(placed.to_memory, placed.to_compute, each),
                write_cycles=allocation.write_cycles,
                write_back_cycles=choice.variant.after_cycles,
            )
        )
    return tuple(segments)


def _parts(network: PieceNetwork, window: Window, allocation: Allocation, placed: Placed) -> tuple[Part, ...]:
    return tuple(
        Part(
            operator=span.operator,
            blocks=network.splits[span.operator].blocks(span.first, span.end),
            arrays=size.arrays,
            operations=size.operations,
            input_bytes=size.input_bytes,
            output_bytes=size.output_bytes,
            weight_bytes=size.weight_bytes,
            compute_arrays=allocation.compute[index],
            input_arrays=allocation.inputs[index],
            output_arrays=allocation.outputs[index],
            cycles=allocation.part_cycles[index],
            placement=placed.parts[index],
        )
        for index, (span, size) in enumerate(zip(window.ranges, window.sizes, strict=True))
    )


def _store(network: PieceNetwork, choice: Choice, store: StoreCount, arrays: tuple[ArrayRange, ...]) -> Store:
    ranges = choice.window.ranges
    source = None
    if store.source is not None:
        source = ranges[store.source].operator
    elif store.held_bytes:
        source = network.operators[ranges[store.readers[0]].operator].reads[0]
    return Store(
        source=source,
        target=None if store.target is None else ranges[store.target].operator,
        arrays=store.arrays,
        held_bytes=store.held_bytes,
        placement=arrays,
        kept_from_previous=store.kept_from_previous,
        kept_for_next=store.kept_for_next,
        readers=tuple(ranges[reader].operator for reader in store.readers),
    )
