"""Closing the gap: every order of the host's operators that could still beat the best schedule, without repetition.

Where the fold of blocks falls short of the best schedule, it matters in which order fillers and spine share the host.
This search schedules them one by one, from the block in which they first meet. A state says which operators have
started and which are queued for the host; its labels are partial schedules.

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
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cimplan.cost.problem import HOST
from cimplan.partition.clock import watch
from cimplan.partition.fold import Label
from cimplan.partition.goal import NEVER, Goal, OneBudget
from cimplan.partition.labels import Move, Node, Partial, Step, Table
from cimplan.partition.outlook import CROSSBARS, END, Outlook, State
from cimplan.partition.players import Level, Players, host_ticks
from cimplan.partition.structure import as_set
from cimplan.partition.suffix import Suffix
from cimplan.partition.tables import Tables

LABEL_LIMIT = 1_000_000
"""Labels after which the search gives up."""

_NUMBERS = 40_000_000
"""Numbers that labels and states may hold until the search gives up: about two gigabytes."""

_OVERHEAD = 10
"""What a label takes beside its numbers, in numbers."""

_STATE = 100
"""What a state takes, in numbers."""

_DIVES = 2
"""Dives before a search that find nothing."""

_PATIENCE = 1_000
"""Labels after which a search dives again."""

_SCOUTS = ((3, 16), (20, 8))
"""States of each layer, and labels of each, that scouts follow; the second if the first find nothing."""

_REFINING = 40_000
"""Labels that putting pooled fillers in order may take."""


class SearchLimitError(Exception):
    """The search needs too many labels; caught inside the exact method."""


class Completion(NamedTuple):
    """A way to the end: what it takes, the label it began with, and which operator started next, again and again."""

    makespan: int
    crossbars: int
    label: Label
    steps: tuple[Step, ...]


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
    like : Search, optional
        A search from the same block on, of which nothing better than its goal is wanted: what it knows of the blocks
        that follow is taken over.
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
        like: Search | None = None,
    ) -> None:
        self.options = tables.network.problem.options
        self.players = Players(tables, level)
        self.goal, self.limit = goal, limit
        self.count = 0
        self.held = 0
        self.ends: list[Partial] = []
        self.chosen = dict(script)
        on_host = [v for v, o in script if ordered and host_ticks(self.options[v][o])]
        self.turn = {v: as_set(on_host[:place]) for place, v in enumerate(on_host)}
        # Each choice and each start leads to a later layer: operators that have started count twice, queued ones once.
        self.layers: list[dict[State, Node]] = [{} for _ in range(2 * len(self.players.operators) + 1)]
        self.places = {v: frozenset(option.place for option in self.options[v]) for v in self.players.operators}
        begun = [label for some in labels.values() for label in some]
        if not begun:
            return
        self.outlook: Outlook
        if like is not None:
            self.outlook = Outlook(self.players, like.outlook.suffix, like.outlook.following)
        else:
            latest = goal.latest(min(label.crossbars for label in begun))
            suffix = Suffix(
                tables,
                level.first,
                latest - min(label.time for label in begun),
                latest - min(label.busy for label in begun) - self.players.least_filler_work(),
            )
            self.outlook = Outlook(self.players, suffix)
        for q, some in labels.items():
            for label in some:
                self._begin(q, label)

    def least(self) -> int:
        """Return the least rank of what has not been followed: there is nothing of a lesser one."""
        nodes = [node for layer in self.layers for node in layer.values()]
        return min([node.rank(self.outlook, self.goal) for node in nodes], default=NEVER)

    def run(self, below: int, pause: Callable[[int], int] | None = None) -> list[Completion]:
        """Search for all schedules of a rank below some number.

        Parameters
        ----------
        below : int
            In terms of the goal's ranks; at least as much as the last time.
        pause : callable, optional
            Called from time to time with the labels so far, to look for something better in another way; returns the
            rank below which there may be more to find.

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
        longest, patience = self.count + _PATIENCE, _PATIENCE
        for layer in self.layers[:-1]:
            for state, node in list(layer.items()):
                node.rank(self.outlook, self.goal)
                self._follow(state, node, node.take(below))
                if self.count > longest:
                    below = self._dive(below, 1)
                    if pause is not None:
                        below = min(below, pause(self.count))
                    patience *= 2
                    longest = self.count + patience
        return self._found(asked)

    def scout(self, below: int) -> list[Completion]:
        """Look for something of a rank below some number without looking everywhere; return it as `run` does."""
        for states, labels in _SCOUTS:
            self._descend(below, states, labels)
            found = self._found(below)
            if self._improved(found):
                return found
        return []

    def reached(self) -> list[Completion]:
        """Return what has been found so far, the quickest first."""
        return self._found(NEVER)

    def _dive(self, below: int, rounds: int) -> int:
        """Follow only the most promising labels at each depth, again and again as long as that finds something.

        Where very much is worthwhile, that finds a good schedule, beside which little else is worthwhile. What has
        been followed need not be followed again. Returns the rank below which there may be more to find.
        """
        while rounds:
            self._descend(below, 1, self.goal.divers)
            if self._improved(self._found(below)):
                below = min(below, self.goal.most)
            else:
                rounds -= 1
        return below

    def _improved(self, found: list[Completion]) -> bool:
        """Ask only for what beats results, too; return whether that asks for less."""
        if not self.goal.improve((completion.makespan, completion.crossbars) for completion in found):
            return False
        if self.goal.ranks_change:
            for layer in self.layers:
                for node in layer.values():
                    node.fresh += node.waiting
                    node.waiting, node.least = [], NEVER
        return True

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

    def _follow(self, state: State, node: Node, labels: list[Partial]) -> None:
        """Let the next operator of some labels choose, or each operator of the queue run."""
        if not labels:
            return
        self.count += len(labels)
        if self.count > self.limit or self.held + self.outlook.held > _NUMBERS:
            raise SearchLimitError
        watch(self.goal.deadline)
        if not node.able and not node.moves:
            node.moves = self._moves(state)
        follow = self._choose if node.able else self._start
        targets: dict[Step, Node] = {}
        for label in labels:
            follow(state, node, label, targets)

    def _found(self, below: int) -> list[Completion]:
        """Return the ends that have been reached."""
        best: dict[int, Partial] = {}
        for node in self.layers[-1].values():
            node.rank(self.outlook, self.goal)
            self.ends += node.take(below)
        for label in self.ends:
            crossbars, end = label.numbers[CROSSBARS], label.numbers[END]
            if label.rank < below and (crossbars not in best or end < best[crossbars].numbers[END]):
                best[crossbars] = label
        found: list[Completion] = []
        for _, label in sorted(best.items()):
            if not found or label.numbers[END] < found[-1].makespan:
                found.append(_completion(label))
        return sorted(found, key=lambda completion: completion[:2])

    # --- the beginning and the end ---------------------------------------------------------------------------

    def _begin(self, option: int, label: Label) -> None:
        """Begin with a label of the fold, the cut before the first block having an option."""
        players, start = self.players, self.players.start
        able = [v for v in players.operators if not players.needs[v]]
        place = None if start is None else self.options[start][option].place
        delay = {v: players.from_start.get(v, 0) for v in {*able, *players.from_start}}
        time = label.time
        ready = {(v, at): time + (ticks if at != place else 0) for v, ticks in delay.items() for at in self.places[v]}
        busy = label.busy + players.pool_after.get(-1, 0)
        self._add(Table(0, (), label.crossbars, time, busy, time, ready), able, label, {}, (-1, option))

    # --- one operator after another --------------------------------------------------------------------------

    def _table(self, state: State, node: Node, label: Partial) -> Table:
        crossbars, free, busy, end, *ready = label.numbers
        slots = dict(zip(node.ahead.slots, ready))  # noqa: B905 - the checks would take longer than the rest
        return Table(state.settled, state.queue, crossbars, free, busy, end, slots)

    def _choose(self, state: State, node: Node, label: Partial, targets: dict[Step, Node]) -> None:
        """Let the first operator that can choose its option do so, in every way."""
        v, *others = node.able
        for o, option in enumerate(self.options[v]):
            if self.chosen.get(v, o) != o:
                continue
            then = self._table(state, node, label)
            then.crossbars += option.crossbars
            able = [*others]
            self._take(then, v, o, able)
            self._add(then, able, label, targets, (v, o))

    def _start(self, state: State, node: Node, label: Partial, targets: dict[Step, Node]) -> None:
        """Let each operator of the queue run next."""
        table = self._table(state, node, label)
        ready, free, busy = table.ready, table.free, table.busy
        # What could run and end before another one starts may as well go first. Only where that puts off the pool,
        # and with it a cut that waits for the pool but not for that operator, the other order may be better.
        soonest = NEVER
        starts = []
        for move in node.moves:
            start = ready[move.slot]
            if move.flushes and start < busy:
                start = busy
            starts.append(start)
            finish = start + move.duration
            if finish < soonest and (move.pays or busy <= free):
                soonest = finish
        for move, start in zip(node.moves, starts, strict=True):
            if start >= soonest:
                continue
            finish = start + move.duration
            done = finish if start > busy else busy + move.duration
            then = Table(move.settled, move.queue, table.crossbars, finish, done, table.end, ready.copy(), (move.step,))
            able: list[int] = []
            self._announce(then, move.step[0], HOST, finish, able)
            self._add(then, able, label, targets, move.step)

    def _moves(self, state: State) -> list[Move]:
        """Return what each operator of the queue does when it runs next, if it is its turn."""
        return [
            Move(
                (v, o),
                (v, HOST),
                self.options[v][o].duration,
                v in self.players.flushing,
                self.players.pays_before[v],
                state.settled | 1 << v,
                tuple(entry for entry in state.queue if entry[0] != v),
            )
            for v, o in state.queue
            if not self.turn.get(v, 0) & ~state.settled
        ]

    def _take(self, table: Table, v: int, o: int, able: list[int]) -> None:
        """Let an operator join the host's queue with an option, or start at once; add to those that can choose."""
        option = self.options[v][o]
        if host_ticks(option):
            for place in self.places[v]:
                if place != HOST:
                    table.ready.pop((v, place), None)
            table.queue = tuple(sorted([*table.queue, (v, o)]))
            return
        start = table.ready[v, option.place]
        if v in self.players.flushing:
            start = max(start, table.busy)
        finish = start + option.duration
        if v in self.players.flushing:  # all that is left follows it
            table.free = table.busy = finish
        table.settled |= 1 << v
        table.steps = (*table.steps, (v, o))
        self._announce(table, v, option.place, finish, able)

    def _announce(self, table: Table, v: int, place: str, finish: int, able: list[int]) -> None:
        """Tell the operators after `v` when its result is there; add those that can choose now."""
        players, ready = self.players, table.ready
        for at in self.places[v]:
            ready.pop((v, at), None)
        table.busy += players.pool_after.get(v, 0)
        for w, delay in players.outputs[v]:
            for at in self.places[w]:
                there = finish + delay if at != place else finish
                if there > ready.get((w, at), -1):
                    ready[w, at] = there
            if not players.needs[w] & ~table.settled:
                able.append(w)
        if finish > table.end and not players.outputs[v]:
            table.end = finish

    def _add(
        self, table: Table, able: list[int], parent: Partial | Label, targets: dict[Step, Node], step: Step
    ) -> None:
        """Let operators without a choice go on; add the label to its state, in a later layer.

        All labels of a state come to the same one by the same step: `targets` remembers which.
        """
        at = 0
        while at < len(able):
            v = able[at]
            if len(self.options[v]) == 1:
                del able[at]
                table.crossbars += self.options[v][0].crossbars
                self._take(table, v, 0, able)
            else:
                at += 1
        target = targets.get(step)
        if target is None:
            layer = self.layers[2 * table.settled.bit_count() + len(table.queue)]
            state = State(table.settled, table.queue)
            target = layer.get(state)
            if target is None:
                ahead = self.outlook.ahead(state, table.ready)
                target = layer[state] = Node(ahead, tuple(sorted(able)))
                self.held += _STATE
            targets[step] = target
        ahead, ready, free = target.ahead, table.ready, table.free
        # Nothing ends before all work is done; less than that makes no difference.
        end = max(table.end, table.busy + ahead.work)
        if end >= self.goal.most:
            return
        self.held += _OVERHEAD + len(ahead.inputs)
        inputs = [free if on_host and ready[slot] < free else ready[slot] for slot, on_host in ahead.inputs]
        target.fresh.append(Partial((table.crossbars, free, table.busy, end, *inputs), parent, table.steps))


def _completion(label: Partial) -> Completion:
    """Return how a label of the end came about."""
    steps: list[Step] = []
    at: Partial | Label = label
    while isinstance(at, Partial):
        steps[:0] = at.steps
        at = at.parent
    return Completion(label.numbers[END], label.numbers[CROSSBARS], at, tuple(steps))


def refined(
    tables: Tables,
    search: Search,
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
    search : Search
        The search that gave the result.
    labels : dict of int to list of Label
        What that search began with.
    completion : Completion
        The result.
    goal : OneBudget
        What is worthwhile; no more than was for that search.
    ordered : bool
        Whether to keep the order on the host.

    Returns
    -------
    Completion or None
        The quickest; None if nothing is worthwhile, or that takes too long.
    """
    level = search.players.level
    finest = level.finest(tables)
    if finest == level:
        return None
    begin = {q: [label for label in some if label is completion.label] for q, some in labels.items()}
    finer = Search(tables, finest, goal, begin, script=completion.steps, ordered=ordered, limit=_REFINING, like=search)
    try:
        found = [] if ordered else finer.scout(goal.below)
        found = found or finer.run(goal.below)
    except SearchLimitError:
        return None
    return found[0] if found else None
