"""One model through the commands, in this process: what came of each, and the reason where nothing did.

An outcome is ``done``, ``refused`` (a typed error with exit code 1 or 2) or ``fault``: any other exception, a result
that contradicts itself, or, noticed by whoever started the process, no end. Only faults are wrong.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

COMMANDS = ("inspect", "partition", "compile", "quantize")
MEASURE_FOR = "20ms"
TIME_LIMIT = "5s"


@dataclass(frozen=True)
class Outcome:
    """What came of one command on one model."""

    command: str
    outcome: str
    reason: str = ""
    detail: str = ""
    costs: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in ("",)}


class ContradictionError(Exception):
    """A command ended well and its result is wrong."""


def run_all(path: Path, folder: Path) -> Iterator[Outcome]:
    """Run every command on a model; files are written to a folder."""
    yield _outcome("inspect", lambda: _inspect(path))
    yield _partition(path, folder)
    yield _outcome("compile", lambda: _compile(path))
    yield _outcome("quantize", lambda: _quantise(path, folder))


def _outcome(command: str, run: Callable[[], str], costs: str = "") -> Outcome:
    from cimplan.errors import InputError, NoAnswerError

    started = time.perf_counter()

    def ended(outcome: str, reason: str, detail: str = "") -> Outcome:
        return Outcome(command, outcome, reason, detail, costs, round(time.perf_counter() - started, 3))

    try:
        return ended("done", run())
    except (InputError, NoAnswerError) as error:
        if not error.where and not error.why and not error.fix:
            return ended("fault", "an error without where, why and what to do", str(error))
        return ended("refused", without_names(f"{error.what}: {error.why}" if error.why else error.what), str(error))
    except (Exception, SystemExit) as error:
        return ended("fault", type(error).__name__, str(error))


def json_of(*words: object) -> Any:
    """Return the JSON that a command prints; errors are raised as they are."""
    from cimplan.cli import main

    out = io.StringIO()
    arguments = ["cimplan", "--debug", *map(str, words), "--json"]
    with (
        mock.patch.object(sys, "argv", arguments),
        redirect_stdout(out),
        redirect_stderr(io.StringIO()) as err,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            main(guarded=False)
        except SystemExit as ended:
            if ended.code not in (0, None):
                raise ContradictionError(f"exit code {ended.code}: {err.getvalue()[-300:]}") from None
    return json.loads(out.getvalue(), parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise ContradictionError(f"{text} in JSON")


def _require(fact: bool, said: str) -> None:
    if not fact:
        raise ContradictionError(said)


def _inspect(path: Path) -> str:
    found = json_of("inspect", path)
    for row in found["operators"]:
        _require((row["crossbars"] is None) == bool(row["reason"]), f"{row['name']}: crossbars or a reason, not both")
        _require(row["macs"] >= 0 and row["weight_bytes"] >= 0, f"{row['name']}: a negative size")
    _require(found["supported"] <= len(found["operators"]), "more supported operators than operators")
    return "could be offloaded" if found["supported"] else "nothing could be offloaded"


def _partition(path: Path, folder: Path) -> Outcome:
    """Partition with measured costs; with estimated ones of the file's graph where ONNX Runtime cannot run it."""
    measured = _outcome("partition", lambda: _plan(path, folder, "--measure-for", MEASURE_FOR), "measured")
    if measured.outcome != "refused":
        return measured
    from cimplan.errors import CimplanError

    profile = folder / "estimated.json"
    try:
        estimated_from_file(path, profile)
    except CimplanError:
        return measured
    except Exception as error:
        return Outcome("partition", "fault", type(error).__name__, str(error), "estimated", measured.seconds)
    return _outcome("partition", lambda: _plan(path, folder, "--profile", profile), "estimated")


def estimated_from_file(path: Path, target: Path) -> None:
    """Write an estimated profile of the graph as the file has it, without ONNX Runtime.

    Raises
    ------
    InputError
        If the file cannot be read as a graph.
    """
    from cimplan.cost.estimate import estimate
    from cimplan.cost.naming import with_stable_names
    from cimplan.cost.profile import model_record
    from cimplan.cost.profile_file import HostProfile, Timing, record_of
    from cimplan.graph.read import read_graph

    graph = with_stable_names(read_graph(path))
    bare = {
        "schema_version": 1,
        "cimplan_version": "0",
        "origin": "estimated",
        "model": model_record(path),
        "machine": {"cpu": "none", "architecture": "none", "system": "none", "threads": 1},
        "graph": record_of(graph),
        "times": {op.name: Timing(host_ns=0.0, kind="free (view)") for op in graph.operators},
    }
    estimate(HostProfile.model_validate(bare), "cortex-a72").save(target)


def _plan(path: Path, folder: Path, *costs: object) -> str:
    plan = folder / "plan.json"
    found = json_of("partition", path, *costs, "--time-limit", TIME_LIMIT, "-o", plan)
    plan.unlink()
    _require(found["checked"] is True, "a plan that was not checked")
    _require(found["lower_bound_ns"] <= found["makespan_ns"] * (1 + 1e-9), "a lower bound above the makespan")
    _require(found["makespan_ns"] <= found["host_only_ns"] * (1 + 1e-6), "slower than the host alone")
    _require(found["crossbars_used"] <= found["crossbars_available"], "more crossbars than there are")
    for operator in found["operators"]:
        _require(operator["finish_ns"] >= operator["start_ns"] >= 0, f"{operator['name']}: ends before it starts")
    offloaded = sum(operator["place"] != "host" for operator in found["operators"])
    return f"{found['status']}, {'something' if offloaded else 'nothing'} offloaded"


def _compile(path: Path) -> str:
    found = json_of("compile", path, "--time-limit", TIME_LIMIT)
    _require(found["checked"] is True, "a plan that was not checked")
    _require(found["latency_cycles"] > 0, "no cycles")
    return str(found["status"])


def _quantise(path: Path, folder: Path) -> str:
    import onnxruntime as ort

    target = folder / "int8.onnx"
    json_of("quantize", path, "-o", target)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(target, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ContradictionError(f"the quantised file does not load: {error}") from error
    finally:
        target.unlink()
    return "the file loads"


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PATH = re.compile(r"\S*/\S+")
_NUMBERS = re.compile(r"(?<![\w.])[-+]?\d[\d.,e+-]*")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")


def without_names(message: str) -> str:
    """Return a reason that is the same for all models that have it: without names, paths and numbers."""
    text = message.partition("\n")[0]
    for pattern, instead in ((_QUOTED, "…"), (_PATH, "…"), (_BRACKETS, "[…]"), (_NUMBERS, "n")):
        text = pattern.sub(instead, text)
    return text[:160]


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """Keep profiles out of the user's cache."""
    from cimplan.cache import DIRECTORY_VARIABLE

    with mock.patch.dict("os.environ", {DIRECTORY_VARIABLE: str(folder)}):
        yield
