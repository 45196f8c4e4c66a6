"""Closing the gap: the dynamic programme of a block, over all of the network that is still open, within the bounds.

Where the fold of blocks falls short of the best schedule, it matters in which order fillers and spine share the
host. This search goes through the network operator by operator from the block in which they first meet: states are
order ideals, labels partial schedules, as in `block`. What keeps it small is that a good schedule and good bounds
are known by now: a label from which the rest cannot end before the best schedule is dropped.

Fillers come in two kinds here. An *exact* filler is scheduled like any other operator. The others are a *pool* of
host work that flows into idle time in pieces, as in the fold. Without a pool the search is exact; with a pool its
result is a lower bound, the better the fewer fillers are pooled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cimplan.cost.problem import HOST
from cimplan.partition.block import Key, occupancy
from cimplan.partition.dominance import Labelled, undominated
from cimplan.partition.fold import Label
from cimplan.partition.goal import Goal, watch
from cimplan.partition.pool import filled, pool_done
from cimplan.partition.structure import Network, as_set, members
from cimplan.partition.tables import UNREACHABLE, Floor, Remaining, Tables, knapsack

LABEL_LIMIT = 40_000
"""Labels after which the search gives up."""

Trail: TypeAlias = tuple[Any, int, int]
"""Decisions, the last first: (earlier trail or the label the search began with, operator, option)."""

_CROSSBARS, _FREE, _BUSY, _END, _SLOTS = range(5)


class SearchLimitError(Exception):
    """The search needs too many labels; caught inside the exact method."""


class Completion(NamedTuple):
    """A way to the end: what it takes and how it got there."""

    makespan: int
    crossbars: int
    trail: Trail


@dataclass
class _State:
    """What the labels of one order ideal have in common: what their numbers mean, who may be next, what is left.

    A label's numbers are crossbars, the time when the host is free, the time when it could also have done the pool,
    the last finish of operators without successors; then ready time and work of each part of the pool that waits for
    its exact filler; then for each operator that waits, and each kind of place, when its inputs are complete there.
    """

    done: int
    block: int
    buckets: tuple[int, ...]
    waiting: tuple[tuple[int, Key], ...]
    available: tuple[int, ...]
    work: int
    load: Floor
    position: dict[tuple[int, Key], int] = field(default_factory=dict)
    path: list[tuple[Floor | None, list[tuple[int, int]]]] = field(default_factory=list)
    """Per operator that waits: what follows its block, and (position, least ticks to its end) per kind of place."""


def exact_fillers(tables: Tables) -> Iterator[int]:
    """Yield growing sets of exact fillers: first those that can run elsewhere, then the longest, at last all."""
    options = tables.network.problem.options
    groups = [(group.operators, as_set(group.operators)) for group in tables.spine.groups]

    def closed(operators: Iterable[int]) -> int:
        wanted = as_set(operators)
        return as_set(
            v for some, group in groups for v in some if (tables.network.descendants[v] | 1 << v) & group & wanted
        )

    flexible = [v for some, _ in groups for v in some if len(options[v]) > 1 or options[v][0].place != HOST]
    others = sorted(
        (v for some, _ in groups for v in some if not closed(flexible) >> v & 1),
        key=lambda v: (-options[v][0].duration, v),
    )
    last = -1
    for longest in (0, len(others) // 4, len(others) // 2, len(others)):
        exact = closed([*flexible, *others[:longest]])
        if exact != last:
            yield exact
        last = exact


def first_block(tables: Tables, exact: int) -> int:
    """Return the first block in which an exact filler is released."""
    return min(
        (group.release for group in tables.spine.groups if as_set(group.operators) & exact),
        default=0,
    )


class Search:
    """A search through the blocks from `first` on.

    Parameters
    ----------
    tables : Tables
        The spine.
    rest : Remaining
        Bounds on what follows each cut.
    goal : Goal
        What is worthwhile.
    first : int
        The block to begin with; all groups with exact fillers are released there or later.
    exact : int
        The set of exact fillers; holds with each all fillers of its group before it, and all that can run elsewhere.
    limit : int
        Labels after which to give up.
    """

    def __init__(
        self, tables: Tables, rest: Remaining, goal: Goal, first: int, exact: int, *, limit: int = LABEL_LIMIT
    ) -> None:
        self.tables, self.rest, self.goal, self.first = tables, rest, goal, first
        self.limit = limit
        self.network: Network = tables.network
        self.options = tables.network.problem.options
        self.block_of = {v: k for k in range(first, len(tables.blocks)) for v in tables.blocks[k].operators()}
        self.everything = as_set(self.block_of) | exact
        self.exact = exact
        self.release = {v: group.release for group in tables.spine.groups for v in group.operators}
        self.start = tables.spine.start(first)
        self.from_start = {} if self.start is None else dict(self.network.after[self.start])
        self.keys = {v: tuple(dict.fromkeys(map(occupancy, self.options[v]))) for v in members(self.everything)}
        self.needs = {
            v: (as_set(u for u, _ in self.network.before[v]) & self.everything) | (self.network.ancestors[v] & exact)
            for v in members(self.everything)
        }
        self.tails = self._least_tails()
        self.bucket_of = self._buckets()
        self.pool_of_block = self._pools()
        self.after_block = [self._after(k) for k in range(len(tables.blocks))]
        self.end = rest.path[-1][-1]
        self.fixed_work = {
            v: self._host_only(v)
            for v in members(self.everything)
            if len(self.options[v]) == 1 and self.options[v][0].crossbars == 0
        }
        self.without_choice = as_set(self.fixed_work)
        self.anchors = as_set(self.bucket_of)
        self.until_block = [
            as_set(v for v in self.keys if self.block_of.get(v, self.release.get(v, 0)) <= k)
            for k in range(len(tables.blocks) + 1)
        ]
        self.loads: dict[tuple[int, int], Floor] = {}
        self.states: dict[int, _State] = {}

    # --- what is known before the search ---------------------------------------------------------------------

    def _least_tails(self) -> dict[int, dict[Key, int]]:
        """Return the least ticks from the start of each operator to the end of its block, or for fillers, of all."""
        tails: dict[int, dict[Key, int]] = {}
        network, block_of = self.network, self.block_of
        least: dict[int, int] = {}
        for v in reversed(range(len(self.options))):
            within = block_of.get(v)
            follow = max(
                (least[w] for w, _ in network.after[v] if within is None or block_of.get(w) == within), default=0
            )
            shortest = min(option.duration for option in self.options[v])
            least[v] = shortest + follow
            if v in self.keys:
                tails[v] = {
                    key: follow + min(option.duration for option in self.options[v] if occupancy(option) == key)
                    for key in self.keys[v]
                }
        return tails

    def _pooled(self) -> Iterable[int]:
        """Yield the fillers that are pooled and not yet released before the first block."""
        for group in self.tables.spine.groups:
            if group.release >= self.first:
                yield from (v for v in group.operators if not self.exact >> v & 1)

    def _buckets(self) -> dict[int, tuple[int, int]]:
        """Return, per exact filler, the pooled work that waits for it, and the transfer after it."""
        found: dict[int, tuple[int, int]] = {}
        for v in self._pooled():
            before = self.network.ancestors[v] & self.exact
            if not before:
                continue
            anchor = before.bit_length() - 1
            transfers = [delay for w, delay in self.network.after[anchor] if not self.exact >> w & 1]
            work, _ = found.get(anchor, (0, 0))
            found[anchor] = (work + self._host_only(v), min(transfers, default=0))
        return found

    def _pools(self) -> list[int]:
        """Return, per block, the pooled work released there that waits for nothing else."""
        pools = [0] * (len(self.tables.blocks) + 1)
        for v in self._pooled():
            if not self.network.ancestors[v] & self.exact:
                pools[self.release[v]] += self._host_only(v)
        return pools

    def _host_only(self, v: int) -> int:
        return min(option.duration if option.place == HOST else 0 for option in self.options[v])

    def _after(self, block: int) -> tuple[Floor, Floor]:
        """Return path and load after a block, whatever the option of its end."""
        path, load = self.rest.path[block + 1], self.rest.load[block + 1]
        return _least(path.values()), _least(load.values())

    def _state(self, done: int) -> _State:
        """Return the state of an order ideal."""
        if done in self.states:
            return self.states[done]
        left = self.everything & ~done
        spine_left = left & ~self.exact
        block = self.block_of[(spine_left & -spine_left).bit_length() - 1] if spine_left else len(self.after_block)
        waiting = tuple(
            (v, key) for v in members(left) if self.needs[v] & done or v in self.from_start for key in self.keys[v]
        )
        flushed = max((k for k in self.tables.flushed if k < block), default=-1)
        buckets = tuple(x for x in members(done & self.exact) if x in self.bucket_of and self.release[x] > flushed)
        available = tuple(v for v in members(left) if not self.needs[v] & ~done)
        state = _State(done, block, buckets, waiting, available, *self._load_left(left, block))
        first = _SLOTS + 2 * len(buckets)
        state.position = {slot: number for number, slot in enumerate(waiting, first)}
        for v in dict.fromkeys(v for v, _ in waiting):
            ends = [(state.position[v, key], self.tails[v][key]) for key in self.keys[v]]
            after = self.after_block[self.block_of[v]][0] if v in self.block_of else None
            state.path.append((after, ends))
        self.states[done] = state
        return state

    def _load_left(self, left: int, block: int) -> tuple[int, Floor]:
        """Return the least host work that is left: what no choice changes, and the rest over the crossbars left."""
        here = left & self.until_block[block]
        fixed = sum(self.fixed_work[v] for v in members(here & self.without_choice))
        fixed += sum(self.bucket_of[v][0] for v in members(here & self.anchors))
        key = (here & ~self.without_choice, block)
        if key not in self.loads:
            offers = knapsack(self.network, list(members(key[0])))
            after = self.end if block == len(self.after_block) else self.after_block[block][1]
            entries = len(after.ticks) + max(c for c, _, _ in offers) // after.unit
            least = np.full(entries, UNREACHABLE)
            for crossbars, work, _ in offers:
                np.minimum(least, after.spent(after.first, entries, crossbars, work), out=least)
            self.loads[key] = Floor(after.unit, after.first, least)
        return fixed, self.loads[key]

    # --- the search -----------------------------------------------------------------------------------------

    def run(self, labels: dict[int, list[Label]], *, beam: int | None = None) -> tuple[list[Completion], int]:
        """Search for all schedules that are worthwhile.

        Parameters
        ----------
        labels : dict of int to list of Label
            Per option of the cut before the first block, the labels of a fold up to there.
        beam : int, optional
            Keep only so many labels with equally many operators done, the most promising: finds good schedules fast,
            and proves nothing.

        Returns
        -------
        completions : list of Completion
            The quickest first; nothing worthwhile is quicker with as few crossbars.
        count : int
            Labels looked at.

        Raises
        ------
        SearchLimitError, OutOfTimeError
            If the search takes too long.
        """
        layer = {0: self._begin(labels)}
        count = 0
        for _ in range(self.everything.bit_count()):
            grown: dict[int, list[Labelled]] = {}
            for done, some in layer.items():
                state = self._state(done)
                count += len(some)
                watch(self.goal.deadline)
                if beam is None and count > self.limit:
                    raise SearchLimitError
                for v in state.available:
                    then = self._state(done | 1 << v)
                    fresh = self._extend(state, then, v, some)
                    if fresh:
                        grown.setdefault(then.done, []).extend(fresh)
            layer = {done: undominated(some) for done, some in grown.items()}
            if beam is not None:
                layer = self._promising(layer, beam)
        final = layer.get(self.everything, [])
        completions = [Completion(numbers[_END], numbers[_CROSSBARS], trail) for numbers, trail in final]
        return sorted(completions, key=lambda completion: completion[:2]), count

    def _promising(self, layer: dict[int, list[Labelled]], most: int) -> dict[int, list[Labelled]]:
        """Return the labels with the least bounds on the makespan."""
        if sum(map(len, layer.values())) <= most:
            return layer
        ranked = []
        for done, labels in layer.items():
            state = self._state(done)
            for numbers, trail in labels:
                left = self.goal.budget - numbers[_CROSSBARS]
                bound = max(
                    numbers[_BUSY] + state.work + state.load.at(left),
                    *(ticks + (0 if after is None else after.at(left)) for ticks, after in _paths(state, numbers)),
                    numbers[_END],
                )
                ranked.append((bound, done, (numbers, trail)))
        ranked.sort(key=lambda entry: (entry[0], entry[2][0]))
        kept: dict[int, list[Labelled]] = {}
        for _, done, label in ranked[:most]:
            kept.setdefault(done, []).append(label)
        return kept

    def _begin(self, labels: dict[int, list[Label]]) -> list[Labelled]:
        state = self._state(0)
        begun = []
        released = self.pool_of_block[state.block] if state.block == self.first else 0
        for q, some in labels.items():
            place = "" if self.start is None else self.options[self.start][q].place
            for label in some:
                ready = (
                    label.time + (self.from_start.get(v, 0) if at != place and v in self.from_start else 0)
                    for v, (at, _) in state.waiting
                )
                busy = label.busy + released
                begun.append(((label.crossbars, label.time, busy, 0, *ready), label))
        return undominated(begun)

    def _extend(self, state: _State, then: _State, v: int, labels: list[Labelled]) -> list[Labelled]:
        """Append an operator to all labels of a state, with each of its options."""
        fresh: list[Labelled] = []
        after = dict(self.network.after[v])
        fits = [
            (state.position.get((u, self.keys[u][0])), self.options[u][0].duration)
            for u in state.available
            if u != v and len(self.options[u]) == 1 and self.keys[u][0] == (HOST, True)
        ]
        released = sum(
            self.pool_of_block[k]
            for k in range(state.block + 1, min(then.block, len(self.after_block)) + 1)
            if k < len(self.pool_of_block)
        )
        flush = self.block_of.get(v, -1) in self.tables.flushed and self.tables.spine.end(self.block_of[v]) == v
        waits = self.bucket_of.get(v)
        sink = not any(w in self.keys for w in after)
        final = then.done == self.everything
        for o, option in enumerate(self.options[v]):
            place, occupies = key = occupancy(option)
            ready_at = state.position.get((v, key))
            moves = []
            for slot in then.waiting:
                delay = None
                if slot[0] in after:
                    delay = after[slot[0]] if slot[1][0] != place else 0
                moves.append((state.position.get(slot), delay, slot[1][1]))
            duration, crossbars = option.duration, option.crossbars
            for numbers, trail in labels:
                used = numbers[_CROSSBARS] + crossbars
                if used > self.goal.budget:
                    continue
                free, busy, last = numbers[_FREE], numbers[_BUSY], numbers[_END]
                begin = numbers[ready_at] if ready_at is not None else 0
                pool = numbers[_SLOTS : _SLOTS + 2 * len(state.buckets)]
                if flush:
                    begin = max(begin, pool_done(busy, pool))
                if occupies:
                    if begin > free:
                        if any(max(free, 0 if at is None else numbers[at]) + ticks <= begin for at, ticks in fits):
                            continue  # another operator fits before this one: that schedule is no worse
                        busy += begin - free - filled(free, begin, busy, pool)
                    else:
                        begin = free
                    end = free = begin + duration
                    busy += duration
                else:
                    end = begin + duration
                if flush:
                    busy = max(free, end if not occupies else free)
                    free = busy
                busy += released
                grown = [used, free, busy, max(last, end) if sink else last]
                if waits is not None:
                    busy += waits[0]
                    grown[_BUSY] = busy
                if not self.goal.worthwhile(used, ((busy + then.work, then.load),)):
                    continue
                for x in then.buckets:
                    if x == v:
                        ready = end + (0 if place == HOST else waits[1] if waits else 0)
                        work = waits[0] if waits else 0
                    else:
                        at = _SLOTS + 2 * state.buckets.index(x)
                        ready, work = numbers[at], numbers[at + 1]
                    grown += (ready, work) if ready > free else (0, 0)
                for source, delay, needs_host in moves:
                    value = 0 if source is None else numbers[source]
                    if delay is not None and end + delay > value:
                        value = end + delay
                    if needs_host and value < free:
                        value = free
                    grown.append(value)
                if final:
                    pool = tuple(grown[_SLOTS : _SLOTS + 2 * len(then.buckets)])
                    grown[_END] = max(grown[_END], free, pool_done(busy, pool))
                bounds = [(grown[_END], None), *_paths(then, grown)]
                if self.goal.worthwhile(used, bounds):
                    fresh.append((tuple(grown), (trail, v, o)))
        return fresh


def _paths(state: _State, numbers: Sequence[int]) -> Iterator[tuple[int, Floor | None]]:
    """Yield the least ticks to the end of the block of each operator that waits, and what follows the block."""
    for after, ends in state.path:
        yield min(numbers[at] + ticks for at, ticks in ends), after


def _least(floors: Iterable[Floor]) -> Floor:
    """Return the least of some functions with the same window."""
    one, *others = floors
    ticks = one.ticks
    for other in others:
        ticks = np.minimum(ticks, other.ticks)
    return Floor(one.unit, one.first, ticks)
