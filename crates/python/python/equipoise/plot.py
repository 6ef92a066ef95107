"""The usual figures: which threads ran where, utilization, frequencies, latencies, energy.

Each function takes an `ax` of Matplotlib to draw into (None: a new figure), and returns it. Where LISA has such a
plot, it has LISA's name. Requires `equipoise[plot]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from equipoise.api import Comparison, Reproduction, Trace
from equipoise.errors import bad_input, require

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

require("equipoise.plot", "plot")

# Converts nanoseconds to the seconds of the axes.
_NS = 1e-9


def timeline(trace: Trace, ax: Axes | None = None, *, start_s: float = 0.0, end_s: float | None = None) -> Axes:
    """Which thread ran on which CPU when, as in kernelshark; colours stand for names. Seconds, one row per CPU."""
    from matplotlib.ticker import MaxNLocator

    slices = running(trace)
    end = slices["end_ns"].max() * _NS if end_s is None and len(slices) else end_s or 0.0
    slices = slices[(slices["end_ns"] * _NS >= start_s) & (slices["start_ns"] * _NS <= end)]
    ax = _axes(ax, "CPU")
    for place, (name, group) in enumerate(slices.groupby("comm", observed=True, sort=True)):
        for cpu, own in group.groupby("cpu"):
            bars = list(zip(own["start_ns"] * _NS, (own["end_ns"] - own["start_ns"]) * _NS))
            ax.broken_barh(bars, (cpu - 0.4, 0.8), color=f"C{place % 10}", label=str(name), linewidth=0)
    ax.set_xlim(start_s, end)
    ax.set_ylim(trace.events.to_pandas()["cpu"].max() + 0.5, -0.5)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(ax)
    return ax


def utilization(trace: Trace, ax: Axes | None = None, *, task: str | None = None, cpu: int | None = None) -> Axes:
    """PELT utilization, of 1024, over time: of the tasks called `task`, or of the CPUs' (or `cpu`'s) fair tasks."""
    frame = trace.utilization.to_pandas()
    frame = frame[frame["comm"] == task] if task is not None else frame[frame["pid"] == -1]
    if cpu is not None:
        frame = frame[frame["cpu"] == cpu]
    if frame.empty:
        raise bad_input(
            f"no utilization of task {task!r}, CPU {cpu}", "expected a task or CPU of a trace with utilization=True"
        )
    ax = _axes(ax, "utilization (of 1024)")
    by, what = ("pid", "pid") if task is not None else ("cpu", "CPU")
    for key, group in frame.groupby(by):
        ax.plot(group["time_ns"] * _NS, group["util"], drawstyle="steps-post", linewidth=1, label=f"{what} {key}")
    ax.set_ylim(0, 1100)
    _legend(ax)
    return ax


def frequency(trace: Trace, ax: Axes | None = None, *, cpu: int | None = None) -> Axes:
    """The frequency of each CPU (or of `cpu`) over time, MHz."""
    frame = trace.event("cpu_frequency").to_pandas()
    if cpu is not None:
        frame = frame[frame["cpu"] == cpu]
    if frame.empty:
        raise bad_input("no frequencies", "expected a machine whose file has operating points")
    end = trace.events.to_pandas()["time_ns"].max() * _NS
    ax = _axes(ax, "frequency (MHz)")
    for number, group in frame.groupby("cpu"):
        times, mhz = list(group["time_ns"] * _NS), list(group["state"] / 1e3)
        ax.plot([*times, end], [*mhz, mhz[-1]], drawstyle="steps-post", linewidth=1, label=f"CPU {number}")
    ax.set_ylim(bottom=0)
    _legend(ax)
    return ax


def latency_cdf(traces: Trace | Mapping[str, Trace], ax: Axes | None = None, *, task: str | None = None) -> Axes:
    """The distribution of the time from a wakeup until the thread ran, us, for one trace or several by name; if
    `task` is given, only for threads whose name begins with it."""
    import numpy

    ax = _axes(ax, "wakeups")
    for name, trace in {"": traces}.items() if isinstance(traces, Trace) else traces.items():
        frame = latencies(trace)
        if task is not None:
            frame = frame[frame["comm"].astype(str).str.startswith(task)]
        values = numpy.sort(frame["latency_ns"].to_numpy() / 1e3)
        ax.plot(numpy.maximum(values, 0.1), numpy.arange(1, len(values) + 1) / max(len(values), 1), label=name)
    ax.set_xscale("log")
    ax.set_xlabel("wakeup latency (us)")
    ax.set_ylim(0, 1)
    if not isinstance(traces, Trace):
        _legend(ax)
    return ax


def energy(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """The energy of a run under each policy, in joules, with the smallest and the largest of any run."""
    frame = comparison.counters.to_pandas()
    if frame["energy_j"].isna().all():
        raise bad_input(f"the power of {comparison.machine.name} is not known", "expected a machine with [power]")
    return _bars(frame.groupby("policy", observed=True, sort=False)["energy_j"], ax, "energy (J)")


def metric(comparison: Comparison, name: str, ax: Axes | None = None) -> Axes:
    """One metric under each policy: the mean of the judged values, with the smallest and the largest of any run."""
    frame = comparison.runs.to_pandas()
    frame = frame[frame["metric"] == name]
    if frame.empty:
        known = list(comparison.runs.to_pandas()["metric"].unique())
        raise bad_input(f"no metric is called {name!r}", f"expected {', '.join(known)}", name, known)
    judged, unit = frame["judged"].iloc[0], frame["unit"].iloc[0]
    return _bars(frame.groupby("policy", observed=True, sort=False)[judged], ax, f"{name} {judged} ({unit})")


def reproduction(result: Reproduction, ax: Axes | None = None) -> Axes:
    """Every published number against the simulated one; on the line the two are equal."""
    frame = result.cells.to_pandas().dropna(subset=["published", "simulated"])
    ax = _axes(ax, "simulated")
    for column, group in frame.groupby("column", observed=True, sort=False):
        ax.plot(group["published"], group["simulated"], "o", markersize=4, label=str(column))
    low = min(frame["published"].min(), frame["simulated"].min())
    high = max(frame["published"].max(), frame["simulated"].max())
    ax.plot([low, high], [low, high], color="0.6", linewidth=1)
    if low > 0:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlabel("published")
    ax.set_title(result.name)
    _legend(ax)
    return ax


def running(trace: Trace) -> pandas.DataFrame:
    """The running times: a row for each turn of a thread on a CPU (`cpu`, `comm`, `pid`, `start_ns`, `end_ns`)."""
    frame = trace.event("sched_switch").to_pandas().sort_values(["cpu", "time_ns"], kind="stable")
    end = trace.events.to_pandas()["time_ns"].max()
    frame["end_ns"] = frame.groupby("cpu")["time_ns"].shift(-1).fillna(end).astype("int64")
    frame = frame[frame["next_pid"] != 0]
    columns = {"next_comm": "comm", "next_pid": "pid", "time_ns": "start_ns"}
    return frame.rename(columns=columns)[["cpu", "comm", "pid", "start_ns", "end_ns"]].reset_index(drop=True)


def latencies(trace: Trace) -> pandas.DataFrame:
    """The latencies: a row for each wakeup after which the thread ran (`time_ns`, `comm`, `pid`, `latency_ns`)."""
    import pandas

    frame = trace.events.to_pandas()
    woken = frame[frame["event"].isin(["sched_wakeup", "sched_wakeup_new"])]
    ran = frame[(frame["event"] == "sched_switch") & (frame["pid"] != 0)]
    woken = woken[["time_ns", "comm", "pid"]].astype({"pid": "int64"})
    ran = ran[["time_ns", "pid"]].rename(columns={"time_ns": "ran_ns"}).astype({"pid": "int64"})
    # The first run after each wakeup.
    joined = pandas.merge_asof(woken, ran, left_on="time_ns", right_on="ran_ns", by="pid", direction="forward")
    joined = joined.dropna(subset=["ran_ns"])
    # If a thread is woken twice before it runs, the last wakeup counts.
    joined = joined.drop_duplicates(["pid", "ran_ns"], keep="last")
    joined["latency_ns"] = (joined["ran_ns"] - joined["time_ns"]).astype("int64")
    return joined[["time_ns", "comm", "pid", "latency_ns"]].reset_index(drop=True)


def _bars(groups: Any, ax: Axes | None, what: str) -> Axes:
    mean, low, high = groups.mean(), groups.min(), groups.max()
    ax = _axes(ax, what)
    ax.bar([str(name) for name in mean.index], mean, yerr=[mean - low, high - mean], capsize=3, color="C0")
    ax.set_xlabel("")
    ax.tick_params(axis="x", rotation=30)
    return ax


def _axes(ax: Axes | None, label: str) -> Axes:
    if ax is None:
        import matplotlib.pyplot

        _, ax = matplotlib.pyplot.subplots(figsize=(10, 3.5), layout="constrained")
    ax.set_xlabel("time (s)")
    ax.set_ylabel(label)
    return ax


def _legend(ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    known = dict(zip(labels, handles))
    if 1 < len(known) <= 20:
        ax.legend(known.values(), known.keys(), fontsize="small", ncols=2, loc="best")
