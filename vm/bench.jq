# Computes vm/bench's result from in-guest/bench's samples:
#
# {"schema": 1,
#  "load_average": the host's when it began, over 1, 5 and 15 minutes, "cpus": of the guest, "clock": "tcg",
#    "kvm" or "icount" (vm/run --help),
#  "results": [{"benchmark", "unit" (less is better), "scheduler", "n": rounds, "median", "min", "max",
#    "ratio": of its median to that of "eevdf", or null where that was not measured or is 0,
#    "paired_ratio": the median of the rounds' ratios, which a load that comes and goes disturbs less,
#    "switches": median of the context switches of the guest}],
#  "callbacks": [{"scheduler", "callback", "calls", "ns_per_call"}]: under hackbench, in a run of its own,
#  "callbacks_per_switch": [{"scheduler", "ns": of all callbacks, for each time that a task stops, "calls"}]}

def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor]
	else (.[length / 2 - 1] + .[length / 2]) / 2 end;

def unit: {hackbench: "s", "hackbench-g8": "s", sysbench: "s", mutex: "s", compile: "s", cyclictest: "us", pipe: "us",
	"schbench-wakeup-p99": "us", "schbench-request": "us"}[.]
	// (if endswith("-p99") then "us" else "%" end);

# Null if there is nothing to divide by, such as where EEVDF misses no period.
def over($base): if $base == null or $base == 0 then null else . / $base end;

map(select(has("round"))) as $samples
| map(select(has("round") or has("callback") | not) | .scheduler) as $schedulers
| ($samples | map(.benchmark) | unique) as $benchmarks
| {
	schema: 1,
	load_average: $load,
	clock: $clock,
	cpus: $cpus,
	results: [
		$benchmarks[] as $benchmark
		| ($samples | map(select(.benchmark == $benchmark))) as $of
		| ($of | map(select(.scheduler == "eevdf") | {(.round | tostring): .value}) | add // {}) as $base
		| $schedulers[] as $scheduler
		| ($of | map(select(.scheduler == $scheduler))) as $mine
		| ($mine | map(.value)) as $values
		| {
			$benchmark,
			unit: ($benchmark | unit),
			$scheduler,
			n: ($values | length),
			median: ($values | median),
			min: ($values | min),
			max: ($values | max),
			ratio: (if $values == [] then null else $values | median | over([$base[]] | median) end),
			switches: ($mine | map(.switches) | median),
			paired_ratio: ($mine | map($base[.round | tostring] as $b | .value | over($b) | values) | median)
		}
	],
	callbacks: map(select(has("callback")) | {scheduler, callback, calls, ns_per_call: (.ns / .calls)}),
	callbacks_per_switch: [
		map(select(has("callback"))) | group_by(.scheduler)[]
		| (map(select(.callback | test("_stop")) | .calls) | add) as $stops
		| select($stops)
		| {scheduler: .[0].scheduler, ns: ((map(.ns) | add) / $stops), calls: ((map(.calls) | add) / $stops)}
	]
}
