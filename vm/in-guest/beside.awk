# The percentage of a task's wakeups that queue it on a busy CPU while another of `cpus` CPUs idles, from the
# ftrace text of the kernel or the simulator (sched_switch, sched_wakeup, sched_migrate_task). Instances of
# the task `shown` are not distinguished.

/: sched_switch: / {
	match($0, /\[[0-9]+\]/)
	runs[substr($0, RSTART + 1) + 0] = field("next_pid") + 0
	delete waits[field("next_pid")]
}

/: sched_migrate_task: / {
	if (field("pid") in waits)
		waits[field("pid")] = field("dest_cpu") + 0
}

/: sched_wakeup: / {
	comm = field("comm")
	sub(/-[0-9]+$/, "", comm)
	if (comm != shown)
		next
	target = field("target_cpu") + 0
	for (cpu = 0; cpu < cpus; cpu++)
		queued[cpu] = 0
	for (pid in waits)
		queued[waits[pid]]++
	idle = 0
	for (cpu = 0; cpu < cpus; cpu++)
		idle += !runs[cpu] && !queued[cpu]
	woken++
	if ((runs[target] || queued[target]) && idle)
		beside++
	waits[field("pid")] = target
}

END {
	printf "wakeups of %s beside an idle CPU: %.1f %%\n", shown, woken ? 100 * beside / woken : 0
}
