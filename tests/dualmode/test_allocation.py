from __future__ import annotations

from random import Random

import pytest
from allocation_oracle import best_allocation
from dual_networks import odd_cycle, random_chip, random_readings, random_segment

from cimplan.dualmode.published import PublishedModel, PublishedSegment
from cimplan.dualmode.rates import NEVER, Rates
from cimplan.dualmode.variants import Variant


@pytest.mark.parametrize("block", range(6))
def test_allocation_equals_the_optimum_of_cp_sat(block: int) -> None:
    rng = Random(block)
    odd = 0
    for _ in range(25):
        chip = random_chip(rng, arrays=rng.randint(3, 20))
        readings = random_readings(rng, cost_model="published")
        parts, edges = random_segment(rng, chip.arrays)
        odd += odd_cycle(edges)
        model = PublishedModel(Rates.of(chip, readings))
        segment = PublishedSegment(tuple(parts), tuple(edges))
        curve = model.curve(segment, modes=chip.arrays + 1, duplicate=True)
        assert int(curve.min()) == best_allocation(parts, edges, chip, readings)
        mode = rng.randint(0, chip.arrays)
        expected = best_allocation(parts, edges, chip, readings, memory_mode=mode)
        assert int(curve[mode]) == (NEVER if expected is None else expected)
    assert odd > 0


def test_the_counts_of_an_allocation_reach_its_curve() -> None:
    rng = Random(11)
    for _ in range(300):
        chip = random_chip(rng, arrays=rng.randint(3, 20))
        readings = random_readings(rng, cost_model="published")
        parts, edges = random_segment(rng, chip.arrays)
        model = PublishedModel(Rates.of(chip, readings))
        segment = PublishedSegment(tuple(parts), tuple(edges))
        curve = model.curve(segment, modes=chip.arrays + 1, duplicate=True)
        for mode in range(chip.arrays + 1):
            if curve[mode] >= NEVER:
                continue
            found = model.allocate(Variant(segment), mode, duplicate=True)
            assert found.cycles + found.write_cycles == curve[mode]
            assert sum(found.compute) <= chip.arrays - mode
            assert sum(store.arrays for store in found.stores) <= mode


def test_without_memory_the_curve_is_that_of_computing_and_main_memory() -> None:
    rng = Random(5)
    for _ in range(40):
        chip = random_chip(rng)
        readings = random_readings(rng, cost_model="published")
        parts, edges = random_segment(rng, chip.arrays)
        model = PublishedModel(Rates.of(chip, readings))
        plain = model.curve(PublishedSegment(tuple(parts), (), memory=False), modes=1, duplicate=True)
        full = model.curve(PublishedSegment(tuple(parts), tuple(edges)), modes=chip.arrays + 1, duplicate=True)
        assert int(plain[0]) == int(full[0])
