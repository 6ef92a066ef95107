"""Halves and doubles each threshold of scheduler/equipoise, one at a time, and prints the effects:
the measures of some loads on some machines that differ by the lab's verdict and by at least 2 % (0.5
points; paired runs; + is worse) and, for a #define, how many more or fewer random cases miss a property's
bar.

A threshold is a #define below or a setting in nanoseconds (settings.def). Builds and changes copies like
tools.mutants, in the same folder."""

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools import matrix, mutants
from tools.command import PROJECT, Failed, cargo, cpus_of, positive, run_main

FOLDER = PROJECT / "scheduler/equipoise"
#: The thresholds of behaviour, without sizes of tables and bounds that only prevent an overflow or the watchdog.
DEFINES = ["ALIKE_PCT", "LIMIT_STEP", "ALONE_FOR", "HURRY_NS", "WORTH_A_MOVE_PCT", "HARDLY_AHEAD", "CPUS_LOOKED_AT",
           "CLUSTERS_LOOKED_AT", "TASKS_LOOKED_AT", "LEVEL_SHIFT", "PROGRESS_SHIFT"]
#: The percentages of which the part above 100 is the threshold.
PERCENT = {"ALIKE_PCT", "WORTH_A_MOVE_PCT"}
#: Loads that have more tasks than CPUs, or that judge latency, on machines with equal CPUs, with two sockets, with two
#: kinds of CPUs, and with three; a crowd, short threads beside loops on heterogeneous CPUs, and a periodic thread
#: beside tasks that wake up together, on CPUs with frequencies and with hardware threads.
CELLS = [("smp-2", "mixed"), ("smp-2", "hackbench:groups=1,fds=10,loops=200"), ("smp-8", "heavy-and-light"),
         ("smp-8", "netperf:pairs=8+busy:threads=8"), ("smp-8", "streamcluster:threads=9,scale=10"),
         ("smp-8", "thread-among-8n"), ("smp-8", "many-naps"), ("smp-2x8", "one-nice-19-among-6n"),
         ("snb-ep-2s", "kbuild:jobs=64,objects=100"), ("snb-ep-2s", "3n-spinners"), ("alder-lake", "tbench:pairs=24"),
         ("alder-lake", "bodytrack:threads=24,scale=10"), ("odroid-xu3", "mixed"), ("sm8250", "ramp"), ("sm8250", "audio"),
         ("tc2-smp", "hackbench:groups=10,fds=20,loops=100"), ("rk3588", "game+busy:threads=4"),
         ("snb-laptop", "herd-of-16-new-threads"), ("smt-4", "boss-wakes-16-workers-often")]
#: The smallest differences that are printed, in points for measures in %, and in % for others.
LEAST_POINTS, LEAST_PCT = 0.5, 2.0
ROW = re.compile(r"^(\w+): (\d+) of \d+ miss", re.M)
#: The number of random cases for each property, and the smallest difference between numbers of
#: cases that is not chance.
CASES, LEAST_CASES = 60, 3


@dataclass(frozen=True)
class Measure:
    """A measure, with its value in each run."""

    unit: str
    better: str
    goal: str | None
    values: list[float]


@dataclass
class Judge:
    """Compares builds of the scheduler: the programs, the runs of each cell, and the results of the unchanged one."""

    runs: int

    def __post_init__(self) -> None:
        cargo("build", "-p", "equipoise-lab", "--example", "judge")
        programs = mutants.build()
        self.command, self.conformance = programs["equipoise"], programs["conformance"]
        self.usual, self.usual_missed = self.measures("equipoise"), self.missed()

    def measures(self, policy: str) -> dict[tuple[str, str, str], Measure]:
        """The values of each measure, by machine, load and measure."""
        found = {}
        for machine, name in CELLS:
            custom = {load.name: load for load in matrix.custom_loads(cpus_of(machine))}
            load = custom.get(name, matrix.Load(name))
            for entry in matrix.measures(matrix.compare(self.command, machine, load, [policy], self.runs), load.extra):
                values = [run and run[entry["judged"]] for run in entry["runs"]]
                if None not in values:
                    found[machine, name, entry["metric"]] = Measure(entry["unit"], entry["better"], entry["goal"], values)
        return found

    def missed(self) -> dict[str, int]:
        """The number of random cases that miss the bar of each property (`make properties`)."""
        environment = os.environ | {"PROPTEST_CASES": str(CASES), "PROPTEST_RNG_SEED": "7",
                                    "CARGO_MANIFEST_DIR": str(PROJECT / "crates/simulator")}
        done = subprocess.run([self.conformance, "--ignored", "--nocapture", "fairness"], env=environment, cwd=PROJECT,
                              capture_output=True, text=True, check=True)
        return {row: int(count) for row, count in ROW.findall(done.stdout)}

    def differences(self, policy: str = "equipoise") -> list[str]:
        """The measures that differ from those of the unchanged scheduler, worst first."""
        changed = self.measures(policy)
        pairs = {key: (self.usual[key], changed[key]) for key in self.usual if key in changed}
        found = []
        for key, (verdict, worse) in zip(pairs, verdicts(pairs.values())):
            points = self.usual[key].unit == "%"
            if verdict != "same" and abs(worse) >= (LEAST_POINTS if points else LEAST_PCT):
                found.append((worse, f"{' '.join(key)} {worse:+.1f}{'' if points else ' %'}"))
        return [text for _, text in sorted(found, reverse=True)]

    def case_differences(self) -> list[str]:
        """The properties whose bars more or fewer random cases miss."""
        missed = self.missed()
        return [f"{row} {missed[row] - count:+d} cases" for row, count in self.usual_missed.items()
                if abs(missed[row] - count) >= LEAST_CASES]

    def all_differences(self) -> list[str]:
        return self.differences() + self.case_differences()


def verdicts(pairs: Iterable[tuple[Measure, Measure]]) -> list[tuple[str, float]]:
    """The verdicts of the lab (crates/lab/examples/judge.rs) on pairs of a measure before and after a change. Each is
    `better`, `worse` or `same`, with the amount by which it is worse, in per cent or points. The runs are of two
    builds, so no comparison of the command has both."""
    lines = [" ".join((before.unit or "-", before.better, before.goal or "-",
                       *(",".join(map(repr, of.values)) for of in (before, after)))) for before, after in pairs]
    done = subprocess.run([PROJECT / "target/debug/examples/judge"], input="\n".join(lines) + "\n", capture_output=True,
                          text=True, check=True)
    return [(verdict, float(worse)) for verdict, worse in map(str.split, done.stdout.splitlines())]


def settings() -> dict[str, int]:
    """The settings in nanoseconds and their defaults."""
    text = (FOLDER / "settings.def").read_text()
    return {name: int(value) for name, value in re.findall(r"^NS\((\w+), (\d+),", text, re.M)}


def define(name: str) -> tuple[Path, str, str]:
    """The file of the #define `name`, its line and its value."""
    for path in sorted(FOLDER.glob("*.h")):
        found = re.search(rf"^#define {name} (.+)$", path.read_text(), re.M)
        if found:
            return path, found[0], found[1]
    raise Failed(f"no file in scheduler/equipoise defines {name}")


def times(name: str, value: str, factor: float) -> str:
    """The C expression `value` of the #define `name` times `factor`."""
    if name in PERCENT:
        return str(round(100 + (int(value) - 100) * factor))
    return f"({value} * 2)" if factor == 2 else f"({value} / 2)"


def main() -> None:
    options = mutants.options(__doc__, "thresholds")
    options.add_argument("--runs", type=positive, default=8, help="runs of each load (default: %(default)s)")
    args = options.parse_args()
    defaults = settings()
    chosen = [name for name in [*defaults, *DEFINES] if not args.words or any(word in name for word in args.words)]
    if args.list:
        for name in chosen:
            print(name, defaults.get(name) or define(name)[2])
        return
    judge = Judge(args.runs)
    for name in chosen:
        for factor, verb in ((0.5, "halved"), (2, "doubled")):
            if name in defaults:
                said = judge.differences(f"equipoise:{name}_ns={int(defaults[name] * factor)}")
            else:
                path, line, value = define(name)
                with mutants.changed(path.name, line, f"#define {name} {times(name, value, factor)}"):
                    said = judge.all_differences()
            print(f"{name} {verb}: {', '.join(said) or 'nothing'}", flush=True)


if __name__ == "__main__":
    run_main(main)
