"""Guests of vm/run, and recordings of loads that are made in them or kept from earlier."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.command import PROJECT, parser, positive


def options(description: str | None, kernel: str, rounds: int | None) -> argparse.ArgumentParser:
    """A parser with the options of all tools that boot a guest. Without `rounds`, the guest has one
    CPU."""
    options = parser(description)
    options.add_argument("--kernel", metavar="VERSION", default=kernel, help="the kernel, as for vm/run (default: %(default)s)")
    if rounds:
        options.add_argument("--rounds", type=positive, default=rounds, help="how often (default: %(default)s)")
        options.add_argument("--cpus", type=positive, default=2, help="virtual CPUs (default: %(default)s)")
    return options


def clock_options(options: argparse.ArgumentParser) -> None:
    """Options for the guest's clock, which set `clock` to an option of vm/run without its dashes."""
    for accelerator in ("tcg", "kvm"):
        options.add_argument(f"--{accelerator}", dest="clock", action="store_const", const=accelerator,
                             default="icount=1", help="the clock, as for vm/run")
    options.add_argument("--icount", dest="clock", metavar="NS", nargs="?", const="8", default="icount=1",
                         type=lambda ns: ns if "=" in ns else f"icount={ns}",
                         help="the clock, as for vm/run (default: --icount=1, which a busy host does not affect, and which is "
                         "nearest to the speed of a real CPU)")


def keep_options(options: argparse.ArgumentParser) -> None:
    """Options for the folder of the files that a guest leaves."""
    options.add_argument("--keep", metavar="DIR", type=Path, help="leave the measured files in DIR")
    options.add_argument("--judge", metavar="DIR", type=Path, help="boot nothing, and judge the files that --keep left in DIR")


@contextmanager
def kept(args: argparse.Namespace) -> Iterator[Path]:
    """The folder of --keep or --judge, or a folder that is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        out = (args.keep or args.judge or Path(folder)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        yield out


def boot(*command: str | Path, kernel: str, cpus: int, clock: str, turn: int | None = None, out: Path | None = None,
         seconds: int = 600, noise: bool = False) -> Iterator[str]:
    """Boots a guest and runs a command there; yields the lines of its output. `out` is the guest's /out; unless `noise`
    is set, the kernel charges interrupts to the tasks that they interrupt, as the simulated kernel does."""
    line: list[str | Path] = [PROJECT / "vm/run", "--kernel", kernel, "--cpus", str(cpus), f"--{clock}", "--timeout",
                              str(seconds)]
    if turn:
        line += ["--turn", str(turn)]
    if out:
        line += ["--out", out]
    if not noise:
        line += ["--append", "tsc=noirqtime"]
    with subprocess.Popen([*line, *command], cwd=PROJECT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        yield from running.stdout
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, "vm/run")


def script(*command: str | Path) -> str:
    """The output of a script of vm/, without the last newline."""
    return subprocess.run(command, cwd=PROJECT / "vm", stdout=subprocess.PIPE, text=True, check=True).stdout.rstrip("\n")


def installed_peers() -> list[str]:
    """The published schedulers that are on PATH."""
    return script("bash", "-c", ". ./peers.sh && installed_peers").split()


def record(out: Path, args: argparse.Namespace, command: Path, schedulers: list[str], *, clock: str | None = None,
           turn: int | None = None, here: bool = False, loader: str = "", more: tuple[str, ...] = (), seconds: int) -> None:
    """Makes tools.recorder record the loads `args.loads` below `out`, in a guest or on this
    computer."""
    recorder = [sys.executable, "-m", "tools.recorder", "--rounds", str(args.rounds), "--schedulers", *schedulers, *more]
    if here:
        subprocess.run([*recorder, "--", command, out, *args.loads], cwd=PROJECT, check=True)
        return
    environment = ("env", f"SCX_EQUIPOISE={loader}", "PYTHONDONTWRITEBYTECODE=1")
    for line in boot(*environment, *recorder, "--", command, "/out", *args.loads, kernel=args.kernel, cpus=args.cpus,
                     clock=clock or args.clock, turn=turn, out=out, seconds=seconds):
        print(line, end="")


def recordings(out: Path, load: str) -> list[Path]:
    """The recordings of the load under the kernel's EEVDF, by round. Prints a message if there are none."""
    found = sorted(out.glob(f"{load}-[0-9]*-eevdf.dat"))
    if not found:
        print(f"{load}: {out} has no recording under eevdf", file=sys.stderr)
    return found
