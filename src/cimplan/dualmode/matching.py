"""The largest sharing of memory arrays between producers and consumers.

An array in memory mode that holds a producer's results can at the same time be an array that holds a consumer's inputs.
Every array belongs to one such pair at most, so the largest number of shared arrays is a capacitated b-matching:

    maximise sum x_e   subject to   sum of x_e over the edges at v <= capacity_v,   0 <= x_e <= limit_e,   x_e whole

On a forest it is enough to go from the leaves inwards; on a bipartite graph it is a maximum flow; odd cycles need
Edmonds' blossoms, here on a graph with one vertex for each unit of capacity, from a start that is nearly optimal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

SharingEdge = tuple[int, int, int]
"""Producer, consumer, and the most arrays they can share."""


def largest_sharing(capacity: Sequence[int], edges: Sequence[SharingEdge]) -> list[int]:
    """Return a largest b-matching, one number for each edge.

    Parameters
    ----------
    capacity : sequence of int
        Arrays of each vertex, 0 or more.
    edges : sequence of SharingEdge
        Without loops; parallel edges are allowed.

    Returns
    -------
    list of int
        Arrays shared on each edge.
    """
    if _is_out_forest(edges):
        return _from_the_leaves(capacity, edges)
    limits = [min(limit, capacity[u], capacity[v]) for u, v, limit in edges]
    live = [index for index, limit in enumerate(limits) if limit > 0]
    shared = [0] * len(edges)
    if not live:
        return shared
    peeled = _peel_leaves(capacity, edges, limits, live, shared)
    if peeled is None:
        return shared
    left, core = peeled
    sides = _two_sides(edges, core)
    found = _bipartite(left, edges, limits, core, sides) if sides is not None else _general(left, edges, limits, core)
    for index, amount in zip(core, found, strict=True):
        shared[index] = amount
    return shared


def _is_out_forest(edges: Sequence[SharingEdge]) -> bool:
    """Return whether edges are sorted by consumer and every consumer has one producer, which comes before it."""
    last = -1
    for producer, consumer, _ in edges:
        if consumer <= last or producer >= consumer:
            return False
        last = consumer
    return True


def _from_the_leaves(capacity: Sequence[int], edges: Sequence[SharingEdge]) -> list[int]:
    """Settle the edges of an out-forest from the last consumer on: everything behind it is settled before."""
    left = list(capacity)
    shared = [0] * len(edges)
    for index in range(len(edges) - 1, -1, -1):
        producer, consumer, limit = edges[index]
        amount = min(limit, left[producer], left[consumer])
        if amount:
            shared[index] = amount
            left[producer] -= amount
            left[consumer] -= amount
    return shared


def _peel_leaves(
    capacity: Sequence[int], edges: Sequence[SharingEdge], limits: list[int], live: list[int], shared: list[int]
) -> tuple[list[int], list[int]] | None:
    """Settle the edges at leaves; return what capacity and which edges remain, or None if nothing does.

    A leaf can do nothing better with its capacity than to share it over its only edge.
    """
    left = list(capacity)
    at: dict[int, set[int]] = {}
    for index in live:
        u, v, _ = edges[index]
        at.setdefault(u, set()).add(index)
        at.setdefault(v, set()).add(index)
    leaves = [vertex for vertex, incident in at.items() if len(incident) == 1]
    remaining = set(live)
    while leaves:
        leaf = leaves.pop()
        if len(at[leaf]) != 1:
            continue
        index = at[leaf].pop()
        remaining.discard(index)
        u, v, _ = edges[index]
        other = v if leaf == u else u
        amount = min(limits[index], left[leaf], left[other])
        shared[index] = amount
        left[leaf] -= amount
        left[other] -= amount
        at[other].discard(index)
        if len(at[other]) == 1:
            leaves.append(other)
    return (left, sorted(remaining)) if remaining else None


def _two_sides(edges: Sequence[SharingEdge], core: list[int]) -> dict[int, int] | None:
    """Return a side for each vertex so that every edge crosses, or None if there is an odd cycle."""
    neighbours: dict[int, list[int]] = {}
    for index in core:
        u, v, _ = edges[index]
        neighbours.setdefault(u, []).append(v)
        neighbours.setdefault(v, []).append(u)
    side: dict[int, int] = {}
    for start in neighbours:
        if start in side:
            continue
        side[start] = 0
        queue = [start]
        while queue:
            vertex = queue.pop()
            for other in neighbours[vertex]:
                if other not in side:
                    side[other] = 1 - side[vertex]
                    queue.append(other)
                elif side[other] == side[vertex]:
                    return None
    return side


def _bipartite(
    capacity: list[int], edges: Sequence[SharingEdge], limits: list[int], core: list[int], side: dict[int, int]
) -> list[int]:
    arcs = []
    for index in core:
        u, v, _ = edges[index]
        arcs.append((u, v, limits[index]) if side[u] == 0 else (v, u, limits[index]))
    return _flow(capacity, capacity, arcs)


def _flow(supply: Sequence[int], demand: Sequence[int], arcs: list[tuple[int, int, int]]) -> list[int]:
    """Return a largest flow from left vertices to right vertices, one number for each arc (left, right, limit)."""
    out: dict[int, list[int]] = {}
    into: dict[int, list[int]] = {}
    for index, (u, v, _) in enumerate(arcs):
        out.setdefault(u, []).append(index)
        into.setdefault(v, []).append(index)
    flow = [0] * len(arcs)
    free = {u: supply[u] for u in out}
    open_demand = {v: demand[v] for v in into}
    for index, (u, v, limit) in enumerate(arcs):
        amount = min(limit, free[u], open_demand[v])
        flow[index] = amount
        free[u] -= amount
        open_demand[v] -= amount
    while True:
        # Breadth first from every left vertex with something left to give, alternating forward and backward arcs.
        came_left: dict[int, int | None] = {u: None for u, amount in free.items() if amount > 0}
        came_right: dict[int, int] = {}
        queue = deque(came_left)
        end = None
        while queue and end is None:
            u = queue.popleft()
            for index in out[u]:
                v = arcs[index][1]
                if v in came_right or flow[index] >= arcs[index][2]:
                    continue
                came_right[v] = index
                if open_demand[v] > 0:
                    end = v
                    break
                for back in into[v]:
                    w = arcs[back][0]
                    if flow[back] > 0 and w not in came_left:
                        came_left[w] = back
                        queue.append(w)
        if end is None:
            return flow
        path: list[tuple[int, int]] = []
        v = end
        while True:
            forward = came_right[v]
            path.append((forward, 1))
            u = arcs[forward][0]
            backward = came_left[u]
            if backward is None:
                break
            path.append((backward, -1))
            v = arcs[backward][1]
        amount = min(free[u], open_demand[end])
        for index, sign in path:
            amount = min(amount, arcs[index][2] - flow[index] if sign > 0 else flow[index])
        for index, sign in path:
            flow[index] += sign * amount
        free[u] -= amount
        open_demand[end] -= amount


def _general(capacity: list[int], edges: Sequence[SharingEdge], limits: list[int], core: list[int]) -> list[int]:
    """Return a largest b-matching of a graph with odd cycles.

    The flow on the double cover is twice the best fractional sharing; half of it, rounded down, is a start that lacks
    little, and half of its total is a bound that ends most searches at once.
    """
    pairs = [(edges[index][0], edges[index][1], limits[index]) for index in core]
    double = _flow(capacity, capacity, pairs + [(v, u, limit) for u, v, limit in pairs])
    total = sum(double)
    shared = [(double[index] + double[index + len(pairs)]) // 2 for index in range(len(pairs))]
    left = list(capacity)
    for (u, v, _), amount in zip(pairs, shared, strict=True):
        left[u] -= amount
        left[v] -= amount
    for index, (u, v, limit) in enumerate(pairs):
        extra = min(limit - shared[index], left[u], left[v])
        shared[index] += extra
        left[u] -= extra
        left[v] -= extra
    if sum(shared) < total // 2:
        shared = _with_blossoms(capacity, pairs, shared, total // 2)
    return shared


def _with_blossoms(capacity: list[int], pairs: list[tuple[int, int, int]], shared: list[int], bound: int) -> list[int]:
    """Enlarge a b-matching to a largest one.

    Every unit of a vertex's capacity and every unit of an edge's limit become vertices: an edge unit is two joined
    vertices, one next to all units of its producer and one next to all units of its consumer. If the two are matched
    to each other the unit is not shared; if both are matched to units of capacity it is.
    """
    units: dict[int, list[int]] = {}
    neighbours: list[list[int]] = []
    mate: list[int] = []

    def add() -> int:
        neighbours.append([])
        mate.append(-1)
        return len(mate) - 1

    for u, v, _ in pairs:
        for vertex in (u, v):
            if vertex not in units:
                units[vertex] = [add() for _ in range(capacity[vertex])]
    unused = {vertex: list(reversed(members)) for vertex, members in units.items()}
    edge_units: list[list[tuple[int, int]]] = []
    for (u, v, limit), amount in zip(pairs, shared, strict=True):
        members: list[tuple[int, int]] = []
        for number in range(limit):
            one, two = add(), add()
            members.append((one, two))
            neighbours[one] = [two, *units[u]]
            neighbours[two] = [one, *units[v]]
            for unit in units[u]:
                neighbours[unit].append(one)
            for unit in units[v]:
                neighbours[unit].append(two)
            matched = ((one, unused[u].pop()), (two, unused[v].pop())) if number < amount else ((one, two),)
            for a, b in matched:
                mate[a], mate[b] = b, a
        edge_units.append(members)
    total = sum(shared)
    for alike in units.values():
        # The units of one vertex are alike: once a search from one of them fails, it fails from the others.
        while total < bound:
            start = next((unit for unit in alike if mate[unit] < 0), None)
            if start is None or not _augment(neighbours, mate, start):
                break
            total += 1
    return [sum(mate[one] != two for one, two in members) for members in edge_units]


def _augment(neighbours: list[list[int]], mate: list[int], root: int) -> bool:
    """Search an augmenting path from a free vertex, shrinking blossoms on the way (Edmonds); apply it if found."""
    count = len(mate)
    parent = [-1] * count
    base = list(range(count))
    outer = [False] * count
    outer[root] = True
    queue = deque([root])

    def common_base(a: int, b: int) -> int:
        on_path = set()
        while True:
            a = base[a]
            on_path.add(a)
            if mate[a] < 0:
                break
            a = parent[mate[a]]
        while base[b] not in on_path:
            b = parent[mate[base[b]]]
        return base[b]

    def mark(vertex: int, until: int, child: int, blossom: set[int]) -> None:
        while base[vertex] != until:
            blossom.add(base[vertex])
            blossom.add(base[mate[vertex]])
            parent[vertex] = child
            child = mate[vertex]
            vertex = parent[mate[vertex]]

    while queue:
        vertex = queue.popleft()
        for other in neighbours[vertex]:
            if base[vertex] == base[other] or mate[vertex] == other:
                continue
            if other == root or (mate[other] >= 0 and parent[mate[other]] >= 0):
                top = common_base(vertex, other)
                blossom: set[int] = set()
                mark(vertex, top, other, blossom)
                mark(other, top, vertex, blossom)
                for member in range(count):
                    if base[member] in blossom:
                        base[member] = top
                        if not outer[member]:
                            outer[member] = True
                            queue.append(member)
            elif parent[other] < 0:
                parent[other] = vertex
                if mate[other] < 0:
                    _flip(parent, mate, other)
                    return True
                outer[mate[other]] = True
                queue.append(mate[other])
    return False


def _flip(parent: list[int], mate: list[int], vertex: int) -> None:
    """Exchange matched and unmatched edges on the path that ends at a free vertex."""
    while vertex >= 0:
        before = parent[vertex]
        following = mate[before]
        mate[vertex], mate[before] = before, vertex
        vertex = following
