"""The simulated kernel and what it is given. What users see of it is in `equipoise`."""

import os
from collections.abc import Callable
from typing import Any, Self

import pandas
import polars
import pyarrow

BUILD: str

class BadInput(ValueError):
    """What was given is wrong: a name, a value, or a file."""

    #: What is wrong, with file and line.
    message: str
    #: What should stand there.
    expected: str
    #: The file, if it is about one.
    file: str | None
    #: The line, from 1.
    line: int | None

class SimulationError(RuntimeError):
    """A run failed: the scheduler was ejected as sched_ext ejects one, or nothing can ever run again."""

class Table:
    """Columns of equal length, by name (Arrow). Texts are dictionaries: a categorical in pandas.

    Whatever takes Arrow's PyCapsule interface takes it as it is: `pandas.DataFrame.from_arrow(table)`,
    `polars.DataFrame(table)`, `pyarrow.table(table)`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
    def _repr_html_(self) -> str:
        """The output in a notebook."""
    def to_pyarrow(self) -> pyarrow.Table:
        """The same, without a copy."""
    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The same: texts as categoricals, numbers without a copy where none is missing."""
    def to_polars(self) -> polars.DataFrame:
        """The same, without a copy."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Machine:
    """A machine to simulate: `Machine("tc2")`, or the path of a machine file (docs/machine-format.md).

    Raises `BadInput` with file, line and what was expected.
    """

    def __new__(cls, name: str) -> Self: ...
    @staticmethod
    def from_toml(text: str, file: str = "<machine>") -> Machine:
        """Of a machine file's text; messages call it `file`."""
    @staticmethod
    def detect(
        *,
        sysfs: str | os.PathLike[str] | None = None,
        hwloc: str | os.PathLike[str] | None = None,
        dtb: str | os.PathLike[str] | None = None,
        name: str = "detected",
    ) -> Machine:
        """This computer, as far as it tells; or what a copy of another's `/sys`, hwloc's XML or a device tree blob says.

        `warnings` says what is assumed.
        """
    @staticmethod
    def names() -> list[str]:
        """Those that come with Equipoise."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """One line."""
    @property
    def warnings(self) -> list[str]:
        """What is odd about the description, and no error."""
    @property
    def cpus(self) -> Table:
        """A row for each CPU: `cpu`, `core_type`, `capacity` (of 1024), `cluster`, `node`, `khz` (the highest)."""
    @property
    def has_power(self) -> bool:
        """Is it known what its parts draw? Only then are there joules."""
    def to_toml(self) -> str:
        """The machine file's text."""
    def __len__(self) -> int:
        """The number of CPUs."""

class Workload:
    """What tasks do: `Workload("hackbench", groups=2)`, the path of an rt-app file or of a recorded load, or several with
    a plus between (`"busy+audio"`).

    `parameters` are as the command takes them (`"10ms"`); `cpunodebind` keeps it to NUMA nodes (`"0-3"`). Raises
    `BadInput` with the parameter, or file and line, and what was expected.
    """

    def __new__(cls, name: str, *, cpunodebind: str | None = None, **parameters: Any) -> Self: ...
    @staticmethod
    def from_rt_app(
        description: dict[str, Any] | str, name: str = "rt-app", *, cpunodebind: str | None = None, **parameters: Any
    ) -> Workload:
        """Of an rt-app description: a dict, or JSON as rt-app reads it (a dict cannot have a key twice)."""
    @staticmethod
    def from_trace(
        trace: str | os.PathLike[str], machine: Machine | None = None, *, name: str | None = None
    ) -> Workload:
        """A recorded load of a trace (ftrace's text, `trace-cmd report`, `perf script`), work scaled by the CPU of
        `machine` that did it. `notes` says what became of the trace."""
    @staticmethod
    def names() -> list[str]:
        """Those that come with Equipoise."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """One line."""
    @property
    def notes(self) -> list[str]:
        """Of an imported trace: what was found, and what was lost."""
    @property
    def metrics(self) -> Table:
        """What a run measures: `metric`, `unit`, `better`, `goal`."""
    @property
    def parameters(self) -> dict[str, str]:
        """What it takes, with defaults."""
    def _source(self) -> tuple[str, tuple[str, str] | None, list[str], str | None]: ...
    @staticmethod
    def _of_source(name: str, text: tuple[str, str] | None, params: list[str], nodes: str | None) -> Workload: ...

class Policy:
    """A scheduler with its settings: `Policy("capacity", misfit=False)`, or the path of a policy file.

    Raises `BadInput` with file, line and what was expected.
    """

    def __new__(cls, name: str, **settings: bool | int | str) -> Self: ...
    @staticmethod
    def from_toml(text: str, file: str = "<policy>") -> Policy:
        """Of a policy file's text; messages call it `file`."""
    @staticmethod
    def from_c(
        *files: str | os.PathLike[str], include: list[str | os.PathLike[str]] | None = None,
        kernel: str | None = None, **settings: int
    ) -> Policy:
        """Any sched_ext scheduler in C, compiled by `$CC` for the simulated `kernel`, "6.12" or "7.3" (the default);
        `settings` are its `const volatile` variables. It runs in a process of its own that can do nothing else."""
    @staticmethod
    def names() -> list[str]:
        """Those that come with Equipoise."""
    @staticmethod
    def usual() -> list[str]:
        """Those that `compare()` runs if none is named: today's Linux, and our own."""
    def named(self, name: str) -> Policy:
        """This one under another name."""
    def with_settings(self, **settings: bool | int | str) -> Policy:
        """This one with other settings; the name says which."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """One line."""
    @property
    def is_foreign(self) -> bool:
        """Is it in C, and somebody else's?"""
    @property
    def settings(self) -> dict[str, bool | int | str]:
        """All, by name."""
    @property
    def space(self) -> Table:
        """What can be set: `setting`, `kind` (number, switch or choice), `value`, `least`, `most`, `choices`,
        `meaning`."""
    def to_toml(self, name: str | None = None, description: str | None = None) -> str:
        """The policy file's text."""
    def save(self, path: str | os.PathLike[str], name: str | None = None, description: str | None = None) -> None:
        """Writes a policy file that `equipoise` and `scx_equipoise` take. Raises OSError."""
    def _source(self) -> tuple[Any, ...]: ...

class Stop:
    def __new__(cls) -> Self: ...
    def set(self) -> None: ...
    def is_set(self) -> bool: ...

_Progress = Callable[[int], object] | None

def work() -> int: ...
def run_uncaged() -> None:
    """From here on schedulers in C run also where the kernel lacks what keeps them from harm (Landlock, seccomp)."""

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
    """The samples of a bundle of `equipoise trial`: a row for each block, policy and metric."""
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
