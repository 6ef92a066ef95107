"""Tests the goals of the policy `equipoise` in simulation, bar by bar.

Runs the experiments of the TABLES and further comparisons, and prints a line for each bar: the measure, its ratio to the reference (above 1 is worse), the bar, and whether it is met. The command's output stays in target/bars/,
as JSON. If $EQUIPOISE names the command, it is not built."""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.command import PROJECT, Json, ask, compare, equipoise, one_of, parser, positive, run_main
from tools.figures import Cell, columns

OUT = PROJECT / "target/bars"
MIXES = ["alltests", "compute", "custom", "disk", "fserver", "high_systime", "new_fserver", "shared", "short"]


@dataclass(frozen=True)
class Bar:
    """A figure, its reference, and the factor by which the figure may be worse."""

    what: str
    value: float
    against: str
    base: float
    better: str | None
    most: float

    @property
    def ratio(self) -> float:
        """The factor by which the value is worse than the base, where 1 means equal. A measure without a better
        direction, such as watts, counts as a cost."""
        if not self.base:
            return 1 if not self.value else math.inf
        return round(self.base / self.value if self.better == "higher" else self.value / self.base, 3)

    @property
    def met(self) -> bool:
        return self.ratio <= self.most


@dataclass(frozen=True)
class Row:
    """The figures of a table's row by policy."""

    name: str
    better: str | None
    limit: float | None
    of: dict[str, float]

    def against(self, mine: str, theirs: Iterable[str], most: float) -> Iterator[Bar]:
        """The policy `mine` compared with the best of `theirs`."""
        known = [policy for policy in theirs if policy in self.of]
        if mine in self.of and known:
            base = (max if self.better == "higher" else min)(known, key=self.of.__getitem__)
            yield Bar(f"{self.name}, {mine}", self.of[mine], base, self.of[base], self.better, most)

    def limited(self, what: str, better: str | None, most: float) -> Iterator[Bar]:
        """The policy `equipoise` compared with the best possible value."""
        if self.limit and "equipoise" in self.of:
            yield Bar(what, self.of["equipoise"], "limit", self.limit, better, most)


class Results:
    """The output of `reproduce` and `compare` for one table."""

    def __init__(self, files: list[Json]) -> None:
        rows: dict[tuple[str, str, str], list[Json]] = {}
        cells = [cell for file in files for experiment in file.get("experiments", []) for cell in experiment["cells"]]
        for cell in cells:
            if cell["simulated"] is not None:
                rows.setdefault((cell["block"], cell["row"], cell["stat"]), []).append(cell)
        self.rows = [Row(f"{block}: {row} {stat}", of[0]["better"], of[0]["limit"],
                         {cell["policy"]: cell["simulated"] for cell in of}) for (block, row, stat), of in sorted(rows.items())]
        self.comparisons = [file for file in files if "results" in file]

    def averages(self, pattern: str = "") -> Iterator[Row]:
        return (row for row in self.rows if row.name.endswith(" avg") and re.search(pattern, row.name))

    def compared(self, metric: str) -> Iterator[Row]:
        for file in self.comparisons:
            of = [entry for entry in file["results"] if entry["metric"] == metric]
            if of:
                yield Row(file["name"], of[0]["better"], of[0]["limit"], {entry["policy"]: entry["mean"] for entry in of})


def mixed_capacity(found: Results) -> Iterator[Bar]:
    for row in found.compared("time"):
        yield from row.limited(f"{row.name} threads", "lower", 1.006)
    for row in found.averages("hackbench|cyclictest"):
        yield from row.against("equipoise", ["capacity"], 1)


def hperf_hmp(found: Results) -> Iterator[Bar]:
    for row in found.averages("_avg avg$"):
        yield from row.against("equipoise", ["hperf"], 1)
    for row in found.compared("spread"):
        most = 1 if int(row.name.split()[1]) <= 8 else 2
        yield Bar(f"{row.name}: spread, %", row.of["equipoise"], "bar", most, "lower", 1)
    for row in found.compared("work"):
        yield from row.against("equipoise", ["hperf"], 1.01)


def utilization_tracking(found: Results) -> Iterator[Bar]:
    for row in found.rows:
        if re.search(" avg$|latency (max|p95)", row.name):
            yield from row.against("equipoise", ["schedutil"], 1)


def power_aware(found: Results) -> Iterator[Bar]:
    for row in found.averages():
        if row.name.startswith("busy"):
            yield from row.against("equipoise-power", ["powersaving"], 1)
        if "seconds" in row.name:
            yield from row.against("equipoise-performance", ["cfs"], 1)
        if "perf/W" in row.name:
            yield from row.against("equipoise", ["cfs", "powersaving"], 1)
            yield from row.against("equipoise-power", ["cfs", "powersaving"], 1)
        if re.search("hackbench|specjbb", row.name):
            yield from row.against("equipoise", ["cfs"], 1.02)


def idle_balance_limit(found: Results) -> Iterator[Bar]:
    for row in found.compared("jobs"):
        yield from row.against("equipoise", ["cfs", "newidle-limit"], 1.01)


TABLES: dict[str, Callable[[Results], Iterator[Bar]]] = {
    "mixed-capacity": mixed_capacity, "utilization-tracking": utilization_tracking, "power-aware": power_aware,
    "hperf-hmp": hperf_hmp, "idle-balance-limit": idle_balance_limit,
}


def bars(table: str, found: Results) -> Iterator[Bar]:
    yield from TABLES[table](found)
    for row in found.averages():
        yield from row.limited(f"{row.name}, equipoise", row.better, 1.01)
    for row in [*found.averages(), *found.compared("jobs")]:
        yield from row.against("equipoise", ["eevdf"], 1.02)


def more_of(table: str) -> Iterator[tuple[Any, ...]]:
    """Comparisons that are not in the experiments, each with a name, machine, load, policies, and options."""
    if table == "mixed-capacity":
        for threads in range(1, 7):
            yield f"sysbench {threads}", "tc2", f"sysbench-cpu:threads={threads}", ["capacity", "equipoise"]
    if table == "hperf-hmp":
        for threads in (5, 6, 7, 8, 9, 10, 12, 16, 24, 32):
            yield f"busy {threads}", "odroid-xu3", f"busy:threads={threads},duration=10", ["hperf", "equipoise"]
    if table == "idle-balance-limit":
        # These are the experiment's rows, but as numbers and not as changes relative to one policy.
        for nodes in ("0-7", "0", "0-1", "0-3"):
            for machine in ("hp-8s-80c", "hp-8s-80c-ht"):
                for mix in MIXES:
                    yield (f"{mix}, nodes {nodes}, {machine}", machine, f"aim7-{mix}",
                           ["cfs", "newidle-limit", "eevdf", "equipoise"], "--cpunodebind", nodes)


def run(command: Path, table: str, runs: int) -> None:
    """Runs the command, and leaves its output in OUT."""
    folder = OUT / table
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if table != "idle-balance-limit":
        (folder / "experiment.json").write_text(json.dumps(ask(command, "reproduce", table, "--runs", str(runs))))
    for name, *of in more_of(table):
        result = compare(command, *of, "--runs", str(runs))
        (folder / f"compare-{name}.json").write_text(json.dumps(result | {"name": name}))


def lines(table: str, found: Results) -> list[list[Cell]]:
    of = list(bars(table, found))
    rows: list[list[Cell]] = [[f"{table}: {sum(bar.met for bar in of)} of {len(of)} bars met"]]
    for bar in sorted(of, key=lambda bar: (bar.met, -bar.ratio / bar.most)):
        rows.append([f"  {bar.what}", round(bar.value, 4), bar.against, round(bar.base, 4), bar.ratio, f"<= {bar.most}",
                     "met" if bar.met else "MISSED"])
    return rows


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--runs", type=positive, default=20, help="runs of each (default: %(default)s)")
    options.add_argument("--show", action="store_true", help="run nothing, and show the output in target/bars/")
    options.add_argument("tables", nargs="*", metavar="TABLE", type=one_of(TABLES), help=f"{', '.join(TABLES)} (default: all)")
    args = options.parse_args()
    tables = args.tables or list(TABLES)
    if not args.show:
        command = equipoise()
        for table in tables:
            run(command, table, args.runs)
    rows: list[list[Cell]] = []
    for table in tables:
        files = [json.loads(path.read_text()) for path in sorted((OUT / table).glob("*.json"))]
        if files:
            rows += lines(table, Results(files))
    print(columns(rows) if rows else "no output in target/bars/")


if __name__ == "__main__":
    run_main(main)
