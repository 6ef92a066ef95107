/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * periodic HOGS NICE TASKS PERIOD_US WORK_US SECONDS - measures how the scheduler treats interactive tasks on a
 * busy machine: TASKS tasks of nice 0 compute for WORK_US in each PERIOD_US, alongside HOGS endless loops of NICE.
 *
 * Prints the 99th percentile of the time from a task's timer until it runs, in us, and the percentage of missed
 * periods, which ended before the task had done the work of an earlier period.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PERIODS (1 << 16)

/* Shared by the tasks. */
static struct {
	uint32_t waits_us[MAX_PERIODS];
	uint32_t nr;
} *results;

static uint64_t now_us(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

static void sleep_until(uint64_t us)
{
	struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
		;
}

static void compute(uint64_t us)
{
	uint64_t end = now_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (now_us(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* Runs a task whose first period begins at @at. */
static void run_periods(uint64_t at, uint64_t end, uint64_t period, uint64_t work)
{
	while (at < end) {
		uint64_t began;
		uint32_t n;

		sleep_until(at);
		began = now_us(CLOCK_MONOTONIC);
		n = __atomic_fetch_add(&results->nr, 1, __ATOMIC_RELAXED);
		if (n < MAX_PERIODS)
			results->waits_us[n] = began - at;
		compute(work);
		/* The periods that have begun in the meantime are missed, except the current one. */
		do
			at += period;
		while (at + period <= now_us(CLOCK_MONOTONIC));
	}
	_exit(0);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t numbers[6], begin, end, asked = 0;
	uint32_t nr;

	for (int i = 0; i < 6; i++)
		numbers[i] = i + 1 < argc ? strtoll(argv[i + 1], NULL, 10) : 0;
	int hogs = numbers[0], nice = numbers[1], tasks = numbers[2];
	uint64_t period = numbers[3], work = numbers[4], seconds = numbers[5];
	pid_t pids[hogs + 1];

	if (argc != 7 || !tasks || !period || !seconds) {
		fprintf(stderr, "usage: periodic HOGS NICE TASKS PERIOD_US WORK_US SECONDS\n");
		return 2;
	}
	results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (int i = 0; i < hogs; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			setpriority(PRIO_PROCESS, 0, nice);
			for (;;)
				;
		}
	}
	/* The hogs are no longer new when the tasks begin. */
	begin = now_us(CLOCK_MONOTONIC) + 300000;
	end = begin + seconds * 1000000;
	for (int i = 0; i < tasks; i++) {
		uint64_t at = begin + i * period / tasks;

		if (!fork())
			run_periods(at, end, period, work);
		asked += (end - at + period - 1) / period;
	}
	for (int i = 0; i < tasks; i++)
		wait(NULL);
	for (int i = 0; i < hogs; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	nr = results->nr < MAX_PERIODS ? results->nr : MAX_PERIODS;
	if (!nr)
		return 1;
	qsort(results->waits_us, nr, sizeof(results->waits_us[0]), by_value);
	printf("%u %.2f\n", results->waits_us[nr * 99ULL / 100], asked > nr ? 100.0 * (asked - nr) / asked : 0.0);
	return 0;
}
