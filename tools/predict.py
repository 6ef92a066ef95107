"""Measures schedulers in a guest, and tests whether the simulator predicts their ratios to EEVDF.

Boots a guest that calibrates itself as a machine under EEVDF. Another guest measures EEVDF and each
SCHEDULER (tools.bench) with these loads: hackbench with 80 and 320 processes, perf bench sched
pipe, a load like schbench's, sysbench with a mutex, and make over small C files. It also measures
the costs of the schedulers' callbacks. The simulator then predicts the results: the machine file
has the calibrated costs and those of the callbacks, and each load has the work with which simulated
EEVDF takes as long as the real one. Prints for each load and scheduler the measured and the
predicted ratio to EEVDF, and the error. Also prints the rank correlation of the two ratios for each load,
and of the pairs of schedulers that differ by over 10 %, how many have the right order.

Foreign schedulers need their sources (equipoise scheduler fetch). Wrong predictions are no failure: exit status 1 means
that a load could not be measured or simulated, or that its work was not found."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from tools import guest
from tools.bench import add_peers, measure
from tools.command import Failed, Json, Workload, compare, equipoise, run_main
from tools.figures import Cell, columns, fit, rank_correlation

#: The callbacks for which a machine file has costs.
CALLBACKS = ["select_cpu", "enqueue", "dequeue", "dispatch", "tick", "runnable", "running", "stopping", "quiescent", "yield",
             "update_idle", "set_weight", "init_task", "exit_task", "enable", "disable", "sched_switch"]
#: The time in ns that the kernel's measuring adds to a call.
MEASURING_NS = 52
#: The time of a switch with its wakeup, at 1 ns per instruction, in the fair class of Linux 7.3.4, and in sched_ext
#: without the callbacks. A plugin of QEMU counted the instructions by function in hackbench with 320 processes.
CLASSES = "fair_class_ns = 3270\next_class_ns = 1840"
#: A benchmark, a scheduler, and its measured and predicted ratio to EEVDF.
Ratio = tuple[str, str, float, float]


@dataclass(frozen=True)
class Model:
    """The load of a benchmark with a given work in us; the metric, and, if more is better, the number that is
    divided by the metric; and two amounts of work with which the search begins."""

    load: Callable[[float], Workload]
    metric: str = "time"
    per: float | None = None
    low: float = 1
    high: float = 100


def models(cpus: int, write: float, read: float) -> dict[str, Model]:
    """The models by benchmark. If hackbench's messages cost more to write than to read, each wakeup is for one message;
    otherwise, the sockets fill. This ratio is therefore measured."""

    def hackbench(groups: int, loops: int) -> Model:
        return Model(lambda work: f"hackbench:groups={groups},loops={loops},write_work={write * work:.4f},"
                     f"read_work={read * work:.4f}", low=0.001, high=0.003)

    # rt-app's times are whole microseconds.
    return {
        "hackbench": hackbench(2, 400),
        "hackbench-g8": hackbench(8, 100),
        "pipe": Model(lambda work: f"pipe:time=500ms,client_work={work:.4f},server_work={work:.4f}", "throughput", 1e6),
        "schbench-request": Model(lambda work: f"schbench:workers={cpus},work={work:.4f}", "requests", 1e6),
        "mutex": Model(lambda work: {"tasks": {"thread": {"instance": 2 * cpus, "loop": 600 // cpus, "run": round(work),
                                                          "lock": "mutex", "unlock": "mutex"}}}),
        "compile": Model(lambda work: f"kbuild:jobs={2 * cpus},objects=12,serial=0,io=0,compile={work:.4f}",
                         low=1000, high=100000),
    }


def short(scheduler: str) -> str:
    """The name of a scheduler in a comparison."""
    return scheduler.removeprefix("equipoise:").removeprefix("scx_")


def machine_file(calibrated: str, bench: Json, schedulers: Iterable[str], cpus: int) -> str:
    """The machine file of the guest, whose CPUs take turns on one CPU of the host, with the costs of the callbacks.
    These costs were measured under hackbench, under which all CPUs are busy and take turns."""
    # Kept calibrations of earlier versions do not have the number of the host's CPUs.
    text = calibrated if "\nhost_cpus = " in calibrated else re.sub(r"^hz = .*$", r"\g<0>\nhost_cpus = 1", calibrated, flags=re.M)
    text = re.sub(r"^refill_far_ns.*$", rf"\g<0>\n{CLASSES}", text, flags=re.M)
    for scheduler in schedulers:
        text += f'\n[callbacks.{short(scheduler)}]\nsource = "tools.bench --callbacks"\n'
        for of in bench["callbacks"]:
            name = re.sub(r"^[a-z0-9]+_", "", of["callback"])
            if of["scheduler"] == scheduler and name in CALLBACKS:
                text += f"{name} = {round(max(0, of['ns_per_call'] / cpus - MEASURING_NS))}\n"
    return text


def simulated(command: Path, machine: Path, model: Model, work: float, policies: list[str], schedulers: Iterable[str] = ()
              ) -> dict[str, tuple[float, float | None]]:
    """The result of the load under each scheduler, in the measured unit, and the p99 of wakeup latencies, if the load
    has it."""
    result = compare(command, machine, model.load(work), policies, "--all", "--runs", "3", schedulers=schedulers)
    means = {(of["policy"], of["metric"]): of["mean"] for of in result["results"]}
    return {policy: (model.per / value if model.per else value, means.get((policy, "wakeup_p99")))
            for (policy, metric), value in means.items() if metric == model.metric}


def ratios(command: Path, machine: Path, bench: Json, all_models: dict[str, Model], schedulers: list[str]
           ) -> tuple[list[Ratio], list[str]]:
    """All ratios, and a message for each load for which no work makes simulated EEVDF take as long as the real one."""
    measured = {(of["benchmark"], of["scheduler"]): of["median"] for of in bench["results"]}
    found: list[Ratio] = []
    unfitted = []
    policies = ["eevdf", *(short(name) for name in schedulers if name.startswith("equipoise:"))]
    foreign = [name for name in schedulers if not name.startswith("equipoise:")]
    for benchmark, model in all_models.items():
        target = measured[benchmark, "eevdf"]
        try:
            work, error = fit(lambda work: simulated(command, machine, model, work, ["eevdf"])["eevdf"][0], target, model.low,
                              model.high)
        except Failed as failed:
            raise Failed(f"{benchmark}: no work for the measured {target:g}: {failed}") from None
        if abs(error) >= 0.005:
            unfitted.append(f"{benchmark}: the search for its work has not converged: with {work:g} us simulated EEVDF is "
                            f"{100 * error:+.1f} % off the measured {target:g}; its ratios are those at this work")
        predicted = simulated(command, machine, model, work, policies, foreign)
        for name, index in (benchmark, 0), ("schbench-wakeup-p99", 1):
            if benchmark not in (name, "schbench-request"):
                continue
            for scheduler in schedulers:
                own, base = predicted[short(scheduler)][index], predicted["eevdf"][index]
                assert own is not None and base is not None, f"no p99 of wakeups with {benchmark}"
                found.append((name, scheduler, measured[name, scheduler] / measured[name, "eevdf"], own / base))
    return found, unfitted


def differ(a: float, b: float) -> bool:
    return abs(a / b - 1) > 0.1 or abs(b / a - 1) > 0.1


def tables(found: list[Ratio]) -> Iterable[str]:
    rows: list[list[Cell]] = [["benchmark", "scheduler", "measured", "predicted", "error"]]
    rows += [[benchmark, scheduler, f"{real:.3f}", f"{shown:.3f}", f"{100 * (shown / real - 1):+.1f} %"]
             for benchmark, scheduler, real, shown in found]
    yield columns(rows)
    yield ""
    correlations: list[list[Cell]] = [["benchmark", "rank correlation"]]
    right = []
    for benchmark in dict.fromkeys(ratio[0] for ratio in found):
        # EEVDF is one of the schedulers, at a ratio of 1.
        of = [(1.0, 1.0), *((real, shown) for name, _, real, shown in found if name == benchmark)]
        correlations.append([benchmark, f"{rank_correlation(*zip(*of)):.2f}"])
        right += [(a < b) == (x < y) for (a, x), (b, y) in combinations(of, 2) if differ(a, b)]
    yield columns(correlations)
    yield ""
    error = sum(abs(shown / real - 1) for _, _, real, shown in found) / len(found)
    yield (f"mean error {100 * error:.1f} %; of {len(right)} pairs that differ by over 10 %, {sum(right)} in the right order")


def main() -> int:
    options = guest.options(__doc__, "7.3.4", 3)
    guest.keep_options(options)
    options.add_argument("--json", metavar="FILE", type=Path, help='write the table to FILE, too: an array of {"benchmark", '
                         '"scheduler", "measured", "predicted"}, ratios of times or latencies to EEVDF\'s')
    options.add_argument("schedulers", nargs="*", metavar="SCHEDULER", help="as for tools.bench (default: equipoise:equipoise, "
                         "and those of vm/peers.sh that are installed)")
    args = options.parse_args()
    command = equipoise()
    add_peers(os.path.expanduser("~/.cache/equipoise/peers/bin"))
    schedulers = args.schedulers or ["equipoise:equipoise", *guest.installed_peers()]
    with guest.kept(args) as out:
        if not args.judge:
            # As in tools.bench: one CPU of the host executes the guest's CPUs in turn.
            calibrate = ("cc -O2 -o /tmp/stream vm/in-guest/stream.c && /tmp/stream >/out/stream && "
                         f"cd /tmp && '{command}' machine calibrate --force >/out/machine.toml")
            for line in guest.boot("sh", "-c", calibrate, kernel=args.kernel, cpus=args.cpus, clock="icount=1", turn=20,
                                   out=out):
                print(line, end="", file=sys.stderr)
            bench = measure(["eevdf", *schedulers], kernel=args.kernel, cpus=args.cpus, rounds=args.rounds,
                            only="hackbench,hackbench-g8,pipe,schbench,mutex,compile")
            (out / "bench.json").write_text(json.dumps(bench, indent=2))
        bench = json.loads((out / "bench.json").read_text())
        write, read = map(float, (out / "stream").read_text().split())
        machine = out / "predicted.toml"
        machine.write_text(machine_file((out / "machine.toml").read_text(), bench, schedulers, args.cpus))
        found, unfitted = ratios(command, machine, bench, models(args.cpus, write, read), schedulers)
    if args.json:
        keys = ("benchmark", "scheduler", "measured", "predicted")
        args.json.write_text(json.dumps([dict(zip(keys, ratio)) for ratio in found], indent=2) + "\n")
    print(*tables(found), sep="\n")
    for message in unfitted:
        print(f"tools.predict: {message}", file=sys.stderr)
    return 1 if unfitted else 0


if __name__ == "__main__":
    run_main(main)
