"""The published integer linear programme, as plain rows and columns that any MIP solver can take.

Klein, Pelke, Laudani, Joseph, Leupers, "Optimizing ML Workload Partitioning between CPUs and CIM Accelerators for
Heterogeneous Computing" (arXiv 2607.05240). Binary ``x_v`` is 1 where operator v runs on the host; binary ``o_uv``,
one for each unordered pair of operators with no path between them, is 1 where u goes first if both are on the host.
Starts, finishes and the makespan are continuous.

========================  ==========  ===================================================================
rows                      how many    what
========================  ==========  ===================================================================
makespan                  sinks       ``T >= f_v`` for operators without a successor
finish                    |V|         ``f_v = s_v + t_acc,v + (t_host,v - t_acc,v) x_v``
precedence                |E|         ``s_v >= f_u``
transfer                  2 |E|       ``s_v >= f_u + t_uv (x_u - x_v)`` and with the places exchanged
disjunction               2 |P|       ``s_v >= f_u - M (3 - x_u - x_v - o_uv)`` and
                                      ``s_u >= f_v - M (2 - x_u - x_v + o_uv)``
budget                    1           crossbars of the operators on the accelerator
no choice                 |V - V_acc| ``x_v = 1``
========================  ==========  ===================================================================

``M = sum max(t_host, t_acc) + sum t_uv`` as published. Beyond the paper: an operator with no host option (a user's
``--fix``) also has a row, ``x_v = 0``; and operators of no host time need no place in the host's order, so their pairs
have a variable but no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cimplan.cost.problem import HOST, Option, Problem
from cimplan.errors import InputError


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of the published programme, counted as in Table I of the source.

    Attributes
    ----------
    operators : int
        |V|.
    decision_variables : int
        Binaries: |V| + |P|; starts, finishes and the makespan are not counted.
    constraints : int
        Rows; bounds of variables are not counted.
    """

    operators: int
    decision_variables: int
    constraints: int


@dataclass
class LinearModel:
    """Minimise the variable number `objective` over rows ``low <= sum coefficient * variable <= high``.

    Attributes
    ----------
    lower, upper : list of float
        Bounds of each variable.
    integer : list of bool
        Which variables are whole.
    rows : list of (float, dict of int to float, float)
        Lower end, coefficients by variable, upper end.
    objective : int
        The variable to minimise.
    unit : int
        Ticks per unit of model time; a power of two, so that every number is converted exactly.
    """

    unit: int
    objective: int = 0
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[float, dict[int, float], float]] = field(default_factory=list)

    def variable(self, upper: float = float("inf"), *, integer: bool = False) -> int:
        """Add a variable from 0 to `upper`; return its number."""
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, low: float, high: float, *terms: tuple[float, int]) -> None:
        """Add a row; terms of the same variable add up."""
        coefficients: dict[int, float] = {}
        for coefficient, variable in terms:
            coefficients[variable] = coefficients.get(variable, 0.0) + coefficient
        self.rows.append((low, coefficients, high))


@dataclass(frozen=True)
class Formulation:
    """The published programme of one problem.

    Attributes
    ----------
    model : LinearModel
        Rows and columns.
    on_host, start, finish : tuple of int
        Variable numbers of ``x_v``, ``s_v``, ``f_v``.
    first : dict of (int, int) to int
        Variable number of ``o_uv``, u < v.
    """

    model: LinearModel
    on_host: tuple[int, ...]
    start: tuple[int, ...]
    finish: tuple[int, ...]
    first: dict[tuple[int, int], int]


def model_size(problem: Problem) -> ModelSize:
    """Return the size of the published programme without building it.

    Raises
    ------
    InputError
        If an operator has options that the formulation cannot express.
    """
    two_options(problem)
    count = len(problem)
    pairs = count * (count - 1) // 2 - sum(later.bit_count() for later in _later(problem))
    edges = len(problem.dependencies)
    sinks = count - len({edge.source for edge in problem.dependencies})
    without_choice = sum(len(options) == 1 for options in problem.options)
    return ModelSize(
        operators=count,
        decision_variables=count + pairs,
        constraints=sinks + count + edges + 2 * edges + 2 * pairs + 1 + without_choice,
    )


def two_options(problem: Problem) -> tuple[tuple[Option | None, Option | None], ...]:
    """Return the host and the accelerator option of each operator.

    Raises
    ------
    InputError
        If an operator has more than one of either, or the problem more than one accelerator or host core.
    """
    places = [place for place in problem.places() if place != HOST]
    if len(places) > 1:
        raise InputError(
            "the published ILP knows one accelerator",
            why=f"this problem has {', '.join(places)}",
            fix="Use --method exact or cp-sat",
        )
    if problem.host_cores != 1:
        raise InputError(
            "the published ILP knows one host core",
            why=f"this problem has {problem.host_cores}",
            fix="Use --method exact or cp-sat",
        )
    found = []
    for name, options in zip(problem.names, problem.options, strict=True):
        host = [option for option in options if option.place == HOST]
        accelerator = [option for option in options if option.place != HOST]
        if len(host) > 1 or len(accelerator) > 1:
            raise InputError(
                "the published ILP knows one host option and one accelerator option per operator",
                where=f"operator {name!r}",
                why=f"it has {len(host)} and {len(accelerator)}",
                fix="Use --method exact or cp-sat",
            )
        found.append((host[0] if host else None, accelerator[0] if accelerator else None))
    return tuple(found)


def formulate(problem: Problem, makespan: int) -> Formulation:
    """Build the published programme.

    Parameters
    ----------
    problem : Problem
        One host core, at most one host and one accelerator option per operator.
    makespan : int
        A makespan of the expected size, in ticks; only sets the unit of time, such that it becomes 512 to 1024.

    Raises
    ------
    InputError
        If the formulation cannot express the problem.
    """
    options = two_options(problem)
    shift = max(0, makespan.bit_length() - 10)
    model = LinearModel(unit=1 << shift)
    unit = float(model.unit)
    infinity = float("inf")
    host = [_duration(h, a) / unit for h, a in options]
    accelerator = [_duration(a, h) / unit for h, a in options]
    delays = [edge.transfer / unit for edge in problem.dependencies]
    big = sum(map(max, host, accelerator)) + sum(delays)

    vertices = range(len(problem))
    on_host = tuple(model.variable(1.0, integer=True) for _ in vertices)
    first = {pair: model.variable(1.0, integer=True) for pair in unordered_pairs(problem)}
    start = tuple(model.variable() for _ in vertices)
    finish = tuple(model.variable() for _ in vertices)
    model.objective = model.variable()

    sources = {edge.source for edge in problem.dependencies}
    for v in vertices:
        if v not in sources:
            model.row(0.0, infinity, (1.0, model.objective), (-1.0, finish[v]))
    for v in vertices:
        saved = host[v] - accelerator[v]
        model.row(accelerator[v], accelerator[v], (1.0, finish[v]), (-1.0, start[v]), (-saved, on_host[v]))
    for edge, delay in zip(problem.dependencies, delays, strict=True):
        u, v = edge.source, edge.target
        model.row(0.0, infinity, (1.0, start[v]), (-1.0, finish[u]))
        model.row(0.0, infinity, (1.0, start[v]), (-1.0, finish[u]), (-delay, on_host[u]), (delay, on_host[v]))
        model.row(0.0, infinity, (1.0, start[v]), (-1.0, finish[u]), (delay, on_host[u]), (-delay, on_host[v]))
    for (u, v), o in first.items():
        if not all(h is None or h.duration > 0 for h in (options[u][0], options[v][0])):
            continue
        both = ((-big, on_host[u]), (-big, on_host[v]))
        model.row(-3 * big, infinity, (1.0, start[v]), (-1.0, finish[u]), (-big, o), *both)
        model.row(-2 * big, infinity, (1.0, start[u]), (-1.0, finish[v]), (big, o), *both)
    _budget(model, problem, options, on_host)
    for v, (h, a) in enumerate(options):
        if a is None:
            model.row(1.0, 1.0, (1.0, on_host[v]))
        elif h is None:
            model.row(0.0, 0.0, (1.0, on_host[v]))
    return Formulation(model, on_host, start, finish, first)


def _duration(option: Option | None, other: Option | None) -> int:
    """Return an option's ticks; those of the other one where it is missing (its variable is fixed anyway)."""
    present = option if option is not None else other
    return present.duration if present is not None else 0


def _budget(
    model: LinearModel,
    problem: Problem,
    options: tuple[tuple[Option | None, Option | None], ...],
    on_host: tuple[int, ...],
) -> None:
    """Add the row that keeps the crossbars within the budget."""
    constant = 0
    terms = []
    for x, (h, a) in zip(on_host, options, strict=True):
        away = a.crossbars if a is not None else 0
        at_home = h.crossbars if h is not None else 0
        constant += away
        terms.append((float(at_home - away), x))
    model.row(-float("inf"), float(problem.budget - constant), *terms)


def unordered_pairs(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield the pairs u < v of operators with no path between them."""
    count = len(problem)
    for u, later in enumerate(_later(problem)):
        apart = ~later & ((1 << count) - (1 << (u + 1)))
        while apart:
            lowest = apart & -apart
            yield u, lowest.bit_length() - 1
            apart ^= lowest


def _later(problem: Problem) -> list[int]:
    """Return, for each operator, the set of operators a path leads to, as bits."""
    later = [0] * len(problem)
    for edge in reversed(problem.dependencies):
        later[edge.source] |= later[edge.target] | 1 << edge.target
    return later
