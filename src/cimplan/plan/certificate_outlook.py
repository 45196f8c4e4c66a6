"""What still lies before a position of `certificate_search`: bounds that all positions of a situation share.

Three things take their time: the way of each spine operator to the end of its block, and the blocks that follow
(`certificate_suffix`); the way of each filler to the end; and the host's work that is left. Fillers that a later block
releases cannot have started yet, and are counted with the blocks that follow.

Fillers that are run one by one also delay the spine, where they occupy the host for longer than it can be kept waiting
(`certificate_waits`). Only what has begun already can last longer than a wait: until F, say. A filler that starts at s
and takes d delays by d - max(wait, F - s) at least, and they run one after the other; so all of them together lose no
more of their delays than the first one would if it started at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate_parts import Parts, host_time
from cimplan.plan.certificate_suffix import NOTHING, Soonest, Suffix, TradeOffs
from cimplan.plan.effort import Effort

Slot = tuple[int, str]
"""An operator and a place where it may yet run."""


class Situation(NamedTuple):
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


Ways = list[tuple[int, int]]
"""(index into `Position.ready`, further ticks) of each way in which an operator may go on."""


class End(NamedTuple):
    """One option of the end of the current block: when it may start, and what is left from there.

    Attributes
    ----------
    paths : list of Ways
        How soon it may start after each operator of its block that waits.
    after : TradeOffs
        What is left when it starts. Operators of the block that must still choose are in here with their host work,
        also on the path: it lies before, but not within `Ahead.work_before_end`.
    apart : TradeOffs
        The same without these operators, to follow `paths`.
    """

    paths: list[Ways]
    after: TradeOffs
    apart: TradeOffs


class Delays(NamedTuple):
    """By how much fillers delay the spine.

    Attributes
    ----------
    later : int
        Ticks by those that only a later block lets run.
    now : int
        Ticks by the others, if nothing that has begun lasts longer than a wait.
    chosen : bool
        Whether the trade-offs hold a delay of some that can run now, too.
    wait : int
        How long what has not begun can keep the host waiting.
    """

    later: int
    now: int
    chosen: bool
    wait: int


class Beside(NamedTuple):
    """What the fillers that are left have in common, whatever the spine does within its block.

    Attributes
    ----------
    work : int
        Ticks of host work without a choice.
    flexible : tuple of int
        Fillers that must still choose.
    delays : Delays
        By how much they delay the spine.
    """

    work: int
    flexible: tuple[int, ...]
    delays: Delays


@dataclass(frozen=True, slots=True)
class Ahead:
    """What every position of a situation still has before it.

    Attributes
    ----------
    work : int
        Ticks of host work without a choice, of the current block but for its end, and of fillers released so far.
    work_before_end : int
        The part of it that is done before the end of the current block starts.
    ends : list of End
        For each option that the end of the current block still has.
    fillers : list of Ways
        How soon the end may come after each filler that waits.
    delays : Delays
        By how much fillers delay the spine.
    begun : Ways
        Until when that which has begun can last without the host: the latest of these.
    refund : int
        Crossbars already counted that `ends` count again.
    """

    work: int
    work_before_end: int
    ends: list[End]
    fillers: list[Ways]
    delays: Delays
    begun: Ways
    refund: int


class Players:
    """Who takes part in a search, and how they depend on one another.

    Attributes
    ----------
    spine : mapping of int to int
        Block of each operator of the spine, from block `first` on.
    fillers, operators : tuple of int
        The fillers that are run one by one; these and the spine, sorted.
    needs : mapping of int to int
        The operators that come before each one, as bits.
    outputs : mapping of int to list of (int, int)
        Operators after each one, with transfers; a path through others that take no part has none.
    released : mapping of int to int
        The block that releases the group of each filler, in the pool or not.
    can_run : mapping of int to int
        The first block in which each filler that is run one by one can run.
    pool_after : mapping of int to mapping of int to int
        Ticks of host work that join the pool after an operator has settled, per filler; after -1: at once.
    flushing : set of int
        The cuts before which all work in the pool must be done. They are comparable with all operators.
    """

    def __init__(self, parts: Parts, first: int, pooled: frozenset[int], effort: Effort) -> None:
        self.effort = effort
        self.parts, self.first, self.pooled = parts, first, pooled
        self.options = parts.problem.options
        self.spine = {v: number for number in range(first, len(parts.members)) for v in parts.members[number]}
        self.released = {v: group.released for group in parts.groups for v in group.operators}
        late = {v for v, released in self.released.items() if released >= first}
        self.fillers = tuple(sorted(late - pooled))
        self.can_run = {v: parts.release(v) for v in self.fillers}
        self.operators = tuple(sorted([*self.spine, *self.fillers]))
        self.everything = sum(1 << v for v in self.operators)
        self.needs = {v: parts.before(v) & self.everything for v in self.operators}
        self.outputs = self._dependencies()
        self.pool_after = self._pool()
        cuts = parts.certificate.cuts
        self.flushing = {cuts[number] for number in parts.flushed if first <= number < len(cuts)}

    def _dependencies(self) -> dict[int, list[tuple[int, int]]]:
        inputs: dict[int, list[tuple[int, int]]] = {v: [] for v in self.operators}
        outputs: dict[int, list[tuple[int, int]]] = {v: [] for v in self.operators}
        for edge in self.parts.problem.dependencies:
            if edge.source in outputs and edge.target in inputs:
                inputs[edge.target].append((edge.source, edge.transfer))
        for v in self.operators:
            missing = self.needs[v]
            for u, _ in inputs[v]:
                missing &= ~(self.needs[u] | 1 << u)
            while missing:
                self.effort.spend_steps(1 + len(self.options) // 1000)
                u = missing.bit_length() - 1
                inputs[v].append((u, 0))
                missing &= ~(self.needs[u] | 1 << u)
            for u, transfer in inputs[v]:
                outputs[u].append((v, transfer))
        return outputs

    def _pool(self) -> dict[int, dict[int, int]]:
        after: dict[int, dict[int, int]] = {}
        for v in self.pooled:
            release = self.parts.boundary(self.released[v])[0]
            before = self.parts.before(v) & self.everything
            if release is not None and self.everything >> release & 1:
                # Not before the cut of its release, with which the outlook counts it.
                before &= self.parts.after(release) | 1 << release
            after.setdefault(before.bit_length() - 1, {})[v] = host_time(self.options[v][0])
        return after


_MOST_REMEMBERED = 2_000_000
"""Slots, options and trade-offs of what is known of situations: some hundreds of megabytes."""


class Outlook:
    """Bounds on what is left of a game."""

    def __init__(self, players: Players, soonest: Mapping[int, Soonest], effort: Effort) -> None:
        self.players, self.options, self.effort = players, players.options, effort
        self.suffix = Suffix(players.parts, players.first, soonest, effort)
        self.waits = players.parts.waits
        self.spine_bits = sum(1 << v for v in players.spine)
        # They may take no time on the host, and so need not wait for it there.
        self.may_pass = {v for v in players.spine if any(map(_takes_no_time_on_the_host, self.options[v]))}
        self.filler_bits = sum(1 << v for v in players.fillers)
        self.within = self._tails_within()
        self.whole = self._tails()
        self._known: dict[int, dict[Situation, Ahead]] = {}
        self._beside_of: dict[tuple[int, int, tuple[tuple[int, int], ...]], Beside] = {}
        self._following_of: dict[tuple[int, int, tuple[int, ...]], TradeOffs] = {}
        self._remembered = 0

    def _tails_within(self) -> dict[int, list[list[int]]]:
        """Return, per spine operator, option of its block's end, and own option, least ticks until that end starts."""
        tails: dict[int, list[list[int]]] = {}
        for v in reversed(self.players.operators):
            if v not in self.players.spine:
                continue
            end = self.players.parts.boundary(self.players.spine[v])[1]
            ends: Sequence[Option | None] = [None] if end is None else self.options[end]
            following = sum(len(self.options[w]) for w, _ in self.players.outputs[v])
            self.effort.spend_entries(len(ends) * len(self.options[v]) * (1 + following) // 4)
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
                            for w, transfer in self.players.outputs[v]
                            if self.players.spine.get(w) == self.players.spine[v]
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
        for v in reversed(self.players.operators):
            tails[v] = [
                option.duration
                + max(
                    (self._least_after(option, transfer, w, tails[w]) for w, transfer in self.players.outputs[v]),
                    default=0,
                )
                for option in self.options[v]
            ]
        return tails

    def _least_after(self, option: Option, transfer: int, w: int, tails: Sequence[int]) -> int:
        """Return the least ticks from the finish of an option to what the tails of an operator after it lead to."""
        return min(
            tail + (transfer if other.place != option.place else 0)
            for tail, other in zip(tails, self.options[w], strict=True)
        )

    def ahead(self, situation: Situation) -> Ahead:
        """Return what every position of a situation still has before it."""
        known = self._known.setdefault(situation.settled.bit_count(), {})
        found = known.get(situation)
        if found is None:
            if self._remembered > _MOST_REMEMBERED:
                self._known.clear()
                self._beside_of.clear()
                self._following_of.clear()
                self._remembered = 0
            found = self._look_ahead(situation)
            self._known.setdefault(situation.settled.bit_count(), {})[situation] = found
            self._remembered += 20 + len(situation.slots)
        return found

    def forget(self, settled: int) -> None:
        """Forget situations in which so many operators have settled."""
        self._known.pop(settled, None)

    def _look_ahead(self, situation: Situation) -> Ahead:
        players, spine, settled = self.players, self.players.spine, situation.settled
        queued = dict(situation.queue)
        index = {slot: position for position, slot in enumerate(situation.slots)}
        spine_left = self.spine_bits & ~settled
        # Operators of later blocks come later in topological order.
        number = spine[(spine_left & -spine_left).bit_length() - 1] if spine_left else len(players.parts.members)
        here = players.parts.members[number] if spine_left else ()
        end = players.parts.boundary(number)[1] if spine_left else None
        end_options: Sequence[int] = (-1,)
        if end is not None:
            end_options = [queued[end]] if end in queued else range(len(self.options[end]))
        size = len(here) + len(players.pool_after) + (2 + len(end_options)) * len(situation.slots)
        self.effort.spend_steps(size // 2)

        before_end = 0
        flexible = []
        for v in here:
            if v == end or settled >> v & 1:
                continue
            ticks = self._certain_work(v, queued)
            if ticks is None:
                flexible.append(v)
            else:
                before_end += ticks
        waiting = sorted({v for v, _ in situation.slots})
        of_fillers = tuple(entry for entry in situation.queue if entry[0] not in spine)
        beside = self._beside(number, settled & self.filler_bits, of_fillers)

        def ways(v: int, ticks: Sequence[int], options: Iterable[int]) -> Ways:
            return [
                (index[v, self.options[v][o].place], ticks[o])
                for o in options
                if (v, self.options[v][o].place) in index and queued.get(v, o) == o
            ]

        ends = []
        for b in end_options:
            paths = [
                ways(v, self.within[v][max(b, 0)], [b] if v == end else range(len(self.options[v])))
                for v in waiting
                if spine.get(v, -1) == number
            ]
            after = self._following(number, b, (*flexible, *beside.flexible))
            ends.append(End(paths, after, self._following(number, b, beside.flexible) if flexible else after))
        return Ahead(
            work=before_end + beside.work + self._pool(number, settled),
            work_before_end=before_end,
            ends=ends,
            fillers=[ways(v, self.whole[v], range(len(self.options[v]))) for v in waiting if v not in spine],
            delays=beside.delays,
            begun=[
                (at, self.waits.chain[v] if v not in queued and (place != HOST or v in self.may_pass) else 0)
                for (v, place), at in index.items()
                if spine.get(v, -1) == number
            ],
            refund=self.options[end][queued[end]].crossbars if end is not None and end in queued else 0,
        )

    def _pool(self, number: int, settled: int) -> int:
        """Return the host work of the pool that fillers released so far will still add to it."""
        return sum(
            ticks
            for u, pooled in self.players.pool_after.items()
            if u >= 0 and not settled >> u & 1
            for v, ticks in pooled.items()
            if self.players.released[v] <= number
        )

    def _certain_work(self, v: int, queued: Mapping[int, int]) -> int | None:
        """Return how long an operator occupies the host; None if it must still choose."""
        if v in queued:
            return self.options[v][queued[v]].duration
        if len(self.options[v]) == 1 and not self.options[v][0].crossbars:
            return host_time(self.options[v][0])
        return None

    def _beside(self, number: int, settled: int, queue: tuple[tuple[int, int], ...]) -> Beside:
        """Return what the fillers have in common that blocks up to this one have released."""
        key = number, settled, queue
        if key in self._beside_of:
            return self._beside_of[key]
        queued = dict(queue)
        work = later = now = 0
        flexible = []
        self.effort.spend_steps(len(self.players.fillers) // 2)
        for v in self.players.fillers:
            if settled >> v & 1 or self.players.released[v] > number:
                continue
            ticks = self._certain_work(v, queued)
            if ticks is None:
                flexible.append(v)
                continue
            work += ticks
            delay = max(0, ticks - self._wait(number, v))
            if self.players.can_run[v] > number:
                later += delay
            else:
                now += delay
        wait = self.waits.longest[number]
        chosen = any(
            self.players.can_run[v] <= number and max(map(host_time, self.options[v])) > wait for v in flexible
        )
        found = Beside(work, tuple(flexible), Delays(later, now, chosen, wait))
        self._beside_of[key] = found
        self._remembered += len(queue) + len(flexible)
        return found

    def _wait(self, number: int, v: int) -> int:
        """Return how long what has not begun can keep the host waiting when an operator runs on it."""
        if v in self.players.spine:
            return 0
        return self.waits.longest[max(number, self.players.can_run[v])]

    def _following(self, number: int, end_option: int, flexible: tuple[int, ...]) -> TradeOffs:
        """Return the trade-offs from the start of the end of a block, with operators before it that must choose."""
        known = self._following_of
        missing = 0
        while missing < len(flexible) and (number, end_option, flexible[missing:]) not in known:
            missing += 1
        if missing < len(flexible) or (number, end_option, ()) in known:
            after = known[number, end_option, flexible[missing:]]
        else:
            after = NOTHING
            if number < len(self.players.parts.members):
                after = self.suffix.from_end(number, end_option)
            known[number, end_option, ()] = after
        for at in reversed(range(missing)):
            options = self.options[flexible[at]]
            self.effort.spend_entries(len(after.each) * len(options))
            after = after.with_choice(options, self._wait(number, flexible[at]))
            known[number, end_option, flexible[at:]] = after
            self._remembered += len(after.each) + len(flexible) - at
        return after


def occupies_host(option: Option) -> bool:
    """Tell whether an option keeps others from the host."""
    return host_time(option) > 0


def _takes_no_time_on_the_host(option: Option) -> bool:
    return option.place == HOST and not option.duration
