"""Deadlines, by counting: no test looks at a clock."""

from __future__ import annotations

from itertools import count

import pytest

from cimplan import limits
from cimplan.errors import InputError
from cimplan.graph.bounds import MOST_ELEMENTS, check_sizes
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor


def steps(start: int = 0):
    """Return a clock that goes on by one second whenever somebody looks at it."""
    return count(start).__next__


def test_a_block_ends_when_its_time_is_up_and_says_so():
    looks = 0
    with pytest.raises(limits.TimeLimitError, match="the time limit of 5 s"), limits.time_limit(5, clock=steps()):
        while True:
            limits.watch()
            looks += 1
    assert looks == 4
    assert limits.current() is None


def test_nothing_ends_without_a_limit_or_in_a_block_that_hands_over():
    limits.watch()
    with limits.time_limit(1, clock=steps()), limits.unlimited():
        for _ in range(10):
            limits.watch()


def test_the_nearer_deadline_counts():
    with limits.time_limit(1000):
        outer = limits.current()
        with limits.time_limit(5000):
            assert limits.current() is outer
        with limits.time_limit(10):
            assert limits.current() is not outer
        assert limits.current() is outer


def test_no_library_swallows_the_end():
    with pytest.raises(limits.TimeLimitError), limits.time_limit(2, clock=steps()):
        while True:
            try:
                limits.watch()
            except Exception:
                pytest.fail("swallowed")


def test_counting_ideals_looks_at_the_deadline():
    from cimplan.cost.problem import HOST, Option, Problem
    from cimplan.partition.structure import Network

    many = 2000
    problem = Problem(tuple(map(str, range(many))), tuple((Option(HOST, 1),) for _ in range(many)), (), 0, 1, 1.0)
    with pytest.raises(limits.TimeLimitError), limits.time_limit(50, clock=steps()):
        Network(problem).count_ideals((1 << many) - 1, 10**9)


def test_verifying_looks_at_the_deadline():
    from cimplan.plan.effort import Effort

    with pytest.raises(limits.TimeLimitError), limits.time_limit(50, clock=steps()):
        effort = Effort(10**9)
        while True:
            effort.spend()


def graph(shape: tuple[int, ...], work: MatrixWork | None) -> OperatorGraph:
    tensors = {name: Tensor(name, "int8", size) for name, size in (("x", (1,)), ("y", shape))}
    return OperatorGraph("g", (Operator("op", "MatMul", "", ("x",), ("y",), work),), tensors, ("x",), ("y",))


@pytest.mark.parametrize(
    ("shape", "work"),
    [
        ((2**20, 2**21), None),
        ((10**400,), None),
        ((1,), MatrixWork(2**24, 2**24, 1)),
        ((1,), MatrixWork(1, 1, 10**400)),
    ],
)
def test_absurd_sizes_are_refused(shape, work):
    with pytest.raises(InputError) as found:
        check_sizes(graph(shape, work), "a.onnx")
    assert found.value.where == "a.onnx"
    assert len(str(found.value)) < 400


def test_large_sizes_that_exist_are_not():
    check_sizes(graph((2**20, MOST_ELEMENTS >> 20), MatrixWork(2**15, 2**17, 2**20)), "a.onnx")


def test_the_memory_limit_is_a_size_of_an_option_or_the_environment(monkeypatch):
    from cimplan.cli.guard import memory_limit_bytes

    assert memory_limit_bytes("8GB") == 8 * 10**9
    assert memory_limit_bytes("none") is None
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "4GB")
    assert memory_limit_bytes(None) == 4 * 10**9
    for wrong in ("8", "1MB", "lots"):
        with pytest.raises(InputError):
            memory_limit_bytes(wrong)
