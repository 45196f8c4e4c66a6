"""The allocation of a segment as a mixed-integer programme for CP-SAT: the oracle of the closed form.

Written from the formulas alone: every part chooses how many arrays compute for it and how many hold its inputs and its
results; run times are looked up in tables of exact whole cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from ortools.sat.python import cp_model

from cimplan.dualmode.split import PartSize
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import Readings

LATE = 10**9


def decimal(value: float) -> Fraction:
    return Fraction(str(value))


def tables(
    parts: Sequence[PartSize], chip: DualModeChip, readings: Readings
) -> tuple[list[list[int]], list[list[int]], int]:
    """Return cycles by computing arrays, cycles by memory arrays, and the bound of writing by main memory."""
    moved = []
    for part in parts:
        size = part.input_bytes
        if readings.data_moved in ("inputs_outputs", "inputs_outputs_weights"):
            size += part.output_bytes
        if readings.data_moved == "inputs_outputs_weights":
            size += part.weight_bytes
        moved.append(size)
    compute, memory = [], []
    for part, size in zip(parts, moved, strict=True):
        row = [LATE] * (chip.arrays + 1)
        for count in range(part.arrays, chip.arrays + 1):
            if readings.duplication == "whole" and count % part.arrays:
                continue
            row[count] = ceil(part.operations / (count * decimal(chip.op_per_cycle)))
        compute.append(row)
        main = decimal(chip.main_bytes_per_cycle)
        if readings.main_bandwidth == "shared" and size:
            main = main * size / sum(moved)
        memory.append(
            [ceil(size / (count * decimal(chip.memory_bytes_per_cycle) + main)) for count in range(chip.arrays + 1)]
        )
    writing = 0
    if readings.weight_writes in ("main_bandwidth", "both"):
        writing = ceil(sum(part.weight_bytes for part in parts) / decimal(chip.main_bytes_per_cycle))
    return compute, memory, writing


def best_allocation(
    parts: Sequence[PartSize],
    edges: Sequence[tuple[int, int, int]],
    chip: DualModeChip,
    readings: Readings,
    *,
    memory_mode: int | None = None,
    workers: int = 1,
) -> int | None:
    """Return the least T + T_write; with `memory_mode`, that many arrays may remember and the others compute."""
    model = cp_model.CpModel()
    compute, memory, bound = tables(parts, chip, readings)
    run = model.new_int_var(0, LATE, "T")
    writing = model.new_int_var(bound, LATE, "write")
    com, used, inside, outside = [], [], [], []
    for index, part in enumerate(parts):
        count = model.new_int_var(part.arrays, chip.arrays, f"com{index}")
        com.append(count)
        row = compute[index]
        allowed = [(value, cycles) for value, cycles in enumerate(row) if cycles < LATE]
        cycles = model.new_int_var(0, LATE, f"l{index}")
        model.add_allowed_assignments([count, cycles], allowed)
        model.add(run >= cycles)
        if readings.weight_writes in ("array_cycles", "both"):
            model.add(writing >= count * chip.write_cycles)
        held_in = model.new_int_var(0, chip.arrays, f"in{index}")
        held_out = model.new_int_var(0, chip.arrays, f"out{index}")
        both = model.new_int_var(0, chip.arrays, f"mem{index}")
        model.add(both == held_in + held_out)
        moving = model.new_int_var(0, LATE, f"m{index}")
        model.add_element(both, memory[index], moving)
        model.add(run >= moving)
        inside.append(held_in)
        outside.append(held_out)
        used.append(both)
    shared = [model.new_int_var(0, limit, f"s{number}") for number, (_, _, limit) in enumerate(edges)]
    for vertex in range(len(parts)):
        model.add(sum(s for s, (u, _, _) in zip(shared, edges, strict=True) if u == vertex) <= outside[vertex])
        model.add(sum(s for s, (_, v, _) in zip(shared, edges, strict=True) if v == vertex) <= inside[vertex])
    if memory_mode is None:
        model.add(sum(com) + sum(used) - sum(shared) <= chip.arrays)
    else:
        model.add(sum(com) <= chip.arrays - memory_mode)
        model.add(sum(used) - sum(shared) <= memory_mode)
    model.minimize(run + writing)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    return round(solver.objective_value)
