"""Cases: which seed, which changes, and what one mutant comes to. Everything follows from a seed and a number."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import yaml

from . import mutate, mutate_onnx
from .doors import DOORS, BrokenError
from .seeds import SUFFIXES

LIMIT_S = 2.0
"""Of processor time from one command of a case to the next, since others use this machine too; the parent stops a case
that only waits."""

_BESIDE = ("weights.bin", "small.onnx", "small_int8.onnx", "host.json", "wide.yaml", "dual.yaml", "compiled.json")
_OUTCOMES = {0: "done", 1: "no answer", 2: "refused"}


class TooLongError(BaseException):
    """A case has used up its time."""


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    Attributes
    ----------
    result : str
        done, no answer, refused, or a fault: untyped, hang, broken file, crash.
    signature : str
        What tells one fault from another; empty without a fault.
    detail : str
        The traceback of a fault.
    seconds : float
        Wall time.
    """

    result: str
    signature: str = ""
    detail: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


FAULTS = ("untyped", "hang", "broken file", "crash")


def steps_of(seed: int, kind: str, number: int) -> list[int]:
    """Return the changes of a case, each as a number that it follows from."""
    rng = Random(f"{seed} {kind} {number}")
    count = rng.choice((1, 1, 1, 2, 2, 3, 4))
    return [rng.randrange(2**32) for _ in range(count)]


_JSON = ("profile", "events", "plan")


def content_of(folder: Path, seed: int, kind: str, number: int, steps: list[int]) -> bytes:
    """Return the mutant of a case with some of its changes, from the seeds in a folder."""
    files = sorted((folder / kind).iterdir())
    content = Random(f"seed {seed} {kind} {number}").choice(files).read_bytes()
    parsed = _parsed(kind, content)
    late: list[Random] = []
    for step in steps:
        rng = Random(step)
        if rng.random() < 0.12:
            late.append(rng)
        elif kind == "onnx":
            content = mutate_onnx.model(rng, content)
        elif kind == "program":
            content = mutate.program_text(rng, content)
        else:
            parsed = mutate.tree(rng, parsed)
    if kind in ("hardware", "space"):
        content = mutate.yaml_bytes(parsed)
    elif kind in _JSON:
        content = mutate.json_bytes(parsed)
    for rng in late:
        as_text = kind in ("hardware", "space") and rng.random() < 0.7
        content = mutate.yaml_text(rng, content) if as_text else mutate.noise(rng, content)
    return content


def _parsed(kind: str, content: bytes) -> Any:
    if kind in ("hardware", "space"):
        return yaml.safe_load(content)
    return json.loads(content) if kind in _JSON else None


class Bench:
    """A folder in which one mutant after another goes through its commands."""

    def __init__(self, seeds: Path, folder: Path) -> None:
        self._seeds, self._folder = seeds, folder
        folder.mkdir(parents=True, exist_ok=True)
        beside = [*(seeds / name for name in _BESIDE[:-1]), seeds / "plan" / "compiled.json"]
        for path in beside:
            shutil.copy(path, folder)
        self._beside = {path.name: path.read_bytes() for path in beside}

    def run(self, seed: int, kind: str, number: int, steps: list[int]) -> Outcome:
        """Run a case; steps are those of `steps_of` or some of them."""
        content = content_of(self._seeds, seed, kind, number, steps)
        return self.run_content(kind, content, Random(f"doors {seed} {kind} {number}"))

    def run_content(self, kind: str, content: bytes, rng: Random) -> Outcome:
        """Run the commands on the content of a file."""
        file = self._folder / f"mutant{SUFFIXES[kind]}"
        file.write_bytes(content)
        began = time.monotonic()
        try:
            with _limited():
                code = DOORS[kind](file, rng)
            self._require_order(file, content)
            result = Outcome(_OUTCOMES.get(code, f"exit {code}"))
            if code not in _OUTCOMES:
                result = Outcome("untyped", f"exit code {code}")
        except TooLongError as error:
            result = _fault("hang", error)
        except BrokenError as error:
            result = _fault("broken file", error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            result = _fault("untyped", error)
        finally:
            self._tidy()
        return Outcome(result.result, result.signature, result.detail, time.monotonic() - began)

    def _require_order(self, file: Path, content: bytes) -> None:
        if file.read_bytes() != content:
            raise BrokenError("the input has changed")
        for name, before in self._beside.items():
            if (self._folder / name).read_bytes() != before:
                raise BrokenError(f"{name} has changed")
        for path in self._folder.iterdir():
            if not path.name.startswith(("out.", "mutant.")) and path.name not in self._beside:
                raise BrokenError(f"{path.name} was left over")

    def _tidy(self) -> None:
        for path in self._folder.iterdir():
            if path.name not in self._beside:
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, before in self._beside.items():
            path = self._folder / name
            if not path.is_file() or path.read_bytes() != before:
                path.write_bytes(before)


class _limited:  # noqa: N801  (a context manager, named for how it reads)
    """Raises `TooLongError` in the block after `LIMIT_S` of processor time, again and again if it is held back."""

    def __enter__(self) -> None:
        self._expired = False
        self._frames = ""
        self._previous = signal.signal(signal.SIGPROF, self._expire)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S, 0.5)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._previous)
        if self._expired and kind is not TooLongError:
            raise TooLongError(self._frames)

    def _expire(self, _number: int, frame: FrameType | None) -> None:
        if not self._expired:
            self._frames = "".join(traceback.format_stack(frame, 12)) if frame else ""
        self._expired = True
        raise TooLongError(self._frames)


def _fault(result: str, error: BaseException) -> Outcome:
    """Return a fault, told from others by its type and by where in cimplan it was raised."""
    detail = "".join(traceback.format_exception(error, limit=-25))
    frames = [
        f"{Path(frame.filename).relative_to(Path(frame.filename).parents[1])}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "cimplan" in Path(frame.filename).parts
    ]
    place = frames[-1] if frames else "outside"
    words = str(error)[:60] if isinstance(error, BrokenError) else ""
    return Outcome(result, f"{type(error).__name__} in {place} {words}".strip(), detail[-6000:])


def serve(seeds: Path, folder: Path) -> None:
    """Run the cases that standard input names, one a line, and answer on standard output, one a line."""
    _limit_memory()
    bench = Bench(seeds, folder)
    answers = sys.stdout
    for line in sys.stdin:
        job = json.loads(line)
        outcome = bench.run(job["seed"], job["kind"], job["number"], job["steps"])
        answers.write(json.dumps(outcome.to_json()) + "\n")
        answers.flush()


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
