"""Why each operator is where it is: what the plan would gain or lose if it ran elsewhere.

Every number comes from re-timing the plan with that one operator moved (see `retiming`), so it includes transfers
and waiting on the host, and it is what *this* plan gains; the best plan after a move may be better still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass

from cimplan.cost.problem import CIM, HOST, Option, Problem
from cimplan.errors import InternalError
from cimplan.limits import TimeLimitError
from cimplan.plan.retiming import Move, makespans_after, makespans_in_turn
from cimplan.plan.schedule import Schedule
from cimplan.units import format_duration

FIXED = "placed by the user"

UNKNOWN = "what another place would change was not computed before the time limit or Ctrl-C"
"""Reason of an operator whose moves there was no time for; all that is left of one where the user placed it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an operator is where it is.

    Attributes
    ----------
    gain : int or None
        Ticks the makespan would grow if the operator moved to its best other place; negative if it would shrink.
        None if there is no other place, or no time to compute it.
    text : str
        One line for people.
    """

    gain: int | None
    text: str


def explain(
    problem: Problem,
    schedule: Schedule,
    *,
    unfixed: Problem | None = None,
    unsupported: Mapping[str, str] | None = None,
    lower_bound: int = 0,
    proven: bool | None = None,
    limited: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[Reason, ...]:
    """Give the reason for the place of every operator.

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    schedule : Schedule
        A valid schedule of it.
    unfixed : Problem, optional
        The problem before the user fixed places; `problem` itself if left out.
    unsupported : mapping of str to str, optional
        For operators without an accelerator option, by name: why.
    lower_bound : int
        Ticks that nothing is said to beat.
    proven : bool, optional
        Whether the schedule may be called optimal; if left out, whether it ends at the bound.
    limited : callable
        Makes the context in which moves are timed; where it ends in `TimeLimitError`, or by Ctrl-C, the reason of the
        operators that are left is `UNKNOWN`.

    Returns
    -------
    tuple of Reason
        One per operator.

    Raises
    ------
    InternalError
        If a move within the budget beats the proven lower bound: then the proof is wrong.
    """
    found = _Explanation(problem, schedule, unfixed or problem, unsupported or {}, lower_bound, proven)
    with suppress(TimeLimitError, KeyboardInterrupt), limited():
        found.time_moves()
    return found.reasons()


def both_wordings(
    problem: Problem, schedule: Schedule, *, unfixed: Problem
) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """Give the reasons of `explain` for a schedule that may be called optimal, and for one that may not."""
    found = _Explanation(problem, schedule, unfixed, {}, 0, True)
    found.time_moves()
    optimal = found.reasons()
    found.proven = False
    return optimal, found.reasons()


def quickest_move(problem: Problem, schedule: Schedule) -> int | None:
    """Return the least makespan that moving one operator within the budget gives; None if none can move."""
    free = problem.budget - schedule.crossbars(problem)
    moves = [
        Move(index, number)
        for index, options in enumerate(problem.options)
        for number, option in enumerate(options)
        if option.place != options[schedule.chosen[index]].place
        and option.crossbars - options[schedule.chosen[index]].crossbars <= free
    ]
    return min(makespans_after(problem, schedule, moves), default=None)


class _Explanation:
    """The plan's own numbers, and the makespan after each possible move."""

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        unfixed: Problem,
        unsupported: Mapping[str, str],
        lower_bound: int,
        proven: bool | None,
    ) -> None:
        self.problem = problem
        self.unfixed = unfixed
        self.unsupported = unsupported
        self.lower_bound = lower_bound
        self.now = schedule.makespan(problem)
        self.free = problem.budget - schedule.crossbars(problem)
        self.proven = lower_bound >= self.now if proven is None else proven
        self.chosen = [options[choice] for options, choice in zip(problem.options, schedule.chosen, strict=True)]
        chosen = tuple(options.index(option) for options, option in zip(unfixed.options, self.chosen, strict=True))
        self.schedule = Schedule(chosen, schedule.start)
        self.moves = [
            Move(index, number)
            for index, options in enumerate(unfixed.options)
            for number, option in enumerate(options)
            if option.place != self.chosen[index].place
        ]
        self.best: dict[int, tuple[int, int, Option]] = {}
        self.untimed = {move.operator for move in self.moves}

    def time_moves(self) -> None:
        """Time the moves; what was found of the operators whose moves were all timed stays if that is interrupted."""
        untimed = self.moves
        for makespans in makespans_in_turn(self.unfixed, self.schedule, self.moves):
            timed, untimed = untimed[: len(makespans)], untimed[len(makespans) :]
            for move, makespan in zip(timed, makespans, strict=True):
                option = self.unfixed.options[move.operator][move.option]
                self._refute(move.operator, option, makespan)
                candidate = (makespan, option.crossbars, option)
                if move.operator not in self.best or candidate[:2] < self.best[move.operator][:2]:
                    self.best[move.operator] = candidate
            self.untimed = {move.operator for move in untimed}

    def _refute(self, index: int, option: Option, makespan: int) -> None:
        allowed = option in self.problem.options[index]
        if allowed and self._extra(index, option) <= self.free and makespan < self.lower_bound:
            raise InternalError(
                "the lower bound of this plan is wrong",
                where=f"operator {self.problem.names[index]!r}",
                why=f"moved to {option.place!r} the plan takes {makespan} ticks, the bound is {self.lower_bound}",
                fix="Please report it with the model and the command",
            )

    def _extra(self, index: int, option: Option) -> int:
        return option.crossbars - self.chosen[index].crossbars

    def reasons(self) -> tuple[Reason, ...]:
        """Return one reason per operator."""
        return tuple(self._reason(index) for index in range(len(self.chosen)))

    def _reason(self, index: int) -> Reason:
        here = self.chosen[index]
        if index in self.untimed:
            return Reason(None, f"{FIXED}; {UNKNOWN}" if self._fixed(index) else UNKNOWN)
        if index not in self.best:
            why = self.unsupported.get(self.problem.names[index], "") if here.place == HOST else ""
            return Reason(None, f"only on {_called(here.place)}" + (f": {why}" if why else ""))
        makespan, _, other = self.best[index]
        gain = makespan - self.now
        if self._fixed(index):
            return Reason(gain, f"{FIXED}; {_called(other.place)} would {self._effect(gain)}")
        if here.place == HOST:
            return Reason(gain, self._stays(index, other, gain))
        return Reason(gain, self._moved(here, other, gain))

    def _fixed(self, index: int) -> bool:
        places = {option.place for option in self.problem.options[index]}
        return places != {option.place for option in self.unfixed.options[index]}

    def _stays(self, index: int, other: Option, gain: int) -> str:
        """Explain an operator that stays on the host."""
        place, needs = _called(other.place), self._extra(index, other)
        if needs > self.problem.budget:
            return f"{place} needs {_crossbars(needs)}, there are {self.problem.budget}"
        if gain < 0 and needs > self.free:
            used = "better used elsewhere" if self.proven else "taken"
            return f"{place} would {self._effect(gain)}, but the {_crossbars(needs)} it needs are {used}"
        if gain < 0:
            return f"{place} would {self._effect(gain)}: this plan is not proven optimal"
        if gain == 0:
            return f"{place} would {self._effect(gain)}"
        here = self.chosen[index]
        if other.duration < here.duration:
            return f"transfers and waiting would cost {self._time(gain)} more than {place} gains"
        return f"{place} would cost {self._time(gain)}: it takes {self._time(other.duration)} for it"

    def _moved(self, here: Option, other: Option, gain: int) -> str:
        """Explain an operator on an accelerator."""
        if not here.crossbars and not here.duration:
            return f"{here.label or 'no work'} there; {_called(other.place)} would {self._effect(gain)}"
        place, on = _called(here.place), f"on {_crossbars(here.crossbars)}"
        if gain > 0:
            return f"{place} saves {self._time(gain)} {on}"
        if gain == 0:
            return f"{place} {on}; {_called(other.place)} would {self._effect(gain)}"
        return f"{place} {on}; {_called(other.place)} would {self._effect(gain)}" + (
            "" if self.proven else ": this plan is not proven optimal"
        )

    def _effect(self, gain: int) -> str:
        if gain == 0:
            return "not change the latency"
        return f"save {self._time(-gain)}" if gain < 0 else f"cost {self._time(gain)}"

    def _time(self, ticks: int) -> str:
        return format_duration(ticks * self.problem.tick_ns)


def _called(place: str) -> str:
    return "CIM" if place == CIM else place


def _crossbars(count: int) -> str:
    return f"{count} crossbar" + ("" if count == 1 else "s")
