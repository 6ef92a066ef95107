/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * schbench WORKERS SECONDS - measures how the scheduler treats a server's threads, after Chris Mason's benchmark of
 * that name: a messenger wakes the workers that have asked for a message. Each worker then waits for 100 us, as for
 * a disk, computes for a request, and asks again.
 *
 * Prints the 99th percentile of the time from a worker's wakeup until it runs, in us, and the time per request in
 * us, from one finished request to the next, over all workers.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORKERS 256
#define MAX_REQUESTS (1 << 16)
/* About a millisecond of instructions at 1 ns each. */
#define REQUEST 250000

struct worker {
	/* 0 if the worker has asked for a message and waits; 1 if it has one. */
	atomic_int message;
	/* The time of the wakeup, in ns. */
	atomic_ullong woken;
	uint64_t requests;
} __attribute__((aligned(64)));

static struct worker workers[MAX_WORKERS];
static uint32_t waits_ns[MAX_REQUESTS];
static atomic_uint nr_waits;
/* The number of workers that have asked for a message since the messenger last looked. */
static atomic_int asked;
static atomic_bool over;
static int nr_workers;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void wait_while(atomic_int *word, int value)
{
	while (atomic_load(word) == value && !atomic_load(&over))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (;;) {
		volatile unsigned sum = 0;
		unsigned slot;

		atomic_store(&worker->message, 0);
		atomic_fetch_add(&asked, 1);
		wake(&asked);
		wait_while(&worker->message, 0);
		if (atomic_load(&over))
			return NULL;
		slot = atomic_fetch_add(&nr_waits, 1);
		if (slot < MAX_REQUESTS)
			waits_ns[slot] = now() - atomic_load(&worker->woken);
		usleep(100);
		for (unsigned i = 0; i < REQUEST; i++)
			sum += i;
		worker->requests++;
	}
}

static void *send(void *argument)
{
	(void)argument;
	while (!atomic_load(&over)) {
		wait_while(&asked, 0);
		atomic_store(&asked, 0);
		for (int i = 0; i < nr_workers; i++) {
			if (atomic_load(&workers[i].message))
				continue;
			atomic_store(&workers[i].woken, now());
			atomic_store(&workers[i].message, 1);
			wake(&workers[i].message);
		}
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	pthread_t messenger, threads[MAX_WORKERS];
	uint64_t requests = 0, start, end;
	unsigned n;

	nr_workers = argc == 3 ? atoi(argv[1]) : 0;
	if (nr_workers < 1 || nr_workers > MAX_WORKERS || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: schbench WORKERS SECONDS\n");
		return 2;
	}
	for (int i = 0; i < nr_workers; i++)
		atomic_store(&workers[i].message, 1);
	start = now();
	pthread_create(&messenger, NULL, send, NULL);
	for (int i = 0; i < nr_workers; i++)
		pthread_create(&threads[i], NULL, work, &workers[i]);
	sleep(atoi(argv[2]));
	end = now();
	for (int i = 0; i < nr_workers; i++)
		requests += workers[i].requests;
	atomic_store(&over, true);
	/* Threads that have just begun to wait are woken up again. */
	for (int round = 0; round < 10; round++) {
		wake(&asked);
		for (int i = 0; i < nr_workers; i++)
			wake(&workers[i].message);
		usleep(10000);
	}
	pthread_join(messenger, NULL);
	for (int i = 0; i < nr_workers; i++)
		pthread_join(threads[i], NULL);
	n = atomic_load(&nr_waits) < MAX_REQUESTS ? atomic_load(&nr_waits) : MAX_REQUESTS;
	if (!n || !requests)
		return 1;
	qsort(waits_ns, n, sizeof(waits_ns[0]), by_size);
	printf("%.3f %.3f\n", waits_ns[(uint64_t)n * 99 / 100] / 1e3, (end - start) / 1e3 / requests);
	return 0;
}
