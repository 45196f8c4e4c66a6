"""The application: registers the commands and turns errors into one paragraph and an exit code."""

from __future__ import annotations

import atexit
import errno
import io
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cimplan.cli import check, compare, compile, doctor, explore, export, hardware, models, partition, reproduce, zoo
from cimplan.cli.console import emit, fail, note, noticing_interrupts, paragraph, settle
from cimplan.cli.guard import guarding, memory_error
from cimplan.cli.limited import limit_commands
from cimplan.errors import CimplanError

_INTERRUPTED = 130
_READER_LEFT = 141
"""As a shell reports a program that SIGPIPE ended."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Plain help: typer's rich help would double the time until a user reads the first line.
app = typer.Typer(
    name="cimplan",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(models.inspect)
app.command()(models.quantize)
app.command()(models.profile)
app.command()(partition.partition)
app.command("compile")(compile.compile_model)
app.command()(compare.compare)
app.command()(check.check)
app.command()(export.export)
app.add_typer(explore.app, name="explore")
app.command()(reproduce.reproduce)
app.add_typer(hardware.app, name="hardware")
app.add_typer(zoo.app, name="zoo")
app.command()(doctor.doctor)
limit_commands(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cimplan import __version__

        emit(f"cimplan {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
) -> None:
    """Decide exactly which parts of a neural network run in computing-in-memory hardware, and how.

    MODEL is an ONNX file or a reference network (zoo:resnet18). Exit codes: 0 done, also with the best plan so far
    where a time limit or Ctrl-C ended the search; 1 the question has no answer, or none within the limits of time and
    memory; 2 bad usage or bad input; 3 internal fault; 130 interrupted with nothing in hand; 141 the reader of the
    output has left.
    """


def main(*, guarded: bool = True) -> NoReturn:
    """Run the command line; `guarded` as in `cimplan.cli.main`."""
    # Both are None where the caller closed them.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding cannot show must not cost the result.
        sys.stdout.reconfigure(errors="backslashreplace")
    # What is done is done: Ctrl-C while the interpreter ends must not change the exit code.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        with guarding() if guarded else nullcontext():
            code = _run(debug="--debug" in sys.argv[1:] or bool(os.environ.get("CIMPLAN_DEBUG")))
    finally:
        # What could not be written must not fail once more, and louder, when the interpreter ends.
        for stream in (sys.stdout, sys.stderr):
            settle(stream)
    sys.exit(code)


def _run(*, debug: bool) -> int | str | None:
    """Run the command that the arguments name; return the exit code."""
    try:
        code = _run_command()
        # Here and not at the interpreter's end, where a failure is noise and has no code of ours.
        sys.stdout.flush()
        return code
    except CimplanError as error:
        if debug:
            raise
        return fail(error)
    except BrokenPipeError:
        # The reader has seen enough: nothing went wrong, and nobody is left to be told anything.
        return _READER_LEFT
    except KeyboardInterrupt:
        note("cimplan: interrupted")
        return _INTERRUPTED
    except MemoryError:
        if debug:
            raise
        return fail(memory_error())
    except Exception as error:  # the last resort: a fault of ours, said as such
        if debug:
            raise
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            note(f"cimplan: cannot write the result. {error.strerror}. Make room, or choose another place.")
            return 2
        note(
            f"cimplan: internal fault: {type(error).__name__}: {paragraph(str(error))}. "
            "Run again with --debug for the traceback, and please report it."
        )
        return 3


def _run_command() -> int | str | None:
    """Let Typer run a command; return its exit code, told apart from the 1 of a question without an answer."""
    with noticing_interrupts() as interrupted:
        try:
            app()
        except SystemExit as ended:
            if ended.code == 1 and isinstance(ended.__context__, BrokenPipeError):
                raise ended.__context__ from None
            if isinstance(ended.__context__, typer.Exit) and isinstance(ended.__context__.__cause__, KeyboardInterrupt):
                raise ended.__context__.__cause__ from None  # Typer ends with the code but without a word
            return _INTERRUPTED if ended.code == 1 and interrupted() else ended.code
    return 0
