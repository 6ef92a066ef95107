# The bars of `equipoise`: turns the output of `reproduce` and `compare` for one table into a line for each bar.

# The factor by which $value is worse than $base: 1 means equal. A measure without a better direction, such as
# watts, is a cost.
def worse($value; $base; $better):
	if $base == 0 then (if $value == 0 then 1 else infinite end)
	elif $better == "higher" then $base / $value
	else $value / $base end;

def round3: . * 1000 | round / 1000;

# A line, computed from the printed numbers, so that the reader sees the judged values.
def bar($what; $value; $against; $base; $better; $most):
	(worse($value; $base; $better) | round3) as $ratio
	| {$what, $value, $against, $base, $ratio, $most, met: ($ratio <= $most)};

# The best of several policies.
def best($better): if $better == "higher" then max_by(.simulated) else min_by(.simulated) end;

# The rows of an experiment: {row, better, limit, of: {policy: cell}}.
def rows:
	map(select(.experiments) | .experiments[].cells[] | select(.simulated != null))
	| group_by([.block, .row, .stat])
	| map({
		row: "\(.[0].block): \(.[0].row) \(.[0].stat)",
		stat: .[0].stat,
		better: .[0].better,
		limit: .[0].limit,
		of: (map({(.policy): .}) | add)
	});

# Compares a row's policy $mine with the best of $theirs.
def against($mine; $theirs; $most):
	.better as $better
	| [.of[$theirs[]] | select(.)] as $known
	| select(.of[$mine] and ($known | length > 0))
	| ($known | best($better)) as $base
	| bar("\(.row), \($mine)"; .of[$mine].simulated; $base.policy; $base.simulated; $better; $most);

# The same lines, from compare's results for the metric $metric.
def compared($metric):
	map(select(.results) | . as $compared | {
		row: .name,
		better: ([.results[] | select(.metric == $metric) | .better] | first),
		limit: ([.results[] | select(.metric == $metric) | .limit] | first),
		of: ([.results[] | select(.metric == $metric) | {(.policy): {policy, simulated: .mean}}] | add)
	}) | map(select(.of));

def averages: map(select(.stat == "avg"));

. as $all
| rows as $rows
| [
	if $table == "mixed-capacity" then
		(compared("time")[] | bar("\(.row) threads"; .of.equipoise.simulated; "limit"; .limit; "lower"; 1.006)),
		($rows | averages[] | select(.row | test("hackbench|cyclictest")) | against("equipoise"; ["capacity"]; 1))
	elif $table == "hperf-hmp" then
		($rows | averages[] | select(.row | test("_avg avg$")) | against("equipoise"; ["hperf"]; 1)),
		($all | compared("spread")[]
			| (.row | split(" ")[1] | tonumber) as $threads
			| bar("\(.row): spread, %"; .of.equipoise.simulated; "bar"; (if $threads <= 8 then 1 else 2 end); "lower"; 1)),
		($all | compared("work")[] | against("equipoise"; ["hperf"]; 1.01))
	elif $table == "utilization-tracking" then
		($rows[] | select(.stat == "avg" or (.row | test("latency (max|p95)"))) | against("equipoise"; ["schedutil"]; 1))
	elif $table == "power-aware" then
		($rows | averages[]
			| (select(.row | test("^busy")) | against("equipoise-power"; ["powersaving"]; 1)),
			(select(.row | test("seconds")) | against("equipoise-performance"; ["cfs"]; 1)),
			(select(.row | test("perf/W"))
				| against("equipoise"; ["cfs", "powersaving"]; 1), against("equipoise-power"; ["cfs", "powersaving"]; 1)),
			(select(.row | test("hackbench|specjbb")) | against("equipoise"; ["cfs"]; 1.02)))
	else
		(compared("jobs")[] | against("equipoise"; ["cfs", "newidle-limit"]; 1.01))
	end,
	# For any table: the limit, and today's Linux.
	($rows | averages[] | select(.limit and .of.equipoise)
		| bar("\(.row), equipoise"; .of.equipoise.simulated; "limit"; .limit; .better; 1.01)),
	($rows[] | select(.stat == "avg") | against("equipoise"; ["eevdf"]; 1.02)),
	(compared("jobs")[] | against("equipoise"; ["eevdf"]; 1.02))
]
| "\($table): \(map(select(.met)) | length) of \(length) bars met",
	(sort_by(.met, -.ratio / .most)[]
		| "  \(.what)\t\(.value | . * 1e4 | round / 1e4)\t\(.against)\t\(.base * 1e4 | round / 1e4)\t\(.ratio)\t<= \(.most)\t\(if .met then "met" else "MISSED" end)")
