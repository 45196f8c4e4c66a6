"""Where tasks run: processes on this machine, or workers of an existing Dask cluster. No queue of our own."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for_sentinel
from typing import Any, Protocol, TypeVar

from cimplan.errors import InputError

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
            try:
                yield task, function(task)
            except Exception as error:  # one failing task is data, not the end of the sweep
                yield task, error


def _leave_with_parent() -> None:
    """End a worker when its parent is gone, however it went, so that no orphan keeps a core busy."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_for_sentinel([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class LocalEngine:
    """Runs tasks in processes of this machine.

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
        """Run tasks; one that kills its process is tried once more alone, then reported as an error."""
        pending = iter(tasks)
        suspects: list[Task] = []
        pool = self._pool(self.workers)
        try:
            running: dict[Future[Result], Task] = {}
            while True:
                # A short queue keeps workers busy without holding the whole sweep in memory.
                for task in islice(pending, 2 * self.workers - len(running)):
                    running[pool.submit(function, task)] = task
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                    # Which task killed its process is not known: all that were under way are tried alone.
                    wait(running)
                    finished = [(task, future) for future, task in running.items() if future.exception() is None]
                    suspects += [task for future, task in running.items() if future.exception() is not None]
                    running.clear()
                    pool.shutdown(wait=False, cancel_futures=True)
                    pool = self._pool(self.workers)
                    yield from ((task, future.result()) for task, future in finished)
                    continue
                for ended in done:
                    task = running.pop(ended)
                    yield task, _outcome(ended)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        for task in suspects:
            with self._pool(1) as alone:
                retried = alone.submit(function, task)
                wait([retried])
                yield task, _outcome(retried)

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        # Fresh interpreters: a fork would copy the threads' locks of the libraries that are loaded here.
        return ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_with_parent
        )


def _outcome(future: Future[Any]) -> Any:
    error = future.exception()
    if error is None:
        return future.result()
    return error


class DaskEngine:
    """Runs tasks on an existing Dask cluster; a task whose worker dies is run again by Dask.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``tcp://host:8786``.

    Raises
    ------
    InputError
        If `distributed` is not installed or no scheduler answers.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise InputError(
                "a Dask cluster needs the extra dask", fix="pip install 'cimplan[dask]', on the workers too"
            ) from error
        try:
            client: Any = distributed.Client
            self._client: Any = client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                "no Dask scheduler answers", where=address, why=str(error), fix="Start one, or check the address"
            ) from error

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()

    def run(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | BaseException]]:
        """Run tasks, a bounded number at a time."""
        import distributed

        pending = iter(tasks)
        running: dict[str, Task] = {}
        ahead = 4 * max(1, sum(self._client.nthreads().values()))
        as_completed: Any = distributed.as_completed
        completed = as_completed()

        def submit(task: Task) -> None:
            future = self._client.submit(function, task, pure=False)
            running[future.key] = task
            completed.add(future)

        for task in islice(pending, ahead):
            submit(task)
        while running:
            future = next(completed)
            task = running.pop(future.key)
            error = future.exception()
            result: Result | BaseException = future.result() if error is None else error
            for following in islice(pending, 1):
                submit(following)
            yield task, result


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
