"""What makes limits and signals hold on the command line, also where Python code has no say.

Three layers, from the gentle to the last resort:

1. Loops call `cimplan.limits.watch`, and keep what they have.
2. The clock raises the same `OutOfTimeError` in the main thread, and SIGTERM the same `KeyboardInterrupt` as Ctrl-C,
   wherever the main thread is in Python code. Solvers run in threads of their own, so that it is.
3. A call into native code that does not come back (ONNX Runtime loads a hundred thousand nodes in seconds during which
   no Python code runs) is ended from outside: a small process watches this one, and where neither the clock nor a
   signal gets an answer it removes unfinished files, says so, and ends this one with exit code 1.

The same process looks at the memory that this one takes. On systems without `fork` the third layer is missing.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from cimplan import files, limits
from cimplan.errors import InputError
from cimplan.units import format_size, parse_size_bytes

PATIENCE_S: Final = 0.6
"""Seconds for Python code to notice the clock or a signal before the process is ended from outside."""

_POLL_S = 0.1
_MEMORY_SLACK = 1.25
"""Part of the memory limit at which allocations fail; the watching process speaks up before, at the limit itself."""
_SLACK_BYTES = 1 << 30
_LEAST_BYTES = 256 * 10**6
_START_OF_PROCESS = 19
"""Field of /proc/self/stat after the name: when the process began, in clock ticks."""

_NEWLINE = 10
_STANDARD_ERROR = 2
_FIRST_OF_TEXT = 32

_active: Guard | None = None


def memory_limit_bytes(text: str | None) -> int | None:
    """Return the memory limit of an option, of the environment, or of this machine; None where nothing limits it.

    Raises
    ------
    InputError
        If it is no size, or too small for anything.
    """
    where = "--memory-limit"
    if text is None and os.environ.get(limits.MEMORY_VARIABLE):
        text, where = os.environ[limits.MEMORY_VARIABLE], limits.MEMORY_VARIABLE
    if text is None:
        return limits.default_memory_bytes()
    if text.strip().lower() == "none":
        return None
    try:
        found = parse_size_bytes(text)
    except InputError as error:
        raise InputError(error.what, where=where, why=error.why, fix=error.fix or "Write a size such as 8GB") from error
    if found < _LEAST_BYTES:
        least = format_size(_LEAST_BYTES)
        raise InputError(
            f"{text} of memory is too little", where=where, why=f"nothing runs in less than {least}", fix="Give more"
        )
    return found


def begin(memory_limit: str | None) -> None:
    """Watch the command that begins now, and limit its memory, if this process is a command line that is guarded.

    Raises
    ------
    InputError
        As `memory_limit_bytes`.
    """
    wanted = memory_limit_bytes(memory_limit)
    if _active is not None:
        _active.begin()
        _active.limit_memory(wanted)


def spent_s() -> float:
    """Return the seconds since this process began, if it is a command line that is guarded: a limit holds from there.

    0 where the system does not tell.
    """
    if _active is None:
        return 0.0
    try:
        facts = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        began = int(facts[_START_OF_PROCESS])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def memory_error() -> limits.MemoryLimitError:
    """Return the error of an input that needs more memory than it may take."""
    known = _active.memory_bytes if _active is not None else None
    limit = f" than the limit of {format_size(known)}" if known else " than there is"
    return limits.MemoryLimitError(
        f"this input needs more memory{limit}",
        fix=f"Raise it with --memory-limit or {limits.MEMORY_VARIABLE} (none: no limit), or take a smaller input",
    )


@contextmanager
def guarding() -> Iterator[None]:
    """Make limits and SIGTERM hold in a block that is the whole program."""
    global _active  # noqa: PLW0603 - there is one command line in a process
    _active = guard = Guard()
    try:
        guard.handle(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        yield
    finally:
        guard.end()
        _active = None


@dataclass
class Guard:
    """The handlers of this process, and the end of the pipe to the one that watches it.

    Attributes
    ----------
    memory_bytes : int or None
        What this process may take.
    """

    memory_bytes: int | None = None
    _pipe: int = -1
    _undo: list[Any] = field(default_factory=list)

    def begin(self) -> None:
        """Install the handlers of clock and memory, and start the process that watches."""
        if not hasattr(signal, "setitimer") or not hasattr(os, "fork"):
            return
        self.handle(signal.SIGALRM, self._time_is_up)
        self.handle(signal.SIGUSR1, self._memory_is_up)
        self._pipe = _start_watcher()
        signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        self._undo += [
            lambda: signal.set_wakeup_fd(-1),
            lambda: signal.setitimer(signal.ITIMER_REAL, 0),
            limits.listen(self._arm),
            files.listen(self._unfinished),
        ]

    def end(self) -> None:
        """Take back all of it."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def limit_memory(self, limit: int | None) -> None:
        """Set what this process may take."""
        self.memory_bytes = limit
        if self._pipe < 0 or limit is None:
            return
        import resource

        self._tell(memory=limit)
        most = int(limit * _MEMORY_SLACK) + _SLACK_BYTES
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        # Private memory that can be written: address space alone would count what threads only reserve.
        if soft == resource.RLIM_INFINITY or soft > most:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_DATA, (most, hard))

    def answer(self) -> None:
        """Tell the watching process that this one is in Python code and has noticed."""
        self._tell(noticed=True)

    def handle(self, number: int, handler: Any) -> None:
        """Install a signal handler for as long as this lasts."""
        previous = signal.signal(number, handler)
        self._undo.append(lambda: signal.signal(number, previous))

    def _arm(self, deadline: limits.Deadline | None) -> None:
        if deadline is None or deadline.clock is not time.monotonic:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._tell(deadline=None)
            return
        signal.setitimer(signal.ITIMER_REAL, max(deadline.left_s(), 1e-3))
        self._tell(deadline=deadline.at, limit_s=deadline.limit_s)

    def _unfinished(self, path: Path, there: bool) -> None:
        self._tell(**{"made" if there else "gone": str(path)})

    def _time_is_up(self, _number: int, _frame: FrameType | None) -> None:
        self.answer()
        limits.watch()

    def _memory_is_up(self, _number: int, _frame: FrameType | None) -> None:
        self.answer()
        raise MemoryError

    def _tell(self, **message: object) -> None:
        if self._pipe >= 0:
            with suppress(OSError, ValueError):  # nobody listens any more, or a pipe full of messages
                os.write(self._pipe, json.dumps(message).encode() + b"\n")


def answer() -> None:
    """Tell the watching process, if there is one, that a signal has been noticed."""
    if _active is not None:
        _active.answer()


# --- the process that watches ------------------------------------------------------------------------------------


def _start_watcher() -> int:
    """Start the process that watches this one, and return the pipe to it; -1 if that is not possible."""
    listening, telling = os.pipe()
    try:
        with warnings.catch_warnings():
            # The child calls nothing that a thread of this process could hold a lock of.
            warnings.simplefilter("ignore", DeprecationWarning)
            parent, child = os.getpid(), os.fork()
    except OSError:
        os.close(listening)
        os.close(telling)
        return -1
    if child == 0:
        try:
            os.close(telling)
            _Watcher(listening, parent).run()
        finally:
            os._exit(0)
    os.close(listening)
    os.set_blocking(telling, False)
    _end_on(signal.SIGHUP)
    return telling


def _end_on(number: signal.Signals) -> None:
    """Let a signal end this process at once, whatever code it is in, with the signal's number as exit code.

    Python's own handlers wait for native code to come back; this one is the C library's `_exit`. The number of SIGHUP
    is 1, the exit code of a question that has no answer.
    """
    if signal.getsignal(number) is not signal.SIG_DFL:
        return  # as with nohup
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.signal.restype = ctypes.c_void_p
        library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        library.signal(int(number), ctypes.cast(library._exit, ctypes.c_void_p))


class _Watcher:
    """Waits for a sign of life after the clock or a signal; runs in a process of its own, and imports nothing there."""

    def __init__(self, pipe: int, parent: int) -> None:
        self._pipe, self._parent = pipe, parent
        self._rest = b""
        self._deadline: float | None = None
        self._limit_s = 0.0
        self._memory: int | None = None
        self._files: dict[str, None] = {}
        self._asked = False
        self._answered = False
        self._asked_memory: float | None = None
        self._waited_s = 0.0
        self._looked = time.monotonic()

    def run(self) -> None:
        """Watch until the other process ends, which closes the pipe."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        for stream in (0, 1):
            with suppress(OSError):
                os.close(stream)
        while self._listen(self._wait_s()):
            now = time.monotonic()
            late = self._deadline is not None and now > self._deadline
            # Where the machine stood still, the other process had no time to answer either: not all of it counts.
            passed_s = min(now - self._looked, _POLL_S)
            self._looked = now
            self._waited_s = self._waited_s + passed_s if late or self._asked else 0.0
            if self._waited_s > PATIENCE_S and self._asked:
                self._end("interrupted; what was running did not stop by itself and was ended")
            if self._waited_s > PATIENCE_S:
                self._end(
                    str(limits.time_limit_error(self._limit_s))
                    + " What was running did not stop by itself and was ended."
                )
            self._look_at_memory(now)

    def _wait_s(self) -> float | None:
        if self._memory is not None or self._asked:
            return _POLL_S
        return None if self._deadline is None else max(_POLL_S, self._deadline - time.monotonic())

    def _listen(self, timeout: float | None) -> bool:
        """Take in messages; return whether there will be more."""
        ready, _, _ = select.select([self._pipe], [], [], timeout)
        if not ready:
            return True
        content = os.read(self._pipe, 1 << 16)
        if not content:
            return False
        # The interpreter writes the number of every signal into the same pipe: a byte that JSON text does not hold,
        # but for SIGUSR1, which looks like an empty line.
        if not self._answered and (signal.SIGINT in content or signal.SIGTERM in content):
            self._asked = True
        text = bytes(byte for byte in content if byte >= _FIRST_OF_TEXT or byte == _NEWLINE)
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in filter(None, lines):
            self._take(json.loads(line))
        return True

    def _take(self, message: dict[str, Any]) -> None:
        if "deadline" in message:
            self._deadline, self._limit_s = message["deadline"], message.get("limit_s", 0.0)
        if "memory" in message:
            self._memory = message["memory"]
        if "made" in message:
            self._files[message["made"]] = None
        if "gone" in message:
            self._files.pop(message["gone"], None)
        if "noticed" in message:
            # Python code is winding up, and will end by itself.
            self._asked, self._deadline, self._answered = False, None, True

    def _look_at_memory(self, now: float) -> None:
        if self._memory is None:
            return
        taken = _resident_bytes(self._parent)
        if taken <= self._memory:
            return
        if self._asked_memory is None:
            self._asked_memory = now
            os.kill(self._parent, signal.SIGUSR1)
        elif now > self._asked_memory + PATIENCE_S or taken > self._memory * _MEMORY_SLACK:
            self._end(
                f"this input needs more memory than the limit of {format_size(self._memory)}. "
                f"Raise it with --memory-limit or {limits.MEMORY_VARIABLE}, or take a smaller input."
            )

    def _end(self, why: str) -> NoReturn:
        """End the other process: remove what it has not finished, and say why."""
        os.kill(self._parent, signal.SIGSTOP)  # it must not go on writing what is removed
        for name in self._files:
            _remove(Path(name))
        with suppress(OSError):
            os.write(_STANDARD_ERROR, f"cimplan: {why}\n".encode(errors="backslashreplace"))
        os.kill(self._parent, signal.SIGHUP)
        os.kill(self._parent, signal.SIGCONT)
        # Under nohup, or where the C library could not be asked.
        if select.select([self._pipe], [], [], 1.0)[0] and os.read(self._pipe, 1 << 16) == b"":
            os._exit(0)
        os.kill(self._parent, signal.SIGKILL)
        os._exit(0)


def _resident_bytes(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _remove(path: Path) -> None:
    import shutil

    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
