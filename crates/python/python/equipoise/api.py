"""`simulate()`, `compare()` and `trace()` for one machine and one load, and `reproduce()` for published tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise import _native
from equipoise._native import Machine, Policy, Table, Workload
from equipoise.errors import bad_input, jobs_of, runs_of, seed_of, stoppable, whole

#: A machine, its name, or the path of a machine file.
MachineLike = Machine | str | os.PathLike[str]
#: A workload, its name with parameters (`"hackbench:groups=2"`), the path of an rt-app file, or an rt-app dict.
WorkloadLike = Workload | str | os.PathLike[str] | Mapping[str, Any]
#: A policy, its name with settings (`"capacity:misfit=false"`), or the path of a policy file or of a scheduler in C.
PolicyLike = Policy | str | os.PathLike[str]
#: A function that is called about twenty times a second with the number of finished runs.
Progress = Callable[[int], object]


def as_machine(machine: MachineLike) -> Machine:
    """The machine for an argument that may be a name or a path."""
    return machine if isinstance(machine, Machine) else Machine(os.fspath(machine))


def as_workload(workload: WorkloadLike) -> Workload:
    """The workload for an argument that may be a name, a path or a dict."""
    if isinstance(workload, Workload):
        return workload
    if isinstance(workload, Mapping):
        return Workload.from_rt_app(dict(workload))
    return Workload(os.fspath(workload))


def as_policy(policy: PolicyLike) -> Policy:
    """The policy for an argument that may be a name or a path."""
    if isinstance(policy, Policy):
        return policy
    name = os.fspath(policy)
    return Policy.from_c(name) if name.endswith(".c") else Policy(name)


def several(value: Any) -> list[Any]:
    """The items of an argument that may also be a single item."""
    one = isinstance(value, (str, os.PathLike, Mapping)) or not isinstance(value, Iterable)
    return [value] if one else list(value)


@dataclass(frozen=True)
class Trace:
    """The events of one run, as columns. Times are in ns since the run began (int64)."""

    #: All events in time order, with a column for each field; fields that an event does not have are null. The columns
    #: are `time_ns`, `event`, `cpu`; `comm`, `pid`, `prio` of the event's task (of the next task in a switch, of the
    #: child in a fork); `other_*` of the other task (the previous task, the parent); `prev_state`; `orig_cpu`,
    #: `dest_cpu`; `state` of cpu_idle and cpu_frequency (kHz).
    events: Table
    #: Load tracking as in Linux (PELT), where 1024 is a full CPU: `util`, `runnable`, `load` of a task. A pid of -1
    #: stands for a CPU's fair tasks, -2 for its real-time tasks, -3 for its deadline tasks.
    utilization: Table
    #: The power of a part of the machine from `time_ns` on (`power_mw`), or the energy of an instantaneous event
    #: (`energy_pj`); empty for machines without power data.
    energy: Table
    #: A row for each thread: `ran_ns`, `switches`, `preemptions`, `wakeups`, `migrations`, and the
    #: latency from a wakeup to running: `latency_mean_us`, `_p50_`, `_p95_`, `_p99_`, `_max_`.
    threads: Table
    #: A row for each thread and CPU: `ran_ns`.
    cpu_time: Table

    def _repr_html_(self) -> str:
        return self.threads._repr_html_()

    def event(self, name: str) -> Table:
        """The events called `name`, such as `sched_switch`, with the fields of the kernel's tracepoint, as in LISA's
        `df_event()`. Raises `BadInput` for an unknown name."""
        return _native.select_events(self.events, name)


@dataclass(frozen=True)
class Simulation:
    """The runs of one policy."""

    machine: Machine
    workload: Workload
    policy: Policy
    #: The seed from which the runs' seeds derive.
    seed: int
    #: Were the runs without noise?
    exact: bool
    #: The number of runs.
    count: int
    #: A row for each run and metric: `machine`, `workload`, `policy`, `run`, `seed`, `metric`, `unit`, `better`,
    #: `goal`, `judged`, `decides`, `part`, `n` (the number of samples), and their `mean`, `min`, `max`, `p50`, `p95`,
    #: `p99`, `p999` (null without samples).
    runs: Table
    #: A row for each run: `simulated_s`, `energy_j` (null without power data), the kernel's counts,
    #: and the counts of Equipoise's own schedulers as `scheduler_*`.
    counters: Table

    def _repr_html_(self) -> str:
        return self.runs._repr_html_()

    def trace(self, run: int = 0, *, utilization: bool = True) -> Trace:
        """The events of run number `run`, which is simulated once more. `utilization=False` saves half of the
        memory."""
        return _trace(self.machine, self.workload, self.policy, run, self.count, self.seed, self.exact, utilization)


@dataclass(frozen=True)
class Comparison:
    """A comparison of policies. `print()` shows the command's output."""

    machine: Machine
    workload: Workload
    #: The policies; the first one is the baseline.
    policies: list[Policy]
    #: The seed from which the runs' seeds derive.
    seed: int
    #: Were the runs without noise?
    exact: bool
    #: The number of runs of each policy.
    count: int
    #: A row for each policy, run and metric, with the columns of `Simulation.runs`.
    runs: Table
    #: A row for each policy and run, with the columns of `Simulation.counters`.
    counters: Table
    #: A row for each metric and policy, over all runs: `mean` to `p999`; `change_pct` of the `judged` value against the
    #: first policy, and `change_margin_pct`, half its 95 % confidence interval; `best`; `limit`, the best possible
    #: value.
    results: Table
    #: A row for each goal and policy: `best`, `worst`, `change_pct`, `change_margin_pct`, `share_pct`, `lacks`.
    verdict: Table
    #: The command's table.
    text: str = field(repr=False)
    #: The command's page.
    html: str = field(repr=False)
    #: The command's JSON (schema 2).
    json: str = field(repr=False)
    #: The text as a part of an HTML page.
    fragment: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.fragment

    def trace(self, policy: str | int = 0, run: int = 0, *, utilization: bool = True) -> Trace:
        """The events of a run under one of the policies, by name or index."""
        names = [one.name for one in self.policies]
        if policy not in (range(len(names)) if isinstance(policy, int) else names):
            expected = f"expected {', '.join(names)}, or an index below {len(names)}"
            raise bad_input(f"no policy of the comparison is {policy!r}", expected, str(policy), names)
        chosen = self.policies[policy if isinstance(policy, int) else names.index(policy)]
        return _trace(self.machine, self.workload, chosen, run, self.count, self.seed, self.exact, utilization)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Reproduction:
    """A published table, and its simulated results. `print()` shows the command's output."""

    name: str
    #: A row for each cell: `block`, `row`, `column`, `published`, `simulated`, `error_pct` or `error_points`, ...
    cells: Table
    #: `mean_abs_error_pct`, `mean_abs_error_pct_of_all`, `sign_agreement_pct`, `mean_abs_error_points`,
    #: `max_abs_error_points`; each is None if the table has no such cells.
    summary: dict[str, float | None]
    #: The command's table.
    text: str = field(repr=False)
    #: The command's JSON (schema 2).
    json: str = field(repr=False)
    #: The text as a part of an HTML page.
    fragment: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.fragment

    def __str__(self) -> str:
        return self.text


def simulate(
    machine: MachineLike,
    workload: WorkloadLike,
    policy: PolicyLike = "eevdf",
    *,
    runs: int = 20,
    seed: int = 1,
    exact: bool = False,
    jobs: int = 0,
    progress: Progress | None = None,
) -> Simulation:
    """Runs `workload` on `machine` under `policy`, `runs` times.

    The same arguments give the same tables, whatever the value of `jobs`, the number of simulations at a time (0: the
    number of CPUs). Run i has the same seed under every policy, and the noise of a real machine unless `exact`. Other
    Python threads run meanwhile, and Ctrl-C stops the simulation.

    Raises `BadInput` for arguments that are malformed or do not fit together, and `SimulationError` if a run fails.
    """
    one, load, scheduler = as_machine(machine), as_workload(workload), as_policy(policy)
    args = (one, load, scheduler, runs_of(runs), seed_of(seed), exact, jobs_of(jobs))
    with stoppable():
        tables = _native.simulate(*args, None, progress)
    return Simulation(one, load, scheduler, seed, exact, runs, *tables)


def compare(
    machine: MachineLike,
    workload: WorkloadLike,
    policies: Iterable[PolicyLike] | PolicyLike | None = None,
    *,
    runs: int = 20,
    seed: int = 1,
    exact: bool = False,
    jobs: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Runs `workload` on `machine` under each of `policies` (None: `Policy.usual()`).

    A difference counts only if the 95 % confidence interval over runs paired by seed excludes zero and the difference
    is 1 % or more. Otherwise the function is like `simulate()`.
    """
    one, load = as_machine(machine), as_workload(workload)
    schedulers = [as_policy(policy) for policy in several(Policy.usual() if policies is None else policies)]
    sources: dict[str, object] = {}
    for scheduler in schedulers:
        # Rows of different policies would look alike.
        if sources.setdefault(scheduler.name, scheduler._source()) != scheduler._source():
            message = f"two different policies are called `{scheduler.name}`"
            raise bad_input(message, "expected different names; Policy.named() renames a policy")
    args = (one, load, schedulers, runs_of(runs), seed_of(seed), exact, jobs_of(jobs))
    with stoppable():
        parts = _native.compare(*args, None, progress)
    return Comparison(one, load, schedulers, seed, exact, runs, **parts)


def trace(
    machine: MachineLike,
    workload: WorkloadLike,
    policy: PolicyLike = "eevdf",
    *,
    seed: int = 1,
    exact: bool = False,
    utilization: bool = True,
) -> Trace:
    """The events of the run of `simulate(..., runs=1)` with the same arguments."""
    return _trace(as_machine(machine), as_workload(workload), as_policy(policy), 0, 1, seed_of(seed), exact, utilization)


def _trace(
    machine: Machine, workload: Workload, policy: Policy, run: int, runs: int, seed: int, exact: bool, utilization: bool
) -> Trace:
    args = (machine, workload, policy, whole("run", run, 0), runs, seed, exact, utilization)
    with stoppable():
        return Trace(**_native.trace(*args))


def experiments() -> list[str]:
    """The names that `reproduce()` takes."""
    return _native.experiments()


def reproduce(
    experiment: str | os.PathLike[str],
    *,
    runs: int | None = None,
    seed: int = 1,
    rows: str | None = None,
    scale: int | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
) -> Reproduction:
    """Runs a published experiment, given by name or file; returns its table and the simulated results.

    Makes `runs` runs of each cell (None: the experiment's number) in the rows that match the pattern `rows`
    (`"sysbench_*"`). `scale` divides the work of workloads that can be shortened.
    """
    name = os.fspath(experiment)
    count = None if runs is None else runs_of(runs)
    part = None if scale is None else whole("scale", scale, 1, 100)
    with stoppable():
        parts = _native.reproduce(name, count, seed_of(seed), rows, part, jobs_of(jobs), None, progress)
    return Reproduction(name, **parts)
