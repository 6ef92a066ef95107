"""`tune()`: searches a policy's settings for what is wanted of some loads, and says what that gains on others."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from equipoise._native import BadInput, Machine, Policy, Workload
from equipoise.api import MachineLike, PolicyLike, WorkloadLike, as_machine, as_policy, as_workload, several
from equipoise.design import Range
from equipoise.engines import Engine, as_engine
from equipoise.errors import bad_input, whole
from equipoise.sweep import Case, Chunk, work

if TYPE_CHECKING:
    import optuna

#: Trials that are tried at a time: the same on every computer, as the next ones depend on them.
BATCH = 8
#: The best of the search that are measured once more with other seeds.
FINALISTS = 5
#: Below that a latency is as good as none, us: the verdict's own rule (crates/lab/src/verdict.rs).
_SHORTEST_LATENCY_US = 1.0
#: How bad a measure counts of which some run has nothing, where the baseline has it: ten times.
_LACKING = math.log(10)
#: A setting is searched from so many times less than it is to so many times more.
_SPREAD = 8

_GOALS = ("latency", "throughput", "energy", "fairness")


@dataclass(frozen=True)
class Objective:
    """What is to become less, against the policy that is tuned: a goal, or one metric.

    `goal`: the geometric mean of what decides it, as in the verdict of `compare()`: `"latency"`, `"throughput"`,
    `"energy"` or `"fairness"`. `metric`: one by name. `weight`: how much it counts beside others.
    """

    goal: str | None = None
    metric: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (self.goal is None) == (self.metric is None) or self.goal not in (None, *_GOALS):
            raise bad_input(f"{self} is no objective", f"expected a goal of {', '.join(_GOALS)}, or a metric")

    @property
    def name(self) -> str:
        """The goal or the metric."""
        return self.goal or self.metric or ""

    def has(self, row: Mapping[str, Any]) -> bool:
        """Is this row, a run's of a metric, about it?"""
        if self.metric is not None:
            return row["metric"] == self.metric
        return row["goal"] == self.goal and row["decides"]


@dataclass(frozen=True)
class Constraint(Objective):
    """What must not exceed `at_most`: of a goal or metric so many times what the policy that is tuned has (1.05: at
    most 5 % more), or with `absolute` of a metric so much, in its unit, in the mean over runs and loads."""

    at_most: float = 1.0
    absolute: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.absolute and self.metric is None:
            raise bad_input(f"{self} is no constraint", "expected a metric with absolute=True")


@dataclass(frozen=True)
class Gain:
    """What the settings change on one load: per cent of what the policy had, below 0 being better, with half the
    95 % confidence interval over runs paired by seed."""

    machine: str
    workload: str
    objective: str
    change_pct: float
    margin_pct: float

    def __str__(self) -> str:
        return f"{self.machine:16} {self.workload:28} {self.objective:12} {self.change_pct:+7.1f} ± {self.margin_pct:.1f} %"


@dataclass
class Tuning:
    """What a search found."""

    #: The policy that was tuned, and what came out; the same if nothing better was found.
    base: Policy
    policy: Policy
    #: The settings that differ, by name.
    settings: dict[str, Any]
    #: With other seeds than the search had: on the loads it was given, and on those it never saw.
    given: list[Gain]
    held_out: list[Gain]
    #: Of several objectives the settings that none is better than in all, with the value of each objective (a ratio to
    #: `base`'s, below 1 being better); of one the best alone.
    front: list[tuple[dict[str, Any], tuple[float, ...]]]
    #: Optuna's record of all trials.
    study: optuna.Study = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy as a file that `equipoise` and `scx_equipoise` take."""
        changed = ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "nothing"
        name = self.base.name.split(":")[0]
        self.policy.save(os.fspath(path), f"{name}-tuned", f"{self.base.name}, tuned: {changed}")

    def __str__(self) -> str:
        lines = [f"{self.base.name}, {len(self.study.trials)} trials: " + (_shown(self.settings) or "nothing better was found")]
        for title, gains in [("On the loads it was tuned on:", self.given), ("On others:", self.held_out)]:
            lines += ["", title, *map(str, gains)] if gains else []
        return "\n".join(lines)


def tune(
    policy: PolicyLike,
    machines: Iterable[MachineLike] | MachineLike,
    workloads: Iterable[WorkloadLike] | WorkloadLike,
    *,
    objectives: Objective | str | Sequence[Objective | str] = "latency",
    constraints: Sequence[Constraint] = (),
    pareto: bool = False,
    space: Mapping[str, Range | Sequence[Any]] | None = None,
    held_out: Iterable[tuple[MachineLike, WorkloadLike]] = (),
    trials: int = 200,
    runs: int = 8,
    final_runs: int = 20,
    seed: int = 1,
    engine: Engine | str = "local",
    jobs: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Tuning:
    """Searches the settings of `policy` (one of Equipoise's) for `objectives` over all pairs of `machines` and
    `workloads`, within `constraints`.

    Several objectives are one by their weights, or with `pareto` a front. `space` is a `Range` or a list for each
    setting that is searched (default: all; numbers from an eighth to eight times what they are). Optuna's TPE proposes
    `trials` settings; each is run twice on every load, and on only if it is not among the worse half, up to `runs`
    times (not with `pareto`). The best are measured once more with other seeds, `final_runs` times, and what is best
    then, and keeps the constraints, is the answer: `policy` itself, if none is better. `held_out` are pairs that the
    search never sees. `out` is where to write the policy file. The same arguments give the same answer.

    Raises `BadInput` and `SimulationError` as `simulate()`. Needs `equipoise[tune]`.
    """
    base = as_policy(policy)
    wanted = [Objective(goal=one) if isinstance(one, str) else one for one in several(objectives)]
    given = [(as_machine(machine), as_workload(load)) for machine in several(machines) for load in several(workloads)]
    others = [(as_machine(machine), as_workload(load)) for machine, load in held_out]
    searched = dict(space) if space is not None else default_space(base)
    if not wanted or not given or not searched:
        raise bad_input("nothing to tune", "expected an objective, a load and a setting at least")
    loads = _Loads(given, base, [*wanted, *constraints], as_engine(engine, jobs), seed, whole("runs", runs))
    study = _search(loads, wanted, list(constraints), pareto, searched, whole("trials", trials), progress)
    again = _Loads(given, base, loads.objectives, loads.engine, seed + 1, whole("final_runs", final_runs))
    best, front = _chosen(study, again, wanted, list(constraints), pareto)
    final = base.with_settings(**best) if best else base
    elsewhere = _Loads(others, base, loads.objectives, loads.engine, seed + 1, final_runs)
    before = base.settings
    changed = {name: value for name, value in final.settings.items() if before[name] != value}
    tuning = Tuning(base, final, changed, again.gains(final, wanted), elsewhere.gains(final, wanted), front, study)
    if out is not None:
        tuning.save(out)
    return tuning


def default_space(policy: Policy) -> dict[str, Range | list[Any]]:
    """All settings of `policy` that have an effect as it is: switches, choices, and numbers above 0 from an eighth to
    eight times what they are, within their bounds."""
    space: dict[str, Range | list[Any]] = {}
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


class _Loads:
    """Some loads, and what a policy does on them against the base, with the same seeds."""

    def __init__(
        self,
        loads: list[tuple[Machine, Workload]],
        base: Policy,
        objectives: list[Objective],
        engine: Engine,
        seed: int,
        runs: int,
    ) -> None:
        self.loads, self.base, self.objectives = loads, base, objectives
        self.engine, self.seed, self.runs = engine, seed, runs
        self._of_base: dict[int, list[list[dict[str, Any]]]] = {}

    def measured(self, policies: list[Policy], first: int, end: int) -> list[list[list[dict[str, Any]]]]:
        """For each policy and load the rows of runs `first` to before `end`."""
        cases = [Case(machine, load, policy) for policy in policies for machine, load in self.loads]
        tasks = [
            Chunk(number, ((number, case, first, end),), self.runs, self.seed) for number, case in enumerate(cases)
        ]
        rows: list[list[dict[str, Any]]] = [[] for _ in cases]
        for chunk, tables in self.engine.run(work, tasks):
            rows[chunk.number] = tables[0].to_pyarrow().to_pylist()
        width = len(self.loads)
        return [rows[place * width : (place + 1) * width] for place in range(len(policies))]

    def logs(self, policies: list[Policy], first: int, end: int) -> list[list[list[dict[int, float]]]]:
        """For each policy, objective and load, by run: the logarithm of the ratio to the base; empty where the load
        has no such metric."""
        if first not in self._of_base:
            self._of_base[first] = self.measured([self.base], first, end)[0]
        base = self._of_base[first]
        return [
            [
                [_logs(objective, before, after) for before, after in zip(base, of_policy)]
                for objective in self.objectives
            ]
            for of_policy in self.measured(policies, first, end)
        ]

    def gains(self, policy: Policy, wanted: list[Objective]) -> list[Gain]:
        """What `policy` changes, load by load."""
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
    from scipy.stats import t

    mean, count = _mean(logs), len(logs)
    error = math.sqrt(sum((log - mean) ** 2 for log in logs) / max(count - 1, 1) / count)
    margin = float(t.ppf(0.975, count - 1)) * error if count > 1 else math.inf
    ratio = math.exp(mean)
    return Gain(machine.name, load.name, objective.name, 100 * (ratio - 1), 100 * ratio * margin)


def _logs(objective: Objective, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[int, float]:
    """By run: the mean, over the objective's metrics, of the logarithm of after by before, less being better."""
    logs: dict[int, list[float]] = {}
    for old, new in zip(before, after):
        if not objective.has(old):
            continue
        if isinstance(objective, Constraint) and objective.absolute:
            value = new[new["judged"]]
            logs.setdefault(old["run"], []).append(math.inf if value is None else value)
        elif old[old["judged"]] is not None:
            logs.setdefault(old["run"], []).append(_log(old, new))
    return {run: _mean(values) for run, values in logs.items()}


def _log(old: dict[str, Any], new: dict[str, Any]) -> float:
    before, after = old[old["judged"]], new[new["judged"]]
    if after is None:
        return _LACKING
    if old["unit"] == "%":
        # A share may be 0: one point more of nothing counts as twice as much.
        before, after = before + 1, after + 1
    elif old["unit"] == "us":
        before, after = max(before, _SHORTEST_LATENCY_US), max(after, _SHORTEST_LATENCY_US)
    if before <= 0 or after <= 0:
        return 0.0 if before == after else math.copysign(_LACKING, after - before)
    sign = -1 if old["better"] == "higher" else 1
    return sign * math.log(after / before)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _levels(logs: list[list[dict[int, float]]]) -> list[float]:
    """Of each objective the mean over loads, each of which counts the same."""
    means = [[_mean(list(of_load.values())) for of_load in of_objective if of_load] for of_objective in logs]
    return [_mean(of_objective) if of_objective else 0.0 for of_objective in means]


def _values(levels: list[float], wanted: list[Objective], pareto: bool) -> list[float]:
    """What Optuna minimizes: ratios to the base."""
    if pareto:
        return [math.exp(level) for level in levels[: len(wanted)]]
    weights = [objective.weight for objective in wanted]
    return [math.exp(sum(weight * level for weight, level in zip(weights, levels)) / sum(weights))]


def _excess(levels: list[float], constraints: list[Constraint]) -> list[float]:
    """How much each constraint is exceeded by; at most 0 where it is kept."""
    own = levels[len(levels) - len(constraints) :]
    return [
        (level if constraint.absolute else math.exp(level)) - constraint.at_most
        for constraint, level in zip(constraints, own)
    ]


def _search(
    loads: _Loads,
    wanted: list[Objective],
    constraints: list[Constraint],
    pareto: bool,
    space: dict[str, Range | Sequence[Any]],
    trials: int,
    progress: bool | None,
) -> optuna.Study:
    import optuna
    from tqdm.auto import tqdm

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def exceeded(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
        return trial.user_attrs.get("excess", [math.inf] * len(constraints))

    sampler = optuna.samplers.TPESampler(seed=loads.seed, constraints_func=exceeded if constraints else None)
    directions = ["minimize"] * (len(wanted) if pareto else 1)
    study = optuna.create_study(sampler=sampler, directions=directions)
    settings = loads.base.settings
    # What is there already is the first to beat.
    study.enqueue_trial({name: settings[name] for name in space})
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
    """How many runs a trial has before it is looked at: 2, 4, ... and all."""
    return [count for count in (2**power for power in range(1, 20)) if count < runs] + [runs]


def _climb(
    study: optuna.Study,
    loads: _Loads,
    asked: list[optuna.Trial],
    wanted: list[Objective],
    constraints: list[Constraint],
    pareto: bool,
    space: dict[str, Range | Sequence[Any]],
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
            # Settings that do not go together.
            study.tell(trial, state=pruned)
    known: dict[int, list[list[dict[int, float]]]] = {}
    first = 0
    for rung in rungs:
        all_logs = loads.logs([policy for _, policy in going], first, rung)
        for (trial, _), logs in zip(going, all_logs):
            known[trial.number] = _joined(known.get(trial.number), logs)
        left = []
        for trial, policy in going:
            levels = _levels(known[trial.number])
            trial.set_user_attr("excess", _excess(levels, constraints))
            values = _values(levels, wanted, pareto)
            if rung == rungs[-1]:
                study.tell(trial, values)
            elif _is_worse(study, trial, rung, values[0]):
                study.tell(trial, state=pruned)
            else:
                left.append((trial, policy))
        going, first = left, rung


def _joined(before: list[list[dict[int, float]]] | None, more: list[list[dict[int, float]]]) -> list[list[dict[int, float]]]:
    if before is None:
        return more
    return [[old | new for old, new in zip(olds, news)] for olds, news in zip(before, more)]


def _is_worse(study: optuna.Study, trial: optuna.Trial, rung: int, value: float) -> bool:
    """Is it among the worse half of the trials that came so far?"""
    others = [
        other.intermediate_values[rung] for other in study.get_trials(deepcopy=False) if rung in other.intermediate_values
    ]
    trial.report(value, rung)
    return bool(others) and value > sorted(others)[len(others) // 2]


def _suggested(trial: optuna.Trial, name: str, axis: Range | Sequence[Any]) -> Any:
    if not isinstance(axis, Range):
        return trial.suggest_categorical(name, list(axis))
    if axis.integer:
        return trial.suggest_int(name, math.ceil(axis.low), math.floor(axis.high), log=axis.log)
    return trial.suggest_float(name, axis.low, axis.high, log=axis.log)


def _chosen(
    study: optuna.Study, again: _Loads, wanted: list[Objective], constraints: list[Constraint], pareto: bool
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], tuple[float, ...]]]]:
    """The settings that are best with other seeds, or none if the base is; and the front."""
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
        levels = _levels(logs)
        if all(excess <= 0 for excess in _excess(levels, constraints)):
            measured.append((one, tuple(_values(levels, wanted, pareto)), _values(levels, wanted, False)[0]))
    front = [(one, values) for one, values, _ in measured if not any(_dominates(other, values) for _, other, _ in measured)]
    best = min(measured, key=lambda found: found[2], default=None)
    if best is None or best[2] >= 1:
        return {}, front if pareto else []
    return best[0], front if pareto else [(best[0], best[1])]


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))


def _shown(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
