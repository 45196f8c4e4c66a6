"""What still lies before a partial schedule of a search, at least.

Three things take their time: the way of each spine operator to the end of its block, and the blocks that follow
(`suffix`); the way of each filler to the end; and the host's work that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from cimplan.cost.problem import HOST
from cimplan.partition.goal import NEVER, Goal
from cimplan.partition.players import Players, host_ticks
from cimplan.partition.structure import as_set
from cimplan.partition.suffix import MOST, NOTHING, Suffix, TradeOffs
from cimplan.partition.tails import Tails

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


_AMPLE = 15_000_000
"""Numbers that trade-offs may hold; beyond, fewer are kept of what follows further choices."""


class State(NamedTuple):
    """What labels have in common: the operators that have started, and the host's queue."""

    settled: int
    queue: Queue


class End(NamedTuple):
    """One option of the end of the current block.

    Attributes
    ----------
    paths : list of Ways
        How soon it may start.
    after : TradeOffs
        What follows, with what operators of the block that must still choose take the host.
    whatever : TradeOffs
        What follows, whatever these choose.
    """

    paths: list[Ways]
    after: TradeOffs
    whatever: TradeOffs


class Beside(NamedTuple):
    """What is left of the fillers.

    Attributes
    ----------
    work : int
        Host work that no choice changes, with that of the pool.
    later : int
        By how much fillers that cannot run in the current block delay the spine at least.
    delay : int
        By how much the others do, if no wait is longer than `Ahead.wait`.
    flexible : tuple of int
        Fillers that must still choose; by how much they delay the spine is in `Ahead.ends`.
    choosing : bool
        Whether some of these can run in the current block.
    ways : list of Ways
        How soon the schedule may end after each filler that waits.
    """

    work: int
    later: int
    delay: int
    flexible: tuple[int, ...]
    choosing: bool
    ways: list[Ways]


class Here(NamedTuple):
    """What is left of the current block of the spine.

    Attributes
    ----------
    work : int
        Host work that no choice changes, without the end of the block.
    flexible : tuple of int
        Operators that must still choose, without the end of the block.
    ends : list of (int, list of Ways)
        Each option that the end of the block still has, and how soon it may start then.
    pending : Ways
        How soon what has begun elsewhere comes to its end.
    refund : int
        Crossbars of the end if it has chosen.
    """

    work: int
    flexible: tuple[int, ...]
    ends: list[tuple[int, list[Ways]]]
    pending: Ways
    refund: int


class Ahead(NamedTuple):
    """What is left at a state.

    Attributes
    ----------
    slots : tuple of Slot
        What the columns from `READY` on mean.
    inputs : list of (Slot, bool)
        The slots, and whether the host must be free for what each is about.
    work : int
        Host work that no choice changes.
    beside : Beside
        The fillers.
    here : Here
        The current block.
    wait : int
        How long what has not begun can keep the spine waiting without the host.
    ends : list of End
        For each option that the end of the current block still has.
    """

    slots: tuple[Slot, ...]
    inputs: list[tuple[Slot, bool]]
    work: int
    beside: Beside
    here: Here
    wait: int
    ends: list[End]


class Outlook:
    """Bounds on what is left of a search.

    Parameters
    ----------
    players : Players
        Who takes part.
    suffix : Suffix
        What the blocks take, from the first block of the search on.
    following : dict, optional
        `following` of another outlook on the same blocks; extended.

    Attributes
    ----------
    following : dict
        By block, option of its end, and operators that must still choose: the trade-offs from that end on.
    held : int
        About how many numbers `following` has grown by.
    """

    def __init__(
        self,
        players: Players,
        suffix: Suffix,
        following: dict[tuple[int, int, tuple[int, ...]], TradeOffs] | None = None,
    ) -> None:
        self.players, self.suffix = players, suffix
        self.options = players.options
        self.spine = players.tables.spine
        self.tails, self.waits = Tails(players), players.tables.waits
        self.blocks = [block.operators() for block in players.tables.blocks]
        self.occupying = {
            v for v in players.operators if all(o.duration > 0 for o in self.options[v] if o.place == HOST)
        }
        cuts = as_set(self.spine.cuts)
        self.release = {v: (players.tables.network.ancestors[v] & cuts).bit_count() for v in players.fillers}
        self._path = as_set(players.block_of)
        self._beside_path = as_set(players.fillers) | as_set(v for v in players.pool_after if v >= 0)
        # Most states have the same fillers left as many others, and the same operators of the spine.
        self._beside_known: dict[tuple[int, Queue, tuple[Slot, ...], int], Beside] = {}
        self._here_known: dict[tuple[int, Queue, tuple[Slot, ...], int], Here] = {}
        self.following = {} if following is None else following
        self.held = 0

    # --- states ----------------------------------------------------------------------------------------------

    def ahead(self, state: State, slots: Iterable[Slot]) -> Ahead:
        """Return what is left at a state; the slots follow from it."""
        block_of, settled = self.players.block_of, state.settled
        block = self._block(settled)
        slots = sorted(slots)
        slots_beside = tuple([slot for slot in slots if slot[0] not in block_of])
        slots_here = tuple([slot for slot in slots if slot[0] in block_of])
        queue_beside = tuple([entry for entry in state.queue if entry[0] not in block_of])
        queue_here = tuple([entry for entry in state.queue if entry[0] in block_of])

        key = (settled & self._beside_path, queue_beside, slots_beside, block)
        beside = self._beside_known.get(key)
        if beside is None:
            beside = self._beside_known[key] = self._beside(settled, dict(queue_beside), slots_beside, block)
        key = (settled & self._path, queue_here, slots_here, len(slots_beside))
        here = self._here_known.get(key)
        if here is None:
            here = self._here_known[key] = self._here(settled, dict(queue_here), slots_here, block, len(slots_beside))

        flexible = beside.flexible + here.flexible
        return Ahead(
            slots_beside + slots_here,
            self._inputs(slots_beside, queue_beside) + self._inputs(slots_here, queue_here),
            beside.work + here.work,
            beside,
            here,
            self.waits.longest[block],
            [
                End(paths, self._following(block, b, flexible), self._following(block, b, beside.flexible))
                for b, paths in here.ends
            ],
        )

    def _inputs(self, slots: tuple[Slot, ...], queue: Queue) -> list[tuple[Slot, bool]]:
        queued = {v for v, _ in queue}
        return [((v, place), place == HOST and (v in queued or v in self.occupying)) for v, place in slots]

    def _beside(self, settled: int, queued: dict[int, int], slots: tuple[Slot, ...], block: int) -> Beside:
        work = sum(ticks for v, ticks in self.players.pool_after.items() if v >= 0 and not settled >> v & 1)
        later, delay, choosing = 0, 0, False
        flexible: list[int] = []
        for v in self.players.fillers:
            if settled >> v & 1:
                continue
            soon = self.release[v] <= block
            ticks = self._certain_work(v, queued)
            if ticks is None:
                flexible.append(v)
                choosing |= soon
                continue
            work += ticks
            if soon:
                delay += max(0, ticks - self.waits.longest[block])
            else:
                later += max(0, ticks - self.waits.longest[self.release[v]])
        column = {slot: number for number, slot in enumerate(slots, READY)}
        ways = [
            self._ways(v, column, self.tails.whole[v], queued, range(len(self.options[v])))
            for v in sorted({v for v, _ in slots})
        ]
        return Beside(work, later, delay, tuple(flexible), choosing, ways)

    def _here(self, settled: int, queued: dict[int, int], slots: tuple[Slot, ...], block: int, offset: int) -> Here:
        if block == len(self.blocks):
            return Here(0, (), [(0, [])], [], 0)
        end = self.spine.end(block)
        work = 0
        flexible = []
        for v in self.blocks[block]:
            if v == end or settled >> v & 1:
                continue
            ticks = self._certain_work(v, queued)
            if ticks is None:
                flexible.append(v)
            else:
                work += ticks
        column = {slot: number for number, slot in enumerate(slots, READY + offset)}
        waiting = sorted({v for v, _ in slots if self.players.block_of[v] == block})
        ends = []
        for b in self._end_options(end, queued):
            paths = [
                self._ways(v, column, self.tails.within[v][b], queued, [b] if v == end else range(len(self.options[v])))
                for v in waiting
            ]
            ends.append((b, [path for path in paths if path]))
        # What follows an operator goes on without the host if that operator need not occupy it.
        pending = [
            (at, 0 if place == HOST and (v in queued or v in self.occupying) else self.waits.chain.get(v, 0))
            for (v, place), at in column.items()
        ]
        refund = self.options[end][queued[end]].crossbars if end is not None and end in queued else 0
        return Here(work, tuple(flexible), ends, pending, refund)

    def _certain_work(self, v: int, queued: dict[int, int]) -> int | None:
        """Return how long an operator takes the host; None if it must still choose."""
        if v in queued:
            return self.options[v][queued[v]].duration
        if len(self.options[v]) == 1 and not self.options[v][0].crossbars:
            return host_ticks(self.options[v][0])
        return None

    def _ways(
        self, v: int, column: dict[Slot, int], ticks: Sequence[int], queued: dict[int, int], options: Sequence[int]
    ) -> Ways:
        """Return in which ways an operator that waits may go on."""
        return [
            (column[v, self.options[v][o].place], ticks[o])
            for o in options
            if queued.get(v, o) == o and (v, self.options[v][o].place) in column
        ]

    def _block(self, settled: int) -> int:
        """Return the first block that is not done; the number of blocks if all are."""
        left = self._path & ~settled
        return self.players.block_of[(left & -left).bit_length() - 1] if left else len(self.blocks)

    def _end_options(self, end: int | None, queued: dict[int, int]) -> Sequence[int]:
        if end is None:
            return [0]
        return [queued[end]] if end in queued else range(len(self.options[end]))

    def _following(self, block: int, end_option: int, flexible: tuple[int, ...]) -> TradeOffs:
        """Return the trade-offs from the end of a block on, with operators that must still choose."""
        key = (block, end_option, flexible)
        if key not in self.following:
            if flexible:
                v = flexible[0]
                wait = 0 if v in self.players.block_of else self.waits.longest[max(block, self.release[v])]
                most = MOST if self.held < _AMPLE else MOST >> 4
                after = self._following(block, end_option, flexible[1:]).with_choice(self.options[v], wait, most)
            elif block == len(self.blocks):
                after = NOTHING
            else:
                after = self.suffix.from_end(block, end_option if self.spine.end(block) is not None else -1)
            self.following[key] = after
            self.held += 5 * len(after.each)
        return self.following[key]

    # --- labels ----------------------------------------------------------------------------------------------

    def ranks(self, ahead: Ahead, labels: Sequence[Numbers], goal: Goal) -> list[int]:
        """Return the ranks that the goal gives to labels, by the least that may come of them."""
        beside, here = ahead.beside, ahead.here
        used = [numbers[CROSSBARS] - here.refund for numbers in labels]
        busy = [numbers[BUSY] + ahead.work for numbers in labels]
        latest = [_latest(numbers, beside.ways) for numbers in labels]
        delays = [_delay(numbers, ahead) for numbers in labels]
        at_work = [numbers[FREE] + here.work + delay for numbers, delay in zip(labels, delays, strict=True)]
        ranks = [NEVER] * len(labels)
        for paths, after, whatever in ahead.ends:
            start = [delay + _latest_of(numbers, paths) for delay, numbers in zip(delays, labels, strict=True)]
            if here.flexible:
                # Two bounds: the host does all that is left of the block, with what its operators choose to run there;
                # or the longest way leads to the end of the block, whatever they choose.
                ends = [
                    max(end, begin + whatever.shortest(goal.budget - crossbars))
                    for end, begin, crossbars in zip(latest, start, used, strict=True)
                ]
                found = goal.ranks(used, at_work, busy, ends, after)
            else:
                found = goal.ranks(used, list(map(max, start, at_work)), busy, latest, after)
            ranks = list(map(min, ranks, found))
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
    """Return by how much fillers delay the spine that are too long for any wait (`waits`).

    What has begun may last longer than anything that has not. Whatever part of that fillers use, the first of them
    would have used the longest wait anyway, so that together they gain no more than the difference.
    """
    beside = ahead.beside
    if not beside.delay and not beside.choosing:
        return beside.later
    begun = max([numbers[column] + ticks for column, ticks in ahead.here.pending], default=0) - numbers[FREE]
    delay = beside.delay - max(0, begun - ahead.wait)
    return beside.later + (delay if delay > 0 or beside.choosing else 0)
