# The places of an rt-app file's tasks, from the ftrace text of the kernel or the simulator (sched_switch,
# sched_wakeup, sched_migrate_task). For each of `samples`, in ms since the first of `tasks` got a CPU, prints
# a line with the tasks of each CPU that has any, by name. Instances of a task are not distinguished.

BEGIN {
	samples_left = split(samples, sample, " ")
	split(tasks, list, " ")
	for (i in list)
		ours[list[i]] = 1
	at = 1
}

function is_on(pid, comm, cpu) {
	sub(/-[0-9]+$/, "", comm)
	if (comm in ours) {
		name[pid] = comm
		where[pid] = cpu + 0
	}
}

function show(    pid, cpu, on, n, last, i, j, order, swap, line) {
	for (pid in where) {
		on[where[pid], name[pid]]++
		if (where[pid] > last)
			last = where[pid]
	}
	for (i in list)
		order[++n] = list[i]
	for (i = 1; i <= n; i++)
		for (j = i + 1; j <= n; j++)
			if (order[j] < order[i]) {
				swap = order[i]
				order[i] = order[j]
				order[j] = swap
			}
	line = sample[at] ":"
	for (cpu = 0; cpu <= last; cpu++)
		for (i = 1; i <= n; i++)
			if ((cpu, order[i]) in on)
				line = line " " cpu "=" order[i] (on[cpu, order[i]] > 1 ? "*" on[cpu, order[i]] : "")
	print line
}

match($0, / [0-9]+\.[0-9]+: sched_/) {
	now = substr($0, RSTART + 1) + 0
	while (began != "" && at <= samples_left && now > began + sample[at] / 1000) {
		show()
		at++
	}
	match($0, /\[[0-9]+\]/)
	cpu = substr($0, RSTART + 1) + 0
}

/: sched_switch: / {
	is_on(field("next_pid"), field("next_comm"), cpu)
	if (began == "" && field("next_pid") in where)
		began = now
}

/: sched_wakeup: / {
	is_on(field("pid"), field("comm"), field("target_cpu"))
}

/: sched_migrate_task: / {
	is_on(field("pid"), field("comm"), field("dest_cpu"))
}

/ sched_process_exit: / {
	delete where[field("pid")]
}
