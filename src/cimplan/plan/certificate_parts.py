"""The parts of a certificate beside its problem: blocks, boundaries, groups, and whether the cuts cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from cimplan.cost.problem import HOST, Dependency, Option, Problem
from cimplan.plan.certificate import Certificate, FillerGroup, Point, Step
from cimplan.plan.certificate_targets import Targets
from cimplan.plan.certificate_waits import Waits, find_waits
from cimplan.plan.effort import Effort, TooLargeError


def host_time(option: Option) -> int:
    """Return the ticks that an option takes the host."""
    return option.duration if option.place == HOST else 0


Table = list[tuple[int, int, tuple[Point, ...]]]
"""(option of the start cut, option of the end cut, points) of a block."""

MOST_OPERATORS: Final = 40_000
"""Whether a path joins two of them takes two bits: a few hundred megabytes for all."""


class RefutedError(Exception):
    """A claim of the certificate is false; the message says which."""


@dataclass(frozen=True, slots=True)
class Group:
    """A filler group: its operators, and the blocks that release it and by whose end it is due."""

    operators: tuple[int, ...]
    delayed: bool
    released: int
    due: int


class Parts:
    """A certificate read against its problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    certificate : Certificate
        What is claimed of it.
    effort : Effort, optional
        For what the file may make large; a good deal if left out.

    Raises
    ------
    RefutedError
        If the parts do not belong to the problem, or some cut does not cut.
    TooLargeError
        If the problem has more operators than can be compared with one another.
    """

    def __init__(self, problem: Problem, certificate: Certificate, effort: Effort | None = None) -> None:
        self.problem = problem
        self.certificate = certificate
        self.effort = effort or Effort(1_000_000)
        self._require_shape()
        self.targets = Targets(certificate.steps or (Step(certificate.budget, certificate.lower_bound),))
        if len(problem) > MOST_OPERATORS:
            raise TooLargeError
        self.least = [min(option.crossbars for option in options) for options in problem.options]
        self._before, self._after = _reachability(problem)
        self._transfer = {(edge.source, edge.target): edge.transfer for edge in problem.dependencies}
        self.members = self._blocks()
        self.groups = [self._group(group) for group in certificate.fillers]
        self.released: dict[int, list[Group]] = {}
        for group in self.groups:
            self.released.setdefault(group.released, []).append(group)
        self.flushed = self._flushed()

    @cached_property
    def waits(self) -> Waits:
        """How long the spine can keep the host waiting."""
        return find_waits(self.problem, self.members, self._before, self.effort)

    def _require_shape(self) -> None:
        problem, certificate = self.problem, self.certificate
        if problem.host_cores != 1:
            raise RefutedError(f"certificates hold for one host core, the problem has {problem.host_cores}")
        if certificate.budget < problem.budget:
            raise RefutedError(f"it holds for {certificate.budget} crossbars, the problem has {problem.budget}")
        fillers = [v for group in certificate.fillers for v in group.operators]
        parts = (*certificate.cuts, *fillers, *certificate.dropped)
        if len(set(parts)) != len(parts) or not all(0 <= v < len(problem) for v in parts):
            raise RefutedError("cuts, fillers and dropped operators are not different operators of the problem")
        if not all(group.operators for group in certificate.fillers):
            raise RefutedError("a filler group is empty")
        if certificate.steps:
            if (certificate.budget, certificate.lower_bound) != (
                certificate.steps[-1].budget,
                certificate.steps[-1].bound,
            ):
                raise RefutedError("its last step is not its own budget and bound")
            if any(a.budget >= b.budget or a.bound < b.bound for a, b in pairwise(certificate.steps)):
                raise RefutedError("its steps do not rise in crossbars and fall in ticks")
            if certificate.steps[0].budget < 0 or certificate.steps[-1].bound < 0:
                raise RefutedError("a step is less than nothing")
        if len(certificate.blocks) != len(certificate.cuts) + 1:
            raise RefutedError(f"{len(certificate.cuts)} cuts do not make {len(certificate.blocks)} blocks")

    def _blocks(self) -> list[list[int]]:
        """Return the operators of each block, ends included, after making sure that the cuts cut."""
        cuts = self.certificate.cuts
        left_out = {*self.certificate.dropped, *(v for group in self.certificate.fillers for v in group.operators)}
        spine = [v for v in range(len(self.problem)) if v not in left_out]
        for before, cut in pairwise(cuts):
            if not self.precedes(before, cut):
                raise RefutedError(f"the cuts {self.name(before)} and {self.name(cut)} are not in order")
        everything = sum(1 << v for v in spine)
        for cut in cuts:
            apart = everything & ~(self._before[cut] | self._after[cut] | 1 << cut)
            if apart:
                other = self.name(apart.bit_length() - 1)
                raise RefutedError(f"no path joins the cut {self.name(cut)} and {other}")
        members: list[list[int]] = [[] for _ in self.certificate.blocks]
        number_of = {cut: number for number, cut in enumerate(cuts)}
        for v in spine:
            number = number_of[v] if v in number_of else self.release(v)
            members[number].append(v)
        return members

    def _group(self, group: FillerGroup) -> Group:
        due = max(self.due(v) for v in group.operators)
        released = min(self.release(v) for v in group.operators)
        return Group(tuple(sorted(group.operators)), group.delayed, released, due)

    def _flushed(self) -> frozenset[int]:
        """Return the blocks before whose end all filler work that has been released must be done.

        The end of such a block is comparable with every filler: it follows those released by then, and the others,
        released by a later block, follow it.
        """
        found = set()
        due = -1  # of what is pending; -1 if nothing is
        for number in range(len(self.certificate.blocks)):
            due = max([due, *(group.due for group in self.released.get(number, ()))])
            if 0 <= due <= number:
                found.add(number)
                due = -1
        return frozenset(found)

    def release(self, v: int) -> int:
        """Return how many cuts precede an operator; they are the first ones, because each precedes the next."""
        return bisect_left(self.certificate.cuts, True, key=lambda cut: not self.precedes(cut, v))

    def precedes(self, u: int, v: int) -> bool:
        """Tell whether a path leads from u to v."""
        return bool(self._after[u] >> v & 1)

    def due(self, v: int) -> int:
        """Return the number of the first cut that an operator precedes, or the number of cuts."""
        return bisect_left(self.certificate.cuts, True, key=lambda cut: self.precedes(v, cut))

    def before(self, v: int) -> int:
        """Return the operators from which a path leads to v, as bits."""
        return self._before[v]

    def after(self, v: int) -> int:
        """Return the operators to which a path leads from v, as bits."""
        return self._after[v]

    def name(self, v: int) -> str:
        """Return an operator's name for a message."""
        return repr(self.problem.names[v])

    def transfer(self, u: int | None, v: int) -> int | None:
        """Return the transfer of the dependency between two operators, None if there is none."""
        return None if u is None else self._transfer.get((u, v))

    def boundary(self, number: int) -> tuple[int | None, int | None]:
        """Return start cut and end cut of a block."""
        cuts = self.certificate.cuts
        return (cuts[number - 1] if number else None), (cuts[number] if number < len(cuts) else None)

    def choices(self, cut: int | None) -> Sequence[int]:
        """Return the options of a cut, or -1 alone where there is no cut."""
        return range(len(self.problem.options[cut])) if cut is not None else (-1,)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The table of each block.

        Raises
        ------
        TooLargeError
            If cuts have so many options that their pairs do not fit in memory.
        """
        self.effort.spend_entries(
            sum(
                len(self.choices(start)) * len(self.choices(end))
                for number, block in enumerate(self.certificate.blocks)
                if block.reason == "chain"
                for start, end in (self.boundary(number),)
            )
        )
        return tuple(self._table(number) for number in range(len(self.certificate.blocks)))

    @cached_property
    def entries(self) -> int:
        """How many points all tables have together, and pairs of options."""
        return sum(1 + len(points) for table in self.tables for _, _, points in table)

    def _table(self, number: int) -> Table:
        block = self.certificate.blocks[number]
        if block.reason != "chain":
            return [(front.from_option, front.to_option, front.points) for front in block.fronts]
        start, end = self.boundary(number)
        if end is None:
            return [(option, -1, (Point(0, 0, 0, 0),)) for option in self.choices(start)]
        found: list[tuple[int, int, tuple[Point, ...]]] = []
        for a in self.choices(start):
            for b, option in enumerate(self.problem.options[end]):
                moved = start is not None and self.problem.options[start][a].place != option.place
                time = option.duration + ((self.transfer(start, end) or 0) if moved else 0)
                work = host_time(option)
                found.append((a, b, (Point(option.crossbars, time, work, time - work),)))
        return found

    @cached_property
    def edges_within(self) -> tuple[list[Dependency], ...]:
        """Dependencies into the operators of each block from these operators or from the cut before."""
        block = {v: number for number, some in enumerate(self.members) for v in some}
        found: tuple[list[Dependency], ...] = tuple([] for _ in self.members)
        for edge in self.problem.dependencies:
            number = block.get(edge.target, -1)
            if number >= 0 and (block.get(edge.source, -1) == number or edge.source == self.boundary(number)[0]):
                found[number].append(edge)
        return found


def _reachability(problem: Problem) -> tuple[list[int], list[int]]:
    """Return for each operator the sets of operators before and after it on a path, as bits."""
    before, after = [0] * len(problem), [0] * len(problem)
    for edge in problem.dependencies:  # sorted by source, but a source may gain predecessors only from earlier ones
        before[edge.target] |= before[edge.source] | 1 << edge.source
    for edge in reversed(problem.dependencies):
        after[edge.source] |= after[edge.target] | 1 << edge.target
    return before, after
