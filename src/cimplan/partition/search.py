"""Closing the gap: every order of the host's operators that could still beat the best schedule, without repetition.

Where the fold of blocks falls short of the best schedule, it matters in which order fillers and spine share the host.
This search schedules them one by one, from the block in which they first meet. A state says which operators have
started and which are queued for the host; its labels, rows of a table, are partial schedules.

As soon as all operators before it have started, an operator chooses its option. Off the host, or in no time, it
starts when its inputs are there. On the host it joins the queue, and from the queue one operator after another is
taken. Every schedule is found that way, or one that ends no later: let the operators choose what they chose, and run
in the order in which they ran. So only orders on the host are tried, not orders of everything.

How much is looked at depends on how good the known schedule is. The search therefore asks for little at first, and
keeps what it left out: asked for more, it goes on where it was.

Without a pool (`players`), and from the first block on, the search is exact; otherwise its result is a lower bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cimplan.cost.problem import HOST
from cimplan.partition.clock import watch
from cimplan.partition.dominance import undominated_rows
from cimplan.partition.fold import Label
from cimplan.partition.goal import NEVER, Goal, OneBudget
from cimplan.partition.outlook import BUSY, CROSSBARS, END, FREE, READY, Ahead, Outlook, Queue, Slot, State
from cimplan.partition.players import Level, Players, host_ticks
from cimplan.partition.structure import as_set
from cimplan.partition.suffix import Suffix
from cimplan.partition.tables import Integers, Tables

LABEL_LIMIT = 1_000_000
"""Labels after which the search gives up."""

RANK, ORIGIN, ROW = -3, -2, -1
"""The last columns of a label: its rank, the number of its origin, and its row there."""

_DIVES = 2
"""Dives before a search that find nothing."""

_PATIENCE = 1_000
"""Labels after which a search dives again."""

_SCOUTS = ((3, 16), (20, 8))
"""States of each layer, and labels of each, that scouts follow; the second if the first find nothing."""

_REFINING = 40_000
"""Labels that putting pooled fillers in order may take."""

Step: TypeAlias = tuple[int, int]
"""An operator starts with an option."""


class SearchLimitError(Exception):
    """The search needs too many labels; caught inside the exact method."""


class Completion(NamedTuple):
    """A way to the end: what it takes, the label it began with, and which operator started next, again and again."""

    makespan: int
    crossbars: int
    label: Label
    steps: tuple[Step, ...]


@dataclass
class _Table:
    """Labels column by column, while operators start.

    `rows` says from which label of the state before each one comes; `steps` what all of them did since.
    """

    settled: int
    queue: Queue
    rows: npt.NDArray[np.intp]
    crossbars: Integers
    free: Integers
    busy: Integers
    end: Integers
    ready: dict[Slot, Integers]
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        self.ready = dict(self.ready)

    def only(self, rows: npt.NDArray[np.bool_]) -> _Table:
        """Return some of the labels."""
        if rows.all():
            return self
        return _Table(
            self.settled,
            self.queue,
            self.rows[rows],
            self.crossbars[rows],
            self.free[rows],
            self.busy[rows],
            self.end[rows],
            {slot: column[rows] for slot, column in self.ready.items()},
            self.steps,
        )


@dataclass
class _Node:
    """The labels of a state.

    Attributes
    ----------
    ahead : Ahead
        What is left.
    able : tuple of int
        The operators that must choose next.
    origins : list of (_Node or None, tuple of Step)
        Nodes that labels come from (None: the beginning), and what was done since.
    labels : numpy.ndarray of int64
        What has been followed. The last three columns are a label's rank, the number of its origin, and its row there.
    fresh, waiting : list of numpy.ndarray of int64
        What has not been followed yet; of the first the rank is not known.
    least : int
        The least rank of those whose rank is known.
    """

    ahead: Ahead
    able: tuple[int, ...]
    origins: list[tuple[_Node | None, tuple[Step, ...]]] = field(default_factory=list)
    labels: Integers | None = None
    fresh: list[Integers] = field(default_factory=list)
    waiting: list[Integers] = field(default_factory=list)
    least: int = NEVER

    def rank(self, outlook: Outlook, goal: Goal) -> int:
        """Rank fresh labels; return the least rank of what has not been followed."""
        if self.fresh:
            fresh = np.concatenate(self.fresh) if len(self.fresh) > 1 else self.fresh[0]
            self.fresh = []
            ranks = outlook.rank(self.ahead, fresh, goal)
            useful = ranks < NEVER
            if useful.any():
                fresh = fresh[useful]
                fresh[:, RANK] = ranks[useful]
                self.waiting.append(fresh)
                self.least = min(self.least, int(ranks.min()))
        return self.least

    def take(self, below: int, most: int | None = None) -> Integers | None:
        """Move labels of a rank below some number, or the first of them, to those that are followed; return them."""
        if self.least >= below:
            return None
        waiting = np.concatenate(self.waiting) if len(self.waiting) > 1 else self.waiting[0]
        now = waiting[:, RANK] < below
        if most is not None and len(waiting) > most:
            now[np.argsort(waiting[:, RANK], kind="stable")[most:]] = False
        rest, taken = waiting[~now], waiting[now]
        self.waiting = [rest] if len(rest) else []
        self.least = int(rest[:, RANK].min()) if len(rest) else NEVER
        known = None if self.labels is None else self.labels[:, :RANK]
        taken = taken[undominated_rows(taken[:, :RANK], known)]
        if not len(taken):
            return None
        self.labels = taken if self.labels is None else np.concatenate([self.labels, taken])
        return taken


class Search:
    """A search through the blocks from the first of a level on.

    Parameters
    ----------
    tables : Tables
        The spine.
    level : Level
        Where it begins, and which fillers are exact.
    goal : Goal
        What is worthwhile, and how labels are ranked.
    labels : dict of int to list of Label
        Per option of the cut before the first block, the labels of a fold up to there.
    script : sequence of (int, int), optional
        What a search of an easier level did: only its options are tried, and operators that it had on the host run
        there in the same order.
    limit : int
        Labels after which to give up.
    """

    def __init__(
        self,
        tables: Tables,
        level: Level,
        goal: Goal,
        labels: dict[int, list[Label]],
        *,
        script: Sequence[Step] = (),
        ordered: bool = True,
        limit: int = LABEL_LIMIT,
    ) -> None:
        self.options = tables.network.problem.options
        self.players = Players(tables, level)
        self.goal, self.limit = goal, limit
        self.count = 0
        self.chosen = dict(script)
        on_host = [v for v, o in script if ordered and host_ticks(self.options[v][o])]
        self.turn = {v: as_set(on_host[:place]) for place, v in enumerate(on_host)}
        self.roots = [label for some in labels.values() for label in some]
        # Each choice and each start leads to a later layer: operators that have started count twice, queued ones once.
        self.layers: list[dict[State, _Node]] = [{} for _ in range(2 * len(self.players.operators) + 1)]
        self.places = {v: frozenset(option.place for option in self.options[v]) for v in self.players.operators}
        if not self.roots:
            return
        latest = goal.latest(min(label.crossbars for label in self.roots))
        suffix = Suffix(
            tables,
            level.first,
            latest - min(label.time for label in self.roots),
            latest - min(label.busy for label in self.roots) - self.players.least_filler_work(),
        )
        self.outlook = Outlook(self.players, suffix)
        self._begin(labels)

    def run(self, below: int) -> list[Completion]:
        """Search for all schedules of a rank below some number.

        Parameters
        ----------
        below : int
            In terms of the goal's ranks; at least as much as the last time.

        Returns
        -------
        list of Completion
            The quickest first; nothing of such a rank is quicker with as few crossbars.

        Raises
        ------
        SearchLimitError, OutOfTimeError
            If the search takes too long.
        """
        asked = below
        below = self._dive(below, _DIVES)
        pause, patience = self.count + _PATIENCE, _PATIENCE
        for layer in self.layers[:-1]:
            for state, node in list(layer.items()):
                node.rank(self.outlook, self.goal)
                self._follow(state, node, node.take(below))
                if self.count > pause:
                    below = self._dive(below, 1)
                    patience *= 2
                    pause = self.count + patience
        return self._found(asked)

    def scout(self, below: int) -> list[Completion]:
        """Look for something of a rank below some number without looking everywhere; return it as `run` does."""
        for states, labels in _SCOUTS:
            self._descend(below, states, labels)
            found = self._found(below)
            if found:
                self.goal.improve((completion.makespan, completion.crossbars) for completion in found)
                return found
        return []

    def _dive(self, below: int, rounds: int) -> int:
        """Follow only the most promising labels at each depth, again and again as long as that finds something.

        Where very much is worthwhile, that finds a good schedule, beside which little else is worthwhile. What has
        been followed need not be followed again. Returns the rank below which there may be more to find.
        """
        while rounds:
            self._descend(below, 1, self.goal.divers)
            if self.goal.improve((found.makespan, found.crossbars) for found in self._found(below)):
                below = min(below, self.goal.most)
                if self.goal.ranks_change:
                    self._forget_ranks()
            else:
                rounds -= 1
        return below

    def _descend(self, below: int, states: int, labels: int) -> None:
        """Follow the most promising labels of the most promising states of each layer."""
        for layer in self.layers[:-1]:
            ranked = [
                (rank, number, state)
                for number, (state, node) in enumerate(layer.items())
                if (rank := node.rank(self.outlook, self.goal)) < below
            ]
            for _, _, state in heapq.nsmallest(states, ranked):
                node = layer[state]
                self._follow(state, node, node.take(below, labels))

    def _forget_ranks(self) -> None:
        """Rank again what has not been followed, because the goal has changed."""
        for layer in self.layers:
            for node in layer.values():
                node.fresh += node.waiting
                node.waiting, node.least = [], NEVER

    def _follow(self, state: State, node: _Node, labels: Integers | None) -> None:
        """Let the next operator of some labels choose, or each operator of the queue run."""
        if labels is None or node.labels is None:
            return
        self.count += len(labels)
        if self.count > self.limit:
            raise SearchLimitError
        watch(self.goal.deadline)
        table = self._table(state, node, labels, len(node.labels) - len(labels))
        if node.able:
            self._choose(node, table)
        else:
            self._start(node, table)

    def _found(self, below: int) -> list[Completion]:
        """Return the ends that have been reached."""
        found = []
        for node in self.layers[-1].values():
            node.rank(self.outlook, self.goal)
            node.take(below)
            if node.labels is not None:
                rows = undominated_rows(node.labels[:, [END, CROSSBARS]])
                found += [self._completion(node, row) for row in rows if node.labels[row, RANK] < below]
        return sorted(found, key=lambda completion: completion[:2])

    # --- the beginning and the end ---------------------------------------------------------------------------

    def _begin(self, labels: dict[int, list[Label]]) -> None:
        players, start = self.players, self.players.start
        able = [v for v in players.operators if not players.needs[v]]
        before = 0
        for q, some in labels.items():
            if not some:
                continue
            place = None if start is None else self.options[start][q].place
            time = np.array([label.time for label in some], dtype=np.int64)
            delay = {v: players.from_start.get(v, 0) for v in {*able, *players.from_start}}
            table = _Table(
                0,
                (),
                np.arange(before, before + len(some)),
                np.array([label.crossbars for label in some], dtype=np.int64),
                time,
                np.array([label.busy for label in some], dtype=np.int64) + players.pool_after.get(-1, 0),
                time,
                {(v, at): time + (ticks if at != place else 0) for v, ticks in delay.items() for at in self.places[v]},
            )
            before += len(some)
            self._add(None, table, able.copy())

    def _completion(self, node: _Node, row: int) -> Completion:
        """Return how a label of the end came about."""
        steps: list[Step] = []
        makespan = crossbars = -1
        at: _Node | None = node
        while at is not None and at.labels is not None:
            label = at.labels[row]
            if makespan < 0:
                makespan, crossbars = int(label[END]), int(label[CROSSBARS])
            (at, more), row = at.origins[label[ORIGIN]], int(label[ROW])
            steps[:0] = more
        return Completion(makespan, crossbars, self.roots[row], tuple(steps))

    # --- one operator after another --------------------------------------------------------------------------

    def _table(self, state: State, node: _Node, labels: Integers, first: int) -> _Table:
        """Return labels of a state column by column; the first of them has a number."""
        ready = {slot: labels[:, at] for at, slot in enumerate(node.ahead.slots, READY)}
        rows = np.arange(first, first + len(labels))
        numbers = (labels[:, CROSSBARS], labels[:, FREE], labels[:, BUSY], labels[:, END])
        return _Table(state.settled, state.queue, rows, *numbers, ready)

    def _choose(self, node: _Node, table: _Table) -> None:
        """Let the first operator that can choose its option do so, in every way."""
        v, *others = node.able
        for o, option in enumerate(self.options[v]):
            if self.chosen.get(v, o) != o:
                continue
            then = replace(table, crossbars=table.crossbars + option.crossbars)
            able = [*others]
            self._take(then, v, o, able)
            self._add(node, then, able)

    def _start(self, node: _Node, table: _Table) -> None:
        """Let each operator of the queue run next."""
        starts = {}
        for v, o in table.queue:
            if self.turn.get(v, 0) & ~table.settled:
                continue
            start = table.ready[v, HOST]
            starts[v, o] = np.maximum(start, table.busy) if v in self.players.flushing else start
        finishes = {(v, o): start + self.options[v][o].duration for (v, o), start in starts.items()}
        soonest = self._soonest(table, {v: finish for (v, _), finish in finishes.items()})
        for (v, o), start in starts.items():
            rows = start < soonest
            if not rows.any():
                continue
            then = replace(
                table,
                settled=table.settled | 1 << v,
                queue=tuple(entry for entry in table.queue if entry[0] != v),
                free=finishes[v, o],
                busy=np.maximum(start, table.busy) + self.options[v][o].duration,
                steps=((v, o),),
            ).only(rows)
            able: list[int] = []
            self._announce(then, v, self.options[v][o].place, then.free, able)
            self._add(node, then, able)

    def _soonest(self, table: _Table, finishes: dict[int, Integers]) -> Integers:
        """Return when some operator could have run: none needs to start later, because that one may as well go first.

        Only where that puts off the pool, and with it a cut that waits for the pool but not for that operator, the
        other order may be better.
        """
        soonest: Integers = np.minimum.reduce(list(finishes.values()))
        paying = [finish for v, finish in finishes.items() if self.players.pays_before[v]]
        if len(paying) == len(finishes):
            return soonest
        of_paying = np.minimum.reduce(paying) if paying else np.full(len(soonest), NEVER)
        return np.where(table.busy <= table.free, soonest, of_paying)

    def _take(self, table: _Table, v: int, o: int, able: list[int]) -> None:
        """Let an operator join the host's queue with an option, or start at once; add to those that can choose."""
        option = self.options[v][o]
        if host_ticks(option):
            for place in self.places[v] - {HOST}:
                table.ready.pop((v, place), None)
            table.queue = tuple(sorted([*table.queue, (v, o)]))
            return
        start = table.ready[v, option.place]
        if v in self.players.flushing:
            start = np.maximum(start, table.busy)
        finish = start + option.duration
        if v in self.players.flushing:  # all that is left follows it
            table.free = table.busy = finish
        table.settled |= 1 << v
        table.steps = (*table.steps, (v, o))
        self._announce(table, v, option.place, finish, able)

    def _announce(self, table: _Table, v: int, place: str, finish: Integers, able: list[int]) -> None:
        """Tell the operators after `v` when its result is there; add those that can choose now."""
        players = self.players
        for at in self.places[v]:
            table.ready.pop((v, at), None)
        if v in players.pool_after:
            table.busy = table.busy + players.pool_after[v]
        for w, delay in players.outputs[v]:
            for at in self.places[w]:
                there = finish + delay if at != place else finish
                known = table.ready.get((w, at))
                table.ready[w, at] = there if known is None else np.maximum(known, there)
            if not players.needs[w] & ~table.settled:
                able.append(w)
        if not players.outputs[v]:
            table.end = np.maximum(table.end, finish)

    def _add(self, node: _Node | None, table: _Table, able: list[int]) -> None:
        """Let operators without a choice go on; add the labels to their state, in a later layer."""
        while (v := next((v for v in able if len(self.options[v]) == 1), None)) is not None:
            able.remove(v)
            table.crossbars = table.crossbars + self.options[v][0].crossbars
            self._take(table, v, 0, able)
        layer = self.layers[2 * table.settled.bit_count() + len(table.queue)]
        state = State(table.settled, table.queue)
        target = layer.get(state)
        if target is None:
            slots = tuple(sorted(table.ready))
            target = layer[state] = _Node(self.outlook.ahead(state, slots), tuple(sorted(able)))
        columns = [table.crossbars, table.free, table.busy, table.end, *(table.ready[s] for s in target.ahead.slots)]
        columns += [np.zeros_like(table.rows), np.full_like(table.rows, len(target.origins)), table.rows]
        labels = np.array(columns).T
        target.origins.append((node, table.steps))
        self.outlook.raise_columns(target.ahead, labels)
        target.fresh.append(labels)


def refined(
    tables: Tables,
    level: Level,
    labels: dict[int, list[Label]],
    completion: Completion,
    goal: OneBudget,
    *,
    ordered: bool,
) -> Completion | None:
    """Take the options of a result, and perhaps its order, and schedule one by one the fillers that were pooled.

    Parameters
    ----------
    tables : Tables
        The spine.
    level : Level
        The level of the search that gave the result.
    labels : dict of int to list of Label
        What that search began with.
    completion : Completion
        The result.
    goal : OneBudget
        What is worthwhile.
    ordered : bool
        Whether to keep the order on the host.

    Returns
    -------
    Completion or None
        The quickest; None if nothing is worthwhile, or that takes too long.
    """
    finest = level.finest(tables)
    if finest == level:
        return None
    begin = {q: [label for label in some if label is completion.label] for q, some in labels.items()}
    search = Search(tables, finest, goal, begin, script=completion.steps, ordered=ordered, limit=_REFINING)
    try:
        found = search.run(goal.below)
    except SearchLimitError:
        return None
    return found[0] if found else None
