"""Compares schedulers in one boot of the sched_ext kernel, in turn.

Boots once and runs each SCHEDULER in turn, in several rounds: hackbench with 80 and with 320 processes, sysbench cpu
and mutex, cyclictest (of the fair class), perf bench sched pipe, a load like schbench's (vm/in-guest/schbench.c), make
over small C files, and periodic tasks beside busy loops (vm/in-guest/periodic.c: wakeup p99, and periods missed).
Prints medians, and their ratios to those of EEVDF.

The JSON of --json:

{"schema": 1,
 "load_average": of the host at the beginning, over 1, 5 and 15 minutes, "cpus": of the guest, "clock": the option of
   vm/run,
 "results": [{"benchmark", "unit" (less is better), "scheduler", "n": rounds, "median", "min", "max",
   "ratio": of its median to that of "eevdf", or null where that was not measured or is 0,
   "paired_ratio": the median of the rounds' ratios, which a load that comes and goes disturbs less,
   "switches": median of the context switches of the guest}],
 "callbacks": [{"scheduler", "callback", "calls", "ns_per_call"}]: under hackbench, in a run of its own,
 "callbacks_per_switch": [{"scheduler", "ns": of all callbacks, for each time that a task stops, "calls"}]}"""

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from tools import guest
from tools.command import Json, run_main
from tools.figures import Cell, columns, over

BENCHMARKS = ["hackbench", "hackbench-g8", "schbench", "compile", "sysbench", "mutex", "cyclictest", "pipe", "periodic"]
UNITS = {"hackbench": "s", "hackbench-g8": "s", "sysbench": "s", "mutex": "s", "compile": "s", "cyclictest": "us",
         "pipe": "us", "schbench-request": "us"}


def result(samples: list[Json], clock: str, cpus: int, load_average: str) -> Json:
    """The result of the lines that vm/in-guest/bench prints."""
    rounds = [sample for sample in samples if "round" in sample]
    callbacks = [sample for sample in samples if "callback" in sample]
    schedulers = [sample["scheduler"] for sample in samples if not {"round", "callback"} & sample.keys()]
    results = []
    for benchmark in sorted({sample["benchmark"] for sample in rounds}):
        of = [sample for sample in rounds if sample["benchmark"] == benchmark]
        base = {sample["round"]: sample["value"] for sample in of if sample["scheduler"] == "eevdf"}
        for scheduler in schedulers:
            mine = [sample for sample in of if sample["scheduler"] == scheduler]
            values = [sample["value"] for sample in mine]
            ratios = [over(sample["value"], base.get(sample["round"])) for sample in mine]
            paired = [ratio for ratio in ratios if ratio is not None]
            results.append({
                "benchmark": benchmark,
                "unit": UNITS.get(benchmark, "us" if benchmark.endswith("-p99") else "%"),
                "scheduler": scheduler,
                "n": len(values),
                "median": median(values) if values else None,
                "min": min(values, default=None),
                "max": max(values, default=None),
                "ratio": over(median(values), median(base.values())) if values and base else None,
                "switches": median(sample["switches"] for sample in mine) if mine else None,
                "paired_ratio": median(paired) if paired else None,
            })
    per_switch = []
    for scheduler in sorted({sample["scheduler"] for sample in callbacks}):
        mine = [sample for sample in callbacks if sample["scheduler"] == scheduler]
        stops = sum(sample["calls"] for sample in mine if "_stop" in sample["callback"])
        if stops:
            per_switch.append({"scheduler": scheduler, "ns": sum(sample["ns"] for sample in mine) / stops,
                               "calls": sum(sample["calls"] for sample in mine) / stops})
    costs = [{"scheduler": sample["scheduler"], "callback": sample["callback"], "calls": sample["calls"],
              "ns_per_call": sample["ns"] / sample["calls"]} for sample in callbacks]
    return {"schema": 1, "load_average": load_average, "clock": clock, "cpus": cpus, "results": results,
            "callbacks": costs, "callbacks_per_switch": per_switch}


def tables(result: Json) -> Iterable[str]:
    def rounded(value: float | None, digits: int = 3) -> Cell:
        return value if value is None else float(f"{value:.{digits}f}")

    yield f"clock {result['clock']}, {result['cpus']} CPUs, host's load average {result['load_average']}"
    if result["results"]:
        yield ""
        yield columns([["benchmark", "scheduler", "n", "median", "min", "max", "unit", "ratio", "paired", "switches"],
                       *([of["benchmark"], of["scheduler"], of["n"], *(rounded(of[key]) for key in ("median", "min", "max")),
                          of["unit"], rounded(of["ratio"]), rounded(of["paired_ratio"]), of["switches"]]
                         for of in result["results"])])
    if result["callbacks"]:
        yield ""
        yield columns([["scheduler", "callback", "calls", "ns/call"],
                       *([of["scheduler"], "all, for a switch of a task", rounded(of["calls"], 2), rounded(of["ns"], 0)]
                         for of in result["callbacks_per_switch"]),
                       *([of["scheduler"], of["callback"], of["calls"], rounded(of["ns_per_call"], 0)]
                         for of in result["callbacks"])])


def measure(schedulers: list[str], *, kernel: str, cpus: int, rounds: int, only: str = "all", clock: str = "icount=1") -> Json:
    """Boots the guest. Its output appears on standard error meanwhile."""
    guest.script("./install-tools", "bpftool", "gcc", "jq", "libc6-dev", "linux-perf", "make", "qemu-system-x86", "rt-tests",
                 "sysbench")
    os.environ["PATH"] = f"{Path(guest.script('./build-loader', '--release')).parent}:{os.environ['PATH']}"
    load_average = " ".join(Path("/proc/loadavg").read_text().split()[:3])
    # A round of one scheduler takes seconds on an idle host; the limit ends a guest that hangs.
    seconds = 600 + (rounds + 1) * cpus * 60 * (len(schedulers) or 20)
    samples = []
    # Virtual CPUs that wait for a CPU of the host respond late.
    for line in guest.boot("vm/in-guest/bench", str(rounds), only, *schedulers, kernel=kernel, cpus=cpus, clock=clock,
                           turn=20 if clock.startswith("icount") else None, seconds=seconds, noise=True):
        print(line, end="", file=sys.stderr, flush=True)
        samples.append(json.loads(line))
    return result(samples, clock, cpus, load_average)


def add_peers(folder: str) -> None:
    """Puts published schedulers on PATH."""
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def benchmarks(text: str) -> str:
    for name in text.split(","):
        if name not in BENCHMARKS:
            raise argparse.ArgumentTypeError(f"{name}: expected some of {', '.join(BENCHMARKS)}")
    return text


def main() -> None:
    options = guest.options(__doc__, "ours-6.12", 5)
    guest.clock_options(options)
    options.add_argument("--peers", action="store_true", help="first install published schedulers (vm/install-peers)")
    options.add_argument("--only", metavar="NAME,...", type=benchmarks, default="all",
                         help=f"these of {', '.join(BENCHMARKS)}")
    options.add_argument("--callbacks", action="store_true", help="measure only the costs of callbacks")
    options.add_argument("--json", metavar="FILE", type=Path, help="write the result to FILE")
    options.add_argument("schedulers", nargs="*", metavar="SCHEDULER",
                         help="eevdf, equipoise:POLICY (which may have settings), scx_simple, or the command of another "
                         "sched_ext scheduler (default: eevdf, all policies of Equipoise, scx_simple, and those of "
                         "vm/peers.sh that are installed). One that does not load is left out")
    args = options.parse_args()
    if args.peers:
        add_peers(guest.script("./install-peers"))
    for scheduler in args.schedulers:
        if not re.fullmatch(r"eevdf|equipoise:.*|scx_simple", scheduler) and not shutil.which(scheduler.split()[0]):
            options.error(f"{scheduler.split()[0]}: not in PATH (--peers installs schedulers)")
    found = measure(args.schedulers, kernel=args.kernel, cpus=args.cpus, rounds=0 if args.callbacks else args.rounds,
                    only=args.only, clock=args.clock)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    print(*tables(found), sep="\n")


if __name__ == "__main__":
    run_main(main)
