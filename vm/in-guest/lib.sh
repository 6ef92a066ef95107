# shellcheck shell=bash
# Functions that in-guest tests share. A test sources this, calls check or skip for each thing it shows, and ends
# with done_testing. It prints TAP (Test Anything Protocol), which vm/test counts.

tests=0
failures=0
check_output=$(mktemp)

# check WHAT COMMAND [ARGUMENT...]: COMMAND must succeed; its output is shown if it fails. A function runs in
# this shell: it may set variables, and leave a program in the background.
check() {
	local what=$1 status=0
	shift
	"$@" >"$check_output" 2>&1 || status=$?
	tests=$((tests + 1))
	if [ "$status" = 0 ]; then
		echo "ok $tests - $what"
	else
		failures=$((failures + 1))
		echo "not ok $tests - $what"
		echo "# status $status from: $*"
		sed 's/^/# /' "$check_output"
	fi
}

# skip WHAT WHY
skip() {
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# Prints the plan, which is missing if a test was aborted, and exits.
done_testing() {
	echo "1..$tests"
	exit $((failures > 0))
}

# equal ACTUAL EXPECTED
equal() {
	[ "$1" = "$2" ] || {
		echo "is $1, expected $2"
		return 1
	}
}

# file_is FILE CONTENT
file_is() {
	equal "$(<"$1")" "$2"
}

# within SECONDS COMMAND [ARGUMENT...]: COMMAND succeeds within this time
within() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.05
	done
}

# No warning, oops, stall or sched_ext error in the kernel's log so far.
kernel_log_is_clean() {
	! dmesg | grep -E 'BUG:|WARNING:|Oops|Call Trace|\bstall|lockup|blocked for more than|sched_ext:.*error'
}
