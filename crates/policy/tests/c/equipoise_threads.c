/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests the words that CPUs share in scheduler/equipoise, with a thread for each CPU. equipoise_threads.rs builds
 * this program with ThreadSanitizer. After a failure the program prints it and exits with a status other than 0.
 */
#include <scx/common.bpf.h>

int sched_yield(void);

/* Sometimes lets another thread go first, between a CPU's observation and its reaction, and before a change. */
static void let_others(void)
{
	static __thread unsigned int state;
	static unsigned int threads;

	if (!state)
		state = 1 + 7919 * __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	state = state * 1664525 + 1013904223;
	if (!(state >> 8 & 15))
		sched_yield();
}

/* The simulation has one thread, so these need not be atomic there. Here the threads are under test. */
#undef __sync_fetch_and_add
#undef READ_ONCE
#undef WRITE_ONCE
#define READ_ONCE(x)                                                          \
	({                                                                    \
		typeof(x) ___value = __atomic_load_n(&(x), __ATOMIC_RELAXED); \
		let_others();                                                 \
		___value;                                                     \
	})
/* The headers count the rounds of all loops together. */
#undef can_loop
#define can_loop true
#define WRITE_ONCE(x, value) (let_others(), __atomic_store_n(&(x), value, __ATOMIC_RELAXED))

/* The CPU that this thread is. */
static __thread u32 this_cpu;
#define bpf_get_smp_processor_id() this_cpu

#define SCHEDULER_SETTINGS "equipoise/settings.def"
#include "equipoise/level.h"
#include "equipoise/ranks.bpf.h"
#include "equipoise/throttle.bpf.h"

/* Declarations of the C library, whose headers conflict with the kernel's. */
int pthread_create(unsigned long *thread, const void *attributes, void *(*run)(void *), void *argument);
int pthread_join(unsigned long thread, void **result);
int printf(const char *format, ...);
int fflush(void *file);
void _exit(int status) __attribute__((noreturn));
unsigned int sleep(unsigned int seconds);

#define CPUS 4
/* Threads often yield, which takes milliseconds each time on a busy computer. */
#define ROUNDS 200

volatile struct tunables tunables;
const volatile struct machine machine = { .tick_ns = 4000000, .nr_cpus = CPUS };

static void fail(const char *what, long number)
{
	printf("%s: %ld\n", what, number);
	fflush(NULL);
	_exit(1);
}

static void run_threads(int count, void *(*run)(void *))
{
	unsigned long threads[CPUS];

	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static u32 next_seed(void)
{
	static u32 seeds;

	return 7919 * __sync_fetch_and_add(&seeds, 1);
}

static u32 random_below(u32 *state, u32 bound)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % bound;
}

/* --- Idle CPUs and requests -------------------------------------------------------------------------- */

/* The number of times that each CPU was kicked, and that it was sent a task. */
static u64 kicks[CPUS], arrivals[CPUS];

static void kick(void *kernel, s32 cpu, u64 flags)
{
	__sync_fetch_and_add(&kicks[cpu], 1);
}

static struct equipoise_kernel kernel = { .nr_cpu_ids = CPUS, .kick_cpu = kick };

static u64 news_of(u32 cpu)
{
	return READ_ONCE(kicks[cpu]) + READ_ONCE(arrivals[cpu]);
}

/* This CPU switches: a pending request is carried out or dropped. */
static void switch_tasks(u32 cpu, bool drops)
{
	u64 request = take_request(&cpu_at(cpu)->request);

	if (!asks_for_task(request))
		return;
	if (request_pid(request) != (s32)cpu + 1)
		fail("asked for the task of another CPU", request_pid(request));
	if (drops)
		drop_request(request);
	else
		__sync_fetch_and_add(&arrivals[request_target(request)], 1);
}

/*
 * A CPU idles until it is kicked or sent a task, and then runs a task that it offers to idle CPUs. A thread that
 * claims the CPU has to bring it a task or make it search. Meanwhile other threads ask it to pull.
 */
static void *cpu_thread(void *argument)
{
	u32 cpu = (long)argument, random = cpu + 1;
	struct cpu_state *this = cpu_at(cpu);

	for (int round = 0; round < ROUNDS; round++) {
		u64 news = news_of(cpu);
		long waited = 0;

		set_idle(cpu);
		while (news_of(cpu) == news) {
			/* The CPU sometimes becomes busy by itself, as for a task of another class. */
			if (++waited % 4 == 0 && clear_idle(cpu))
				break;
			if (waited > 200000)
				fail("a claimed CPU is lost", cpu);
			sched_yield();
		}
		clear_idle(cpu);
		for (int tick = 0; tick < 3; tick++) {
			u32 to = random_below(&random, CPUS);

			if (to != cpu && !READ_ONCE(this->request) && clear_idle(to))
				send_to_claimed(this, cpu + 1, to);
			to = random_below(&random, CPUS);
			post_request(&cpu_at(to)->request, make_request(REQUEST_PULL, 0, 0, 0));
		}
		switch_tasks(cpu, random_below(&random, 2));
	}
	return NULL;
}

static void test_claims(void)
{
	equipoise_kernel = &kernel;
	nr_clusters = 2;
	for (u32 cpu = 0; cpu < CPUS; cpu++) {
		struct cluster *c = &clusters[cpu / 2];

		c->cpu[cpu % 2] = cpu;
		c->nr_cpus++;
		cpu_states[cpu] = (struct cpu_state){ .cluster = cpu / 2,
						      .slot = cpu % 2,
						      .siblings = 1 << cpu % 2 };
	}
	for (int round = 0; round < 3; round++) {
		run_threads(CPUS, cpu_thread);
		for (u32 i = 0; i < nr_clusters; i++) {
			if (clusters[i].idle)
				fail("busy CPUs are marked as idle", clusters[i].idle);
			if (idle_clusters >> i & 1)
				fail("a cluster without idle CPUs is marked as having some", i);
		}
	}
}

/*
 * CPUs become idle and are claimed. After each round, the idle CPUs can be found, because their cluster says that
 * it has some.
 */
static void *idle_thread(void *argument)
{
	u32 cpu = (long)argument, random = next_seed();

	/* There are only a few steps, because the next CPU that changes the words may repair an error. */
	for (int i = 0; i < 3; i++) {
		set_idle(cpu);
		clear_idle(random_below(&random, CPUS));
	}
	if (cpu & 1)
		clear_idle(cpu);
	return NULL;
}

static void test_hints(void)
{
	for (int round = 0; round < ROUNDS / 2; round++) {
		run_threads(CPUS, idle_thread);
		for (u32 i = 0; i < nr_clusters; i++)
			if (clusters[i].idle && !(idle_clusters >> i & 1))
				fail("idle CPUs that no CPU finds", clusters[i].idle);
	}
	for (u32 cpu = 0; cpu < CPUS; cpu++)
		clear_idle(cpu);
}

/* --- Shares and limits of control groups ---------------------------------------------------------------- */

/*
 * Group 1 is the parent of groups 2 and 3, and group 3 the parent of 4. Tasks come and go in each group, and
 * groups are throttled and released.
 */
static void *share_thread(void *argument)
{
	u32 random = next_seed();

	for (int i = 0; i < 3; i++) {
		u32 group = 1 + random_below(&random, 4), other = 1 + random_below(&random, 4);

		add_runnable(group, 1024, 0);
		hold_share(other, 1);
		add_runnable(group, -1024, 0);
		hold_share(other, 0);
	}
	return NULL;
}

static void test_shares(void)
{
	static const u32 parents[] = { 0, 0, 1, 1, 3 };

	for (u32 i = 1; i < 5; i++)
		shares[i] = (struct share){ .parent = parents[i], .weight = 1024, .given = 1024 };
	for (int round = 0; round < ROUNDS / 2; round++) {
		run_threads(4, share_thread);
		for (u32 i = 1; i < 5; i++) {
			if (shares[i].held)
				fail("a group stays throttled", i);
			if (shares[i].runnable || shares[i].counted)
				fail("a group without tasks counts as runnable", i);
		}
		if (nr_throttled)
			fail("groups are counted as throttled", nr_throttled);
	}
}

static struct bandwidth limit;
static u64 now = 1, spent, exhausted;

static void *spend_thread(void *argument)
{
	u32 random = (long)argument + 1;

	for (int i = 0; i < 10 * ROUNDS; i++) {
		u64 time = __sync_fetch_and_add(&now, 50000), ran = 50000 + random_below(&random, 50000);

		refill_bandwidth(&limit, time);
		/* One of the threads that spend at the same time finds that nothing is left. */
		__sync_fetch_and_add(&exhausted, spend_bandwidth(&limit, ran));
		__sync_fetch_and_add(&spent, ran);
	}
	return NULL;
}

/* The threads spend half as much again as a period of 1 ms provides. No time is lost or provided twice. */
static void test_limits(void)
{
	u64 periods;

	begin_bandwidth(&limit, 1000, 1000, 0, 0);
	run_threads(4, spend_thread);
	periods = limit.period_end / 1000000 - 1;
	if (limit.left > 1000000 || (s64)(1000000 * (1 + periods) - spent) < limit.left)
		fail("more is left than there was", limit.left);
	if (!exhausted || exhausted > 2 * (1 + periods))
		fail("found so often that nothing is left", exhausted);
}

/* Without refills, exactly what the threads have spent is missing at the end. */
static void *count_thread(void *argument)
{
	for (int i = 0; i < 10 * ROUNDS; i++)
		spend_bandwidth(&limit, 10);
	return NULL;
}

static void test_sums(void)
{
	begin_bandwidth(&limit, 1000000, 400000, 0, 0);
	exhausted = 0;
	run_threads(4, count_thread);
	if (limit.left != 400000000LL - 4 * 10 * ROUNDS * 10)
		fail("left", limit.left);
}

/* --- The ranks of clusters ------------------------------------------------------------------------------- */

static void *limit_thread(void *argument)
{
	u32 random = next_seed();

	for (int i = 0; i < 3; i++) {
		u32 cluster = random_below(&random, 2);

		WRITE_ONCE(clusters[cluster].limit, 256 + random_below(&random, 768));
		__sync_fetch_and_add(&limits_changed, 1);
		follow_ranks();
	}
	return NULL;
}

/* After the next tick, the ranks follow the limits. */
static void test_ranks(void)
{
	for (u32 i = 0; i < 2; i++)
		clusters[i].full_capacity = 1024;
	for (int round = 0; round < ROUNDS; round++) {
		u32 faster;

		run_threads(4, limit_thread);
		follow_ranks();
		faster = clusters[1].limit > clusters[0].limit;
		if (alike(clusters[0].limit, clusters[1].limit))
			continue;
		if (!unlike || clusters[!faster].slowness != 1 || clusters[faster].slowness ||
		    clusters[faster].speed != 1024 || clusters[0].order[0] != faster)
			fail("a rank is not that of the limits", round);
	}
}

/* --- Clocks ---------------------------------------------------------------------------------------------- */

static struct clock clock_of_all;
static struct entity entities[CPUS];

/* An entity comes, works and goes; sometimes the debtors are dismissed. */
static void *clock_thread(void *argument)
{
	struct entity *e = &entities[(long)argument];
	u32 random = next_seed();

	for (int i = 0; i < 10 * ROUNDS; i++) {
		u64 weight = (1ULL + random_below(&random, 4096)) << 10, work = random_below(&random, 4000000);

		join(&clock_of_all, e, weight, come_back(&clock_of_all, e));
		__sync_fetch_and_add(&e->vtime, vtime_for(work, weight));
		advance(&clock_of_all, work);
		reweigh(&clock_of_all, e, weight + 1024);
		leave(&clock_of_all, e, 10000000);
		if (!random_below(&random, 64))
			dismiss_debtors(&clock_of_all);
	}
	return NULL;
}

/* When all have gone and the debtors are dismissed, nothing is left on the clock. */
static void test_clock(void)
{
	run_threads(4, clock_thread);
	if (clock_of_all.weight != weight_of_debtors(&clock_of_all))
		fail("weights of no entity are on the clock",
		     clock_of_all.weight - weight_of_debtors(&clock_of_all));
	dismiss_debtors(&clock_of_all);
	if (clock_of_all.weight)
		fail("weight is left on the clock", clock_of_all.weight);
}

/* --- Levels ---------------------------------------------------------------------------------------------- */

static void *level_thread(void *argument)
{
	this_cpu = (long)argument;
	for (int i = 0; i < ROUNDS; i++)
		find_level(0);
	return NULL;
}

/* CPUs that search for the level of their cluster at the same time find the same level as a single CPU. */
static void test_levels(void)
{
	struct cluster *c = &clusters[0];

	c->nr_cpus = CPUS;
	for (u32 slot = 0; slot < CPUS; slot++) {
		c->cpu[slot] = slot;
		c->running[slot] = c->counted[slot] = slot ? 1024 : 1 << 20;
	}
	/* One CPU is for the heavy task, and three for 15 light ones. */
	c->clock.weight = (1 << 20) + 15 * 1024;
	c->worth = 5 * 1024;
	run_threads(CPUS, level_thread);
	if (c->worth != 5 * 1024)
		fail("the level is not that of one search", c->worth);
}

int main(void)
{
	test_claims();
	test_hints();
	test_ranks();
	test_clock();
	test_shares();
	test_limits();
	test_sums();
	test_levels();
	return 0;
}
