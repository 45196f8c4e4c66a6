"""What recurrent operators cost on crossbars, against numbers worked out by hand."""

from __future__ import annotations

import pytest
from cost_cases import accelerator

from cimplan.cost.crossbar import crossbar_cost, crossbars_needed, mvm_time_ns, unsupported_reason, write_time_ns
from cimplan.errors import InternalError
from cimplan.graph.operators import MatrixWork, Operator, OperatorGraph, Recurrence, Tensor


def lstm(steps: int = 10, batch: int = 3, inputs: int = 100, hidden: int = 20, directions: int = 1) -> MatrixWork:
    return MatrixWork(4 * hidden, inputs, steps * batch, directions, recurrence=Recurrence(hidden, steps))


@pytest.mark.parametrize(
    ("packing", "one_way", "two_ways"),
    [
        # 64 rows, 32 columns. W is 80 x 100: 3 column tiles, 2 row tiles. R is 80 x 20: 3 column tiles, 1 row tile.
        ("one_per_group", 6 + 3, 2 * (6 + 3)),
        # Corner of W: 36 rows, 16 columns; no second one fits on 64 rows. Corner of R: 20 rows, 16 columns; two fit.
        ("block_diagonal", 9, 2 * 6 + (2 * 2 + 1)),
        # 160 outputs side by side: 5 column tiles.
        ("published_formula", 9, 2 * 5 + 1 * 5),
    ],
)
def test_crossbars_hold_the_weights_of_every_gate_and_direction(packing: str, one_way: int, two_ways: int) -> None:
    chip = accelerator(group_packing=packing)
    assert crossbars_needed(lstm(), chip) == one_way
    assert crossbars_needed(lstm(directions=2), chip) == two_ways


def test_steps_wait_for_their_products_and_gates() -> None:
    # 100 ns an MVM. Inputs: 10 steps of 3 sequences in one batch. Then 10 times: 3 MVMs, and the gates.
    chip = accelerator(gate_latency="40ns")
    assert mvm_time_ns(lstm(), crossbars_needed(lstm(), chip), chip) == 30 * 100 + 10 * (3 * 100 + 40)
    # Directions run beside each other.
    both = lstm(directions=2)
    assert mvm_time_ns(both, crossbars_needed(both, chip), chip) == 30 * 100 + 10 * (3 * 100 + 40)
    # Two input slices double every MVM and no gate.
    sliced = accelerator(gate_latency="40ns", input_bits_per_slice=4)
    assert mvm_time_ns(lstm(), 9, sliced) == 2 * 30 * 100 + 10 * (2 * 3 * 100 + 40)
    # In series the 6 crossbars of W take turns, and the 3 of R.
    series = accelerator(gate_latency="40ns", tile_execution="series")
    assert mvm_time_ns(lstm(), 9, series) == 6 * 30 * 100 + 10 * (3 * 3 * 100 + 40)


def test_a_gru_that_resets_first_multiplies_twice_in_a_step() -> None:
    chip = accelerator(gate_latency="40ns")
    work = MatrixWork(60, 100, 30, recurrence=Recurrence(20, 10, 2))
    assert mvm_time_ns(work, crossbars_needed(work, chip), chip) == 30 * 100 + 10 * 2 * (3 * 100 + 40)
    assert work.macs == 60 * (100 + 20) * 30


def test_writing_recurrent_weights_writes_both_matrices() -> None:
    chip = accelerator(gate_latency="40ns", weight_write="every_inference", write_latency="1us")
    assert write_time_ns(lstm(), 9, chip) == 80 * (100 + 20) / 2 + 9 * 1000


def test_the_whole_cost_moves_the_sequence_in_and_the_states_out() -> None:
    tensors = [
        Tensor("x", "float32", (10, 3, 100)),
        Tensor("w", "float32", (1, 80, 100), True),
        Tensor("r", "float32", (1, 80, 20), True),
        Tensor("y", "float32", (10, 1, 3, 20)),
        Tensor("h", "float32", (1, 3, 20)),
    ]
    op = Operator("cell", "LSTM", "", ("x", "w", "r"), ("y", "h"), lstm(), weight_input="w")
    graph = OperatorGraph("net", (op,), {tensor.name: tensor for tensor in tensors}, ("x",), ("y",))
    cost = crossbar_cost(graph, op, lstm(), accelerator(gate_latency="40ns"))
    # 2 GB/s: 12,000 bytes in, 2,400 + 240 out.
    assert (cost.crossbars, cost.input_ns, cost.mvm_ns, cost.output_ns) == (9, 6000, 6400, 1320)


def test_without_a_gate_latency_recurrent_operators_stay_on_the_host_and_the_reason_names_the_field() -> None:
    op = Operator("cell", "LSTM", "", (), (), lstm())
    assert "accelerator.gate_latency" in unsupported_reason(op, accelerator())
    assert unsupported_reason(op, accelerator(gate_latency="1us")) == ""
    assert "not among" in unsupported_reason(op, accelerator(gate_latency="1us", operators=["MatMul"]))
    with pytest.raises(InternalError):
        mvm_time_ns(lstm(), 9, accelerator())
