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
takes part has settled; it must be done before a cut starts if nothing in the pool may come after that cut.
Dependencies on earlier blocks are left out, except on the last cut before. With ``first`` = 0, no pool and nothing
dropped, nothing is left out, and a game that ends early refutes the bound.

Two things keep the search small. A position is dropped if the blocks that follow take too long (`certificate_suffix`),
or the operators that follow, or the host work that is left. And of two positions with the same operators settled and
queued, one that is nowhere later makes the other one needless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import le
from typing import NamedTuple

from cimplan.cost.problem import HOST, Option
from cimplan.plan.block_search import Effort
from cimplan.plan.certificate_fold import Label
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.certificate_suffix import NOTHING, Steps, Suffix, suffix


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
        When the inputs settled so far are at hand, for each entry of `_Situation.slots`.
    """

    crossbars: int
    host_free: int
    work_done: int
    end: int
    ready: tuple[int, ...]


Slot = tuple[int, str]
"""An operator and a place where it may yet run."""


class _Situation(NamedTuple):
    """What positions have in common.

    Attributes
    ----------
    settled : int
        The operators that have started, as bits.
    queue : tuple of (int, int)
        Operators in the host's queue, and their options; sorted.
    slots : tuple of (int, str)
        What `Position.ready` is about; sorted.
    """

    settled: int
    queue: tuple[tuple[int, int], ...]
    slots: tuple[Slot, ...]


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


_Ways = list[tuple[int, int]]
"""(index into `Position.ready`, further ticks) of each way in which an operator may go on."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What every position of a situation still has before it.

    Attributes
    ----------
    work : int
        Ticks of host work without a choice.
    choices : Steps
        Ticks of host work that depends on choices, and on the blocks that follow.
    spine : list of (list of ways, Steps)
        For each option of the end of the current block: how soon each of its operators lets that end start, and the
        ticks from there.
    fillers : list of ways
        How soon the end may come after each filler that waits.
    refund : int
        Crossbars already counted that `choices` and `spine` count again.
    """

    work: int
    choices: Steps
    spine: list[tuple[list[_Ways], Steps]]
    fillers: list[_Ways]
    refund: int


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
        Fillers released there or later that stay a pool of host work. They must have one option, on the host.
    labels : dict of int to list of Label
        Per option of the cut before it, the labels of the fold before the fillers of this block are released.
    effort : Effort
        Positions that may still be looked at; reduced by those that are.

    Returns
    -------
    int or None
        The end of the best game that ends before the bound; None if there is none, so that the bound is proven.

    Raises
    ------
    OutOfEffortError
        If that takes too many positions.
    """
    return _Game(parts, first, frozenset(pooled), effort).play(labels)


@dataclass
class _Game:
    parts: Parts
    first: int
    pooled: frozenset[int]
    effort: Effort
    spine: dict[int, int] = field(init=False)
    """Block of each operator of the spine that takes part."""

    def __post_init__(self) -> None:
        parts, first = self.parts, self.first
        self.options = parts.problem.options
        self.budget = parts.certificate.budget
        self.claimed = parts.certificate.lower_bound
        blocks = range(first, len(parts.members))
        self.spine = {v: number for number in blocks for v in parts.members[number]}
        fillers = {v for group in parts.groups if group.released >= first for v in group.operators}
        self.fillers = sorted(fillers - self.pooled)
        self.taking_part = sorted([*self.spine, *self.fillers])
        everything = sum(1 << v for v in self.taking_part)
        self.everything = everything
        self.needs = {v: parts.before(v) & everything for v in self.taking_part}
        self.outputs = self._dependencies()
        self.pool_after, self.flushing = self._pool(everything)
        self.suffix: Suffix = suffix(parts, first)
        self.ends = {k: self._end(k) for k in blocks}
        self.within = self._tails_within()
        self.whole = self._tails()
        self.always_occupy = {
            v
            for v in self.taking_part
            if all(option.duration > 0 for option in self.options[v] if option.place == HOST)
        }
        self.ahead_of: dict[_Situation, _Ahead] = {}
        self.choices_of: dict[tuple[int | None, tuple[int, ...], tuple[int, ...]], Steps] = {}

    # --- what is known before the first move ------------------------------------------------------------------

    def _dependencies(self) -> dict[int, list[tuple[int, int]]]:
        """Return the operators after each one, with transfers; a path through others that take no part has none."""
        inputs: dict[int, list[tuple[int, int]]] = {v: [] for v in self.taking_part}
        outputs: dict[int, list[tuple[int, int]]] = {v: [] for v in self.taking_part}
        for edge in self.parts.problem.dependencies:
            if edge.source in outputs and edge.target in inputs:
                inputs[edge.target].append((edge.source, edge.transfer))
        for v in self.taking_part:
            missing = self.needs[v]
            for u, _ in inputs[v]:
                missing &= ~(self.needs[u] | 1 << u)
            while missing:
                u = missing.bit_length() - 1
                inputs[v].append((u, 0))
                missing &= ~(self.needs[u] | 1 << u)
            for u, transfer in inputs[v]:
                outputs[u].append((v, transfer))
        return outputs

    def _pool(self, everything: int) -> tuple[dict[int, int], set[int]]:
        """Return the work that joins the pool after each operator (-1: at once), and the cuts it must not pass."""
        parts = self.parts
        after: dict[int, int] = {}
        latest = [(-1, group.due) for group in parts.groups if group.released < self.first]
        for v in self.pooled:
            before = (parts.before(v) & everything).bit_length() - 1
            after[before] = after.get(before, 0) + host_time(self.options[v][0])
            latest.append((before, parts.due(v)))
        flushing = {
            cut
            for number, cut in enumerate(parts.certificate.cuts)
            if all(due <= number or u == cut or (u >= 0 and parts.precedes(cut, u)) for u, due in latest)
        }
        return after, flushing

    def _end(self, number: int) -> tuple[list[Steps], list[Steps]]:
        end = self.parts.boundary(number)[1]
        return self.suffix.ends(number, None if end is None else self.options[end])

    def _tails_within(self) -> dict[int, list[list[int]]]:
        """Return, per spine operator, option of its block's end, and own option, least ticks until that end starts."""
        tails: dict[int, list[list[int]]] = {}
        for v in reversed(self.taking_part):
            if v not in self.spine:
                continue
            end = self.parts.boundary(self.spine[v])[1]
            ends: Sequence[Option | None] = [None] if end is None else self.options[end]
            tails[v] = [
                [
                    0
                    if v == end
                    else option.duration
                    + max(
                        (
                            transfer * (end_option is not None and end_option.place != option.place)
                            if w == end
                            else self._least_after(option, transfer, w, tails[w][b])
                            for w, transfer in self.outputs[v]
                            if self.spine.get(w) == self.spine[v]
                        ),
                        default=0,
                    )
                    for option in self.options[v]
                ]
                for b, end_option in enumerate(ends)
            ]
        return tails

    def _tails(self) -> dict[int, list[int]]:
        """Return, per operator and option, the least ticks from its start to the end of all that follow it."""
        tails: dict[int, list[int]] = {}
        for v in reversed(self.taking_part):
            tails[v] = [
                option.duration
                + max((self._least_after(option, transfer, w, tails[w]) for w, transfer in self.outputs[v]), default=0)
                for option in self.options[v]
            ]
        return tails

    def _least_after(self, option: Option, transfer: int, w: int, tails: Sequence[int]) -> int:
        """Return the least ticks from the finish of an option to what the tails of an operator after it lead to."""
        return min(
            tail + (transfer if other.place != option.place else 0)
            for tail, other in zip(tails, self.options[w], strict=True)
        )

    # --- the game ---------------------------------------------------------------------------------------------

    def play(self, labels: dict[int, list[Label]]) -> int | None:
        """Play all games; return the least end before the claimed bound."""
        layers: list[dict[_Situation, list[Position]]] = [{} for _ in range(len(self.taking_part) + 1)]
        for situation, position in self._begin(labels):
            layers[situation.settled.bit_count()].setdefault(situation, []).append(position)
        for layer in layers:
            for situation, positions in layer.items():
                if situation.settled == self.everything:
                    continue
                for position in undominated(positions):
                    for then, new in self._moves(situation, position):
                        layers[then.settled.bit_count()].setdefault(then, []).append(new)
        return min((position.end for some in layers[-1].values() for position in some), default=None)

    def _begin(self, labels: dict[int, list[Label]]) -> Iterator[tuple[_Situation, Position]]:
        """Yield the positions in which the first move is due."""
        start = self.parts.boundary(self.first)[0]
        crossbars = sum(self.options[v][0].crossbars for v in self.pooled)
        work = self.pool_after.get(-1, 0)
        for cut_option, some in labels.items():
            place = "" if start is None else self.options[start][cut_option].place
            for label in some:
                ready: dict[Slot, int] = {}
                for v in self.taking_part:
                    transfer = self.parts.transfer(start, v)
                    if transfer is not None:
                        for at in {option.place for option in self.options[v]}:
                            ready[v, at] = label.time + (transfer if at != place else 0)
                taken, done = label.crossbars + crossbars, label.host_free + work
                table = _Table(taken, label.time, done, label.time, label.time, ready, 0, ())
                yield from self._settle(table, [v for v in self.taking_part if not self.needs[v]])

    def _moves(self, situation: _Situation, position: Position) -> Iterator[tuple[_Situation, Position]]:
        """Yield the positions after each operator of the queue has run next."""
        ready = dict(zip(situation.slots, position.ready, strict=True))
        starts = {}
        for v, o in situation.queue:
            start = ready[v, HOST]
            starts[v, o] = max(start, position.work_done) if v in self.flushing else start
        soonest = min((start + self.options[v][o].duration for (v, o), start in starts.items()), default=0)
        for (v, o), start in starts.items():
            # Without a pool, what could run and finish before this one starts may as well do so.
            if start >= soonest and position.work_done <= position.host_free:
                continue
            option = self.options[v][o]
            finish = start + option.duration
            table = _Table(
                position.crossbars,
                finish,
                max(start, position.work_done) + option.duration,
                max(position.end, finish),
                0,
                dict(ready),
                situation.settled | 1 << v,
                tuple(entry for entry in situation.queue if entry[0] != v),
            )
            yield from self._settle(table, self._announce(table, v, option, finish))

    def _settle(self, table: _Table, able: list[int]) -> Iterator[tuple[_Situation, Position]]:
        """Let operators choose until none is left that can; yield each outcome that may end early."""
        open_tables = [(table, able)]
        while open_tables:
            table, able = open_tables.pop()
            self.effort.spend()
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
                if v in self.flushing:
                    start = max(start, table.work_done)
                finish = start + option.duration
                then.end = max(table.end, finish)
                then.settled |= 1 << v
                open_tables.append((then, others + self._announce(then, v, option, finish)))

    def _announce(self, table: _Table, v: int, option: Option, finish: int) -> list[int]:
        """Tell the operators after v when its result is at hand; return those that can choose now."""
        for place in {other.place for other in self.options[v]}:
            table.ready.pop((v, place), None)
        table.work_done += self.pool_after.get(v, 0)
        able = []
        for w, transfer in self.outputs[v]:
            for place in {other.place for other in self.options[w]}:
                at_hand = finish + (transfer if place != option.place else 0)
                table.ready[w, place] = max(table.ready.get((w, place), 0), at_hand)
            if not self.needs[w] & ~table.settled:
                able.append(w)
        return able

    def _outcome(self, table: _Table) -> tuple[_Situation, Position] | None:
        """Return where a game stands, None if it cannot end before the claimed bound."""
        free = table.host_free
        for v, _ in table.queue:
            table.ready[v, HOST] = max(table.ready.get((v, HOST), 0), free)
        slots = tuple(sorted(table.ready))
        ready = tuple(
            max(table.ready[slot], free) if slot[1] == HOST and slot[0] in self.always_occupy else table.ready[slot]
            for slot in slots
        )
        situation = _Situation(table.settled, tuple(sorted(table.queue)), slots)
        end = max(table.end, table.work_done)
        ahead = self._ahead(situation)
        left = self.budget - table.crossbars + ahead.refund
        if (
            end >= self.claimed
            or table.work_done + ahead.work + ahead.choices.at(left) >= self.claimed
            or any(min(ready[at] + ticks for at, ticks in ways) >= self.claimed for ways in ahead.fillers)
        ):
            return None
        for paths, then in ahead.spine:
            # Where all of them wait for fillers that wait, only the bound of these counts.
            start = max((min(ready[at] + ticks for at, ticks in ways) for ways in paths), default=0)
            if start + then.at(left) < self.claimed:
                break
        else:
            if ahead.spine:
                return None
        return situation, Position(table.crossbars, free, table.work_done, end, ready)

    # --- what is left of it -----------------------------------------------------------------------------------

    def _ahead(self, situation: _Situation) -> _Ahead:
        if situation not in self.ahead_of:
            self.ahead_of[situation] = self._look_ahead(situation)
        return self.ahead_of[situation]

    def _look_ahead(self, situation: _Situation) -> _Ahead:
        left = [v for v in self.taking_part if not situation.settled >> v & 1]
        queued = dict(situation.queue)
        index = {slot: position for position, slot in enumerate(situation.slots)}
        number = min((self.spine[v] for v in left if v in self.spine), default=None)
        end = None if number is None else self.parts.boundary(number)[1]
        times = [] if number is None else self.ends[number][0]
        end_options = [b for b in range(len(times)) if end not in queued or queued[end] == b]

        work, flexible = sum(self.pool_after.get(v, 0) for v in left), []
        for v in left:
            if v == end or self.spine.get(v, number) != number:
                continue
            if v in queued:
                work += self.options[v][queued[v]].duration
            elif len(self.options[v]) == 1 and not self.options[v][0].crossbars:
                work += host_time(self.options[v][0])
            else:
                flexible.append(v)
        choices = self._choices(number, tuple(flexible), tuple(end_options))

        waiting = sorted({v for v, _ in situation.slots})

        def ways(v: int, ticks: Sequence[int], options: Iterable[int]) -> _Ways:
            return [
                (index[v, self.options[v][o].place], ticks[o])
                for o in options
                if (v, self.options[v][o].place) in index and queued.get(v, o) == o
            ]

        spine = []
        for b in end_options:
            paths = [
                ways(v, self.within[v][b], [b] if v == end else range(len(self.options[v])))
                for v in waiting
                if self.spine.get(v) == number
            ]
            spine.append((paths, times[b]))
        fillers = [ways(v, self.whole[v], range(len(self.options[v]))) for v in waiting if v not in self.spine]
        refund = self.options[end][queued[end]].crossbars if end is not None and end in queued else 0
        return _Ahead(work, choices, spine, fillers, refund)

    def _choices(self, number: int | None, flexible: tuple[int, ...], end_options: tuple[int, ...]) -> Steps:
        """Return the least host work of operators with a choice, of the end of the block, and of all blocks after."""
        key = (number, flexible, end_options)
        if key not in self.choices_of:
            if flexible:
                rest = self._choices(number, flexible[1:], end_options)
                pairs = (
                    pair
                    for option in self.options[flexible[0]]
                    for pair in rest.after(option.crossbars, host_time(option))
                )
                self.choices_of[key] = Steps.least(pairs)
            elif number is None:
                self.choices_of[key] = NOTHING
            else:
                loads = self.ends[number][1]
                self.choices_of[key] = Steps.least(pair for b in end_options for pair in loads[b].steps)
        return self.choices_of[key]


def undominated(positions: Iterable[Position]) -> list[Position]:
    """Return the positions of a situation that no other one matches or beats in everything."""
    kept: list[Position] = []
    for position in sorted(set(positions)):  # whatever beats a position comes before it
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


def host_time(option: Option) -> int:
    """Return the ticks that an option takes the host."""
    return option.duration if option.place == HOST else 0


def occupies_host(option: Option) -> bool:
    """Tell whether an option keeps others from the host."""
    return host_time(option) > 0
