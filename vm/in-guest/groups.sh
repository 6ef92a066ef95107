# shellcheck shell=bash
# Functions for tests of control groups; to be sourced after loader.sh. (groups.awk is about groups of CPUs.)

root=/sys/fs/cgroup

# add_group PATH [FILE VALUE]...: a group with settings of its cpu controller
add_group() {
	local path=$1
	shift
	mkdir "$root/$path" || return 1
	while [ $# -gt 0 ]; do
		echo "$2" >"$root/$path/$1" || return 1
		shift 2
	done
}

# controls PATH: the groups below it have a cpu controller
controls() {
	echo +cpu >"$root/$1/cgroup.subtree_control"
}

enter() { # PATH PID
	echo "$2" >"$root/$1/cgroup.procs"
}

# The CPU time that each group has had, in us
usages() { # PATH...
	local path
	for path; do
		sed -n 's/^usage_usec //p' "$root/$path/cpu.stat"
	done
}

# is_kernel MAJOR MINOR: this kernel or a later one
is_kernel() {
	local major minor
	IFS=.- read -r major minor _ <<<"$(uname -r)"
	((major > $1 || (major == $1 && minor >= $2)))
}

# uncommented FILE: an rt-app file as JSON
uncommented() {
	sed 's,^/\*.*\*/$,,' "$1"
}

# make_groups FILE [threaded]: its groups, parents first; threaded ones take single threads
make_groups() {
	local path key value
	while read -r path; do
		controls "$(dirname "$path")" && mkdir -p "$root$path" || return 1
		[ -z "${2:-}" ] || echo "$2" >"$root$path/cgroup.type" || return 1
	done < <(uncommented "$1" | jq -r '.taskgroups | keys_unsorted[]')
	while read -r path key value; do
		echo "$value" >"$root$path/$key" || return 1
	done < <(uncommented "$1" | jq -r '.taskgroups | to_entries[] | .key as $path | .value | to_entries[] | "\($path) \(.key) \(.value)"')
}
