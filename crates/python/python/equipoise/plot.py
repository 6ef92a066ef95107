"""Draws the usual figures: threads on CPUs, utilization, frequencies, latencies and energy.

Each function that draws takes an `ax` of Matplotlib to draw into (None: a new figure), and returns it. If LISA has such a plot,
the function has LISA's name. Requires `equipoise[plot]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from equipoise.api import Comparison, Reproduction, Trace
from equipoise.design import is_number
from equipoise.errors import bad_input, require
from equipoise.sweep import Sweep

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

require("equipoise.plot", "plot")

# Converts nanoseconds to the seconds of the axes.
_NS = 1e-9
# The largest number of threads of a timeline that have a colour, and of labelled rows.
_COLOURS = 10
_LABELS = 40
# The columns of a sweep that are results.
_RESULTS = {"n", "mean", "min", "max", "p50", "p95", "p99", "p999"}


def timeline(trace: Trace, ax: Axes | None = None, *, start_s: float = 0.0, end_s: float | None = None) -> Axes:
    """Draws the threads that ran on each CPU over time in seconds, as KernelShark does, with one row per CPU. The
    threads that ran longest have a colour, by name."""
    slices = running(trace)
    events = trace.events.to_pandas()
    end = events["time_ns"].max() * _NS if end_s is None else end_s
    if not start_s < end:
        raise bad_input(f"no time from {start_s} s to {end} s", "expected start_s < end_s, and a start in the run")
    slices = slices[(slices["end_ns"] * _NS >= start_s) & (slices["start_ns"] * _NS <= end)]
    cpus = int(events["cpu"].max()) + 1
    ax = _axes(ax, "CPU", "Which thread ran on which CPU", rows=cpus)
    ran = (slices["end_ns"] - slices["start_ns"]).groupby(slices["comm"].astype(str)).sum()
    coloured = list(ran.sort_values(ascending=False).index[:_COLOURS])
    named = slices["comm"].astype(str)
    for place, name in enumerate([*coloured, None]):
        chosen = slices[~named.isin(coloured)] if name is None else slices[named == name]
        colour, label = ("0.75", "other threads") if name is None else (f"C{place}", name)
        for cpu, own in chosen.groupby("cpu"):
            bars = list(zip(own["start_ns"] * _NS, (own["end_ns"] - own["start_ns"]) * _NS))
            ax.broken_barh(bars, (cpu - 0.4, 0.8), color=colour, label=label, linewidth=0)
    ax.set_xlim(start_s, end)
    _rows(ax, [str(cpu) for cpu in range(cpus)])
    _legend(ax)
    return ax


def utilization(trace: Trace, ax: Axes | None = None, *, task: str | None = None, cpu: int | None = None) -> Axes:
    """Draws the PELT utilization (1024 is a full CPU) over time, of the tasks called `task`, or of the fair tasks of
    each CPU (or of `cpu`), with one row per CPU."""
    frame = trace.utilization.to_pandas()
    frame = frame[frame["comm"] == task] if task is not None else frame[frame["pid"] == -1]
    if cpu is not None:
        frame = frame[frame["cpu"] == cpu]
    if frame.empty:
        of = [] if task is None else [f"task {task!r}"]
        of += [] if cpu is None else [f"CPU {cpu}"]
        expected = "expected a task or CPU of a trace with utilization=True"
        raise bad_input(f"no utilization of {' on '.join(of) or 'any CPU'}", expected)
    if task is None:
        cpus = range(int(trace.events.to_pandas()["cpu"].max()) + 1) if cpu is None else [cpu]
        of_cpu = {number: frame[frame["cpu"] == number] for number in cpus}
        series = {str(number): (own["time_ns"] * _NS, own["util"]) for number, own in of_cpu.items()}
        return _lanes(ax, series, 1024, "CPU", "Utilization of the CPUs (full row: 1024)")
    ax = _axes(ax, "utilization (of 1024)", f"Utilization of {task}")
    for pid, group in frame.groupby("pid"):
        ax.plot(group["time_ns"] * _NS, group["util"], drawstyle="steps-post", linewidth=1, label=f"pid {pid}")
    ax.set_ylim(0, 1100)
    _legend(ax)
    return ax


def frequency(trace: Trace, ax: Axes | None = None, *, cpu: int | None = None) -> Axes:
    """Draws the frequency of each CPU (or of `cpu`) over time. CPUs that always have the same frequency share a row."""
    frame = trace.event("cpu_frequency").to_pandas()
    if frame.empty:
        raise bad_input("no frequencies", "expected a machine whose file has operating points")
    if cpu is not None:
        known = _spans(sorted(frame["cpu"].unique()))
        frame = frame[frame["cpu"] == cpu]
        if frame.empty:
            raise bad_input(f"no frequency of CPU {cpu}", f"expected one of the CPUs {known}")
    end = trace.events.to_pandas()["time_ns"].max() * _NS
    same: dict[Any, list[int]] = {}
    for number, group in frame.groupby("cpu"):
        steps = (tuple(group["time_ns"] * _NS), tuple(group["state"] / 1e6))
        same.setdefault(steps, []).append(int(number))
    series = {_spans(cpus): ([*times, end], [*ghz, ghz[-1]]) for (times, ghz), cpus in same.items()}
    most = max(max(ghz) for _, ghz in series.values())
    return _lanes(ax, series, most, "CPUs", f"Frequency (full row: {most:.2f} GHz)")


def latency_cdf(traces: Trace | Mapping[str, Trace], ax: Axes | None = None, *, task: str | None = None) -> Axes:
    """Draws the distribution of the time in us from a wakeup until the thread ran, for one trace or for several by
    name. If `task` is given, only threads whose name begins with it count."""
    import numpy

    ax = _axes(ax, "share of the wakeups", "Wakeup latencies" + (f" of {task}" if task is not None else ""))
    for name, trace in {"": traces}.items() if isinstance(traces, Trace) else traces.items():
        frame = latencies(trace)
        if task is not None:
            frame = frame[frame["comm"].astype(str).str.startswith(task)]
            if frame.empty:
                raise bad_input(f"no wakeup of a thread {task!r}", "expected the beginning of a thread's name")
        values = numpy.sort(frame["latency_ns"].to_numpy() / 1e3)
        ax.plot(numpy.maximum(values, 0.1), numpy.arange(1, len(values) + 1) / max(len(values), 1), label=name)
    ax.set_xscale("log")
    ax.set_xlabel("wakeup latency (us)")
    ax.set_ylim(0, 1)
    if not isinstance(traces, Trace):
        _legend(ax)
    return ax


def energy(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draws the mean energy of a run under each policy, in joules, with its 95 % confidence interval."""
    frame = comparison.counters.to_pandas()
    if frame["energy_j"].isna().all():
        raise bad_input(f"the power of {comparison.machine.name} is not known", "expected a machine with [power]")
    title = f"Energy of a run on {comparison.machine.name}"
    return _bars(frame.groupby("policy", observed=True, sort=False)["energy_j"], ax, "energy (J)", title)


def metric(comparison: Comparison, name: str, ax: Axes | None = None) -> Axes:
    """Draws one metric under each policy: the mean of the judged values of the runs, with its 95 % confidence interval."""
    frame = comparison.runs.to_pandas()
    frame = frame[frame["metric"] == name]
    if frame.empty:
        known = list(comparison.runs.to_pandas()["metric"].unique())
        raise bad_input(f"no metric is called {name!r}", f"expected {', '.join(known)}", name, known)
    judged, unit = frame["judged"].iloc[0], frame["unit"].iloc[0]
    title = f"{name} on {comparison.machine.name}"
    return _bars(frame.groupby("policy", observed=True, sort=False)[judged], ax, f"{judged} ({unit})", title)


def sweep(result: Sweep | pandas.DataFrame, name: str, ax: Axes | None = None, *, x: str | None = None,
          by: str = "policy") -> Axes:
    """Draws one metric of a sweep: the mean of the judged values of the runs, with its 95 % confidence interval. `x` is
    the column on the axis (default: the first of machine, workload and the settings that has several values). If `x`
    has numbers, each value of `by` has a curve; otherwise it has bars in groups. Points that differ in other columns
    are pooled; to draw some of these points, choose rows of `to_pandas()`."""
    frame = result.to_pandas() if isinstance(result, Sweep) else result
    known = [str(metric) for metric in frame["metric"].unique()]
    frame = frame[frame["metric"] == name]
    if frame.empty:
        raise bad_input(f"no metric is called {name!r}", f"expected {', '.join(known)}", name, known)
    x = x or _varying(frame, by)
    for column in (x, by):
        if column not in frame.columns:
            columns = [str(column) for column in frame.columns]
            raise bad_input(f"the sweep has no column {column!r}", f"expected {', '.join(columns)}", column, columns)
    if by == "policy":
        # A policy's name includes its settings; leave out the setting that the axis shows.
        names = frame[by].astype(str).str.replace(rf"{x}=[^,]*,?", "", regex=True).str.rstrip(":,")
        frame = frame.assign(**{by: names})
    judged, unit = str(frame["judged"].iloc[0]), frame["unit"].iloc[0]
    if not frame[judged].notna().any():
        raise bad_input(f"{name} has no sample in any run", "expected a longer load or another metric")
    groups = frame.dropna(subset=[judged]).groupby(list(dict.fromkeys([by, x])), observed=True, sort=False)[judged]
    table = _intervals(groups).reset_index()
    ax = _axes(ax, f"{judged} ({unit})", f"{name}, by {x}" if x != by else name)
    ax.set_xlabel(x)
    numeric = all(map(is_number, table[x]))
    (_curves if numeric else _groups)(ax, table, x, by)
    ax.set_ylim(bottom=min(0.0, float(table["low"].min())))
    _legend(ax)
    return ax


def reproduction(result: Reproduction, ax: Axes | None = None) -> Axes:
    """Draws every published number against the simulated one. The two are equal on the line."""
    frame = result.cells.to_pandas().dropna(subset=["published", "simulated"])
    ax = _axes(ax, "simulated", f"{result.name}: on the line, both are equal")
    for column, group in frame.groupby("column", observed=True, sort=False):
        ax.plot(group["published"], group["simulated"], "o", markersize=4, label=str(column))
    low = min(frame["published"].min(), frame["simulated"].min())
    high = max(frame["published"].max(), frame["simulated"].max())
    ax.plot([low, high], [low, high], color="0.6", linewidth=1)
    if low > 0:
        from matplotlib.ticker import LogLocator, NullFormatter

        ax.set_xscale("log")
        ax.set_yscale("log")
        for axis in (ax.xaxis, ax.yaxis):
            # Labels of all minor marks would overlap.
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("published")
    _legend(ax)
    return ax


def running(trace: Trace) -> pandas.DataFrame:
    """The turns of threads: a row for each turn of a thread on a CPU (`cpu`, `comm`, `pid`, `start_ns`, `end_ns`)."""
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
    joined = pandas.merge_asof(woken, ran, left_on="time_ns", right_on="ran_ns", by="pid", direction="forward")
    joined = joined.dropna(subset=["ran_ns"])
    # If a thread is woken twice before it runs, the last wakeup counts.
    joined = joined.drop_duplicates(["pid", "ran_ns"], keep="last")
    joined["latency_ns"] = (joined["ran_ns"] - joined["time_ns"]).astype("int64")
    return joined[["time_ns", "comm", "pid", "latency_ns"]].reset_index(drop=True)


def _bars(groups: Any, ax: Axes | None, what: str, title: str) -> Axes:
    table = _intervals(groups)
    ax = _axes(ax, "", title, rows=len(table))
    names = [str(name) for name in table.index]
    colours = [f"C{place % 10}" for place in range(len(names))]
    ax.barh(names, table["mean"], xerr=_error(table), capsize=3, color=colours)
    ax.invert_yaxis()
    ax.set_xlabel(what)
    return ax


def _intervals(groups: Any) -> pandas.DataFrame:
    """The `mean` of each group, and the ends (`low`, `high`) of its 95 % confidence interval (Student's), as on the page of
    a comparison: a single value has no interval, and that of values >= 0 has no part below 0."""
    table = groups.agg(["mean", "std", "count", "min"])
    margin = (table["std"] * table["count"].map(_t_quantile) / table["count"] ** 0.5).fillna(0.0)
    low = table["mean"] - margin
    return table.assign(low=low.where(table["min"] < 0, low.clip(lower=0.0)), high=table["mean"] + margin)


def _t_quantile(count: int) -> float:
    """The 97.5 % quantile of Student's distribution for the mean of `count` values: exact for few values, then the
    expansion of Abramowitz and Stegun, 26.7.5, whose error is below 0.2 %."""
    few = {1: math.nan, 2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
    z, n = 1.959964, max(count - 1, 1)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return few.get(count, z + sum(term / n ** (power + 1) for power, term in enumerate(terms)))


def _error(table: pandas.DataFrame) -> list[Any]:
    return [table["mean"] - table["low"], table["high"] - table["mean"]]


def _varying(frame: pandas.DataFrame, by: str) -> str:
    """The first column of the design with several values, other than `by`."""
    own = {"point", "run", "seed", "metric", "unit", "judged", "better", "decides", "policy", "goal", "part"}
    design = ["machine", "workload", *(column for column in frame.columns if column not in own), "policy"]
    found = [str(name) for name in design if name in frame.columns and name != by and frame[name].nunique() > 1]
    # The columns of results follow the columns of the design.
    return next((name for name in found if name not in _RESULTS), "machine" if by != "machine" else "policy")


def _curves(ax: Axes, table: pandas.DataFrame, x: str, by: str) -> None:
    for key, group in table.groupby(by, observed=True, sort=False):
        group = group.sort_values(x)
        ax.plot(group[x], group["mean"], marker="o", label=str(key))
        ax.fill_between(group[x], group["low"], group["high"], alpha=0.2, linewidth=0)
    values = sorted(table[x].unique())
    ax.set_xticks(values, [f"{value:,}" for value in values])


def _groups(ax: Axes, table: pandas.DataFrame, x: str, by: str) -> None:
    names, keys = list(table[x].unique()), list(table[by].unique())
    width = 0.8 / len(keys)
    for place, key in enumerate(keys):
        own = table[table[by] == key].set_index(x).reindex(names)
        at = [index - 0.4 + (place + 0.5) * width for index in range(len(names))]
        ax.bar(at, own["mean"], width, yerr=_error(own), capsize=3, label=str(key))
    ax.set_xticks(range(len(names)), [str(name) for name in names])
    if sum(len(str(name)) for name in names) > 80:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")


def _lanes(ax: Axes | None, series: dict[str, tuple[Any, Any]], most: float, label: str, title: str) -> Axes:
    """Draws a row for each of `series` (times in s, values), filled up to the value; `most` fills a row."""
    ax = _axes(ax, label, title, rows=len(series))
    for row, (times, values) in enumerate(series.values()):
        heights = [row + 0.45 - 0.9 * min(float(value) / most, 1.0) for value in values]
        ax.fill_between(list(times), row + 0.45, heights, step="post", color=f"C{row % 10}", linewidth=0)
    _rows(ax, list(series))
    return ax


def _spans(cpus: list[int]) -> str:
    """A list of CPUs in the kernel's format, such as `0-3,8`."""
    spans: list[list[int]] = []
    for cpu in cpus:
        if spans and spans[-1][1] == cpu - 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _rows(ax: Axes, names: list[str]) -> None:
    """Labels at most `_LABELS` rows, from top to bottom."""
    step = -(-len(names) // _LABELS)
    ax.set_yticks(range(0, len(names), step), names[::step])
    ax.set_ylim(len(names) - 0.5, -0.5)


def _axes(ax: Axes | None, label: str, title: str, rows: int = 0) -> Axes:
    """Labels `ax`, as axes over time in seconds; a new figure has room for this number of `rows`."""
    if ax is None:
        import matplotlib.pyplot

        height = min(max(3.5, 1.2 + 0.3 * rows), 14)
        _, ax = matplotlib.pyplot.subplots(figsize=(10, height), layout="constrained")
    ax.set_xlabel("time (s)")
    ax.set_ylabel(label)
    ax.set_title(title)
    return ax


def _legend(ax: Axes) -> None:
    """Adds a legend beside the axes, where it covers no data."""
    handles, labels = ax.get_legend_handles_labels()
    known = dict(zip(labels, handles))
    if len(known) > 1:
        ax.legend(known.values(), known.keys(), fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0))
