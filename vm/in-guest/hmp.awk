# The use of fast and slow CPUs, from sched_switch: awk -v fast=N -v tasks="PID ..." -f hmp.awk RECORDING.
# CPUs from N on are fast. Prints, for the shell:
#   asleep_ms         the total time for which fast CPUs were idle while a slow one ran one of the tasks
#   longest_sleep_ms  the longest of these times
#   least_share, most_share  the least and the greatest share of a task's time that it spent on fast CPUs, per cent

BEGIN {
	count = split(tasks, pids, " ")
	for (i = 1; i <= count; i++)
		counts[pids[i]] = 1
}

/sched_switch:/ {
	match($0, /\[[0-9]+\]/)
	cpu = substr($0, RSTART + 1, RLENGTH - 2) + 0
	match($0, / [0-9]+\.[0-9]+: sched_switch/)
	now = substr($0, RSTART + 1, RLENGTH - 15) * 1000
	match($0, /next_pid=[0-9]+/)
	next_pid = substr($0, RSTART + 9, RLENGTH - 9) + 0

	ran(cpu, now)
	running[cpu] = next_pid
	since[cpu] = now
	known[cpu] = 1

	work = 0
	for (other in known)
		if (other + 0 < fast && running[other] in counts)
			work = 1
	for (other in known) {
		if (other + 0 < fast)
			continue
		if (work && running[other] == 0) {
			if (!(other in asleep))
				asleep[other] = now
		} else if (other in asleep) {
			slept = now - asleep[other]
			sum += slept
			if (slept > longest)
				longest = slept
			delete asleep[other]
		}
	}
}

# Counts the time of @cpu's running task since the last switch.
function ran(cpu, now) {
	if (!(cpu in known) || !(running[cpu] in counts))
		return
	total[running[cpu]] += now - since[cpu]
	if (cpu >= fast)
		on_fast[running[cpu]] += now - since[cpu]
}

END {
	least = 100
	for (pid in total) {
		share = 100 * on_fast[pid] / total[pid]
		if (share < least)
			least = share
		if (share > most)
			most = share
	}
	printf "asleep_ms=%.3f\nlongest_sleep_ms=%.3f\n", sum, longest
	printf "least_share=%.1f\nmost_share=%.1f\n", least, most
}
