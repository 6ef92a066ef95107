# What became of tasks, from the text of an ftrace (sched_switch, sched_wakeup, sched_wakeup_new, sched_migrate_task):
# for each thread of rt-app the share of all their run time in per cent, the median time from wakeup until it ran in
# us, and its migrations. After the first `skip` seconds.

function field(name,    rest) {
	rest = substr($0, index($0, " " name "=") + length(name) + 2)
	sub(/ .*/, "", rest)
	return rest
}

match($0, / \[[0-9]+\] /) {
	match($0, / [0-9]+\.[0-9]+: /)
	now = substr($0, RSTART + 1, RLENGTH - 3) + 0
	if (first == "")
		first = now
	counts = now - first >= skip
}

/: sched_wakeup(_new)?: / {
	name = field("comm")
	if (name ~ pattern)
		woken[name] = now
}

/: sched_switch: / {
	previous = field("prev_comm")
	next_ = field("next_comm")
	if (previous ~ pattern && previous in began) {
		if (counts) {
			ran[previous] += now - began[previous]
			total += now - began[previous]
		}
		delete began[previous]
	}
	if (next_ ~ pattern) {
		began[next_] = now
		if (next_ in woken && counts)
			waited[next_, ++waits[next_]] = (now - woken[next_]) * 1e6
		delete woken[next_]
	}
}

/: sched_migrate_task: / {
	name = field("comm")
	if (name ~ pattern && counts)
		migrations[name]++
}

function median(name,    i, j, n, value, list) {
	n = waits[name] + 0
	for (i = 1; i <= n; i++) {
		value = waited[name, i]
		for (j = i - 1; j > 0 && list[j] > value; j--)
			list[j + 1] = list[j]
		list[j + 1] = value
	}
	return n ? list[int((n + 1) / 2)] : 0
}

END {
	for (name in ran)
		printf "%s %.2f %.1f %d %d\n", name, 100 * ran[name] / total, median(name), migrations[name], waits[name]
}
