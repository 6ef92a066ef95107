"""Tuning: the result is a policy file that has the reported effect."""

import math

import pytest

import equipoise
from equipoise import BadInput, Constraint, Objective, Policy, Range
from equipoise.objectives import logs_of

QUICK = {"trials": 12, "runs": 2, "final_runs": 4}


def test_what_was_taken_away_is_found_again(tmp_path):
    # Without misfit migration a heavy task stays on the slow core on which it happens to start.
    bad = Policy("capacity", misfit=False, idle_pull=False)
    load = "sysbench-cpu:threads=1,requests=100"
    found = equipoise.tune(
        bad,
        "tc2",
        load,
        objectives="throughput",
        space={"misfit": [False, True], "sched_nr_migrate": Range(1, 64)},
        held_out=[("odroid-xu3", load)],
        out=tmp_path / "tuned.toml",
        trials=12,
        runs=6,
        final_runs=20,
    )
    assert found.settings["misfit"] is True
    assert all(gain.change_pct < -20 and gain.change_pct + gain.margin_pct < 0 for gain in found.given)
    assert [gain.machine for gain in found.held_out] == ["odroid-xu3"]
    assert Policy(str(tmp_path / "tuned.toml")).settings == found.policy.settings
    assert "On others:" in str(found) and "12 trials" in str(found)


def test_chance_is_no_gain():
    # With one task, the number of tasks per pass makes no difference.
    found = equipoise.tune(
        "cfs",
        "smp-2",
        "busy:threads=1,duration=20ms",
        objectives="throughput",
        space={"sched_nr_migrate": [1, 2, 32]},
        **QUICK,
    )
    assert found.settings == {} and found.policy.name == "cfs" and found.front == []


def test_a_search_need_not_contain_the_policys_own_setting_and_takes_any_seed(recwarn):
    space = {"sched_latency_ns": Range(7_000_000, 8_000_000)}
    load = "busy:threads=1,duration=20ms"
    found = equipoise.tune("cfs", "smp-2", load, objectives="throughput", space=space, seed=2**64 - 1, **QUICK)
    tried = [trial.params["sched_latency_ns"] for trial in found.study.trials]
    assert len(tried) == 12 and all(7_000_000 <= one <= 8_000_000 for one in tried)
    assert not any("out of range" in str(warning.message) for warning in recwarn)


def test_the_same_search_gives_the_same_answer():
    def search(jobs):
        space = {"misfit": [False, True], "sched_latency_ns": Range(1_000_000, 50_000_000, log=True)}
        load = "mixed:duration=200ms"
        return equipoise.tune("capacity", "tc2", load, space=space, trials=10, runs=2, final_runs=2, jobs=jobs)

    one, other = search(1), search(3)
    assert one.settings == other.settings and one.given == other.given
    assert [trial.params for trial in one.study.trials] == [trial.params for trial in other.study.trials]


def test_settings_that_do_not_go_together_are_passed_over():
    space = {"misfit": [True, False], "load_tracking": ["weight", "pelt"]}
    found = equipoise.tune("capacity", "tc2", "busy:duration=20ms", objectives="throughput", space=space, **QUICK)
    tried = [trial.user_attrs["settings"] for trial in found.study.trials if trial.values]
    assert tried and {"misfit": True, "load_tracking": "weight"} not in tried


def test_a_constraint_is_kept():
    limit = Constraint(goal="energy", at_most=1.0)
    space = {"sched_latency_ns": Range(1_000_000, 50_000_000, log=True)}
    found = equipoise.tune(
        "cfs", "snb-laptop", "audio:duration=100ms", objectives="latency", constraints=[limit], space=space, **QUICK
    )
    energy = equipoise.compare("snb-laptop", "audio:duration=100ms", ["cfs", found.policy], runs=4, seed=2)
    joules = energy.counters.to_pandas().groupby("policy", observed=True)["energy_j"].mean()
    if len(joules) == 2:
        assert joules[found.policy.name] <= joules["cfs"] * 1.0001


def test_several_objectives_are_a_front():
    space = {"sched_latency_ns": Range(1_000_000, 50_000_000, log=True)}
    found = equipoise.tune(
        "cfs", "snb-laptop", "audio:duration=100ms", objectives=["latency", "energy"], pareto=True, space=space, **QUICK
    )
    assert found.front
    for _, values in found.front:
        assert len(values) == 2
        assert not any(all(a < b for a, b in zip(other, values)) for _, other in found.front)


@pytest.mark.parametrize("better, sign", [("higher", 1), ("lower", -1)])
def test_a_measure_that_becomes_zero_is_worse_if_more_of_it_is_better(better, sign):
    def log(before, after):
        row = {"run": 0, "metric": "m", "unit": "loops/s", "better": better, "judged": "mean"}
        return logs_of(Objective(metric="m"), [row | {"mean": before}], [row | {"mean": after}])[0]

    assert log(100, 0) == -log(0, 100) == sign * math.log(10)
    assert log(0, 0) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Objective(goal="speed"),
        lambda: Objective(),
        lambda: Constraint(goal="energy", at_most=3, absolute=True),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={}),
        lambda: equipoise.tune("cfs", "tc2", "busy", trials=0),
        lambda: Objective(goal="latency", weight=0),
        lambda: Constraint(goal="latency", at_most=float("nan")),
        lambda: equipoise.tune("cfs", "tc2", "busy", constraints=["energy"]),
        lambda: equipoise.tune("cfs", "tc2", "busy", held_out=("tc2", "busy")),
        lambda: equipoise.tune("cfs", "tc2", "busy", out="nothing/tuned.toml"),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={"nothing": [1]}),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={"frequency": [1, 0]}),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={"load_tracking": ["pelt", "nothing"]}),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={"sched_latency_ns": Range(1, 2)}),
        lambda: equipoise.tune("cfs", "tc2", "busy", space={"sched_latency_ns": Range(1e6, 2e6, integer=False)}),
        lambda: equipoise.tune("cfs", "tc2", "busy:duration=1ms", objectives="energy"),
    ],
)
def test_what_cannot_be_tuned_is_said(make):
    with pytest.raises(BadInput, match="expected"):
        make()
