"""How long the spine can keep the host waiting.

A filler that runs longer than that delays the spine by the rest: what happens elsewhere was begun by what ended before
on the host, so that it has come to its end, and nothing happens until the filler ends. Cut that time out, and what
remains is a schedule of the spine without the filler. `cimplan.plan.certificate` says it at length.
"""

from __future__ import annotations

from dataclasses import dataclass

from cimplan.cost.problem import HOST
from cimplan.partition.spine import Spine
from cimplan.partition.structure import Network, as_set, members


@dataclass(frozen=True)
class Waits:
    """What happens without the host.

    Attributes
    ----------
    chain : dict of int to int
        Per spine operator that need not occupy the host: ticks that it and what follows it without the host can take.
    longest : tuple of int
        Per block: ticks that the spine can keep the host waiting, from that block on. The last entry is the end.
    """

    chain: dict[int, int]
    longest: tuple[int, ...]


def find_waits(network: Network, spine: Spine) -> Waits:
    """Find the chains of a spine that do not need the host."""
    count = len(spine.interiors)
    block_of = {v: k for k, interior in enumerate(spine.interiors) for v in members(interior)}
    block_of |= {v: k for k, v in enumerate(spine.cuts)}
    options = network.problem.options
    after = _following(network, block_of)
    chain: dict[int, int] = {}
    longest = [0] * (count + 1)
    before = dict.fromkeys(block_of, 0)
    for v in sorted(block_of, reverse=True):
        elsewhere = [option.duration for option in options[v] if option.place != HOST or not option.duration]
        if elsewhere:
            chain[v] = max(elsewhere) + max((ticks + chain.get(w, 0) for w, ticks in after[v]), default=0)
        for w, ticks in after[v]:
            before[w] = max(before[w], ticks)
    for v, k in block_of.items():
        # Even without the host, a transfer may come before: also one from an earlier block.
        longest[k] = max(longest[k], before[v] + chain.get(v, 0))
    for k in reversed(range(count)):
        longest[k] = max(longest[k], longest[k + 1])
    return Waits(chain, tuple(longest))


def _following(network: Network, spine: dict[int, int]) -> dict[int, list[tuple[int, int]]]:
    """Return the operators of the spine right after each one, with the ticks of a transfer if there can be one.

    The spine also keeps the order of operators that are joined only by way of fillers.
    """
    options = network.problem.options
    bits = as_set(spine)
    places = {v: {option.place for option in options[v]} for v in spine}
    after: dict[int, list[tuple[int, int]]] = {v: [] for v in spine}
    for w in spine:
        beside = network.ancestors[w] & bits
        for u, ticks in network.before[w]:
            if u in places:
                after[u].append((w, ticks if len(places[u] | places[w]) > 1 else 0))
                beside &= ~(network.ancestors[u] | 1 << u)
        while beside:
            u = beside.bit_length() - 1
            after[u].append((w, 0))
            beside &= ~(network.ancestors[u] | 1 << u)
    return after
