"""Certificates made by trying everything, to hold the verifier against. For problems of a handful of operators."""

from __future__ import annotations

import itertools
import random

from cimplan.cost.problem import HOST, Problem
from cimplan.plan.certificate import Block, Certificate, FillerGroup, Front, Point


def reachable(problem: Problem) -> set[tuple[int, int]]:
    found = {(edge.source, edge.target) for edge in problem.dependencies}
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


def naive_certificate(
    problem: Problem, rng: random.Random, lower_bound: int, *, exhausted: bool = False
) -> Certificate:
    """Return a certificate with random dropped operators and fillers, and complete tables."""
    count = len(problem)
    role = [rng.choice(["spine"] * 6 + ["dropped", "filler", "filler"]) for _ in range(count)]
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
        fillers=tuple(FillerGroup(tuple(group), rng.random() < 0.6) for group in groups),
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
