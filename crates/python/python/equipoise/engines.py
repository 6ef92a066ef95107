"""Who does a sweep's tasks: this computer, or a Ray cluster. Results are the same."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from equipoise._native import SimulationError, Stop
from equipoise.errors import bad_input, whole

Task = TypeVar("Task")

#: So many tasks for each worker are given out at a time: none waits, and little is lost.
_AHEAD = 2


class Engine(Protocol):
    """Does tasks, in any order."""

    def run(self, work: Callable[[Any, Stop], Any], tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Each task with what `work(task, stop)` returns, as they are done. Whoever stops asking stops it."""
        ...


@dataclass(frozen=True)
class Local:
    """This computer: `jobs` tasks at a time (0: as many as there are CPUs).

    They are threads, not processes: a simulation holds no lock of the interpreter's, so nothing is copied to and fro.
    """

    jobs: int = 0

    def run(self, work: Callable[[Any, Stop], Any], tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        jobs = whole("jobs", self.jobs, 0) or len(os.sched_getaffinity(0))
        stop, left = Stop(), iter(tasks)
        pending: dict[Future[Any], Task] = {}
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="equipoise")
        try:
            while True:
                for task in itertools.islice(left, _AHEAD * jobs - len(pending)):
                    pending[pool.submit(work, task, stop)] = task
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(future), future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


@dataclass
class Ray:
    """A Ray cluster: the one that this process is connected to, else the one at `address` (None: a new one here).

    A task whose worker or node is lost is given out once more, at most `retries` times.
    """

    address: str | None = None
    retries: int = 10
    #: How many tasks were given out once more.
    repeated: int = field(default=0, init=False)

    def run(self, work: Callable[[Any, Stop], Any], tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        ray = _ray()
        lost = (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.ObjectFetchTimedOutError,
            ray.exceptions.LocalRayletDiedError,
        )
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False)
        remote = ray.remote(num_cpus=1, max_retries=0)(_remote)
        left = iter(tasks)
        pending: dict[Any, tuple[Task, int]] = {}
        try:
            while True:
                width = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
                for task in itertools.islice(left, max(0, width - len(pending))):
                    pending[remote.remote(work, task)] = (task, 0)
                if not pending:
                    return
                done, _ = ray.wait(list(pending), num_returns=1)
                for reference in done:
                    task, tries = pending.pop(reference)
                    try:
                        result = ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause if isinstance(error.cause, Exception) else error from None
                    except lost as error:
                        if tries >= self.retries:
                            raise SimulationError(f"a task was lost {tries + 1} times: {error}") from error
                        pending[remote.remote(work, task)] = (task, tries + 1)
                        self.repeated += 1
                        continue
                    yield task, result
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


def _remote(work: Callable[[Any, Stop], Any], task: Any) -> Any:
    """What a Ray worker does, which finds this module in its own installation."""
    return work(task, Stop())


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("ray is not installed; expected `pip install 'equipoise[ray]'`") from error
    return ray


def as_engine(engine: Engine | str, jobs: int) -> Engine:
    """The engine that is meant by `"local"` or `"ray"`."""
    match engine:
        case "local":
            return Local(jobs)
        case "ray":
            return Ray()
        case str():
            raise bad_input(
                f"engine is {engine!r}", "expected 'local', 'ray', or one of equipoise.Local and equipoise.Ray"
            )
        case _:
            return engine
