"""`tune()`: searches a policy's settings for the given objectives on some loads, and reports the gain on others."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from equipoise._native import BadInput, Machine, Policy, Workload, margin
from equipoise.api import MachineLike, PolicyLike, WorkloadLike, as_machine, as_policy, as_workload, several
from equipoise.design import Axis, Range, axis_of, is_number
from equipoise.engines import Engine, as_engine
from equipoise.errors import bad_input, check_file, require, runs_of, seed_of, stoppable, whole
from equipoise.objectives import Constraint, Objective, by_run, excess_of, levels_of, logs_of, ratios_of
from equipoise.sweep import Case, Chunk, work

if TYPE_CHECKING:
    import optuna

_Kind = TypeVar("_Kind")

# The number of trials at a time, which is the same on every computer, because the next trials depend on the results of
# a batch.
BATCH = 8
# The number of best trials that are measured again with other seeds.
FINALISTS = 5
# The number of runs before a trial is first compared.
_FIRST_RUNG = 2
# The factor that gives the search range of a setting: from its value divided by this factor to its
# value times this factor.
_SPREAD = 8


@dataclass(frozen=True)
class Gain:
    """The change by the settings on one load, in per cent of the original policy's value or, if more is better, of the
    reciprocal of that value (below 0 is better), with half the width of its 95 % confidence interval over runs paired by
    seed."""

    machine: str
    workload: str
    objective: str
    change_pct: float
    margin_pct: float

    def __str__(self) -> str:
        return f"{self.machine:16} {self.workload:28} {self.objective:12} {self.change_pct:+7.1f} ± {self.margin_pct:.1f} %"


@dataclass
class Tuning:
    """The result of a search."""

    #: The original policy, and the resulting policy, which is the original one if no better policy was found.
    base: Policy
    policy: Policy
    #: The changed settings, by name.
    settings: dict[str, Any]
    #: The gains on the given loads, and on loads that the search never saw. They are measured with
    #: other seeds than those of the search.
    given: list[Gain]
    held_out: list[Gain]
    #: With `pareto`, the settings that no others dominate (at least as good in all objectives, and better in one), each
    #: with the values of the objectives (ratios to those of `base`; below 1 is better). Otherwise the best settings
    #: alone, with the combined value; empty if nothing better was found.
    front: list[tuple[dict[str, Any], tuple[float, ...]]]
    #: Optuna's record of all trials.
    study: optuna.Study = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy to a file for `equipoise` and `scx_equipoise`."""
        changed = ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "nothing"
        name = self.base.name.split(":")[0]
        self.policy.save(os.fspath(path), f"{name}-tuned", f"{self.base.name}, tuned: {changed}")

    def __str__(self) -> str:
        lines = [
            f"{self.base.name}, {len(self.study.trials)} trials: "
            + (_shown(self.settings) or "nothing better was found")
        ]
        for title, gains in [("On the loads for which it was tuned:", self.given), ("On others:", self.held_out)]:
            lines += ["", title, *map(str, gains)] if gains else []
        return "\n".join(lines)


def tune(
    policy: PolicyLike,
    machines: Iterable[MachineLike] | MachineLike,
    workloads: Iterable[WorkloadLike] | WorkloadLike,
    *,
    objectives: Objective | str | Sequence[Objective | str] = "latency",
    constraints: Constraint | Sequence[Constraint] = (),
    pareto: bool = False,
    space: Mapping[str, Axis] | None = None,
    held_out: Iterable[tuple[MachineLike, WorkloadLike]] = (),
    trials: int = 200,
    runs: int = 8,
    final_runs: int = 20,
    seed: int = 1,
    exact: bool = False,
    engine: Engine | str = "local",
    jobs: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Tuning:
    """Searches the settings of `policy` (one of Equipoise's) for `objectives` over all pairs of `machines` and
    `workloads`, within `constraints`.

    Several objectives are combined by their weights or, with `pareto`, give a front. `space` has a `Range` or a list
    for each setting that is searched (default: all, except numbers that are 0; numbers from an eighth to eight times
    their values). Optuna's TPE proposes `trials` settings. Each trial is run twice on every load and, unless it is then in the worse half, up to
    `runs` times (not with `pareto`). The best settings are measured again with other seeds, `final_runs` times. The
    result is the best of these settings that meets the constraints and is significantly better (95 %), or otherwise
    `policy`. `held_out` are pairs that the search never sees. Runs have the noise of a real machine unless `exact`.
    `out` is the path for the policy file. The same arguments give the same result.

    Raises `BadInput` and `SimulationError` like `simulate()`. Requires `equipoise[tune]`.
    """
    require("tune()", "tune")
    base = as_policy(policy)
    wanted = _all(Objective, [Objective(goal=one) if isinstance(one, str) else one for one in several(objectives)])
    bounds = _all(Constraint, several(constraints))
    given = [(as_machine(machine), as_workload(load)) for machine in several(machines) for load in several(workloads)]
    others = [_pair(pair) for pair in held_out]
    searched = _searched(base, default_space(base) if space is None else space)
    if not wanted or not given or not searched:
        raise bad_input("nothing to tune", "expected at least one objective, load and setting")
    trials, final_runs = whole("trials", trials), runs_of(final_runs, "final_runs")
    check_file(out)
    loads = _Loads(given, base, [*wanted, *bounds], as_engine(engine, jobs), seed_of(seed), exact, runs_of(runs))
    other_seed = (seed + 1) % 2**64
    with stoppable():
        loads.check()
        study = _search(loads, wanted, bounds, pareto, searched, trials, progress)
        again = _Loads(given, base, loads.objectives, loads.engine, other_seed, exact, final_runs)
        best, front = _chosen(study, again, wanted, bounds, pareto)
        final = base.with_settings(**best) if best else base
        elsewhere = _Loads(others, base, loads.objectives, loads.engine, other_seed, exact, final_runs)
        gains, others_gains = again.gains(final, wanted), elsewhere.gains(final, wanted)
    changed = {name: value for name, value in final.settings.items() if base.settings[name] != value}
    tuning = Tuning(base, final, changed, gains, others_gains, front, study)
    if out is not None:
        tuning.save(out)
    return tuning


def default_space(policy: Policy) -> dict[str, Axis]:
    """The settings of `policy`: switches, choices, and numbers above 0 from an eighth to eight times their values,
    within their bounds."""
    space: dict[str, Axis] = {}
    rows = policy.space.to_pyarrow().to_pylist()
    for row in rows:
        match row["kind"]:
            case "switch":
                space[row["setting"]] = [False, True]
            case "choice":
                space[row["setting"]] = row["choices"].split()
            case _ if (value := int(row["value"])) > 0:
                low, high = max(row["least"], value // _SPREAD, 1), min(row["most"], value * _SPREAD)
                if low < high:
                    space[row["setting"]] = Range(low, high, log=True)
    return space


def _all(kind: type[_Kind], values: list[Any]) -> list[_Kind]:
    for value in values:
        if not isinstance(value, kind):
            raise bad_input(f"{value!r} is no {kind.__name__.lower()}", f"expected equipoise.{kind.__name__}(...)")
    return values


def _pair(pair: Any) -> tuple[Machine, Workload]:
    if isinstance(pair, str) or len(pair) != 2:
        raise bad_input(f"held_out has {pair!r}", "expected pairs of a machine and a workload")
    return as_machine(pair[0]), as_workload(pair[1])


def _searched(policy: Policy, space: Mapping[str, Axis]) -> dict[str, Axis]:
    """Returns the axes of `space` if `policy` takes each of their values, and otherwise raises `BadInput`. The search
    would silently skip wrong values, as it skips values that do not fit together."""
    rows = {row["setting"]: row for row in policy.space.to_pyarrow().to_pylist()}
    searched: dict[str, Axis] = {}
    for name, given in space.items():
        if name not in rows:
            raise bad_input(f"{policy.name} has no setting `{name}`", f"expected {', '.join(rows)}", name, rows)
        row, axis = rows[name], axis_of(name, given)
        ends = [axis.low, axis.high] if isinstance(axis, Range) else axis
        match row["kind"]:
            case "switch":
                fits, expected = all(isinstance(end, bool) for end in ends), "expected False and True"
            case "choice":
                fits, expected = set(ends) <= set(row["choices"].split()), f"expected {row['choices']}"
            case _:
                fits = all(is_number(end) and row["least"] <= end <= row["most"] for end in ends)
                fits &= axis.integer if isinstance(axis, Range) else all(isinstance(end, int) for end in ends)
                expected = f"expected whole numbers from {row['least']} to {row['most']}"
        if not fits:
            raise bad_input(f"`{name}` is searched in {axis}", expected)
        searched[name] = axis
    return searched


class _Loads:
    """Some loads, and the results of policies on these relative to the base, with the same seeds."""

    def __init__(
        self,
        loads: list[tuple[Machine, Workload]],
        base: Policy,
        objectives: list[Objective],
        engine: Engine,
        seed: int,
        exact: bool,
        runs: int,
    ) -> None:
        self.loads, self.base, self.objectives = loads, base, objectives
        self.engine, self.seed, self.exact, self.runs = engine, seed, exact, runs
        self._of_base: dict[tuple[int, int], list[list[dict[str, Any]]]] = {}

    def measured(self, policies: list[Policy], first: int, end: int) -> list[list[list[dict[str, Any]]]]:
        """For each policy and load, the rows of the runs from `first` to before `end`."""
        cases = [Case(machine, load, policy) for policy in policies for machine, load in self.loads]
        tasks = [
            Chunk(number, ((number, case, first, end),), self.runs, self.seed, self.exact)
            for number, case in enumerate(cases)
        ]
        rows: list[list[dict[str, Any]]] = [[] for _ in cases]
        for chunk, tables in self.engine.run(work, tasks):
            rows[chunk.number] = tables[0].to_pyarrow().to_pylist()
        width = len(self.loads)
        return [rows[place * width : (place + 1) * width] for place in range(len(policies))]

    def logs(self, policies: list[Policy], first: int, end: int) -> list[list[list[dict[int, float]]]]:
        """For each policy, objective and load, the logarithm of the ratio to the base in each run. Runs in which the
        base has no value are left out."""
        if (first, end) not in self._of_base:
            self._of_base[first, end] = self.measured([self.base], first, end)[0]
        base = self._of_base[first, end]
        return [
            [
                [logs_of(objective, before, after) for before, after in zip(base, of_policy)]
                for objective in self.objectives
            ]
            for of_policy in self.measured(policies, first, end)
        ]

    def check(self) -> None:
        """Raises `BadInput` if no load has the metric of an objective."""
        rows = [row for of_load in self.measured([self.base], 0, 1)[0] for row in of_load]
        for objective in self.objectives:
            if not any(objective.has(row) for row in rows):
                raise bad_input(
                    f"no load measures `{objective.name}`",
                    "expected a goal or metric that one of the loads has; joules require a machine with [power]",
                    objective.name,
                    {row["metric"] for row in rows},
                )

    def gains(self, policy: Policy, wanted: list[Objective]) -> list[Gain]:
        """The changes by `policy` on each load."""
        if not self.loads:
            return []
        logs = self.logs([policy], 0, self.runs)[0]
        return [
            _gain(machine, load, objective, list(of_load.values()))
            for objective, of_objective in zip(wanted, logs)
            for (machine, load), of_load in zip(self.loads, of_objective)
            if of_load
        ]


def _gain(machine: Machine, load: Workload, objective: Objective, logs: list[float]) -> Gain:
    ratio = math.exp(fmean(logs))
    return Gain(machine.name, load.name, objective.name, 100 * (ratio - 1), 100 * ratio * margin(logs))


def _search(
    loads: _Loads,
    wanted: list[Objective],
    constraints: list[Constraint],
    pareto: bool,
    space: dict[str, Axis],
    trials: int,
    progress: bool | None,
) -> optuna.Study:
    import optuna
    from tqdm.auto import tqdm

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Optuna's seeds have 32 bits.
    sampler = optuna.samplers.TPESampler(seed=loads.seed % 2**32)
    minimize: Literal["minimize"] = "minimize"
    directions = [minimize] * (len(wanted) if pareto else 1)
    study = optuna.create_study(sampler=sampler, directions=directions)
    settings = loads.base.settings
    # Try the current settings first, as far as they are searched.
    study.enqueue_trial({name: settings[name] for name, axis in space.items() if _has(axis, settings[name])})
    rungs = [loads.runs] if pareto else _rungs(loads.runs)
    left = trials
    with tqdm(total=trials, unit="trial", disable=None if progress is None else not progress) as bar:
        while left > 0:
            asked = [study.ask() for _ in range(min(BATCH, left))]
            left -= len(asked)
            _climb(study, loads, asked, wanted, constraints, pareto, space, rungs)
            bar.update(len(asked))
    return study


def _rungs(runs: int) -> list[int]:
    """The numbers of runs after which a trial is judged: 2, 4, ..., and finally all."""
    rungs, count = [], _FIRST_RUNG
    while count < runs:
        rungs.append(count)
        count *= 2
    return [*rungs, runs]


def _climb(
    study: optuna.Study,
    loads: _Loads,
    asked: list[optuna.Trial],
    wanted: list[Objective],
    constraints: list[Constraint],
    pareto: bool,
    space: dict[str, Axis],
    rungs: list[int],
) -> None:
    """Runs each trial as long as it is promising."""
    import optuna

    pruned = optuna.trial.TrialState.PRUNED
    going: list[tuple[optuna.Trial, Policy]] = []
    for trial in asked:
        chosen = {name: _suggested(trial, name, axis) for name, axis in space.items()}
        trial.set_user_attr("settings", chosen)
        try:
            going.append((trial, loads.base.with_settings(**chosen)))
        except BadInput:
            study.tell(trial, state=pruned)
    known: dict[int, list[list[dict[int, float]]]] = {}
    first = 0
    for rung in rungs:
        all_logs = loads.logs([policy for _, policy in going], first, rung)
        for (trial, _), logs in zip(going, all_logs):
            known[trial.number] = _joined(known.get(trial.number), logs)
        left = []
        for trial, policy in going:
            levels = levels_of(known[trial.number])
            trial.set_user_attr("excess", excess_of(levels, constraints))
            for number, excess in enumerate(trial.user_attrs["excess"]):
                trial.set_constraint(f"constraint {number}", excess)
            values = ratios_of(levels, wanted, pareto)
            if rung == rungs[-1]:
                study.tell(trial, values)
            elif _is_worse(study, trial, rung, values[0]):
                study.tell(trial, state=pruned)
            else:
                left.append((trial, policy))
        going, first = left, rung


def _joined(
    before: list[list[dict[int, float]]] | None, more: list[list[dict[int, float]]]
) -> list[list[dict[int, float]]]:
    if before is None:
        return more
    return [[old | new for old, new in zip(olds, news)] for olds, news in zip(before, more)]


def _is_worse(study: optuna.Study, trial: optuna.Trial, rung: int, value: float) -> bool:
    """Is the trial in the worse half of the trials with at least as many runs?"""
    others = [
        other.intermediate_values[rung]
        for other in study.get_trials(deepcopy=False)
        if rung in other.intermediate_values
    ]
    trial.report(value, rung)
    return bool(others) and value > sorted(others)[len(others) // 2]


def _has(axis: Axis, value: Any) -> bool:
    return axis.low <= value <= axis.high if isinstance(axis, Range) else value in axis


def _suggested(trial: optuna.Trial, name: str, axis: Axis) -> Any:
    if not isinstance(axis, Range):
        return trial.suggest_categorical(name, list(axis))
    if axis.integer:
        return trial.suggest_int(name, math.ceil(axis.low), math.floor(axis.high), log=axis.log)
    return trial.suggest_float(name, axis.low, axis.high, log=axis.log)


def _chosen(
    study: optuna.Study, again: _Loads, wanted: list[Objective], constraints: list[Constraint], pareto: bool
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], tuple[float, ...]]]]:
    """The best settings, measured with other seeds (empty if the base is best), and the Pareto front."""
    complete = [trial for trial in study.trials if trial.values is not None]
    kept = [trial for trial in complete if all(excess <= 0 for excess in trial.user_attrs["excess"])]
    if pareto:
        finalists = [trial for trial in kept if not any(_dominates(other.values, trial.values) for other in kept)]
    else:
        finalists = sorted(kept, key=lambda trial: (trial.values[0], trial.number))[:FINALISTS]
    if not finalists:
        return {}, []
    settings = [trial.user_attrs["settings"] for trial in finalists]
    policies = [again.base.with_settings(**one) for one in settings]
    measured = []
    for one, logs in zip(settings, again.logs(policies, 0, again.runs)):
        levels = levels_of(logs)
        if all(excess <= 0 for excess in excess_of(levels, constraints)):
            runs = by_run(logs, wanted)
            # The bound allows for chance: a result whose bound is below 0 is better than the base.
            measured.append((one, tuple(ratios_of(levels, wanted, pareto)), fmean(runs), fmean(runs) + margin(runs)))
    front = [found[:2] for found in measured if not any(_dominates(other[1], found[1]) for other in measured)]
    best = min((found for found in measured if found[3] < 0), key=lambda found: found[2], default=None)
    if pareto:
        return (best[0] if best else {}), front
    return (best[0], [best[:2]]) if best else ({}, [])


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))


def _shown(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
