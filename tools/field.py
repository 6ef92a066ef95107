"""Compares `eevdf`, `equipoise` and the published schedulers (peers/peers.toml) on six machines under eight loads, and
writes docs/field.md.

A cell that takes too long is left out. Cells that are already in the file of --cells are not run again. If $EQUIPOISE
names the command, it is not built."""

import os
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools import command as tool
from tools.command import PROJECT, Failed, Json, cpus_of, measured, parser, positive, run_main
from tools.figures import markdown, prose

MACHINES = ["tc2", "sm8250", "smp-8", "alder-lake", "zen4-x3d", "snb-ep-2s"]
POLICIES = ["eevdf", "equipoise"]
# The share in % from which a cell shows the missed periods.
SHOWN_MISSED = 0.1

# The causes of bad results, by scheduler.
REMARKS = {
    "scx_cpu0": "It runs all tasks on CPU 0.",
    "scx_bpfland": "A synchronous wakeup takes the waker's CPU while an idle CPU exists and no task is in that CPU's local "
                   "queue. The scheduler queues tasks in a queue of its own for each CPU, so on a machine with several caches "
                   "hackbench's threads gather on few CPUs; with `--set bpfland:no_wake_sync=true` they do not.",
    "scx_layered": "Its layers are those of `--run-example`. A task of the confined layer `batch` (nice above 0) waits on "
                   "a node on which the layer has no CPU, until that node's fallback CPU looks for tasks.",
}


class Load(NamedTuple):
    """A load, the goal by which it is judged, and a description of its figure."""

    name: str
    load: str
    goal: str
    number: str


def loads(n: int) -> list[Load]:
    """The loads on `n` CPUs."""
    busy = f"busy:threads={n},duration=2"
    return [
        Load("hackbench", f"hackbench:groups={max(1, n // 8)},fds=10,loops=50", "throughput", "time"),
        Load("kbuild", f"kbuild:jobs={n},objects={10 * n},serial=1s", "throughput", "time"),
        Load("pipe", f"pipe:pairs={max(1, n // 2)},time=0.05s", "throughput", "time of a round"),
        Load("blackscholes", f"blackscholes:threads={n + 1},scale=10", "throughput", "time"),
        Load("streamcluster", f"streamcluster:threads={n},scale=20", "throughput", "time"),
        Load("schbench", "schbench:time=1s", "latency", "wakeup latency, 99th percentile"),
        Load("mixed", "mixed:duration=2", "latency", "response times, 99th percentile"),
        Load("mixed+busy", f"mixed:duration=2+{busy}", "latency", "response times of `mixed`, beside a busy loop for each CPU, 99th percentile"),
    ]


def own_names(command: Path, peers: list[str]) -> dict[str, str]:
    """The name of each scheduler in messages, for the schedulers whose sources are present."""
    names = {}
    for peer in peers:
        try:
            result = tool.compare(command, "smp-8", "busy:duration=10ms", POLICIES, "--runs", "1", schedulers=[peer])
            names[peer] = result["results"][-1]["policy"]
        except Failed as error:
            print(f"{peer}: {error}", file=sys.stderr)
    return names


def run(command: Path, machine: str, load: Load, names: dict[str, str], runs: int, limit: float) -> Json:
    """The ratio, the missed periods and the failures of a cell, by scheduler, and the best
    schedulers."""
    cell: Json = {"machine": machine, "load": load.name}
    peers, failed = list(names), {}
    while True:
        try:
            result = tool.compare(command, machine, load.load, POLICIES, "--runs", str(runs), "--jobs", "1", "--goal", load.goal,
                                  schedulers=peers, limit=limit)
            break
        except Failed as error:
            named = re.match(r"error: (.+?) on ", str(error))
            fails = [peer for peer in peers if named and names[peer] == named[1]]
            if not fails:
                return cell | {"left_out": str(error)}
            failed[fails[0]] = str(error).split("): ", 1)[-1]
            peers.remove(fails[0])
    verdict = next(verdict for verdict in result["verdict"] if verdict["goal"] == load.goal)
    entries = [entry for entry in result["results"] if entry["metric"] in verdict["measures"] and entry["decides"]]
    higher = all(entry["better"] == "higher" for entry in entries)
    ratios, missed, sure, best = {}, {}, {}, []
    for scheduler, standing in zip(POLICIES + peers, verdict["standings"]):
        change, margin = standing["change_pct"] or 0, standing["change_margin_pct"] or 0
        ratio = 1 + change / 100
        ratios[scheduler] = 1 / ratio if higher else ratio
        missed[scheduler] = standing["share_pct"]
        sure[scheduler] = abs(change) > margin
        if standing["lacks"]:
            failed[scheduler] = f"some runs never reached {standing['lacks']}"
        if standing["policy"] in verdict["best"]:
            best.append(scheduler)
    return cell | {"ratios": ratios, "missed": missed, "sure": sure, "best": best, "failed": failed,
                   "tells_apart": bool(verdict["best"] or verdict["worst"])}


def number(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def shown(cell: Json, scheduler: str) -> str:
    if "left_out" in cell:
        return ""
    if scheduler in cell["failed"]:
        return "fails"
    text = number(cell["ratios"][scheduler])
    if scheduler != POLICIES[0] and not cell["sure"][scheduler]:
        text = f"~{text}"
    if (cell["missed"][scheduler] or 0) >= SHOWN_MISSED:
        text += f" ({cell['missed'][scheduler]:.1f} %)"
    return f"**{text}**" if scheduler in cell["best"] else text


def median(cells: list[Json], scheduler: str) -> str:
    values = [cell["ratios"][scheduler] for cell in cells
              if scheduler in cell.get("ratios", {}) and scheduler not in cell["failed"]]
    return number(statistics.median(values)) if values else ""


def failures(cells: list[Json]) -> Iterator[str]:
    """The failures of a machine's cells: the scheduler, the loads, and the message."""
    loads_of: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for scheduler, what in cell.get("failed", {}).items():
            loads_of.setdefault((scheduler, what), []).append(cell["load"])
    for (scheduler, what), names in loads_of.items():
        under = "all loads" if len(names) == len(cells) else ", ".join(names)
        yield f"- `{scheduler}` under {under}: {what}"
    yield from (f"- {cell['load']}: {cell['left_out']}" for cell in cells if "left_out" in cell)


def page(by_machine: dict[str, list[Json]], schedulers: list[str], versions: dict[str, str], runs: int) -> Iterator[str]:
    yield "# Published schedulers on six machines"
    yield ""
    yield prose("This page compares the published schedulers that `--scheduler NAME` finds with today's Linux (`eevdf`) "
                f"and `equipoise`, in {runs} runs per cell. `make field` writes this page. Each scheduler has the defaults "
                "of its loader; `peers/` names the parts of a loader that are left out. Decisions take no simulated time.")
    yield ""
    yield prose("A number is a ratio to `eevdf`; less is better. **Bold** marks the best scheduler of a column and those "
                "that do not differ from it significantly. `~` marks a ratio that does not differ from 1 significantly. A "
                f"percentage is the share of periods missed, shown from {SHOWN_MISSED} % on.")
    yield ""
    yield from markdown([["load", "as on eight CPUs", "number"],
                         *([load.name, f"`{load.load}`", load.number] for load in loads(8))])
    yield ""
    yield prose("The loads grow with the number of CPUs. Schbench would dominate a geometric mean, because its "
                "wakeups wait for milliseconds under `eevdf` and for microseconds under most other schedulers; the first "
                "table therefore has medians.")
    yield ""
    yield "## Medians of the eight ratios"
    yield ""
    yield from markdown([["scheduler", *(f"`{machine}`" for machine in by_machine)],
                         *([f"`{scheduler}`" + (f" {versions[scheduler]}" if scheduler in versions else ""),
                            *(median(cells, scheduler) for cells in by_machine.values())] for scheduler in schedulers)])
    yield ""
    yield "Cells in which a scheduler fails do not count."
    yield ""
    yield from (prose(f"- `{scheduler}`: {remark}", "  ") for scheduler, remark in REMARKS.items()
                if scheduler in schedulers)
    for machine, cells in by_machine.items():
        yield ""
        yield f"## {machine}"
        yield ""
        yield from markdown([["scheduler", *(cell["load"] for cell in cells)],
                             *([f"`{scheduler}`", *(shown(cell, scheduler) for cell in cells)] for scheduler in schedulers)])
        same = [cell["load"] for cell in cells if "left_out" not in cell and not cell["tells_apart"]]
        if same:
            yield ""
            yield prose(f"This comparison cannot tell the schedulers apart under {', '.join(same)}.")
        alike = [f"{cell['load']} ({len(cell['best'])} of {len(cell['ratios'])})" for cell in cells
                 if "left_out" not in cell and 2 * len(cell["best"]) > len(cell["ratios"])]
        if alike:
            yield ""
            yield prose(f"More than half of the schedulers are among the best under {', '.join(alike)}: this comparison "
                        "cannot tell these apart.")
        notes = list(failures(cells))
        if notes:
            yield ""
            yield from (prose(note, "  ") for note in notes)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--runs", type=positive, default=5, help="runs of each cell (default: %(default)s)")
    options.add_argument("--jobs", type=positive, default=len(os.sched_getaffinity(0)), help="cells at a time")
    options.add_argument("--machine", action="append", choices=MACHINES, help="only this machine; may be repeated")
    options.add_argument("--limit", type=float, default=240, help="seconds that a cell may take (default: %(default)s)")
    options.add_argument("--cells", type=Path, default=PROJECT / "target/field.jsonl",
                         help="a file with a line for each cell (default: target/field.jsonl)")
    options.add_argument("--out", type=Path, default=PROJECT / "docs/field.md", help="the page (default: docs/field.md)")
    args = options.parse_args()
    command = tool.equipoise()
    # A scheduler whose sources are still missing fails with a message later.
    subprocess.run([command, "scheduler", "fetch"], stdout=subprocess.DEVNULL)
    peers = tomllib.loads((PROJECT / "peers/peers.toml").read_text())
    names = own_names(command, list(peers))
    versions = {}
    for peer, entry in peers.items():
        version = re.match(r"(?:scx_\w+|linux)-([\d.]+)", entry["folder"])
        assert version, f"{peer}: its folder has no version"
        versions[peer] = ("Linux " if entry["folder"].startswith("linux") else "") + version[1]
    jobs = {(machine, load.name): (machine, load) for machine in args.machine or MACHINES for load in loads(cpus_of(machine))}
    work = dict(sorted(jobs.items(), key=lambda job: -cpus_of(job[0][0])))
    cells = {(cell["machine"], cell["load"]): cell
             for cell in measured(args.cells, work, args.jobs, lambda job: [run(command, *job, names, args.runs, args.limit)])}
    by_machine: dict[str, list[Json]] = {}
    for machine, load in jobs:
        by_machine.setdefault(machine, []).append(cells[machine, load])
    args.out.write_text("\n".join(page(by_machine, POLICIES + list(names), versions, args.runs)) + "\n")


if __name__ == "__main__":
    run_main(main)
