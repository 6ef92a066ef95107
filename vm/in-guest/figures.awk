# Figures of an rt-app file's tasks, from the ftrace text of the kernel or the simulator (sched_switch,
# sched_wakeup), between `from` and `to`, in ms since the first of `tasks` got a CPU. Prints a line for each
# of `shown`:
#
#	share	of one CPU's time, %
#	turn	how long it runs at a time, ms, on average
#	wait	from a wakeup until it runs, ms, on average
#
# selected by `what`. Instances of a task are not distinguished.

BEGIN {
	split(tasks, list, " ")
	for (i in list)
		ours[list[i]] = 1
}

# The name of the task `comm`, if the file has this task; instances have a number.
function task(comm) {
	sub(/-[0-9]+$/, "", comm)
	return comm in ours ? comm : ""
}

# The part of the time from `since` to `now` that counts, s.
function counted(since,    a, b) {
	a = since > began + from / 1000 ? since : began + from / 1000
	b = now < began + to / 1000 ? now : began + to / 1000
	return b > a ? b - a : 0
}

function in_window() {
	return now >= began + from / 1000 && now <= began + to / 1000
}

match($0, / [0-9]+\.[0-9]+: sched_/) {
	now = substr($0, RSTART + 1) + 0
}

/: sched_switch: / {
	prev = field("prev_pid")
	next_one = field("next_pid")
	if (prev in since) {
		ran[name[prev]] += counted(since[prev])
		delete since[prev]
	}
	if ((named = task(field("next_comm"))) != "") {
		if (began == "")
			began = now
		name[next_one] = named
		since[next_one] = now
		if (in_window())
			turns[named]++
		if (next_one in woken) {
			if (in_window()) {
				waited[named] += now - woken[next_one]
				waits[named]++
			}
			delete woken[next_one]
		}
	}
}

/: sched_wakeup: / {
	if (task(field("comm")) != "")
		woken[field("pid")] = now
}

END {
	n = split(shown, order, " ")
	for (i = 1; i <= n; i++) {
		named = order[i]
		if (what == "share")
			printf "share of %s: %.1f %%\n", named, 100000 * ran[named] / (to - from)
		else if (what == "turn")
			printf "turn of %s: %.2f ms\n", named, turns[named] ? 1000 * ran[named] / turns[named] : 0
		else
			printf "wait of %s: %.2f ms\n", named, waits[named] ? 1000 * waited[named] / waits[named] : 0
	}
}
