"""Objectives and constraints of `tune()`: goals and metrics, as ratios to the original policy."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from equipoise.design import is_number
from equipoise.errors import bad_input

# The latency in us as which shorter latencies count; the verdict has the same rule (crates/lab/src/verdict.rs).
_SHORTEST_LATENCY_US = 1.0
# The penalty for a measure that some run lacks although the baseline has it, which is a factor of ten.
_LACKING = math.log(10)

_GOALS = ("latency", "throughput", "energy", "fairness")


@dataclass(frozen=True)
class Objective:
    """A measure to improve, relative to the tuned policy: a goal, or one metric.

    `goal`: the geometric mean of its deciding measures, as in the verdict of `compare()`: `"latency"`, `"throughput"`,
    `"energy"` or `"fairness"`. `metric`: one metric by name. `weight`: its weight among several objectives.
    """

    goal: str | None = None
    metric: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (self.goal is None) == (self.metric is None) or self.goal not in (None, *_GOALS):
            expected = f"expected a goal of {', '.join(_GOALS)}, or a metric"
            raise bad_input(f"{self} is not an objective", expected, self.goal, _GOALS)
        if not is_number(self.weight) or not 0 < self.weight < math.inf:
            raise bad_input(f"{self} has no weight", "expected a number above 0")

    @property
    def name(self) -> str:
        """The name of the goal or the metric."""
        return self.goal or self.metric or ""

    def has(self, row: Mapping[str, Any]) -> bool:
        """True if this row, of a run and a metric, belongs to the objective."""
        if self.metric is not None:
            return bool(row["metric"] == self.metric)
        return bool(row["goal"] == self.goal and row["decides"])


@dataclass(frozen=True)
class Constraint(Objective):
    """A bound: a goal or metric must not exceed `at_most` times its value under the original policy (1.05: at most 5 %
    more; if more of it is better, this bounds the reciprocal of its value). With `absolute`, the mean of a metric over runs and loads must not exceed `at_most`, in its unit."""

    at_most: float = 1.0
    absolute: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.absolute and self.metric is None:
            raise bad_input(f"{self} is not a constraint", "expected a metric with absolute=True")
        if not is_number(self.at_most) or math.isnan(self.at_most):
            raise bad_input(f"{self} has no bound", "expected a number for at_most")


def logs_of(objective: Objective, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[int, float]:
    """For each run, the mean over the objective's metrics of the logarithm of after / before; less is better. For an
    absolute constraint it is the mean of the values themselves."""
    logs: dict[int, list[float]] = {}
    for old, new in zip(before, after):
        if not objective.has(old):
            continue
        if isinstance(objective, Constraint) and objective.absolute:
            value = new[new["judged"]]
            logs.setdefault(old["run"], []).append(math.inf if value is None else value)
        elif old[old["judged"]] is not None:
            logs.setdefault(old["run"], []).append(_log(old, new))
    return {run: fmean(values) for run, values in logs.items()}


def _log(old: dict[str, Any], new: dict[str, Any]) -> float:
    before, after = old[old["judged"]], new[new["judged"]]
    if after is None:
        return _LACKING
    if old["unit"] == "%":
        # A share may be 0. With one point added, a change from 0 to 1 counts as twice as much.
        before, after = before + 1, after + 1
    elif old["unit"] == "us":
        before, after = max(before, _SHORTEST_LATENCY_US), max(after, _SHORTEST_LATENCY_US)
    sign = -1 if old["better"] == "higher" else 1
    if before <= 0 or after <= 0:
        return 0.0 if before == after else sign * math.copysign(_LACKING, after - before)
    return sign * math.log(after / before)


def levels_of(logs: list[list[dict[int, float]]]) -> list[float]:
    """The mean of each objective over the loads, which have equal weights."""
    means = [[fmean(list(of_load.values())) for of_load in of_objective if of_load] for of_objective in logs]
    return [fmean(of_objective) if of_objective else 0.0 for of_objective in means]


def ratios_of(levels: list[float], wanted: list[Objective], pareto: bool) -> list[float]:
    """The values that Optuna minimizes: ratios to the base."""
    if pareto:
        return [math.exp(level) for level in levels[: len(wanted)]]
    weights = [objective.weight for objective in wanted]
    return [math.exp(sum(weight * level for weight, level in zip(weights, levels)) / sum(weights))]


def excess_of(levels: list[float], constraints: list[Constraint]) -> list[float]:
    """The amount by which each constraint is exceeded; at most 0 if it is met."""
    own = levels[len(levels) - len(constraints) :]
    return [
        (level if constraint.absolute else math.exp(level)) - constraint.at_most
        for constraint, level in zip(constraints, own)
    ]


def by_run(logs: list[list[dict[int, float]]], wanted: list[Objective]) -> list[float]:
    """The logarithms, run by run, that `ratios_of()` combines into one number."""
    weights = [objective.weight for objective in wanted]
    runs = sorted({run for of_objective in logs for of_load in of_objective for run in of_load})
    level = [levels_of([[{0: load[run]} for load in loads if run in load] for loads in logs]) for run in runs]
    return [sum(map(operator.mul, weights, of_run)) / sum(weights) for of_run in level]
