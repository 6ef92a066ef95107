"""Records loads under the kernel's own EEVDF in a guest, and compares the recordings with simulations under `eevdf`.

Boots once, calibrates the guest as a machine, records each LOAD there, in several rounds, and replays the recordings in
the simulator. Prints the median of each figure, measured and simulated, with the smallest and the largest value, and
whether its bar is met: makespan within 15 %; switches, migrations and the 99th percentile of wakeup latencies within 20
%. Missed bars are no failure: exit status 1 means that a load has no recording, or that one could not be
replayed."""

import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from tools import guest, recorder
from tools.command import Failed, ask, equipoise, one_of, run_main
from tools.figures import Cell, columns, spread

#: The bars in %; None for a figure that is only printed.
BARS = {"makespan, ms": 15, "switches to its threads": 20, "migrations of its threads": 20,
        "wakeup latency p50, us": None, "wakeup latency p95, us": None, "wakeup latency p99, us": 20}
BUSY = "run time, ms"
Figures = dict[str, tuple[float, float]]


def validated(command: Path, machine: Path, *recordings: str | Path, schedulers: tuple[str, ...] = ("eevdf",),
              kernel: str = "7.3") -> dict[str, Figures]:
    """The measured and the simulated value of each figure, by scheduler. Schedulers in C are
    compiled for `kernel`. `validate` ends with status 4 if one of its own bounds is missed."""
    page = ask(command, "validate", "--machine", machine, "--kernel", kernel, *recordings, accepted=(0, 4))
    return {table["title"]: {row[0]: (float(row[1]), float(row[2])) for row in table["rows"] if row[0] in {*BARS, BUSY}}
            for table in page["tables"] if table["title"] in schedulers}


def shared(machine: Path, figures: Figures) -> str:
    """The machine file for a guest whose CPUs share one CPU, so that the time of kernel code is multiplied by the
    number of busy CPUs. The costs were calibrated with one busy CPU, so they are multiplied by the recording's average
    number of busy CPUs, unless the file has the number of the host's CPUs, with which the simulator multiplies them."""
    if "\nhost_cpus = " in machine.read_text():
        return machine.read_text()
    busy = max(1, figures[BUSY][0] / figures["makespan, ms"][0])
    return re.sub(r"(?<=_ns = )[\d.]+", lambda cost: str(int(float(cost[0]) * busy)), machine.read_text())


def table(figures: dict[tuple[str, str], list[tuple[float, float]]]) -> list[str]:
    """The lines of the table. `figures` has the measured and simulated values, by load and figure."""
    rows: list[list[Cell]] = [["load", "figure", "measured", "simulated", "off %", "bar"]]
    met = []
    for (load, figure), pairs in figures.items():
        measured, simulated = zip(*pairs)
        real, shown = median(measured), median(simulated)
        off = 100 * (shown / real - 1) if real else 100.0 if shown else 0.0
        bar = BARS[figure]
        if bar:
            met.append(abs(off) <= bar)
        rows.append([load, figure, spread(measured), spread(simulated), f"{off:+.1f}",
                     f"{bar} %, {'met' if met[-1] else 'missed'}" if bar else ""])
    return [columns(rows), f"{sum(met)} of {len(met)} bars met"]


def main() -> int:
    options = guest.options(__doc__, "ours-7.3", 3)
    guest.clock_options(options)
    guest.keep_options(options)
    options.add_argument("--turn", metavar="US", type=int, help="turns of the virtual CPUs, as for vm/run")
    options.add_argument("--here", action="store_true", help="record on this machine instead, as root; nothing else should run")
    options.add_argument("loads", nargs="*", type=one_of(recorder.LOADS), metavar="LOAD",
                         help=f"{', '.join(recorder.LOADS)} (default: all)")
    args = options.parse_args()
    args.loads = args.loads or list(recorder.LOADS)
    command, status = equipoise(), 0
    figures: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with guest.kept(args) as out:
        if not args.judge:
            guest.record(out, args, command, ["eevdf"], turn=args.turn, here=args.here, more=("--pipes",),
                         seconds=600 + 300 * args.rounds)
        for load in args.loads:
            recordings = guest.recordings(out, load)
            if not recordings:
                status = 1
            for recording in recordings:
                machine = out / "machine.toml"
                try:
                    if args.turn:
                        of = validated(command, machine, recording)["eevdf"]
                        machine = out / "shared.toml"
                        machine.write_text(shared(out / "machine.toml", of))
                    of = validated(command, machine, recording)["eevdf"]
                except Failed as error:
                    print(f"{recording}: could not be replayed: {error}", file=sys.stderr)
                    status = 1
                    continue
                for figure in filter(of.__contains__, BARS):
                    figures[load, figure].append(of[figure])
    print(*table(figures), sep="\n")
    return status


if __name__ == "__main__":
    run_main(main)
