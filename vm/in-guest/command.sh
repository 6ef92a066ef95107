# shellcheck shell=bash
# What `init` and `disk-init` share: the command that vm/run left in $VM_WORK, its output and its status, and what it finds. Both source this.

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

# give_config COMMAND: a kernel that does not hold its own configuration, as Debian's do not, has it in /boot, where
# libbpf looks for it
give_config() {
	[ -e /proc/config.gz ] || cp "$(sed -n 's/.*VM_KERNEL=\([^ ]*\) .*/\1/p' <<<"$1")/config" "/boot/config-$(uname -r)"
}

# run_command COMMAND THEN: runs it, then THEN, a command that may end what still holds its output open (all but $copies
# do), and hands back its status.
run_command() {
	# Through pipes: a port takes one opener at a time, and a program may open its /dev/stdout again.
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
