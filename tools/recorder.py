"""Records loads under schedulers, in turn. tools.replay and tools.order run this tool, usually in a guest.

Calibrates the computer, and records each LOAD in several rounds. Leaves the machine file, machine.toml, and the
recordings, LOAD-ROUND-SCHEDULER.dat, in OUT."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import rt_app
from tools.command import PROJECT, Failed, parser, positive, run_main

STATE = Path("/sys/kernel/sched_ext/state")
#: The commands of sched_ext schedulers, from the environment of a guest.
SCHEDULERS: dict[str, Callable[[], list[str]]] = {
    "equipoise": lambda: ["nice", "-n", "-20", os.environ["SCX_EQUIPOISE"], "--policy", "equipoise"],
    "simple": lambda: [f"{os.environ['VM_KERNEL']}/scx_simple"],
}


def an_rt_app(load: str) -> list[str]:
    # The examples have the same length, with the same number of loops per microsecond.
    Path(f"{load}.json").write_text(json.dumps(rt_app.prepared(load, 100)))
    return ["rt-app", f"{load}.json"]


def compile_files(load: str) -> list[str]:
    for file in range(1, 7):
        Path(f"{file}.c").write_text(f"int f{file}(int a) {{ for (int i = 0; i < a; i++) a += i * {file}; return a; }}\n")
        Path(f"{file}.o").unlink(missing_ok=True)
    Path("Makefile").write_text("all: 1.o 2.o 3.o 4.o 5.o 6.o\n")
    return ["make", "--silent", "-j4"]


def schbench(load: str) -> list[str]:
    subprocess.run(["cc", "-O2", "-pthread", "-o", "schbench", PROJECT / "vm/in-guest/schbench.c"], check=True)
    return ["./schbench", str(os.cpu_count()), "1"]


#: For each load, the function that writes its files into the current folder and returns its
#: command.
LOADS: dict[str, Callable[[str], list[str]]] = {
    "hackbench": lambda load: ["hackbench", "-g", "2", "-l", "50"],
    "sysbench-cpu": lambda load: "sysbench cpu --threads=4 --time=0 --events=200 --cpu-max-prime=5000 run".split(),
    "sysbench-mutex": lambda load:
        "sysbench mutex --threads=4 --mutex-num=2 --mutex-locks=500 --mutex-loops=1000 run".split(),
    "browser-short": an_rt_app,
    "mp3-short": an_rt_app,
    "compile": compile_files,
    "pipe": lambda load: ["perf", "bench", "sched", "pipe", "-l", "1000"],
    "schbench": schbench,
}


def await_state(state: str) -> None:
    deadline = time.monotonic() + 300
    while STATE.read_text().strip() != state:
        if time.monotonic() > deadline:
            raise Failed(f"sched_ext's state is not {state}: {Path('scheduler.log').read_text()}")
        time.sleep(0.1)


@contextmanager
def under(scheduler: str) -> Iterator[None]:
    """Within the block, the scheduler is loaded; "eevdf" is the kernel's own."""
    if scheduler == "eevdf":
        yield
        return
    with open("scheduler.log", "w") as log:
        running = subprocess.Popen(SCHEDULERS[scheduler](), stdout=log, stderr=log)
    await_state("enabled")
    yield
    running.send_signal(2)
    running.wait()
    await_state("disabled")


def record(command: Path, out: Path, loads: list[str], schedulers: list[str], rounds: int, more: list[str]) -> None:
    """Records into the current folder, and then moves each recording to `out`, because over 9p the recorder would sleep
    and be woken a thousand times."""
    with (out / "machine.toml").open("w") as machine:
        subprocess.run([command, "machine", "calibrate", "--traced", "--force"], stdout=machine, check=True)
    # The first run, which loads programs and files over 9p, does not count.
    for load in loads:
        subprocess.run(LOADS[load](load), capture_output=True)
    for turn in range(rounds):
        first = turn % len(schedulers)
        for scheduler in schedulers[first:] + schedulers[:first]:
            with under(scheduler):
                for load in loads:
                    name = f"{load}-{turn + 1}-{scheduler}.dat"
                    done = subprocess.run([command, "record", *more, "--output", name, "--", *LOADS[load](load)],
                                          capture_output=True, text=True)
                    if done.returncode:
                        print(f"{load} under {scheduler}: could not be recorded: {done.stderr[-300:]}", flush=True)
                    else:
                        shutil.move(name, out / name)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=positive, default=1)
    options.add_argument("--schedulers", nargs="+", default=["eevdf"], choices=["eevdf", *SCHEDULERS])
    options.add_argument("--pipes", action="store_const", const=["--pipes"], default=[], help="as for `equipoise record`")
    options.add_argument("command", type=Path, help="the command `equipoise`")
    options.add_argument("out", type=Path)
    options.add_argument("loads", nargs="+", choices=list(LOADS), metavar="LOAD")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        record(args.command.resolve(), args.out.resolve(), args.loads, args.schedulers, args.rounds, args.pipes)


if __name__ == "__main__":
    run_main(main)
