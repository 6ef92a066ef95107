# For vm/replay. From lines with LOAD, FIGURE, measured and simulated value (separated by tabs), one
# for each recording, prints the median of both with the minimum and the maximum, the error of the
# simulated median, and whether it meets the figure's bar.

BEGIN {
	bar["makespan, ms"] = 15
	bar["switches to its threads"] = 20
	bar["migrations of its threads"] = 20
	bar["wakeup latency p99, us"] = 20
	# These figures are printed as well.
	bar["wakeup latency p50, us"] = bar["wakeup latency p95, us"] = 0
}

$2 in bar {
	key = $1 "\t" $2
	if (!(key in rounds))
		order[++count] = key
	n = ++rounds[key]
	measured[key, n] = $3 + 0
	simulated[key, n] = $4 + 0
}

# "MEDIAN (LEAST to MOST)" of values[key, 1..n]; the median is left in `median`.
function spread(values, key, n,    i, j, value, sorted) {
	for (i = 1; i <= n; i++) {
		value = values[key, i]
		for (j = i - 1; j >= 1 && sorted[j] > value; j--) sorted[j + 1] = sorted[j]
		sorted[j + 1] = value
	}
	median = n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
	return median " (" sorted[1] " to " sorted[n] ")"
}

END {
	form = "%-15s %-26s %30s %30s %8s  %s\n"
	printf form, "load", "figure", "measured", "simulated", "off %", "bar"
	for (k = 1; k <= count; k++) {
		key = order[k]
		split(key, words, "\t")
		real = spread(measured, key, rounds[key])
		middle = median
		shown = spread(simulated, key, rounds[key])
		off = middle ? 100 * (median / middle - 1) : median ? 100 : 0
		percent = bar[words[2]]
		verdict = !percent ? "" : off <= percent && -off <= percent ? percent " %, met" : percent " %, missed"
		judged += percent > 0
		met += verdict ~ / met$/
		printf form, words[1], words[2], real, shown, sprintf("%+.1f", off), verdict
	}
	printf "%d of %d bars met\n", met, judged
}
