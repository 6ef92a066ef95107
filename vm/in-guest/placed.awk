# The places of tasks, from the ftrace text of the kernel or the simulator: for each kind of task
# (its name up to the first dash) the share of its run time on CPUs below `big`, its run time in
# seconds, and its migrations per second. The first `skip` seconds of the trace do not count.

function kind(name) {
	sub(/-.*/, "", name)
	return name
}

function between(before, after, text) {
	text = substr($0, index($0, before) + length(before))
	return substr(text, 1, index(text, after) - 1)
}

/ sched_(switch|migrate_task): / {
	cpu = between("[", "]") + 0
	match($0, /[0-9]+\.[0-9]+: sched_/)
	now = substr($0, RSTART) + 0
	if (first == "")
		first = now
	if (now - first < skip) {
		since[cpu] = now
		next
	}
	last = now
}

/ sched_switch: / {
	of = kind(between("prev_comm=", " prev_pid="))
	if (cpu in since) {
		run[of] += now - since[cpu]
		if (cpu < big)
			on_big[of] += now - since[cpu]
	}
	since[cpu] = now
}

/ sched_migrate_task: / {
	migrations[kind(between(" comm=", " pid="))]++
}

END {
	for (of in run)
		if (run[of])
			printf "%s %.3f %.3f %.2f\n", of, on_big[of] / run[of], run[of], migrations[of] / (last - first - skip)
}
