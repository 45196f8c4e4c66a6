"""Where tasks run: processes on this machine, or workers of an existing Dask cluster. No queue of our own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Protocol, TypeVar

from cimplan.errors import InputError, InternalError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs a function on many tasks and hands back each as it ends."""

    def run(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | BaseException]]:
        """Yield (task, result or error) in the order in which tasks end; each task once."""
        ...


class SerialEngine:
    """Runs tasks in this process, one after another."""

    def run(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | BaseException]]:
        """Run tasks in order."""
        for task in tasks:
            outcome: Result | BaseException
            try:
                outcome = function(task)
            except Exception as error:  # one failing task is data, not the end of the sweep
                outcome = error
            yield task, outcome


class LocalEngine:
    """Runs tasks in processes of this machine, which end with this process, however it ends.

    Parameters
    ----------
    workers : int, optional
        Processes; one per usable core if left out.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _usable_cores()

    def run(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | BaseException]]:
        """Run tasks; one that may have killed its process is tried once more alone, then reported as an error.

        Raises
        ------
        InputError
            If no process can be started.
        """
        pending = iter(tasks)
        suspects: list[Task] = []
        broken = True
        while broken:
            with _pool(self.workers) as pool:
                _require_workers(pool)
                broken = yield from self._until_broken(pool, function, pending, suspects)
        for task in suspects:
            with _pool(1) as pool:
                future = pool.submit(function, task)
                yield task, _outcome(future)

    def _until_broken(
        self,
        pool: ProcessPoolExecutor,
        function: Callable[[Task], Result],
        pending: Iterator[Task],
        suspects: list[Task],
    ) -> Generator[tuple[Task, Result | BaseException], None, bool]:
        """Run tasks until none is left; return whether the pool has lost a process before.

        Which task killed its process is not known: all that were under way are suspects.
        """
        running: dict[Future[Result], Task] = {}
        broken = False
        while True:
            # A short queue keeps workers busy without holding the whole sweep in memory.
            for task in islice(pending, 0 if broken else 2 * self.workers - len(running)):
                try:
                    running[pool.submit(function, task)] = task
                except BrokenProcessPool:
                    suspects.append(task)
                    broken = True
                    break
            if not running:
                return broken
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    suspects.append(task)
                    broken = True
                else:
                    yield task, _outcome(future)


def _outcome(future: Future[Any]) -> Any:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return InternalError(
            "the process that computed this ended without an answer",
            why="it crashed, or the system killed it, as when memory runs out",
            fix="Try again with --retry-failed and fewer --workers",
        )
    return future.result() if error is None else error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes that end at once if the block does not end well."""
    # Fresh interpreters: a fork would copy the threads' locks of the libraries that are loaded here.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_with_parent, initargs=(receiver,))
    try:
        yield pool
    except BaseException:
        sender.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        sender.close()
        receiver.close()


def _leave_with_parent(lifeline: Connection) -> None:
    """End this process as soon as the other end of a pipe is closed, which the system does even after SIGKILL."""
    # Ctrl-C reaches the whole group; what happens then is for the parent to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait_for_any([lifeline])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _require_workers(pool: ProcessPoolExecutor) -> None:
    try:
        pool.submit(os.getpid).result()
    except BrokenProcessPool as error:
        raise InputError(
            "no process can be started to compute in",
            why="a new interpreter ended at once",
            fix="In a script, guard what it runs by `if __name__ == '__main__':`",
        ) from error


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
