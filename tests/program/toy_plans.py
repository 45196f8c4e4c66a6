"""Random small dual-mode plans: right in every rule a program can break, with made-up cycles."""

from __future__ import annotations

from random import Random

from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import (
    NETWORK,
    Block,
    DualModePlan,
    Limits,
    MatrixOperator,
    Part,
    Readings,
    Segment,
    Store,
    WriteBack,
    array_ranges,
)
from cimplan.program.language import Box
from cimplan.program.tiling import arrays_of_box


def toy_chip(**changes) -> DualModeChip:
    facts = {
        "arrays": 12,
        "rows": 8,
        "columns": 8,
        "columns_per_weight": 2,
        "op_per_cycle": 10.0,
        "memory_bytes_per_cycle": 4.0,
        "main_bytes_per_cycle": 8.0,
        "buffer": "1kB",
        "switch_to_compute_cycles": 1,
        "switch_to_memory_cycles": 2,
        "write_cycles": 8,
        "write_back_bytes_per_cycle": 8.0,
        "clock": "100MHz",
        "cell_bits": 8,
    }
    return DualModeChip.model_validate(facts | changes)


def toy_plan(seed: int, *, chip: DualModeChip | None = None, operators: int | None = None) -> DualModePlan:
    """Return a plan whose every choice is random."""
    rng = Random(seed)
    chip = chip or toy_chip(arrays=rng.choice([6, 12, 24]), columns_per_weight=rng.choice([1, 2, 3]))
    readings = Readings(group_packing=rng.choice(["block_diagonal", "one_per_group"]))
    ops = tuple(_operator(rng, index) for index in range(operators or rng.randint(1, 6)))
    segments = _segments(rng, chip, readings, ops)
    return DualModePlan(
        model=f"toy {seed}",
        hardware="toy",
        chip=chip,
        method="random",
        readings=readings,
        limits=Limits(),
        operators=ops,
        segments=tuple(segments),
        split_size=chip.arrays,
        status="feasible",
        latency_cycles=1,
        lower_bound_cycles=1,
        all_compute_cycles=1,
        compile_s=0.0,
    )


def _operator(rng: Random, index: int) -> MatrixOperator:
    groups = rng.choice([1, 1, 1, 2, 5])
    inputs, outputs, mvms = rng.randint(1, 20), rng.randint(1, 12), rng.randint(1, 5)
    earlier = [*range(max(0, index - 3), index)]
    reads = sorted(rng.sample(earlier, min(len(earlier), rng.choice([1, 1, 1, 2])))) or [NETWORK]
    if rng.random() < 0.1:
        reads = sorted({NETWORK, *reads})
    waits = sorted({source for source in reads if source != NETWORK} | {e for e in earlier if rng.random() < 0.2})
    return MatrixOperator(
        name=f"op{index}",
        op_type="MatMul",
        inputs=inputs,
        outputs=outputs,
        mvms=mvms,
        groups=groups,
        stationary=rng.choice(["constant", "constant", "activation"]),
        operand=f"x{rng.randint(0, 1)}" if NETWORK in reads else f"t{index}",
        input_bytes=inputs * mvms * groups,
        output_bytes=outputs * mvms * groups,
        weight_bytes=inputs * outputs * groups,
        reads=tuple(reads),
        waits_for=tuple(waits),
        leaves=rng.random() < 0.1,
    )


def _pieces(rng: Random, op: MatrixOperator, chip: DualModeChip, readings: Readings, limit: int) -> list[Block]:
    """Cut an operator into blocks of at most `limit` arrays, in the order of groups, columns, rows."""
    whole = Block((0, op.groups), (0, op.inputs), (0, op.outputs))
    if _arrays(whole, chip, readings) <= limit and rng.random() < 0.7:
        return [whole]
    rows = chip.rows * rng.randint(1, 3)
    columns = chip.weight_columns * rng.randint(1, 3)
    blocks = [
        Block((group, 1), (row, min(rows, op.inputs - row)), (column, min(columns, op.outputs - column)))
        for group in range(op.groups)
        for column in range(0, op.outputs, columns)
        for row in range(0, op.inputs, rows)
    ]
    if max(_arrays(block, chip, readings) for block in blocks) > limit:
        return _pieces(rng, op, chip, readings, limit)
    return blocks


def _arrays(block: Block, chip: DualModeChip, readings: Readings) -> int:
    box = Box(*((first, first + count) for first, count in (block.groups, block.inputs, block.outputs)))
    return arrays_of_box(box, chip.rows, chip.weight_columns, readings.group_packing)


def _segments(rng: Random, chip: DualModeChip, readings: Readings, ops: tuple[MatrixOperator, ...]) -> list[Segment]:
    queue = [
        (index, block) for index, op in enumerate(ops) for block in _pieces(rng, op, chip, readings, chip.arrays - 1)
    ]
    contents: list[dict[int, list[Block]]] = []
    while queue:
        chosen: dict[int, list[Block]] = {}
        used = 0
        for _ in range(rng.randint(1, 5)):
            if not queue:
                break
            index, block = queue[0]
            used += _arrays(block, chip, readings)
            if used > chip.arrays:
                break
            chosen.setdefault(index, []).append(block)
            queue.pop(0)
        contents.append(chosen)
    return _Places(rng, chip, readings, ops, contents).all()


class _Places:
    """Gives arrays to the parts and stores of segments, keeps modes, and keeps some stores for the next segment."""

    def __init__(self, rng, chip, readings, ops, contents) -> None:
        self.rng, self.chip, self.readings, self.ops, self.contents = rng, chip, readings, ops, contents
        self.memory = set()
        self.kept: list[Store] = []

    def all(self) -> list[Segment]:
        return [self.segment(index) for index in range(len(self.contents))]

    def later(self, operator: int, index: int) -> bool:
        """Whether a result is needed after a segment."""
        if self.ops[operator].leaves or not any(operator in op.waits_for for op in self.ops):
            return True
        following = {other for content in self.contents[index + 1 :] for other in content}
        return any(other == operator or operator in self.ops[other].waits_for for other in following)

    def segment(self, index: int) -> Segment:
        rng, chip = self.rng, self.chip
        content = self.contents[index]
        free = list(range(chip.arrays))
        rng.shuffle(free)
        needs = {
            operator: sum(_arrays(block, chip, self.readings) for block in blocks)
            for operator, blocks in content.items()
        }
        stores: list[Store] = []
        computing = sum(needs.values())
        for store in self.kept:
            arrays = {array for first, count in store.placement for array in range(first, first + count)}
            if computing + len(arrays) + sum(s.arrays for s in stores) > chip.arrays:
                continue
            free = [array for array in free if array not in arrays]
            readers = [other for other in content if store.source in self.ops[other].waits_for]
            stores.append(
                Store(
                    source=store.source,
                    target=rng.choice([None, *readers]),
                    arrays=store.arrays,
                    held_bytes=store.held_bytes,
                    placement=store.placement,
                    kept_from_previous=True,
                    kept_for_next=rng.random() < 0.3,
                )
            )
        parts = []
        for operator, blocks in content.items():
            op = self.ops[operator]
            spare = len(free) - computing
            extra = rng.randint(0, max(0, min(spare, 2 * needs[operator]))) if rng.random() < 0.5 else 0
            computing -= needs[operator]
            taken = [free.pop() for _ in range(needs[operator] + extra)]
            parts.append(
                Part(
                    operator=operator,
                    blocks=tuple(blocks),
                    arrays=needs[operator],
                    operations=1,
                    input_bytes=op.input_bytes,
                    output_bytes=op.output_bytes,
                    weight_bytes=op.weight_bytes,
                    compute_arrays=len(taken),
                    input_arrays=0,
                    output_arrays=0,
                    cycles=1,
                    placement=array_ranges(taken),
                )
            )
        for operator in content:
            if not free:
                break
            choices: list[tuple[int | None, int | None]] = [(None, operator), (operator, None)]
            choices += [(operator, other) for other in content if operator in self.ops[other].waits_for]
            choices += [(source, operator) for source in self.ops[operator].reads]
            for source, target in rng.sample(choices, min(len(choices), rng.randint(0, 2))):
                if source is not None and any(store.source == source and store.target == target for store in stores):
                    continue
                count = rng.randint(1, 3)
                taken = [free.pop() for _ in range(min(count, len(free)))]
                if taken:
                    stores.append(
                        Store(
                            source=source,
                            target=target,
                            arrays=len(taken),
                            held_bytes=0 if source is None else len(taken) * chip.array_bytes,
                            placement=array_ranges(taken),
                            kept_for_next=source not in (None, NETWORK) and rng.random() < 0.4,
                        )
                    )
        holding = {a for store in stores for first, count in store.placement for a in range(first, first + count)}
        computing_arrays = {a for part in parts for first, count in part.placement for a in range(first, first + count)}
        to_memory = holding - self.memory
        to_compute = computing_arrays & self.memory
        self.memory = (self.memory | to_memory) - to_compute
        self.kept = [store for store in stores if store.kept_for_next]
        return Segment(
            parts=tuple(parts),
            stores=tuple(stores),
            memory_mode_arrays=len(self.memory),
            to_memory=array_ranges(to_memory),
            to_compute=array_ranges(to_compute),
            write_backs=tuple(
                WriteBack(store.source, 1)
                for store in stores
                if store.source not in (None, NETWORK) and self.later(store.source, index) and rng.random() < 0.5
            ),
            cycles=1,
            switch_cycles=0,
            write_cycles=0,
            write_back_cycles=0,
        )
