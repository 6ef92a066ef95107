"""Counts the instructions that a switch takes in the kernel, under several schedulers, and writes docs/costs.md, or
with --peers docs/costs-of-peers.md.

Boots a guest of each kernel with a plugin of QEMU (vm/cost), and runs each load under each scheduler. The plugin
counts instructions by chain of calls; this tool adds them up by part of the scheduler, and divides the sums by
the number of switches. --judge DIR judges again, without a guest, the files that the plugin left in --keep
DIR."""

import json
import os
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools import guest
from tools.command import PROJECT, Json, parser, positive, run_main
from tools.figures import markdown, prose

KERNELS = ["ours-6.12", "7.3.4"]
LOADS = {"pipe": "`perf bench sched pipe`: two tasks that answer each other",
         "hackbench": "`hackbench -g 2`: 80 processes that exchange messages",
         "schbench": "`vm/in-guest/schbench.c`: tasks that sleep for 100 us, one for each CPU",
         "busy": "slices that end: three busy loops for each CPU"}
OPS = ["select_cpu", "enqueue", "dequeue", "dispatch", "runnable", "running", "stopping", "quiescent", "tick", "yield",
       "update_idle", "cpu_acquire", "cpu_release", "set_cpumask", "set_weight", "init_task", "exit_task", "enable", "disable"]
# The functions with which a part begins, by part. The names of a class's methods contain the name of the class.
CORE = re.compile(r"__schedule|try_to_wake_up|sched_ttwu_pending|sched_tick|ttwu_.*|wake_up_new_task|sched_exec|resched_curr|"
                  r"preempt_schedule.*|schedule_idle|sched_balance_softirq|sched_balance_trigger")
PARTS = [("switch", re.compile(r"__switch_to(_asm)?|switch_mm_irqs_off|finish_task_switch.*|switch_fpu_return")),
         ("fair", re.compile(r".*_fair(_\w+)?(\..*)?")),
         ("sched_ext", re.compile(r".*_scx(\..*)?|scx_.*|balance_one.*|do_pick_task_scx.*")),
         ("core", CORE)]
INTERRUPT = re.compile(r"asm_(sysvec|common|exc|fred)_?.*|asm_.*interrupt.*")
IPI = re.compile(r"asm_sysvec_(reschedule_ipi|call_function.*)")
LOCK = re.compile(r"_?_?raw_spin_.*|raw_spin_rq_.*|native_queued_spin_.*|queued_spin_.*|task_rq_lock|__task_rq_lock")
PROGRAM = re.compile(r"bpf_prog_[0-9a-f]{16}_?(.*)")
# The number of instructions per switch from which a callback or a kfunc that it calls is in a table; for a function of
# sched_ext it is twice this number.
SHOWN = 8


class Node(NamedTuple):
    """A chain of calls."""

    name: str
    part: str
    callback: str
    #: The kernel's function that a callback calls, if this chain is below such a function.
    kfunc: str
    instructions: int
    #: The number of calls of the chain's last function.
    calls: int


class Symbols:
    """The guest's symbols."""

    def __init__(self, path: Path) -> None:
        lines = (line.split() for line in path.read_text().splitlines())
        rows = sorted((int(line[0], 16), line[2]) for line in lines)
        self.addresses = [address for address, _ in rows]
        self.names = [name for _, name in rows]

    def begins(self, address: int) -> bool:
        """Is this the address of a function, rather than one inside it?"""
        index = bisect_right(self.addresses, address) - 1
        return self.addresses[index] == address

    def name(self, address: int) -> str:
        """The name of the function at `address`. A trampoline of Linux 6.12 has no name, and lies
        between programs."""
        if not address:
            return "user"
        index = bisect_right(self.addresses, address) - 1
        if self.addresses[index] != address and PROGRAM.fullmatch(self.names[index]):
            return "bpf_trampoline"
        return self.names[index]


def op(program: str) -> str:
    """The callback of a BPF program, without the scheduler's prefix."""
    return next((op for op in sorted(OPS, key=len, reverse=True) if program.endswith(f"_{op}") or program == op), program)


def below(name: str, parent: Node) -> tuple[str, str, str]:
    """The part, the callback and the kernel's function that the callback calls, for a function that is called in
    `parent`."""
    program = PROGRAM.fullmatch(name)
    if INTERRUPT.fullmatch(name):
        return "IPIs" if IPI.fullmatch(name) else "other interrupts", "", ""
    if parent.callback:
        return "callbacks", parent.callback, parent.kfunc if program else parent.kfunc or name
    if program:
        return "callbacks", op(program[1]), ""
    if name.startswith(("bpf__", "bpf_trampoline")):
        return "trampolines", "", ""
    if parent.part == "trampolines":
        return "trampolines", "", ""
    for part, pattern in PARTS:
        if pattern.fullmatch(name) and (part == "core" or parent.part not in ("outside", "IPIs", "other interrupts")):
            return part, "", ""
    return parent.part, "", ""


class Measurement:
    """The counts of the plugin while one load ran under one scheduler."""

    def __init__(self, folder: Path, of: Json) -> None:
        self.scheduler, self.load = of["scheduler"], of["load"]
        symbols = Symbols(folder / f"symbols.{of['number']}")
        self.nodes = [Node("user", "outside", "", "", 0, 0)]
        for line in (folder / f"calls.{of['number']}").read_text().splitlines()[1:]:
            _, parent, address, calls, instructions = line.split()
            name = symbols.name(int(address, 16))
            part, callback, kfunc = below(name, self.nodes[int(parent)])
            # A call of an address inside a function only fills the return stack buffer, and does not count.
            count = int(calls) if symbols.begins(int(address, 16)) else 0
            self.nodes.append(Node(name, part, callback, kfunc, int(instructions), count))
        self.switches = sum(node.calls for node in self.nodes if node.name == "__switch_to_asm")

    def sums(self, key: str, where: str = "") -> dict[str, float]:
        """The instructions per switch by a field of the nodes, only of nodes in the part `where` if it is given."""
        sums: Counter[str] = Counter()
        for node in self.nodes:
            if not where or node.part == where:
                sums[getattr(node, key)] += node.instructions
        return {name: count / self.switches for name, count in sums.most_common()}

    def callback_calls(self) -> dict[str, float]:
        """The number of calls of each callback per switch."""
        calls: Counter[str] = Counter()
        for node in self.nodes:
            program = PROGRAM.fullmatch(node.name)
            if program and not node.kfunc and op(program[1]) == node.callback:
                calls[node.callback] += node.calls
        return {name: count / self.switches for name, count in calls.items()}

    def kfuncs(self, callback: str) -> dict[str, float]:
        """The instructions per switch of a callback, by the kernel's function that the callback calls, or "" for its
        own code."""
        sums: Counter[str] = Counter()
        for node in self.nodes:
            if node.callback == callback:
                sums[node.kfunc] += node.instructions
        return {name: count / self.switches for name, count in sums.most_common()}

    def total(self) -> int:
        """The instructions of all parts that are shown."""
        return sum(node.instructions for node in self.nodes if node.part in SHOWN_PARTS)

    def locks(self) -> float:
        """The instructions per switch of locks in all parts except "outside"."""
        return sum(node.instructions for node in self.nodes
                   if node.part != "outside" and LOCK.fullmatch(node.name)) / self.switches


def shown(value: float | None) -> str:
    return "" if value is None or value < 0.5 else f"{value:,.0f}"


#: The parts that are shown, with their names in the table.
SHOWN_PARTS = {"core": "core of the scheduler", "switch": "switch of registers and memory", "fair": "fair class",
               "sched_ext": "sched_ext", "trampolines": "trampolines of BPF", "callbacks": "callbacks, with what they call",
               "IPIs": "IPIs"}


def parts_table(of: list[Measurement]) -> list[list[str]]:
    """The table of instructions per switch, by part and scheduler."""
    sums = [measurement.sums("part") for measurement in of]
    rows = [["part", *(f"`{measurement.scheduler}`" for measurement in of)]]
    rows += [[name, *(shown(sum_.get(part)) for sum_ in sums)] for part, name in SHOWN_PARTS.items()]
    rows.append(["**together**", *(f"**{shown(sum(sum_.get(part, 0) for part in SHOWN_PARTS))}**" for sum_ in sums)])
    rows.append(["together, million in all", *(f"{measurement.total() / 1e6:.1f}" for measurement in of)])
    rows.append(["of these, locks", *(shown(measurement.locks()) for measurement in of)])
    rows.append(["switches", *(f"{measurement.switches:,}" for measurement in of)])
    return rows


def callbacks_table(measurement: Measurement) -> list[list[str]]:
    """The table of the instructions of a scheduler's callbacks, in their own code and in the kernel's functions."""
    calls = measurement.callback_calls()
    rows = [["callback", "calls", "instructions", "own code", "the kernel's functions that it calls"]]
    for callback, total in measurement.sums("callback").items():
        if not callback or total < SHOWN:
            continue
        kfuncs = measurement.kfuncs(callback)
        called = ", ".join(f"`{name}` {shown(count)}" for name, count in kfuncs.items() if name and count >= SHOWN)
        rows.append([f"`{callback}`", f"{calls.get(callback, 0):.2f}", shown(total), shown(kfuncs.get("")), called])
    return rows


def functions_table(of: dict[str, Measurement], part: str) -> list[list[str]]:
    """The functions of a part, in columns with the keys of `of` as titles."""
    sums = [measurement.sums("name", part) for measurement in of.values()]
    names = sorted({name for sum_ in sums for name, count in sum_.items() if count >= 2 * SHOWN},
                   key=lambda name: -max(sum_.get(name, 0) for sum_ in sums))
    return [["function", *of],
            *([f"`{name}`", *(shown(sum_.get(name)) for sum_ in sums)] for name in names)]


def page(by_kernel: dict[str, list[Measurement]], cpus: int, peers: bool) -> Iterator[str]:
    yield "# The cost of a switch" + (" under published schedulers" if peers else "")
    yield ""
    command = "`make cost COST=--peers`" if peers else "`make cost`"
    yield prose(f"This page has the kernel's instructions for each context switch, by part of the scheduler. {command} writes it: "
                "`vm/cost` boots a guest of each kernel, and a plugin of QEMU counts every instruction by its chain of calls "
                "([guests](design/guests.md#counting-instructions)). A switch is one execution of `__switch_to_asm()`, also to the "
                f"idle task. The guest has {cpus} CPUs. All figures are counts: the load of the host makes no difference to them, and "
                "cache misses and the cost of a division do not appear.")
    yield ""
    yield prose("Under EEVDF, tasks of a pair run on two CPUs that idle in turn. These CPUs switch more often for the same work, "
                "so compare the instructions of the whole load.")
    yield ""
    yield prose("A callback's instructions include the kernel's functions that it calls. Trampolines are the code that calls a BPF "
                "program. The core is what all classes share, such as `__schedule()`, `try_to_wake_up()` and the accounting of "
                "pressure (PSI, in Debian's kernel only). Debian's kernel also has mitigations and checks of lists, which "
                "`ours-6.12` lacks, so compare schedulers on one kernel.")
    for kernel, measurements in by_kernel.items():
        yield ""
        yield f"## Linux {kernel}"
        for load in dict.fromkeys(measurement.load for measurement in measurements):
            of = [measurement for measurement in measurements if measurement.load == load]
            yield ""
            yield f"### {load}"
            yield ""
            yield prose(f"{LOADS[load]}.")
            yield ""
            yield from markdown(parts_table(of))
            for measurement in of:
                callbacks = callbacks_table(measurement)
                if len(callbacks) > 1:
                    yield ""
                    yield f"Callbacks of `{measurement.scheduler}`:"
                    yield ""
                    yield from markdown(callbacks)
    if len(by_kernel) > 1:
        yield ""
        yield from functions(by_kernel)


def functions(by_kernel: dict[str, list[Measurement]]) -> Iterator[str]:
    """The table of the functions of sched_ext on each kernel, side by side."""
    load = next(iter(LOADS))
    of = {kernel: measurement for kernel, measurements in by_kernel.items() for measurement in measurements
          if measurement.load == load and measurement.scheduler.startswith("equipoise")}
    yield "## Functions of sched_ext"
    yield ""
    yield prose(f"The table has the functions of sched_ext that take at least {2 * SHOWN} instructions for each switch, outside "
                f"callbacks and trampolines, in `{load}` under `equipoise`.")
    yield ""
    yield from markdown(functions_table(of, "sched_ext"))


def read(folder: Path) -> list[Measurement]:
    lines = (folder / "measurements.json").read_text().splitlines()
    return [Measurement(folder, json.loads(line)) for line in lines]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kernel", metavar="VERSION", action="append",
                         help=f"as for vm/run (default: {', '.join(KERNELS)}; with --peers the last of them)")
    options.add_argument("--cpus", type=positive, default=2, help="virtual CPUs (default: %(default)s)")
    options.add_argument("--load", action="append", choices=list(LOADS), help="this load; may be repeated (default: pipe and hackbench)")
    options.add_argument("--peers", action="store_true", help="install published schedulers (vm/install-peers), and measure them, too")
    options.add_argument("--out", metavar="FILE", type=Path, help="(default: docs/costs.md; with --peers docs/costs-of-peers.md)")
    options.add_argument("schedulers", nargs="*", metavar="SCHEDULER", default=["eevdf", "equipoise:equipoise"],
                         help="as for tools.bench (default: eevdf and equipoise:equipoise)")
    guest.keep_options(options)
    args = options.parse_args()
    schedulers, kernels, out_file = args.schedulers, args.kernel or KERNELS, args.out or PROJECT / "docs/costs.md"
    if args.peers:
        installed = guest.script("./install-peers")
        os.environ["PATH"] = f"{installed}:{os.environ['PATH']}"
        schedulers = schedulers + sorted(peer.name for peer in Path(installed).glob("scx_*"))
        kernels, out_file = args.kernel or KERNELS[-1:], args.out or PROJECT / "docs/costs-of-peers.md"
    by_kernel = {}
    with guest.kept(args) as out:
        for kernel in kernels:
            if not args.judge:
                subprocess.run([PROJECT / "vm/cost", out / kernel, kernel, str(args.cpus), ",".join(args.load or ["pipe", "hackbench"]),
                                *schedulers], stdout=sys.stderr, check=True)
            by_kernel[kernel] = read(out / kernel)
    out_file.write_text("\n".join(page(by_kernel, args.cpus, args.peers)) + "\n")


if __name__ == "__main__":
    run_main(main)
