"""Is the front of a block complete? A depth-first search that tries to find a schedule no point covers.

A table of a certificate claims that whatever a block does is covered by one of its points. This search sets out to
refute that. A node of the search has some options decided and some pairs of host operators ordered; four lower
bounds follow from it: crossbars, time (longest paths, and Jackson's preemptive schedule of the host's operators
between their heads and tails), host time, and lead. If a point lies below all four, all under the node is covered.
If the earliest starts of a fully decided node do not collide on the host they *are* a schedule, and the table is
refuted. Otherwise the search goes on: first over options, then over the order of two operators that collide.

A node of a large block counts for more than one, in proportion to its size.

This shares no idea with a dynamic programme over states, and no code with any solver.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate import Point
from cimplan.plan.effort import Effort


@dataclass(frozen=True, slots=True)
class BlockProblem:
    """The operators of a block under fixed options of its boundary cuts.

    Attributes
    ----------
    options : tuple of tuple of Option
        Options of each operator, topologically ordered; the end cut, if any, is the last and has one.
    edges : tuple of tuple of int
        (source, target, transfer) among the operators.
    release : tuple of tuple
        (operator, place of the start cut, transfer) for each dependency on the start cut.
    has_end : bool
        Whether the last operator is the end cut, before which all others finish.
    """

    options: tuple[tuple[Option, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    release: tuple[tuple[int, str, int], ...]
    has_end: bool


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A schedule that no point covers: its crossbars, time, host time and lead."""

    crossbars: int
    time: int
    host_time: int
    lead: int


def find_uncovered(block: BlockProblem, points: Sequence[Point], crossbars: int, effort: Effort) -> Uncovered | None:
    """Search for a schedule of the block that no point covers.

    Parameters
    ----------
    block : BlockProblem
        The block.
    points : sequence of Point
        The claimed front.
    crossbars : int
        Choices that take more than this do not count.
    effort : Effort
        Nodes left; reduced by what is used.

    Returns
    -------
    Uncovered or None
        A counterexample; None if there is none, so that the claim is proven.

    Raises
    ------
    OutOfEffortError
        If the nodes are used up before either is known.
    """
    search = _Search(block, tuple(sorted(points)), crossbars, effort)
    return search.run()


@dataclass(frozen=True, slots=True)
class _Times:
    head: list[int]
    length: list[int]
    tail: list[int]
    bound: int
    lead: int


class _Node(NamedTuple):
    """The options left to each operator, and ordered pairs on the host."""

    options: list[list[Option]]
    orders: tuple[tuple[int, int], ...]


_SMALL = 100
"""Operators, arcs and options that a node may look at for the price of one."""


@dataclass
class _Search:
    block: BlockProblem
    points: tuple[Point, ...]
    crossbars: int
    effort: Effort
    arcs: list[tuple[int, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        last = len(self.block.options) - 1
        to_end = [(v, last, 0) for v in range(last)] if self.block.has_end else []
        self.arcs = [*self.block.edges, *to_end]

    def run(self) -> Uncovered | None:
        """Search everything, depth first; blocks may be far deeper than the stack of the interpreter."""
        whole = _Node([list(options) for options in self.block.options], ())
        open_nodes = [iter([whole])]
        while open_nodes:
            node = next(open_nodes[-1], None)
            if node is None:
                open_nodes.pop()
                continue
            found = self._visit(node)
            if isinstance(found, Uncovered):
                return found
            open_nodes.append(found)
        return None

    def _visit(self, node: _Node) -> Uncovered | Iterator[_Node]:
        """Look at a node: return a schedule that is not covered, or the nodes below in which one may be."""
        options, orders = node
        size = len(options) + len(self.arcs) + len(orders) + sum(map(len, options)) + len(self.points) // 10
        self.effort.spend(1 + size // _SMALL)
        least = sum(min(option.crossbars for option in some) for some in options)
        if least > self.crossbars:
            return iter(())
        host_time = sum(min(option.duration if option.place == HOST else 0 for option in some) for some in options)
        times = self._times(options, orders)
        if times is None or self._covered(least, times, host_time):
            return iter(())
        undecided = [v for v, some in enumerate(options) if len(some) > 1]
        if undecided:
            # The operator with the most at stake first: its options differ most in time.
            v = max(undecided, key=lambda u: (_spread(options[u]), -u))
            return (_Node([*options[:v], [option], *options[v + 1 :]], orders) for option in options[v])
        pair = self._collision(options, times)
        if pair is None:
            return Uncovered(least, times.bound, host_time, times.lead)
        return (_Node(options, (*orders, order)) for order in (pair, pair[::-1]))

    def _covered(self, crossbars: int, times: _Times, host_time: int) -> bool:
        for point in self.points:
            if point.crossbars > crossbars:
                return False
            if point.time <= times.bound and point.host_time <= host_time and point.lead <= times.lead:
                return True
        return False

    def _times(self, options: list[list[Option]], orders: tuple[tuple[int, int], ...]) -> _Times | None:
        """Return heads, shortest durations, tails and the bound on time; None if the orders contradict each other."""
        count = len(options)
        length = [min(option.duration for option in some) for some in options]
        place = [some[0].place if all(o.place == some[0].place for o in some) else None for some in options]
        outgoing: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        missing = [0] * count
        for source, target, transfer in self.arcs:
            moved = place[source] is not None and place[target] is not None and place[source] != place[target]
            outgoing[source].append((target, transfer if moved else 0))
            missing[target] += 1
        for source, target in orders:
            outgoing[source].append((target, 0))
            missing[target] += 1
        head = [0] * count
        for v, start_place, transfer in self.block.release:
            if place[v] is not None and place[v] != start_place:
                head[v] = max(head[v], transfer)

        order = [v for v in range(count) if missing[v] == 0]
        for v in order:
            finish = head[v] + length[v]
            for target, delay in outgoing[v]:
                head[target] = max(head[target], finish + delay)
                missing[target] -= 1
                if missing[target] == 0:
                    order.append(target)
        if len(order) < count:
            return None
        tail = [0] * count
        for v in reversed(order):
            tail[v] = max((delay + length[target] + tail[target] for target, delay in outgoing[v]), default=0)
        on_host = [v for v in range(count) if place[v] == HOST and length[v] > 0]
        longest = max((head[v] + length[v] + tail[v] for v in range(count)), default=0)
        bound = max(longest, _preemptive(on_host, head, length, tail))
        # The block first occupies the host when the first operator that may be there starts; if none must be there,
        # perhaps never, and then the lead is the block's time.
        lead = min((head[v] for v, some in enumerate(options) if _may_occupy_host(some)), default=bound)
        return _Times(head, length, tail, bound, lead if on_host else min(lead, bound))

    def _collision(self, options: list[list[Option]], times: _Times) -> tuple[int, int] | None:
        """Return two host operators that overlap when all start as early as they can, or None.

        Of all such pairs it is the one that costs most whichever goes first; the cheaper order comes first.
        """
        on_host = sorted(
            (v for v, some in enumerate(options) if some[0].place == HOST and times.length[v] > 0),
            key=lambda v: (times.head[v], v),
        )
        best: tuple[int, int, int, int] | None = None
        for position, first in enumerate(on_host):
            end = times.head[first] + times.length[first]
            after = bisect_left(on_host, end, lo=position + 1, key=times.head.__getitem__)
            self.effort.spend_steps((after - position) // 8)
            for second in islice(on_host, position + 1, after):
                both = times.length[first] + times.length[second]
                forward = times.head[first] + both + times.tail[second]
                backward = times.head[second] + both + times.tail[first]
                cost = (min(forward, backward), max(forward, backward))
                if best is None or cost > best[:2]:
                    best = (*cost, *((first, second) if forward <= backward else (second, first)))
        return None if best is None else best[2:]


def _may_occupy_host(options: Sequence[Option]) -> bool:
    return any(option.place == HOST and option.duration > 0 for option in options)


def _spread(options: Sequence[Option]) -> int:
    durations = [option.duration for option in options]
    return max(durations) - min(durations)


def _preemptive(jobs: Sequence[int], head: Sequence[int], length: Sequence[int], tail: Sequence[int]) -> int:
    """Return the makespan of Jackson's preemptive schedule: always run the job with the longest tail.

    It is the optimum of one machine with preemption (heads, lengths, tails; Jackson 1955, Carlier 1982), so it
    bounds every schedule that runs the jobs one at a time.
    """
    waiting = sorted(jobs, key=lambda v: head[v], reverse=True)
    ready: list[tuple[int, int]] = []
    left = {v: length[v] for v in jobs}
    now = bound = 0
    while waiting or ready:
        if not ready:
            now = max(now, head[waiting[-1]])
        while waiting and head[waiting[-1]] <= now:
            v = waiting.pop()
            heapq.heappush(ready, (-tail[v], v))
        v = ready[0][1]
        until = now + left[v] if not waiting else min(now + left[v], head[waiting[-1]])
        left[v] -= until - now
        now = until
        if left[v] == 0:
            heapq.heappop(ready)
            bound = max(bound, now + tail[v])
    return bound
