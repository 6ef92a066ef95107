# shellcheck shell=bash
# Functions that record the kernel's scheduling events for trace.awk; to be sourced after lib.sh.

tracing=/sys/kernel/tracing
recording=$(mktemp)

# record COMMAND [ARGUMENT...]: runs it, with scheduling events recorded in $recording
record() {
	local cpu status=0
	echo 0 >"$tracing/tracing_on"
	echo mono >"$tracing/trace_clock"
	echo 8192 >"$tracing/buffer_size_kb"
	echo >"$tracing/trace"
	echo 1 | tee "$tracing"/events/sched/sched_{switch,wakeup,wakeup_new}/enable >/dev/null
	echo 1 >"$tracing/tracing_on"
	for ((cpu = 0; cpu < VM_CPUS; cpu++)); do
		taskset -c "$cpu" true
	done
	echo begin >"$tracing/trace_marker"
	"$@" || status=$?
	echo 0 >"$tracing/tracing_on"
	echo 0 | tee "$tracing"/events/sched/sched_{switch,wakeup,wakeup_new}/enable >/dev/null
	grep -h '^overrun:' "$tracing"/per_cpu/cpu*/stats | grep -v ': 0$' && echo "events were lost" && status=1
	cat "$tracing/trace" >"$recording"
	return "$status"
}

# analyse [-v VARIABLE=VALUE...]: sets variables to trace.awk's results for the recording
analyse() {
	local line
	while read -r line; do
		declare -g "$line"
	done < <(awk "$@" -f "$(dirname "$0")/fields.awk" -f "$(dirname "$0")/trace.awk" "$recording")
}

# at_most A B: is A at most B? A and B may be fractions
at_most() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }' || {
		echo "is $1, expected at most $2"
		return 1
	}
}
