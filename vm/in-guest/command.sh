# shellcheck shell=bash
# Functions that `init` and `disk-init` share for the command that vm/run left in $VM_WORK: its
# output, its status, and its environment.

# port NAME: waits until the host has named its port, and prints the device.
port() {
	local file
	until file=$(grep -lsx "$1" /sys/class/virtio-ports/*/name); do
		sleep 0.01
	done
	file=${file%/name}
	echo "/dev/${file##*/}"
}

mount_out() {
	if grep -qsx out /sys/bus/virtio/drivers/9pnet_virtio/*/mount_tag; then
		mkdir -p /out
		mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /out
	fi
}

# give_config COMMAND: a kernel that does not contain its own configuration, like Debian's, has it
# in /boot, where libbpf looks for it
give_config() {
	[ -e /proc/config.gz ] || cp "$(sed -n 's/.*VM_KERNEL=\([^ ]*\) .*/\1/p' <<<"$1")/config" "/boot/config-$(uname -r)"
}

# run_command COMMAND THEN: runs COMMAND, then THEN, a command that may end the processes that still
# hold its output open (all but $copies), and returns COMMAND's status.
run_command() {
	# The output goes through pipes: a port takes one opener at a time, and a program may open its
	# /dev/stdout again.
	mkfifo /run/stdout /run/stderr
	cat /run/stdout >"$(port stdout)" &
	copies=($!)
	cat /run/stderr >"$(port stderr)" &
	copies+=($!)
	(
		unset VM_WORK
		exec bash -c "$1"
	) </dev/null >/run/stdout 2>/run/stderr
	local status=$?
	"$2"
	wait "${copies[@]}"
	echo "$status" >"$(port status)"
}
