"""Where files come in: the commands that a user would give a file to, and what they may do with it."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

LIMIT_S = 2.0
"""Of processor time for a command."""

_BEFORE = b"what was there before"


class BrokenError(Exception):
    """A promise about files does not hold: half a file, a file left over, an input that has changed."""


@cache
def _command() -> Any:
    import typer

    from cimplan.cli.app import app

    return typer.main.get_command(app)


def call(*arguments: object) -> int:
    """Run a command in this process; return its exit code. What is no typed error comes out as it is."""
    from cimplan.cli.console import paragraph
    from cimplan.errors import CimplanError, InternalError

    if signal.getitimer(signal.ITIMER_PROF)[0]:
        # The next command of a case has its own time; the two seconds are not those of four commands.
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S, 0.5)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            code = _command().main(args=list(map(str, arguments)), prog_name="cimplan", standalone_mode=False)
        except InternalError:
            raise
        except CimplanError as error:
            if not error.what or not paragraph(str(error)).isprintable():
                raise BrokenError("an error without words, or with words that cannot be shown") from error
            return error.exit_code
        except Exception as error:
            # Typer brings its own Click; its errors about usage say what the process would end with.
            code = getattr(error, "exit_code", None)
            if code != 2:
                raise
        return int(code or 0)


def writes(path: Path, read: Callable[[Path], object], *arguments: object) -> int:
    """Run a command that writes a file: whole where it ends with 0, and else not at all."""
    path.write_bytes(_BEFORE)
    code = call(*arguments, "-o", path)
    content = path.read_bytes() if path.is_file() else b""
    if code:
        if content != _BEFORE:
            raise BrokenError(f"`{arguments[0]}` ended with {code} and has written its output")
        return code
    try:
        if content == _BEFORE:
            raise ValueError("nothing was written")
        read(path)
    except Exception as error:
        raise BrokenError(f"`{arguments[0]}` ended with 0 and its output cannot be read: {error}") from error
    return code


def _json(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8"))


def _text(path: Path) -> object:
    return path.read_text(encoding="utf-8")


def _onnx(path: Path) -> object:
    import onnx

    return onnx.load(path)


def hardware(file: Path, rng: Random) -> int:
    """Check, show, and plan with a hardware description."""
    folder = file.parent
    code = call("hardware", "check", file)
    if code:
        return code
    call("hardware", "show", file)
    from cimplan.hardware.loading import load

    found = load(file)
    if found.accelerator is not None:
        more = rng.choice(((), (), ("--curve",), ("--method", "greedy"), ("--method", "heft")))
        options = ("--hardware", file, "--time-limit", "500ms", "-q", "--json", *more)
        code = writes(folder / "out.json", _json, "partition", "--profile", folder / "host.json", *options)
    if found.dual_mode is not None:
        options = ("--hardware", file, "--time-limit", "500ms", "-q", "--json")
        code = writes(folder / "out.json", _json, "compile", folder / "small_int8.onnx", *options)
    return code


def profile(file: Path, rng: Random) -> int:
    """Plan with a profile, and check the plan."""
    out = file.parent / "out.json"
    more = rng.choice(((), (), ("--curve",), ("--method", "greedy"), ("--method", "heft"), ("--method", "single-cut")))
    options = ("--hardware", file.parent / "wide.yaml", "--time-limit", "500ms", "-q", "--json", *more)
    code = writes(out, _json, "partition", "--profile", file, *options)
    if not code and rng.random() < 0.3:
        code = call("check", out, "--json")
        if code not in (0, 1):
            raise BrokenError(f"`check` refuses, with {code}, a plan that `partition` has made")
    return code


def events(file: Path, rng: Random) -> int:
    """Import a profile of ONNX Runtime, and plan with it."""
    host = file.parent / "out.json"
    code = writes(host, _json, "profile", file.parent / "small.onnx", "--from-ort-profile", file, "-q")
    return code or call("partition", "--profile", host, "--hardware", file.parent / "wide.yaml", "-q", "--json")


def plan(file: Path, rng: Random) -> int:
    """Check and export a plan."""
    folder = file.parent
    code = call("check", file, "--json")
    exported = writes(folder / "out.trace.json", _json, "export", file, "--to", "trace")
    if exported in (0, 1) or rng.random() < 0.1:
        writes(folder / "out.csv", _text, "export", file, "--to", "csv")
        writes(folder / "out.txt", _text, "export", file, "--to", "program")
        options = ("--profile", folder / "host.json", "--hardware", folder / "wide.yaml", "--method", "greedy", "-q")
        writes(folder / "out.json", _json, "partition", "--warm-start", file, *options)
        writes(folder / "out.onnx", _onnx, "export", file, "--to", "onnx", "--model", folder / "small_int8.onnx")
    return code


def program(file: Path, rng: Random) -> int:
    """Parse, print, verify and time a program."""
    from cimplan.errors import CimplanError
    from cimplan.machine.timing import replay
    from cimplan.program.parser import parse_program, read_program
    from cimplan.program.printer import print_program
    from cimplan.program.verifier import verify

    chip, readings = _chip(file.parent)
    try:
        found = read_program(file)
        text = print_program(found)
        if print_program(parse_program(text)) != text:
            raise BrokenError("what was printed parses as something else")
        report = verify(found, chip)
        str(report.violations)
        if not report.ok:
            return 1
        replay(found, chip, readings)
    except CimplanError as error:
        return error.exit_code
    return 0


@cache
def _chip(folder: Path) -> tuple[Any, Any]:
    from cimplan.plan.dual_mode import DualModePlan

    plan = DualModePlan.load(folder / "compiled.json")
    return plan.chip, plan.readings


def onnx(file: Path, rng: Random) -> int:
    """Inspect, estimate and plan, compile, quantise, and now and then measure a model."""
    folder = file.parent
    code = call("inspect", file, *rng.choice(((), ("--json",))), *rng.choice(((), (), ("--shape", "x=1,8"))))
    if code and rng.random() < 0.7:
        return code  # what reading refuses is mostly refused by the others for the same reason
    host, out = folder / "out.host.json", folder / "out.json"
    estimated = writes(host, _json, "profile", file, "--estimate", "cortex-a72", "-q")
    if not estimated:
        options = ("--profile", host, "--hardware", folder / "wide.yaml", "--time-limit", "500ms", "-q", "--json")
        planned = writes(out, _json, "partition", file, *options)
        if not planned and rng.random() < 0.2:
            writes(folder / "out.onnx", _onnx, "export", out, "--to", "onnx", "--model", file)
    options = ("--hardware", folder / "dual.yaml", "--time-limit", "500ms", "-q", "--json")
    compiled = writes(out, _json, "compile", file, *options)
    if rng.random() < (0.1 if code else 0.2):
        writes(folder / "out.onnx", _onnx, "quantize", file, "-q")
    if rng.random() < (0.01 if code else 0.03):
        writes(host, _json, "profile", file, "--measure-for", "50ms", "-q")
    return min(code, estimated, compiled)


def space(file: Path, rng: Random) -> int:
    """Read a space, and sweep it where it is small and its models are here."""
    from cimplan.errors import CimplanError
    from cimplan.explore.space import load_space, points_wanted
    from cimplan.explore.store import Store
    from cimplan.explore.sweep import run_sweep
    from cimplan.explore.tables import write

    class Here:
        """Runs tasks in this process; an error that no point expects comes out."""

        def run(self, function: Callable[[Any], Any], tasks: Any) -> Iterator[tuple[Any, Any]]:
            for task in tasks:
                yield task, function(task)

    folder = file.parent
    try:
        loaded = load_space(file)
        found = loaded.space
        small = points_wanted(found) <= 24 and all(model in found.profiles for model in found.models)
        if not small or rng.random() < 0.8:
            return 0
        # Several host cores take a while, and it is not the solver that is tried here.
        options = found.options.model_copy(update={"time_limit": found.options.time_limit or "20ms"})
        loaded = replace(loaded, space=found.model_copy(update={"options": options}))
        store = folder / "out.db"
        with Store(f"sqlite:///{store}") as opened:
            result = run_sweep(loaded, opened, engine=Here())
        for path in (folder / "out.csv", folder / "out.parquet"):
            write(result.rows, result.columns, path)
    except CimplanError as error:
        return error.exit_code
    return 0


DOORS: dict[str, Callable[[Path, Random], int]] = {
    "onnx": onnx,
    "hardware": hardware,
    "space": space,
    "profile": profile,
    "events": events,
    "plan": plan,
    "program": program,
}
