"""Can any schedule end before a bound that the fold of a certificate does not reach? A search that tries to find one.

The fold counts only the host work of fillers. Here fillers are run one by one, among the operators of the spine: what
the fold knows of the blocks before block ``first`` is the beginning, and from there on every order of the host's
operators is tried that could still end early enough.

Read as a game: whenever all operators before v are settled, v chooses its option at once. Off the host (or in no
time) it starts as soon as its inputs are there, which settles it. On the host it joins the queue. When nothing is
left to choose, one operator of the queue runs next on the host, as soon as host and inputs are ready. Every schedule
plays a game that ends no later: let its operators choose what they have chosen, and run in the order in which they
have run. So if no game ends before the bound, no schedule does.

Other fillers, among them all that are released before block ``first``, stay a pool of host work that is done in
pieces while the host waits: ``work_done`` is the earliest time at which a host that never pauses can have done the
pool too, as `certificate` defines ``e``. The work of a filler joins the pool when the last operator before it that
takes part has settled; it must be done before the end of a flushed block starts. All that is left then follows that
end, so the host is free, and has done all work, when it has finished. Dependencies on earlier blocks are left out,
except on the last cut before. With ``first`` = 0, no pool and nothing dropped, nothing is left out, and a game that
ends early refutes the bound.

Three things keep the search small:

- A position is dropped if the blocks that follow, with the work that is left, take too long (`certificate_suffix`),
  also for what long fillers delay (`certificate_outlook`), or the operators that follow a filler. Fillers in the pool
  count there in one piece, as schedules run them, until the cut that releases them has settled.
- Of two positions with the same operators settled and queued, one that is nowhere later makes the other one needless.
- If u could run and finish before v starts, v need not run next. Let a game run v, then others, then u, and move u to
  the front: nothing starts later for that. And ``work_done`` is no later once u has run in both games. It is the
  latest, over the present ``work_done`` and the start of each host operator from now on, of that time plus all work
  from there on: the sums from others lose u's work or stay, and what starts with u is no more than what started with
  v, which was later and had u's work to come as well. Only in between is ``work_done`` later, and it counts only at
  the end of a flushed block, which is never in between: it is comparable with u, and follows it, as u can run. Nor do
  fillers of the pool that are still in one piece get in the way: the cut before them waits for the queue, so they start
  after v.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from operator import le
from typing import NamedTuple, TypeAlias

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate_fold import Label
from cimplan.plan.certificate_outlook import Ahead, Outlook, Players, Situation, Slot, occupies_host
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.certificate_suffix import Soonest, TradeOffs
from cimplan.plan.effort import Effort, TooLargeError

_PATIENCE = 1_000
"""Nodes after which a search tries to play one game to its end; the next time after twice as many."""


_MOST_NUMBERS = 10_000_000
"""Numbers in all positions that wait for their turn: some hundreds of megabytes."""


_SMALL = 64
"""Slots that a node may have for the price of one."""


class Position(NamedTuple):
    """What has come of the choices so far; all times are earliest times.

    Attributes
    ----------
    crossbars : int
        Taken so far.
    host_free : int
        When the host has run all operators settled so far.
    work_done : int
        When it can have done the pool too.
    end : int
        When the last of them has finished.
    ready : tuple of int
        When the inputs settled so far are at hand, for each entry of `Situation.slots`.
    """

    crossbars: int
    host_free: int
    work_done: int
    end: int
    ready: tuple[int, ...]


Layer: TypeAlias = dict[Situation, list[Position]]
"""Positions in which equally many operators have settled."""


@dataclass(slots=True)
class _Table:
    """A position while operators settle."""

    crossbars: int
    host_free: int
    work_done: int
    end: int
    begin: int
    ready: dict[Slot, int]
    settled: int
    queue: tuple[tuple[int, int], ...]


def ends_early(
    parts: Parts, first: int, pooled: AbstractSet[int], labels: dict[int, list[Label]], effort: Effort
) -> int | None:
    """Search for a way to end before the claimed bound.

    Parameters
    ----------
    parts : Parts
        A certificate whose tables have been verified.
    first : int
        The block with which the search begins.
    pooled : set of int
        Fillers released there or later that stay a pool of host work. They must have one option, on the host, without
        crossbars.
    labels : dict of int to list of Label
        Per option of the cut before it, the labels of the fold before the fillers of this block are released.
    effort : Effort
        Positions that may still be looked at; reduced by those that are.

    Returns
    -------
    int or None
        The end of a game that ends before the bound; None if there is none, so that the bound is proven.

    Raises
    ------
    OutOfEffortError
        If that takes too many positions.
    """
    return _Game(parts, first, frozenset(pooled), effort).play(labels)


class _Game:
    def __init__(self, parts: Parts, first: int, pooled: frozenset[int], effort: Effort) -> None:
        self.parts, self.first, self.effort = parts, first, effort
        count = len(parts.problem)  # each has a set of others, and a set of some thousands takes a few steps
        effort.spend_steps(4 * (count + len(parts.problem.dependencies)) * (1 + count // 4000))
        self.options = parts.problem.options
        self.budget = parts.certificate.budget
        self.claimed = parts.certificate.lower_bound
        self.targets = parts.targets if len(parts.targets.steps) > 1 else None
        self.players = Players(parts, first, pooled, effort)
        self.always_occupy = {
            v
            for v in self.players.operators
            if all(option.duration > 0 for option in self.options[v] if option.place == HOST)
        }

    def play(self, labels: dict[int, list[Label]]) -> int | None:
        """Play all games until one ends before the claimed bound; return its end, or None if there is none."""
        soonest = {option: _soonest(some) for option, some in labels.items() if some}
        self.outlook = Outlook(self.players, soonest, self.effort)
        layers: list[Layer] = [{} for _ in range(len(self.players.operators) + 1)]
        numbers = 0
        for situation, position in self._begin(labels):
            layers[situation.settled.bit_count()].setdefault(situation, []).append(position)
            numbers += _numbers(situation)
        patience, pause = _PATIENCE, self.effort.nodes - _PATIENCE
        for settled, layer in enumerate(layers[:-1]):
            if self.effort.nodes < pause:
                end = self._dive(layer)
                if end is not None:
                    return end
                patience *= 2
                pause = self.effort.nodes - patience
            for situation, positions in layer.items():
                for position in undominated(positions, self.effort):
                    for then, new in self._moves(situation, position):
                        layers[then.settled.bit_count()].setdefault(then, []).append(new)
                        numbers += _numbers(then)
                    if numbers > _MOST_NUMBERS:
                        raise TooLargeError
            numbers -= sum(len(positions) * _numbers(situation) for situation, positions in layer.items())
            layer.clear()
            self.outlook.forget(settled)
        return min((position.end for some in layers[-1].values() for position in some), default=None)

    def _dive(self, layer: Layer) -> int | None:
        """Play one game from the most promising position on; return its end if that is before the claimed bound.

        Where the pool hides too much, that is soon known, and need not wait for all games to be played.
        """
        moves: Iterable[tuple[Situation, Position]]
        moves = [(situation, min(positions, key=_end)) for situation, positions in layer.items()]
        while True:
            best = min(((self._bound(*then), then) for then in moves), default=None)
            if best is None:
                return None
            situation, position = best[1]
            if situation.settled == self.players.everything:
                return position.end
            moves = self._moves(situation, position)

    def _begin(self, labels: dict[int, list[Label]]) -> Iterator[tuple[Situation, Position]]:
        """Yield the positions in which the first move is due."""
        start = self.parts.boundary(self.first)[0]
        work = sum(self.players.pool_after.get(-1, {}).values())
        for cut_option, some in labels.items():
            place = "" if start is None else self.options[start][cut_option].place
            for label in some:
                ready: dict[Slot, int] = {}
                for v in self.players.operators:
                    transfer = self.parts.transfer(start, v)
                    if transfer is not None:
                        for at in {option.place for option in self.options[v]}:
                            ready[v, at] = label.time + (transfer if at != place else 0)
                done = label.host_free + work
                table = _Table(label.crossbars, label.time, done, label.time, label.time, ready, 0, ())
                yield from self._settle(table, [v for v in self.players.operators if not self.players.needs[v]])

    def _moves(self, situation: Situation, position: Position) -> Iterator[tuple[Situation, Position]]:
        """Yield the positions after each operator of the queue has run next."""
        ready = dict(zip(situation.slots, position.ready, strict=True))
        starts = {}
        for v, o in situation.queue:
            start = ready[v, HOST]
            starts[v, o] = max(start, position.work_done) if v in self.players.flushing else start
        soonest = min((start + self.options[v][o].duration for (v, o), start in starts.items()), default=0)
        for (v, o), start in starts.items():
            if start >= soonest:  # what could run and finish before this one starts may as well do so
                continue
            option = self.options[v][o]
            finish = start + option.duration
            table = _Table(
                position.crossbars,
                finish,
                max(start, position.work_done) + option.duration,
                position.end,
                0,
                dict(ready),
                situation.settled | 1 << v,
                tuple(entry for entry in situation.queue if entry[0] != v),
            )
            yield from self._settle(table, self._announce(table, v, option, finish))

    def _settle(self, table: _Table, able: list[int]) -> Iterator[tuple[Situation, Position]]:
        """Let operators choose until none is left that can; yield each outcome that may end early."""
        open_tables = [(table, able)]
        while open_tables:
            table, able = open_tables.pop()
            self.effort.spend(1 + len(table.ready) // _SMALL)
            if not able:
                outcome = self._outcome(table)
                if outcome is not None:
                    yield outcome
                continue
            *others, v = able
            for o, option in enumerate(self.options[v]):
                crossbars = table.crossbars + option.crossbars
                if crossbars > self.budget:
                    continue
                then = replace(table, crossbars=crossbars, ready=dict(table.ready))
                if occupies_host(option):
                    for place in {other.place for other in self.options[v]} - {HOST}:
                        then.ready.pop((v, place), None)
                    then.queue = (*table.queue, (v, o))
                    open_tables.append((then, others))
                    continue
                start = max(table.ready.get((v, option.place), 0), table.begin)
                if v in self.players.flushing:
                    start = max(start, table.work_done)
                finish = start + option.duration
                if v in self.players.flushing:  # all that is left follows it
                    then.host_free = then.work_done = finish
                then.settled |= 1 << v
                open_tables.append((then, others + self._announce(then, v, option, finish)))

    def _announce(self, table: _Table, v: int, option: Option, finish: int) -> list[int]:
        """Tell the operators after v when its result is at hand; return those that can choose now."""
        for place in {other.place for other in self.options[v]}:
            table.ready.pop((v, place), None)
        if v in self.players.pool_after:
            table.work_done += sum(self.players.pool_after[v].values())
        if not self.players.outputs[v]:
            table.end = max(table.end, finish)
        able = []
        for w, transfer in self.players.outputs[v]:
            for place in {other.place for other in self.options[w]}:
                at_hand = finish + (transfer if place != option.place else 0)
                table.ready[w, place] = max(table.ready.get((w, place), 0), at_hand)
            if not self.players.needs[w] & ~table.settled:
                able.append(w)
        return able

    def _outcome(self, table: _Table) -> tuple[Situation, Position] | None:
        """Return where a game stands, None if it cannot end before the claimed bound."""
        free = table.host_free
        for v, _ in table.queue:
            table.ready[v, HOST] = max(table.ready.get((v, HOST), 0), free)
        slots = tuple(sorted(table.ready))
        ready = tuple(
            max(table.ready[slot], free) if slot[1] == HOST and slot[0] in self.always_occupy else table.ready[slot]
            for slot in slots
        )
        situation = Situation(table.settled, tuple(sorted(table.queue)), slots)
        ahead = self.outlook.ahead(situation)
        busy = table.work_done + ahead.work
        end = max(table.end, busy)  # raised to what it will be, so that positions do not differ in vain
        claimed = self.claimed if self.targets is None else self.targets.below(table.crossbars)
        if end >= claimed or any(min(ready[at] + ticks for at, ticks in ways) >= claimed for ways in ahead.fillers):
            return None
        position = Position(table.crossbars, free, table.work_done, end, ready)
        taken = table.crossbars - ahead.refund
        if self.targets is not None:
            for begins in _begins(ahead, position):
                if all(after.allow_some(self.targets, taken, start, busy) for start, after in begins):
                    return situation, position
            return None
        left = self.budget - taken
        for begins in _begins(ahead, position):
            if all(after.allow(left, self.claimed - start, self.claimed - busy) for start, after in begins):
                return situation, position
        return None

    def _bound(self, situation: Situation, position: Position) -> int:
        """Return the least end that may come of a position."""
        ahead = self.outlook.ahead(situation)
        left = self.budget - position.crossbars + ahead.refund
        busy = position.work_done + ahead.work
        ends = [max(after.end(left, start, busy) for start, after in begins) for begins in _begins(ahead, position)]
        return max(position.end, min(ends))


def _end(position: Position) -> int:
    return position.end


def _begins(ahead: Ahead, position: Position) -> Iterator[list[tuple[int, TradeOffs]]]:
    """Yield, for each option of the end of the current block, when it may start, and what is left from there.

    There are two views of it if operators before it must still choose: with their host work, and with the ways to it.
    Both hold.
    """
    delay = _delay(ahead, position)
    soonest = position.host_free + ahead.work_before_end + delay
    for paths, after, apart in ahead.ends:
        start = delay + max((min(position.ready[at] + ticks for at, ticks in ways) for ways in paths), default=0)
        yield [(max(start, soonest), after)] if apart is after else [(soonest, after), (start, apart)]


def _delay(ahead: Ahead, position: Position) -> int:
    """Return by how much fillers delay the spine; less than nothing if it takes away from what the trade-offs hold."""
    later, now, chosen, wait = ahead.delays
    if not now and not chosen:
        return later
    begun = max((position.ready[at] + ticks for at, ticks in ahead.begun), default=0) - position.host_free
    now -= max(0, begun - wait)
    return later + (now if chosen else max(0, now))


def _soonest(labels: Iterable[Label]) -> Soonest:
    """Return the least of each number of some labels."""
    return Soonest(
        min(label.crossbars for label in labels),
        min(label.time for label in labels),
        min(label.host_free for label in labels),
    )


def _numbers(situation: Situation) -> int:
    """Return how much memory a position takes, in numbers; what its situation takes is in it."""
    return 50 + len(situation.slots)


def undominated(positions: Iterable[Position], effort: Effort) -> list[Position]:
    """Return the positions of a situation that no other one matches or beats in everything.

    Raises
    ------
    OutOfEffortError
        If there are too many to compare them with one another.
    """
    kept: list[Position] = []
    for position in sorted(set(positions)):  # whatever beats a position comes before it
        effort.spend_steps(len(kept) // 8)
        if not any(
            other[0] <= position[0]
            and other[1] <= position[1]
            and other[2] <= position[2]
            and other[3] <= position[3]
            and all(map(le, other.ready, position.ready))
            for other in kept
        ):
            kept.append(position)
    return kept
