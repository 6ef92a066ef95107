"""The simulated kernel and its input. Users import its parts from `equipoise`."""

import os
from collections.abc import Callable
from typing import Any, Self

import pandas
import polars
import pyarrow

BUILD: str

class BadInput(ValueError):
    """Wrong input: a name, a value, or a file."""

    #: The error, with file and line.
    message: str
    #: The expected input.
    expected: str
    #: The file, if the error is in one.
    file: str | None
    #: The line, from 1.
    line: int | None

class SimulationError(RuntimeError):
    """A run failed, for example because the scheduler was ejected, as by sched_ext, or no task can ever run again."""

class Table:
    """Columns of equal length, by name (Arrow). Texts are dictionaries: a categorical in pandas.

    Libraries that accept Arrow take the table directly: `pandas.DataFrame.from_arrow(table)`,
    `polars.DataFrame(table)`, `pyarrow.table(table)`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
    def _repr_html_(self) -> str:
        """The output in a notebook."""
    def to_pyarrow(self) -> pyarrow.Table:
        """The table as a `pyarrow.Table`, without a copy."""
    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The table as a `pandas.DataFrame`: texts as categoricals, numbers without a copy if none is missing."""
    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`, without a copy."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Machine:
    """A machine to simulate: `Machine("tc2")`, or the path of a machine file (docs/machine-format.md).

    Raises `BadInput` with the file, the line and the expected input.
    """

    def __new__(cls, name: str) -> Self: ...
    @staticmethod
    def from_toml(text: str, file: str = "<machine>") -> Machine:
        """The machine of the text of a machine file; messages name the text `file`."""
    @staticmethod
    def detect(
        *,
        sysfs: str | os.PathLike[str] | None = None,
        hwloc: str | os.PathLike[str] | None = None,
        dtb: str | os.PathLike[str] | None = None,
        name: str = "detected",
    ) -> Machine:
        """This computer, from its `/sys`, or another machine, from a copy of its `/sys`, hwloc's XML or a device tree.

        `warnings` lists the assumptions.
        """
    @staticmethod
    def names() -> list[str]:
        """The names of the machines that come with Equipoise."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """A description in one line."""
    @property
    def warnings(self) -> list[str]:
        """Warnings about the machine file; none of them is an error."""
    @property
    def cpus(self) -> Table:
        """A row for each CPU: `cpu`, `core_type`, `capacity` (nominal: 1024), `cluster`, `node`, `khz` (highest)."""
    @property
    def has_power(self) -> bool:
        """Is the power of the machine's parts known? Only then do runs have energy."""
    def to_toml(self) -> str:
        """The text of the machine file."""
    def __len__(self) -> int:
        """The number of CPUs."""

class Workload:
    """The tasks' behaviour: `Workload("hackbench", groups=2)`, the path of an rt-app file or of a recorded load, or
    several workloads at once, joined by a plus (`"busy+audio"`).

    `parameters` have the command's format (`"10ms"`); `cpunodebind` binds the tasks to NUMA nodes (`"0-3"`). Raises
    `BadInput` with the parameter, or the file and the line, and the expected input.
    """

    def __new__(cls, name: str, *, cpunodebind: str | None = None, **parameters: Any) -> Self: ...
    @staticmethod
    def from_rt_app(
        description: dict[str, Any] | str, name: str = "rt-app", *, cpunodebind: str | None = None, **parameters: Any
    ) -> Workload:
        """The workload of an rt-app description: a dict, or JSON as rt-app reads it (a dict cannot repeat a key)."""
    @staticmethod
    def from_trace(
        trace: str | os.PathLike[str], machine: Machine | None = None, *, name: str | None = None
    ) -> Workload:
        """The load recorded in a trace: a trace.dat, a trace of Perfetto, or the text of ftrace or `perf script`, alone
        or in systrace's page or Chrome's JSON. Work is scaled by the speed of the CPU of `machine` that did it. `notes`
        has remarks on the import."""
    @staticmethod
    def names() -> list[str]:
        """The names of the workloads that come with Equipoise."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """A description in one line."""
    @property
    def notes(self) -> list[str]:
        """Remarks on an imported trace: its size, and its lost events."""
    @property
    def metrics(self) -> Table:
        """A row for each metric of a run: `metric`, `unit`, `better`, `goal`."""
    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that the workload takes, with their defaults."""
    def _source(self) -> tuple[str, tuple[str, str] | None, list[str], str | None]: ...
    @staticmethod
    def _of_source(name: str, text: tuple[str, str] | None, params: list[str], nodes: str | None) -> Workload: ...

class Policy:
    """A scheduler with its settings: `Policy("capacity", misfit=False)`, or the path of a policy file.

    Raises `BadInput` with the file, the line and the expected input.
    """

    def __new__(cls, name: str, **settings: bool | int | str) -> Self: ...
    @staticmethod
    def from_toml(text: str, file: str = "<policy>") -> Policy:
        """The policy of the text of a policy file; messages name the text `file`."""
    @staticmethod
    def from_c(
        *files: str | os.PathLike[str], include: list[str | os.PathLike[str]] | None = None,
        kernel: str | None = None, **settings: int
    ) -> Policy:
        """Any sched_ext scheduler in C, compiled by `$CC` for the simulated `kernel`, "6.12" or "7.3" (the default);
        `settings` are its `const volatile` variables. It runs in a separate process that can only compute."""
    @staticmethod
    def names() -> list[str]:
        """The names of the policies that come with Equipoise."""
    @staticmethod
    def usual() -> list[str]:
        """The names of the policies that `compare()` runs if none is named: today's Linux, and Equipoise's own."""
    def named(self, name: str) -> Policy:
        """The policy under another name."""
    def with_settings(self, **settings: bool | int | str) -> Policy:
        """The policy with other settings, which its name shows."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """A description in one line."""
    @property
    def is_foreign(self) -> bool:
        """Is this a foreign scheduler in C?"""
    @property
    def settings(self) -> dict[str, bool | int | str]:
        """All settings, by name."""
    @property
    def space(self) -> Table:
        """A row for each setting: `setting`, `kind` (number, switch or choice), `value`, `least`, `most`, `choices`,
        `meaning`."""
    def to_toml(self, name: str | None = None, description: str | None = None) -> str:
        """The text of the policy file."""
    def save(self, path: str | os.PathLike[str], name: str | None = None, description: str | None = None) -> None:
        """Writes a policy file for `equipoise` and `scx_equipoise`. Raises OSError."""
    def _source(self) -> tuple[Any, ...]: ...

class Stop:
    def __new__(cls) -> Self: ...
    def set(self) -> None: ...
    def is_set(self) -> bool: ...

_Progress = Callable[[int], object] | None

def work() -> int: ...
def run_uncaged() -> None:
    """Makes schedulers in C run from now on even if this kernel cannot isolate them (it lacks Landlock or seccomp)."""

def experiments() -> list[str]: ...
def margin(values: list[float]) -> float: ...
def simulate(
    machine: Machine,
    workload: Workload,
    policy: Policy,
    runs: int,
    seed: int,
    exact: bool,
    jobs: int,
    stop: Stop | None = None,
    progress: _Progress = None,
) -> tuple[Table, Table]: ...
def measure_part(
    machine: Machine,
    workload: Workload,
    policy: Policy,
    runs: int,
    seed: int,
    exact: bool,
    first: int,
    end: int,
    stop: Stop | None = None,
) -> tuple[Table, Table]: ...
def compare(
    machine: Machine,
    workload: Workload,
    policies: list[Policy],
    runs: int,
    seed: int,
    exact: bool,
    jobs: int,
    stop: Stop | None = None,
    progress: _Progress = None,
) -> dict[str, Any]: ...
def trace(
    machine: Machine,
    workload: Workload,
    policy: Policy,
    run: int,
    runs: int,
    seed: int,
    exact: bool,
    utilization: bool,
    stop: Stop | None = None,
) -> dict[str, Table]: ...
def select_events(events: Table, name: str) -> Table: ...
def trial(file: str | os.PathLike[str]) -> Table:
    """Reads the samples of a bundle of `equipoise trial`: a row for each block, policy and metric."""
def reproduce(
    name: str,
    runs: int | None,
    seed: int,
    rows: str | None,
    scale: int | None,
    jobs: int,
    stop: Stop | None = None,
    progress: _Progress = None,
) -> dict[str, Any]: ...
