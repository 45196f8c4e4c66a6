"""Certificates made by trying everything, to hold the verifier against. For problems of a handful of operators."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.plan.certificate import Block, Certificate, FillerGroup, Front, Point


def reachable(problem: Problem) -> set[tuple[int, int]]:
    found = {(edge.source, edge.target) for edge in problem.dependencies}
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


def naive_certificate(
    problem: Problem,
    rng: random.Random,
    lower_bound: int,
    *,
    exhausted: bool = False,
    delayed: float = 0.6,
    role: Sequence[str] | None = None,
) -> Certificate:
    """Return a certificate with random dropped operators and fillers, unless they are given, and complete tables."""
    count = len(problem)
    role = role or [rng.choice(["spine"] * 6 + ["dropped", "filler", "filler"]) for _ in range(count)]
    delayed = rng.choice([0, delayed])
    dropped = tuple(v for v in range(count) if role[v] == "dropped")
    loose = [v for v in range(count) if role[v] == "filler"]
    groups: list[list[int]] = []
    for v in loose:
        if groups and rng.random() < 0.5:
            groups[-1].append(v)
        else:
            groups.append([v])
    spine = [v for v in range(count) if role[v] == "spine"]
    before = reachable(problem)
    cuts = [c for c in spine if all(v == c or (v, c) in before or (c, v) in before for v in spine)]
    cuts = [c for c in cuts if rng.random() < 0.9]
    blocks = []
    for number in range(len(cuts) + 1):
        start = cuts[number - 1] if number else None
        end = cuts[number] if number < len(cuts) else None
        members = [
            v
            for v in spine
            if v != start
            and (start is None or (start, v) in before)
            and (end is None or v == end or (v, end) in before)
        ]
        if len(members) <= (end is not None) and rng.random() < 0.8:
            blocks.append(Block("chain"))
        else:
            blocks.append(Block("enumeration", fronts(problem, members, start, end)))
    return Certificate(
        lower_bound=lower_bound,
        budget=problem.budget,
        cuts=tuple(cuts),
        blocks=tuple(blocks),
        fillers=tuple(FillerGroup(tuple(group), rng.random() < delayed) for group in groups),
        dropped=dropped,
        exhausted=exhausted,
    )


def fronts(problem: Problem, members: list[int], start: int | None, end: int | None) -> tuple[Front, ...]:
    """Return every front of a block: all options, all host orders."""
    found = []
    for a in range(len(problem.options[start])) if start is not None else (-1,):
        for b in range(len(problem.options[end])) if end is not None else (-1,):
            points: set[tuple[int, int, int, int]] = set()
            choices = [[b] if v == end else range(len(problem.options[v])) for v in members]
            for chosen in itertools.product(*choices):
                picked = {v: problem.options[v][choice] for v, choice in zip(members, chosen, strict=True)}
                place = None if start is None else problem.options[start][a].place
                points |= schedules(problem, picked, start, place, end)
            kept = [
                p for p in points if not any(q != p and all(x <= y for x, y in zip(q, p, strict=True)) for q in points)
            ]
            found.append(Front(a, b, tuple(sorted(Point(*p) for p in kept))))
    return tuple(found)


def schedules(problem: Problem, picked: dict, start: int | None, place: str | None, end: int | None) -> set:  # type: ignore[type-arg]
    """Return (crossbars, time, host time, lead) of the earliest schedule of each host order."""
    on_host = [v for v, option in picked.items() if option.place == HOST and option.duration > 0]
    found = set()
    for order in itertools.permutations(on_host):
        begin: dict[int, int] = dict.fromkeys(picked, 0)
        for _ in range(len(picked) + 1):  # relax until nothing changes; orders against the dependencies never settle
            previous = dict(begin)
            for edge in problem.dependencies:
                if edge.target not in picked:
                    continue
                if edge.source in picked:
                    moved = picked[edge.source].place != picked[edge.target].place
                    earliest = begin[edge.source] + picked[edge.source].duration + (edge.transfer if moved else 0)
                elif edge.source == start:
                    earliest = edge.transfer if place != picked[edge.target].place else 0
                else:
                    continue
                begin[edge.target] = max(begin[edge.target], earliest)
            for u, v in itertools.pairwise(order):
                begin[v] = max(begin[v], begin[u] + picked[u].duration)
            if begin == previous:
                break
        else:
            continue
        finish = {v: begin[v] + option.duration for v, option in picked.items()}
        time = finish[end] if end is not None else max(finish.values(), default=0)
        found.add(
            (
                sum(option.crossbars for option in picked.values()),
                time,
                sum(picked[v].duration for v in on_host),
                min((begin[v] for v in on_host), default=time),
            )
        )
    return found


def long_fillers(rng: random.Random) -> tuple[Problem, list[str]]:
    """Return a problem and its roles: a spine that often leaves the host waiting, and fillers too long for that."""
    role = ["spine"] * rng.randint(2, 5) + ["filler"] * rng.randint(1, 3) + ["dropped"] * (rng.random() < 0.1)
    role = role[:7]
    rng.shuffle(role)
    count = len(role)
    options: list[tuple[Option, ...]] = []
    for kind in role:
        high = 12 if kind == "filler" else 5
        on_host = Option(HOST, rng.randint(0 if rng.random() < 0.3 else 1, high))
        apart = Option(rng.choice([CIM, CIM, CIM, "cim2"]), rng.randint(0, 2 * high - 4), rng.randint(0, 2))
        likely = [[on_host], [on_host], [on_host, apart], [apart]]
        options.append(tuple(rng.choice(likely if kind == "filler" else [*likely, [apart], [Option(HOST, 0)]])))
    spine = [v for v in range(count) if role[v] == "spine"]
    edges = set(itertools.pairwise(spine))
    if rng.random() < 0.5:  # two branches, perhaps not joined again
        edges -= {rng.choice(sorted(edges))}
        edges |= {(u, v) for u, v in zip(spine, spine[2:], strict=False) if rng.random() < 0.7}
    for v in range(count):
        if role[v] != "spine":
            edges |= {(u, v) for u in range(v) if rng.random() < 0.25}
            edges |= {(v, w) for w in range(v + 1, count) if rng.random() < 0.3}
    transfers = rng.choice([[0], [0, 0, 1, 3], [0, 2, 8]])
    demand = sum(max(option.crossbars for option in some) for some in options)
    budget = rng.choice([demand // 2, 2 * demand // 3, demand])
    dependencies = tuple(Dependency(u, v, rng.choice(transfers)) for u, v in sorted(edges))
    return Problem(tuple(f"op{v}" for v in range(count)), tuple(options), dependencies, budget), role


def naive_waits(problem: Problem, certificate: Certificate) -> list[int]:
    """Return wait(k) of each block, and 0 for the end: the longest of all chains, one by one."""
    before = reachable(problem)
    left_out = {*certificate.dropped, *(v for group in certificate.fillers for v in group.operators)}
    spine = [v for v in range(len(problem)) if v not in left_out]
    edges = {(edge.source, edge.target): edge.transfer for edge in problem.dependencies}

    def step(u: int, w: int) -> int | None:
        """Return the ticks between two operators that follow each other, None if they do not."""
        if (u, w) in edges:
            places = {option.place for v in (u, w) for option in problem.options[v]}
            return edges[u, w] if len(places) > 1 else 0
        between = any((u, x) in before and (x, w) in before for x in spine)
        return 0 if (u, w) in before and not between else None

    def length(v: int) -> int:
        apart = [option.duration for option in problem.options[v] if option.place != HOST or option.duration == 0]
        if not apart:
            return 0
        return max(apart) + max((ticks + length(w) for w in spine if (ticks := step(v, w)) is not None), default=0)

    waits = []
    for number in range(len(certificate.cuts) + 2):
        some = [v for v in spine if number == 0 or block_of(certificate, before, v) >= number]
        into = {v: max((ticks for u in spine if (ticks := step(u, v)) is not None), default=0) for v in some}
        waits.append(max((into[v] + length(v) for v in some), default=0))
    return waits


def block_of(certificate: Certificate, before: set[tuple[int, int]], v: int) -> int:
    return sum((cut, v) in before for cut in certificate.cuts)


def naive_fold(problem: Problem, certificate: Certificate) -> int | None:
    """Return the value of the fold without delayed groups: all choices, all points, nothing dropped on the way."""
    assert not any(group.delayed for group in certificate.fillers)
    before = reachable(problem)
    waits = naive_waits(problem, certificate)
    last = len(certificate.cuts)
    groups = [group.operators for group in certificate.fillers]
    release = [min(block_of(certificate, before, v) for v in group) for group in groups]
    due = [
        max(sum((v, cut) not in before for cut in certificate.cuts) for v in group) for group in groups
    ]  # the cuts that an operator does not precede come first
    least = sum(min(option.crossbars for option in problem.options[v]) for v in certificate.dropped)
    labels = {(-1, least, 0, 0)}
    pending: list[int] = []
    for number in range(last + 1):
        cut = certificate.cuts[number - 1] if number else None
        end = certificate.cuts[number] if number < last else None
        for at, group in enumerate(groups):
            if release[at] != number:
                continue
            pending.append(due[at])
            for v in group:
                labels = {
                    (
                        q,
                        crossbars + option.crossbars,
                        t + (max(0, option.duration - waits[number]) if option.place == HOST else 0),
                        e + (option.duration if option.place == HOST else 0),
                    )
                    for q, crossbars, t, e in labels
                    for option in problem.options[v]
                }
        flushed = bool(pending) and max(pending) <= number
        block = certificate.blocks[number]
        table = block.fronts
        if block.reason == "chain":
            table = fronts(problem, [] if end is None else [end], cut, end)
        grown = set()
        for q, crossbars, t, e in labels:
            for front in table:
                if front.from_option != q:
                    continue
                end_option = None if end is None else problem.options[end][front.to_option]
                p = 0 if end_option is None else end_option.duration
                g = p if end_option is not None and end_option.place == HOST else 0
                for point in front.points:
                    if flushed:
                        t2 = e2 = p + max(t + point.time - p, e + point.host_time - g)
                    else:
                        t2 = t + point.time
                        e2 = max(t2, e + point.host_time)
                    grown.add((front.to_option, crossbars + point.crossbars, t2, e2))
        labels = grown
        if flushed:
            pending = []
    return min((e for _, crossbars, _, e in labels if crossbars <= certificate.budget), default=None)
