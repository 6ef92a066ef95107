"""Counts the instructions that a switch takes in the kernel, under several schedulers, and writes docs/costs.md.

Boots a guest of each kernel with a plugin of QEMU (vm/cost), and runs each load under each scheduler. The plugin counts
instructions by chain of calls; this tool adds them up by part of the scheduler, and divides by the number of switches.
What the plugin has left in --keep DIR can be judged again with --judge DIR, without a guest."""

import json
import os
import re
import subprocess
import sys
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools import guest
from tools.command import PROJECT, Json, parser, positive, run_main
from tools.figures import markdown

KERNELS = ["ours-6.12", "7.3.4"]
LOADS = {"pipe": "`perf bench sched pipe`: two tasks that answer each other",
         "hackbench": "`hackbench -g 2`: 80 processes, which switch once in several wakeups",
         "schbench": "`vm/in-guest/schbench.c`: tasks that sleep for 100 us, one for each CPU",
         "busy": "slices that end: three busy loops for each CPU"}
OPS = ["select_cpu", "enqueue", "dequeue", "dispatch", "runnable", "running", "stopping", "quiescent", "tick", "yield",
       "update_idle", "cpu_acquire", "cpu_release", "set_cpumask", "set_weight", "init_task", "exit_task", "enable", "disable"]
# A function below which another part begins, by part; a class's methods have the class's name.
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
# From here on a function is in a table of functions, instructions a switch.
SHOWN = 8


class Node(NamedTuple):
    """A chain of calls."""

    name: str
    part: str
    callback: str
    #: The kernel's function that the callback calls, if this is below one.
    kfunc: str
    instructions: int
    #: How often the chain's last function was called.
    calls: int


class Symbols:
    """The guest's symbols."""

    def __init__(self, path: Path) -> None:
        lines = (line.split() for line in path.read_text().splitlines())
        rows = sorted((int(line[0], 16), line[2]) for line in lines)
        self.addresses = [address for address, _ in rows]
        self.names = [name for _, name in rows]

    def name(self, address: int) -> str:
        """The name of the function at `address`. A trampoline of Linux 6.12 has none, and lies between programs."""
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
    """The part, the callback and its kernel's function of a function that is called in `parent`."""
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
    """What the plugin has counted while one load ran under one scheduler."""

    def __init__(self, folder: Path, of: Json) -> None:
        self.scheduler, self.load = of["scheduler"], of["load"]
        symbols = Symbols(folder / f"symbols.{of['number']}")
        self.nodes = [Node("user", "outside", "", "", 0, 0)]
        for line in (folder / f"calls.{of['number']}").read_text().splitlines()[1:]:
            _, parent, address, calls, instructions = line.split()
            name = symbols.name(int(address, 16))
            part, callback, kfunc = below(name, self.nodes[int(parent)])
            self.nodes.append(Node(name, part, callback, kfunc, int(instructions), int(calls)))
        self.switches = sum(node.calls for node in self.nodes if node.name == "__switch_to_asm")

    def sums(self, key: str, where: str = "") -> dict[str, float]:
        """The instructions a switch of nodes, by a field, of those in the part `where`, if any."""
        sums: Counter[str] = Counter()
        for node in self.nodes:
            if not where or node.part == where:
                sums[getattr(node, key)] += node.instructions
        return {name: count / self.switches for name, count in sums.most_common()}
