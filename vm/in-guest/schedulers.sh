# shellcheck shell=bash
# Functions that measurements share to run commands under a scheduler; sourced after lib.sh and loader.sh.

# Prints the command of the scheduler; an empty line for the kernel's own.
command_of() {
	case $1 in
	eevdf) ;;
	equipoise:*) echo "$loader --policy ${1#*:}" ;;
	scx_simple) echo "$VM_KERNEL/scx_simple" ;;
	*) echo "$1" ;;
	esac
}

state() {
	cat "$sched_ext/state"
}

# Is the scheduler loaded, or has its program ended?
started() { # PID
	[ "$(state)" = enabled ] || [ ! -e "/proc/$1" ]
}

# under SCHEDULER COMMAND...
under() {
	scheduler=$1
	local command pid
	command=$(command_of "$scheduler")
	shift
	if [ -z "$command" ]; then
		"$@"
		return
	fi
	$command >/run/scheduler.log 2>&1 &
	pid=$!
	within 60 started "$pid"
	[ "$(state)" != enabled ] || "$@"
	if [ "$(state)" != enabled ]; then
		echo "${0##*/}: $scheduler does not run:" >&2
		cat /run/scheduler.log >&2
		exit 1
	fi
	kill -INT "$pid" && wait "$pid"
	until [ "$(state)" = disabled ]; do sleep 0.1; done
}
