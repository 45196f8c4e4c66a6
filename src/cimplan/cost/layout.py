"""The cost of the host's own layout: who pays for turning tensors to blocks of channels and back.

ONNX Runtime runs float convolutions on x86 in blocks of channels and puts reorders where blocks meet anything else
(`cimplan.graph.layout`). A plan moves operators off the host, so a reorder is no fixed cost of the network. The truth
is a choice of layout per tensor: whoever makes a tensor on the host in blocks gives blocks, everyone else (other
operators of the host, the accelerator, the network's inputs) gives it plain, and likewise for whoever reads it; a
reorder is needed once per tensor and direction where the two differ. Solvers know neither layouts nor tensors, only
options per operator and transfers per edge, so the reorders are written into these:

- A **ReorderOutput** that was measured belongs to the host option of the operator that makes its tensor: it is needed
  exactly while that operator is on the host, wherever the plain readers run.
- A **ReorderInput** with one reader belongs to the host option of that reader, for the same reason.
- A **ReorderInput with several readers** stays an operator. If none of its readers has to be on the host, it has a
  second option, off the host, without time and crossbars: nobody needs it.
- A **new reorder**, between two operators that exchange a tensor in blocks and of which one leaves the host, is added
  to the transfer of that edge, which is charged exactly if the two are at different places.

So the operators of a plan are those of the network: `LayoutFold.stands_for` says which nodes each one stands for.

Exact: the work of the host under every placement as far as reorders were measured; everything in a chain. Approximate:

- A new reorder delays its reader and does not occupy the host, so another operator of the host may run meanwhile; so
  does a shared one that is off the host while one of its readers is not. Too little by no more than these reorders.
- The transfer of an edge is one number for both directions; the dearer reorder is taken.
- A folded reorder runs right beside its operator, and a shared one before what is moved to the accelerator, also
  where another order were better; never too little.
- An operator that is *not* blocked itself but runs on blocked tensors (an activation function, a concatenation) does
  so in any layout. It follows its neighbours: a ReorderOutput behind it is shared among the blocked operators before
  it, by bytes, and a new reorder beside it is charged only if a blocked operator next to it can never leave the host.
  If only some of its neighbours leave, one reorder per tensor is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cimplan.cost.profile_file import HostProfile, record_of
from cimplan.graph.layout import (
    REORDER_INPUT,
    REORDER_OUTPUT,
    blocked_tensors,
    is_reorder,
    network_of,
    well_formed,
)
from cimplan.graph.operators import Edge, Operator, OperatorGraph
from cimplan.operator_types import NCHWC

NOT_NEEDED = "not needed"
"""Label of the option of a shared reorder that none of its readers needs."""

FOR_THE_HOST = "changes the layout for operators that run only on the host"


@dataclass(frozen=True)
class LayoutFold:
    """A graph without the reorders that belong to other operators.

    Attributes
    ----------
    graph : OperatorGraph
        The operators that are planned, with the tensors of the network: a tensor and its blocked form are one.
    stands_for : mapping of str to tuple of str
        By operator: the nodes of the optimised graph that it stands for, in their order, itself among them.
    shares : mapping of str to mapping of str to float
        By operator: the folded reorders whose time on the host is its own, and which part of that.
    blocked : frozenset of (str, str)
        Operator and tensor: it reads the tensor in blocks as another operator made it.
    turned : frozenset of str
        Tensors that are made in blocks and also turned back: there is a measured reorder.
    """

    graph: OperatorGraph
    stands_for: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, Mapping[str, float]]
    blocked: frozenset[tuple[str, str]]
    turned: frozenset[str]

    @cached_property
    def shared(self) -> frozenset[str]:
        """The reorders into blocks that are operators of their own."""
        return frozenset(op.name for op in self.graph.operators if is_reorder(op, REORDER_INPUT))

    def off_host(self, able: Collection[str]) -> frozenset[str]:
        """Return the shared reorders that a plan may do without.

        Parameters
        ----------
        able : collection of str
            Operators that can leave the host.
        """
        readers: dict[str, list[str]] = {name: [] for name in self.shared}
        for edge in self.graph.edges:
            source = self.graph.operators[edge.source].name
            if source in readers:
                readers[source].append(self.graph.operators[edge.target].name)
        return frozenset(name for name, found in readers.items() if all(reader in able for reader in found))

    def reorders(self, able: Collection[str], quicker: Collection[str], times: ReorderTimes) -> Callable[[Edge], float]:
        """Return what gives the time of new reorders on an edge whose ends are at different places, in nanoseconds.

        Parameters
        ----------
        able : collection of str
            Operators that can leave the host, shared reorders included.
        quicker : collection of str
            Those of them that take less time off the host.
        times : ReorderTimes
            What a reorder takes.
        """
        pinned = self._pinned(quicker)

        def of(edge: Edge) -> float:
            source, target = self.graph.operators[edge.source], self.graph.operators[edge.target]
            found = []
            for name in edge.tensors:
                if (target.name, name) not in self.blocked:
                    continue
                size = self.graph.tensors[name].size_bytes
                into = out = 0.0
                if source.name in able and (target.domain == NCHWC or target.name in pinned):
                    shared = source.name in self.shared
                    into = times.measured[source.name] if shared else times.into_blocks_ns(size)
                if target.name in able and name not in self.turned and source.name not in self.shared:
                    out = times.out_of_blocks_ns(size) if source.domain == NCHWC or source.name in pinned else 0.0
                found.append(max(into, out))
            return math.fsum(found)

        return of

    def _pinned(self, leaving: Collection[str]) -> frozenset[str]:
        """Return the operators of any layout that have a blocked neighbour, maybe over others, that stays on the host.

        Neighbours are tried until nothing changes, which takes as many rounds as such operators follow each other.
        """
        operators = self.graph.operators
        pairs = [
            (operators[edge.source], operators[edge.target])
            for edge in self.graph.edges
            if any((operators[edge.target].name, name) in self.blocked for name in edge.tensors)
        ]
        found: set[str] = set()
        while True:
            before = len(found)
            for one, other in (*pairs, *((target, source) for source, target in pairs)):
                stays = other.name not in leaving if other.domain == NCHWC else other.name in found
                if one.domain != NCHWC and stays:
                    found.add(one.name)
            if len(found) == before:
                return frozenset(found)


@dataclass(frozen=True)
class ReorderTimes:
    """What a reorder takes on a host, in nanoseconds per byte of its tensor; measured times by name beside it.

    Each direction at the mean rate of its measured reorders; one that was never measured at the other's. If there is
    no reorder at all, both at twice the least time per byte that any operator of the profile takes for what it reads
    and writes: a reorder reads and writes the tensor, and nothing moves bytes quicker than the quickest operator does.
    Only matrix work and blocked operators count, as others (Shape, Reshape, Gather) need not touch what they are given.
    The bytes of a tensor beyond the largest that was measured take no more than that either: most of the time of a
    reorder of some hundred bytes is what any operator costs to run at all.
    """

    into_ns_per_byte: float
    out_ns_per_byte: float
    measured: Mapping[str, float]
    beyond_ns_per_byte: float = math.inf
    largest_bytes: int = 0

    @classmethod
    def of(cls, graph: OperatorGraph, host_ns: Mapping[str, float]) -> ReorderTimes:
        """Take the rates from a profile.

        Parameters
        ----------
        graph : OperatorGraph
            The optimised graph, with the shapes of the network.
        host_ns : mapping of str to float
            Time of each operator on the host.
        """

        def rate(op_type: str) -> float | None:
            found = [op for op in reorders if op.op_type == op_type]
            size = sum(_size(graph, op.outputs) for op in found)
            return math.fsum(host_ns[op.name] for op in found) / size if size else None

        reorders = [op for op in graph.operators if is_reorder(op, REORDER_INPUT) or is_reorder(op, REORDER_OUTPUT)]
        into, out = rate(REORDER_INPUT), rate(REORDER_OUTPUT)
        touching = [op for op in graph.operators if op.work is not None or op.domain == NCHWC]
        moved = ((op, _size(graph, (*dict.fromkeys(op.inputs), *op.outputs))) for op in touching)
        beyond = 2 * min((host_ns[op.name] / size for op, size in moved if size and host_ns[op.name]), default=0.0)
        if into is None and out is None:
            into = out = beyond
        largest = max((_size(graph, op.outputs) for op in reorders), default=0)
        return cls(into or out or 0.0, out or into or 0.0, host_ns, beyond, largest)

    def into_blocks_ns(self, size_bytes: int) -> float:
        """Return the time to turn a tensor of this size to blocks."""
        return self._ns(self.into_ns_per_byte, size_bytes)

    def out_of_blocks_ns(self, size_bytes: int) -> float:
        """Return the time to turn a tensor of this size back."""
        return self._ns(self.out_ns_per_byte, size_bytes)

    def _ns(self, ns_per_byte: float, size_bytes: int) -> float:
        beyond = max(0, size_bytes - self.largest_bytes)
        return ns_per_byte * (size_bytes - beyond) + min(ns_per_byte, self.beyond_ns_per_byte) * beyond


def of_network(profile: HostProfile, model: Path) -> HostProfile:
    """Return a profile with the shapes of the network; those of an older file may be padded for its host.

    Parameters
    ----------
    profile : HostProfile
        Any profile of the model. One that is right already comes back itself.
    model : Path
        The model file, which tells what the profile alone cannot.
    """
    graph = profile.graph()
    found = network_of(graph, model)
    return profile if found == graph else profile.model_copy(update={"graph_record": record_of(found)})


def fold_reorders(graph: OperatorGraph) -> LayoutFold:
    """Give every reorder of an optimised graph to the operator whose place decides whether it is needed.

    Parameters
    ----------
    graph : OperatorGraph
        With the shapes of the network. One without blocks comes back as it is.
    """
    blocked = blocked_tensors(graph)
    if not blocked:
        return LayoutFold(graph, {op.name: (op.name,) for op in graph.operators}, {}, frozenset(), frozenset())
    with well_formed(graph):
        return _Folding(graph, blocked).run()


class _Folding:
    """One pass over a graph."""

    def __init__(self, graph: OperatorGraph, blocked: frozenset[str]) -> None:
        self.graph = graph
        self.blocked = blocked
        self.maker = {name: op for op in graph.operators for name in op.outputs}
        self.readers: dict[str, list[Operator]] = {}
        for op in graph.operators:
            for name in dict.fromkeys(op.inputs):
                self.readers.setdefault(name, []).append(op)
        self.home: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self.shares: dict[str, dict[str, float]] = {}

    def run(self) -> LayoutFold:
        """Return the graph without the reorders that belong to others."""
        turned: set[str] = set()
        for op in self.graph.operators:
            if is_reorder(op, REORDER_OUTPUT):
                self._fold_output(op, turned)
            elif is_reorder(op, REORDER_INPUT):
                self._fold_input(op)
        nodes: dict[str, list[Operator]] = {op.name: [] for op in self.graph.operators if op.name not in self.home}
        for op in self.graph.operators:
            nodes[self.home.get(op.name, op.name)].append(op)
        operators = tuple(
            replace(
                op,
                inputs=self._names(op.inputs),
                outputs=self._names(op.outputs),
                # A reorder may stand for a Transpose of the file.
                file_nodes=tuple(dict.fromkeys(name for node in nodes[op.name] for name in node.file_nodes)),
            )
            for op in self.graph.operators
            if op.name not in self.home
        )
        used = {name for op in operators for name in (*op.inputs, *op.outputs)}
        used.update(self.graph.inputs, self.graph.outputs)
        return LayoutFold(
            graph=replace(
                self.graph,
                operators=operators,
                tensors={name: tensor for name, tensor in self.graph.tensors.items() if name in used},
            ),
            stands_for={name: tuple(node.name for node in found) for name, found in nodes.items()},
            shares=self.shares,
            blocked=frozenset(
                (op.name, self.renamed.get(name, name))
                for op in self.graph.operators
                for name in op.inputs
                if name in self.blocked and op.name not in self.home and self.maker[name].name not in self.home
            ),
            turned=frozenset(turned),
        )

    def _fold_output(self, op: Operator, turned: set[str]) -> None:
        """Give a reorder out of blocks to what makes its tensor; a second one of the same tensor stays an operator."""
        tensor, plain = op.inputs[0], op.outputs[0]
        maker = self.maker.get(tensor)
        if maker is None or is_reorder(maker, REORDER_INPUT) or tensor in self.renamed or tensor in self.graph.outputs:
            return
        self.home[op.name] = maker.name
        self.renamed[tensor] = plain
        turned.add(plain)
        weights = {maker.name: 1} if maker.domain == NCHWC else self._blocked_before(maker)
        total = sum(weights.values())
        for name, weight in weights.items():
            self.shares.setdefault(name, {})[op.name] = weight / total

    def _fold_input(self, op: Operator) -> None:
        """Give a reorder into blocks to its reader, if it has only one."""
        tensor, plain = op.outputs[0], op.inputs[0]
        readers = self.readers.get(tensor, [])
        if len(readers) != 1 or is_reorder(readers[0], REORDER_OUTPUT) or tensor in self.graph.outputs:
            return
        self.home[op.name] = readers[0].name
        self.renamed[tensor] = plain
        self.shares.setdefault(readers[0].name, {})[op.name] = 1.0

    def _blocked_before(self, op: Operator) -> dict[str, int]:
        """Return the blocked operators before one of any layout, with the bytes that come from each; itself if none."""
        found: dict[str, int] = {}
        seen: set[str] = set()
        waiting = [op]
        while waiting:
            for name in waiting.pop().inputs:
                maker = self.maker.get(name)
                if name in seen or name not in self.blocked or maker is None or is_reorder(maker, REORDER_INPUT):
                    continue
                seen.add(name)
                if maker.domain == NCHWC:
                    found[maker.name] = found.get(maker.name, 0) + max(1, self.graph.tensors[name].size_bytes)
                else:
                    waiting.append(maker)
        return found or {op.name: 1}

    def _names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.renamed.get(name, name) for name in names)


def _size(graph: OperatorGraph, names: tuple[str, ...]) -> int:
    return sum(graph.tensors[name].size_bytes for name in names)
