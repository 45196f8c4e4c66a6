from __future__ import annotations

from itertools import product
from random import Random

import pytest
from dual_networks import odd_cycle
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.dualmode.matching import largest_sharing


def brute(capacity: list[int], edges: list[tuple[int, int, int]]) -> int:
    best = 0
    for amounts in product(*(range(limit + 1) for _, _, limit in edges)):
        used = [0] * len(capacity)
        for (u, v, _), amount in zip(edges, amounts, strict=True):
            used[u] += amount
            used[v] += amount
        if all(have >= need for have, need in zip(capacity, used, strict=True)):
            best = max(best, sum(amounts))
    return best


def check(capacity: list[int], edges: list[tuple[int, int, int]]) -> int:
    """Return the size of the sharing after checking that it is one."""
    shared = largest_sharing(capacity, edges)
    used = [0] * len(capacity)
    for (u, v, limit), amount in zip(edges, shared, strict=True):
        assert 0 <= amount <= limit
        used[u] += amount
        used[v] += amount
    assert all(need <= have for have, need in zip(capacity, used, strict=True))
    return sum(shared)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]]]:
    count = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=7)) if pairs else []
    return capacity, [(u, v, draw(st.integers(0, 3))) for u, v in chosen]


@given(graphs())
@settings(deadline=None, max_examples=300)
def test_the_sharing_is_a_largest_one(case: tuple[list[int], list[tuple[int, int, int]]]) -> None:
    capacity, edges = case
    assert check(capacity, edges) == brute(capacity, edges)


def test_two_triangles_joined_by_an_edge_need_a_blossom() -> None:
    # Each triangle of single arrays shares one and leaves one over; only a path through both blossoms joins them.
    edges = [(0, 1, 1), (1, 2, 1), (0, 2, 1), (2, 3, 1), (3, 4, 1), (4, 5, 1), (3, 5, 1)]
    assert check([1] * 6, edges) == 3


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 40])
def test_an_odd_cycle_shares_half_of_its_arrays_rounded_down(capacity: int) -> None:
    for length in (3, 5, 7):
        edges = [(index, (index + 1) % length, 100) for index in range(length)]
        assert check([capacity] * length, edges) == capacity * length // 2


def test_larger_graphs_agree_with_a_linear_programme_bound_and_an_integer_programme() -> None:
    from ortools.sat.python import cp_model

    rng = Random(3)
    odd = 0
    for _ in range(60):
        count = rng.randint(4, 12)
        capacity = [rng.randint(0, 9) for _ in range(count)]
        edges = [
            (u, v, rng.randint(1, 9)) for v in range(count) for u in range(v) if rng.random() < rng.choice([0.2, 0.5])
        ]
        odd += odd_cycle(edges)
        model = cp_model.CpModel()
        amounts = [model.new_int_var(0, limit, f"e{number}") for number, (_, _, limit) in enumerate(edges)]
        for vertex in range(count):
            model.add(
                sum(a for a, (u, v, _) in zip(amounts, edges, strict=True) if vertex in (u, v)) <= capacity[vertex]
            )
        model.maximize(sum(amounts))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model) == cp_model.OPTIMAL
        assert check(capacity, edges) == round(solver.objective_value)
    assert odd > 20
