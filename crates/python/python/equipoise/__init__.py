"""Which CPU scheduling suits this machine and this load?

A simulated kernel runs sched_ext schedulers on any machine that you can describe, deterministically to the
nanosecond. Results are Arrow tables (`Table`), which pandas, polars and pyarrow read directly.

    import equipoise
    comparison = equipoise.compare("tc2", "mixed", ["eevdf", "equipoise"])
    print(comparison)                       # what the command prints
    comparison.runs.to_pandas()             # a row for each run and metric

`simulate()` runs one policy and `compare()` several, `trace()` returns the events of a run, `reproduce()` runs
published experiments, `sweep()` runs a design over machines, loads, policies and settings, `tune()` searches a policy's
settings, and `equipoise.plot` draws figures. `trial()` reads the measurements of `equipoise trial` on a real machine.
"""

from equipoise._native import (
    BUILD,
    BadInput,
    Machine,
    Policy,
    SimulationError,
    Table,
    Workload,
    run_uncaged,
    trial,
)
from equipoise.api import (
    Comparison,
    Reproduction,
    Simulation,
    Trace,
    compare,
    experiments,
    reproduce,
    simulate,
    trace,
)
from equipoise.design import Range
from equipoise.engines import Local, Ray
from equipoise.objectives import Constraint, Objective
from equipoise.sweep import Sweep, sweep
from equipoise.tune import Tuning, tune

__version__ = BUILD.split()[0]

__all__ = [
    "BadInput",
    "Comparison",
    "Constraint",
    "Local",
    "Machine",
    "Objective",
    "Policy",
    "Range",
    "Ray",
    "Reproduction",
    "Simulation",
    "SimulationError",
    "Sweep",
    "Table",
    "Trace",
    "Tuning",
    "Workload",
    "compare",
    "experiments",
    "reproduce",
    "run_uncaged",
    "simulate",
    "sweep",
    "trace",
    "trial",
    "tune",
]
