"""Range bookkeeping against plain sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.program.coverage import Products, Ranges
from cimplan.program.language import Box, OperatorDecl
from cimplan.program.tiling import (
    arrays_of_box,
    input_shares,
    matrix_shares,
    output_shares,
    output_spans,
    outputs_of_bytes,
    spread,
    tiles_of_box,
)

pairs = st.tuples(st.integers(0, 20), st.integers(0, 20))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), pairs), max_size=12), pairs)
def test_ranges_are_a_set_of_numbers(steps, asked):
    ranges, model = Ranges(), set()
    for adding, (start, stop) in steps:
        (ranges.add if adding else ranges.remove)(start, stop)
        model = model | set(range(start, stop)) if adding else model - set(range(start, stop))
    listed = list(ranges)
    assert {number for start, stop in listed for number in range(start, stop)} == model
    assert all(start < stop for start, stop in listed)
    assert all(before[1] < after[0] for before, after in pairwise(listed))
    missing = [number for number in range(*asked) if number not in model]
    gap = ranges.gap(*asked)
    if not missing:
        assert gap is None
    else:
        assert gap is not None
        assert gap[0] == missing[0]
        assert set(range(*gap)) <= set(missing)
        assert gap[1] == asked[1] or gap[1] in model


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10), st.integers(0, 4), st.integers(1, 5)), max_size=10),
    st.tuples(st.integers(0, 10), st.integers(0, 10)),
)
def test_products_are_a_table_of_inputs_and_outputs(boxes, asked):
    products, model = Products(5, 10), set()
    for first, last, low, high in boxes:
        if first >= last or low >= high:
            continue
        cells = {(output, number) for output in range(first, last) for number in range(low, high)}
        assert products.add((first, last), (low, high)) == (not cells & model)
        model |= cells
    done = {output: sum((output, number) in model for number in range(5)) for output in range(10)}
    lacking = [output for output in range(*asked) if done[output] < 5]
    unfinished = products.unfinished(asked)
    assert (unfinished is None) == (not lacking)
    if unfinished is not None:
        assert unfinished[0] == lacking[0]
        assert set(range(*unfinished)) <= set(lacking)
    begun = {output for start, stop in products.begun(asked) for output in range(start, stop)}
    assert begun == {output for output in range(*asked) if done[output]}


dims = st.integers(1, 30)


@settings(deadline=None)
@given(dims, dims, dims, st.integers(1, 12), st.integers(1, 8), st.sampled_from(["block_diagonal", "one_per_group"]))
def test_a_box_fits_its_arrays(groups, inputs, outputs, rows, columns, packing):
    box = Box((0, groups), (0, inputs), (0, outputs))
    arrays = arrays_of_box(box, rows, columns, packing)
    assert arrays * rows * columns >= box.weights
    assert arrays <= groups * -(-inputs // rows) * -(-outputs // columns)
    tiles = list(tiles_of_box(box, rows, columns, packing))
    assert len(tiles) == arrays
    assert sum(tile.weights for tile in tiles) == box.weights
    for tile in tiles:
        count = tile.groups[1] - tile.groups[0]
        assert count * (tile.inputs[1] - tile.inputs[0]) <= rows
        assert count * (tile.outputs[1] - tile.outputs[0]) <= columns
    if groups == 1:
        assert arrays == -(-inputs // rows) * -(-outputs // columns)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(0, 200), st.data())
def test_the_shares_of_a_partition_are_a_partition(groups, inputs, outputs, size, data):
    operator = OperatorDecl("op", inputs, outputs, groups, 1, size, ("w",), ("x",), "y")
    cuts = sorted({0, outputs, *data.draw(st.lists(st.integers(0, outputs), max_size=3))})
    boxes = [Box((0, groups), (0, inputs), cut) for cut in pairwise(cuts)]
    bytes_seen = [number for box in boxes for share in output_shares(operator, [box], size) for number in range(*share)]
    assert sorted(bytes_seen) == list(range(size))
    assert input_shares(operator, boxes, size) == ([(0, size)] if size else [])
    assert matrix_shares(operator, boxes, size) == ([(0, size)] if size else [])
    for box in boxes:
        covered = {output for span in output_spans(operator, box) for output in range(*span)}
        for share in output_shares(operator, [box], size):
            found = outputs_of_bytes(operator, size, *share)
            owners = {o for o in range(*found) if size * o // (groups * outputs) < size * (o + 1) // (groups * outputs)}
            assert owners <= covered


@given(st.integers(0, 100), st.integers(1, 12))
def test_bytes_are_spread_evenly(size, count):
    slices = spread(size, count)
    assert [number for start, stop in slices for number in range(start, stop)] == list(range(size))
    lengths = {stop - start for start, stop in slices}
    assert max(lengths) - min(lengths) <= 1
