"""Runs loads under three schedulers in a guest, and tests whether the simulator ranks the schedulers the same way.

Boots once, calibrates the guest as a machine, and records each LOAD there in several rounds under
the kernel's EEVDF, scx_equipoise and the kernel's scx_simple. The recording under EEVDF is
simulated under all three. Prints the medians of makespan and p95 wakeup latency over the rounds,
with the smallest and the largest values. For each two schedulers whose measured figures differ by a
rank-sum test, also prints whether the simulated order is the measured one. Wrong orders are no
failure: exit status 1 means that a load has no recording under EEVDF, or that the recordings of a round could not be
simulated."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from statistics import median

from tools import guest, recorder
from tools.command import PROJECT, Failed, equipoise, one_of, run_main
from tools.figures import Cell, apart, columns, spread
from tools.replay import validated

SCHEDULERS = ("eevdf", "equipoise", "simple")
FIGURES = ["makespan, ms", "wakeup latency p95, us"]
Samples = dict[tuple[str, str], dict[str, list[tuple[float, float]]]]


def tables(samples: Samples) -> list[str]:
    """The lines of the figures, the orders, and the number of right orders. `samples` has the measured and simulated
    figures of each scheduler, by load and figure."""
    rows: list[list[Cell]] = [["load", "figure", "scheduler", "measured", "simulated"]]
    orders: list[list[Cell]] = [["load", "figure", "measured order", "simulated order"]]
    counts = Counter[str]()
    for (load, figure), of in samples.items():
        measured = {name: [pair[0] for pair in pairs] for name, pairs in of.items()}
        simulated = {name: [pair[1] for pair in pairs] for name, pairs in of.items()}
        rows += [[load, figure, name, spread(measured[name]), spread(simulated[name])] for name in of]
        for x, y in combinations(of, 2):
            more = median(measured[x]) - median(measured[y])
            if not apart(measured[x], measured[y]):
                verdict = "within noise"
            elif more * (median(simulated[x]) - median(simulated[y])) > 0:
                verdict = "as measured"
            else:
                verdict = "not as measured"
            counts[verdict] += 1
            orders.append([load, figure, f"{x} {'<' if more < 0 else '>'} {y}", verdict])
    right, wrong = counts["as measured"], counts["not as measured"]
    return [columns(rows), "", columns(orders), "",
            f"{right} of {right + wrong} orders are as measured; {counts['within noise']} more are within noise"]


def main() -> int:
    options = guest.options(__doc__, "ours-6.12", 5)
    guest.clock_options(options)
    guest.keep_options(options)
    options.add_argument("loads", nargs="*", type=one_of(recorder.LOADS), metavar="LOAD",
                         help="as for tools.replay (default: sysbench-mutex, hackbench, compile and browser-short)")
    args = options.parse_args()
    args.loads = args.loads or ["sysbench-mutex", "hackbench", "compile", "browser-short"]
    command, status = equipoise(), 0
    subprocess.run([PROJECT / "tests/fetch-kernel-examples"], check=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    simple = cache / "equipoise/schedulers/linux-6.12/tools/sched_ext/scx_simple.bpf.c"
    if not simple.exists():
        raise Failed(f"no {simple}")
    samples: Samples = defaultdict(lambda: defaultdict(list))
    with guest.kept(args) as out:
        if not args.judge:
            loader = os.environ.get("SCX_EQUIPOISE") or guest.script("./build-loader")
            guest.record(out, args, command, [*SCHEDULERS], loader=loader, seconds=600 + 900 * args.rounds)
        for load in args.loads:
            recordings = guest.recordings(out, load)
            if not recordings:
                status = 1
            for first in recordings:
                trace = str(first).removesuffix("eevdf.dat")
                try:
                    pages = validated(command, out / "machine.toml", first, f"equipoise={trace}equipoise.dat",
                                      f"{simple}={trace}simple.dat", schedulers=SCHEDULERS, kernel="6.12")
                except Failed as error:
                    print(error, file=sys.stderr)
                    status = 1
                    continue
                for figure in FIGURES:
                    for name in SCHEDULERS:
                        samples[load, figure][name].append(pages[name][figure])
    print(*tables(samples), sep="\n")
    return status


if __name__ == "__main__":
    run_main(main)
