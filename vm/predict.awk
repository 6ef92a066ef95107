# vm/predict's table, from lines of benchmark, scheduler, measured and predicted ratio to EEVDF.

function abs(x) {
	return x < 0 ? -x : x
}

BEGIN {
	printf "%-20s %-20s %9s %9s %9s\n", "benchmark", "scheduler", "measured", "predicted", "error"
}

{
	error = $4 / $3 - 1
	printf "%-20s %-20s %9.3f %9.3f %+8.1f %%\n", $1, $2, $3, $4, 100 * error
	sum += abs(error)
	n++
	benchmark[n] = $1
	measured[n] = $3
	predicted[n] = $4
}

# The rank of values[i] among those of the same benchmark and EEVDF, which has 1; equals share the mean of theirs.
function rank(values, value, of, k, below, equal) {
	below = 1 < value
	equal = 1 == value
	for (k = 1; k <= n; k++)
		if (benchmark[k] == of) {
			below += values[k] < value
			equal += values[k] == value
		}
	return below + (equal + 1) / 2
}

# Spearman's: the correlation of the ranks of what was measured and predicted.
function rank_correlation(of, k, count, x, y, mean, xx, yy, xy) {
	count = 1
	for (k = 1; k <= n; k++)
		count += benchmark[k] == of
	mean = (count + 1) / 2
	x = rank(measured, 1, of) - mean
	y = rank(predicted, 1, of) - mean
	xx = x * x
	yy = y * y
	xy = x * y
	for (k = 1; k <= n; k++)
		if (benchmark[k] == of) {
			x = rank(measured, measured[k], of) - mean
			y = rank(predicted, predicted[k], of) - mean
			xx += x * x
			yy += y * y
			xy += x * y
		}
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0
}

END {
	# EEVDF is one of the schedulers, at a ratio of 1.
	for (i = 1; i <= n; i++) {
		judge(measured[i], 1, predicted[i], 1)
		for (k = i + 1; k <= n; k++)
			if (benchmark[i] == benchmark[k])
				judge(measured[i], measured[k], predicted[i], predicted[k])
	}
	for (i = 1; i <= n; i++)
		if (!(benchmark[i] in told)) {
			told[benchmark[i]]
			printf "%-20s rank correlation %.2f\n", benchmark[i], rank_correlation(benchmark[i])
		}
	printf "mean error %.1f %%; of %d pairs that differ by over 10 %%, %d in the right order\n", 100 * sum / n, pairs, right
}

function judge(a, b, x, y) {
	if (abs(a / b - 1) <= 0.1 && abs(b / a - 1) <= 0.1)
		return
	pairs++
	right += (a < b) == (x < y)
}
