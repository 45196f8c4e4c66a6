"""The order of a network's operators as sets of bits: who comes before whom, cuts, blocks, order ideals.

A set of operators is a Python integer; bit `v` stands for operator `v`. Operators are in topological order, so the
lowest bit of a set comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cimplan import limits
from cimplan.cost.problem import Problem


def members(bits: int) -> Iterator[int]:
    """Yield the operators of a set in topological order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def as_set(operators: Iterable[int]) -> int:
    """Return operators as a set."""
    bits = 0
    for v in operators:
        bits |= 1 << v
    return bits


class Network:
    """Neighbours and reachability of a problem's operators.

    Attributes
    ----------
    problem : Problem
        The problem.
    before, after : list of list of (int, int)
        Predecessors and successors of each operator, with the transfer in ticks.
    ancestors, descendants : list of int
        Sets of the operators that every operator comes after, and before.
    """

    def __init__(self, problem: Problem) -> None:
        count = len(problem)
        self.problem = problem
        self.before: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for edge in problem.dependencies:
            self.before[edge.target].append((edge.source, edge.transfer))
            self.after[edge.source].append((edge.target, edge.transfer))
        self.ancestors = [0] * count
        for v in range(count):
            for u, _ in self.before[v]:
                self.ancestors[v] |= self.ancestors[u] | 1 << u
        self.descendants = [0] * count
        for v in reversed(range(count)):
            for w, _ in self.after[v]:
                self.descendants[v] |= self.descendants[w] | 1 << w
        self._ideals: dict[tuple[int, int], int] = {}

    def comparable(self, v: int) -> int:
        """Return the operators that come before or after `v`, and `v`."""
        return self.ancestors[v] | self.descendants[v] | 1 << v

    def cuts(self, among: int) -> list[int]:
        """Return the operators of a set that are comparable with all others of it, in order."""
        return [v for v in members(among) if not among & ~self.comparable(v)]

    def between(self, among: int, cuts: Iterable[int]) -> list[int]:
        """Return the operators of a set before the first cut, between each two cuts, and after the last."""
        parts = []
        for cut in cuts:
            parts.append(among & self.ancestors[cut])
            among &= self.descendants[cut]
        parts.append(among)
        return parts

    def components(self, among: int) -> list[int]:
        """Return the connected parts of a set, by first operator."""
        parts = []
        while among:
            part, border = 0, among & -among
            while border:
                part |= border
                reached = 0
                for v in members(border):
                    for w, _ in self.before[v]:
                        reached |= 1 << w
                    for w, _ in self.after[v]:
                        reached |= 1 << w
                border = reached & among & ~part
            parts.append(part)
            among &= ~part
        return parts

    def count_ideals(self, among: int, most: int) -> int:
        """Count the subsets of a set that hold with each operator all that come before it; `most` + 1 if more.

        This is how many states a dynamic programme over the set has.
        """
        if (among, most) not in self._ideals:
            self._ideals[among, most] = self._count_ideals(among, most)
        return self._ideals[among, most]

    def _count_ideals(self, among: int, most: int) -> int:
        limits.watch()
        operators = list(members(among))
        if len(operators) > most:
            return most + 1
        position = {v: i for i, v in enumerate(operators)}
        needs = [as_set(position[u] for u, _ in self.before[v] if u in position) for v in operators]
        follow = [[position[w] for w, _ in self.after[v] if w in position] for v in operators]
        total, layer = 1, {0: as_set(i for i, need in enumerate(needs) if not need)}
        while layer:
            grown: dict[int, int] = {}
            for done, free in layer.items():
                limits.watch()
                for i in members(free):
                    then = done | 1 << i
                    if then not in grown:
                        freed = as_set(j for j in follow[i] if not needs[j] & ~then)
                        grown[then] = free & ~(1 << i) | freed
                if total + len(grown) > most:
                    return most + 1
            total += len(grown)
            layer = grown
        return total
