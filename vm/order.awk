# For vm/order. From lines with LOAD, FIGURE, SCHEDULER, measured and simulated value (separated by
# tabs), prints the median of each over the rounds with the minimum and the maximum, and the number
# of pairs of schedulers whose simulated order is the measured one.

{
	key = $1 "\t" $2
	if (!(key in keys)) {
		keys[key]
		order[++count] = key
	}
	if (!($3 in seen)) {
		seen[$3]
		names[++schedulers] = $3
	}
	n = ++rounds[key, $3]
	measured[key, $3, n] = $4 + 0
	simulated[key, $3, n] = $5 + 0
}

# Sorts values[prefix, 1..n] into sorted[1..n].
function sort(values, prefix, n, i, j, value) {
	for (i = 1; i <= n; i++) {
		value = values[prefix, i]
		for (j = i - 1; j >= 1 && sorted[j] > value; j--) sorted[j + 1] = sorted[j]
		sorted[j + 1] = value
	}
}

function median(n) {
	return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

# Tests whether the measured figures of x and y differ: Wilcoxon's rank-sum test (Mann and Whitney's
# U), two-sided, 5 %, by its normal approximation.
function apart(key, x, y, i, j, m, n, u, difference) {
	m = rounds[key, x]
	n = rounds[key, y]
	for (i = 1; i <= m; i++)
		for (j = 1; j <= n; j++) {
			difference = measured[key, x, i] - measured[key, y, j]
			u += difference < 0 ? 1 : difference == 0 ? 0.5 : 0
		}
	return (u - m * n / 2) ^ 2 > 1.96 ^ 2 * m * n * (m + n + 1) / 12
}

END {
	form = "%-15s %-22s %-10s %9s %20s %9s %20s\n"
	printf form, "load", "figure", "scheduler", "measured", "least to most", "simulated", "least to most"
	for (k = 1; k <= count; k++) {
		key = order[k]
		split(key, words, "\t")
		for (s = 1; s <= schedulers; s++) {
			name = names[s]
			n = rounds[key, name]
			sort(measured, key SUBSEP name, n)
			middle[name] = median(n)
			range = sorted[1] " to " sorted[n]
			sort(simulated, key SUBSEP name, n)
			predicted[name] = median(n)
			printf form, words[1], words[2], name, middle[name], range, predicted[name], sorted[1] " to " sorted[n]
		}
		for (a = 1; a <= schedulers; a++)
			for (b = a + 1; b <= schedulers; b++) {
				x = names[a]
				y = names[b]
				if (!apart(key, x, y)) {
					verdict = "within noise"
					noise++
				} else if ((middle[x] - middle[y]) * (predicted[x] - predicted[y]) > 0) {
					verdict = "as measured"
					right++
				} else {
					verdict = "not as measured"
					wrong++
				}
				print "    " x (middle[x] < middle[y] ? " < " : " > ") y ": " verdict
			}
	}
	printf "%d of %d orders are as measured; %d more are within noise\n", right, right + wrong, noise
}
