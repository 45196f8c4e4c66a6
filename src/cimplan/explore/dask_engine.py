"""Tasks on the workers of an existing Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import islice
from typing import Any

from cimplan import __version__
from cimplan.errors import InputError
from cimplan.explore.engine import Result, Task

_FIRST_WORKER_S = 30


class DaskEngine:
    """Runs tasks on an existing Dask cluster; a task whose worker dies is run again by Dask.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``tcp://host:8786``.

    Raises
    ------
    InputError
        If `distributed` is not installed, no scheduler answers, there are no workers, or one of them has not the
        same cimplan.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise InputError(
                "a Dask cluster needs the extra dask", fix="pip install 'cimplan[dask]', on the workers too"
            ) from error
        self._address = address
        self._levels: dict[str, int] = {}
        _require_address(address)
        client: Any = distributed.Client
        try:
            self._client: Any = client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                "no Dask scheduler answers",
                where=address,
                why=" ".join(str(error).split()),
                fix="Start one (`dask scheduler`), or check the address",
            ) from error
        self._hush()
        try:
            self._require_workers()
        except BaseException:
            self.close()
            raise

    def _require_workers(self) -> None:
        """Refuse workers without the cimplan that runs here: they would give other results, or none."""
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
        except TimeoutError as error:
            raise InputError(
                "the Dask cluster has no workers", where=self._address, fix=f"Start some: `dask worker {self._address}`"
            ) from error
        found = self._client.run(version, "cimplan", on_error="return")
        for worker, theirs in sorted(found.items()):
            if theirs != __version__:
                has = "no cimplan" if isinstance(theirs, ImportError) else f"cimplan {theirs}"
                raise InputError(
                    "a Dask worker cannot take part",
                    where=str(worker),
                    why=f"it has {has}, and cimplan {__version__} runs here",
                    fix=f"pip install 'cimplan[dask]=={__version__}' on the workers",
                )

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def _hush(self) -> None:
        """Keep the logs of the client from the user: what they say of a lost worker or scheduler, errors say too."""
        names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
        for name in (*names, "asyncio", "tornado.application"):
            self._levels[name] = logging.getLogger(name).level
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    def run(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | BaseException]]:
        """Run tasks, a bounded number at a time.

        Raises
        ------
        InputError
            If the cluster is lost, or a worker that came later has not cimplan.
        """
        import distributed

        pending = iter(tasks)
        running: dict[Any, Task] = {}
        as_completed: Any = distributed.as_completed
        completed = as_completed(loop=self._client.loop)

        def submit(count: int) -> None:
            for task in islice(pending, count):
                future = self._client.submit(function, task, pure=False)
                running[future] = task
                completed.add(future)

        try:
            submit(4 * max(1, sum(self._client.nthreads().values())))
            while running:
                future = next(completed)
                task = running.pop(future)
                if future.cancelled():
                    raise self._lost()
                error = future.exception()
                if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "cimplan":
                    raise InputError(
                        "a Dask worker has no cimplan",
                        where=self._address,
                        fix=f"pip install 'cimplan[dask]=={__version__}' on the workers",
                    )
                submit(1)
                yield task, future.result() if error is None else error
        except (OSError, distributed.CancelledError) as error:
            raise self._lost() from error
        finally:
            # Whatever ended this: the cluster is not to go on with work that nobody waits for.
            if running and self._client.status == "running":
                self._client.cancel(list(running))

    def _lost(self) -> InputError:
        # Connections that were under way come to their end later, each with a traceback in the log.
        self._levels.clear()
        return InputError(
            "the Dask cluster is lost",
            where=self._address,
            why="its scheduler does not answer any more",
            fix="Start it again and run the same command: what was computed is kept",
        )


def _require_address(address: str) -> None:
    """Refuse what is no address before a client is made, which would try it until its time is up."""
    from distributed.comm.addressing import parse_address
    from distributed.comm.registry import get_backend

    try:
        scheme, place = parse_address(address)
        get_backend(scheme)
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(
            f"{address!r} is not the address of a Dask scheduler",
            why=" ".join(str(error).split()),
            fix="Write it like tcp://host:8786",
        ) from error
    if not place:
        raise InputError(f"{address!r} is not the address of a Dask scheduler", fix="Write it like tcp://host:8786")
