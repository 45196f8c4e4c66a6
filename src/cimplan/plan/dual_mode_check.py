"""The independent checker of dual-mode plans.

It recomputes every count, byte and cycle of a plan from its blocks, its arrays and the chip, and replays the modes of
the arrays; it knows no solver and shares no formula with one. Every plan that leaves the tool has passed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cimplan.errors import InternalError
from cimplan.graph.operators import OperatorGraph
from cimplan.limits import watch
from cimplan.plan import dual_mode_costs as costs
from cimplan.plan.dual_mode import (
    NETWORK,
    ArrayRange,
    Block,
    DualModePlan,
    MatrixOperator,
    Part,
    Segment,
    Store,
    array_numbers,
)
from cimplan.plan.uncovered import uncovered_of

_FAULTS_SHOWN = 5


class Fault(NamedTuple):
    """Something wrong with a plan: where, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        """Return the fault as one line."""
        return f"{self.where}: {self.what}"


def checked(plan: DualModePlan, graph: OperatorGraph | None = None) -> DualModePlan:
    """Return the plan, marked as checked.

    Parameters
    ----------
    plan : DualModePlan
        The plan.
    graph : OperatorGraph, optional
        The network, to check that the plan computes all of it in an order it allows.

    Raises
    ------
    InternalError
        If anything in the plan does not follow from the rest of it.
    """
    faults = find_faults(plan, graph)
    if faults:
        shown = "; ".join(str(fault) for fault in faults[:_FAULTS_SHOWN])
        more = len(faults) - _FAULTS_SHOWN
        raise InternalError(
            "the checker refuses the dual-mode plan",
            where=plan.model,
            why=shown + (f"; and {more} more" if more > 0 else ""),
            fix="Compile again if the plan was edited; if it was not, please report this",
        )
    return replace(plan, checked=True)


def find_faults(plan: DualModePlan, graph: OperatorGraph | None = None) -> list[Fault]:
    """Return everything that is wrong with a plan; empty if it is sound."""
    watch()
    structure = list(_structure(plan))
    if structure:
        # Numbers of operators or arrays that do not exist would make everything after them meaningless.
        return structure
    watch()
    faults = list(_coverage(plan))
    faults += _order(plan)
    watch()
    faults += _modes(plan)
    faults += _kept(plan)
    uses = _Uses(plan)
    sizes: dict[tuple[object, ...], costs.Sizes] = {}
    for number, segment in enumerate(plan.segments):
        watch()
        where = f"segment {number}"
        faults += _sizes(plan, segment, where, sizes)
        faults += _placement(plan, segment, where)
        faults += _stores(plan, segment, where)
        faults += _cycles(plan, segment, number, where, uses)
    faults += _totals(plan)
    if graph is not None:
        faults += _against_graph(plan, graph)
    return faults


def _structure(plan: DualModePlan) -> Iterator[Fault]:
    count = len(plan.operators)
    if not plan.segments:
        yield Fault("plan", "it has no segments")
    for index, op in enumerate(plan.operators):
        where = f"operator {op.name!r}"
        if min(op.inputs, op.outputs, op.mvms, op.groups) < 1:
            yield Fault(where, "an extent is less than 1")
        if any(not 0 <= source < index for source in op.waits_for):
            yield Fault(where, "it waits for an operator that does not come before it")
        if not op.reads or any(source != NETWORK and source not in op.waits_for for source in op.reads):
            yield Fault(where, "it reads from an operator that it does not wait for")
    for number, segment in enumerate(plan.segments):
        watch()
        where = f"segment {number}"
        if not segment.parts:
            yield Fault(where, "it has no parts")
        if len({part.operator for part in segment.parts}) < len(segment.parts):
            yield Fault(where, "two parts are of one operator")
        for part in segment.parts:
            if not 0 <= part.operator < count:
                yield Fault(where, f"there is no operator {part.operator}")
            elif not part.blocks or not all(_inside(block, plan.operators[part.operator]) for block in part.blocks):
                yield Fault(where, f"a block does not lie in operator {plan.operators[part.operator].name!r}")
            if min(part.compute_arrays, part.arrays, part.operations) < 1:
                yield Fault(where, "a part does nothing or has no arrays")
            if min(part.input_arrays, part.output_arrays, part.input_bytes, part.output_bytes, part.weight_bytes) < 0:
                yield Fault(where, "a count of a part is negative")
        here = {part.operator for part in segment.parts}
        for store in segment.stores:
            if store.arrays < 1 or store.held_bytes < 0:
                yield Fault(where, "a store holds nothing")
            if any(reader not in here for reader in store.readers):
                yield Fault(where, "a store is read by an operator that is not in the segment")
            if store.source is not None and not NETWORK <= store.source < count:
                yield Fault(where, f"there is no operator {store.source}")
        for entry in segment.write_backs:
            if entry.operator not in here:
                yield Fault(where, "a result is written back that the segment does not make")
        for ranges in _all_ranges(segment):
            if any(first < 0 or size < 1 or first + size > plan.chip.arrays for first, size in ranges):
                yield Fault(where, f"arrays {ranges} are not on the chip")


def _inside(block: Block, op: MatrixOperator) -> bool:
    extents = ((block.groups, op.groups), (block.inputs, op.inputs), (block.outputs, op.outputs))
    return all(first >= 0 and size >= 1 and first + size <= whole for (first, size), whole in extents)


def _all_ranges(segment: Segment) -> Iterator[tuple[ArrayRange, ...]]:
    yield segment.to_memory
    yield segment.to_compute
    for part in segment.parts:
        yield part.placement
    for store in segment.stores:
        yield store.placement


def _coverage(plan: DualModePlan) -> Iterator[Fault]:
    """Every weight of every operator is in exactly one part."""
    blocks: dict[int, list[Block]] = {}
    for segment in plan.segments:
        for part in segment.parts:
            blocks.setdefault(part.operator, []).extend(part.blocks)
    for index, op in enumerate(plan.operators):
        found = blocks.get(index, [])
        volume = sum(block.groups[1] * block.inputs[1] * block.outputs[1] for block in found)
        if volume != op.groups * op.inputs * op.outputs or _overlap(found):
            yield Fault(f"operator {op.name!r}", "the segments do not compute each of its weights exactly once")


def _overlap(blocks: Sequence[Block]) -> bool:
    """Return whether two boxes overlap, by counting on the grid of their edges."""
    if len(blocks) < 2:
        return False
    axes: list[dict[int, int]] = []
    for extents in zip(*((block.groups, block.inputs, block.outputs) for block in blocks), strict=True):
        marks = sorted({mark for first, size in extents for mark in (first, first + size)})
        axes.append({mark: place for place, mark in enumerate(marks)})
    grid = np.zeros(tuple(len(axis) for axis in axes), dtype=np.int32)
    for block in blocks:
        spans = (block.groups, block.inputs, block.outputs)
        box = tuple(slice(axis[first], axis[first + size]) for axis, (first, size) in zip(axes, spans, strict=True))
        grid[box] += 1
    return bool((grid > 1).any())


def _order(plan: DualModePlan) -> Iterator[Fault]:
    """Nothing runs before what it waits for is complete."""
    first: dict[int, tuple[int, int]] = {}
    last: dict[int, tuple[int, int]] = {}
    for number, segment in enumerate(plan.segments):
        for place, part in enumerate(segment.parts):
            first.setdefault(part.operator, (number, place))
            last[part.operator] = (number, place)
    for index, op in enumerate(plan.operators):
        for source in op.waits_for:
            if index in first and source in last and last[source] >= first[index]:
                yield Fault(f"operator {op.name!r}", f"it runs before {plan.operators[source].name!r} is complete")


def _modes(plan: DualModePlan) -> Iterator[Fault]:
    """Arrays compute in compute mode, remember in memory mode, and switches are counted."""
    chip = plan.chip
    memory: set[int] = set()
    for number, segment in enumerate(plan.segments):
        where = f"segment {number}"
        to_memory, to_compute = set(array_numbers(segment.to_memory)), set(array_numbers(segment.to_compute))
        if to_memory & memory or to_compute - memory:
            yield Fault(where, "an array switches to the mode it is in")
        memory = (memory | to_memory) - to_compute
        if len(memory) != segment.memory_mode_arrays:
            yield Fault(where, f"{len(memory)} arrays are in memory mode, not {segment.memory_mode_arrays}")
        for part in segment.parts:
            if memory.intersection(array_numbers(part.placement)):
                yield Fault(where, f"{plan.operators[part.operator].name!r} computes on an array in memory mode")
        for store in segment.stores:
            if not memory.issuperset(array_numbers(store.placement)):
                yield Fault(where, "a store lies in an array in compute mode")
        switching = len(to_memory) * chip.switch_to_memory_cycles + len(to_compute) * chip.switch_to_compute_cycles
        if switching != segment.switch_cycles:
            yield Fault(where, f"switching takes {switching} cycles, not {segment.switch_cycles}")


def _kept(plan: DualModePlan) -> Iterator[Fault]:
    """What is there from the segment before was left there by it, in the same arrays."""
    before: list[Store] = []
    for number, segment in enumerate(plan.segments):
        for store in segment.stores:
            if not store.kept_from_previous:
                continue
            fitting = [
                kept
                for kept in before
                if (kept.source, kept.held_bytes, kept.placement) == (store.source, store.held_bytes, store.placement)
            ]
            tensors = {plan.operators[reader].operand for reader in store.readers}
            tensors |= {plan.operators[reader].operand for kept in fitting for reader in kept.readers if _whole(kept)}
            if not fitting or len(tensors) > 1:
                yield Fault(f"segment {number}", "a store says its data are there from before, and they are not")
        before = [store for store in segment.stores if store.kept_for_next]
        following = plan.segments[number + 1].stores if number + 1 < len(plan.segments) else ()
        if len(before) != sum(store.kept_from_previous for store in following):
            yield Fault(f"segment {number}", "a store is kept for a segment that does not use it")


def _whole(store: Store) -> bool:
    """Return whether the readers of a kept store tell its tensor; those of a result just made need not."""
    return store.kept_from_previous or store.source is None


def _sizes(
    plan: DualModePlan, segment: Segment, where: str, known: dict[tuple[object, ...], costs.Sizes]
) -> Iterator[Fault]:
    for part in segment.parts:
        op = plan.operators[part.operator]
        key = (part.blocks, op.inputs, op.outputs, op.mvms, op.groups, op.input_bytes)
        found = known.get(key)
        if found is None:
            found = known[key] = costs.sizes_of(part.blocks, op, plan.chip, plan.readings)
        given = costs.Sizes(part.arrays, part.operations, part.input_bytes, part.output_bytes, part.weight_bytes)
        if given != found:
            names = [name for name in found._fields if getattr(found, name) != getattr(given, name)]
            yield Fault(where, f"{op.name!r}: {', '.join(names)} do not follow from its blocks")


def _placement(plan: DualModePlan, segment: Segment, where: str) -> Iterator[Fault]:
    """Every array has one role, and the counts are those of the arrays named."""
    used: set[int] = set()
    total = 0
    for part in segment.parts:
        arrays = array_numbers(part.placement)
        used.update(arrays)
        total += len(arrays)
        if len(arrays) != part.compute_arrays:
            yield Fault(where, f"{len(arrays)} arrays are named for {part.compute_arrays} that compute")
        if part.compute_arrays < part.arrays:
            yield Fault(where, f"{part.compute_arrays} arrays cannot hold weights that take {part.arrays}")
        if plan.readings.duplication == "whole" and part.compute_arrays % part.arrays:
            yield Fault(where, f"{part.compute_arrays} arrays are not whole copies of {part.arrays}")
    for store in segment.stores:
        arrays = array_numbers(store.placement)
        used.update(arrays)
        total += len(arrays)
        if len(arrays) != store.arrays:
            yield Fault(where, f"{len(arrays)} arrays are named for a store of {store.arrays}")
    if len(used) != total:
        yield Fault(where, "an array has two roles")


def _stores(plan: DualModePlan, segment: Segment, where: str) -> Iterator[Fault]:
    """Stores hold what they can, and each side's counts are those of the stores."""
    parts = {part.operator: part for part in segment.parts}
    inputs = dict.fromkeys(parts, 0)
    outputs = dict.fromkeys(parts, 0)
    read: dict[int, int] = dict.fromkeys(parts, 0)
    for store in segment.stores:
        if store.held_bytes > store.arrays * plan.chip.array_bytes:
            yield Fault(where, f"{store.arrays} arrays cannot hold {store.held_bytes} bytes")
        made_here = store.source in parts and not store.kept_from_previous
        if made_here and store.source is not None:
            outputs[store.source] += store.arrays
            if store.held_bytes > parts[store.source].output_bytes:
                yield Fault(where, "a store holds more of a result than is made")
        if store.target is not None and store.readers != (store.target,):
            yield Fault(where, "a store is not read by its target alone")
        for reader in store.readers:
            inputs[reader] += store.arrays
            read[reader] += store.held_bytes
            if store.source is not None and store.source not in plan.operators[reader].reads:
                yield Fault(where, f"{plan.operators[reader].name!r} does not read what a store holds")
        if store.source is not None and not made_here:
            tensors = {plan.operators[reader].operand for reader in store.readers}
            whole = all(parts[reader].input_bytes == store.held_bytes for reader in store.readers)
            if len(tensors) != 1 or not (whole or plan.readings.cost_model == "resident"):
                yield Fault(where, "the readers of a store read different data")
        yield from _store_of_model(plan, segment, store, parts, where)
    for operator, part in parts.items():
        name = plan.operators[operator].name
        if (part.input_arrays, part.output_arrays) != (inputs[operator], outputs[operator]):
            yield Fault(where, f"the memory arrays of {name!r} are not those of the stores")
        if read[operator] > part.input_bytes:
            yield Fault(where, f"stores hold more for {name!r} than it reads")


def _store_of_model(
    plan: DualModePlan, segment: Segment, store: Store, parts: Mapping[int, Part], where: str
) -> Iterator[Fault]:
    if plan.readings.cost_model == "resident":
        if store.source is None or not store.held_bytes:
            yield Fault(where, "a store does not say what it holds")
        return
    if store.kept_from_previous or store.kept_for_next:
        yield Fault(where, "the published cost model keeps nothing over a boundary")
    if store.target is None:
        yield Fault(where, "a store is for nobody")
        return
    if store.source is None:
        if store.held_bytes:
            yield Fault(where, "a store holds bytes of unknown origin")
        return
    if store.source not in parts:
        yield Fault(where, "a shared store holds a result that the segment does not make")
        return
    flow = min(parts[store.source].output_bytes, parts[store.target].input_bytes)
    if store.arrays > -(-flow // plan.chip.array_bytes):
        yield Fault(where, f"{store.arrays} arrays are shared for {flow} bytes")
    if store.held_bytes != min(flow, store.arrays * plan.chip.array_bytes):
        yield Fault(where, "a shared store does not hold what flows through it")


class _Uses:
    """Until when each result is needed."""

    def __init__(self, plan: DualModePlan) -> None:
        self._last = [-1] * len(plan.operators)
        for number, segment in enumerate(plan.segments):
            for part in segment.parts:
                for source in plan.operators[part.operator].waits_for:
                    self._last[source] = number
        for index, op in enumerate(plan.operators):
            if op.leaves:
                self._last[index] = len(plan.segments)

    def after(self, segment: int, operators: Sequence[int]) -> set[int]:
        """Return which of some operators' results are needed after a segment."""
        return {operator for operator in operators if self._last[operator] > segment}


def _cycles(plan: DualModePlan, segment: Segment, number: int, where: str, uses: _Uses) -> Iterator[Fault]:
    chip, readings = plan.chip, plan.readings
    later = uses.after(number, [part.operator for part in segment.parts])
    if readings.cost_model == "published":
        each = costs.published_cycles(segment, chip, readings)
        run = max(each)
        shared = {store.source for store in segment.stores if store.source is not None}
        outputs = {part.operator: part.output_bytes for part in segment.parts}
        written = {entry.operator: entry.size_bytes for entry in segment.write_backs}
        if not (shared & later) <= set(written) or any(outputs[op] != size for op, size in written.items()):
            yield Fault(where, "a result in shared arrays is needed later and not written back whole")
    else:
        each = [costs.compute_cycles(part, chip) for part in segment.parts]
        run, main = costs.resident_cycles(segment, chip, readings, later)
        if main < 0:
            yield Fault(where, "stores save more than is moved")
        if segment.write_backs:
            yield Fault(where, "the resident cost model writes nothing back")
    if len(written_twice := [entry.operator for entry in segment.write_backs]) != len(set(written_twice)):
        yield Fault(where, "a result is written back twice")
    if [part.cycles for part in segment.parts] != each:
        yield Fault(where, f"its parts take {each} cycles, not {[part.cycles for part in segment.parts]}")
    for name, found, given in (
        ("running", run, segment.cycles),
        ("writing", costs.write_cycles(segment, chip, readings), segment.write_cycles),
        ("writing back", costs.write_back_cycles(segment, chip), segment.write_back_cycles),
    ):
        if found != given:
            yield Fault(where, f"{name} takes {found} cycles, not {given}")


def _totals(plan: DualModePlan) -> Iterator[Fault]:
    total = sum(segment.total_cycles for segment in plan.segments)
    if total != plan.latency_cycles:
        yield Fault("plan", f"its segments take {total} cycles, not {plan.latency_cycles}")
    if not 0 <= plan.lower_bound_cycles <= plan.latency_cycles:
        yield Fault("plan", "the lower bound is above the latency")
    if plan.status != ("optimal" if plan.lower_bound_cycles == plan.latency_cycles else "feasible"):
        yield Fault("plan", f"its status {plan.status!r} does not agree with its bound")
    if plan.all_compute_cycles < 1:
        yield Fault("plan", "the all-compute plan takes no time")
    if plan.limits.split_sizes and plan.split_size not in plan.limits.split_sizes:
        yield Fault("plan", f"its split size {plan.split_size} was not tried")


def _against_graph(plan: DualModePlan, graph: OperatorGraph) -> Iterator[Fault]:
    """The plan's operators are the matrix work of the graph, and wait for all it makes them wait for."""
    place = {op.name: index for index, op in enumerate(plan.operators)}
    found = [op for op in graph.operators if op.one_product is not None]
    if [op.name for op in found] != [op.name for op in plan.operators]:
        yield Fault("plan", "its operators are not the matrix work of the graph")
        return
    if uncovered_of(graph) != plan.uncovered:
        yield Fault("plan", "what it leaves uncovered is not what the arrays cannot compute of the graph")
    # Bit masks: which matrix operators must be complete before an operator or a tensor.
    before: dict[str, int] = {}
    closure: list[int] = []
    for planned in plan.operators:
        mask = 0
        for source in planned.waits_for:
            mask |= closure[source] | 1 << source
        closure.append(mask)
    # Element-wise work that rides along happens in its operator; what it reads must be there by then too.
    for op in graph.operators:
        needed = 0
        for name in op.inputs:
            needed |= before.get(name, 0)
        index = place.get(op.name)
        if index is not None:
            work, given = op.work, plan.operators[index]
            if work is None or (work.inputs, work.outputs, work.mvms, work.groups, work.stationary) != (
                given.inputs,
                given.outputs,
                given.mvms,
                given.groups,
                given.stationary,
            ):
                yield Fault(f"operator {op.name!r}", "its extents are not those of the graph")
            if needed & ~closure[index]:
                yield Fault(f"operator {op.name!r}", "it does not wait for all that it depends on")
            needed |= 1 << index
        for name in op.outputs:
            before[name] = needed
    leaving = 0
    for name in graph.outputs:
        leaving |= before.get(name, 0)
    used = {source for planned in plan.operators for source in planned.waits_for}
    for index, planned in enumerate(plan.operators):
        if leaving >> index & 1 and index not in used and not planned.leaves:
            yield Fault(f"operator {planned.name!r}", "its result leaves the network, and the plan does not say so")
