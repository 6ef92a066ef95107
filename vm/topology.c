// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any topology of CPUs: vm/build-kernel builds this into the guest's kernel. The kernel's own code
 * then shows under QEMU its behaviour on machines that QEMU cannot emulate (CPUs of different
 * capacities, clusters).
 *
 * A line for each CPU is written to debugfs's equipoise_topology:
 *
 *	CPU CAPACITY THREADS CLUSTER CACHE
 *
 * CAPACITY is relative to 1024; the others are CPU lists: the threads of the CPU's core, the CPUs
 * of its cluster, and the CPUs that share its last-level cache. Then the scheduling domains are
 * rebuilt. NUMA nodes are QEMU's.
 *
 * This is part of the kernel and not a module, as it needs functions that are not exported.
 */
#include <linux/cpu.h>
#include <linux/cpuset.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/sched/smt.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/smp.h>
#include <asm/topology.h>

#define LONGEST 16384

static int set_mask(const char *list, struct cpumask *mask, int cpu)
{
	int err = cpulist_parse(list, mask);

	return !err && !cpumask_test_cpu(cpu, mask) ? -EINVAL : err;
}

/* Reads one line about a CPU. */
static int set_cpu(const char *line, bool *threads)
{
	char smt[64], cluster[64], cache[64];
	unsigned int cpu, capacity;
	int err;

	if (sscanf(line, "%u %u %63s %63s %63s", &cpu, &capacity, smt, cluster, cache) != 5)
		return -EINVAL;
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu) || !capacity || capacity > SCHED_CAPACITY_SCALE)
		return -EINVAL;
	err = set_mask(smt, topology_sibling_cpumask(cpu), cpu);
	if (!err)
		err = set_mask(cluster, cpu_l2c_shared_mask(cpu), cpu);
	if (!err)
		err = set_mask(cache, cpu_llc_shared_mask(cpu), cpu);
	if (err)
		return err;
	*threads |= cpumask_weight(topology_sibling_cpumask(cpu)) > 1;
	arch_set_cpu_capacity(cpu, capacity, SCHED_CAPACITY_SCALE, 1, 1);
	return 0;
}

static ssize_t topology_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	static DEFINE_MUTEX(lock);
	static bool scaled;
	char *text, *rest, *line;
	bool threads = false;
	int err = 0;

	if (count > LONGEST)
		return -E2BIG;
	text = memdup_user_nul(from, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&lock);
	if (!scaled)
		scaled = arch_enable_hybrid_capacity_scale();
	if (!scaled)
		err = -ENOMEM;
	rest = text;
	cpus_read_lock();
	while (!err && (line = strsep(&rest, "\n")))
		if (*line)
			err = set_cpu(line, &threads);
#ifdef CONFIG_SCHED_SMT
	/* sched_smt_active() */
	if (threads)
		static_branch_enable_cpuslocked(&sched_smt_present);
	else
		static_branch_disable_cpuslocked(&sched_smt_present);
#endif
	cpus_read_unlock();
	/* Domains are rebuilt only if the architecture says that its topology has changed. */
	x86_topology_update = true;
	rebuild_sched_domains();
	mutex_unlock(&lock);
	kfree(text);
	return err ? err : count;
}

static const struct file_operations topology_ops = {
	.owner = THIS_MODULE,
	.write = topology_write,
};

static int __init topology_init(void)
{
	debugfs_create_file("equipoise_topology", 0200, NULL, NULL, &topology_ops);
	return 0;
}
late_initcall(topology_init);
