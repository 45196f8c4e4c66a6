from __future__ import annotations

from itertools import product
from random import Random

from dual_networks import Sketch, chip, random_chip, random_readings, random_segment

from cimplan.dualmode.compile import compile_graph
from cimplan.dualmode.options import CompileOptions, make_readings
from cimplan.dualmode.rates import NEVER, Rates
from cimplan.dualmode.resident import Item, ResidentModel, ResidentSegment
from cimplan.dualmode.variants import Variant
from cimplan.plan.dual_mode import NETWORK
from cimplan.plan.dual_mode_check import find_faults


def random_case(rng: Random) -> tuple[ResidentModel, ResidentSegment]:
    small = random_chip(rng, arrays=rng.randint(2, 9))
    readings = random_readings(rng, cost_model="resident")
    parts, _ = random_segment(rng, small.arrays)
    items, forced = [], []
    for _ in range(rng.randint(0, 3)):
        reads = rng.randint(1, 3)
        items.append(Item(rng.randint(1, 150), reads + rng.randint(0, 1), reads + 1, 0, (0,)))
    if rng.random() < 0.3:
        forced.append(Item(rng.randint(1, 80), 2, 2, None, (0,), kept_from_previous=True))
    base = sum(item.size_bytes * item.saves for item in items) + rng.randint(0, 400)
    return ResidentModel(Rates.of(small, readings)), ResidentSegment(tuple(parts), base, tuple(forced), tuple(items))


def brute(model: ResidentModel, segment: ResidentSegment, mode: int) -> int:
    """Return the least T + T_write by trying every run time and every number of arrays for every tensor."""
    rates = model.rates
    arrays, forced_cycles = 0, 1
    for item in segment.forced:
        count = -(-item.size_bytes // rates.chip.array_bytes)
        arrays += count
        while item.accesses * item.size_bytes > count * rates.cim * forced_cycles:
            forced_cycles += 1
    if arrays > mode:
        return NEVER
    best = NEVER
    for cycles in range(forced_cycles, 6000):
        compute = [rates.compute_arrays(part, cycles) for part in segment.parts]
        if sum(compute) > rates.chip.arrays - mode:
            continue
        cost = cycles + rates.write_cycles(segment.parts, max(compute))
        if cost >= best:
            if cycles >= best:
                break
            continue
        for counts in product(range(mode - arrays + 1), repeat=len(segment.items)):
            if sum(counts) > mode - arrays:
                continue
            saved = 0
            for item, count in zip(segment.items, counts, strict=True):
                served = int(rates.cim * cycles / item.accesses)
                saved += item.saves * min(item.size_bytes, count * min(served, rates.chip.array_bytes))
            if segment.main_bytes - saved <= rates.main * cycles:
                best = cost
                break
    return best


def test_allocation_equals_trying_everything() -> None:
    rng = Random(1)
    for _ in range(60):
        model, segment = random_case(rng)
        curve = model.curve(segment, modes=model.rates.chip.arrays + 1, duplicate=True)
        mode = rng.randint(0, min(5, model.rates.chip.arrays))
        assert int(curve[mode]) == brute(model, segment, mode)


def test_the_counts_of_an_allocation_reach_its_curve() -> None:
    rng = Random(2)
    for _ in range(400):
        model, segment = random_case(rng)
        chip_arrays = model.rates.chip.arrays
        curve = model.curve(segment, modes=chip_arrays + 1, duplicate=True)
        for mode in range(chip_arrays + 1):
            if curve[mode] >= NEVER:
                continue
            found = model.allocate(Variant(segment), mode, duplicate=True)
            assert found.cycles + found.write_cycles == curve[mode]
            assert sum(found.compute) <= chip_arrays - mode
            assert sum(store.arrays for store in found.stores) <= mode


def test_an_input_read_by_every_piece_stays_in_memory_arrays() -> None:
    # One wide layer in many segments: only its input is worth remembering, and only if it stays.
    net = Sketch("wide")
    graph = net.graph(net.matmul(net.input("x", 8, 16), 40))
    fast = {"memory_bytes_per_cycle": 8.0, "op_per_cycle": 400.0}
    small = chip(arrays=6, cell_bits=8, main_bytes_per_cycle=1.0, **fast)
    readings = make_readings(cost_model="resident", data_moved="inputs")
    plan = compile_graph(graph, small, CompileOptions(readings))
    assert find_faults(plan, graph) == []
    assert plan.latency_cycles < plan.all_compute_cycles
    kept = [store for segment in plan.segments for store in segment.stores if store.kept_from_previous]
    assert kept
    assert all(store.source == NETWORK and store.held_bytes == 128 for store in kept)


def test_first_touch_weights_gain_nothing_from_memory_arrays() -> None:
    # All bytes are weights that are read once: nothing can be resident, so dual mode cannot help.
    net = Sketch("weights")
    graph = net.graph(net.matmul(net.input("x", 1, 16), 100))
    small = chip(arrays=6, main_bytes_per_cycle=0.5, memory_bytes_per_cycle=50.0, op_per_cycle=1e6)
    free = {"weight_writes": "free"}
    published = compile_graph(graph, small, CompileOptions(make_readings(**free)))
    resident = compile_graph(graph, small, CompileOptions(make_readings(cost_model="resident", **free)))
    assert published.speedup > 2
    assert resident.speedup < 1.3
