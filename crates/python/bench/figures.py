"""Measures the costs of the Python package and its limits: `python bench/figures.py sweep|ray|cluster|events|tune`.

Run it with the published build (`maturin build --release`) installed with `equipoise[all,ray]`; `sweep` compares with
the command, `--command target/release/equipoise`, or else with the library of which the command is made. Times are wall
time and CPU time (user and system, over all CPUs), which other load on the computer disturbs less; `ray` and `cluster`
require psutil, to count all processes of the cluster. Prints one figure per line.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import equipoise

MACHINES = [
    "tc2",
    "odroid-xu3",
    "hikey-6220",
    "exynos5433",
    "sm8250",
    "rk3588",
    "smp-8",
    "smt-4",
    "snb-laptop",
    "alder-lake",
]
LOADS = [
    "mixed:duration=500ms",
    "audio:duration=1s",
    "pipeline:duration=500ms",
    "ramp:duration=1s",
    "rt-and-fair:duration=500ms",
    "heavy-and-light:duration=500ms",
    "hackbench:groups=1,loops=20",
    "cyclictest:duration=500ms",
    "sysbench-cpu:threads=4,time=500ms",
    "busy:threads=6,duration=500ms",
]
POLICIES = ["eevdf", "cfs", "capacity", "hperf", "equipoise"]
RUNS = 10


@contextmanager
def timed(what, figures, cpu=None):
    """The wall and the CPU time of the block in s, including children that have ended."""

    def own():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    cpu = cpu or own
    wall, used = time.monotonic(), cpu()
    yield
    figures[f"{what} wall s"] = round(time.monotonic() - wall, 2)
    figures[f"{what} CPU s"] = round(cpu() - used, 2)


def grid(scale):
    """The arguments of the sweep: 5,000 simulations, or 1/scale of them."""
    return {"machines": MACHINES, "workloads": LOADS[: max(1, len(LOADS) // scale)], "policies": POLICIES, "runs": RUNS}


def by_command(command, scale, figures):
    """Runs the same simulations by the command, one machine and load after another or, without a command, by the
    library on which it is built, in this process."""
    what = grid(scale)
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    with timed("command", figures):
        for machine in what["machines"]:
            for load in what["workloads"]:
                if command is None:
                    equipoise.compare(machine, load, POLICIES, runs=RUNS, jobs=2)
                    continue
                words = ["compare", "--machine", machine, "--workload", load, *policies, "--runs", str(RUNS)]
                shown = [*words, "--format", "csv", "--jobs", "2"]
                subprocess.run([command, *shown], check=True, stdout=subprocess.DEVNULL)


def sweep(arguments, figures):
    """The overhead of a sweep compared with the command, and its memory."""
    equipoise.sweep("smp-2", "busy:duration=1ms", "eevdf", runs=1)  # imports
    by_command(arguments.command, arguments.scale, figures)
    with tempfile.TemporaryDirectory() as folder:
        with timed("local", figures):
            result = equipoise.sweep(**grid(arguments.scale), chunk=arguments.chunk, out=Path(folder) / "s", jobs=2)
        figures["simulations"] = len(result.cases) * RUNS
        figures["peak memory MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures["Parquet MB"] = round(sum(file.stat().st_size for file in (Path(folder) / "s/runs").iterdir()) / 1e6, 1)
        figures["overhead %, CPU"] = round(100 * (figures["local CPU s"] / figures["command CPU s"] - 1), 1)
        figures["overhead %, wall"] = round(100 * (figures["local wall s"] / figures["command wall s"] - 1), 1)


def tree():
    """This process, and the processes that it started and that still run."""
    import psutil

    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def of_tree():
    """The CPU time of the process tree, in s."""
    import psutil

    total = 0.0
    for process in tree():
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def parts_of(out):
    """The results of a sweep: the bytes of each chunk by its name."""
    return {file.name: file.read_bytes() for file in (out / "runs").glob("*.parquet")}


def start_cluster(nodes):
    """A local cluster of a head without CPUs and of `nodes` with one CPU each, to which this process connects."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1)
    cluster.connect()
    cluster.wait_for_nodes()
    return cluster


def ray(arguments, figures):
    """Measures the same sweep on a local cluster of two nodes beside the head, and with a third node that is killed after
    a third of the chunks. The cluster's start is counted separately, and results are compared byte by byte."""
    import ray as library

    with tempfile.TemporaryDirectory() as folder:
        local, remote = Path(folder) / "local", Path(folder) / "ray"
        equipoise.sweep("smp-2", "busy:duration=1ms", "eevdf", runs=1, out=Path(folder) / "imports")
        with timed("local", figures):
            equipoise.sweep(**grid(arguments.scale), chunk=arguments.chunk, out=local, jobs=2)
        with timed("start of the cluster", figures, of_tree):
            cluster = start_cluster(2)
            equipoise.sweep("tc2", "busy:duration=1ms", "eevdf", runs=4, chunk=1, out=Path(folder) / "w", engine="ray")
        spare = []
        begun = Counted()
        try:
            with timed("ray", figures, of_tree):
                result = equipoise.sweep(**grid(arguments.scale), chunk=arguments.chunk, out=remote, engine=begun)
            for of in ("CPU", "wall"):
                figures[f"overhead over local %, {of}"] = round(
                    100 * (figures[f"ray {of} s"] / figures[f"local {of} s"] - 1), 1
                )
            expected = parts_of(local)
            figures["same bytes"] = expected == parts_of(remote)
            spare.append(cluster.add_node(num_cpus=1))
            cluster.wait_for_nodes()
            # The spare node has a worker, too, which is busy when the node is killed.
            equipoise.sweep("tc2", "mixed", "eevdf", runs=40, chunk=1, engine="ray")
            lost = Path(folder) / "lost"
            killer = Counted({result.chunks // 3: lambda: cluster.remove_node(spare.pop(), allow_graceful=False)})
            with timed("ray, a node lost", figures):
                equipoise.sweep(**grid(arguments.scale), chunk=arguments.chunk, out=lost, engine=killer)
            figures["chunks"] = result.chunks
            figures["same bytes, a node lost"] = expected == parts_of(lost)
            figures["tasks given out again"] = killer.engine.repeated
        finally:
            library.shutdown()
            cluster.shutdown()


def memory_of_head(most):
    """Raises `most` to the memory in MB of the cluster's head (its control store and its daemon) and of this
    process."""
    import psutil

    for process in tree():
        with suppress(psutil.Error):
            name = "caller" if process.pid == os.getpid() else process.name()
            most[name] = max(most.get(name, 0), process.memory_info().rss >> 20)


def cluster(arguments, figures):
    """A sweep on a cluster of many nodes, and again with the caller and the cluster's head killed after a third of the
    chunks: a second call on a new cluster computes the rest."""
    import ray as library

    what = grid(1) | {"runs": arguments.runs, "chunk": arguments.chunk}
    with tempfile.TemporaryDirectory() as folder:
        local, remote, lost = (Path(folder) / name for name in ("local", "remote", "lost"))
        equipoise.sweep("smp-2", "busy:duration=1ms", "eevdf", runs=1, out=Path(folder) / "imports")
        with timed("local", figures):
            result = equipoise.sweep(**what, out=local, jobs=multiprocessing.cpu_count())
        figures["simulations"], figures["chunks"] = len(result.cases) * arguments.runs, result.chunks
        expected = parts_of(local)
        figures["Parquet MB"] = round(sum(map(len, expected.values())) / 1e6, 1)
        most = {}
        nodes = start_cluster(arguments.nodes)
        with timed("cluster", figures, of_tree):
            engine = Counted(at={place: lambda: memory_of_head(most) for place in range(0, result.chunks, 10)})
            equipoise.sweep(**what, out=remote, engine=engine)
        figures["same bytes"] = expected == parts_of(remote)
        figures["efficiency %, CPU"] = round(100 * figures["local CPU s"] / figures["cluster CPU s"], 1)
        figures["most memory MB"] = {name: most.get(name) for name in ("gcs_server", "raylet", "caller")}
        caller = subprocess.Popen([sys.executable, __file__, "caller", nodes.address, str(lost), json.dumps(what)])
        while len(list((lost / "runs").glob("*.parquet"))) < result.chunks // 3:
            time.sleep(0.05)
        caller.kill()
        caller.wait()
        library.shutdown()
        nodes.remove_node(nodes.head_node, allow_graceful=False)
        nodes.shutdown()
        figures["chunks when caller and head were killed"] = len(parts_of(lost))
        nodes = start_cluster(arguments.nodes)
        with timed("rest on a new cluster", figures, of_tree):
            equipoise.sweep(**what, out=lost, engine="ray")
        figures["same bytes after the loss"] = expected == parts_of(lost)
        library.shutdown()
        nodes.shutdown()


class Counted:
    """The Ray engine, with actions after given numbers of tasks."""

    def __init__(self, at=None):
        self.engine, self.at = equipoise.Ray(), at or {}

    def run(self, work, tasks):
        for place, done in enumerate(self.engine.run(work, tasks)):
            self.at.get(place, lambda: None)()
            yield done


def events(arguments, figures):
    """The events of 5 s of hackbench as a pandas frame."""
    load = equipoise.Workload("hackbench", groups=10, loops=arguments.loops)
    warm = equipoise.trace("smp-2", "busy:duration=1ms").events
    warm.to_pandas(), warm.to_polars()
    with timed("simulated", figures):
        trace = equipoise.trace("smp-2x8", load, "eevdf", utilization=arguments.utilization)
    with timed("events as a frame", figures):
        frame = trace.events.to_pandas()
    with timed("sched_switch as a frame", figures):
        trace.event("sched_switch").to_pandas()
    with timed("events as polars", figures):
        trace.events.to_polars()
    figures["events"] = len(frame)
    figures["simulated s"] = frame["time_ns"].max() / 1e9
    figures["of the trace's columns"] = len(trace.utilization)


def tune(arguments, figures):
    """200 trials on three machines with three loads each, and the gain on other loads."""
    loads = ["mixed:duration=500ms", "ramp:duration=500ms", "hackbench:groups=1,loops=20"]
    with timed("tune", figures):
        found = equipoise.tune(
            "equipoise",
            ["tc2", "odroid-xu3", "alder-lake"],
            loads,
            objectives=["latency", "throughput"],
            held_out=[
                (machine, load)
                for machine in ("exynos5433", "lunar-lake")
                for load in (*loads, "pipeline:duration=500ms")
            ],
            trials=arguments.trials,
            runs=4,
            final_runs=20,
            jobs=2,
        )
    print(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sweep", "ray", "cluster", "events", "tune"])
    parser.add_argument("--command", help="the command to compare with, of the same build")
    parser.add_argument("--scale", type=int, default=1, help="divide the number of loads by this")
    parser.add_argument("--chunk", type=int, default=20, help="simulations of a task")
    parser.add_argument("--loops", type=int, default=1000, help="hackbench's messages from each sender to each receiver")
    parser.add_argument("--utilization", action="store_true", help="with load tracking")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--runs", type=int, default=200, help="of each combination, on a cluster")
    parser.add_argument("--nodes", type=int, default=8, help="of one CPU each, of the cluster")
    if sys.argv[1:2] == ["caller"]:
        address, out, what = sys.argv[2:]
        equipoise.sweep(**json.loads(what), out=out, engine=equipoise.Ray(address))
        return
    arguments = parser.parse_args()
    figures = {"build": equipoise._native.BUILD, "CPUs": multiprocessing.cpu_count()}
    globals()[arguments.what](arguments, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
