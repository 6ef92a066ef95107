"""Engines for a sweep's tasks: this computer, or a Ray cluster. Results are the same."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from equipoise._native import BUILD, SimulationError, Stop
from equipoise.errors import bad_input, jobs_of, require

Task = TypeVar("Task")

# The number of tasks given out per thread at a time, so that no thread waits.
_AHEAD = 2
# The time in s for which one batch should keep a cluster's worker busy. Ray's own cost per batch is some 10 ms of CPU
# time, which is 2 % of this time, and the loss of a node loses little work.
_BATCH_S = 0.5


class Engine(Protocol):
    """Executes tasks, in any order."""

    def run(self, work: Callable[[Any, Stop], Any], tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yields each finished task with its result of `work(task, stop)`. Closing the iterator stops the work."""
        ...


@dataclass(frozen=True)
class Local:
    """This computer, with `jobs` tasks at a time (0: the number of CPUs).

    Tasks run in threads, not processes: a simulation does not hold the interpreter's lock, and no data is copied.
    """

    jobs: int = 0

    def run(self, work: Callable[[Any, Stop], Any], tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        jobs = jobs_of(self.jobs) or len(os.sched_getaffinity(0))
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
    """A Ray cluster: the cluster to which this process is connected, or otherwise the cluster at `address` (None: a new
    local cluster).

    A worker gets as many tasks at a time as keep it busy for half a second, judging by earlier tasks, and returns the
    tasks that it does not reach. If a worker or node is lost, its tasks are given out again, at most `retries` times.
    """

    address: str | None = None
    retries: int = 10
    # The number of tasks that were given out again.
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
        # Each task, with the number of times that it was lost.
        left = deque((task, 0) for task in tasks)
        pending: dict[Any, list[tuple[Task, int]]] = {}
        pace = _Pace()
        try:
            while left or pending:
                # Give out one batch per CPU and none ahead, because nodes would pass requests for
                # busy CPUs back and forth, which costs more than a worker's wait for its next
                # batch.
                width = max(1, int(ray.cluster_resources().get("CPU", 1)))
                while left and len(pending) < width:
                    batch = [left.popleft() for _ in range(pace.batch(len(left), width))]
                    pending[remote.remote(work, [task for task, _ in batch])] = batch
                done, _ = ray.wait(list(pending), num_returns=1)
                batch = pending.pop(done[0])
                try:
                    build, results, took, error = ray.get(done[0])
                except ray.exceptions.RayTaskError as error:
                    raise error.cause if isinstance(error.cause, Exception) else error from None
                except lost as error:
                    if max(tries for _, tries in batch) >= self.retries:
                        raise SimulationError(f"a task was lost {self.retries + 1} times: {error}") from error
                    left.extendleft((task, tries + 1) for task, tries in reversed(batch))
                    self.repeated += len(batch)
                    continue
                if build != BUILD:
                    raise SimulationError(f"a worker has equipoise {build}, but this process has {BUILD}")
                if results:
                    pace.took(len(results), took)
                left.extendleft(reversed(batch[len(results) :]))
                for (task, _), result in zip(batch, results):
                    yield task, result
                if error is not None:
                    raise error
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


@dataclass
class _Pace:
    """The number of tasks to give to a worker at a time."""

    # The recent time of a task in s; None until a task has finished.
    seconds: float | None = None

    def batch(self, left: int, width: int) -> int:
        """The size of a batch, given the numbers of remaining tasks and of workers, each of which should get some
        tasks."""
        if self.seconds is None:
            return 1
        fair = -(-left // (2 * width))
        return max(1, min(fair, int(_BATCH_S / max(self.seconds, 1e-6))))

    def took(self, tasks: int, seconds: float) -> None:
        """Records the time that some tasks took."""
        each = seconds / tasks
        self.seconds = each if self.seconds is None else (self.seconds + each) / 2


def _remote(work: Callable[[Any, Stop], Any], tasks: list[Any]) -> tuple[str, list[Any], float, Exception | None]:
    """Runs tasks in a Ray worker, which finds this module in its own installation, until the time is over or a task
    fails. Returns the worker's build, the results of the finished tasks (at least one, unless the first fails), the
    time in s, and the exception of a failed task."""
    results: list[Any] = []
    begun = time.monotonic()
    failed = None
    for task in tasks:
        try:
            results.append(work(task, Stop()))
        except Exception as error:  # any exception belongs to the caller
            failed = error
            break
        if time.monotonic() - begun > 2 * _BATCH_S:
            break
    return BUILD, results, time.monotonic() - begun, failed


def _ray() -> Any:
    require("Ray", "ray")
    import ray
    import ray.exceptions

    return ray


def as_engine(engine: Engine | str, jobs: int) -> Engine:
    """The engine for `"local"` or `"ray"`."""
    match engine:
        case "local":
            return Local(jobs)
        case "ray":
            return Ray()
        case str():
            expected = "expected 'local', 'ray', or one of equipoise.Local and equipoise.Ray"
            raise bad_input(f"engine is {engine!r}", expected, engine, ("local", "ray"))
        case _ if isinstance(engine, type) or not hasattr(engine, "run"):
            raise bad_input(f"engine is {engine!r}", "expected 'local', 'ray', or an object such as equipoise.Local(2)")
        case _:
            return engine
