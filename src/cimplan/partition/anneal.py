"""Simulated annealing: good schedules where the proof takes long.

After Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing" (Science 220, 1983). A solution is an option
for each operator and the order in which the host serves its operators; it is timed as in `cimplan.partition.timing`,
every operator as early as it can. A move gives one operator another option, taking crossbars back from others where
the budget asks for it, or shifts one operator in the order. How much worse a move may be is drawn before it is timed,
so most moves are given up after a few operators: as soon as a path, or the host's work and the waits so far, take
longer than that.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from math import log
from random import Random

from cimplan.cost.problem import HOST, Problem
from cimplan.partition.timing import in_order
from cimplan.plan.schedule import Schedule

_WARMTH = 0.01
"""First temperature, in parts of the makespan: how much worse a move may typically be. It falls to nothing."""

_LONGEST_SHIFT = 15
"""Places in the order that an operator moves at most."""

_REPAIRS = 20
"""Operators that are asked to give crossbars back until a move is given up."""

_LOOK = 64
"""Moves between two looks at the clock."""


def anneal(
    problem: Problem, schedule: Schedule, *, steps: int, seed: int = 0, enough: int = 0, deadline: float | None = None
) -> Schedule:
    """Return the best schedule that a random walk from a schedule comes by; the schedule itself if none is better.

    Parameters
    ----------
    problem : Problem
        The problem.
    schedule : Schedule
        A feasible schedule to begin with.
    steps : int
        Moves to try. The same steps and seed give the same schedule.
    seed : int
        Of the walk.
    enough : int
        Ticks of a makespan that cannot be beaten.
    deadline : float, optional
        `time.perf_counter` at which to stop.
    """
    walk = _Walk(problem, schedule)
    if not walk.choosing and len(walk.order) < 2:
        return schedule
    random = Random(seed)
    best = walk.makespan
    chosen, order = walk.chosen, walk.order
    for step in range(steps):
        if best <= enough or (step % _LOOK == 0 and deadline is not None and time.perf_counter() > deadline):
            break
        temperature = _WARMTH * best * (1 - step / steps) ** 2
        most = walk.makespan - int(temperature * log(1 - random.random()))
        moved = walk.choose(random, most) if walk.choosing and random.random() < 0.5 else walk.shift(random, most)
        if moved and walk.makespan < best:
            best, chosen, order = walk.makespan, walk.chosen, walk.order
    found = in_order(problem, chosen, order)
    return found if found.makespan(problem) < schedule.makespan(problem) else schedule


class _Walk:
    """Where a random walk stands; moves replace its lists and never change them.

    Attributes
    ----------
    chosen : list of int
        Option of each operator.
    order : list of int
        All operators, each after those it depends on.
    makespan : int
        Ticks of the two.
    choosing : list of int
        The operators that have a choice.
    """

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.cores = problem.host_cores
        self.spare = problem.budget - schedule.crossbars(problem)
        # For each option: whether it takes the host, its place, its ticks, and its crossbars.
        self.options = [
            [(o.place == HOST and o.duration > 0, o.place, o.duration, o.crossbars) for o in options]
            for options in problem.options
        ]
        self.least = [min(range(len(options)), key=lambda o: options[o][3]) for options in self.options]
        self.before: list[list[tuple[int, int]]] = [[] for _ in problem.names]
        self.after: list[set[int]] = [set() for _ in problem.names]
        for edge in problem.dependencies:
            self.before[edge.target].append((edge.source, edge.transfer))
            self.after[edge.source].add(edge.target)
        self.sources = [{u for u, _ in some} for some in self.before]
        self.tails = _tails(problem)
        self.choosing = [v for v, options in enumerate(self.options) if len(options) > 1]
        self.chosen = list(schedule.chosen)
        self.order = sorted(range(len(problem)), key=lambda v: (schedule.start[v], v))
        self.finish = [0] * len(problem)
        self.marks = [(0, 0, 0)] * (len(problem) + 1)
        self.work = sum(option[2] for option in self._picked(self.chosen) if option[0])
        self.makespan = 2**62
        self._take(0, self.chosen, self.order, self.work, self.spare, self.makespan)

    def choose(self, random: Random, most: int) -> bool:
        """Give an operator another option; return whether that takes at most so many ticks, else nothing changes."""
        v = random.choice(self.choosing)
        o = random.randrange(len(self.options[v]) - 1)
        o += o >= self.chosen[v]
        chosen = list(self.chosen)
        changed = [v]
        spare = self.spare + self.options[v][chosen[v]][3] - self.options[v][o][3]
        chosen[v] = o
        for _ in range(_REPAIRS):
            if spare >= 0:
                break
            w = random.choice(self.choosing)
            back = self.options[w][chosen[w]][3] - self.options[w][self.least[w]][3]
            if w != v and back > 0:
                chosen[w] = self.least[w]
                changed.append(w)
                spare += back
        if spare < 0:
            return False
        work = self.work
        for w in changed:
            old, new = self.options[w][self.chosen[w]], self.options[w][chosen[w]]
            work += (new[2] if new[0] else 0) - (old[2] if old[0] else 0)
        # Operators that depend on a changed one come later in the order.
        first = min(map(self.order.index, changed))
        return self._take(first, chosen, self.order, work, spare, most)

    def shift(self, random: Random, most: int) -> bool:
        """Move an operator in the order; return whether that takes at most so many ticks, else nothing changes."""
        order = self.order
        at = random.randrange(len(order))
        v = order[at]
        to = at
        if random.random() < 0.5:
            lowest, neighbours = max(0, at - random.randint(1, _LONGEST_SHIFT)), self.sources[v]
            while to > lowest and order[to - 1] not in neighbours:
                to -= 1
        else:
            highest, neighbours = min(len(order) - 1, at + random.randint(1, _LONGEST_SHIFT)), self.after[v]
            while to < highest and order[to + 1] not in neighbours:
                to += 1
        if to == at:
            return False
        order = list(order)
        del order[at]
        order.insert(to, v)
        return self._take(min(at, to), self.chosen, order, self.work, self.spare, most)

    def _picked(self, chosen: Sequence[int]) -> list[tuple[bool, str, int, int]]:
        return [options[o] for options, o in zip(self.options, chosen, strict=True)]

    def _take(self, first: int, chosen: list[int], order: list[int], work: int, spare: int, most: int) -> bool:
        """Time choices and an order that differ from place `first` of the order on; keep them if they are in time."""
        timed = self._time(first, chosen, order, work, most) if self.cores == 1 else self._time_cores(chosen, order)
        if timed is None or timed[0] > most:
            return False
        self.makespan, self.finish, marks = timed
        self.marks = self.marks[:first] + marks
        self.chosen, self.order, self.work, self.spare = chosen, order, work, spare
        return True

    def _time(
        self, first: int, chosen: list[int], order: list[int], work: int, most: int
    ) -> tuple[int, list[int], list[tuple[int, int, int]]] | None:
        """Return makespan, finish of each operator, and the marks from place `first` on; None if it takes too long.

        The mark of a place says when the host is free, how long it has waited, and the latest finish before it.
        """
        options, before, tails = self.options, self.before, self.tails
        finish = list(self.finish)
        marks = []
        free, waited, end = self.marks[first]
        most_waits = most - work
        for v in order[first:]:
            marks.append((free, waited, end))
            on_host, place, duration, _ = options[v][chosen[v]]
            start = 0
            for u, transfer in before[v]:
                there = finish[u]
                if transfer and options[u][chosen[u]][1] != place:
                    there += transfer
                if there > start:
                    start = there
            if on_host:
                if start > free:
                    waited += start - free
                    if waited > most_waits:
                        return None
                else:
                    start = free
                free = start + duration
            finish[v] = start = start + duration
            if start + tails[v] > most:
                return None
            if start > end:
                end = start
        marks.append((free, waited, end))
        return end, finish, marks

    def _time_cores(self, chosen: list[int], order: list[int]) -> tuple[int, list[int], list[tuple[int, int, int]]]:
        """Return the same for several cores, always from the beginning."""
        finish = list(self.finish)
        cores = [0] * self.cores
        for v in order:
            on_host, place, duration, _ = self.options[v][chosen[v]]
            start = 0
            for u, transfer in self.before[v]:
                start = max(start, finish[u] + (transfer if self.options[u][chosen[u]][1] != place else 0))
            if on_host:
                start = max(start, cores[0])
                heapq.heapreplace(cores, start + duration)
            finish[v] = start + duration
        return max(finish, default=0), finish, self.marks


def _tails(problem: Problem) -> list[int]:
    """Return the least ticks from the end of each operator to the end of all, whatever is chosen."""
    least = [min(option.duration for option in options) for options in problem.options]
    tails = [0] * len(problem)
    for edge in reversed(problem.dependencies):
        tails[edge.source] = max(tails[edge.source], least[edge.target] + tails[edge.target])
    return tails
