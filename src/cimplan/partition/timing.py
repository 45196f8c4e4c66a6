"""Start times for choices that are already made: retiming, list scheduling, critical lengths.

None of this chooses a place; it answers how fast given choices can run, exactly for a given order of the host's
operators and by a good rule where the order is open.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.limits import watch
from cimplan.plan.schedule import Schedule

Arcs: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""For each operator its neighbours as (operator, delay in ticks)."""


def picked_options(problem: Problem, chosen: Sequence[int]) -> tuple[Option, ...]:
    """Return the chosen option of each operator."""
    return tuple(options[choice] for options, choice in zip(problem.options, chosen, strict=True))


def arcs(problem: Problem, picked: Sequence[Option]) -> tuple[Arcs, Arcs]:
    """Return the predecessors and the successors of each operator, with the delay that the places cause.

    Parameters
    ----------
    problem : Problem
        The problem.
    picked : sequence of Option
        The chosen option of each operator.

    Returns
    -------
    before, after : tuple of tuple of (int, int)
        Operator and transfer in ticks; the transfer is 0 where the places are the same.
    """
    before: list[list[tuple[int, int]]] = [[] for _ in picked]
    after: list[list[tuple[int, int]]] = [[] for _ in picked]
    for edge in problem.dependencies:
        delay = edge.transfer if picked[edge.source].place != picked[edge.target].place else 0
        before[edge.target].append((edge.source, delay))
        after[edge.source].append((edge.target, delay))
    return tuple(map(tuple, before)), tuple(map(tuple, after))


def tails(problem: Problem, chosen: Sequence[int]) -> tuple[int, ...]:
    """Return, for each operator, the ticks from its start to the end of the longest path that leaves it.

    Counts durations and transfers of the chosen options, not the wait for the host (the "upward rank" of list
    scheduling).
    """
    picked = picked_options(problem, chosen)
    _, after = arcs(problem, picked)
    found = [0] * len(picked)
    for v in range(len(picked) - 1, -1, -1):
        longest = 0
        for w, delay in after[v]:  # quicker than max of a generator; schedules are made by the hundred
            if delay + found[w] > longest:
                longest = delay + found[w]
        found[v] = picked[v].duration + longest
    return tuple(found)


def in_order(problem: Problem, chosen: Sequence[int], order: Sequence[int]) -> Schedule:
    """Start every operator as early as it can, the host serving its operators in a given order.

    With one host core no schedule with these choices and this host order is faster; with several, none whose host
    operators start in this order is. (Each operator goes to the core that is free first; by induction over the
    order no operator ends later than in any such schedule.)

    Parameters
    ----------
    problem : Problem
        The problem.
    chosen : sequence of int
        Index of the chosen option of each operator.
    order : sequence of int
        All operators, each after those it depends on.

    Returns
    -------
    Schedule
        The semi-active schedule.
    """
    picked = picked_options(problem, chosen)
    before, _ = arcs(problem, picked)
    start = [0] * len(picked)
    cores = [0] * problem.host_cores
    for v in order:
        option = picked[v]
        begin = max((start[u] + picked[u].duration + delay for u, delay in before[v]), default=0)
        if option.place == HOST and option.duration > 0:
            begin = max(begin, cores[0])
            heapq.heapreplace(cores, begin + option.duration)
        start[v] = begin
    return Schedule(tuple(chosen), tuple(start))


def retimed(problem: Problem, chosen: Sequence[int], starts: Sequence[float]) -> Schedule:
    """Return the earliest schedule with given choices and the host order that given start times imply.

    Serves to round the answer of a floating-point solver: only the *order* of the times is used, so the result is
    exact. Orders that contradict the dependencies (by rounding, or between operators of zero duration) are repaired
    by taking an operator only when all those before it are taken.

    Parameters
    ----------
    problem : Problem
        The problem.
    chosen : sequence of int
        Index of the chosen option of each operator.
    starts : sequence of float
        A start per operator, in any unit.
    """
    return in_order(problem, chosen, topological_order(problem, starts))


def topological_order(problem: Problem, keys: Sequence[float]) -> tuple[int, ...]:
    """Return the operators each after those it depends on, otherwise by key and then by number."""
    waiting = [0] * len(problem)
    after: list[list[int]] = [[] for _ in range(len(problem))]
    for edge in problem.dependencies:
        waiting[edge.target] += 1
        after[edge.source].append(edge.target)
    free = [(keys[v], v) for v, count in enumerate(waiting) if count == 0]
    heapq.heapify(free)
    order: list[int] = []
    while free:
        _, v = heapq.heappop(free)
        order.append(v)
        for w in after[v]:
            waiting[w] -= 1
            if waiting[w] == 0:
                heapq.heappush(free, (keys[w], w))
    return tuple(order)


def list_schedule(problem: Problem, chosen: Sequence[int], priority: Sequence[float] | None = None) -> Schedule:
    """Schedule given choices: whenever a host core is free, it takes the ready operator of the highest priority.

    Parameters
    ----------
    problem : Problem
        The problem.
    chosen : sequence of int
        Index of the chosen option of each operator.
    priority : sequence of float, optional
        Higher goes first; the longest path to the end (`tails`) when left out.

    Returns
    -------
    Schedule
        A feasible schedule of these choices (the budget is not looked at); equal inputs give equal schedules.
    """
    picked = picked_options(problem, chosen)
    before, after = arcs(problem, picked)
    rank = tails(problem, chosen) if priority is None else priority
    start = [0] * len(picked)
    ready_at = [0] * len(picked)
    waiting = [len(some) for some in before]
    cores = [0] * problem.host_cores
    coming: list[tuple[int, int]] = []  # host operators by the time they are ready
    queue: list[tuple[float, int]] = []  # host operators that are ready now, by falling priority

    def release(first: int) -> None:
        """Place an operator whose predecessors are placed, and all that follow without the host."""
        stack = [first]
        while stack:
            v = stack.pop()
            if picked[v].place == HOST and picked[v].duration > 0:
                heapq.heappush(coming, (ready_at[v], v))
            else:
                start[v] = ready_at[v]
                stack.extend(finish(v))

    def finish(v: int) -> list[int]:
        """Tell the successors of a placed operator when it ends; return those that wait for nothing else."""
        end = start[v] + picked[v].duration
        freed = []
        for w, delay in after[v]:
            if end + delay > ready_at[w]:
                ready_at[w] = end + delay
            waiting[w] -= 1
            if waiting[w] == 0:
                freed.append(w)
        return freed

    for v in [v for v, count in enumerate(waiting) if count == 0]:
        release(v)
    now = 0
    while coming or queue:
        watch()
        now = max(now, cores[0], 0 if queue else coming[0][0])
        while coming and coming[0][0] <= now:
            _, v = heapq.heappop(coming)
            heapq.heappush(queue, (-rank[v], v))
        _, v = heapq.heappop(queue)
        start[v] = now
        heapq.heapreplace(cores, now + picked[v].duration)
        for w in finish(v):
            release(w)
    return Schedule(tuple(chosen), tuple(start))


def least_choices(problem: Problem) -> tuple[int, ...]:
    """Return the choices a plan without the accelerator makes, as far as the options allow.

    Each operator takes the fewest crossbars, among these the host if it can, among these the shortest duration.
    No choices use fewer crossbars in total.
    """
    return tuple(
        min(range(len(options)), key=lambda o: (options[o].crossbars, options[o].place != HOST, options[o].duration, o))
        for options in problem.options
    )
