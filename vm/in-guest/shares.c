/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shares SEED SECONDS: runs random tasks that spin, nap or run periodically, with random nice levels, and measures
 * the CPU time that each got after the first half second. The rules are the same as in
 * crates/simulator/tests/conformance/fairness/ideal.rs: a task is due its demand, or its share by weight if that is
 * less. Prints a line per task; fails if a task got less than its bound.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define MOST_TASKS 24

enum does { SPIN, NAP, PERIOD };

struct task {
	enum does does;
	int nice;
	double weight;
	/* ns */
	int64_t run, sleep, period;
	pid_t pid;
	/* The unit is CPUs; due < 0 means that the share is not known yet. */
	double demand, due, got;
};

/* sched_prio_to_weight (kernel/sched/core.c) of the tested nice levels. */
static const struct {
	int nice;
	double weight;
} levels[] = { { 0, 1024 },  { 0, 1024 }, { 0, 1024 }, { -10, 9548 },
	       { -5, 3121 }, { 5, 335 },  { 10, 110 }, { 19, 15 } };

static uint64_t state;

/* xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016) */
static int64_t draw(int64_t from, int64_t until)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return from + (int64_t)((state * 2685821657736338717ULL >> 33) % (uint64_t)(until - from));
}

static int64_t now_of(clockid_t clock)
{
	struct timespec at;

	if (clock_gettime(clock, &at))
		exit(2);
	return at.tv_sec * 1000 * MS + at.tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ ns / (1000 * MS), ns % (1000 * MS) };
}

static void run_for(int64_t ns)
{
	int64_t end = now_of(CLOCK_PROCESS_CPUTIME_ID) + ns;

	while (now_of(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

static void behave(const struct task *t)
{
	int64_t begun = now_of(CLOCK_MONOTONIC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		struct timespec until;

		if (t->does == SPIN) {
			run_for(1000 * MS);
			continue;
		}
		run_for(t->run);
		if (t->does == NAP) {
			until = timespec_of(t->sleep);
			nanosleep(&until, NULL);
		} else {
			int64_t now = now_of(CLOCK_MONOTONIC);

			begun += t->period;
			if (begun < now / t->period * t->period)
				begun = now / t->period * t->period;
			until = timespec_of(begun);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		}
	}
}

static struct task draw_task(void)
{
	struct task t = { .does = SPIN, .demand = 1, .due = -1 };
	int level = draw(0, sizeof(levels) / sizeof(*levels));

	switch (draw(0, 4)) {
	case 2:
		t.does = NAP;
		t.run = draw(50000, 2 * MS);
		t.sleep = draw(10000, MS);
		t.demand = (double)t.run / (t.run + t.sleep);
		break;
	case 3:
		t.does = PERIOD;
		t.run = draw(100000, 4 * MS);
		t.period = t.run * draw(1, 20) + 3 * MS;
		t.demand = (double)t.run / t.period;
	}
	t.nice = levels[level].nice;
	t.weight = levels[level].weight;
	return t;
}

/* No task gets more than its demand, and the rest goes to the others by weight. */
static void divide(struct task *tasks, int nr, double cpus)
{
	for (bool found = true; found;) {
		double rest = cpus, weights = 0;

		for (int i = 0; i < nr; i++) {
			rest -= tasks[i].due >= 0 ? tasks[i].due : 0;
			weights += tasks[i].due >= 0 ? 0 : tasks[i].weight;
		}
		found = false;
		for (int i = 0; i < nr && !found; i++) {
			found = tasks[i].due < 0 && tasks[i].demand <= rest * tasks[i].weight / weights;
			if (found)
				tasks[i].due = tasks[i].demand;
		}
		for (int i = 0; i < nr && !found; i++)
			if (tasks[i].due < 0)
				tasks[i].due = rest * tasks[i].weight / weights;
	}
}

/*
 * The least part of its due that a task must get. A napping task waits at each wakeup, and so demands less than it
 * would alone.
 */
static double least(const struct task *t)
{
	if (t->does != NAP)
		return 0.6;
	return t->nice <= 0 ? 0.25 : 0.05;
}

static double cpu_time(pid_t pid)
{
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock))
		exit(2);
	return now_of(clock);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "spin", "nap", "period" };
	struct task tasks[MOST_TASKS];
	int nr, failed = 0;
	double seconds, window, turn;
	int64_t from;

	if (argc != 3 || !atoi(argv[1]) || (seconds = atof(argv[2])) <= 0) {
		fprintf(stderr, "usage: shares SEED SECONDS\n");
		return 2;
	}
	state = atoi(argv[1]) * 0x9e3779b97f4a7c15ULL;
	for (int i = 0; i < 8; i++)
		draw(0, 2);
	nr = draw(2, MOST_TASKS);
	/* This makes all tasks begin at the same moment. */
	setpriority(PRIO_PROCESS, 0, -20);
	for (int i = 0; i < nr; i++) {
		tasks[i] = draw_task();
		tasks[i].pid = fork();
		if (tasks[i].pid < 0)
			return perror("fork"), 2;
		if (!tasks[i].pid) {
			setpriority(PRIO_PROCESS, 0, tasks[i].nice);
			behave(&tasks[i]);
		}
	}
	usleep(500000);
	from = now_of(CLOCK_MONOTONIC);
	for (int i = 0; i < nr; i++)
		tasks[i].got = -cpu_time(tasks[i].pid);
	usleep(seconds * 1e6);
	window = now_of(CLOCK_MONOTONIC) - from;
	for (int i = 0; i < nr; i++)
		tasks[i].got += cpu_time(tasks[i].pid);
	divide(tasks, nr, sysconf(_SC_NPROCESSORS_ONLN));
	/* A turn that ends at a tick lasts for at most two ticks (HZ=250) and a slice. */
	turn = 11 * MS / window;
	for (int i = 0; i < nr; i++) {
		struct task *t = &tasks[i];
		bool misses;

		kill(t->pid, SIGKILL);
		t->got /= window;
		misses = t->got + turn < least(t) * t->due;
		failed |= misses;
		printf("%s %-6s nice %3d run %.3f ms sleep %.3f period %.3f: %.3f of %.3f%s\n", argv[1],
		       names[t->does], t->nice, t->run / 1e6, t->sleep / 1e6, t->period / 1e6, t->got, t->due,
		       misses ? " MISSED" : "");
	}
	while (wait(NULL) > 0 || errno == EINTR)
		;
	return failed;
}
