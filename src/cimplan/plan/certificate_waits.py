"""How long the spine of a certificate can keep the host waiting: the section "Waits" of `cimplan.plan.certificate`.

A filler that occupies the host for longer delays the spine by the rest. For that, the spine operators that need no host
are moved to the front, as far as the operators before them allow: whatever happens while the filler runs is then part
of a chain of such operators that began before it. A schedule of the spine also keeps the order of two operators that
only a path through fillers or dropped operators joins, above all that of a cut and its neighbours: there the chain goes
on as well, without a transfer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.plan.effort import Effort


@dataclass(frozen=True, slots=True)
class Waits:
    """What the spine can do without the host.

    Attributes
    ----------
    chain : mapping of int to int
        Per spine operator, the ticks that it and what follows it without the host can take: length(v).
    longest : tuple of int
        Per block, wait(k); and 0 for what comes after the last block.
    """

    chain: Mapping[int, int]
    longest: tuple[int, ...]

    def delay(self, number: int, option: Option) -> int:
        """Return by how much a filler that cannot start before block `number` delays the spine with an option."""
        return max(0, option.duration - self.longest[number]) if option.place == HOST else 0


def find_waits(problem: Problem, members: Sequence[Iterable[int]], before: Sequence[int], effort: Effort) -> Waits:
    """Find the waits of a spine.

    Parameters
    ----------
    problem : Problem
        The problem.
    members : sequence of iterable of int
        The spine operators of each block.
    before : sequence of int
        For each operator those from which a path leads to it, as bits.
    effort : Effort
        For steps that are not dependencies.

    Raises
    ------
    OutOfEffortError
        If there are too many of these.
    """
    blocks = {v: number for number, some in enumerate(members) for v in some}
    steps = _steps(problem, blocks, before, effort)
    chain: dict[int, int] = {}
    into = dict.fromkeys(blocks, 0)
    longest = [0] * (len(members) + 1)
    for v in sorted(blocks, reverse=True):
        apart = [option.duration for option in problem.options[v] if option.place != HOST or not option.duration]
        chain[v] = 0
        if apart:
            chain[v] = max(apart) + max((moved + chain[w] for w, moved in steps[v]), default=0)
        for w, moved in steps[v]:
            into[w] = max(into[w], moved)
    for v, number in blocks.items():
        longest[number] = max(longest[number], into[v] + chain[v])
    for number in reversed(range(len(members))):
        longest[number] = max(longest[number], longest[number + 1])
    return Waits(chain, tuple(longest))


def _steps(
    problem: Problem, spine: Iterable[int], before: Sequence[int], effort: Effort
) -> dict[int, list[tuple[int, int]]]:
    """Return the operators right after each one of the spine, with the ticks of a transfer between them."""
    steps: dict[int, list[tuple[int, int]]] = {v: [] for v in spine}
    bits = sum(1 << v for v in steps)
    missing = {v: before[v] & bits for v in steps}
    for edge in problem.dependencies:
        u, v = edge.source, edge.target
        if u in steps and v in steps:
            steps[u].append((v, edge.transfer if _apart(problem.options[u], problem.options[v]) else 0))
            missing[v] &= ~(before[u] | 1 << u)
    for v in steps:
        while missing[v]:  # what only a path beside the spine joins
            effort.spend_steps(1 + len(problem) // 1000)  # as a set of a thousand bits takes about a step
            u = missing[v].bit_length() - 1
            steps[u].append((v, 0))
            missing[v] &= ~(before[u] | 1 << u)
    return steps


def _apart(some: Iterable[Option], others: Iterable[Option]) -> bool:
    """Tell whether two operators may run on different places."""
    return len({option.place for option in (*some, *others)}) > 1
