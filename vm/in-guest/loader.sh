# shellcheck shell=bash
# Functions that the loader's tests share; sourced after lib.sh. The loader is the scx_equipoise on PATH, where vm/test
# puts the one it has built.

sched_ext=/sys/kernel/sched_ext
loader=$(command -v scx_equipoise || echo target/debug/scx_equipoise)
policies=$("$loader" --policy '?' 2>&1 | sed -n 's/.*help: expected \(.*\), or the path of.*/\1/p' | tr -d ,)
# With vm/test --quick, tests that load many policies load one of each scheduler.
[ -z "${VM_QUICK:-}" ] || policies='equipoise eevdf cfs'
loader_log=$(mktemp)
# The time limit for an attachment, in s. The limit is generous, because the host may be busy, and
# only ends a hanging test. In a guest that counts instructions, busy CPUs take turns, so the limit
# grows with their number.
attach_limit=$((300 * VM_CPUS))

# load OPTION...: starts the loader and waits until its scheduler is attached. The loader starts
# before any load: the kernel takes seconds to verify the programs, and minutes alongside a load like
# hackbench.
load() {
	nice -n -20 "$loader" "$@" >"$loader_log" 2>&1 &
	loader_pid=$!
	within $attach_limit or_gone attached && attached || {
		cat "$loader_log"
		return 1
	}
}

# or_gone COMMAND [ARGUMENT...]: COMMAND succeeds, or the loader has ended
or_gone() {
	"$@" || ! kill -0 "$loader_pid" 2>/dev/null
}

attached() {
	grep -qx enabled "$sched_ext/state" && grep -q '^equipoise' "$sched_ext/root/ops"
}

# unload SIGNAL: ends the loader, which must unload its scheduler
unload() {
	kill "-$1" "$loader_pid" || return 1
	local status=0
	wait "$loader_pid" || status=$?
	within 60 grep -qx disabled "$sched_ext/state" || return 1
	if [ "$1" != KILL ]; then
		cat "$loader_log"
		[ "$status" = 0 ] && grep -q '^EXIT: unregistered from user space' "$loader_log"
	fi
}

# spin COUNT [COMMAND...]: starts COUNT busy loops, each of which first calls COMMAND with its
# process id; the ids are in spinners
spin() {
	local i count=$1
	shift
	spinners=()
	for ((i = 0; i < count; i++)); do
		(
			[ $# = 0 ] || "$@" "$BASHPID" >/dev/null
			while :; do :; done
		) &
		spinners+=($!)
	done
}

stop_spinning() {
	kill -KILL "${spinners[@]}" 2>/dev/null
	wait "${spinners[@]}" 2>/dev/null
	return 0
}

# The task's CPU time, in ns
runtime_of() {
	cut -d ' ' -f 1 "/proc/$1/schedstat"
}

has_run_since() { # PID NS
	[ "$(runtime_of "$1")" -gt "$2" ]
}

# The scheduler is attached, and stays so for a while after hotplug.
settled() {
	attached && sleep 3 && attached
}

all_spin() {
	local pid before
	for pid in "${spinners[@]}"; do
		before=$(runtime_of "$pid")
		within 60 has_run_since "$pid" "$before" || return 1
	done
}
