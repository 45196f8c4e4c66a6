"""Which operators make the spine of a network: cuts, the blocks between them, and fillers beside them.

A cut is comparable with every other operator of the spine, so it splits every schedule of the spine in time. Most
networks are full of cuts. What hides them are a few operators beside the main path, such as detection heads or nodes
fed by constants only: they become fillers, of which later only the host work counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from cimplan.partition.structure import Network, as_set, members

IDEAL_LIMITS = (1200, 150, 20)
"""Order ideals up to which a block is enumerated; if that takes too many labels, the next one is tried."""

_FILLER_PRICE = 300
"""Order ideals that keeping a connected part in the spine may cost: fillers loosen the bound."""


@dataclass(frozen=True)
class Group:
    """Connected fillers that are released together.

    Attributes
    ----------
    operators : tuple of int
        Sorted.
    release : int
        Number of cuts before all of them: the block in which they become available.
    due : int
        The block before whose end they must be done; the number of cuts if they may last to the end.
    """

    operators: tuple[int, ...]
    release: int
    due: int


@dataclass(frozen=True)
class Spine:
    """A network cut into blocks.

    Attributes
    ----------
    cuts : tuple of int
        In order.
    interiors : tuple of int
        The set of operators before the first cut, between each two cuts, and after the last.
    groups : tuple of Group
        All other operators.
    oversized : tuple of int
        Blocks too wide to be enumerated.
    """

    cuts: tuple[int, ...]
    interiors: tuple[int, ...]
    groups: tuple[Group, ...]
    oversized: tuple[int, ...]

    def start(self, block: int) -> int | None:
        """Return the cut before a block."""
        return self.cuts[block - 1] if block else None

    def end(self, block: int) -> int | None:
        """Return the cut that ends a block."""
        return self.cuts[block] if block < len(self.cuts) else None

    def fillers(self) -> int:
        """Return the set of all fillers."""
        return as_set(v for group in self.groups for v in group.operators)


def find_spine(network: Network, limit: int = IDEAL_LIMITS[0]) -> Spine:
    """Choose fillers so that the blocks of the rest can be enumerated, and keep in the spine what can stay.

    Parameters
    ----------
    network : Network
        The network.
    limit : int
        Order ideals that a block may have.
    """
    spine = (1 << len(network.problem)) - 1
    settled: set[int] = set()
    while True:
        cuts = network.cuts(spine)
        interiors = network.between(spine, cuts)
        wide = [part for part in interiors if part not in settled and network.count_ideals(part, limit) > limit]
        if not wide:
            break
        for part in wide:
            beside = _beside_the_path(network, part, limit)
            spine &= ~beside
            if not beside:
                settled.add(part)
    oversized = tuple(k for k, part in enumerate(interiors) if part in settled)
    everything = (1 << len(network.problem)) - 1
    return Spine(tuple(cuts), tuple(interiors), _groups(network, everything & ~spine, cuts), oversized)


def _beside_the_path(network: Network, part: int, limit: int) -> int:
    """Return the operators of a wide block whose removal leaves blocks that can be enumerated, at the least cost.

    Operators are taken away in the order of how much of the longest path they keep from being cuts; then connected
    parts are put back where that pays. Returns the empty set if nothing helps.
    """
    path = _longest_path(network, part)
    components = network.components(part & ~path)
    component_of = {v: component for component in components for v in members(component)}
    hidden = {v: (path & ~network.comparable(v)).bit_count() for v in component_of}
    ranked = sorted(hidden, key=lambda v: (-hidden[v], component_of[v] & -component_of[v], v))

    def cost(gone: int) -> int | None:
        kept = part & ~gone
        counts = [network.count_ideals(piece, limit) for piece in network.between(kept, network.cuts(kept))]
        if max(counts) > limit:
            return None
        return sum(counts) + _FILLER_PRICE * sum(1 for component in components if component & gone)

    best, least = 0, None
    gone = 0
    for v, following in zip(ranked, [*ranked[1:], None], strict=True):
        gone |= 1 << v
        if following is None or (hidden[following], component_of[following]) != (hidden[v], component_of[v]):
            price = cost(gone)
            if price is not None and (least is None or price < least):
                best, least = gone, price
    for component in components:
        if best & component and best & ~component:
            price = cost(best & ~component)
            if price is not None and least is not None and price < least:
                best, least = best & ~component, price
    return best


def _longest_path(network: Network, part: int) -> int:
    """Return the operators on a longest path, by count, through a set."""
    length: dict[int, tuple[int, int]] = {}
    for v in members(part):
        length[v] = max(((length[u][0] + 1, u) for u, _ in network.before[v] if u in length), default=(1, -1))
    v = max(length, key=lambda v: (length[v][0], -v))
    path = 0
    while v >= 0:
        path |= 1 << v
        v = length[v][1]
    return path


def _groups(network: Network, fillers: int, cuts: list[int]) -> tuple[Group, ...]:
    """Return the fillers as connected groups with a common release."""
    by_release: dict[int, int] = {}
    before_cut = as_set(cuts)
    for v in members(fillers):
        release = (network.ancestors[v] & before_cut).bit_count()
        by_release[release] = by_release.get(release, 0) | 1 << v
    groups = []
    for release, some in sorted(by_release.items()):
        for component in network.components(some):
            due = max(len(cuts) - (network.descendants[v] & before_cut).bit_count() for v in members(component))
            groups.append(Group(tuple(members(component)), release, due))
    return tuple(groups)
