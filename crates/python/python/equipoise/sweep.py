"""`sweep()`: a design over machines, loads, policies and settings, as a Parquet dataset that grows as it runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from equipoise import _native
from equipoise._native import Machine, Policy, Stop, Table, Workload
from equipoise.api import MachineLike, PolicyLike, WorkloadLike, as_machine, as_policy, as_workload, several
from equipoise.design import Axis, Range, axis_of, points
from equipoise.engines import Engine, as_engine
from equipoise.errors import bad_input, require, runs_of, seed_of, stoppable, whole

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import pyarrow.dataset

#: The version of a sweep's folder.
SCHEMA = 1
# The default number of simulations in a task, which is about a second of work.
CHUNK = 20


@dataclass(frozen=True)
class Case:
    """A point of the design: the case that is run, and the values chosen for it."""

    machine: Machine
    workload: Workload
    policy: Policy
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """The work of a task: simulations, one after another, of the runs from `first` to before `end` of some cases."""

    number: int
    #: Each part is (number of the case, case, first, end).
    parts: tuple[tuple[int, Case, int, int], ...]
    #: The number of runs of each case.
    runs: int
    seed: int
    exact: bool

    @property
    def simulations(self) -> int:
        """The number of simulations of the task."""
        return sum(end - first for _, _, first, end in self.parts)

    def digest(self, sources: dict[int, str]) -> str:
        """A digest of all inputs: equal digests mean equal results."""
        parts = [(point, _digest(case, sources), first, end) for point, case, first, end in self.parts]
        text = json.dumps([SCHEMA, _native.BUILD, self.runs, self.seed, self.exact, parts])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def work(chunk: Chunk, stop: Stop) -> list[Table]:
    """A table for each part of the chunk. Raises `SimulationError` if a run fails."""

    def table(case: Case, first: int, end: int) -> Table:
        args = (case.machine, case.workload, case.policy, chunk.runs, chunk.seed, chunk.exact, first, end)
        runs, _ = _native.measure_part(*args, stop)
        return runs

    return [table(case, first, end) for _, case, first, end in chunk.parts]


def work_labelled(chunk: Chunk, stop: Stop) -> pyarrow.Table:
    """The chunk's rows, with the point to which they belong and the values chosen for it."""
    return _labelled(chunk, work(chunk, stop))


def work_file(chunk: Chunk, stop: Stop) -> bytes:
    """The result of `work_labelled` as a Parquet file, which the worker encodes, so that the caller can serve many
    workers."""
    import pyarrow
    import pyarrow.parquet

    file = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(work_labelled(chunk, stop), file, compression="zstd")
    return cast(bytes, file.getvalue().to_pybytes())


@dataclass
class Sweep:
    """A finished sweep."""

    #: The cases, in the order of the column `point`.
    cases: list[Case]
    #: The number of runs of each case.
    runs: int
    #: The folder of the results; None if they are in memory.
    out: Path | None
    #: The number of chunks, and the number that existed before.
    chunks: int
    resumed: int
    _tables: list[pyarrow.Table] = field(repr=False, default_factory=list)

    @property
    def dataset(self) -> pyarrow.dataset.Dataset:
        """The results, to be read on demand: `dataset.to_table(filter=...)`."""
        import pyarrow.dataset

        if self.out is None:
            return pyarrow.dataset.dataset(self.to_pyarrow())
        return pyarrow.dataset.dataset(sorted(map(str, (self.out / "runs").glob("part-*.parquet"))))

    def to_pyarrow(self) -> pyarrow.Table:
        """All results: a row for each point, run and metric, in order. The columns are `point`, the values that the
        design chose, and the columns of `Simulation.runs`."""
        import pyarrow

        if self.out is None:
            return pyarrow.concat_tables(self._tables).unify_dictionaries()
        return self.dataset.to_table().unify_dictionaries()

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """`to_pyarrow()` as a frame."""
        require("to_pandas()", "pandas")
        return self.to_pyarrow().to_pandas(**options)


def sweep(
    machines: Iterable[MachineLike] | MachineLike,
    workloads: Iterable[WorkloadLike] | WorkloadLike,
    policies: Iterable[PolicyLike] | PolicyLike,
    *,
    settings: Mapping[str, Axis] | None = None,
    parameters: Mapping[str, Axis] | None = None,
    runs: int = 20,
    seed: int = 1,
    exact: bool = False,
    design: str = "grid",
    samples: int | None = None,
    engine: Engine | str = "local",
    jobs: int = 0,
    out: str | os.PathLike[str] | None = None,
    chunk: int = CHUNK,
    progress: bool | None = None,
) -> Sweep:
    """Runs a design over `machines`, `workloads`, `policies`, and the policies' `settings` and workloads' `parameters`
    (a list by name, or a `Range` for designs that choose), with `runs` runs of each point.

    `design` is `"grid"` (all combinations), or `"random"` or `"sobol"` with `samples` points, chosen by `seed`. Run i
    has the same seed at every point, and the noise of a real machine unless `exact`. `engine` is `"local"` (`jobs`
    simulations at a time; 0: the number of CPUs), `"ray"`, or an `equipoise.Ray`; the results, their order and their
    bytes do not depend on the engine. A task is a `chunk` of simulations. If `out` is a folder, results go to a Parquet
    dataset there (`runs/`) as they arrive, and an interrupted sweep resumes; without `out`, results stay in memory.
    `progress`: a bar with the time left (None: on a terminal).

    Raises `BadInput` for input that is not well-formed, does not fit together, or differs from the sweep in `out`,
    and `SimulationError` if a run fails. Requires `equipoise[sweep]`.
    """
    require("sweep()", "sweep")
    cases = list(
        _cases(
            several(machines),
            several(workloads),
            several(policies),
            dict(settings or {}),
            dict(parameters or {}),
            design,
            samples,
            seed,
        )
    )
    all_chunks = list(chunks(cases, runs_of(runs), seed_of(seed), exact, whole("chunk", chunk)))
    store = _Store(Path(out), all_chunks) if out is not None else None
    left = [one for one in all_chunks if store is None or not store.has(one)]
    tables: dict[int, pyarrow.Table] = {}
    kept = "stopped" if store is None else f"stopped; the same call continues the sweep in {store.folder}"
    with stoppable(kept), _bar(len(cases) * runs, progress) as bar:
        bar.update(sum(one.simulations for one in all_chunks) - sum(one.simulations for one in left))
        for one, result in as_engine(engine, jobs).run(work_labelled if store is None else work_file, left):
            if store is not None:
                store.add(one, result)
            else:
                tables[one.number] = result
            bar.update(one.simulations)
    ordered = [tables[number] for number in sorted(tables)]
    return Sweep(cases, runs, store.folder if store else None, len(all_chunks), len(all_chunks) - len(left), ordered)


def chunks(cases: Sequence[Case], runs: int, seed: int, exact: bool, size: int) -> Iterator[Chunk]:
    """The simulations of all cases, run by run, in chunks of `size`."""
    number, parts, room = 0, [], size
    for point, case in enumerate(cases):
        first = 0
        while first < runs:
            end = min(runs, first + room)
            parts.append((point, case, first, end))
            room -= end - first
            first = end
            if room == 0:
                yield Chunk(number, tuple(parts), runs, seed, exact)
                number, parts, room = number + 1, [], size
    if parts:
        yield Chunk(number, tuple(parts), runs, seed, exact)


def _cases(
    machines: list[MachineLike],
    workloads: list[WorkloadLike],
    policies: list[PolicyLike],
    settings: dict[str, Axis],
    parameters: dict[str, Axis],
    design: str,
    samples: int | None,
    seed: int,
) -> Iterator[Case]:
    settings, parameters = (
        {name: axis_of(name, axis) for name, axis in given.items()} for given in (settings, parameters)
    )
    axes: dict[str, Axis] = {
        "machine": [as_machine(machine) for machine in machines],
        "workload": workloads if parameters else [as_workload(workload) for workload in workloads],
    }
    axes |= parameters
    axes["policy"] = [as_policy(policy) for policy in policies]
    clash = (settings.keys() & axes.keys()) | (parameters.keys() & {"machine", "workload", "policy"})
    if clash:
        raise bad_input(f"`{min(clash)}` is named twice", "expected a different name for each dimension")
    axes |= settings
    for name, axis in axes.items():
        if not isinstance(axis, Range) and not axis:
            raise bad_input(f"no value for `{name}`", "expected one or more values")
    seen: set[tuple[Any, ...]] = set()
    for point in points(axes, design, samples, seed):
        machine, workload, policy = point.pop("machine"), point.pop("workload"), point.pop("policy")
        if parameters:
            workload = _with_parameters(workload, {name: point[name] for name in parameters})
        if settings:
            policy = policy.with_settings(**{name: point[name] for name in settings})
        case = Case(machine, workload, policy, point)
        key = (machine.name, workload.name, policy.name, *point.values())
        if design == "grid" and key in seen:
            raise bad_input(
                f"two points of the grid are {', '.join(map(str, key))}",
                "expected a different name or value for each item of a dimension",
            )
        seen.add(key)
        yield case


def _with_parameters(workload: WorkloadLike, values: dict[str, Any]) -> Workload:
    if isinstance(workload, Mapping):
        return Workload.from_rt_app(dict(workload), **values)
    if isinstance(workload, Workload):
        name, text, params, nodes = workload._source()
        return Workload._of_source(name, text, params + [f"{key}={value}" for key, value in values.items()], nodes)
    return Workload(os.fspath(workload), **values)


def _labelled(chunk: Chunk, tables: list[Table]) -> pyarrow.Table:
    import pyarrow

    labelled = []
    for (point, case, _, _), native in zip(chunk.parts, tables):
        table = pyarrow.table(native)
        for place, (name, value) in enumerate([("point", point), *case.values.items()]):
            column = pyarrow.array([value] * len(table), pyarrow.int64() if name == "point" else None)
            table = table.add_column(place, name, column)
        labelled.append(table)
    return pyarrow.concat_tables(labelled, promote_options="permissive").unify_dictionaries().combine_chunks()


def _digest(case: Case, sources: dict[int, str]) -> str:
    """The digest of a case; `sources` caches the digests of its parts, which many cases share."""

    def of(one: Machine | Workload | Policy, source: Callable[[], object]) -> str:
        if id(one) not in sources:
            sources[id(one)] = hashlib.sha256(repr((one.name, source())).encode()).hexdigest()
        return sources[id(one)]

    parts = [
        of(case.machine, case.machine.to_toml),
        of(case.workload, case.workload._source),
        of(case.policy, case.policy._source),
    ]
    return " ".join([*parts, repr(sorted(case.values.items()))])


class _Store:
    """A sweep's folder: `sweep.json`, which describes the sweep, and `runs/part-NUMBER-DIGEST.parquet`."""

    def __init__(self, folder: Path, all_chunks: list[Chunk]) -> None:
        """Starts the sweep in the folder, or resumes it."""
        self.folder = folder
        self.parts = folder / "runs"
        sources: dict[int, str] = {}
        self.digests = {one.number: one.digest(sources) for one in all_chunks}
        whole_digest = hashlib.sha256(" ".join(self.digests.values()).encode()).hexdigest()
        label = {"schema": SCHEMA, "build": _native.BUILD, "chunks": len(all_chunks), "digest": whole_digest}
        file = folder / "sweep.json"
        if not file.exists():
            if folder.exists() and any(folder.iterdir()):
                raise bad_input(f"{folder}: the folder is not empty and has no sweep", "expected a new folder")
            folder.mkdir(parents=True, exist_ok=True)
            _replace(file, lambda path: path.write_text(json.dumps(label, indent=1) + "\n"))
        before = _label(file)
        if before != label:
            raise bad_input(
                f"{file}: this folder holds another sweep (of build {before.get('build')})",
                "expected the folder of this sweep, or a new folder",
            )
        self.parts.mkdir(exist_ok=True)
        self.done = {part.name for part in self.parts.iterdir() if _is_whole(part)}

    def has(self, chunk: Chunk) -> bool:
        """Do the chunk's results exist?"""
        return self._name(chunk) in self.done

    def add(self, chunk: Chunk, file: bytes) -> None:
        """Stores the chunk's results atomically."""
        _replace(self.parts / self._name(chunk), lambda path: path.write_bytes(file))

    def _name(self, chunk: Chunk) -> str:
        return f"part-{chunk.number:07}-{self.digests[chunk.number]}.parquet"


def _label(file: Path) -> dict[str, Any]:
    try:
        label = json.loads(file.read_bytes())
    except ValueError:
        label = None
    if not isinstance(label, dict):
        raise bad_input(f"{file}: this does not describe a sweep", "expected the file of a sweep, or a new folder")
    return label


def _is_whole(part: Path) -> bool:
    """Returns False if the file is cut short, as after a loss of power. A Parquet file ends with these four bytes."""
    with part.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 4, 0))
        return file.read() == b"PAR1"


def _replace(file: Path, write: Any) -> None:
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write(half)
        os.replace(half, file)
    finally:
        half.unlink(missing_ok=True)


def _bar(total: int, progress: bool | None) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="run", disable=None if progress is None else not progress)
