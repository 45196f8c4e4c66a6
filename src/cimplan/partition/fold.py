"""The best a network can do according to its blocks: labels folded along the spine.

A label stands for a way through the blocks so far: crossbars used; `time`, the finish of the last cut, or later by
what fillers delay that are too long for any wait; `busy`, the earliest time at which a host without a pause has also
done all filler work released so far; and filler work that cannot start before some time. `cimplan.plan.certificate`
defines the steps and says why their least result is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cimplan.cost.problem import HOST
from cimplan.partition.block import Way
from cimplan.partition.clock import watch
from cimplan.partition.dominance import add_step, undominated_rows
from cimplan.partition.goal import Goal
from cimplan.partition.spine import Group
from cimplan.partition.structure import Network
from cimplan.partition.tables import Remaining, Tables, group_trade_offs, knapsack

GROUP_CHOICES = 64
"""Choices of a filler group up to which its lead is kept."""

_PAIRWISE = 32
"""Labels up to which they are compared one by one rather than as arrays."""

Delayed: TypeAlias = tuple[int, ...]
"""Pairs of ready time and work, one after the other; work that may have started is (0, 0)."""


DELAYED_LIMIT = 6_000
"""Labels with delayed work that are compared at once; beyond, a fold gives up, because it takes too long."""


class FoldLimitError(Exception):
    """There are too many labels with delayed work; caught inside the exact method."""


class Label(NamedTuple):
    """A way through the first blocks.

    `link` leads back through the decisions: (earlier label, way taken or None, choices of fillers).
    """

    crossbars: int
    time: int
    busy: int
    delayed: Delayed
    link: tuple[Any, Way | None, tuple[tuple[int, int], ...]] | None


class Offer(NamedTuple):
    """One choice of options of a filler group.

    Attributes
    ----------
    crossbars, work : int
        What it takes of crossbars and of the host.
    delay : int
        By how much it delays the spine, because no wait is long enough.
    lead, late : int
        A lead, and the work that comes after it.
    choices : tuple of (int, int)
        Operators and their options.
    """

    crossbars: int
    work: int
    delay: int
    lead: int
    late: int
    choices: tuple[tuple[int, int], ...]


def fold(tables: Tables, rest: Remaining, goal: Goal) -> tuple[list[Label], int]:
    """Fold all blocks, keeping only labels that are worthwhile.

    Parameters
    ----------
    tables : Tables
        The spine with its enumerated blocks.
    rest : Remaining
        Bounds on what follows each cut, of the same tables.
    goal : Goal
        What is worthwhile. No schedule that reaches the goal is better than all labels that are left.

    Returns
    -------
    labels : list of Label
        Complete ways through the network, the quickest first; none useless.
    count : int
        Labels on the way.

    Raises
    ------
    FoldLimitError, OutOfTimeError
        If there are too many labels with delayed work, or that takes too long.
    """
    states, count = fold_until(tables, len(tables.blocks), rest, goal, delays=True)
    final = [label for labels in states.values() for label in labels]
    return sorted(final, key=lambda label: (label.busy, label.crossbars)), count


def fold_until(
    tables: Tables, stop: int, rest: Remaining, goal: Goal, *, delays: bool = False
) -> tuple[dict[int, list[Label]], int]:
    """Fold the blocks before block `stop`; return the labels per option of the last cut, and how many it took.

    Without `delays`, `time` is when the last cut ends, and nothing else.
    """
    problem = tables.network.problem
    states: dict[int, list[Label]] = {-1: [Label(0, 0, 0, (), None)]}
    count = 0
    for k in range(stop):
        watch(goal.deadline)
        end, flush = tables.spine.end(k), tables.flushes(k)
        states = {q: _release(tables, k, q, labels, goal.budget, delays=delays) for q, labels in states.items()}
        grown: dict[int, list[Label]] = {}
        for q, labels in states.items():
            for to, some in tables.ways[k][q].items():
                option = None if end is None else problem.options[end][to]
                last = 0 if option is None else option.duration
                on_host = last if option is not None and option.place == HOST else 0
                path, load = rest.path[k + 1][to], rest.load[k + 1][to]
                out = grown.setdefault(to, [])
                for way in some:
                    for label in labels:
                        used = label.crossbars + way.crossbars
                        if used > goal.budget:
                            continue
                        time, busy, delayed = _pass(label, way, last, on_host, flush)
                        if goal.worthwhile(used, ((time, path), (busy, load))):
                            out.append(Label(used, time, busy, delayed, (label, way, ())))
        _strip(grown)
        if tables.delayed and any(len(labels) > DELAYED_LIMIT for labels in grown.values()):
            raise FoldLimitError
        states = {to: undominated(labels) for to, labels in grown.items()}
        count += sum(map(len, states.values()))
    return states, count


def _pass(label: Label, way: Way, last: int, on_host: int, flush: bool) -> tuple[int, int, Delayed]:
    """Return time, busy and delayed after a block whose end takes `last` ticks, `on_host` of them on the host."""
    time, busy, delayed = label.time, label.busy, label.delayed
    if flush:
        before_end = max(time + way.time - last, busy + way.host_time - on_host)
        for ready, late in _late(delayed):
            first = min(time + way.lead, ready)
            before_end = max(before_end, ready + late, first + way.host_time - on_host + late)
        return before_end + last, before_end + last, ()
    then = time + way.time
    busy = max(then, busy + way.host_time)
    if not delayed:
        return then, busy, ()
    for ready, late in _late(delayed):
        first = min(time + way.lead, ready)
        busy = max(busy, min(then, ready) + late, first + way.host_time + late)
    still: list[int] = []
    for i in range(0, len(delayed), 2):
        still += delayed[i : i + 2] if delayed[i] > then else (0, 0)
    return then, busy, tuple(still)


def _late(delayed: Delayed) -> Iterator[tuple[int, int]]:
    """Yield each ready time with the work that cannot start before it."""
    for i in range(0, len(delayed), 2):
        if delayed[i + 1]:
            late = sum(delayed[j + 1] for j in range(0, len(delayed), 2) if delayed[j] >= delayed[i])
            yield delayed[i], late


def _release(tables: Tables, block: int, option: int, labels: list[Label], budget: int, *, delays: bool) -> list[Label]:
    """Let each filler released in a block choose an option."""
    groups = tables.released(block)
    if not groups:
        return labels
    if not tables.delayed:
        offers = [
            Offer(crossbars, work, delay if delays else 0, 0, 0, choices)
            for crossbars, work, delay, choices in group_trade_offs(tables, block)
        ]
        return undominated(list(_with_offers(labels, offers, budget, 0)))
    for group in groups:
        kept = keeps_lead(tables.network, group)
        offers = group_offers(tables, group, option, kept)
        if len(labels) * len(offers) > DELAYED_LIMIT:
            raise FoldLimitError
        labels = undominated(list(_with_offers(labels, offers, budget, 2 if kept else 0)))
    return labels


def _with_offers(labels: list[Label], offers: list[Offer], budget: int, slots: int) -> Iterator[Label]:
    for label in labels:
        for crossbars, work, delay, lead, late, choices in offers:
            if label.crossbars + crossbars <= budget:
                delayed = label.delayed
                if slots:
                    delayed += (label.time + lead, late) if late else (0, 0)
                time, busy = label.time + delay, label.busy + work
                yield Label(label.crossbars + crossbars, time, busy, delayed, (label, None, choices))


def keeps_lead(network: Network, group: Group) -> bool:
    """Return whether the lead of a filler group is looked at: not if it has too many choices."""
    choices = 1
    for v in group.operators:
        choices *= len(network.problem.options[v])
    return choices <= GROUP_CHOICES


def group_offers(tables: Tables, group: Group, from_option: int, lead: bool) -> list[Offer]:
    """Return the choices of a filler group that are not useless, seen from an option of the cut before it."""
    network, problem = tables.network, tables.network.problem
    if not lead:
        return [Offer(some.crossbars, some.work, 0, 0, 0, some.choices) for some in knapsack(tables, group)]
    cut = tables.spine.start(group.release)
    place = None if cut is None else problem.options[cut][from_option].place
    combinations: list[dict[int, int]] = [{}]
    for v in group.operators:
        combinations = [{**some, v: o} for some in combinations for o in range(len(problem.options[v]))]
    offers: list[Offer] = []
    for chosen in combinations:
        picked = {v: problem.options[v][o] for v, o in chosen.items()}
        leads: dict[int, int] = {}
        for v in group.operators:
            leads[v] = 0
            for u, transfer in network.before[v]:
                if u in picked:
                    outside = 0 if picked[u].place == HOST else picked[u].duration
                    moved = transfer if picked[u].place != picked[v].place else 0
                    leads[v] = max(leads[v], leads[u] + outside + moved)
                elif u == cut and place != picked[v].place:
                    leads[v] = max(leads[v], transfer)
        work = {v: option.duration for v, option in picked.items() if option.place == HOST}
        best_lead, best_late = 0, 0
        for least in sorted({leads[v] for v in work}):
            late = sum(ticks for v, ticks in work.items() if leads[v] >= least)
            if least * late > best_lead * best_late:
                best_lead, best_late = least, late
        crossbars = sum(option.crossbars for option in picked.values())
        offers.append(Offer(crossbars, sum(work.values()), 0, best_lead, best_late, tuple(chosen.items())))
    kept: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: offer[:5]):
        if not any(all(a <= b for a, b in zip(other[:5], offer[:5], strict=True)) for other in kept):
            kept.append(offer)
    return kept


def _strip(states: dict[int, list[Label]]) -> None:
    """Drop pairs of delayed work that no label uses any more."""
    width = max((len(label.delayed) for labels in states.values() for label in labels), default=0)
    alive = [
        i
        for i in range(0, width, 2)
        if any(label.delayed[i + 1] for labels in states.values() for label in labels if label.delayed)
    ]
    if 2 * len(alive) == width:
        return
    for labels in states.values():
        for number, label in enumerate(labels):
            delayed = tuple(x for i in alive for x in label.delayed[i : i + 2])
            labels[number] = label._replace(delayed=delayed)


def undominated(labels: list[Label]) -> list[Label]:
    """Drop labels that are not smaller in any number than another one."""
    if len(labels) < 2:
        return labels
    labels.sort(key=lambda label: label[:4])
    if labels[0].delayed or any(label.delayed for label in labels):
        if len(labels) > _PAIRWISE:
            numbers = np.array([(*label[:3], *label.delayed) for label in labels], dtype=np.int64)
            return [labels[i] for i in undominated_rows(numbers)]
        return list(_undominated_pairwise(labels))
    return list(_undominated_sweep(labels))


def _undominated_sweep(labels: Iterable[Label]) -> Iterator[Label]:
    """Sweep over rising crossbars with a staircase of (time, busy)."""
    times: list[int] = []
    busies: list[int] = []
    for label in labels:
        if add_step(times, busies, label.time, label.busy):
            yield label


def _undominated_pairwise(labels: Iterable[Label]) -> Iterator[Label]:
    kept: list[tuple[int, ...]] = []
    for label in labels:
        numbers = (label.crossbars, label.time, label.busy, *label.delayed)
        for other in kept:
            for a, b in zip(other, numbers, strict=True):
                if a > b:
                    break
            else:
                break
        else:
            kept.append(numbers)
            yield label
