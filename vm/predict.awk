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

END {
	# EEVDF is one of the schedulers, at a ratio of 1.
	for (i = 1; i <= n; i++) {
		judge(measured[i], 1, predicted[i], 1)
		for (k = i + 1; k <= n; k++)
			if (benchmark[i] == benchmark[k])
				judge(measured[i], measured[k], predicted[i], predicted[k])
	}
	printf "mean error %.1f %%; of %d pairs that differ by over 10 %%, %d in the right order\n", 100 * sum / n, pairs, right
}

function judge(a, b, x, y) {
	if (abs(a / b - 1) <= 0.1 && abs(b / a - 1) <= 0.1)
		return
	pairs++
	right += (a < b) == (x < y)
}
