"""One machine and one load: results, tables, errors, Ctrl-C."""

import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest

import equipoise
from equipoise import BadInput, Machine, Policy, SimulationError, Workload

FIFO = r"""
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile bool fail;
s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init) { return scx_bpf_create_dsq(0, -1); }
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (fail)
		scx_bpf_error("as it was told");
	scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
}
void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(0); }
SCX_OPS_DEFINE(fifo_ops, .enqueue = (void *)fifo_enqueue, .dispatch = (void *)fifo_dispatch,
	       .init = (void *)fifo_init, .name = "fifo");
"""

RT_APP = {
    "tasks": {"beat": {"instance": 2, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 10000}}},
    "global": {"duration": 1},
}


def test_a_row_for_each_run_and_metric():
    result = equipoise.simulate("tc2", Workload("mixed", duration="200ms"), "capacity", runs=3, seed=5)
    frame = result.runs.to_pandas()
    assert set(frame["run"]) == {0, 1, 2}
    assert set(frame["policy"]) == {"capacity"} and set(frame["machine"]) == {"tc2"}
    assert frame.groupby("run", observed=True).size().nunique() == 1
    assert (frame["p50"].dropna() <= frame["p99"].dropna()).all()
    assert len(result.counters) == 3
    assert (result.counters.to_pandas()["context_switches"] > 0).all()


@pytest.mark.parametrize("number", [10**40, 2**64, -1, 1.5, True, "1"])
def test_numbers_that_are_none_are_bad_input(number):
    for what in ("runs", "seed", "jobs"):
        with pytest.raises(BadInput, match=f"{what} is"):
            equipoise.simulate("tc2", "mixed:duration=10ms", **{what: number})


def test_a_setting_sets_nothing_else():
    for value in ('1\nload_tracking="pelt"', "1,load_tracking=pelt"):
        with pytest.raises(BadInput, match="not a single value"):
            Policy("cfs", newidle_limit_ns=value)
    with pytest.raises(BadInput, match="not a single value"):
        Workload("busy", duration="1s,threads=3")


def test_jobs_change_nothing_and_seeds_do():
    def run(**how):
        return equipoise.simulate("tc2", "mixed:duration=200ms", runs=4, **how).runs

    assert run(jobs=1) == run(jobs=3)
    assert run() != run(seed=2)


def test_pandas_polars_and_pyarrow_take_tables_as_they_are():
    table = equipoise.simulate("smp-2", "busy:duration=10ms", runs=2).runs
    arrow = pyarrow.table(table)
    assert arrow.column_names == table.column_names and arrow.num_rows == len(table) == table.shape[0]
    assert polars.DataFrame(table).equals(table.to_polars())
    assert pandas.DataFrame.from_arrow(table).equals(table.to_pandas())
    assert isinstance(table.to_pandas()["metric"].dtype, pandas.CategoricalDtype)
    assert "metric" in repr(table)


def test_the_command_says_the_same():
    comparison = equipoise.compare("tc2", "mixed:duration=200ms", ["cfs", "capacity"], runs=3)
    assert str(comparison).startswith("mixed:duration=200ms on tc2\n3 runs, seed 1\n")
    runs = comparison.runs.to_pandas()
    results = comparison.results.to_pandas()
    for _, row in results[results["judged"] == "mean"].iterrows():
        own = runs[(runs["policy"] == row["policy"]) & (runs["metric"] == row["metric"])]
        if row["n"] > 0:
            assert row["mean"] == pytest.approx((own["mean"] * own["n"]).sum() / own["n"].sum())
    assert comparison.html.startswith("<!DOCTYPE html>") and '"schema": 2' in comparison.json
    assert {"goal", "policy", "best"} <= set(comparison.verdict.column_names)


def test_a_simulation_s_runs_are_those_of_a_comparison():
    load = Workload("mixed", duration="200ms")
    alone = equipoise.simulate("tc2", load, "capacity", runs=2).runs.to_pandas()
    beside = equipoise.compare("tc2", load, ["cfs", "capacity"], runs=2).runs.to_pandas()
    beside = beside[beside["policy"] == "capacity"].reset_index(drop=True)
    pandas.testing.assert_frame_equal(alone, beside, check_categorical=False)


def test_machines_workloads_and_policies_tell_of_themselves(tmp_path):
    machine = Machine("tc2")
    assert len(machine) == 5 and machine.cpus.to_pandas()["cluster"].tolist() == [0, 0, 1, 1, 1]
    assert Machine.from_toml(machine.to_toml()).name == "tc2"
    assert "hackbench" in Workload.names() and "groups" in Workload("hackbench").parameters
    assert "tc2" in Machine.names() and "equipoise" in Policy.names()
    policy = Policy("capacity", misfit=False)
    assert policy.name == "capacity:misfit=false" and policy.settings["misfit"] is False
    assert policy.with_settings(misfit=True).settings == Policy("capacity").settings
    file = tmp_path / "mine.toml"
    policy.save(file, "mine")
    assert Policy(str(file)).settings == policy.settings and Policy(str(file)).name == "mine"
    assert {"setting", "kind", "least", "most"} <= set(policy.space.column_names)


def test_a_saved_policy_is_complete_and_replaces_no_device(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    Policy("cfs").save(link)
    assert link.is_symlink() and len(list(tmp_path.iterdir())) == 1
    file = tmp_path / "mine.toml"
    file.write_text("before")
    Policy("cfs", newidle_limit_ns=5).save(file, "")
    assert Policy(str(file)).settings["newidle_limit_ns"] == 5
    with pytest.raises(OSError, match="nothing/mine.toml"):
        Policy("cfs").save(tmp_path / "nothing/mine.toml")
    assert pickle.loads(pickle.dumps(Policy("cfs").named(""))).name == ""


def test_this_computer_is_a_machine():
    machine = Machine.detect(name="here")
    assert machine.name == "here" and len(machine) >= 1
    equipoise.simulate(machine, "busy:duration=10ms", runs=1)


def test_rt_app_as_a_dict_a_text_and_a_file(tmp_path):
    import json

    file = tmp_path / "beat.json"
    file.write_text(json.dumps(RT_APP))
    loads = [RT_APP, Workload.from_rt_app(json.dumps(RT_APP)), str(file)]
    tables = [equipoise.simulate("smp-2", load, runs=1).runs.to_pandas().drop(columns="workload") for load in loads]
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])


def test_any_load_takes_a_place():
    load = Workload.from_rt_app(RT_APP, nice=5)
    assert load.name == "rt-app:nice=5"
    assert pickle.loads(pickle.dumps(load)).name == load.name
    switches = equipoise.simulate("smp-2", load, runs=1).trace().event("sched_switch").to_pandas()
    assert switches["next_prio"].eq(125).any()


def test_a_trace_is_a_load(tmp_path):
    file = tmp_path / "trace.txt"
    lines = ["# tracer: nop"]
    for beat in range(20):
        at = 1 + beat / 100
        lines += [
            f"  <idle>-0  [000] d..2. {at:.6f}: sched_waking: comm=a pid=10 prio=120 target_cpu=000",
            f"  <idle>-0  [000] d..2. {at + 0.00001:.6f}: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 "
            "prev_state=R ==> next_comm=a next_pid=10 next_prio=120",
            f"  a-10      [000] d..2. {at + 0.003:.6f}: sched_switch: prev_comm=a prev_pid=10 prev_prio=120 "
            "prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
        ]
    file.write_text("\n".join(lines) + "\n")
    load = Workload.from_trace(file)
    assert load.name == "trace" and load.notes[0].startswith("60 events")
    assert len(pickle.loads(pickle.dumps(load)).notes) == 0
    frame = equipoise.simulate("smp-2", load, runs=1).runs.to_pandas()
    assert frame.loc[frame["metric"] == "makespan", "mean"].item() == pytest.approx(0.193, abs=0.02)


def short():
    return equipoise.compare("smp-2", "busy:duration=1ms", "cfs", runs=1)


@pytest.mark.parametrize(
    ("make", "message", "expected"),
    [
        (lambda: Machine("tc3"), "no machine is called `tc3`", "did you mean `tc2`?"),
        (lambda: Workload("hackbench", grups=2), "unknown parameter `grups`", "groups"),
        (lambda: Policy("capacity", misfit=1), "misfit", "true or false"),
        (lambda: equipoise.simulate("tc2", "mixed", runs=0), "runs is 0", "from 1 to 100000"),
        # So many runs would not fit into memory, which ends the process.
        (lambda: equipoise.simulate("tc2", "mixed", runs=2**32 - 1), "runs is 4294967295", "from 1 to 100000"),
        (lambda: equipoise.simulate("tc2", "mixed", jobs=10**6), "jobs is 1000000", "from 0 to 1024"),
        (lambda: equipoise.reproduce("mixed-capacity", rows="nothing*"), "no row matches", "sysbench"),
        (lambda: equipoise.reproduce("hperf-hmp", scale=-1), "scale is -1", "from 1 to 100"),
        (
            lambda: equipoise.compare("smp-2", "busy", ["cfs", Policy("eevdf").named("cfs")]),
            "two different policies are called `cfs`",
            "different names",
        ),
        (lambda: short().trace("cf"), "no policy of the comparison is 'cf'", "did you mean 'cfs'?"),
        (lambda: short().trace(1), "no policy of the comparison is 1", "an index below 1"),
        (lambda: Policy("equipoise", slice_ns=2e6), "slice_ns is 2000000.0", "a whole number"),
        (lambda: equipoise.simulate("smp-2", Workload("busy", cpunodebind="7")), "nodes", "expected"),
        (lambda: equipoise.trace("smp-2", "busy:duration=1ms").event("sched_swich"), "sched_swich", "sched_switch"),
    ],
)
def test_bad_input_says_what_was_expected(make, message, expected):
    with pytest.raises(BadInput) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    assert message in caught.value.message and expected in caught.value.expected, str(caught.value)
    assert str(caught.value) == f"{caught.value.message}\n{caught.value.expected}"


def test_a_bad_file_has_a_line(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('name = "p"\ndescription = "d"\nextends = "cfs"\nmisfti = true\n')
    with pytest.raises(BadInput) as caught:
        Policy(str(file))
    assert (caught.value.file, caught.value.line) == (str(file), 4)
    with pytest.raises(BadInput) as caught:
        Workload.from_rt_app('{\n "tasks": {\n  "a": {"rum": 1}\n }\n}')
    assert caught.value.line == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.line, again.expected) == (3, caught.value.expected)


def test_everything_can_be_pickled():
    result = equipoise.simulate(
        Machine("tc2"), Workload("mixed", duration="50ms"), Policy("cfs", newidle_limit_ns=7), runs=1
    )
    for one in (result.machine, result.workload, result.policy):
        assert pickle.loads(pickle.dumps(one)).name == one.name
    again = pickle.loads(pickle.dumps(result))
    assert again.runs == result.runs and again.policy.settings == result.policy.settings
    assert equipoise.simulate(again.machine, again.workload, again.policy, runs=1).runs == result.runs


def test_a_scheduler_in_c_runs_apart(tmp_path):
    file = tmp_path / "scx_fifo.bpf.c"
    file.write_text(FIFO)
    comparison = equipoise.compare("smp-2", "busy:duration=20ms", ["eevdf", file], runs=2)
    assert set(comparison.runs.to_pandas()["policy"]) == {"eevdf", "fifo"}
    (tmp_path / "more").write_text("x")
    subprocess.run(["true"], check=True)
    failing = Policy.from_c(file, fail=True)
    with pytest.raises(SimulationError, match="as it was told"):
        equipoise.simulate("smp-2", "busy:duration=20ms", failing, runs=1)
    with pytest.raises(BadInput, match="const volatile|no global variable"):
        Policy.from_c(file, faill=1)


def test_a_fault_of_a_scheduler_in_c_is_an_exception(tmp_path):
    file = tmp_path / "scx_fault.bpf.c"
    file.write_text(FIFO.replace("if (fail)", "*(volatile int *)8 = 0;\n\tif (fail)"))
    with pytest.raises(SimulationError, match=r"its enqueue\(\) \(scx_fault.bpf.c:8\)"):
        equipoise.simulate("smp-2", "busy:duration=20ms", str(file), runs=1)


def test_other_threads_run_meanwhile():
    counted, done = 0, threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    began = time.monotonic()
    equipoise.simulate("tc2", "mixed", runs=6, jobs=1)
    took = time.monotonic() - began
    done.set()
    other.join()
    # A thread that had to wait would have counted only once or twice.
    assert counted > 20 * took


def test_ctrl_c_stops_it():
    program = (
        "import equipoise\n"
        "print('begun', flush=True)\n"
        "try:\n equipoise.simulate('tc2', 'hackbench', runs=100000)\n"
        "except KeyboardInterrupt:\n print('stopped')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert (out, child.returncode) == ("stopped\n", 0)


def test_progress_counts_runs_and_may_stop():
    counts = []
    equipoise.simulate("smp-2", "busy:duration=10ms", runs=5, progress=counts.append)
    assert counts[-1] == 5 and counts == sorted(counts)

    def enough(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        equipoise.simulate("tc2", "hackbench", runs=100000, progress=enough)


def test_a_published_table():
    result = equipoise.reproduce("mixed-capacity", rows="sysbench_1t", runs=2)
    frame = result.cells.to_pandas()
    assert set(frame["row"]) == {"sysbench_1t"}
    assert frame.loc[frame["published"].notna(), "simulated"].notna().all()
    assert result.summary["mean_abs_error_pct"] is not None
    assert "mixed-capacity" in equipoise.experiments() and "sysbench_1t" in str(result)


def test_what_there_is_has_types_and_docstrings():
    package = Path(equipoise.__file__).parent
    assert (package / "py.typed").exists() and (package / "_native.pyi").exists()
    for name in equipoise.__all__:
        assert getattr(equipoise, name).__doc__, name


def test_results_have_html():
    comparison = equipoise.compare("tc2", "mixed:duration=50ms", ["eevdf", "equipoise"], runs=2)
    html = comparison._repr_html_()
    assert html.startswith("<div") and "<table>" in html and "equipoise" in html and "<html" not in html
    assert "<table" in comparison.runs._repr_html_()
    reproduction = equipoise.reproduce("mixed-capacity", runs=1, rows="sysbench_1t")
    assert "published" in reproduction._repr_html_()
    simulation = equipoise.simulate("smp-2", "busy:duration=10ms", runs=1)
    assert "<table" in simulation._repr_html_() and "<table" in simulation.trace()._repr_html_()


def test_a_stopped_simulation_prints_no_traceback():
    program = "import equipoise\nprint('begun', flush=True)\nequipoise.simulate('tc2', 'hackbench', runs=100000)\n"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", program], **pipes)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (err, child.returncode) == ("equipoise: stopped\n", -signal.SIGINT)


def test_a_table_is_what_arrow_says():
    """Tables pass pyarrow's validation, with missing values, booleans, texts, and without rows."""
    trace = equipoise.trace("tc2", "mixed:duration=20ms")
    tables = [trace.events, trace.utilization, trace.energy, trace.threads, trace.cpu_time]
    simulation = equipoise.simulate("tc2", "mixed:duration=20ms", runs=2)
    tables += [simulation.runs, simulation.counters, trace.event("sched_process_fork"), trace.event("cpu_frequency")]
    for table in tables:
        arrow = table.to_pyarrow()
        arrow.validate(full=True)
        assert (arrow.num_rows, arrow.num_columns) == table.shape
        assert arrow.column_names == table.column_names
        assert pickle.loads(pickle.dumps(table)) == table
        copies = [table.to_pyarrow() for _ in range(100)]
        assert all(copy.equals(arrow) for copy in copies)
        assert pyarrow.schema(table).equals(arrow.schema)
    switches = trace.event("sched_switch").to_pyarrow()
    events = trace.events.to_pyarrow()
    chosen = events.filter(pyarrow.compute.equal(events["event"], "sched_switch"))
    assert switches["next_comm"].to_pylist() == chosen["comm"].to_pylist()
    assert switches["prev_state"].to_pylist() == chosen["prev_state"].to_pylist()
    assert events["pid"].null_count > 0
