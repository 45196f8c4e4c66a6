"""The evaluation of CMSwitch (ASPLOS 2025, arXiv 2502.17006), computed again under both cost models.

Every speed-up is over the best plan whose arrays all compute, on the same costs, with the same search and its own best
piece size. No number of the chip is fitted: the preset's stand as they are, and `readings` shows what each is worth.
Every plan passes the independent checker; `programs` also verifies the program of each plan it names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from cimplan.explore.cmswitch_allocation import OperatorArrays, SegmentRun, operator_arrays, segment_runs
from cimplan.explore.cmswitch_cases import (
    ALLOCATION,
    COMPILE_TIME,
    PAPER,
    PARTS,
    PROGRAMS,
    READINGS,
    VGG16,
    Case,
    Evaluation,
    is_transformer,
)
from cimplan.explore.cmswitch_readings import Variant
from cimplan.files import scratch_folder

if TYPE_CHECKING:
    from cimplan.api.models import Model
    from cimplan.hardware.schema import Hardware
    from cimplan.plan.dual_mode import DualModePlan

COST_MODELS: Final = ("published", "resident")
TIMED_RUNS: Final = 3
TIMED_S: Final = 10.0
"""Seconds after which the compile time of a network is not measured once more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of compiling one case.

    Attributes
    ----------
    case : Case
        The network and its sizes.
    cost_model : str
        "published" or "resident".
    variant : str
        Name of what was changed; empty for nothing.
    latency_cycles, all_compute_cycles, lower_bound_cycles : int
        Of the plan, of the best plan whose arrays all compute, and what no plan with these pieces beats.
    cycles : mapping of str to int
        The latency by phase: compute, switch, write, write_back.
    memory_share : float
        Share of arrays that hold data, weighted with time.
    run_memory_share : float
        The same, weighted with the time in which segments run, without switching and writing.
    segments, split_size : int
        Of the plan.
    status : str
        "optimal" or "feasible".
    compile_s : float
        Wall seconds, the baseline's search included.
    """

    case: Case
    cost_model: str
    variant: str
    latency_cycles: int
    all_compute_cycles: int
    lower_bound_cycles: int
    cycles: Mapping[str, int]
    memory_share: float
    run_memory_share: float
    segments: int
    split_size: int
    status: str
    compile_s: float

    @property
    def speedup(self) -> float:
        """All-compute cycles over these cycles."""
        return self.all_compute_cycles / self.latency_cycles

    @property
    def switch_share(self) -> float:
        """Share of the latency that switching takes."""
        return self.cycles["switch"] / self.latency_cycles

    @property
    def write_share(self) -> float:
        """Share of the latency that writing weights takes."""
        return self.cycles["write"] / self.latency_cycles


@dataclass(frozen=True, slots=True)
class CompileTime:
    """Wall seconds of the searches of one network, median of several runs.

    Attributes
    ----------
    all_compute_s, dual_mode_s : float
        The search whose arrays all compute, and the dual-mode search alone.
    """

    case: Case
    cost_model: str
    all_compute_s: float
    dual_mode_s: float

    @property
    def ratio(self) -> float:
        """Dual-mode over all-compute."""
        return self.dual_mode_s / self.all_compute_s if self.all_compute_s else 1.0


@dataclass(frozen=True, slots=True)
class VerifiedProgram:
    """The program of a plan that passed the verifier."""

    case: Case
    segments: int
    statements: int


@dataclass(frozen=True)
class Reproduction:
    """All that was computed.

    Attributes
    ----------
    evaluation : Evaluation
        Networks and sizes.
    parts : tuple of str
        Of `PARTS`.
    hardware : Hardware
        The chip.
    outcomes : tuple of Outcome
        In the order they were computed; each case, cost model and variant once.
    arrays : mapping
        Arrays of each operator, by (case, cost model).
    runs : mapping
        Segments of VGG16, runs of alike ones together, by cost model.
    compile_times : tuple of CompileTime
        By network.
    programs : tuple of VerifiedProgram
        Of the published cost model.
    elapsed_s : float
        Wall seconds of everything.
    """

    evaluation: Evaluation
    parts: tuple[str, ...]
    hardware: Hardware
    outcomes: tuple[Outcome, ...] = ()
    arrays: Mapping[tuple[Case, str], tuple[OperatorArrays, ...]] = field(default_factory=dict)
    runs: Mapping[str, tuple[SegmentRun, ...]] = field(default_factory=dict)
    compile_times: tuple[CompileTime, ...] = ()
    programs: tuple[VerifiedProgram, ...] = ()
    elapsed_s: float = 0.0

    def outcome(self, case: Case, cost_model: str, variant: str = "") -> Outcome | None:
        """Return an outcome, or None if it was not computed."""
        wanted = (case, cost_model, variant)
        return next((one for one in self.outcomes if (one.case, one.cost_model, one.variant) == wanted), None)

    def speedups(self, model: str, cost_model: str) -> dict[int, float]:
        """Return the speed-ups of a network of the end-to-end table by batch size."""
        found = {}
        for batch in self.evaluation.batches:
            one = self.outcome(self.evaluation.case(model, batch=batch), cost_model)
            if one is not None:
                found[batch] = one.speedup
        return found

    def overall(self, cost_model: str) -> float | None:
        """Return the mean over the networks of the end-to-end table of their mean speed-ups."""
        means = [
            fmean(found.values()) for model in self.evaluation.networks if (found := self.speedups(model, cost_model))
        ]
        return fmean(means) if means else None


def reproduce(
    hardware: Hardware,
    parts: Sequence[str] = PARTS,
    *,
    evaluation: Evaluation = PAPER,
    time_limit_s: float | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Reproduction:
    """Compute parts of the paper's evaluation.

    Parameters
    ----------
    hardware : Hardware
        With a dual-mode chip.
    parts : sequence of str
        Of `PARTS`.
    evaluation : Evaluation
        Networks and sizes; the paper's by default.
    time_limit_s : float, optional
        Of one compile.
    say : callable, optional
        Told what is going on.

    Raises
    ------
    InputError
        If the hardware has no dual-mode chip.
    InternalError
        If the checker refuses a plan, or the verifier a program.
    """
    from cimplan.hardware import with_overrides

    began = time.perf_counter()
    bench = _Bench(hardware, evaluation, tuple(parts), time_limit_s, say)
    for case in bench.all_cases():
        with _opened(case) as model:
            for cost_model in COST_MODELS:
                bench.run(case, model, cost_model)
            if READINGS in parts and case in evaluation.table():
                for variant in evaluation.variants:
                    chip = with_overrides(hardware, dual_mode=variant.scaled(hardware)) if variant.scale else hardware
                    bench.run(case, model, variant.cost_model, variant, chip)
            if COMPILE_TIME in parts and case in evaluation.table():
                bench.time(case, model)
    return bench.result(time.perf_counter() - began)


class _Bench:
    """Compiles cases and keeps what the parts need of their plans; plans themselves are large and dropped."""

    def __init__(
        self,
        hardware: Hardware,
        evaluation: Evaluation,
        parts: tuple[str, ...],
        time_limit_s: float | None,
        say: Callable[[str], None],
    ) -> None:
        self._hardware = hardware
        self._evaluation = evaluation
        self._parts = parts
        self._time_limit_s = time_limit_s
        self._say = say
        self._outcomes: list[Outcome] = []
        self._arrays: dict[tuple[Case, str], tuple[OperatorArrays, ...]] = {}
        self._runs: dict[str, tuple[SegmentRun, ...]] = {}
        self._compile_times: list[CompileTime] = []
        self._programs: list[VerifiedProgram] = []

    def all_cases(self) -> list[Case]:
        """Return every case of every part once."""
        return list(dict.fromkeys(case for part in self._parts for case in self._evaluation.cases(part)))

    def run(
        self,
        case: Case,
        model: Model,
        cost_model: str,
        variant: Variant | None = None,
        hardware: Hardware | None = None,
    ) -> None:
        name = "" if variant is None else variant.name
        self._say(f"{case.reference.removeprefix('zoo:')}, {cost_model}{', ' if name else ''}{name}")
        plan = self._compile(model, cost_model, variant, hardware or self._hardware)
        self._outcomes.append(_outcome(case, cost_model, name, plan))
        if variant is not None:
            return
        if ALLOCATION in self._parts and case in self._evaluation.cases(ALLOCATION):
            self._arrays[case, cost_model] = operator_arrays(plan)
        if VGG16 in self._parts and case in self._evaluation.cases(VGG16):
            self._runs[cost_model] = segment_runs(plan)
        if PROGRAMS in self._parts and cost_model == COST_MODELS[0] and case in self._evaluation.cases(PROGRAMS):
            from cimplan.program.checked import checked_program

            self._say(f"{case.reference.removeprefix('zoo:')}, program of {len(plan.segments):,} segments")
            self._programs.append(VerifiedProgram(case, len(plan.segments), checked_program(plan).statements))

    def time(self, case: Case, model: Model) -> None:
        """Time both searches, several times by turns, so that a busy moment does not count for one of them alone."""
        for cost_model in COST_MODELS:
            self._say(f"{case.reference.removeprefix('zoo:')}, {cost_model}, compile time")
            alone, both = [], []
            for _ in range(TIMED_RUNS):
                alone.append(self._compile(model, cost_model, None, self._hardware, "all_compute").compile_s)
                both.append(self._compile(model, cost_model, None, self._hardware).compile_s)
                if sum(alone) + sum(both) > TIMED_S:
                    break
            base = median(alone)
            # A dual-mode compile also runs the baseline; what is left is its own search.
            self._compile_times.append(CompileTime(case, cost_model, base, max(median(both) - base, 0.0)))

    def result(self, elapsed_s: float) -> Reproduction:
        """Return all that was kept."""
        return Reproduction(
            evaluation=self._evaluation,
            parts=self._parts,
            hardware=self._hardware,
            outcomes=tuple(self._outcomes),
            arrays=self._arrays,
            runs=self._runs,
            compile_times=tuple(self._compile_times),
            programs=tuple(self._programs),
            elapsed_s=elapsed_s,
        )

    def _compile(
        self, model: Model, cost_model: str, variant: Variant | None, hardware: Hardware, method: str = "exact"
    ) -> DualModePlan:
        from cimplan.api.compiling import compile_plan

        return compile_plan(
            model,
            hardware,
            method=method,
            readings={"cost_model": cost_model, **({} if variant is None else dict(variant.readings))},
            split_sizes=None if variant is None else variant.split_sizes,
            time_limit_s=self._time_limit_s,
        )


@contextmanager
def _opened(case: Case) -> Iterator[Model]:
    """Give the network of a case.

    Transformers are small files that go to the user's cache. Image networks carry weights nobody looks at here; those
    of another batch size live in a temporary folder, as the cache would keep hundreds of megabytes for each.
    """
    from cimplan.api.models import Model, load
    from cimplan.zoo import write

    if is_transformer(case.model) or case.batch == 1:
        yield load(case.reference if is_transformer(case.model) else f"zoo:{case.model}?form=float")
        return
    parameters: dict[str, Any] = case.parameters
    with scratch_folder("network") as folder:
        path = folder / "network.onnx"
        write(case.model, path, **parameters)
        yield Model(case.reference, path, case.reference.removeprefix("zoo:"))


def _outcome(case: Case, cost_model: str, variant: str, plan: DualModePlan) -> Outcome:
    cycles = plan.split()
    busy = sum(segment.memory_arrays * segment.cycles for segment in plan.segments)
    return Outcome(
        case=case,
        cost_model=cost_model,
        variant=variant,
        latency_cycles=plan.latency_cycles,
        all_compute_cycles=plan.all_compute_cycles,
        lower_bound_cycles=plan.lower_bound_cycles,
        cycles=cycles,
        memory_share=plan.memory_share(),
        run_memory_share=busy / (cycles["compute"] * plan.chip.arrays) if cycles["compute"] else 0.0,
        segments=len(plan.segments),
        split_size=plan.split_size,
        status=plan.status,
        compile_s=plan.compile_s,
    )
