"""Records loads with deadlines in a guest, and compares the periods that an import finds, and the misses of a replay,
with rt-app's own log.

Boots once, with one CPU and a clock that counts instructions, and records rt-app with each LOAD
beside a busy loop. A replay under `eevdf` is compared with rt-app's log: a period must be right
within 2 %, and the share of missed periods within 3 points. A thread without a timer has no
deadline in rt-app's log."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import guest, rt_app
from tools.command import Failed, Json, compare, equipoise, run_main
from tools.figures import Cell, columns

LOADS = ["game:650", "game:500", "video-call:480", "mixed:600", "mixed:520", "video-short:500"]


def file_content(load: str) -> Json:
    """Makes the file of NAME:NS, with a busy loop."""
    name, loop_ns = load.split(":")
    content = rt_app.prepared(name, int(loop_ns))
    content["tasks"] = {"busy": {"loop": -1, "run": 10000}} | content["tasks"]
    return content


def record(command: Path, out: Path, loads: list[str]) -> None:
    """Leaves, in the guest, machine.toml and, for each load, trace.dat and rt-app's logs in
    `out`."""
    with (out / "machine.toml").open("w") as machine:
        subprocess.run([command, "machine", "calibrate", "--traced", "--force"], stdout=machine, check=True)
    for load in loads:
        with tempfile.TemporaryDirectory() as run:
            (Path(run) / "load.json").write_text(json.dumps(file_content(load)))
            # rt-app sometimes fails at its start: "pthread_setaffinity_np: Success".
            for _ in range(6):
                done = subprocess.run([command, "record", "--output", "trace.dat", "--", "rt-app", "load.json"], cwd=run,
                                      capture_output=True, text=True)
                if not done.returncode:
                    break
            else:
                print(f"{load}: could not be recorded: {done.stderr[-300:]}", flush=True)
            (out / load).mkdir(exist_ok=True)
            for pattern in ("*.dat", "*.log"):
                for file in Path(run).glob(pattern):
                    shutil.move(file, out / load / file.name)


def logged(log: Path) -> tuple[float, float] | None:
    """The period in ms, and the missed periods in %, from a thread's log; None without deadlines. Columns 5 and 6 are a
    loop's start and end, column 8 is the slack, and column 10 is the period, all in us. A thread that is late when the
    load ends has not begun all loops whose deadlines have passed; these are missed, too."""
    rows = [line.split() for line in log.read_text().splitlines() if not line.startswith("#")]
    loops = [[float(cell) for cell in row] for row in rows if len(row) > 10 and float(row[9]) > 0]
    if not loops:
        return None
    period = loops[-1][9]
    due = max(len(loops), int((loops[-1][5] - loops[0][4]) / period))
    missed = due - len(loops) + sum(loop[7] < 0 for loop in loops)
    return period / 1000, 100 * missed / due


def rows(command: Path, out: Path, load: str) -> list[list[Cell]]:
    """A row for each thread with deadlines in rt-app's log."""
    folder, machine = out / load, out / "machine.toml"
    subprocess.run([command, "workload", "import", "--machine", machine, "--out", folder, folder / "trace.dat"],
                   capture_output=True)
    trace = folder / "trace.json"
    if not trace.exists():
        raise Failed(f"{folder / 'trace.dat'}: could not be imported")
    found = {thread["name"]: thread["period"]["ns"] / 1e6
             for thread in reversed(json.loads(trace.read_text())["threads"]) if thread.get("period")}
    result = compare(command, machine, str(trace), ["eevdf"], "--runs", "1", "--all")
    replayed = {of["metric"].removesuffix("/missed"): of["mean"] for of in result["results"] if of["metric"].endswith("/missed")}
    judged: list[list[Cell]] = []
    for log in sorted(folder.glob("rt-*.log")):
        name, of = log.stem.removeprefix("rt-").rsplit("-", 1)[0], logged(log)
        if not of:
            continue
        period, missed = of
        if name not in found:
            judged.append([load, name, period, None, f"{missed:.1f}", None, "FAIL: no period"])
            continue
        verdict = "PASS"
        if abs(found[name] / period - 1) > 0.02:
            verdict = "FAIL: period"
        elif abs(replayed[name] - missed) > 3:
            verdict = "FAIL: missed"
        judged.append([load, name, period, f"{found[name]:.3f}", f"{missed:.1f}", f"{replayed[name]:.1f}", verdict])
    return judged


def load_name(text: str) -> str:
    name, _, loop_ns = text.partition(":")
    if not loop_ns.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: expected LOAD:NS")
    try:
        rt_app.file_of(name)
    except Failed as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def main() -> None:
    options = guest.options(__doc__, "7.3.4", None)
    guest.keep_options(options)
    options.add_argument("--in-guest", metavar="DIR", type=Path, help=argparse.SUPPRESS)
    options.add_argument("loads", nargs="*", metavar="LOAD:NS", type=load_name,
                         help="a file of workloads/ or of rt-app's examples, and rt-app's calibration: the more ns, the "
                         f"lighter is the load (default: {' '.join(LOADS)})")
    args = options.parse_args()
    loads = args.loads or LOADS
    command = equipoise()
    if args.in_guest:
        record(command, args.in_guest, loads)
        return
    with guest.kept(args) as out:
        if not args.judge:
            guest.script("./install-tools", "rt-app")
            inside = ["env", f"EQUIPOISE={command}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", "tools.periods"]
            for line in guest.boot(*inside, "--in-guest", "/out", *loads, kernel=args.kernel, cpus=1, clock="icount=2",
                                   out=out, seconds=3000):
                print(line, end="")
        head: list[Cell] = ["load", "thread", "period, ms", "found, ms", "missed, %", "replayed, %", "verdict"]
        print(columns([head, *(row for load in loads for row in rows(command, out, load))]))


if __name__ == "__main__":
    run_main(main)
