/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracks the same tasks and runqueues as the kernel with the scheduler's own pelt.h, and compares the signals
 * whenever the kernel has updated its own. Does the same for the signals that a loaded scheduler tracks for each
 * CPU. See the test `pelt`.
 *
 * A signal is identified by the address of the kernel's struct sched_avg. All signals are fed from the kernel's
 * clocks of the runqueue, because a virtual CPU may be preempted between two readings of a clock. For tasks this is
 * clock_task, which excludes the time of interrupts.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../../scheduler/signals/cpu_util.h"
#include "pelt.h"

char _license[] SEC("license") = "GPL";

/*
 * The warm-up, in ns. A signal forgets half of its past in 32 ms; after this time nothing is left of its initial
 * value.
 */
#define WARM_UP 1000000000ULL
#define SCALE 1024
/* The number of elements of the scheduler's cpu_utils. */
#define MAX_CPUS 4096

struct signal {
	struct pelt avg;
	bool running;
	/* The time when the signal was first seen, in ns. */
	u64 since;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct signal);
} signals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct compared);
} results SEC(".maps");

/*
 * The loaded scheduler's variables, and the offset of its cpu_utils among them; pelt.c sets both. The offset is 0
 * if no scheduler is loaded; the map is then not used.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} scheduler SEC(".maps");

SEC(".rodata.scheduler") const volatile u64 cpu_utils_offset = 0;

/* The place where the kernel accounts for the time of interrupts. */
struct rq___irq {
	struct sched_avg avg_irq;
} __attribute__((preserve_access_index));

extern const struct rq runqueues __ksym;
extern const void rt_sched_class __ksym, dl_sched_class __ksym;

static __always_inline const struct rq *rq_of(u32 cpu)
{
	return bpf_per_cpu_ptr(&runqueues, cpu);
}

/* The signal for the kernel's @avg. If no record exists and @name is given, the record starts now. */
static __always_inline struct signal *signal_of(const struct sched_avg *avg, const char *name, u64 now)
{
	u64 key = (u64)avg;
	struct signal *signal = bpf_map_lookup_elem(&signals, &key);
	struct signal first = { .avg.last_update_time = now, .since = now };
	struct compared result = { .cpu = bpf_get_smp_processor_id(), .min_util = SCALE };

	if (signal || !name)
		return signal;
	bpf_probe_read_kernel_str(result.name, sizeof(result.name), name);
	bpf_map_update_elem(&results, &key, &result, BPF_NOEXIST);
	bpf_map_update_elem(&signals, &key, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&signals, &key);
}

static __always_inline void set_running(struct signal *signal, u64 now, bool running)
{
	if (!signal)
		return;
	update_pelt(&signal->avg, now, signal->running, signal->running);
	signal->running = running;
}

/* Compares our value @ours with the kernel's value @theirs. */
static __always_inline void count(struct compared *result, u64 ours, u64 theirs)
{
	u64 diff = ours > theirs ? ours - theirs : theirs - ours;

	result->count++;
	result->sum_diff += diff;
	result->nr_off += diff > TOLERANCE;
	if (diff > result->max_diff)
		result->max_diff = diff;
	if (theirs < result->min_util)
		result->min_util = theirs;
	if (theirs > result->max_util)
		result->max_util = theirs;
}

/* Compares our signal with the kernel's, @avg, which the kernel has updated. */
static __always_inline void compare(const struct sched_avg *avg, u64 now)
{
	u64 key = (u64)avg;
	struct compared *result = bpf_map_lookup_elem(&results, &key);
	struct signal *signal = bpf_map_lookup_elem(&signals, &key);

	if (!signal || !result)
		return;
	update_pelt(&signal->avg, now, signal->running, signal->running);
	if (now - signal->since >= WARM_UP)
		count(result, pelt_avg(&signal->avg, signal->avg.running_sum, SCALE), avg->util_avg);
}

/* The loaded scheduler's signals of @cpu, or NULL. */
static __always_inline const struct cpu_util *loaded_util(u32 cpu)
{
	u32 zero = 0;
	void *variables;

	if (!cpu_utils_offset)
		return NULL;
	variables = bpf_map_lookup_elem(&scheduler, &zero);
	return variables ? variables + cpu_utils_offset + (cpu & (MAX_CPUS - 1)) * sizeof(struct cpu_util) : NULL;
}

/* The result for @name's signal of @cpu. @key is not the address of any struct. */
static __always_inline struct compared *loaded_result(const char *name, u32 cpu, u64 key)
{
	struct compared *result = bpf_map_lookup_elem(&results, &key);
	struct compared first = { .cpu = cpu, .min_util = SCALE };

	if (result)
		return result;
	bpf_probe_read_kernel_str(first.name, sizeof(first.name), name);
	bpf_map_update_elem(&results, &key, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&results, &key);
}

/*
 * Compares the loaded scheduler's signal with @avg of @rq, which the kernel has updated, and which belongs to
 * @class or, for UTIL_NONE, to interrupts. The loaded scheduler's value is only as recent as the last switch or
 * tick.
 */
static __always_inline void compare_loaded(const struct sched_avg *avg, const struct rq *rq, u32 class,
					   const char *name)
{
	const struct cpu_util *util = loaded_util(rq->cpu);
	struct compared *result;
	struct pelt ours;
	u64 irq;

	if (!util)
		return;
	if (class < NR_UTIL_CLASSES) {
		ours = util->avg[class];
		update_pelt(&ours, rq->clock_task, true, util->running == class);
	} else {
		irq = rq->clock - rq->clock_task - util->irq_time;
		if ((s64)irq < 0)
			irq = 0;
		ours = util->irq;
		update_pelt_last(&ours, rq->clock, irq, SCALE);
	}
	result = loaded_result(name, rq->cpu, (u64)avg + 1);
	if (result)
		count(result, pelt_util(&ours), avg->util_avg);
}

/* The tasks to track are the test's, whose names begin with pelt. */
static __always_inline bool tracked(const struct task_struct *p)
{
	return p->comm[0] == 'p' && p->comm[1] == 'e' && p->comm[2] == 'l' && p->comm[3] == 't';
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	const struct rq *rq = rq_of(bpf_get_smp_processor_id());
	u64 now;

	if (!rq)
		return 0;
	now = rq->clock_task;
	set_running(signal_of(&prev->se.avg, tracked(prev) ? prev->comm : NULL, now), now, false);
	set_running(signal_of(&next->se.avg, tracked(next) ? next->comm : NULL, now), now, true);
	set_running(signal_of(&rq->avg_rt, "rt", now), now, next->sched_class == &rt_sched_class);
	set_running(signal_of(&rq->avg_dl, "dl", now), now, next->sched_class == &dl_sched_class);
	return 0;
}

SEC("tp_btf/pelt_se_tp")
int BPF_PROG(on_pelt_se, struct sched_entity *se)
{
	compare(&se->avg, se->cfs_rq->rq->clock_task);
	return 0;
}

/* A running task may change its class without a switch; the kernel updates the class's signal then. */
static __always_inline void compare_class(const struct sched_avg *avg, const struct rq *rq, const void *class)
{
	compare(avg, rq->clock_task);
	set_running(signal_of(avg, NULL, rq->clock_task), rq->clock_task, rq->curr->sched_class == class);
}

SEC("tp_btf/pelt_rt_tp")
int BPF_PROG(on_pelt_rt, struct rq *rq)
{
	compare_class(&rq->avg_rt, rq, &rt_sched_class);
	compare_loaded(&rq->avg_rt, rq, UTIL_RT, "loaded-rt");
	return 0;
}

SEC("tp_btf/pelt_dl_tp")
int BPF_PROG(on_pelt_dl, struct rq *rq)
{
	compare_class(&rq->avg_dl, rq, &dl_sched_class);
	compare_loaded(&rq->avg_dl, rq, UTIL_DL, "loaded-dl");
	return 0;
}

SEC("tp_btf/pelt_irq_tp")
int BPF_PROG(on_pelt_irq, struct rq *rq)
{
	const struct rq___irq *irq = (const void *)rq;

	if (bpf_core_field_exists(irq->avg_irq))
		compare_loaded(&irq->avg_irq, rq, UTIL_NONE, "loaded-irq");
	return 0;
}
