"""Runs LISA's analyses on a trace of odroid-xu3 and prints the results as JSON: `lisa_reads.py FILE TASK`."""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from lisa.pelt import simulate_pelt
from lisa.platforms.platinfo import PlatformInfo
from lisa.trace import HRTxtTraceParser, Trace

path, task = sys.argv[1:]
little, big = range(4), range(4, 8)
platform = PlatformInfo({
    "cpus-count": 8,
    "freq-domains": [list(little), list(big)],
    "cpu-capacities": {"orig": {cpu: 377 if cpu in little else 1024 for cpu in range(8)}, "writeable": False},
})
# LISA expects the output of `trace-cmd report -R` in a file named .txt.
how = {"parser": HRTxtTraceParser.from_txt_file} if path.endswith(".txt") else {}
trace = Trace(path, plat_info=platform, **how)
cpus = range(trace.cpus_count)
tracking = trace.ana.load_tracking


def pelt():
    """The mean of the task's utilization in the trace, and by LISA's model of PELT from the times
    when the task ran."""
    # If there are several signals at the same time, the last one counts.
    last = lambda data: data[~data.index.duplicated(keep="last")]
    signal = last(tracking.df_task_signal(task, "util"))
    active = last(trace.ana.tasks.df_task_activation(task)["active"].fillna(0))
    clock = signal["update_time"] * 1e-9
    model = simulate_pelt(
        active,
        init=signal["util"].iloc[0],
        index=signal.index,
        clock=clock.reindex(active.index.union(signal.index)),
        # With windows, LISA counts part of each signal as older than it is, which makes the result
        # 1.5 % too small here.
        windowless=True,
    ).reindex(signal.index)
    return signal["util"].mean(), model.mean()


utilization, modelled = pelt()
json.dump(
    {
        "idle": [len(trace.ana.idle.df_cpu_idle_state_residency(cpu)) for cpu in cpus],
        "frequency_s": [float(trace.ana.frequency.df_cpu_frequency_residency(cpu)["total_time"].sum()) for cpu in cpus],
        "frequency_transitions": [len(trace.ana.frequency.df_cpu_frequency_transitions(cpu)) for cpu in cpus],
        "wakeup_latencies": len(trace.ana.latency.df_latency_wakeup(task)),
        "preemption_latencies": len(trace.ana.latency.df_latency_preemption(task)),
        "activations": len(trace.ana.latency.df_activations(task)),
        "runtime_s": float(trace.ana.tasks.df_task_total_residency(task)["runtime"].sum()),
        "cpu_utilization": len(tracking.df_cpus_signal("util")),
        "cpu_capacity": len(tracking.df_cpus_signal("capacity")),
        "utilization": float(utilization),
        "modelled_utilization": float(modelled),
    },
    sys.stdout,
)
