"""From a model to a dual-mode plan and its verified meta-operator program, in one call."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cimplan import limits
from cimplan.api.models import Model, load
from cimplan.errors import InputError, NoAnswerError

if TYPE_CHECKING:
    from cimplan.hardware.schema import Hardware
    from cimplan.plan.dual_mode import DualModePlan
    from cimplan.program.language import Program

DEFAULT_CHIP = "dynaplasia"

SEARCH_SHARE = 0.5
"""Part of a time limit after which the search takes short cuts; checking and the program take the rest."""


@dataclass(frozen=True)
class Compiled:
    """A dual-mode plan, checked, and its program, verified.

    Attributes
    ----------
    plan : DualModePlan
        Segments, allocation, placement and every cycle.
    program : Program or None
        Meta-operator code of the plan; None where the time limit or Ctrl-C came before it was verified.
    statements : int
        Statements of the program that the verifier has looked at.
    """

    plan: DualModePlan
    program: Program | None
    statements: int = 0

    def write_program(self, path: Path) -> None:
        """Write the program as text, whole or not at all.

        Raises
        ------
        NoAnswerError
            If there is none.
        """
        from cimplan.files import write_text
        from cimplan.program.printer import print_program

        if self.program is None:
            raise NoAnswerError(
                "the program was not written",
                where=str(path),
                why="the time limit or Ctrl-C came before it was generated and verified",
                fix="Give more time, or make it from the plan: cimplan export PLAN --to program",
            )
        write_text(path, print_program(self.program))


def compile_plan(
    model: Model | str | Path,
    hardware: Hardware | str | Path = DEFAULT_CHIP,
    *,
    method: str = "exact",
    readings: Mapping[str, str] | None = None,
    split_sizes: tuple[int, ...] | None = None,
    segment_pieces: int | None = None,
    time_limit_s: float | None = None,
    allow_uncovered: bool = False,
    progress: Callable[[str], None] | None = None,
) -> DualModePlan:
    """Cut a network into segments and decide which arrays compute and which remember in each.

    Parameters
    ----------
    model : Model, str or Path
        The network; weights are not needed.
    hardware : Hardware, str or Path
        A description with a dual-mode chip.
    method : str
        Name in `cimplan.dualmode.methods.METHODS`.
    readings : mapping of str to str, optional
        The cost model and how it is read, by field of `cimplan.plan.dual_mode.Readings`.
    split_sizes : tuple of int, optional
        Arrays that a piece of an oversized operator may take, each tried.
    segment_pieces : int, optional
        Largest number of pieces in one segment.
    time_limit_s : float, optional
        Then the rest of the search takes short cuts; the lower bound says what that costs.
    allow_uncovered : bool
        Leave matrix work that the arrays cannot compute out of the plan, which names it as `uncovered`; it is refused
        otherwise.
    progress : callable, optional
        Told what is going on.

    Returns
    -------
    DualModePlan
        Has passed the independent checker, unless the time limit came first: then `checked` is False.

    Raises
    ------
    InputError
        If something cannot be read or does not fit together, or the network has no matrix work or some that arrays
        cannot compute.
    InternalError
        If the checker refuses the plan.
    """
    from cimplan import __version__
    from cimplan.dualmode.compile import compile_graph
    from cimplan.dualmode.options import CompileOptions, make_readings
    from cimplan.files import sha256_of
    from cimplan.hardware import load as load_hardware
    from cimplan.hardware.schema import Hardware as HardwareType
    from cimplan.plan.dual_mode_check import checked

    description = hardware if isinstance(hardware, HardwareType) else load_hardware(hardware)
    chip = description.dual_mode
    if chip is None:
        raise InputError(
            "this hardware has no dual-mode chip to compile for",
            where=f"hardware {description.name!r}",
            why="it is a crossbar accelerator",
            fix="Use `cimplan partition` for it, or choose another such as dynaplasia with --hardware",
        )
    found = model if isinstance(model, Model) else load(model)
    began = time.monotonic()
    with limits.time_limit(time_limit_s):
        graph = replace(found.graph, name=found.name)
    left_s = None if time_limit_s is None else max(0.01, time_limit_s - (time.monotonic() - began))
    options = CompileOptions(
        readings=make_readings(**dict(readings or {})),
        method=method,
        split_sizes=split_sizes,
        segment_pieces=segment_pieces,
        time_limit_s=None if left_s is None else SEARCH_SHARE * left_s,
        ends_s=left_s,
        allow_uncovered=allow_uncovered,
    )
    # Not within a limit of its own: what is found when the search ends has to become a plan.
    plan = compile_graph(graph, chip, options, hardware=description.name, progress=progress)
    plan = replace(plan, limits=replace(plan.limits, time_limit_s=time_limit_s))
    if progress is not None:
        progress("checking the plan")
    # Sorted, so that the same numbers give the same hash whatever the order of a file's fields.
    text = json.dumps(description.to_description(), sort_keys=True)
    plan = replace(
        plan,
        model_sha256=sha256_of(found.path),
        hardware_sha256=hashlib.sha256(text.encode()).hexdigest(),
        tool_version=__version__,
    )
    left_s = None if time_limit_s is None else max(0.01, time_limit_s - (time.monotonic() - began))
    with suppress(limits.TimeLimitError), limits.time_limit(left_s):
        return checked(plan, graph)
    return plan


def generate_program(plan: DualModePlan) -> Compiled:
    """Return a plan with its program, verified.

    Raises
    ------
    InternalError
        If the verifier finds a fault in it, or it does something else than the plan says.
    """
    from cimplan.program.checked import checked_program

    program, statements = checked_program(plan)
    return Compiled(plan, program, statements)


def compile(
    model: Model | str | Path,
    hardware: Hardware | str | Path = DEFAULT_CHIP,
    *,
    method: str = "exact",
    readings: Mapping[str, str] | None = None,
    split_sizes: tuple[int, ...] | None = None,
    segment_pieces: int | None = None,
    time_limit_s: float | None = None,
    allow_uncovered: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Compiled:
    """Compile a network for a dual-mode chip: the plan, checked, and its program, verified.

    Parameters, errors: as for `compile_plan` and `generate_program`. The search takes half of a time limit. Where the
    program cannot be generated and verified in the rest of it, or Ctrl-C comes first, the plan is returned alone.
    """
    from cimplan.api.interrupts import interrupts

    began = time.monotonic()
    with interrupts() as noticed:
        plan = compile_plan(
            model,
            hardware,
            method=method,
            readings=readings,
            split_sizes=split_sizes,
            segment_pieces=segment_pieces,
            time_limit_s=time_limit_s,
            allow_uncovered=allow_uncovered,
            progress=progress,
        )
        if progress is not None:
            progress("generating and verifying the program")
        left = None if time_limit_s is None else max(0.01, time_limit_s - (time.monotonic() - began))
        with suppress(limits.TimeLimitError, KeyboardInterrupt):
            if not noticed.pressed:
                with limits.time_limit(left):
                    return generate_program(plan)
    return Compiled(plan, None)
