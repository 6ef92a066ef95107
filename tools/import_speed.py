"""Measures the time and memory of `equipoise workload import` for a million events, in simulated
traces of each format, a text with pipe traffic, and a text with 100,000 threads. Fails if an import
takes more than 5 s or 500 MB per million events. For many threads, the memory is not judged."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.command import Failed, compare, equipoise, parser, run_main
from tools.figures import Cell, columns

SECONDS, MEGABYTES = 5, 500


def event(us: int, comm: str, pid: int, text: str) -> str:
    return f"{comm}-{pid} [000] ..... {us // 1000000}.{us % 1000000:06}: {text}\n"


def switch(prev: tuple[str, int], next_: tuple[str, int]) -> str:
    return (f"sched_switch: prev_comm={prev[0]} prev_pid={prev[1]} prev_prio=120 prev_state=S ==> "
            f"next_comm={next_[0]} next_pid={next_[1]} next_prio=120")


def waking(task: tuple[str, int]) -> str:
    return f"sched_waking: comm={task[0]} pid={task[1]} prio=120 target_cpu=000"


def pipes() -> Iterator[str]:
    """A trace of 50 pairs that take turns on a CPU: one task writes and wakes the other, which reads; then each
    sleeps."""
    for loop in range(200000):
        pair, at = loop % 50, loop * 20
        a, b, after = (("t", 100 + 2 * pair), ("t", 101 + 2 * pair), ("t", 100 + 2 * ((pair + 1) % 50)))
        yield event(at, *a, waking(b))
        yield event(at + 2, *a, f"pipe_write: (vfs_write+0x1/0x2 <- pipe_write) object=0x{1000 + pair} bytes=4")
        yield event(at + 5, *a, switch(a, b))
        yield event(at + 9, *b, f"pipe_read: (vfs_read+0x1/0x2 <- pipe_read) object=0x{1000 + pair} bytes=4")
        yield event(at + 15, *b, switch(b, after))


def threads() -> Iterator[str]:
    """A trace of 100,000 threads, each of which wakes the next one and ends."""
    for n in range(1000, 101000):
        own, after = (f"t{n}", n), (f"t{n + 1}", n + 1)
        yield event(n * 10, *own, waking(after))
        yield event(n * 10, *own, switch(own, after))


def measure(command: Path, trace: Path, folder: Path) -> tuple[int, float, float]:
    """The number of events, and the seconds and megabytes that their import takes."""
    began = time.monotonic()
    with (folder / "said").open("w") as said:
        line: list[str | Path] = [command, "workload", "import", "--machine", "odroid-xu3", "--out", folder / "imported", trace]
        importing = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=said)
        _, importing.returncode, used = os.wait4(importing.pid, 0)
    seconds = time.monotonic() - began
    text = (folder / "said").read_text()
    events = re.search(r"(\d+) events in ", text)
    if importing.returncode or not events:
        raise Failed(f"{trace.name}: could not be imported: {text}")
    return int(events[1]), seconds, used.ru_maxrss / 1e3


def main() -> int:
    parser(__doc__).parse_args()
    command = equipoise()
    rows: list[list[Cell]] = [["trace", "events", "s", "MB", "s for a million", "verdict"]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        for kind in ("dat", "txt", "perfetto-trace"):
            compare(command, "odroid-xu3", "hackbench:loops=250", ["cfs-pelt"], "--runs", "1", "--trace",
                    str(folder / f"traces/hackbench.{kind}"))
        (folder / "traces/pipes.txt").write_text("".join(pipes()))
        (folder / "traces/threads.txt").write_text("".join(threads()))
        for trace in sorted((folder / "traces").iterdir()):
            events, seconds, megabytes = measure(command, trace, folder)
            fits = trace.name == "threads.txt" or megabytes * 1e6 / events <= MEGABYTES
            ok = fits and seconds * 1e6 / events <= SECONDS
            rows.append([trace.name, events, f"{seconds:.2f}", f"{megabytes:.0f}", f"{seconds * 1e6 / events:.2f}",
                         "" if ok else "too much"])
    print(columns(rows))
    return int(any(row[-1] for row in rows[1:]))


if __name__ == "__main__":
    run_main(main)
