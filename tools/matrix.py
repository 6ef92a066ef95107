"""Compares `equipoise` with `eevdf` for all machines and loads, and prints the measures that are worse.

A line that ends with (mixed) belongs to a cell in which another measure is better. With --load, only loads whose names
contain all of the words are run. Cells that are already in the file of --out are not run again. If $EQUIPOISE names the
command, it is not built.

The command's verdict (crates/lab/src/verdict.rs) judges each measure that decides a goal, the further measures that a
load of this file names, energy for the same work, and threads that stall. Energy does not count in a cell in which
another measure is better. The folder tests/loads has loads as rt-app files, each of which runs on every machine that
has its CPUs, 20 times or more."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tools import command as tool
from tools.command import PROJECT, Failed, Json, cpus_of, measured, parser, positive, run_main, stored

LOADS = PROJECT / "tests/loads"
#: The least number of runs of these loads, because some have two outcomes.
LOAD_RUNS = 20
#: The settings that --settings tries; scheduler/equipoise/settings.def has the defaults.
SETTINGS = ["slice_ns=1500000", "lag_ns=0", "preempt_after_ns=0", "unfairness_ns=1000000", "unfairness_ns=50000000",
            "sync_burst_ns=0", "prefer=performance", "prefer=power"]


class Load(NamedTuple):
    """A load: a built-in one or the content of an rt-app file, with measures that count in addition to the deciding
    ones."""

    name: str
    text: Json | None = None
    extra: tuple[str, ...] = ()


def rt_app(duration: int, **tasks: Json) -> Json:
    return {"tasks": {name: {"loop": -1, **task} for name, task in tasks.items()}, "global": {"duration": duration}}


def custom_loads(n: int) -> Iterator[Load]:
    """Loads that `equipoise` once starved or delayed, on `n` CPUs."""
    spin = {"run": 1000}
    nap = {"run": 200, "sleep": 20}
    thread: Json = {"run": 500, "timer": {"ref": "unique", "period": 50000}}
    frame: Json = {"run": 1000, "timer": {"ref": "unique", "period": 16100}}
    late = ("thread/wu_lat",)
    yield Load("nap-beside-spinners", rt_app(3, nap={"instance": 3, **nap}, spin={"instance": n, **spin}))
    yield Load("nap-beside-nice-19", rt_app(3, nap={"instance": 3, **nap}, spin={"instance": n, "priority": 19, **spin}))
    yield Load("many-naps", rt_app(3, nap={"instance": 4 * n, "run": 300, "sleep": 400}))
    for times in (3, 8):
        yield Load(f"thread-among-{times}n", rt_app(4, thread=thread, spin={"instance": times * n, **spin}), late)
    yield Load("one-nice-19-among-6n", rt_app(5, spin={"instance": 6 * n, **spin}, light={"priority": 19, **spin}),
               ("longest_wait",))
    for times in (2, 4):
        yield Load(f"frames-among-{times}n", rt_app(4, thread=frame, spin={"instance": times * n, **spin}), late)
    yield Load("frames-beside-nice-19", rt_app(4, thread=frame, spin={"instance": 2 * n, "priority": 19, **spin}), late)
    yield Load("3n-spinners", rt_app(4, spin={"instance": 3 * n, **spin}))
    for path in sorted(LOADS.glob("*.json")):
        load = json.loads(path.read_text())
        phases = [of for task in load["tasks"].values() for of in [task, *task.get("phases", {}).values()]]
        if all(cpu < n for of in phases for cpu in of.get("cpus", [])):
            yield Load(path.stem, load, ("longest_wait",))


def stock_loads(n: int) -> Iterator[str]:
    pairs = max(1, n // 4)
    yield from ("audio", "heavy-and-light", "mixed", "pipeline", "ramp", "rt-and-fair", "spinners")
    yield from (f"busy:threads={t},duration=3" for t in sorted({max(1, n // 2), n, n + 1, 2 * n}))
    yield from (f"hackbench:groups={g},fds=10,loops=200" for g in sorted({1, max(1, n // 4)}))
    yield from (f"netperf:pairs={p}" for p in sorted({pairs, n}))
    yield f"netperf:pairs={n}+busy:threads={n}"
    yield from (f"tbench:pairs={p}" for p in sorted({pairs, n}))
    yield from (f"sysbench-cpu:threads={t}" for t in sorted({1, max(1, n // 2), n}))
    yield from (f"kbuild:jobs={j},objects=100" for j in sorted({max(1, n // 2), n, 2 * n}))
    yield f"streamcluster:threads={n},scale=10"
    yield f"streamcluster:threads={n + 1},scale=10"
    yield f"bodytrack:threads={n},scale=10"
    yield f"blackscholes:threads={n + 1},scale=10"
    yield f"specjbb:warehouses={n},duration=2"
    yield f"cyclictest:duration=2+busy:threads={n}"


def measures(result: Json, extra: tuple[str, ...]) -> Iterator[Json]:
    """The entries of the last policy that count, which are those of the deciding measures, and of the measures that
    `extra` names."""
    last = result["results"][-1]["policy"]
    for entry in result["results"]:
        if entry["policy"] == last and (entry["decides"] and not entry["part"] or entry["metric"] in extra):
            yield entry


def compare(command: Path, machine: str, load: Load, policies: list[str], runs: int, limit: float | None = None) -> Json:
    if (LOADS / f"{load.name}.json").exists():
        runs = max(runs, LOAD_RUNS)
    return tool.compare(command, machine, load.text or load.name, policies, "--runs", str(runs), limit=limit)


def run(command: Path, machine: str, load: Load, runs: int, limit: float | None, policy: str = "equipoise") -> list[Json]:
    """The lines of a cell: one for each measure, or the error."""
    of_cell: Json = {"machine": machine, "load": load.name}
    try:
        result = compare(command, machine, load, ["eevdf", policy], runs, limit)
    except Failed as error:
        return [of_cell | {"error": str(error)}]
    cells = []
    first, second = (result["counters"][index]["policy"] for index in (0, 1))
    before = {entry["metric"]: entry[entry["judged"]] for entry in result["results"] if entry["policy"] == first}
    energy: Any = next((of for of in result["verdict"] if of["goal"] == "energy"), None)

    def add(measure: str, worse: float, margin: float | None, unit: str, said: str, eevdf: float, equipoise: float,
            is_energy: bool = False) -> None:
        cells.append(of_cell | {"measure": measure, "points": unit == "points", "eevdf": eevdf, "equipoise": equipoise,
                                "worse": round(worse, 2), "margin": margin and round(margin, 2), "verdict": said,
                                "energy": is_energy})

    for entry in measures(result, load.extra):
        metric, value = entry["metric"], entry[entry["judged"]]
        against = entry["against_first"]
        if entry["goal"] == "energy":
            standing = energy["standings"][1]
            best, worst = energy["best"], energy["worst"]
            said = "better" if second in best and first not in best else "worse" if worst == second else "same"
            add(metric, standing["change_pct"] or 0, standing["change_margin_pct"], "%", said, before[metric], value, True)
        elif against:
            add(metric, against["worse"], against["margin"], against["unit"], against["verdict"], before[metric], value)
        elif None in entry["runs"] and before[metric] is not None:
            # Some thread never completed the work that this metric measures.
            add(metric, 0, None, "%", "worse", before[metric], value or 0)
    stalled = [sum(of["runs"] for of in result["stalled"] if of["policy"] == policy) / result["runs"]
               for policy in (first, second)]
    if any(stalled):
        more = stalled[1] - stalled[0]
        said = "worse" if more >= 0.5 else "better" if more <= -0.5 else "same"
        add("stalled threads", more, None, "points", said, *stalled)
    return cells


def verdict(cell: Json, missed: bool) -> str:
    return "same" if cell["energy"] and missed else str(cell["verdict"])


def judged(cells: list[Json]) -> Iterator[tuple[list[Json], list[str]]]:
    """The measures of each cell without an error, and the verdicts on them in the same order."""
    by_cell: dict[tuple[str, str], list[Json]] = {}
    for cell in cells:
        if "error" not in cell:
            by_cell.setdefault((cell["machine"], cell["load"]), []).append(cell)
    for of in by_cell.values():
        missed = any(cell["verdict"] == "better" and not cell["energy"] for cell in of)
        yield of, [verdict(cell, missed) for cell in of]


def lines(cells: list[Json]) -> Iterator[str]:
    counts = {"better": 0, "same": 0, "mixed": 0, "worse": 0}
    worse: list[Json] = []
    for of, said in judged(cells):
        kinds = set(said) - {"same"}
        counts["mixed" if len(kinds) > 1 else min(kinds, default="same")] += 1
        worse += [cell | {"mixed": len(kinds) > 1} for cell, is_ in zip(of, said) if is_ == "worse"]
    for cell in sorted(worse, key=lambda cell: (cell["mixed"], cell["points"], -cell["worse"])):
        margin = "" if cell["margin"] is None else f" ± {cell['margin']:.1f}"
        what = f"{cell['worse']:+.1f}{margin} {'points' if cell['points'] else '%'}"
        yield (f"{cell['machine']:15} {cell['load']:44} {cell['measure'][:28]:28} {cell['eevdf']:12.4g} "
               f"{cell['equipoise']:12.4g}  {what}" + ("  (mixed)" if cell["mixed"] else ""))
    for cell in cells:
        if "error" in cell:
            yield f"{cell['machine']:15} {cell['load']:44} {cell['error']}"
    yield f"{sum(counts.values())} cells: " + ", ".join(f"{kind} {count}" for kind, count in counts.items())


def undo(command: Path, machine: str, load: Load, worse: set[str], runs: int, limit: float | None) -> None:
    """Prints the settings with which none of the measures `worse` of a cell is worse."""

    def undoes(setting: str) -> bool:
        again = [cell for cell in run(command, machine, load, runs, limit, f"equipoise:{setting}")
                 if cell.get("measure") in worse]
        return bool(again) and all(cell["verdict"] != "worse" for cell in again)

    names = [setting for setting in SETTINGS if undoes(setting)]
    print(f"{machine:15} {load.name:44} {', '.join(sorted(worse)):28} {', '.join(names) or 'none'}", flush=True)


def work_of(machines: list[str], words: list[str], rows: bool) -> dict[tuple[str, str], tuple[str, Load]]:
    """The machine and the load of every cell."""
    work = {}
    for machine in machines or sorted((path.stem for path in (PROJECT / "machines").glob("*.toml")), key=cpus_of):
        n = cpus_of(machine)
        for load in [*custom_loads(n), *([] if rows else map(Load, stock_loads(n)))]:
            if all(word in load.name for word in words):
                work[machine, load.name] = machine, load
    return work


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--runs", type=positive, default=8, help="runs of each cell (default: %(default)s)")
    options.add_argument("--limit", type=float, help="seconds that a cell may take; a cell that takes longer is an error")
    options.add_argument("--jobs", type=positive, default=1, help="cells at a time")
    options.add_argument("--rows", action="store_true", help="only the loads that `equipoise` once starved or delayed")
    options.add_argument("--show", action="store_true", help="run nothing, and judge the content of the file of --out")
    options.add_argument("--settings", action="store_true", help="run each cell of the file that has a worse measure again with "
                         "other settings of `equipoise`, one at a time, and print those with which none of these is worse")
    options.add_argument("--machine", action="append", default=[], help="only this machine; may be repeated")
    options.add_argument("--load", metavar="WORD", action="append", default=[])
    options.add_argument("--out", type=Path, default=PROJECT / "target/matrix.jsonl",
                         help="a file with a line for each measure of each cell (default: target/matrix.jsonl)")
    args = options.parse_args()
    if args.show:
        print(*lines(stored(args.out)), sep="\n")
        return
    command = tool.equipoise()
    work = work_of(args.machine, args.load, args.rows)
    if args.settings:
        worse = {(of[0]["machine"], of[0]["load"]): {cell["measure"] for cell, is_ in zip(of, said) if is_ == "worse"}
                 for of, said in judged(stored(args.out))}
        keys = [key for key, measures in worse.items() if measures and key in work]
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(lambda key: undo(command, *work[key], worse[key], args.runs, args.limit), keys))
        return
    print(*lines(measured(args.out, work, args.jobs, lambda of: run(command, *of, args.runs, args.limit))), sep="\n")


if __name__ == "__main__":
    run_main(main)
