"""The order of a graph's nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from cimplan.errors import InputError


def topological_order(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return node indices so that every edge points forward; ties in the order of the indices.

    A graph that is in order already keeps its order.

    Parameters
    ----------
    successors : sequence of sequences of int
        For each node its followers, repetitions allowed.

    Returns
    -------
    list of int
        All indices; those on or behind a cycle are missing.
    """
    waiting = [0] * len(successors)
    for followers in successors:
        for follower in followers:
            waiting[follower] += 1
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for follower in successors[node]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, follower)
    return order


def a_cycle(successors: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Return the nodes of one cycle of a graph that `topological_order` could not finish.

    Parameters
    ----------
    successors : sequence of sequences of int
        For each node its followers.
    order : sequence of int
        What `topological_order` returned; not all nodes.
    """
    done = set(order)
    predecessor: dict[int, int] = {}
    for node, followers in enumerate(successors):
        if node not in done:
            for follower in followers:
                predecessor.setdefault(follower, node)
    # Every unfinished node has an unfinished predecessor, so walking back must meet itself.
    node = min(set(range(len(successors))) - done)
    trail: dict[int, int] = {}
    while node not in trail:
        trail[node] = len(trail)
        node = predecessor[node]
    cycle = list(trail)[trail[node] :]
    return cycle[::-1]


def unique_names(wanted: Sequence[str], where: str) -> list[str]:
    """Return one distinct name per node, the wanted one where it is free.

    The first bearer of a name keeps it; later ones get `_2`, `_3`, … so the same file gives the same names.

    Parameters
    ----------
    wanted : sequence of str
        Names in file order; none is empty.
    where : str
        The model, for the error.

    Raises
    ------
    InputError
        If a name is empty.
    """
    taken = set(wanted)
    seen: set[str] = set()
    counters: dict[str, int] = {}
    names: list[str] = []
    for index, name in enumerate(wanted):
        if not name:
            raise InputError(
                f"node {index} has neither a name nor an output", where=where, fix="Export the model again"
            )
        unique = name
        if name in seen:
            number = counters.get(name, 1)
            while unique in seen or unique in taken:
                number += 1
                unique = f"{name}_{number}"
            counters[name] = number
        seen.add(unique)
        names.append(unique)
    return names
