"""Lower bounds on the makespan that need no search, so that even a baseline reports an honest gap."""

from __future__ import annotations

from fractions import Fraction

from cimplan.cost.problem import HOST, Option, Problem


def lower_bound(problem: Problem) -> int:
    """Return the better of the bounds of this module, in ticks."""
    return max(critical_path(problem), host_load(problem))


def critical_path(problem: Problem) -> int:
    """Return the longest path when every operator on it takes its best option, crossbars and host being free.

    The finish of an operator at a place is at least its duration there plus, for each predecessor, the least over
    the predecessor's places of its finish and the transfer from that place.
    """
    before: list[list[tuple[int, int]]] = [[] for _ in problem.names]
    for edge in problem.dependencies:
        before[edge.target].append((edge.source, edge.transfer))
    finish: list[dict[str, int]] = []
    for v, options in enumerate(problem.options):
        at: dict[str, int] = {}
        for option in options:
            ready = 0
            for u, transfer in before[v]:
                ends = (end + (transfer if place != option.place else 0) for place, end in finish[u].items())
                ready = max(ready, min(ends))
            end = ready + option.duration
            at[option.place] = min(at.get(option.place, end), end)
        finish.append(at)
    return max((min(at.values()) for at in finish), default=0)


def host_load(problem: Problem) -> int:
    """Return the time for which the host is busy whatever fits into the budget.

    The linear relaxation of a multiple-choice knapsack: every operator starts with the fewest crossbars it can take;
    further crossbars buy host time off along the convex hull of its options, the best rate first, the last purchase
    in part.

    Returns
    -------
    int
        Ticks: the load divided by the cores, rounded up; 0 if the operators do not fit into the budget.
    """
    load = 0
    left = problem.budget
    offers: list[tuple[Fraction, int, int]] = []  # rate, crossbars, ticks saved
    for options in problem.options:
        hull = _hull(options)
        crossbars, ticks = hull[0]
        left -= crossbars
        load += ticks
        for more, less in hull[1:]:
            offers.append((Fraction(ticks - less, more - crossbars), more - crossbars, ticks - less))
            crossbars, ticks = more, less
    if left < 0:
        return 0
    for rate, crossbars, ticks in sorted(offers, reverse=True):
        if crossbars > left:
            load -= int(rate * left)
            break
        left -= crossbars
        load -= ticks
    return -(-load // problem.host_cores)


def _hull(options: tuple[Option, ...]) -> list[tuple[int, int]]:
    """Return the lower convex hull of (crossbars, host ticks): crossbars rising, ticks falling ever more slowly."""
    points = sorted((option.crossbars, option.duration if option.place == HOST else 0) for option in options)
    hull: list[tuple[int, int]] = []
    for crossbars, ticks in points:
        if hull and ticks >= hull[-1][1]:
            continue
        while len(hull) > 1:
            (c0, t0), (c1, t1) = hull[-2], hull[-1]
            if (t0 - t1) * (crossbars - c1) > (t1 - ticks) * (c1 - c0):
                break
            hull.pop()
        hull.append((crossbars, ticks))
    return hull
