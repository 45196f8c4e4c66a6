"""A partition plan: where each operator runs and when, with its proof, its reasons, and all it takes to check it.

A plan file holds the costs it was made with, so it can be checked and replayed anywhere without the model, the
profile or the hardware description.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from cimplan.cost.problem import Dependency, Option, Problem
from cimplan.errors import InputError
from cimplan.files import read_json, require_version, write_json
from cimplan.plan.ageing import at_its_proof
from cimplan.plan.build import PlanContext, content, derived, gap, speedup
from cimplan.plan.certificate import Certificate
from cimplan.plan.certificate_check import DEFAULT_NODES, DEFAULT_SEARCH_NODES, CertificateReport, verify_certificate
from cimplan.plan.check import check
from cimplan.plan.claims import REMAKE, require_claims, to_ticks
from cimplan.plan.document import (
    Claim,
    Count,
    Counts,
    CurvePart,
    DependencyPart,
    Finite,
    FreePart,
    Nanoseconds,
    OperatorPart,
    Part,
    ProfilePart,
    ProofPart,
    RegionPart,
    TimeKinds,
    TransferPart,
)
from cimplan.plan.fixes import without
from cimplan.plan.refusal import refusal
from cimplan.plan.replay import Replay, replay
from cimplan.plan.sampled import require_spread
from cimplan.plan.schedule import CurvePoint, Schedule, Solution

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

    from cimplan.cost.build import CostedNetwork
    from cimplan.plan.verification import Verification

SCHEMA_VERSION: Literal[1] = 1

_ANEW: Final = "Make it again with `cimplan partition`"

MOST_PARTS: Final = 1_000_000
"""Objects and lists of a plan file: each takes a kilobyte while it is validated, and a large network has 100,000."""


class Plan(Part):
    """Which operators run on the crossbars and when. Times are nanoseconds."""

    schema_version: Literal[1] = Field(default=SCHEMA_VERSION, description="Version of this file format.")
    kind: Literal["partition-plan"] = "partition-plan"
    tool_version: str = Field(description="Version of cimplan that made the plan.")
    model: str = Field(description="The network, as people call it.")
    hardware: str = Field(description="The hardware description, as people call it.")
    method: str = Field(description="Name of the partition method.")
    status: Claim = Field(description="optimal: makespan and lower bound are equal, and the bound has been verified.")
    solver_claims: Claim = Field(description="optimal: makespan and lower bound are equal, by the method's word.")
    makespan_ns: Nanoseconds = Field(description="End-to-end latency of one inference.")
    lower_bound_ns: Nanoseconds = Field(description="Latency no plan within the budget can beat, see `proof`.")
    gap: float = Field(ge=0, le=1, description="(makespan - lower bound) / makespan.")
    host_only_ns: Nanoseconds | None = Field(description="Latency without the accelerator; null if impossible.")
    speedup: float | None = Field(description="host_only_ns / makespan_ns.")
    host_only_ns_quartiles: tuple[Nanoseconds, Nanoseconds] | None = Field(
        default=None, description="Lower and upper quartile of the latency without the accelerator; null if not known."
    )
    speedup_range: tuple[Nanoseconds, Nanoseconds] | None = Field(
        default=None,
        description="5th and 95th percentile of the speed-up over samples of the host's noise; null if not known.",
    )
    placement_robust_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Of the samples that were partitioned anew, the share in which this placement stays within 1 % of "
        "the best; null if there is none.",
    )
    profile_disturbed: bool = Field(default=False, description="Other work has disturbed the host's measurement.")
    crossbars_used: Count
    crossbars_available: Count
    solve_s: float = Field(ge=0, allow_inf_nan=False, description="Wall time of the method in seconds.")
    operators: tuple[OperatorPart, ...] = Field(description="Topologically ordered.")
    dependencies: tuple[DependencyPart, ...] = Field(description="All edges, whether data move or not.")
    transfers: tuple[TransferPart, ...] = Field(description="Sorted by start.")
    regions: tuple[RegionPart, ...]
    counts: Counts
    curve: tuple[CurvePart, ...] = Field(
        default=(), description="Latency by crossbar budget, where asked for; each point holds up to the next."
    )
    curve_proofs: tuple[Certificate, ...] = Field(
        default=(), description="Proofs of the curve's lower bounds, in ticks, each for its budget or its steps."
    )
    fixes: dict[str, str] = Field(
        default_factory=dict, description="Operators the user has placed, and where; all bounds are under these."
    )
    without_fixes: FreePart | None = Field(
        default=None, description="The best plan known without the fixes; null if it is not known."
    )
    host_cores: int = Field(ge=1, description="Operators the host can run at once.")
    tick_ns: float = Field(gt=0, allow_inf_nan=False, description="All times are whole multiples of this.")
    times: TimeKinds = Field(description="Where the times come from.")
    network_io: Literal["charged", "free"] = Field(
        default="free", description="Whether inputs and outputs of the network cross the bus (bus.network_io)."
    )
    remarks: tuple[str, ...] = Field(default=(), description="What else the costs rest on, for people.")
    profile: ProfilePart
    statistics: dict[str, int | Finite | str] = Field(default_factory=dict, description="Of the method's work.")
    certificate: Certificate | None = Field(default=None, description="Proof of the lower bound, in ticks.")
    proof: ProofPart = Field(description="What became of the certificate when it was verified without the solver.")
    inputs: dict[str, str] = Field(default_factory=dict, description="SHA-256 of what the plan was made from.")
    checked: bool = Field(description="True once the independent checker passed.")

    # --- files -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values, keys in the order of the file."""
        return self.model_dump(mode="json")

    def write(self, path: str | Path) -> None:
        """Write the plan as JSON, whole or not at all.

        Raises
        ------
        InputError
            If the folder does not exist or cannot be written.
        """
        write_json(Path(path), self.to_json())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a plan file, once, and check it again.

        Raises
        ------
        InputError
            If the file cannot be read, is not a plan, is of a newer version, or does not hold what it says.
        """
        return cls.from_json(read_json(Path(path), "plan"), str(path))

    @classmethod
    def from_json(cls, data: object, where: str) -> Self:
        """Make a plan of what a file holds, and check it again.

        Parameters
        ----------
        data : object
            Plain JSON values.
        where : str
            The file, for messages.

        Raises
        ------
        InputError
            If it is not a plan, is of a newer version, or does not hold what it says.
        """
        if not isinstance(data, dict) or data.get("kind") != "partition-plan":
            raise InputError("is not a partition plan", where=where, fix="Give a file written by `cimplan partition`")
        require_version({"schema_version": None} | data, SCHEMA_VERSION, kind="plan", where=where, remake=_ANEW)
        text = json.dumps(at_its_proof(data))
        if text.count("{") + text.count("[") > MOST_PARTS:
            raise InputError(
                "is not a plan", where=where, why=f"it holds more than {MOST_PARTS} objects and lists", fix=REMAKE
            )
        try:
            plan = cls.model_validate_json(text)  # lists are tuples only there
        except ValidationError as error:
            raise refusal(error, where, "plan", REMAKE) from error
        try:
            plan.verify()
        except InputError as error:
            place = f"{where}: {error.where}" if error.where else where
            raise InputError(error.what, where=place, why=error.why, fix=error.fix or REMAKE) from error
        return plan

    # --- the plan as a problem and a schedule ------------------------------------------------------------------

    def problem(self) -> Problem:
        """Return the problem that was solved, rebuilt from the costs in the plan.

        Raises
        ------
        InputError
            If the costs do not make a problem; with the path of the field.
        """
        index = {operator.name: number for number, operator in enumerate(self.operators)}
        if len(index) != len(self.operators):
            raise InputError("operator names are not unique", where="operators", fix=REMAKE)
        for number, edge in enumerate(self.dependencies):
            for end in (edge.source, edge.target):
                if end not in index:
                    raise InputError(f"there is no operator {end!r}", where=f"dependencies[{number}]", fix=REMAKE)
        return Problem(
            names=tuple(index),
            options=tuple(
                tuple(
                    Option(
                        option.place,
                        self._ticks(option.duration_ns, f"operators[{number}].options[{choice}].duration_ns"),
                        option.crossbars,
                        option.label,
                    )
                    for choice, option in enumerate(operator.options)
                )
                for number, operator in enumerate(self.operators)
            ),
            dependencies=tuple(
                Dependency(
                    index[edge.source],
                    index[edge.target],
                    self._ticks(edge.transfer_ns, f"dependencies[{number}].transfer_ns"),
                    edge.size_bytes,
                )
                for number, edge in enumerate(self.dependencies)
            ),
            budget=self.crossbars_available,
            host_cores=self.host_cores,
            tick_ns=self.tick_ns,
        )

    def problem_without_fixes(self) -> Problem:
        """Return the problem before the user fixed places, as far as the file records what that has ruled out.

        Raises
        ------
        InputError
            If the costs do not make a problem; with the path of the field.
        """
        out = tuple(
            tuple(
                Option(
                    option.place,
                    self._ticks(option.duration_ns, f"operators[{number}].ruled_out[{choice}].duration_ns"),
                    option.crossbars,
                    option.label,
                )
                for choice, option in enumerate(operator.ruled_out or ())
            )
            for number, operator in enumerate(self.operators)
        )
        return without(self.problem(), out)

    def ticks(self) -> Schedule:
        """Return choices and starts in ticks, for `problem()`.

        Raises
        ------
        InputError
            If an operator's times fit none of its options.
        """
        chosen, starts = [], []
        for number, operator in enumerate(self.operators):
            start = self._ticks(operator.start_ns, f"operators[{number}].start_ns")
            duration = self._ticks(operator.finish_ns, f"operators[{number}].finish_ns") - start
            taken = (operator.place, duration, operator.crossbars, operator.label)
            for choice, option in enumerate(operator.options):
                length = self._ticks(option.duration_ns, f"operators[{number}].options[{choice}].duration_ns")
                if (option.place, length, option.crossbars, option.label) == taken:
                    chosen.append(choice)
                    break
            else:
                raise InputError(
                    f"operator {operator.name!r} takes none of its options",
                    where=f"operators[{number}]",
                    why=f"{operator.place}, {duration * self.tick_ns:g} ns and {operator.crossbars} crossbars "
                    "are not among them",
                    fix=REMAKE,
                )
            starts.append(start)
        return Schedule(tuple(chosen), tuple(starts))

    def schedule_for(self, problem: Problem) -> Schedule:
        """Return this plan's choices and host order as a schedule of another problem on the same network.

        Parameters
        ----------
        problem : Problem
            The same operators and dependencies; durations, transfers and budget may differ.

        Returns
        -------
        Schedule
            Timed by the other problem's costs.

        Raises
        ------
        InputError
            If the operators differ, an operator cannot run where it runs here, or the budget is too small.
        """
        from cimplan.plan.warm_start import schedule_of

        return schedule_of(self, problem)

    def verify(self) -> None:
        """Check the plan again: schedule, claims, and everything that follows from them.

        Raises
        ------
        InputError
            If something does not hold; with the path of the field where it is one field.
        """
        problem, schedule = self.problem(), self.ticks()
        report = check(
            problem,
            schedule,
            status=self.solver_claims,
            lower_bound=self._ticks(self.lower_bound_ns, "lower_bound_ns"),
            makespan=self._ticks(self.makespan_ns, "makespan_ns"),
            curve=[
                CurvePoint(
                    point.crossbars,
                    self._ticks(point.makespan_ns, f"curve[{number}].makespan_ns"),
                    self._ticks(point.lower_bound_ns, f"curve[{number}].lower_bound_ns"),
                )
                for number, point in enumerate(self.curve)
            ],
        )
        if not report.passed:
            raise InputError("the plan does not hold", why=report.violations[0].message, fix=REMAKE)
        happened = replay(problem, schedule)
        if happened.schedule != schedule:
            raise InputError("the plan does not hold", why="the replay ends differently", fix=REMAKE)
        require_claims(self, problem, happened)
        require_spread(self)
        for name, value in self._derived(problem, happened).items():
            if getattr(self, name) != value:
                raise InputError("does not follow from the rest of the plan", where=name, fix=REMAKE)

    def verify_proof(
        self, *, nodes: int = DEFAULT_NODES, search_nodes: int = DEFAULT_SEARCH_NODES
    ) -> CertificateReport:
        """Verify the certificate in the plan again, without the solver that made it.

        Parameters
        ----------
        nodes : int
            Effort that verifying the tables of the blocks may take.
        search_nodes : int
            Nodes that the search may take by which a bound beyond these tables is verified.

        Raises
        ------
        InputError
            If the plan has no certificate.
        """
        if self.certificate is None:
            raise InputError(
                "the plan has no certificate to verify",
                where="certificate",
                why=f"the method {self.method!r} gives none",
                fix="Make the plan with --method exact",
            )
        return verify_certificate(self.problem(), self.certificate, nodes=nodes, search_nodes=search_nodes)

    def verification(self, *, nodes: int = DEFAULT_NODES, search_nodes: int = DEFAULT_SEARCH_NODES) -> Verification:
        """Verify everything that the plan claims: its proof, its curve, what fixes cost, gains and reasons.

        Parameters
        ----------
        nodes, search_nodes : int
            Effort for each proof, as in `verify_proof`.

        Raises
        ------
        InputError
            If a proof is wrong, or refutes something else in the plan.
        """
        from cimplan.plan.verification import verify_plan

        return verify_plan(self, nodes=nodes, search_nodes=search_nodes)

    def _derived(self, problem: Problem, happened: Replay) -> dict[str, Any]:
        values = derived(problem, happened) | {
            "crossbars_used": happened.schedule.crossbars(problem),
            "gap": gap(happened.makespan, self._ticks(self.lower_bound_ns, "lower_bound_ns")),
        }
        if self.host_only_ns is None:
            return values | {"speedup": None}
        return values | {"speedup": speedup(self._ticks(self.host_only_ns, "host_only_ns"), happened.makespan)}

    def _ticks(self, time_ns: float, where: str) -> int:
        return to_ticks(time_ns, self.tick_ns, where)

    # --- views -------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> dict[str, str]:
        """Place of each operator by name."""
        return {operator.name: operator.place for operator in self.operators}

    @property
    def schedule(self) -> dict[str, tuple[float, float]]:
        """Start and finish of each operator in nanoseconds by name."""
        return {operator.name: (operator.start_ns, operator.finish_ns) for operator in self.operators}

    def to_frame(self) -> polars.DataFrame:
        """Return the operators as a table, one row each.

        Raises
        ------
        InputError
            If polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise InputError(
                "a plan becomes a data frame through polars, which is not installed",
                fix="Install it with: pip install 'cimplan[explore]'",
            ) from error
        rows = [operator.model_dump(exclude={"options"}) for operator in self.operators]
        return polars.DataFrame(rows, infer_schema_length=None)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the timeline: one row per host core, crossbar group and bus lane.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if left out.

        Raises
        ------
        InputError
            If matplotlib is not installed.
        """
        from cimplan.plan.plot import draw_timeline

        return draw_timeline(self, ax)


def build_plan(costed: CostedNetwork, solution: Solution, *, problem: Problem | None = None) -> Plan:
    """Turn the answer of a method into a plan; refuse it unless the checker and the replay agree.

    Parameters
    ----------
    costed : CostedNetwork
        The network and its costs.
    solution : Solution
        What the method answered.
    problem : Problem, optional
        The problem that was solved, where it is not `costed.problem` itself (places fixed, another budget).

    Returns
    -------
    Plan
        Checked.

    Raises
    ------
    NoAnswerError
        If there is no schedule.
    InternalError
        If the checker refuses the answer or the replay does not reproduce it.
    """
    from cimplan.plan.context import context_of

    return plan_from(problem or costed.problem, solution, context_of(costed), unfixed=costed.problem)


def plan_from(
    problem: Problem,
    solution: Solution,
    context: PlanContext | None = None,
    *,
    unfixed: Problem | None = None,
) -> Plan:
    """Turn the answer of a method into a plan, for a problem that comes without a network; see `build_plan`."""
    if unfixed is not None and unfixed.budget != problem.budget:
        unfixed = unfixed.with_budget(problem.budget)
    fields = content(problem, solution, context or PlanContext(), unfixed=unfixed)
    plan = Plan(tool_version=version("cimplan"), **fields)
    plan.verify()
    return plan
