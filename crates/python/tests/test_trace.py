"""The events of a run, and the figures drawn from them."""

import matplotlib
import numpy
import pytest

import equipoise
from equipoise import plot

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def trace():
    return equipoise.trace("hikey-6220", "mixed:duration=300ms", "equipoise")


def test_events_are_columns_in_time_order(trace):
    frame = trace.events.to_pandas()
    assert frame["time_ns"].is_monotonic_increasing
    assert {"sched_switch", "sched_wakeup", "sched_migrate_task", "cpu_frequency"} <= set(frame["event"])
    assert frame.loc[frame["event"] == "cpu_frequency", "pid"].isna().all()
    assert frame.loc[frame["event"] == "sched_wakeup", "dest_cpu"].notna().all()


def test_an_event_has_the_kernel_s_fields(trace):
    switches = trace.event("sched_switch").to_pandas()
    fields = ["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"]
    assert list(switches.columns) == ["time_ns", "cpu", *fields]
    assert switches.notna().all().all() and switches["next_pid"].dtype == numpy.int32
    # On one CPU, the next thread of a switch is the previous thread of the next switch.
    for _, own in switches.groupby("cpu"):
        assert (own["next_pid"].to_numpy()[:-1] == own["prev_pid"].to_numpy()[1:]).all()
    frequencies = trace.event("cpu_frequency").to_pandas()
    assert frequencies["state"].between(100_000, 5_000_000).all()


def test_threads_sum_up_what_the_events_say(trace):
    threads = trace.threads.to_pandas().set_index("pid")
    slices = plot.running(trace)
    ran = (slices["end_ns"] - slices["start_ns"]).groupby(slices["pid"]).sum()
    for pid, ns in ran.items():
        assert threads.loc[pid, "ran_ns"] == ns
    cpu_time = trace.cpu_time.to_pandas()
    assert (cpu_time.groupby("pid")["ran_ns"].sum() == ran).all()
    latencies = plot.latencies(trace).groupby("pid")["latency_ns"]
    for pid, most in latencies.max().items():
        assert threads.loc[pid, "latency_max_us"] == pytest.approx(most / 1e3)
    switches = trace.event("sched_switch").to_pandas()
    preempted = switches[switches["prev_state"] == "R"].groupby("prev_pid").size().drop(0, errors="ignore")
    assert threads.loc[preempted.index, "preemptions"].tolist() == preempted.tolist()


def test_a_run_s_trace_is_of_that_run():
    result = equipoise.simulate("tc2", "mixed:duration=200ms", "capacity", runs=3)
    counters = result.counters.to_pandas()
    seen = [result.trace(run, utilization=False) for run in range(3)]
    assert seen[0].events != seen[1].events
    migrations = [len(one.event("sched_migrate_task")) for one in seen]
    assert migrations == counters["migrations"].tolist()
    assert len(seen[0].utilization) == 0
    with pytest.raises(equipoise.BadInput):
        result.trace(3)


def test_utilization_is_between_0_and_1024(trace):
    frame = trace.utilization.to_pandas()
    assert frame["util"].between(0, 1025).all()
    assert {-1} < set(frame["pid"])


def test_energy_sums_up_to_the_run_s_joules():
    result = equipoise.simulate("snb-laptop", "audio:duration=200ms", runs=1)
    counters = result.counters.to_pandas().iloc[0]
    energy = result.trace().energy.to_pandas()
    end = counters["simulated_s"] * 1e9
    joules = energy["energy_pj"].sum() * 1e-12
    for _, part in energy.dropna(subset=["power_mw"]).groupby("part", observed=True):
        spans = numpy.diff([*part["time_ns"], end])
        joules += (part["power_mw"] * spans).sum() * 1e-12
    assert joules == pytest.approx(counters["energy_j"], rel=1e-3)


def test_every_figure_is_drawn(trace):
    comparison = equipoise.compare("snb-laptop", "audio:duration=200ms", ["eevdf", "equipoise"], runs=2)
    by_policy = {policy.name: comparison.trace(policy.name) for policy in comparison.policies}
    table = equipoise.reproduce("mixed-capacity", rows="sysbench_1t", runs=1)
    axes = [
        plot.timeline(trace),
        plot.utilization(trace),
        plot.utilization(trace, task=str(trace.threads.to_pandas()["comm"].iloc[-1])),
        plot.frequency(trace),
        plot.latency_cdf(by_policy),
        plot.energy(comparison),
        plot.metric(comparison, comparison.results.to_pandas()["metric"].iloc[0]),
        plot.reproduction(table),
    ]
    cpus = len(equipoise.Machine("hikey-6220"))
    for ax in axes[:2]:
        assert [label.get_text() for label in ax.get_yticklabels()] == [str(cpu) for cpu in range(cpus)]
    for ax in axes:
        assert ax.lines or ax.collections or ax.patches
        assert ax.get_title() and ax.get_xlabel(), "a title and a unit"
        ax.figure.canvas.draw()
        matplotlib.pyplot.close(ax.figure)
    for figure, message in [
        (lambda: plot.timeline(trace, end_s=0.0), "no time"),
        (lambda: plot.timeline(trace, end_s=float("nan")), "no time"),
        (lambda: plot.frequency(trace, cpu=99), "no frequency of CPU 99"),
        (lambda: plot.utilization(trace, cpu=99), "no utilization of CPU 99"),
        (lambda: plot.latency_cdf(trace, task="nothing"), "no wakeup of a thread 'nothing'"),
    ]:
        with pytest.raises(equipoise.BadInput, match=message):
            figure()
    with pytest.raises(equipoise.BadInput, match="is not known"):
        plot.energy(equipoise.compare("tc2", "mixed:duration=50ms", "eevdf", runs=1))
