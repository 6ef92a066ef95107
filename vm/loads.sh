# shellcheck shell=bash
# The loads that vm/replay and vm/order record; to be sourced.

all_loads=(hackbench sysbench-cpu sysbench-mutex browser-short mp3-short compile pipe schbench)

# prepare_load LOAD: writes the load's files into the current folder, and its command into
# `command`.
prepare_load() {
	local load=$1 file
	case $load in
	hackbench) command=(hackbench -g 2 -l 50) ;;
	sysbench-cpu) command=(sysbench cpu --threads=4 --time=0 --events=200 --cpu-max-prime=5000 run) ;;
	sysbench-mutex) command=(sysbench mutex --threads=4 --mutex-num=2 --mutex-locks=500 --mutex-loops=1000 run) ;;
	browser-short | mp3-short)
		# Both files have the same length, with the same number of loops per microsecond.
		sed -E 's/("duration" *: *)-?[0-9]+/\13/; s/("calibration" *: *)("[^"]*"|[0-9]+)/\1100/' \
			"/usr/share/doc/rt-app/examples/$load.json" >"$load.json"
		command=(rt-app "$load.json")
		;;
	compile)
		for file in 1 2 3 4 5 6; do
			echo "int f$file(int a) { for (int i = 0; i < a; i++) a += i * $file; return a; }" >"$file.c"
		done
		echo "all: $(seq -s ' ' -f '%g.o' 6)" >Makefile
		rm -f ./*.o
		command=(make --silent -j4)
		;;
	pipe) command=(perf bench sched pipe -l 1000) ;;
	schbench)
		cc -O2 -pthread -o schbench "$vm/in-guest/schbench.c"
		command=(./schbench "$(nproc)" 1)
		;;
	*)
		echo "vm: $load: no such load; there are ${all_loads[*]}" >&2
		exit 2
		;;
	esac
}
