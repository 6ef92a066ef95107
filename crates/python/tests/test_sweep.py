"""Designs and sweeps: engines agree, and an interrupted sweep resumes."""

import signal
import subprocess
import sys
import time

import pytest

import equipoise
from equipoise import BadInput, Range
from equipoise.design import points

LOADS = ["mixed:duration=50ms", "busy:duration=20ms"]
SMALL = {"machines": ["tc2", "smp-2"], "workloads": LOADS, "policies": ["eevdf", "capacity"], "runs": 3}


@pytest.mark.parametrize("exact", [False, True])
def test_a_grid_is_what_one_by_one_is(exact):
    result = equipoise.sweep(**SMALL, exact=exact, chunk=5)
    frame = result.to_pandas()
    assert len(result.cases) == 8 and frame["point"].is_monotonic_increasing
    assert result.chunks == 5
    case = result.cases[5]
    alone = equipoise.simulate(case.machine, case.workload, case.policy, runs=3, exact=exact).runs.to_pandas()
    own = frame[frame["point"] == 5].drop(columns="point").reset_index(drop=True)
    for column in alone:
        assert own[column].astype(alone[column].dtype).equals(alone[column]), column


def test_settings_and_parameters_are_dimensions():
    result = equipoise.sweep(
        "tc2",
        "busy",
        "cfs",
        settings={"newidle_limit_ns": [0, 1000]},
        parameters={"duration": ["10ms", "20ms"]},
        runs=1,
    )
    frame = result.to_pandas()
    values = frame.groupby("point")[["duration", "newidle_limit_ns"]].first()
    assert values.values.tolist() == [["10ms", 0], ["10ms", 1000], ["20ms", 0], ["20ms", 1000]]
    assert [case.policy.settings["newidle_limit_ns"] for case in result.cases] == [0, 1000, 0, 1000]


def test_whole_numbers_and_others_are_one_column(tmp_path):
    # Each chunk is a file of its own, whose columns need the same types.
    what = {"parameters": {"duration": [0.01, 1]}, "runs": 1, "chunk": 1}
    for out in (None, tmp_path / "s"):
        frame = equipoise.sweep("smp-2", "busy", "eevdf", **what, out=out).to_pandas()
        assert frame["duration"].unique().tolist() == [0.01, 1.0]


def test_numpys_arrays_are_dimensions():
    numpy = pytest.importorskip("numpy")
    settings = {"slice_ns": numpy.arange(1, 3) * 1_000_000, "frequency": numpy.array([True, False])}
    result = equipoise.sweep("smp-2", "busy:duration=10ms", "equipoise", settings=settings, runs=1)
    assert [tuple(case.values.values()) for case in result.cases] == [
        (1_000_000, True), (1_000_000, False), (2_000_000, True), (2_000_000, False)
    ]


@pytest.mark.parametrize("design", ["random", "sobol"])
def test_designs_are_the_same_each_time_and_in_range(design):
    axes = {"a": Range(1, 1000, log=True), "b": ["x", "y", "z"], "c": [1], "d": Range(0, 1, integer=False)}
    one = points(axes, design, 64, seed=3)
    assert one == points(axes, design, 64, seed=3) != points(axes, design, 64, seed=4)
    assert all(1 <= point["a"] <= 1000 and isinstance(point["a"], int) for point in one)
    assert {point["b"] for point in one} == {"x", "y", "z"} and {point["c"] for point in one} == {1}
    assert sum(point["a"] < 32 for point in one) in range(20, 45)


def test_a_range_of_whole_numbers_has_all_of_them():
    found = {point["a"] for point in points({"a": Range(0, 3)}, "sobol", 64, seed=1)}
    assert found == {0, 1, 2, 3}


def test_the_folder_has_the_same_bytes_whatever_the_jobs(tmp_path):
    results = [equipoise.sweep(**SMALL, chunk=5, jobs=jobs, out=tmp_path / str(jobs)) for jobs in (1, 3)]
    files = [{file.name: file.read_bytes() for file in (one.out / "runs").iterdir()} for one in results]
    assert files[0] == files[1] and len(files[0]) == 5
    assert results[0].to_pandas().equals(equipoise.sweep(**SMALL, chunk=5).to_pandas())


def test_a_sweep_that_lost_parts_does_those_alone(tmp_path):
    first = equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s")
    whole = first.to_pandas()
    parts = sorted((tmp_path / "s/runs").iterdir())
    times = {part: part.stat().st_mtime_ns for part in parts}
    parts[1].unlink()
    parts[3].unlink()
    again = equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s")
    assert (again.resumed, again.chunks) == (3, 5)
    assert again.to_pandas().equals(whole)
    assert all(part.stat().st_mtime_ns == times[part] for place, part in enumerate(parts) if place not in (1, 3))
    with pytest.raises(BadInput, match="another sweep"):
        equipoise.sweep(**SMALL, chunk=5, seed=2, out=tmp_path / "s")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    with pytest.raises(BadInput, match="not empty"):
        equipoise.sweep(**SMALL, out=tmp_path / "mine")


def test_a_part_that_is_cut_short_is_done_again(tmp_path):
    first = equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s")
    whole = first.to_pandas()
    parts = sorted((tmp_path / "s/runs").iterdir())
    parts[1].write_bytes(parts[1].read_bytes()[:100])
    parts[3].write_bytes(b"")
    again = equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s")
    assert (again.resumed, again.chunks) == (3, 5)
    assert again.to_pandas().equals(whole)
    for part in parts:
        part.unlink()
    parts[0].parent.rmdir()
    assert equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s").resumed == 0
    (tmp_path / "s/sweep.json").write_text('{"schema": ')
    with pytest.raises(BadInput, match="does not describe a sweep"):
        equipoise.sweep(**SMALL, chunk=5, out=tmp_path / "s")


def test_a_killed_sweep_goes_on(tmp_path):
    what = "'tc2', 'mixed:duration=300ms', ['eevdf', 'capacity'], runs=60, chunk=4"
    program = f"import equipoise; equipoise.sweep({what}, out={str(tmp_path / 's')!r}, jobs=2)"
    child = subprocess.Popen([sys.executable, "-c", program])
    parts = tmp_path / "s/runs"
    deadline = time.monotonic() + 120
    while not (parts.is_dir() and list(parts.glob("part-*"))) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    child.wait()
    there = len(list(parts.glob("part-*")))
    result = eval(f"equipoise.sweep({what}, out=tmp_path / 's')")  # noqa: S307 - the same words
    assert 0 < result.resumed == there <= result.chunks == 30
    assert result.to_pandas().equals(eval(f"equipoise.sweep({what})").to_pandas())  # noqa: S307


def test_ctrl_c_ends_a_sweep_soon(tmp_path):
    program = "import equipoise; equipoise.sweep('tc2', 'hackbench', 'eevdf', runs=100000, out='s')"
    child = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "s/runs").is_dir():
        time.sleep(0.01)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert err.endswith("equipoise: stopped; the same call continues the sweep in s\n"), err
    assert "Traceback" not in err
    assert not list((tmp_path / "s/runs").glob(".*"))


def test_a_failure_is_an_exception():
    first, second = [
        '{"lock": "%s", "run": 1000, "lock": "%s", "unlock": "x", "unlock": "y"}' % tuple(of) for of in ("xy", "yx")
    ]
    bad = equipoise.Workload.from_rt_app('{"tasks": {"a": %s, "b": %s}}' % (first, second))
    with pytest.raises(equipoise.SimulationError, match="deadlock"):
        equipoise.sweep("smp-2", bad, "eevdf", runs=1)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"design": "grid", "settings": {"newidle_limit_ns": Range(0, 5)}}, "in a grid"),
        ({"design": "latin"}, "design is 'latin'"),
        ({"design": "sobol"}, "without samples"),
        ({"engine": "slurm"}, "engine is 'slurm'"),
        ({"settings": {"machine": [1]}}, "named twice"),
        ({"settings": {"newidle_limit_ns": []}}, "no value for"),
        ({"chunk": 0}, "chunk is 0"),
        ({"settings": {"newidle_limit_ns": [1, "2"]}}, "only numbers"),
        ({"settings": {"newidle_limit_ns": None}}, "only numbers"),
        ({"settings": {"newidle_limit_ns": [1.5]}}, "a whole number"),
        ({"settings": {"newidle_limit_ns": [1, 2, 1]}}, "two points of the grid"),
        ({"engine": equipoise.Local}, "engine is"),
    ],
)
def test_what_makes_no_design_is_said(how, message):
    with pytest.raises(BadInput, match=message):
        equipoise.sweep("tc2", "busy", "cfs", runs=1, **how)


def test_loads_of_the_same_name_are_no_design():
    loads = [{"tasks": {"a": {"run": run, "loop": 3}}} for run in (100, 200)]
    with pytest.raises(BadInput, match="two points of the grid are smp-2, rt-app, eevdf"):
        equipoise.sweep("smp-2", loads, "eevdf", runs=1)


@pytest.mark.parametrize("make", [lambda: Range(0, float("inf")), lambda: Range("a", "b"), lambda: Range(1.2, 1.8)])
def test_a_range_has_two_ends_and_a_number_in_it(make):
    with pytest.raises(BadInput, match="Range"):
        make()


def test_ray_gives_the_same_bytes_and_survives_a_lost_node(tmp_path):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        lost = cluster.add_node(num_cpus=1)
        cluster.connect()
        cluster.wait_for_nodes()
        what = {**SMALL, "workloads": ["mixed:duration=200ms"], "runs": 20, "chunk": 4}
        running = equipoise.Ray()
        parts = tmp_path / "ray/runs"

        def lose(original=running.run):
            def run(work, tasks):
                for place, done in enumerate(original(work, tasks)):
                    if place == 2:
                        cluster.remove_node(lost)
                    yield done

            return run

        class Losing:
            run = staticmethod(lose())

        by_ray = equipoise.sweep(**what, out=tmp_path / "ray", engine=Losing())
        here = equipoise.sweep(**what, out=tmp_path / "local")
        names = [sorted(file.name for file in one.iterdir()) for one in (parts, tmp_path / "local/runs")]
        assert names[0] == names[1]
        for name in names[0]:
            assert (parts / name).read_bytes() == (tmp_path / "local/runs" / name).read_bytes()
        assert by_ray.to_pandas().equals(here.to_pandas())
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_nothing_of_ray_is_imported_without_need():
    program = (
        "import sys, equipoise\n"
        "equipoise.sweep('smp-2', 'busy:duration=5ms', 'eevdf', runs=1)\n"
        "assert not {'ray', 'optuna', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_metric_of_a_sweep_is_drawn():
    import matplotlib

    matplotlib.use("Agg")
    from equipoise import plot

    by_machine = equipoise.sweep(["tc2", "smp-2"], "mixed:duration=100ms", ["eevdf", "equipoise"], runs=2)
    ax = plot.sweep(by_machine, "ui/response")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["tc2", "smp-2"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["eevdf", "equipoise"]
    drawn = [bar.get_height() for bar in ax.patches]
    frame = by_machine.to_pandas()
    frame = frame[frame["metric"] == "ui/response"]
    means = frame.groupby(["policy", "machine"], observed=True)[frame["judged"].iloc[0]].mean()
    assert sorted(drawn) == pytest.approx(sorted(means))
    four = frame.iloc[:4].assign(policy="a", value=[1.0, 2.0, 1.0, 2.0])
    interval = plot._intervals(four.groupby("policy")["value"]).loc["a"]
    assert [interval["low"], interval["mean"], interval["high"]] == pytest.approx([0.5813, 1.5, 2.4187], abs=1e-3)
    assert plot.sweep(by_machine, "ui/response", by="machine").get_xlabel() == "policy"
    assert plot.sweep(by_machine, "ui/response", by="machine", x="machine").patches
    by_setting = equipoise.sweep(
        "tc2", "mixed:duration=100ms", "equipoise", settings={"slice_ns": [1_000_000, 4_000_000]}, runs=2
    )
    ax = plot.sweep(by_setting, "ui/response")
    assert ax.get_xlabel() == "slice_ns" and list(ax.lines[0].get_xdata()) == [1_000_000, 4_000_000]
    point = equipoise.sweep("tc2", "mixed:duration=100ms", "equipoise", runs=1)
    assert len(plot.sweep(point, "ui/response").patches) == 1
    with pytest.raises(equipoise.BadInput, match="no metric"):
        plot.sweep(by_machine, "ui/respons")
    with pytest.raises(equipoise.BadInput, match="no column"):
        plot.sweep(by_machine, "ui/response", x="machin")
