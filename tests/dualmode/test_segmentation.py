from __future__ import annotations

from random import Random

import pytest
from dual_networks import Sketch, random_chip, random_graph, random_readings
from segmentation_oracle import best_cost

from cimplan.dualmode import repeats
from cimplan.dualmode.compile import make_model
from cimplan.dualmode.network import matrix_operators
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.segmentation import Search, SearchRules
from cimplan.dualmode.variants import SegmentModel
from cimplan.dualmode.windows import PieceNetwork, shapes_of
from cimplan.graph.operators import OperatorGraph
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Readings


def prepare(
    graph: OperatorGraph, chip: DualModeChip, readings: Readings, size: int
) -> tuple[PieceNetwork, SegmentModel]:
    operators = matrix_operators(graph, chip, readings)
    network = PieceNetwork.cut(operators, shapes_of(operators, chip, readings), size, chip)
    return network, make_model(Rates.of(chip, readings))


def cases(seed: int, count: int, *, pieces: int, cost_model: str) -> list[tuple[PieceNetwork, SegmentModel]]:
    rng = Random(seed)
    found: list[tuple[PieceNetwork, SegmentModel]] = []
    while len(found) < count:
        chip = random_chip(rng, arrays=rng.randint(2, 6))
        graph = random_graph(rng, rng.randint(1, 10))
        network, model = prepare(graph, chip, random_readings(rng, cost_model=cost_model), rng.randint(1, chip.arrays))
        if network.pieces <= pieces:
            found.append((network, model))
    return found


@pytest.mark.parametrize("cost_model", ["published", "resident"])
@pytest.mark.parametrize("block", range(5))
def test_the_programme_equals_exhaustive_segmentation(block: int, cost_model: str) -> None:
    for network, model in cases(block, 50, pieces=10 if block == 0 else 8, cost_model=cost_model):
        assert Search(network, model, SearchRules()).run().cycles == best_cost(network, model)


def test_without_memory_it_does_too() -> None:
    for network, model in cases(7, 40, pieces=7, cost_model="published"):
        assert Search(network, model, SearchRules(memory=False)).run().cycles == best_cost(network, model, memory=False)


@pytest.mark.parametrize("cost_model", ["published", "resident"])
def test_a_cap_on_segments_is_kept_and_its_bound_holds(cost_model: str) -> None:
    lost = 0
    for network, model in cases(8, 60, pieces=7, cost_model=cost_model):
        search = Search(network, model, SearchRules(segment_pieces=2))
        found = search.run()
        assert found.cycles == best_cost(network, model, longest=2)
        assert all(choice.end - choice.first <= 2 for choice in search.choices())
        best = best_cost(network, model)
        assert found.lower_bound <= best <= found.cycles
        lost += found.lower_bound < found.cycles
    assert lost > 0


@pytest.mark.parametrize("cost_model", ["published", "resident"])
def test_when_time_is_over_the_answer_is_still_one_and_its_bound_holds(cost_model: str) -> None:
    for network, model in cases(9, 30, pieces=7, cost_model=cost_model):
        search = Search(network, model, SearchRules(), deadline=0.0)
        found = search.run()
        choices = search.choices()
        assert [choice.first for choice in choices[1:]] == [choice.end for choice in choices[:-1]]
        assert found.lower_bound <= best_cost(network, model) <= found.cycles


@pytest.mark.parametrize("cost_model", ["published", "resident"])
def test_filling_in_repeats_changes_nothing(monkeypatch: pytest.MonkeyPatch, cost_model: str) -> None:
    rng = Random(4)
    plain: list[tuple[PieceNetwork, SegmentModel, int]] = []
    filled = 0
    original = repeats.CostTable.repeat

    def counted(self: repeats.CostTable, earlier: int, until: int) -> None:
        nonlocal filled
        filled += 1
        original(self, earlier, until)

    monkeypatch.setattr(repeats.CostTable, "repeat", counted)
    for _ in range(25):
        net = Sketch()
        value = net.input("x", rng.choice([1, 3]), 12)
        blocks = rng.choice([1, 6, 14])
        widths = [rng.randint(1, 60) for _ in range(rng.randint(1, 4))]
        residual = rng.random() < 0.6
        for _ in range(blocks):
            start = value
            for width in widths:
                value = net.matmul(value, width)
            value = net.matmul(value, 12)
            if residual:
                value = net.rider("Add", start, value)
        chip = random_chip(rng, arrays=rng.randint(3, 7))
        readings = random_readings(rng, cost_model=cost_model)
        network, model = prepare(net.graph(value), chip, readings, rng.randint(1, 3))
        plain.append((network, model, Search(network, model, SearchRules()).run().cycles))
    assert filled > 20
    monkeypatch.setattr(repeats.Repeats, "fill", lambda self, table, end: end)
    monkeypatch.setattr(repeats.Signatures, "of", lambda self, first, end, low, high: (first, end))
    for network, model, cycles in plain:
        assert Search(network, model, SearchRules()).run().cycles == cycles


def test_the_short_form_is_never_better_and_sometimes_worse() -> None:
    worse = 0
    for network, model in cases(12, 120, pieces=14, cost_model="published"):
        exact = Search(network, model, SearchRules()).run().cycles
        short = Search(network, model, SearchRules(short_form=True)).run().cycles
        assert short >= exact
        worse += short > exact
    assert worse > 0


def test_fixed_cuts_are_never_better() -> None:
    for network, model in cases(13, 40, pieces=14, cost_model="published"):
        exact = Search(network, model, SearchRules()).run()
        greedy = Search(network, model, SearchRules(cuts="greedy")).run()
        single = Search(network, model, SearchRules(cuts="per_operator"))
        assert exact.cycles <= min(greedy.cycles, single.run().cycles)
        assert all(len(choice.window.ranges) == 1 for choice in single.choices())
