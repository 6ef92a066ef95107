/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints the frequency of this machine's time-stamp counter in kHz, which a guest under TCG has, too.
 * The guest's own calibration can be far off if the host is busy at that time.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct instant {
	uint64_t ns, tsc;
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Reads both clocks at once: takes the closest of many readings, because any reading may be interrupted. */
static struct instant read_clocks(void)
{
	struct instant best = { 0, 0 };
	uint64_t best_gap = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t before = __rdtsc(), ns = now(), after = __rdtsc();

		if (after - before < best_gap) {
			best_gap = after - before;
			best = (struct instant){ .ns = ns, .tsc = before + (after - before) / 2 };
		}
	}
	return best;
}

int main(void)
{
	struct instant start = read_clocks(), end;

	do
		end = read_clocks();
	while (end.ns - start.ns < 100000000);
	printf("%.0f\n", (double)(end.tsc - start.tsc) * 1e6 / (double)(end.ns - start.ns));
	return 0;
}
