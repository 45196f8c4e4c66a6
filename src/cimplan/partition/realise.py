"""From a way through the blocks to a schedule of the whole network, fillers included."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from cimplan.cost.problem import HOST
from cimplan.errors import InternalError
from cimplan.partition.block import Way
from cimplan.partition.fold import Label
from cimplan.partition.search import Completion
from cimplan.partition.structure import Network
from cimplan.partition.tables import Remaining, Tables, group_trade_offs
from cimplan.partition.timing import in_order, list_schedule, picked_options, tails
from cimplan.plan.schedule import Schedule


def decisions(tables: Tables, label: Label) -> tuple[tuple[int, ...], list[int]]:
    """Return the options that a label chose, 0 for operators it does not reach, and the order of the spine."""
    ways: list[Way] = []
    chosen = [0] * len(tables.network.problem)
    link = label.link
    while link is not None:
        earlier, way, choices = link
        if way is not None:
            ways.append(way)
        for v, o in choices:
            chosen[v] = o
        link = earlier.link
    return apply_ways(tables, ways[::-1], chosen)


def apply_ways(tables: Tables, ways: Sequence[Way], chosen: list[int]) -> tuple[tuple[int, ...], list[int]]:
    """Fill in the options that the ways of all blocks chose; return them and the order of the spine."""
    order: list[int] = []
    for block, way in zip(tables.blocks, ways, strict=False):  # a label of an inner cut has fewer
        names = block.operators()
        steps = []
        trail = way.trail
        while trail is not None:
            trail, position, o = trail
            chosen[names[position]] = o
            steps.append(names[position])
        order += reversed(steps)
    return tuple(chosen), order


def descend(tables: Tables, rest: Remaining, budget: int, *, heavy: bool) -> Schedule:
    """Return the schedule of the choices that are best for the load (or else for the path) alone."""
    chosen = [0] * len(tables.network.problem)
    ways: list[Way] = []
    option, left = -1, budget
    for k in range(len(tables.blocks)):
        after = rest.load[k + 1] if heavy else rest.path[k + 1]
        best: tuple[tuple[int, int, int], int, Way, tuple[tuple[int, int], ...]] | None = None
        for crossbars, work, _, choices in group_trade_offs(tables, k):
            for to, some in tables.ways[k][option].items():
                for way in some:
                    spent = crossbars + way.crossbars
                    ticks = work + way.host_time if heavy else way.time
                    key = (ticks + after[to].at(left - spent), work + way.time, spent)
                    if best is None or key < best[0]:
                        best = (key, to, way, choices)
        if best is None:
            raise InternalError("a block of the network has no way through", where=f"block {k}")
        (_, _, spent), option, way, choices = best
        left -= spent
        ways.append(way)
        for v, o in choices:
            chosen[v] = o
    return realise(tables, *apply_ways(tables, ways, chosen))


def searched(tables: Tables, completion: Completion) -> tuple[tuple[int, ...], list[int]]:
    """Return the options that a search chose, and the order of all operators but the pooled fillers."""
    before, order = decisions(tables, completion.label)
    chosen = list(before)
    for v, o in completion.steps:
        chosen[v] = o
        order.append(v)
    return tuple(chosen), order


def realise(tables: Tables, chosen: Sequence[int], order: Sequence[int], *, enough: int = 0) -> Schedule:
    """Return the best of some schedules with given options, the spine in a given order.

    Parameters
    ----------
    tables : Tables
        The spine and its fillers.
    chosen : sequence of int
        Option of each operator.
    order : sequence of int
        The spine's operators.
    enough : int
        Ticks of a schedule that cannot be beaten.
    """
    problem = tables.network.problem
    if not tables.spine.groups:
        return in_order(problem, chosen, order)
    urgency = tails(problem, chosen)
    best = with_fillers(tables.network, chosen, order, urgency)
    if best.makespan(problem) > enough:
        others = (with_fillers(tables.network, chosen, order), list_schedule(problem, chosen, urgency))
        best = min(best, *others, key=lambda schedule: schedule.makespan(problem))
    return best


def with_fillers(
    network: Network, chosen: Sequence[int], order: Sequence[int], urgency: Sequence[int] | None = None
) -> Schedule:
    """Let fillers run while the host waits for the next operator of the spine.

    Parameters
    ----------
    network : Network
        The network; the host has one core.
    chosen : sequence of int
        Option of each operator.
    order : sequence of int
        Operators whose order is given; all others are fillers.
    urgency : sequence of int, optional
        Of the fillers that can start before the spine's next operator the one with the greatest goes first. Without
        it, a filler may only run if it ends before that operator can start; the longest goes first.
    """
    problem = network.problem
    picked = picked_options(problem, chosen)
    durations = [option.duration for option in picked]
    places = [option.place for option in picked]
    on_host = [option.place == HOST and option.duration > 0 for option in picked]
    patient = urgency is None
    urgency = durations if urgency is None else urgency
    rank = {v: i for i, v in enumerate(order)}
    start = [0] * len(picked)
    ready = [0] * len(picked)
    waiting = [len(some) for some in network.before]

    def finish(v: int) -> list[int]:
        """Hand on the finish of an operator; return the operators that wait for nothing else."""
        freed = []
        end, place = start[v] + durations[v], places[v]
        for w, transfer in network.after[v]:
            there = end if places[w] == place else end + transfer
            if there > ready[w]:
                ready[w] = there
            waiting[w] -= 1
            if waiting[w] == 0:
                freed.append(w)
        return freed

    spine: list[tuple[int, int]] = []
    fillers: set[int] = set()
    stack = [v for v, count in enumerate(waiting) if count == 0]
    free = 0
    while True:
        while stack:  # operators whose inputs are scheduled; without the host they just run
            v = stack.pop()
            if on_host[v]:
                if v in rank:
                    heapq.heappush(spine, (rank[v], v))
                else:
                    fillers.add(v)
                continue
            start[v] = ready[v]
            stack += finish(v)
        if not spine and not fillers:
            return Schedule(tuple(chosen), tuple(start))
        following = spine[0][1] if spine else None
        wanted = None if following is None else max(free, ready[following])
        best: tuple[int, int, int] | None = None
        for v in fillers:
            begin = max(free, ready[v])
            if wanted is None or (begin + durations[v] <= wanted if patient else begin < wanted):
                candidate = (begin, -urgency[v], v)
                best = candidate if best is None or candidate < best else best
        if best is not None:
            v = best[2]
            fillers.discard(v)
        else:
            _, v = heapq.heappop(spine)
        start[v] = max(free, ready[v])
        free = start[v] + durations[v]
        stack += finish(v)
