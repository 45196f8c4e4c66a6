"""Who takes part in a search, and what depends on whom.

The search begins at some block. From there on it schedules the operators of the spine one by one, and with them the
*exact* fillers. All other fillers are a *pool* of host work that runs in pieces while the host waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cimplan.cost.problem import HOST, Option
from cimplan.partition.structure import as_set, members
from cimplan.partition.tables import Tables


def host_ticks(option: Option) -> int:
    """Return the ticks that an option takes the host."""
    return option.duration if option.place == HOST else 0


@dataclass(frozen=True)
class Level:
    """How much a search looks at.

    Attributes
    ----------
    first : int
        The block it begins with.
    exact : int
        The set of fillers that are scheduled one by one; all are released in that block or later.
    """

    first: int
    exact: int

    def finest(self, tables: Tables) -> Level:
        """Return the level that begins with the same block and has no pool but of what was released before."""
        groups = [group for group in tables.spine.groups if group.release >= self.first]
        return Level(self.first, as_set(v for group in groups for v in group.operators))


def levels(tables: Tables) -> Iterator[Level]:
    """Yield ever harder searches, of which each bounds the makespan at least as well as those before.

    Most of what a pool hides is that long operators do not run in pieces: these become exact first. All fillers that
    have a choice, or do not run on the host, always are.
    """
    options = tables.network.problem.options
    groups = tables.spine.groups
    choosing = as_set(v for group in groups for v in group.operators if not _can_be_pooled(options[v]))
    count = sum(len(group.operators) for group in groups)
    meeting = 0
    for group in groups:
        late = [other for other in groups if other.release >= group.release]
        if 2 * sum(len(other.operators) for other in late) >= count:
            meeting = max(meeting, group.release)
    # No choice may be made before the search begins.
    meeting = min([meeting, *(group.release for group in groups if choosing & as_set(group.operators))])
    others = sorted(
        (v for group in groups if group.release >= meeting for v in group.operators if not choosing >> v & 1),
        key=lambda v: (-options[v][0].duration, v),
    )
    everything = as_set(v for group in groups for v in group.operators)
    seen = set()
    for level in (
        Level(meeting, choosing | as_set(others[: len(others) // 2])),
        Level(meeting, choosing | as_set(others)),
        Level(0, everything),
    ):
        if level not in seen:
            yield level
        seen.add(level)


def _can_be_pooled(options: tuple[Option, ...]) -> bool:
    return len(options) == 1 and options[0].place == HOST and options[0].crossbars == 0


class Players:
    """The operators that a search schedules, and the pool.

    Attributes
    ----------
    block_of : dict of int to int
        The block of each operator of the spine.
    fillers : tuple of int
        The exact fillers.
    operators : tuple of int
        Both, in topological order.
    everything : int
        The set of them.
    needs : dict of int to int
        The operators that come before each one, also by way of others.
    outputs : dict of int to list of (int, int)
        The operators after each one and the ticks of a transfer; a way through the pool has none.
    from_start : dict of int to int
        Transfers of the dependencies on the cut before the first block.
    pool_after : dict of int to int
        Ticks of pooled work that is there when an operator has settled, or if that is -1, from the beginning.
    flushing : set of int
        Cuts that wait for the pool.
    pays_before : dict of int to bool
        Whether an operator comes before all flushing cuts that do not come before it.
    """

    def __init__(self, tables: Tables, level: Level) -> None:
        network, spine = tables.network, tables.spine
        self.tables, self.level = tables, level
        self.options = network.problem.options
        count = len(tables.blocks)
        self.block_of = {v: k for k in range(level.first, count) for v in tables.blocks[k].operators()}
        self.fillers = tuple(members(level.exact))
        self.everything = as_set(self.block_of) | level.exact
        self.operators = tuple(members(self.everything))
        self.needs = {v: network.ancestors[v] & self.everything for v in self.operators}
        self.start = spine.start(level.first)
        self.from_start = (
            {} if self.start is None else {w: delay for w, delay in network.after[self.start] if w in self.needs}
        )
        self.outputs = self._outputs()
        self.pool_after = self._pool()
        self.flushing = {end for k in tables.flushed if k >= level.first and (end := spine.end(k)) is not None}
        flushing = as_set(self.flushing)
        self.pays_before = {
            v: not flushing & ~(network.descendants[v] | network.ancestors[v] | 1 << v) for v in self.operators
        }

    def _outputs(self) -> dict[int, list[tuple[int, int]]]:
        network = self.tables.network
        outputs: dict[int, list[tuple[int, int]]] = {v: [] for v in self.operators}
        for v in self.operators:
            direct = {u: delay for u, delay in network.before[v] if u in outputs}
            implied = 0
            for u in direct:
                implied |= self.needs[u] | 1 << u
            missing = self.needs[v] & ~implied
            while missing:
                u = missing.bit_length() - 1
                direct[u] = 0
                missing &= ~(self.needs[u] | 1 << u)
            for u, delay in direct.items():
                outputs[u].append((v, delay))
        return outputs

    def _pool(self) -> dict[int, int]:
        network, after = self.tables.network, dict[int, int]()
        for group in self.tables.spine.groups:
            if group.release < self.level.first:
                continue
            for v in group.operators:
                if not self.level.exact >> v & 1:
                    last = (network.ancestors[v] & self.everything).bit_length() - 1
                    after[last] = after.get(last, 0) + self.options[v][0].duration
        return after

    def least_filler_work(self) -> int:
        """Return the least host work of all fillers from the first block on."""
        return sum(self.pool_after.values()) + sum(min(map(host_ticks, self.options[v])) for v in self.fillers)
