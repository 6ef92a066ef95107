# Reads scheduling events (sched_switch, sched_wakeup, sched_wakeup_new) as tracefs prints them, and
# prints a summary of the tasks:
#
#   longest_wait_ms   the longest time for which a task was runnable but did not run
#   longest_idle_ms   the longest time for which a CPU was idle while another had two runnable tasks
#   idle_over         how many times that lasted longer than `ticks_ms`
#   idle_total_ms     the total of all times for which a CPU was idle so
#   settled_ms        from the start of the first of `pids` until all of them ran on CPUs below `big`; -1: never
#   on_big_percent    the part of their run time after that on those CPUs
#
# Kernel threads do not count as waiting, because most of them may run on one CPU only. All figures
# count from the mark "begin" on; before it there is a switch on every CPU, which shows its running
# task.

BEGIN {
	split(pids, list, " ")
	for (i in list)
		ours[list[i]] = 1
	for (i in ours)
		wanted++
	start = settled = -1
}

function is_kernel_thread(comm) {
	return comm ~ /^(kworker|ksoftirqd|migration|cpuhp|rcu|swapper|kthread|kcompactd|kswapd|khungtaskd|oom_reaper|kauditd|sched_ext)/
}

function waits(pid, cpu) {
	if (pid in queue)
		return
	queue[pid] = cpu
	since[pid] = now
	waiting[cpu]++
}

function no_longer_waits(pid) {
	if (!(pid in queue))
		return
	longest_wait = max(longest_wait, now - since[pid])
	waiting[queue[pid]]--
	delete queue[pid]
	delete since[pid]
}

function max(a, b) {
	return a > b ? a : b
}

# Finds the CPUs that are idle although another one has two runnable tasks.
function look_for_idle_cpus(    cpu, crowded, length_) {
	for (cpu in current)
		if (current[cpu] != 0 && waiting[cpu] > 0)
			crowded = 1
	for (cpu in current) {
		if (crowded && current[cpu] == 0) {
			if (!(cpu in idle_since))
				idle_since[cpu] = now
		} else if (cpu in idle_since) {
			length_ = now - idle_since[cpu]
			idle_total += length_
			longest_idle = max(longest_idle, length_)
			if (length_ * 1000 > ticks_ms)
				idle_over++
			delete idle_since[cpu]
		}
	}
}

# Counts the time for which `pid`, one of the tasks, has run on `cpu` until now.
function account(pid, cpu) {
	if (settled >= 0) {
		ran += now - max(began[pid], start + settled)
		if (cpu < big)
			ran_on_big += now - max(began[pid], start + settled)
	}
}

function look_whether_settled(    pid, n) {
	for (pid in ours)
		if (pid in running && running[pid] < big)
			n++
	if (n == wanted)
		settled = now - start
}

match($0, / \[[0-9]+\] /) {
	cpu = substr($0, RSTART + 2, RLENGTH - 4) + 0
	match($0, / [0-9]+\.[0-9]+: /)
	now = substr($0, RSTART + 1, RLENGTH - 3) + 0
}

/: tracing_mark_write: begin$/ {
	longest_wait = longest_idle = idle_over = idle_total = 0
	for (pid in since)
		since[pid] = now
	for (cpu in idle_since)
		idle_since[cpu] = now
}

/: sched_wakeup(_new)?: / {
	pid = field("pid")
	if (field("prio") >= 100 && !(pid in running) && !is_kernel_thread(field("comm")))
		waits(pid, field("target_cpu") + 0)
	look_for_idle_cpus()
}

/: sched_switch: / {
	previous = field("prev_pid")
	next_ = field("next_pid")
	if (previous in ours && previous in running)
		account(previous, cpu)
	delete running[previous]
	if (previous != 0 && field("prev_prio") >= 100 && field("prev_state") ~ /^R/ &&
	    !is_kernel_thread(field("prev_comm")))
		waits(previous, cpu)
	no_longer_waits(next_)
	current[cpu] = next_
	if (next_ != 0) {
		running[next_] = cpu
		began[next_] = now
	}
	if (next_ in ours) {
		if (start < 0)
			start = now
		if (settled < 0)
			look_whether_settled()
	}
	look_for_idle_cpus()
}

END {
	for (pid in queue)
		longest_wait = max(longest_wait, now - since[pid])
	for (pid in ours)
		if (pid in running)
			account(pid, running[pid])
	for (cpu in current)
		current[cpu] = 1
	look_for_idle_cpus()
	printf "longest_wait_ms=%.1f\n", longest_wait * 1000
	printf "longest_idle_ms=%.1f\n", longest_idle * 1000
	printf "idle_over=%d\n", idle_over
	printf "idle_total_ms=%.1f\n", idle_total * 1000
	if (wanted) {
		printf "settled_ms=%.1f\n", settled < 0 ? -1 : settled * 1000
		printf "on_big_percent=%.1f\n", ran ? 100 * ran_on_big / ran : 0
	}
}
