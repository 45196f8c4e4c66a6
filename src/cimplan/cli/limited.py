"""The options that every command has: limits of time and memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cimplan import limits
from cimplan.cli import guard
from cimplan.units import check_seconds, parse_duration_ns

if TYPE_CHECKING:
    from typer.models import TyperInfo

TimeLimitOption = Annotated[
    str | None, typer.Option("--time-limit", metavar="10s", help="End then; with exit code 1 if there is no result.")
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="8GB",
        help=f"Most memory to take; three quarters of the machine's if left out (or {limits.MEMORY_VARIABLE}).",
    ),
]


def seconds_of(time_limit: str | None) -> float | None:
    """Return a time limit as it was written in seconds.

    Raises
    ------
    InputError
        If it is no duration, or not positive.
    """
    seconds = None if time_limit is None else parse_duration_ns(time_limit) / 1e9
    check_seconds(seconds, "time limit")
    return seconds


def left_s(seconds: float | None) -> float | None:
    """Return what is left of a time limit in seconds, counted from when this process began; never nothing."""
    return None if seconds is None else max(0.01, seconds - guard.spent_s())


def limit_commands(app: typer.Typer) -> None:
    """Give every command of an application ``--memory-limit``, and ``--time-limit`` where it has none of its own.

    A command with an option ``--time-limit`` of its own has something to keep when the time is up, and sees to it.
    """
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = limited(command.callback)
    groups: list[TyperInfo] = app.registered_groups
    for group in groups:
        if group.typer_instance is not None:
            limit_commands(group.typer_instance)


def limited(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options of this module."""
    signature = inspect.signature(command, eval_str=True)
    if "memory_limit" in signature.parameters:
        return command
    own = "time_limit" in signature.parameters

    @wraps(command)
    def run(*arguments: Any, memory_limit: str | None = None, **options: Any) -> Any:
        time_limit = None if own else options.pop("time_limit", None)
        seconds = seconds_of(time_limit)
        guard.begin(memory_limit)
        with limits.time_limit(seconds, spent_s=guard.spent_s()):
            return command(*arguments, **options)

    added: dict[str, Any] = {} if own else {"time_limit": TimeLimitOption}
    added["memory_limit"] = MemoryOption
    keyword = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            *signature.parameters.values(),
            *(inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in added.items()),
        ]
    )
    run.__annotations__ = {**command.__annotations__, **added}
    return run
