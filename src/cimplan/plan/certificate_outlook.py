"""What still lies before a position of `certificate_search`: bounds that all positions of a situation share.

Three things take their time: the way of each spine operator to the end of its block, and the blocks that follow
(`certificate_suffix`); the way of each filler to the end; and the host's work that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cimplan.cost.problem import HOST, Option
from cimplan.plan.certificate_parts import Parts
from cimplan.plan.certificate_suffix import NOTHING, Steps, suffix

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


@dataclass(frozen=True, slots=True)
class Ahead:
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
    spine: list[tuple[list[Ways], Steps]]
    fillers: list[Ways]
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
    pool_after : mapping of int to int
        Ticks of host work that join the pool after an operator has settled; after -1: at once.
    flushing : set of int
        The cuts before which all work in the pool must be done.
    """

    def __init__(self, parts: Parts, first: int, pooled: frozenset[int]) -> None:
        self.parts, self.first, self.pooled = parts, first, pooled
        self.options = parts.problem.options
        self.spine = {v: number for number in range(first, len(parts.members)) for v in parts.members[number]}
        late = {v for group in parts.groups if group.released >= first for v in group.operators}
        self.fillers = tuple(sorted(late - pooled))
        self.operators = tuple(sorted([*self.spine, *self.fillers]))
        self.everything = sum(1 << v for v in self.operators)
        self.needs = {v: parts.before(v) & self.everything for v in self.operators}
        self.outputs = self._dependencies()
        self.pool_after, self.flushing = self._pool()

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
                u = missing.bit_length() - 1
                inputs[v].append((u, 0))
                missing &= ~(self.needs[u] | 1 << u)
            for u, transfer in inputs[v]:
                outputs[u].append((v, transfer))
        return outputs

    def _pool(self) -> tuple[dict[int, int], set[int]]:
        parts = self.parts
        after: dict[int, int] = {}
        latest = [(-1, group.due) for group in parts.groups if group.released < self.first]
        for v in self.pooled:
            before = (parts.before(v) & self.everything).bit_length() - 1
            after[before] = after.get(before, 0) + host_time(self.options[v][0])
            latest.append((before, parts.due(v)))
        flushing = {
            cut
            for number, cut in enumerate(parts.certificate.cuts)
            if all(due <= number or u == cut or (u >= 0 and parts.precedes(cut, u)) for u, due in latest)
        }
        return after, flushing


@dataclass
class Outlook:
    """Bounds on what is left of a game."""

    players: Players
    within: Mapping[int, list[list[int]]] = field(init=False)
    whole: Mapping[int, list[int]] = field(init=False)
    ends: Mapping[int, tuple[list[Steps], list[Steps]]] = field(init=False)

    def __post_init__(self) -> None:
        self.options = self.players.options
        self.spine_bits = sum(1 << v for v in self.players.spine)
        after = suffix(self.players.parts, self.players.first)
        self.ends = {number: after.ends(number, self._end(number)) for number in set(self.players.spine.values())}
        self.within = self._tails_within()
        self.whole = self._tails()
        self._known: dict[Situation, Ahead] = {}
        self._choices_of: dict[tuple[int | None, tuple[int, ...], tuple[int, ...]], Steps] = {}

    def _end(self, number: int) -> Sequence[Option] | None:
        end = self.players.parts.boundary(number)[1]
        return None if end is None else self.options[end]

    def _tails_within(self) -> dict[int, list[list[int]]]:
        """Return, per spine operator, option of its block's end, and own option, least ticks until that end starts."""
        tails: dict[int, list[list[int]]] = {}
        for v in reversed(self.players.operators):
            if v not in self.players.spine:
                continue
            end = self.players.parts.boundary(self.players.spine[v])[1]
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
        if situation not in self._known:
            self._known[situation] = self._look_ahead(situation)
        return self._known[situation]

    def _look_ahead(self, situation: Situation) -> Ahead:
        spine, settled = self.players.spine, situation.settled
        queued = dict(situation.queue)
        index = {slot: position for position, slot in enumerate(situation.slots)}
        spine_left = self.spine_bits & ~settled
        # Operators of later blocks come later in topological order.
        number = spine[(spine_left & -spine_left).bit_length() - 1] if spine_left else None
        here = () if number is None else self.players.parts.members[number]
        end = None if number is None else self.players.parts.boundary(number)[1]
        times = [] if number is None else self.ends[number][0]
        end_options = [b for b in range(len(times)) if end not in queued or queued[end] == b]

        flexible = []
        work = sum(ticks for v, ticks in self.players.pool_after.items() if v >= 0 and not settled >> v & 1)
        for v in (*self.players.fillers, *here):
            if v == end or settled >> v & 1:
                continue
            if v in queued:
                work += self.options[v][queued[v]].duration
            elif len(self.options[v]) == 1 and not self.options[v][0].crossbars:
                work += host_time(self.options[v][0])
            else:
                flexible.append(v)
        choices = self._choices(number, tuple(flexible), tuple(end_options))

        waiting = sorted({v for v, _ in situation.slots})

        def ways(v: int, ticks: Sequence[int], options: Iterable[int]) -> Ways:
            return [
                (index[v, self.options[v][o].place], ticks[o])
                for o in options
                if (v, self.options[v][o].place) in index and queued.get(v, o) == o
            ]

        ends = []
        for b in end_options:
            paths = [
                ways(v, self.within[v][b], [b] if v == end else range(len(self.options[v])))
                for v in waiting
                if spine.get(v) == number
            ]
            ends.append((paths, times[b]))
        fillers = [ways(v, self.whole[v], range(len(self.options[v]))) for v in waiting if v not in spine]
        refund = self.options[end][queued[end]].crossbars if end is not None and end in queued else 0
        return Ahead(work, choices, ends, fillers, refund)

    def _choices(self, number: int | None, flexible: tuple[int, ...], end_options: tuple[int, ...]) -> Steps:
        """Return the least host work of operators with a choice, of the end of the block, and of all blocks after."""
        known = next(
            (at for at in range(len(flexible)) if (number, flexible[at:], end_options) in self._choices_of),
            len(flexible),
        )
        if known < len(flexible):
            steps = self._choices_of[number, flexible[known:], end_options]
        elif number is None:
            steps = NOTHING
        else:
            steps = Steps.least(pair for b in end_options for pair in self.ends[number][1][b].steps)
        for at in reversed(range(known)):
            steps = Steps.least(
                pair
                for option in self.options[flexible[at]]
                for pair in steps.after(option.crossbars, host_time(option))
            )
            self._choices_of[number, flexible[at:], end_options] = steps
        return steps


def host_time(option: Option) -> int:
    """Return the ticks that an option takes the host."""
    return option.duration if option.place == HOST else 0


def occupies_host(option: Option) -> bool:
    """Tell whether an option keeps others from the host."""
    return host_time(option) > 0
