"""From an operator graph and a chip to a dual-mode plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

from cimplan.dualmode.assembly import assemble
from cimplan.dualmode.methods import BASELINE, EXACT, METHODS
from cimplan.dualmode.network import matrix_operators, require_covered
from cimplan.dualmode.options import CompileOptions
from cimplan.dualmode.published import PublishedModel
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.resident import ResidentModel
from cimplan.dualmode.segmentation import Found, Search
from cimplan.dualmode.split import LADDER
from cimplan.dualmode.variants import SegmentModel
from cimplan.dualmode.windows import PieceNetwork, shapes_of
from cimplan.errors import InputError, did_you_mean
from cimplan.graph.operators import OperatorGraph
from cimplan.hardware.schema import DualModeChip
from cimplan.limits import OutOfTimeError, TimeLimitError, time_left_s, time_limit, time_limit_error
from cimplan.plan.dual_mode import (
    DualModePlan,
    Limits,
    MatrixOperator,
)

Progress = Callable[[str], None]

FINE_SPLIT: Final = 8
MOST_FINE_PIECES: Final = 100
MOST_PIECES: Final = 200_000
"""Splits finer than `FINE_SPLIT` arrays, and those of more pieces than these, are tried only if asked for."""

_MOST_COARSE_PIECES: Final = 4_000_000
_MOST_WORK: Final = 1 << 54
"""Pieces at the coarsest split, and multiply-accumulates or bytes, above which a network is refused: a
language model of 13 billion weights has some 10,000 and 10^14. Cycles stay below the 64 bits they are counted in."""


_FINISHING_S_PER_PIECE: Final = 2e-4
"""Seconds to keep, for each piece of a network, for what is done with the answer of a search: assembly and checks."""


_LATE_S: Final = 0.5
"""Seconds by which an answer may be late that is there but not yet a plan."""


class Best(NamedTuple):
    """The best answer over the split sizes that were tried."""

    network: PieceNetwork
    search: Search
    found: Found
    lower_bound: int
    tried: tuple[int, ...]


def compile_graph(
    graph: OperatorGraph,
    chip: DualModeChip,
    options: CompileOptions | None = None,
    *,
    hardware: str = "",
    progress: Progress | None = None,
) -> DualModePlan:
    """Compile a network for a dual-mode chip.

    Parameters
    ----------
    graph : OperatorGraph
        The network.
    chip : DualModeChip
        The chip.
    options : CompileOptions, optional
        Method, cost model, readings and limits.
    hardware : str
        Name of the hardware description, for the plan.
    progress : callable, optional
        Told in a few words what is being tried.

    Returns
    -------
    DualModePlan
        Not yet checked; `cimplan.plan.dual_mode_check.checked` does that.

    Raises
    ------
    InputError
        If the network has no matrix work, or some that arrays cannot compute, or an option is unknown.
    """
    started = monotonic()
    options = options or CompileOptions()
    if options.method not in METHODS:
        raise InputError(f"there is no method {options.method!r}", fix=did_you_mean(options.method, METHODS))
    with time_limit(options.ends_s):
        uncovered = require_covered(graph, allow_uncovered=options.allow_uncovered)
        operators = matrix_operators(graph, chip, options.readings)
    plan = compile_operators(
        operators, chip, options, model=graph.name, hardware=hardware, started=started, progress=progress
    )
    return replace(plan, uncovered=uncovered)


def compile_operators(
    operators: tuple[MatrixOperator, ...],
    chip: DualModeChip,
    options: CompileOptions,
    *,
    model: str = "",
    hardware: str = "",
    started: float | None = None,
    progress: Progress | None = None,
) -> DualModePlan:
    """Compile matrix operators, such as those of another plan, for a dual-mode chip.

    Parameters, result, errors: as for `compile_graph`; `started` is the value of `time.monotonic` from which
    compile time and time limit count.
    """
    started = monotonic() if started is None else started
    with time_limit(options.ends_s, spent_s=monotonic() - started):
        compiler = _Compiler(operators, chip, options, started, progress)
        # First, as it is quick: what is there when the time is up before the method has an answer.
        baseline = best = compiler.best(BASELINE)
    used, bound = BASELINE, 0
    with (
        suppress(OutOfTimeError, TimeLimitError, KeyboardInterrupt),
        time_limit(options.ends_s, spent_s=monotonic() - started),
    ):
        if options.method != BASELINE:
            best, used = compiler.best(options.method), options.method
        # What a restricted method cannot beat by its own rules, another plan may: the bound is that of all plans.
        bound = best.lower_bound if options.method == EXACT else compiler.best(EXACT).lower_bound
    duplicate = METHODS[used].rules.duplicate
    try:
        with time_limit(None if options.ends_s is None else options.ends_s + _LATE_S, spent_s=monotonic() - started):
            segments = assemble(best.network, best.search.choices(), compiler.model, duplicate=duplicate)
    except TimeLimitError:
        raise time_limit_error(options.ends_s or 0.0) from None
    latency = sum(segment.total_cycles for segment in segments)
    return DualModePlan(
        model=model,
        hardware=hardware,
        chip=chip,
        method=options.method,
        readings=options.readings,
        limits=Limits(options.segment_pieces, options.time_limit_s, best.tried),
        operators=operators,
        segments=segments,
        split_size=best.network.split_size,
        status="optimal" if latency == bound else "feasible",
        latency_cycles=latency,
        lower_bound_cycles=bound,
        all_compute_cycles=baseline.found.cycles,
        compile_s=monotonic() - started,
        statistics={"pieces": best.network.pieces, "distinct_segments": best.found.distinct},
    )


def best_cycles(operators: tuple[MatrixOperator, ...], chip: DualModeChip, options: CompileOptions) -> int:
    """Return the latency of the plan that `compile_operators` would make, without making it."""
    return _Compiler(operators, chip, options, monotonic(), None).best(options.method).found.cycles


def make_model(rates: Rates) -> SegmentModel:
    """Return the cost model that the readings name."""
    return ResidentModel(rates) if rates.readings.cost_model == "resident" else PublishedModel(rates)


class _Compiler:
    def __init__(
        self,
        operators: tuple[MatrixOperator, ...],
        chip: DualModeChip,
        options: CompileOptions,
        started: float,
        progress: Progress | None,
    ) -> None:
        self._operators = operators
        self._chip = chip
        self._options = options
        self._deadline = None if options.time_limit_s is None else started + options.time_limit_s
        self._progress = progress
        self._rates = Rates.of(chip, options.readings)
        self._shapes = shapes_of(operators, chip, options.readings)
        self._require_sizes()
        self.model = make_model(self._rates)
        self._networks: dict[int, PieceNetwork] = {}

    def best(self, method: str) -> Best:
        """Return the best answer of a method over all split sizes."""
        rules = replace(METHODS[method].rules, segment_pieces=self._options.segment_pieces)
        tried: list[int] = []
        best: Best | None = None
        for size in self._sizes():
            if best is not None and self._deadline is not None and monotonic() > self._deadline:
                break
            network = self._network(size)
            if best is not None and self._options.split_sizes is None and not worth_trying(network):
                continue
            if self._progress is not None:
                self._progress(f"{method}: pieces of at most {size} arrays")
            search = Search(network, self.model, rules, self._deadline)
            left_s = time_left_s()
            if left_s is not None and (best is not None or method != BASELINE):
                left_s -= _FINISHING_S_PER_PIECE * network.pieces
            try:
                with time_limit(left_s):
                    found = search.run()
            except (OutOfTimeError, TimeLimitError, KeyboardInterrupt):
                if best is None:
                    raise
                break
            tried.append(size)
            lower = found.lower_bound if best is None else min(best.lower_bound, found.lower_bound)
            if best is None or found.cycles < best.found.cycles:
                best = Best(network, search, found, lower, ())
            else:
                best = best._replace(lower_bound=lower)
        if best is None:
            raise InputError(
                f"none of the split sizes {self._options.split_sizes} can be used",
                why=f"the chip has {self._chip.arrays} arrays, and a piece has to fit it",
                fix="Give a smaller split size",
            )
        return best._replace(tried=tuple(tried))

    def _require_sizes(self) -> None:
        """Refuse networks of absurd sizes before anything is as large as they are."""
        coarsest = max(self._sizes(), default=1)
        for shape in self._shapes:
            op = shape.op
            work = max(op.inputs * op.outputs * op.mvms * op.groups, op.input_bytes + op.output_bytes + op.weight_bytes)
            if shape.arrays // coarsest > _MOST_COARSE_PIECES or work > _MOST_WORK:
                raise InputError(
                    "is too large to compile",
                    where=f"operator {op.name!r}",
                    why=f"it has {op.groups} matrices of {op.outputs} x {op.inputs}, {op.mvms} products with each, and "
                    f"would fill the chip's {self._chip.arrays} arrays {shape.arrays // self._chip.arrays} times",
                    fix="Check the sizes in the model: `cimplan inspect` lists them",
                )

    def _network(self, size: int) -> PieceNetwork:
        if size not in self._networks:
            self._networks[size] = PieceNetwork.cut(self._operators, self._shapes, size, self._chip)
        return self._networks[size]

    def _sizes(self) -> Sequence[int]:
        sizes = self._options.split_sizes or LADDER
        return sorted({size for size in sizes if size <= self._chip.arrays}, reverse=True)


def worth_trying(network: PieceNetwork) -> bool:
    """Return whether a split is tried if the caller names none: fine ones of large networks gain little for long.

    The answer depends on the network and not on the chip, so that a chip with more arrays is offered the same splits.
    """
    return network.pieces <= (MOST_PIECES if network.split_size >= FINE_SPLIT else MOST_FINE_PIECES)
