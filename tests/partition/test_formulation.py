from __future__ import annotations

import random

import pytest
from oracle import SHAPES, random_problem

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.errors import InputError
from cimplan.partition.formulation import ModelSize, formulate, model_size, unordered_pairs
from cimplan.partition.methods import solve
from cimplan.partition.mip import gurobi_present

H, A = Option(HOST, 5), Option(CIM, 2, 1)


def _problem(options: list[tuple[Option, ...]], edges: list[tuple[int, int]], **more: int) -> Problem:
    names = tuple(f"op{v}" for v in range(len(options)))
    return Problem(
        names, tuple(options), tuple(Dependency(u, v, 1) for u, v in sorted(edges)), more.pop("budget", 3), **more
    )


def test_the_size_of_a_chain_has_no_pairs() -> None:
    # 1 sink + 3 finishes + 2 edges + 4 transfers + 0 + 1 budget + 2 without a choice
    assert model_size(_problem([(H,), (H, A), (H,)], [(0, 1), (1, 2)])) == ModelSize(3, 3, 13)


def test_the_size_of_a_diamond_has_the_pair_of_its_branches() -> None:
    # 1 sink + 4 + 4 + 8 + 2 * 1 pair + 1 + 1 without a choice
    assert model_size(_problem([(H, A), (H, A), (H,), (H, A)], [(0, 1), (0, 2), (1, 3), (2, 3)])) == ModelSize(4, 5, 21)


def test_the_size_of_two_parts_counts_every_pair_across() -> None:
    # 2 sinks + 4 + 2 + 4 + 2 * 4 pairs + 1 + 0
    assert model_size(_problem([(H, A)] * 4, [(0, 1), (2, 3)])) == ModelSize(4, 8, 21)


def test_the_size_follows_table_1_for_its_published_counts() -> None:
    """A ladder of no meaning with ResNet-18's operators, edges, pairs and supported operators (evidence of Table I)."""
    # A chain of 38 with 6 unordered pairs and 45 edges: replace three links by small diamonds of two pairs each.
    count, supported = 38, 21
    edges = {(v, v + 1) for v in range(count - 1)}
    for first in (2, 12, 22):  # first -> a -> b and first -> c, both joined: c is beside a and b
        edges -= {(first + 2, first + 3)}
        edges |= {(first, first + 3), (first + 2, first + 4)}
    for v in (30, 31, 32, 33, 34):
        edges.add((v, v + 2))
    assert len(edges) == 45
    problem = _problem([(H, A)] * supported + [(H,)] * (count - supported), sorted(edges))
    assert sum(1 for _ in unordered_pairs(problem)) == 6
    assert model_size(problem) == ModelSize(38, 44, 204)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_built_programme_has_the_size_it_claims(shape: str) -> None:
    rng = random.Random(shape)
    for _ in range(10):
        problem = random_problem(rng, shape, flavour="plain")
        built = formulate(problem, 1000).model
        assert model_size(problem) == ModelSize(len(problem), sum(built.integer), len(built.rows))


def test_pairs_are_those_without_a_path() -> None:
    problem = _problem([(H,)] * 5, [(0, 1), (1, 4), (0, 2)])
    assert list(unordered_pairs(problem)) == [(0, 3), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (_problem([(H, A, Option(CIM, 1, 2))], []), "one host option and one accelerator option"),
        (_problem([(H, A), (H, Option("cim2", 1, 2))], []), "one accelerator"),
        (_problem([(H, A)], [], host_cores=2), "one host core"),
    ],
)
def test_what_the_formulation_cannot_express_is_refused(problem: Problem, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        solve(problem, "ilp")
    assert "exact" in caught.value.fix
    with pytest.raises(InputError):
        model_size(problem)


@pytest.mark.skipif(not gurobi_present(), reason="no gurobipy")
def test_the_size_limit_of_a_free_gurobi_licence_is_explained() -> None:
    import gurobipy

    with gurobipy.Env(params={"OutputFlag": 0}) as environment, gurobipy.Model(env=environment) as model:
        model.addVars(2001)
        try:
            model.optimize()
        except gurobipy.GurobiError:
            pass
        else:
            pytest.skip("this licence has no size limit")
    with pytest.raises(InputError, match="Gurobi refuses") as caught:
        solve(_problem([(H, A)] * 64, []), "ilp-gurobi")
    assert "2000" in str(caught.value)
