"""What still lies before a partial schedule of a search, at least.

Three things take their time: the way of each spine operator to the end of its block, and the blocks that follow
(`suffix`); the way of each filler to the end; and the host's work that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from cimplan.cost.problem import HOST
from cimplan.partition.goal import NEVER, Goal
from cimplan.partition.players import Players, host_ticks
from cimplan.partition.suffix import NOTHING, Suffix, TradeOffs

Slot: TypeAlias = tuple[int, str]
"""An operator and a place where it may yet run."""

Queue: TypeAlias = tuple[tuple[int, int], ...]
"""Operators that have chosen to run on the host, with their options; sorted."""

Ways: TypeAlias = list[tuple[int, int]]
"""(column, further ticks) of each way in which an operator may go on."""

Numbers: TypeAlias = tuple[int, ...]
"""The numbers of a label; less is better in each."""

CROSSBARS, FREE, BUSY, END, READY = range(5)
"""What they mean: crossbars used, when the host is free, when it can have done the pool too, before when the schedule
does not end; then, per slot, when its inputs are complete as far as they are known."""


class State(NamedTuple):
    """What labels have in common: the operators that have started, and the host's queue."""

    settled: int
    queue: Queue


class End(NamedTuple):
    """One option of the end of the current block: when it may start, and what follows."""

    paths: list[Ways]
    after: TradeOffs


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is left at a state.

    Attributes
    ----------
    slots : tuple of Slot
        What the columns from `READY` on mean.
    work : int
        Host work that no choice changes.
    work_before_end : int
        The part of it that lies before the end of the current block.
    long : list of int
        Host work of fillers that take longer than `wait`.
    pending : Ways
        How soon what has begun elsewhere comes to its end.
    wait : int
        How long what has not begun can keep the spine waiting without the host.
    ends : list of End
        For each option that the end of the current block still has.
    fillers : list of Ways
        How soon the schedule may end after each filler that waits.
    refund : int
        Crossbars counted in a label that `ends` count again.
    inputs : list of (Slot, bool)
        The slots, and whether the host must be free for what each is about.
    """

    slots: tuple[Slot, ...]
    work: int
    work_before_end: int
    long: list[int]
    pending: Ways
    wait: int
    ends: list[End]
    fillers: list[Ways]
    refund: int
    inputs: list[tuple[Slot, bool]]


class Outlook:
    """Bounds on what is left of a search."""

    def __init__(self, players: Players, suffix: Suffix) -> None:
        self.players, self.suffix = players, suffix
        self.options = players.options
        self.spine = players.tables.spine
        self.blocks = [block.operators() for block in players.tables.blocks]
        self.occupying = {
            v for v in players.operators if all(o.duration > 0 for o in self.options[v] if o.place == HOST)
        }
        self.within = self._tails_within()
        self.chain: dict[int, int] = {}
        self.longest_wait = self._longest_waits()
        self.whole = self._tails()
        self._known: dict[tuple[int, int, tuple[int, ...]], TradeOffs] = {}

    # --- ways through the graph ------------------------------------------------------------------------------

    def _tails_within(self) -> dict[int, list[list[int]]]:
        """Return, per spine operator, option of its block's end, and own option, least ticks until that end starts."""
        tails: dict[int, list[list[int]]] = {}
        block_of = self.players.block_of
        for v in reversed(self.players.operators):
            if v not in block_of:
                continue
            end = self.spine.end(block_of[v])
            inside = [(w, delay) for w, delay in self.players.outputs[v] if block_of.get(w) == block_of[v]]
            tails[v] = []
            for b in range(1 if end is None else len(self.options[end])):
                row = []
                for option in self.options[v]:
                    least = 0
                    for w, delay in inside:
                        if w == end:
                            then = delay if self.options[w][b].place != option.place else 0
                        else:
                            then = self._least_after(option.place, delay, w, tails[w][b])
                        least = max(least, then)
                    row.append(0 if v == end else option.duration + least)
                tails[v].append(row)
        return tails

    def _tails(self) -> dict[int, list[int]]:
        """Return, per operator and option, the least ticks from its start to the end of all that follow it."""
        tails: dict[int, list[int]] = {}
        for v in reversed(self.players.operators):
            tails[v] = [
                option.duration
                + max(
                    (self._least_after(option.place, delay, w, tails[w]) for w, delay in self.players.outputs[v]),
                    default=0,
                )
                for option in self.options[v]
            ]
        return tails

    def _least_after(self, place: str, delay: int, w: int, tails: Sequence[int]) -> int:
        return min(
            tail + (delay if other.place != place else 0) for tail, other in zip(tails, self.options[w], strict=True)
        )

    def _longest_waits(self) -> list[int]:
        """Return, per block, how long a chain of the spine from there on can be that does not need the host.

        A filler that runs longer than any chain delays the spine by the rest: what happens elsewhere was begun by what
        ended before on the host, so that it has come to its end, and nothing happens until the filler ends. Cut that
        time out, and what remains is a schedule of the spine without the filler.
        """
        network, block_of = self.players.tables.network, self.players.block_of
        waits = [0] * (len(self.blocks) + 1)
        for v in reversed(self.players.operators):
            elsewhere = [option.duration for option in self.options[v] if not host_ticks(option)]
            if v not in block_of or not elsewhere:
                continue
            after = max((delay + self.chain.get(w, 0) for w, delay in network.after[v]), default=0)
            before = max((delay for _, delay in network.before[v]), default=0)
            self.chain[v] = max(elsewhere) + after
            waits[block_of[v]] = max(waits[block_of[v]], before + self.chain[v])
        for k in reversed(range(len(self.blocks))):
            waits[k] = max(waits[k], waits[k + 1])
        return waits

    # --- states ----------------------------------------------------------------------------------------------

    def ahead(self, state: State, slots: tuple[Slot, ...]) -> Ahead:
        """Return what is left at a state; the slots follow from it."""
        players, settled, queued = self.players, state.settled, dict(state.queue)
        column = {slot: number for number, slot in enumerate(slots, READY)}
        block = self._block(settled)
        here = [] if block is None else self.blocks[block]
        end = None if block is None else self.spine.end(block)

        flexible = []
        wait = 0 if block is None else self.longest_wait[block]
        long: list[int] = []
        work = sum(ticks for v, ticks in players.pool_after.items() if v >= 0 and not settled >> v & 1)
        before_end = 0
        for v in (*players.fillers, *here):
            if v == end or settled >> v & 1:
                continue
            if v in queued:
                ticks = self.options[v][queued[v]].duration
            elif len(self.options[v]) == 1 and not self.options[v][0].crossbars:
                ticks = host_ticks(self.options[v][0])
            else:
                flexible.append(v)
                continue
            work += ticks
            if v in players.block_of:
                before_end += ticks
            elif ticks > wait and block is not None:
                long.append(ticks)

        def ways(v: int, ticks: Sequence[int], options: Sequence[int]) -> Ways:
            return [
                (column[v, self.options[v][o].place], ticks[o])
                for o in options
                if queued.get(v, o) == o and (v, self.options[v][o].place) in column
            ]

        waiting = sorted({v for v, _ in slots})
        ends = []
        for b in self._end_options(end, queued):
            paths = [
                ways(v, self.within[v][b], [b] if v == end else range(len(self.options[v])))
                for v in waiting
                if block is not None and players.block_of.get(v) == block
            ]
            ends.append(End([path for path in paths if path], self._following(block, b, tuple(flexible))))
        fillers = [ways(v, self.whole[v], range(len(self.options[v]))) for v in waiting if v not in players.block_of]
        refund = self.options[end][queued[end]].crossbars if end is not None and end in queued else 0
        pending = [
            (at, self.chain.get(v, 0) if place != HOST else 0)
            for (v, place), at in column.items()
            if v in players.block_of
        ]
        inputs = [((v, place), place == HOST and (v in queued or v in self.occupying)) for v, place in slots]
        return Ahead(slots, work, before_end, long, pending, wait, ends, fillers, refund, inputs)

    def _block(self, settled: int) -> int | None:
        """Return the first block that is not done."""
        left = self.players.everything & ~self.players.level.exact & ~settled
        return self.players.block_of[(left & -left).bit_length() - 1] if left else None

    def _end_options(self, end: int | None, queued: dict[int, int]) -> Sequence[int]:
        if end is None:
            return [0]
        return [queued[end]] if end in queued else range(len(self.options[end]))

    def _following(self, block: int | None, end_option: int, flexible: tuple[int, ...]) -> TradeOffs:
        """Return the trade-offs from the end of a block on, with operators that must still choose."""
        if block is None:
            block, end_option = len(self.blocks), 0
        key = (block, end_option, flexible)
        if key not in self._known:
            if flexible:
                after = self._following(block, end_option, flexible[1:]).with_choice(self.options[flexible[0]])
            elif block == len(self.blocks):
                after = NOTHING
            else:
                after = self.suffix.from_end(block, end_option if self.spine.end(block) is not None else -1)
            self._known[key] = after
        return self._known[key]

    # --- labels ----------------------------------------------------------------------------------------------

    def ranks(self, ahead: Ahead, labels: Sequence[Numbers], goal: Goal) -> list[int]:
        """Return the ranks that the goal gives to labels, by the least that may come of them."""
        used = [numbers[CROSSBARS] - ahead.refund for numbers in labels]
        busy = [numbers[BUSY] + ahead.work for numbers in labels]
        latest = [_latest(numbers, ahead.fillers) for numbers in labels]
        delays = [_delay(numbers, ahead) for numbers in labels]
        ranks = [NEVER] * len(labels)
        for paths, after in ahead.ends:
            start = [
                delay + max(numbers[FREE] + ahead.work_before_end, _latest_of(numbers, paths))
                for delay, numbers in zip(delays, labels, strict=True)
            ]
            ranks = list(map(min, ranks, goal.ranks(used, start, busy, latest, after)))
        return ranks


def _latest(numbers: Numbers, fillers: list[Ways]) -> int:
    """Return when the schedule ends at least; the end counts all host work that no choice changes."""
    return max(numbers[END], _latest_of(numbers, fillers))


def _latest_of(numbers: Numbers, several: list[Ways]) -> int:
    """Return the latest of the soonest ways on of several operators."""
    latest = 0
    for ways in several:
        soonest = min([numbers[column] + ticks for column, ticks in ways])
        if soonest > latest:
            latest = soonest
    return latest


def _delay(numbers: Numbers, ahead: Ahead) -> int:
    """Return by how much fillers delay the spine that are too long for any wait."""
    if not ahead.long:
        return 0
    wait = max(ahead.wait, max([numbers[column] + ticks for column, ticks in ahead.pending], default=0) - numbers[FREE])
    return sum([ticks - wait for ticks in ahead.long if ticks > wait])
