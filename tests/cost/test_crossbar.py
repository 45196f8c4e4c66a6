"""Crossbars and latency of an operator, against numbers worked out by hand and against packing by brute force."""

from __future__ import annotations

import pytest
from cost_cases import accelerator, small_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.cost.crossbar import (
    crossbar_cost,
    crossbars_needed,
    moved_bytes,
    mvm_time_ns,
    unsupported_reason,
    write_time_ns,
)
from cimplan.errors import InternalError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Tensor


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (MatrixWork(32, 64, 1), 1),
        (MatrixWork(33, 64, 1), 2),
        (MatrixWork(32, 65, 1), 2),
        (MatrixWork(33, 65, 1), 4),
        (MatrixWork(1, 1, 1), 1),
        (MatrixWork(100, 200, 7), 4 * 4),
        (MatrixWork(0, 5, 1), 0),
    ],
)
def test_tiles_of_a_plain_matrix_on_64_rows_and_32_columns(work, expected):
    for packing in ("block_diagonal", "one_per_group", "shared_rows", "published_formula"):
        assert crossbars_needed(work, accelerator(group_packing=packing)) == expected


@pytest.mark.parametrize(
    ("fields", "weight_columns", "expected"),
    [
        ({}, 32, 4 * 4),
        ({"cell_bits": 4}, 16, 4 * 7),
        ({"differential_columns": True}, 16, 4 * 7),
        ({"cell_bits": 2, "differential_columns": True}, 4, 4 * 25),
        ({"cell_bits": 3}, 10, 4 * 10),  # three cells of three bits; two columns stay unused
        ({"cells_per_weight": 2}, 16, 4 * 7),
        ({"weight_bits": 4, "cell_bits": 4}, 32, 4 * 4),
    ],
)
def test_cells_and_signs_multiply_columns(fields, weight_columns, expected):
    found = accelerator(**fields)
    assert found.weight_columns == weight_columns
    assert crossbars_needed(MatrixWork(100, 200, 1), found) == expected


@pytest.mark.parametrize(
    ("work", "block_diagonal", "one_per_group", "shared_rows", "formula"),
    [
        # depthwise 3x3, 100 channels: 7 groups fit on 64 rows; 32 fit side by side
        (MatrixWork(1, 9, 1, 100), 15, 100, 4, 4),
        # 16 groups of 8 outputs and 16 inputs: 4 by rows, 4 by columns
        (MatrixWork(8, 16, 1, 16), 4, 16, 4, 4),
        # columns bind: 2 by columns, 8 by rows
        (MatrixWork(16, 8, 1, 5), 3, 5, 3, 3),
        # a group as tall as a crossbar: nothing to share
        (MatrixWork(1, 64, 1, 10), 10, 10, 1, 1),
        # a group larger than a crossbar both ways, 40 x 100: corner of 36 rows and 8 columns, no room for two
        (MatrixWork(40, 100, 1, 3), 12, 12, 12, 8),
        # 40 x 80: corner of 16 rows and 8 columns; four corners share a crossbar
        (MatrixWork(40, 80, 1, 6), 6 * 3 + 2, 24, 24, 16),
        # taller than a crossbar and narrow, 2 x 70: full tile alone, remainders of 6 rows and 2 columns share 10
        (MatrixWork(2, 70, 1, 20), 20 + 2, 40, 4, 4),
    ],
)
def test_packing_of_groups_by_hand(work, block_diagonal, one_per_group, shared_rows, formula):
    expected = {
        "block_diagonal": block_diagonal,
        "one_per_group": one_per_group,
        "shared_rows": shared_rows,
        "published_formula": formula,
    }
    found = {name: crossbars_needed(work, accelerator(group_packing=name)) for name in expected}
    assert found == expected


def _most_on_the_diagonal(rows, columns, tile_rows, tile_columns):
    """Place equal tiles one by one on the first free rows and columns, as a layout tool would."""
    free_rows, free_columns, placed = list(range(rows)), list(range(columns)), 0
    while len(free_rows) >= tile_rows and len(free_columns) >= tile_columns:
        del free_rows[:tile_rows], free_columns[:tile_columns]
        placed += 1
    return placed


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 30), st.integers(1, 16), st.integers(1, 16))
def test_block_diagonal_packing_equals_a_layout_made_tile_by_tile(outputs, inputs, groups, rows, columns):
    found = crossbars_needed(MatrixWork(outputs, inputs, 1, groups), accelerator(rows=rows, columns=columns))
    alone, shared = 0, {}
    for _ in range(groups):
        for row in range(0, inputs, rows):
            for column in range(0, outputs, columns):
                tile = (min(rows, inputs - row), min(columns, outputs - column))
                if tile[0] == rows or tile[1] == columns:
                    alone += 1
                else:
                    shared[tile] = shared.get(tile, 0) + 1
    layout = alone + sum(-(-count // _most_on_the_diagonal(rows, columns, *tile)) for tile, count in shared.items())
    assert found == layout


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 50))
def test_packings_are_ordered_and_hold_all_weights(outputs, inputs, groups):
    work = MatrixWork(outputs, inputs, 1, groups)
    count = {
        name: crossbars_needed(work, accelerator(group_packing=name))
        for name in ("block_diagonal", "one_per_group", "shared_rows", "published_formula")
    }
    assert count["published_formula"] <= count["shared_rows"] <= count["one_per_group"]
    assert count["block_diagonal"] <= count["one_per_group"]
    assert all(found * 64 * 32 >= work.weights for found in count.values())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 10 * 100),
        ({"input_bits_per_slice": 1}, 10 * 8 * 100),
        ({"input_bits_per_slice": 3}, 10 * 3 * 100),
        ({"activation_bits": 16, "input_bits_per_slice": 1}, 10 * 16 * 100),
        ({"tile_execution": "series"}, 10 * 4 * 100),
        ({"tile_execution": "series", "input_bits_per_slice": 4}, 10 * 4 * 2 * 100),
        ({"mvm_latency": "1.4us"}, 10 * 1400),
        ({"group_packing": "shared_rows"}, 10 * 1 * 100),
    ],
)
def test_mvm_time_of_four_tiles_and_ten_vectors(fields, expected):
    work = MatrixWork(40, 100, 10)
    found = accelerator(**fields)
    assert mvm_time_ns(work, crossbars_needed(work, found), found) == pytest.approx(expected)


def test_shared_rows_take_a_turn_for_each_group_in_a_crossbar():
    depthwise = MatrixWork(1, 9, 10, 100)
    for packing, turns in (("block_diagonal", 1), ("one_per_group", 1), ("published_formula", 1), ("shared_rows", 32)):
        found = accelerator(group_packing=packing)
        assert mvm_time_ns(depthwise, crossbars_needed(depthwise, found), found) == 10 * turns * 100
    few = MatrixWork(1, 9, 10, 3)
    assert mvm_time_ns(few, 1, accelerator(group_packing="shared_rows")) == 10 * 3 * 100


@pytest.mark.parametrize(
    ("fields", "stationary", "expected"),
    [
        ({}, "constant", 0),
        ({"write_latency": "50us"}, "constant", 0),
        ({"write_latency": "50us", "weight_write": "every_inference"}, "constant", 4000 / 2 + 4 * 50_000),
        (
            {"write_latency": "50us", "weight_write": "every_inference", "write_execution": "parallel"},
            "constant",
            4000 / 2 + 50_000,
        ),
        ({"write_latency": "50us", "allow_activation_products": True}, "activation", 4000 / 2 + 4 * 50_000),
        ({"write_latency": "50us", "weight_write": "every_inference", "weight_bits": 4}, "constant", 1000 + 200_000),
    ],
)
def test_writing_is_charged_only_where_it_happens(fields, stationary, expected):
    work = MatrixWork(40, 100, 10, 1, stationary)
    found = accelerator(**fields)
    assert write_time_ns(work, crossbars_needed(work, found), found) == pytest.approx(expected)


def test_writing_without_a_latency_is_our_own_fault():
    with pytest.raises(InternalError):
        write_time_ns(MatrixWork(40, 100, 10, 1, "activation"), 4, accelerator())


def test_cost_of_a_convolution_by_hand():
    graph = small_graph()
    conv = graph.operators[0]
    cost = crossbar_cost(graph, conv, conv.work, accelerator())
    # M 40 on 32 columns, N 27 on 64 rows; 192 bytes in and 2560 out at 2 bytes a nanosecond; 64 MVMs of 100 ns.
    assert (cost.crossbars, cost.input_ns, cost.mvm_ns, cost.output_ns, cost.write_ns) == (2, 96, 6400, 1280, 0)
    assert cost.total_ns == 96 + 6400 + 1280


def test_element_bytes_of_the_tensor_or_of_the_accelerator():
    graph = small_graph()
    gemm = graph.operators[3]
    assert moved_bytes(graph, gemm, accelerator()) == (2560, 40)  # float32 results
    assert moved_bytes(graph, gemm, accelerator(element_bytes="activation")) == (2560, 10)
    assert moved_bytes(graph, gemm, accelerator(element_bytes="activation", activation_bits=12)) == (5120, 20)


def _product(inputs):
    names = dict.fromkeys((*inputs, "out"))
    tensors = {name: Tensor(name, "int8", (4, 4)) for name in names}
    op = Operator("op", "MatMul", "", inputs, ("out",), MatrixWork(4, 4, 4, 1, "activation"), "", False, inputs[1])
    return OperatorGraph("g", (op,), tensors, tuple(dict.fromkeys(inputs)), ("out",)), op


def test_the_written_operand_is_not_an_input_too():
    graph, op = _product(("a", "b"))
    assert moved_bytes(graph, op, accelerator()) == (16, 16)
    graph, op = _product(("a", "a"))
    assert moved_bytes(graph, op, accelerator()) == (16, 16)


def test_reasons_for_what_cannot_be_offloaded():
    conv, relu, reshape, gemm, outer = small_graph().operators
    found = accelerator(operators=["Conv", "QLinearConv", "MatMul"])
    assert unsupported_reason(conv, found) == ""
    assert unsupported_reason(relu, found) == "not a product with a weight matrix"
    assert unsupported_reason(reshape, found) == "only renames data"
    assert "QGemm is not among" in unsupported_reason(gemm, found)
    assert unsupported_reason(outer, found) == "multiplies two activations"
    assert unsupported_reason(gemm, accelerator()) == ""
    assert unsupported_reason(outer, accelerator(allow_activation_products=True, write_latency="1us")) == ""
    empty = Operator("e", "MatMul", "", (), (), MatrixWork(0, 4, 1))
    assert "no elements" in unsupported_reason(empty, accelerator())
    nameless = Operator("p", "MatMul", "", (), (), MatrixWork(4, 4, 1, 1, "activation"))
    assert "allow_activation_products" in unsupported_reason(nameless, accelerator())
    assert unsupported_reason(Operator("s", "Softmax", "", (), ()), accelerator()) == "Softmax is not matrix work"
