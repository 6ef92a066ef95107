# Computes the use of groups of CPUs from sched_switch: awk -v tasks="PID ..." -v size=N -v skip=MS
# -f groups.awk RECORDING. CPUs are in groups of `size`, by number. The input counts from the mark
# "begin" on; before it there is a switch on every CPU, which shows its running task. Prints, for
# the shell:
#   idle_percent      of the time from `skip` ms on, the part without a busy CPU in the idlest group
#   others_percent    this part of the time for the busiest group
#   spread_ms         from the mark "released" until each CPU ran one of the tasks, all at once; -1: never
#   together_ms       from the mark "begin" until, for the last time, all tasks ran in one group; -1: not at the end

BEGIN {
	count = split(tasks, pids, " ")
	for (i = 1; i <= count; i++)
		ours[pids[i]] = 1
	begin = spread = together = -1
}

/tracing_mark_write: begin/ {
	begin = time()
	for (cpu in running)
		cpus++
	for (group = 0; group < cpus / size; group++)
		since[group] = begin
}

/tracing_mark_write: released/ {
	released = time()
}

/ sched_switch: / {
	now = time()
	match($0, /\[[0-9]+\]/)
	cpu = substr($0, RSTART + 1, RLENGTH - 2) + 0
	match($0, / next_pid=[0-9]+/)
	pid = substr($0, RSTART + 10, RLENGTH - 10) + 0
	change(cpu, pid, now)
}

# ms
function time() {
	match($0, /[0-9]+\.[0-9]+: /)
	return substr($0, RSTART) * 1000
}

function change(cpu, pid, now,    group, was, is) {
	group = int(cpu / size)
	was = busy[group] > 0
	on_ours -= running[cpu] in ours
	in_group[group] -= running[cpu] in ours
	busy[group] -= running[cpu] != 0
	running[cpu] = pid
	busy[group] += pid != 0
	in_group[group] += pid in ours
	on_ours += pid in ours
	if (begin < 0)
		return
	is = busy[group] > 0
	if (was != is) {
		if (is)
			idle[group] += after_skip(now) - after_skip(since[group])
		since[group] = now
	}
	if (spread < 0 && on_ours == cpus)
		spread = now - (released ? released : begin)
	for (group in in_group)
		if (in_group[group] > 0 && in_group[group] < on_ours)
			together = -1
	if (together < 0 && on_ours == count && in_group[int(cpu / size)] == count)
		together = now - begin
}

function after_skip(at) {
	return at < begin + skip ? begin + skip : at
}

END {
	most = 0
	least = 100
	for (group = 0; group < cpus / size; group++) {
		if (busy[group] == 0)
			idle[group] += after_skip(now) - after_skip(since[group])
		share = 100 * idle[group] / (now - begin - skip)
		most = share > most ? share : most
		least = share < least ? share : least
	}
	printf "idle_percent=%.1f\nothers_percent=%.1f\nspread_ms=%.3f\ntogether_ms=%.3f\n", most, least, spread, together
}
