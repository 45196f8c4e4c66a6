"""Hypothesis strategies for programs: any well-formed syntax, whether or not it means anything."""

from __future__ import annotations

from hypothesis import strategies as st

from cimplan.program.language import (
    Box,
    Bytes,
    ChipFacts,
    Indices,
    MemoryDrop,
    MemoryRead,
    MemoryWrite,
    Move,
    Multiply,
    OperatorDecl,
    Program,
    Segment,
    Stage,
    Switch,
    TensorDecl,
    Tiles,
    WriteMatrix,
)

# Any code point at all, lone surrogates too.
names = st.text(st.characters(), max_size=8)
numbers = st.integers(0, 10**18 - 1)
ranges = st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))
indices = st.lists(ranges, max_size=3).map(lambda found: Indices(tuple(found)))
data = st.builds(lambda name, pair: Bytes(name, *pair), names, ranges)
boxes = st.builds(Box, ranges, ranges, ranges)
tiles = st.builds(Tiles, names, st.lists(boxes, min_size=1, max_size=2).map(tuple))
inside = st.sampled_from(["main", "buffer"]) | indices
moves = st.builds(Move, inside, inside, data)
writes = st.builds(WriteMatrix, indices, tiles)
prepare = moves | writes | st.builds(MemoryDrop, indices) | st.builds(Switch, st.sampled_from(["TOC", "TOM"]), indices)
steps = (
    moves
    | writes
    | st.builds(Multiply, indices, tiles, numbers)
    | st.builds(MemoryRead, indices, data)
    | st.builds(MemoryWrite, indices, data)
)
several_names = st.lists(names, max_size=3).map(tuple)
stages = st.builds(Stage, names, st.lists(steps, max_size=4).map(tuple))
segments = st.builds(
    Segment, numbers, st.lists(prepare, max_size=4).map(tuple), st.lists(stages, max_size=3).map(tuple)
)
programs = st.builds(
    Program,
    model=names,
    tool=names,
    chip=st.builds(ChipFacts, names, numbers, numbers, numbers, numbers, numbers),
    tensors=st.lists(
        st.builds(TensorDecl, names, numbers, st.sampled_from(["input", "constant", "value", "output"])), max_size=3
    ).map(tuple),
    operators=st.lists(
        st.builds(
            OperatorDecl,
            name=names,
            inputs=numbers,
            outputs=numbers,
            groups=numbers,
            mvms=numbers,
            moved_bytes=numbers,
            matrix=several_names,
            reads=several_names,
            adds=several_names,
            writes=names,
        ),
        max_size=3,
    ).map(tuple),
    segments=st.lists(segments, max_size=3).map(tuple),
    memory_first=indices,
    packing=st.sampled_from(["block_diagonal", "one_per_group"]),
)
