"""Why a dual-mode plan takes as long as it does, and what would make it faster: the data of the tuning report.

Nothing here is guessed: what an array or a faster memory would gain is found by allocating or compiling again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from cimplan.dualmode.compile import best_cycles
from cimplan.dualmode.one_array_more import OneArrayMore, Role
from cimplan.dualmode.options import CompileOptions
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.windows import Window, shapes_of
from cimplan.hardware.schema import DualModeChip
from cimplan.plan.dual_mode import DualModePlan, Segment

Bound = Literal["compute", "bandwidth", "writing", "switching", "writing_back"]

_OFTEN: Final = 0.05
"""Share of the time above which a cause is worth a sentence."""

_UNBALANCED: Final = 0.5
"""Balance below which arrays of a segment wait more than they compute."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What bounds one segment.

    Attributes
    ----------
    number, count : int
        Number of the first segment like this, and how many there are.
    operators : tuple of str
        What it runs.
    bound : str
        What takes most of its time: computing or moving data in its slowest part, writing weights, switching arrays,
        or writing results back.
    slowest : str
        Operator of the slowest part.
    cycles, total_cycles : int
        Running alone, and with switching, writing and writing back; of one such segment.
    gain_of_array : int
        Cycles that one array more would save in it.
    role_of_array : str
        What that array would do: "compute", "memory", or "" if it would not help.
    idle_arrays : int
        Arrays that neither compute nor hold anything.
    balance : float
        Busy share of its computing arrays: 1 if all parts take equally long.
    chain : bool
        Whether each part waits for another one of the segment: nothing in it is independent.
    room_left : bool
        Whether the next segment's first operator would have fitted too, as it is there.
    """

    number: int
    count: int
    operators: tuple[str, ...]
    bound: Bound
    slowest: str
    cycles: int
    total_cycles: int
    gain_of_array: int
    role_of_array: Role
    idle_arrays: int
    balance: float
    chain: bool
    room_left: bool


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """The arithmetic intensity of an operator, and what it asks of the chip.

    Attributes
    ----------
    name : str
        The operator.
    intensity : float
        Operations for each byte moved, by the reading.
    arrays : int
        Arrays that hold it once.
    segments : int
        Segments it is spread over.
    leaning : str
        "memory" if its intensity is below what main memory alone can feed to the arrays it needs, else "compute".
    """

    name: str
    intensity: float
    arrays: int
    segments: int
    leaning: Literal["compute", "memory"]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What a change of the chip gains, with the same pieces.

    Attributes
    ----------
    change : str
        In words.
    field : str
        Of the chip.
    value : float
        Its new value.
    latency_cycles : int
        Of the plan for the changed chip.
    gain : float
        Share of the latency saved.
    """

    change: str
    field: str
    value: float
    latency_cycles: int
    gain: float


@dataclass(frozen=True)
class Explanation:
    """The data of the tuning report.

    Attributes
    ----------
    time_by_bound : dict of str to int
        Cycles of all segments, by what bounds them.
    segments : tuple of SegmentReport
        Alike segments together, those that take most of the time first.
    operators : tuple of OperatorReport
        In the plan's order.
    best_array : SegmentReport or None
        The kind of segment in which one array more saves most; None if it saves nothing anywhere.
    switches : int
        Arrays switched in all.
    switching_boundaries : int
        Boundaries at which arrays switch.
    what_if : tuple of WhatIf
        Best first.
    findings : tuple of str
        The usual questions, answered for this plan.
    """

    time_by_bound: dict[str, int]
    segments: tuple[SegmentReport, ...]
    operators: tuple[OperatorReport, ...]
    best_array: SegmentReport | None
    switches: int
    switching_boundaries: int
    what_if: tuple[WhatIf, ...]
    findings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def explain(plan: DualModePlan, *, what_if: bool = True) -> Explanation:
    """Explain a plan.

    Parameters
    ----------
    plan : DualModePlan
        The plan.
    what_if : bool
        Whether to compile for changed chips too; takes a few times as long as the plan did.
    """
    reports = tuple(_segments(plan))
    times: Counter[str] = Counter()
    for report in reports:
        times[report.bound] += report.count * report.total_cycles
    helped = [report for report in reports if report.gain_of_array > 0]
    best = max(helped, key=lambda report: report.gain_of_array * report.count, default=None)
    switched = [sum(count for _, count in (*segment.to_memory, *segment.to_compute)) for segment in plan.segments]
    changes = tuple(_what_if(plan)) if what_if else ()
    operators = tuple(_operators(plan))
    return Explanation(
        time_by_bound=dict(times.most_common()),
        segments=tuple(sorted(reports, key=lambda report: (-report.count * report.total_cycles, report.number))),
        operators=operators,
        best_array=best,
        switches=sum(switched),
        switching_boundaries=sum(1 for count in switched if count),
        what_if=changes,
        findings=tuple(_findings(plan, reports, operators, best, switched, changes)),
    )


def _segments(plan: DualModePlan) -> Iterator[SegmentReport]:
    more = OneArrayMore(plan)
    counts: Counter[Hashable] = Counter()
    firsts: dict[Hashable, SegmentReport] = {}
    for number, segment in enumerate(plan.segments):
        window = more.window(segment)
        key: Hashable = (
            segment.switch_cycles,
            segment.write_cycles,
            segment.cycles,
            segment.write_back_cycles,
            tuple((part.compute_arrays, part.input_arrays, part.output_arrays, part.cycles) for part in segment.parts),
            window.sizes,
        )
        counts[key] += 1
        if key not in firsts:
            firsts[key] = _segment(plan, number, segment, more, window)
    for key, report in firsts.items():
        yield replace(report, count=counts[key])


def _segment(plan: DualModePlan, number: int, segment: Segment, more: OneArrayMore, window: Window) -> SegmentReport:
    slowest = max(segment.parts, key=lambda part: part.cycles)
    gain, role = more.gain(segment, window)
    used = segment.compute_arrays + segment.memory_arrays
    busy = sum(part.cycles * part.compute_arrays for part in segment.parts)
    here = {part.operator for part in segment.parts}
    waiting = sum(1 for part in segment.parts if here.intersection(plan.operators[part.operator].waits_for))
    idle = plan.chip.arrays - used
    following = plan.segments[number + 1] if number + 1 < len(plan.segments) else None
    return SegmentReport(
        number=number,
        count=1,
        operators=tuple(plan.operators[part.operator].name for part in segment.parts),
        bound=_bound(plan, segment),
        slowest=plan.operators[slowest.operator].name,
        cycles=segment.cycles,
        total_cycles=segment.total_cycles,
        gain_of_array=gain,
        role_of_array=role,
        idle_arrays=idle,
        balance=busy / (segment.cycles * segment.compute_arrays),
        chain=len(segment.parts) > 1 and waiting == len(segment.parts) - 1,
        room_left=following is not None and following.parts[0].arrays <= idle,
    )


def _bound(plan: DualModePlan, segment: Segment) -> Bound:
    extra: dict[Bound, int] = {
        "writing": segment.write_cycles,
        "switching": segment.switch_cycles,
        "writing_back": segment.write_back_cycles,
    }
    largest = max(extra, key=lambda name: extra[name])
    if extra[largest] > segment.cycles:
        return largest
    rates = Rates.of(plan.chip, plan.readings)
    computing = max(
        -(-part.operations * rates.op.denominator // (part.compute_arrays * rates.op.numerator))
        for part in segment.parts
    )
    return "compute" if computing >= segment.cycles else "bandwidth"


def _operators(plan: DualModePlan) -> Iterator[OperatorReport]:
    rates = Rates.of(plan.chip, plan.readings)
    shapes = shapes_of(plan.operators, plan.chip, plan.readings)
    spread: Counter[int] = Counter(part.operator for segment in plan.segments for part in segment.parts)
    for index, (op, shape) in enumerate(zip(plan.operators, shapes, strict=True)):
        operations = 2 * op.mvms * op.inputs * op.outputs * op.groups
        moved = op.input_bytes
        if plan.readings.data_moved != "inputs":
            moved += op.output_bytes
        if plan.readings.data_moved == "inputs_outputs_weights":
            moved += op.weight_bytes
        intensity = operations / max(1, moved)
        arrays = min(shape.arrays, plan.chip.arrays)
        fed = float(rates.main) * intensity
        yield OperatorReport(
            name=op.name,
            intensity=intensity,
            arrays=shape.arrays,
            segments=spread[index],
            leaning="memory" if fed < arrays * float(rates.op) else "compute",
        )


def _what_if(plan: DualModePlan) -> Iterator[WhatIf]:
    chip = plan.chip
    changes: list[tuple[str, str, float]] = [
        ("one array more", "arrays", chip.arrays + 1),
        ("twice the arrays", "arrays", chip.arrays * 2),
        ("twice the throughput of an array", "op_per_cycle", chip.op_per_cycle * 2),
        ("twice the bandwidth of an array in memory mode", "memory_bytes_per_cycle", chip.memory_bytes_per_cycle * 2),
        ("twice the main bandwidth", "main_bytes_per_cycle", chip.main_bytes_per_cycle * 2),
        ("half the cycles to write an array", "write_cycles", chip.write_cycles // 2),
    ]
    options = CompileOptions(
        plan.readings, plan.method, (plan.split_size,), plan.limits.segment_pieces, plan.limits.time_limit_s
    )
    found = []
    for change, field, value in changes:
        if value == getattr(chip, field):
            continue
        changed: DualModeChip = chip.model_copy(update={field: value})
        latency = best_cycles(plan.operators, changed, options)
        found.append(WhatIf(change, field, value, latency, 1 - latency / plan.latency_cycles))
    yield from sorted(found, key=lambda entry: (-entry.gain, entry.change))


def _findings(
    plan: DualModePlan,
    reports: Sequence[SegmentReport],
    operators: Sequence[OperatorReport],
    best: SegmentReport | None,
    switched: Sequence[int],
    changes: Sequence[WhatIf],
) -> Iterator[str]:
    latency = plan.latency_cycles
    split = plan.split()
    for name, words in (("write", "writing weights"), ("switch", "switching arrays"), ("write_back", "writing back")):
        if split[name] > _OFTEN * latency:
            yield f"{100 * split[name] / latency:.1f} % of the time goes to {words}"
    leaning = [op for op in operators if op.leaning == "memory"]
    lowest = min(operators, key=lambda op: op.intensity)
    yield (
        f"{len(leaning)} of {len(operators)} operators ask for more data than main memory feeds to the arrays they "
        f"need; the lowest intensity is {lowest.intensity:.3g} operations a byte ({lowest.name})"
    )
    if plan.limits.segment_pieces is not None and plan.gap > 0:
        yield (
            f"the limit of {plan.limits.segment_pieces} pieces in a segment may cost up to "
            f"{plan.latency_cycles - plan.lower_bound_cycles} cycles ({100 * plan.gap:.2f} %)"
        )
    elif plan.gap > 0:
        yield f"the time limit may cost up to {plan.latency_cycles - plan.lower_bound_cycles} cycles: give it more"
    oversized = [op for op in operators if op.arrays > plan.chip.arrays]
    if oversized:
        most = max(oversized, key=lambda op: op.arrays)
        yield (
            f"{len(oversized)} operators need more arrays than the chip has and are split; {most.name} most: "
            f"{most.arrays} arrays in {most.segments} segments"
        )
    chains = sum(report.count for report in reports if report.chain)
    single = sum(report.count for report in reports if len(report.operators) == 1)
    count = len(plan.segments)
    yield f"of {count} segments {single} run one operator and {chains} a chain of operators that wait for each other"
    boundaries = sum(1 for number in switched if number)
    yield f"arrays switch at {boundaries} of {count} boundaries, {sum(switched)} switches in all"
    uneven = [report for report in reports if report.balance < _UNBALANCED]
    if uneven:
        yield (
            f"in {sum(report.count for report in uneven)} segments computing arrays wait more than half of the time "
            f"for the slowest part; the worst holds {', '.join(min(uneven, key=lambda r: r.balance).operators[:3])}"
        )
    idle = sum(report.count for report in reports if report.room_left)
    if idle:
        yield f"{idle} segments leave room for what follows: a later cut would cost more in writing or running"
    if best is not None:
        gain = best.gain_of_array * best.count
        yield (
            f"one array more would help most in segment {best.number} and the {best.count - 1} like it "
            f"({', '.join(best.operators[:3])}), in {best.role_of_array} mode: "
            f"{gain} cycles ({100 * gain / latency:.2f} %)"
        )
    else:
        yield "one array more would help in no segment as it is cut"
    if changes and changes[0].gain > 0:
        yield f"of the changes tried {changes[0].change} gains most: {100 * changes[0].gain:.1f} %"
