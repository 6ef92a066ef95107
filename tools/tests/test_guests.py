"""What tools.bench, predict, replay, order and periods make of what a guest has left."""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tools import bench, order, periods, predict, recorder, replay, rt_app
from tools.command import Json, Workload


def simulated(flat: bool) -> Callable[..., Json]:
    """A comparison whose times are 2 s and 1 ms for each us of work, 25 % more under `equipoise`. `flat` ones do not
    depend on the work."""

    def compare(command: Path, machine: Path, load: Workload, *_: object, schedulers: list[str]) -> Json:
        work = re.search(r"(?:read_work=|work=|compile=|'run': )([0-9.]+)", str(load))
        assert work, load
        time = 2 + (0 if flat else float(work[1]) / 1000)
        means = {"time": time, "throughput": 1e6 / time, "requests": 1e6 / time, "wakeup_p99": 10.0}
        more = {"time": 1.25, "throughput": 0.8, "requests": 0.8, "wakeup_p99": 1.25}
        return {"results": [{"policy": policy, "metric": metric, "mean": mean * (more[metric] if policy == "equipoise" else 1)}
                            for policy in ("eevdf", "equipoise") for metric, mean in means.items()]}

    return compare


def sample(round_: int, scheduler: str, benchmark: str, value: float) -> Json:
    return {"round": round_, "scheduler": scheduler, "benchmark": benchmark, "value": value, "switches": 10 * round_}


class Bench(unittest.TestCase):
    def test_result(self) -> None:
        samples = [{"scheduler": "eevdf"}, {"scheduler": "scx_x"}, sample(1, "eevdf", "pipe", 2), sample(2, "eevdf", "pipe", 4),
                   sample(1, "scx_x", "pipe", 3), sample(2, "scx_x", "pipe", 3), sample(1, "scx_x", "8-hogs-missed", 1),
                   {"scheduler": "scx_x", "callback": "x_stopping", "calls": 4, "ns": 400},
                   {"scheduler": "scx_x", "callback": "x_enqueue", "calls": 8, "ns": 80}]
        of = bench.result(samples, "icount=1", 2, "0 0 0")
        self.assertEqual([(row["benchmark"], row["scheduler"], row["unit"], row["median"], row["ratio"], row["paired_ratio"])
                          for row in of["results"]],
                         [("8-hogs-missed", "eevdf", "%", None, None, None), ("8-hogs-missed", "scx_x", "%", 1, None, None),
                          ("pipe", "eevdf", "us", 3, 1, 1), ("pipe", "scx_x", "us", 3, 1, 1.125)])
        self.assertEqual(of["callbacks_per_switch"], [{"scheduler": "scx_x", "ns": 120, "calls": 3}])
        self.assertIn("scx_x      all, for a switch of a task      3      120", "\n".join(bench.tables(of)))


class Predict(unittest.TestCase):
    def judged(self, flat: bool) -> tuple[int, str, str, list[Json]]:
        """The status, both outputs and the JSON for a kept folder in which EEVDF takes 4 and `equipoise` 5."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "machine.toml").write_text("hz = 250\nrefill_far_ns = 9\n")
            (folder / "stream").write_text("1.5 0.5\n")
            names = ["hackbench", "hackbench-g8", "pipe", "schbench-request", "schbench-wakeup-p99", "mutex", "compile"]
            medians = [{"benchmark": of, "scheduler": scheduler, "median": median}
                       for of in names for scheduler, median in (("eevdf", 4), ("equipoise:equipoise", 5))]
            callbacks = [{"scheduler": "equipoise:equipoise", "callback": "equipoise_enqueue", "ns_per_call": 1000}]
            (folder / "bench.json").write_text(json.dumps({"results": medians, "callbacks": callbacks}))
            words = ["predict", "--judge", name, "--json", f"{name}/out.json", "equipoise:equipoise"]
            said, wrong = io.StringIO(), io.StringIO()
            with patch.dict(os.environ, {"EQUIPOISE": sys.executable}), patch.object(sys, "argv", words), \
                    patch.object(predict, "compare", simulated(flat)), \
                    contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
                status = predict.main()
            self.machine = (folder / "predicted.toml").read_text()
            return status, said.getvalue(), wrong.getvalue(), json.loads((folder / "out.json").read_text())

    def test_kept_folder(self) -> None:
        status, said, wrong, figures = self.judged(flat=False)
        self.assertEqual((status, wrong), (0, ""))
        self.assertEqual(figures[0], {"benchmark": "hackbench", "scheduler": "equipoise:equipoise", "measured": 1.25,
                                      "predicted": 1.25})
        self.assertIn("mean error 0.0 %; of 7 pairs that differ by over 10 %, 7 in the right order", said)
        self.assertTrue(self.machine.startswith("hz = 250\nhost_cpus = 1\nrefill_far_ns = 9\nfair_class_ns = 3270\n"))
        self.assertTrue(self.machine.endswith('[callbacks.equipoise]\nsource = "tools.bench --callbacks"\nenqueue = 448\n'))

    def test_says_which_load_has_no_fit(self) -> None:
        status, _, wrong, _ = self.judged(flat=True)
        self.assertEqual(status, 1)
        self.assertEqual(wrong.count("has not converged"), 6)
        self.assertIn("mutex: the search for its work has not converged: with 100 us simulated EEVDF is -50.0 % off the "
                      "measured 4", wrong)


class Recordings(unittest.TestCase):
    def test_replay_judges_medians(self) -> None:
        table, count = replay.table({("pipe", "makespan, ms"): [(10, 11), (12, 40), (11, 12)],
                                     ("pipe", "wakeup latency p99, us"): [(10, 13)],
                                     ("pipe", "wakeup latency p50, us"): [(0, 0)]})
        self.assertIn("11 (10 to 12)  12 (11 to 40)   +9.1  15 %, met", table)
        self.assertEqual(count, "1 of 2 bars met")

    def test_tables_of_schedulers_are_taken(self) -> None:
        page = {"tables": [{"title": "eevdf", "rows": [["makespan, ms", "151.0", "150.0", "-0.7"], ["other", "-", "-", "-"]]},
                           {"title": "Order", "rows": [["makespan, ms", "eevdf < simple", "simple < eevdf"]]}]}
        with patch.object(replay, "ask", lambda *_, **__: page):
            self.assertEqual(replay.validated(Path(), Path()), {"eevdf": {"makespan, ms": (151, 150)}})

    def test_replay_multiplies_costs_by_the_busy_cpus(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('name = "x"\nswitch_ns = 100\n')
            file.flush()
            self.assertEqual(replay.shared(Path(file.name), {"run time, ms": (30, 0), "makespan, ms": (20, 0)}),
                             'name = "x"\nswitch_ns = 150\n')

    def test_each_load_that_was_not_recorded_is_named(self) -> None:
        said, wrong = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as name, patch.dict(os.environ, {"EQUIPOISE": sys.executable}), \
                patch.object(sys, "argv", ["replay", "--judge", name]), patch.object(replay, "validated") as validated, \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            for scheduler in "eevdf", "equipoise":
                (Path(name) / f"pipe-1-{scheduler}.dat").touch()
            validated.return_value = {"eevdf": {"makespan, ms": (10, 11)}}
            self.assertEqual(replay.main(), 1)
        self.assertIn("1 of 1 bars met", said.getvalue())
        self.assertEqual([line.split(":")[0] for line in wrong.getvalue().splitlines()],
                         [load for load in recorder.LOADS if load != "pipe"])
        self.assertEqual(validated.call_count, 1)

    def test_the_example_is_where_it_is_fetched(self) -> None:
        said, wrong = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as name, \
                patch.dict(os.environ, {"EQUIPOISE": sys.executable, "XDG_CACHE_HOME": name}), \
                patch.object(sys, "argv", ["order", "--judge", name, "pipe"]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            example = Path(name) / "equipoise/schedulers/linux-6.12/tools/sched_ext/scx_simple.bpf.c"
            example.parent.mkdir(parents=True)
            example.touch()
            with patch("subprocess.run"):
                self.assertEqual(order.main(), 1)
            self.assertEqual(wrong.getvalue(), f"pipe: {Path(name).resolve()} has no recording under eevdf\n")
        self.assertIn("0 of 0 orders are as measured", said.getvalue())

    def test_order(self) -> None:
        low, high = [(1.0 + i / 10, 1.0) for i in range(5)], [(2.0 + i / 10, 3.0) for i in range(5)]
        said = order.tables({("pipe", "makespan, ms"): {"eevdf": low, "equipoise": high, "simple": low}})
        self.assertRegex(said[2], "(?s)eevdf < equipoise +as measured.*eevdf > simple +within noise.*"
                                  "equipoise > simple +as measured")
        self.assertEqual(said[-1], "2 of 2 orders are as measured; 1 more are within noise")


class Periods(unittest.TestCase):
    def test_loops_that_were_due_are_missed(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write("#idx\n")
            for at, slack in ((0, 5), (1000, -5), (4000, 5)):
                file.write(f"0 1 2 3 {at} {at + 1000} 1000 {slack} 0 1000 0\n")
            file.flush()
            self.assertEqual(periods.logged(Path(file.name)), (1, 60))

    def test_rt_app_file_is_prepared_as_by_workgen(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{/* two\nlines */ "tasks": {"t": {"run": 1, "run": 2, "suspend", "phases": {"p": {"sleep": 3,}}}},'
                       '"global": {"duration": -1, "calibration": "CPU0"}}')
            file.flush()
            with patch.object(rt_app, "file_of", lambda _: Path(file.name)):
                content = rt_app.prepared("any", 500)
        self.assertEqual(list(content["tasks"]["t"].items()),
                         [("run2", 1), ("run3", 2), ("suspend4", "t"), ("phases", {"p": {"sleep1": 3}})])
        self.assertEqual((content["global"]["duration"], content["global"]["calibration"]), (3, 500))
