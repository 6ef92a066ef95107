# A summary of rt-app's threads, from the text of an ftrace (sched_switch, sched_wakeup, sched_wakeup_new,
# sched_migrate_task): for each thread its name and number among threads of that name, its share of all their
# run time in per cent, the median time from its wakeup until it ran in us, its migrations and its wakeups.
# The first `skip` seconds of the trace do not count.

match($0, / \[[0-9]+\] /) {
	match($0, / [0-9]+\.[0-9]+: /)
	now = substr($0, RSTART + 1, RLENGTH - 3) + 0
	if (first == "")
		first = now
	counts = now - first >= skip
}

# rt-app's main thread creates the others, in order.
/^ *rt-app-[0-9]+ .*: sched_wakeup_new: / {
	pid = field("pid")
	ours[pid] = 1
	list[++threads] = pid
}

/: sched_wakeup: / {
	pid = field("pid")
	if (pid in ours)
		woken[pid] = now
}

/: sched_switch: / {
	previous = field("prev_pid")
	next_ = field("next_pid")
	if (previous in began) {
		if (counts) {
			ran[previous] += now - began[previous]
			total += now - began[previous]
		}
		delete began[previous]
	}
	if (next_ in ours) {
		began[next_] = now
		name[next_] = field("next_comm")
		if (next_ in woken && counts)
			waited[next_, ++waits[next_]] = (now - woken[next_]) * 1e6
		delete woken[next_]
	}
}

/: sched_migrate_task: / {
	pid = field("pid")
	if (pid in ours && counts)
		migrations[pid]++
}

function median(pid,    i, j, n, value, sorted) {
	n = waits[pid] + 0
	for (i = 1; i <= n; i++) {
		value = waited[pid, i]
		for (j = i - 1; j > 0 && sorted[j] > value; j--)
			sorted[j + 1] = sorted[j]
		sorted[j + 1] = value
	}
	return n ? sorted[int((n + 1) / 2)] : 0
}

END {
	for (i = 1; i <= threads; i++) {
		pid = list[i]
		if (ran[pid] > 0)
			printf "%s-%d %.2f %.1f %d %d\n", name[pid], number[name[pid]]++, 100 * ran[pid] / total, median(pid),
				migrations[pid], waits[pid]
	}
}
