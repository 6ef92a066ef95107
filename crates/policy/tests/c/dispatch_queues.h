/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The dispatch queues of a fake kernel, in the order of virtual time, for tests of eevdf. The test defines TASKS,
 * `queues` and queue_at() before.
 */

/* The task that a CPU consumed last. */
static struct task_struct *local;

static void take(struct queue *queue, u32 at)
{
	queue->nr--;
	for (u32 i = at; i < queue->nr; i++)
		queue->task[i] = queue->task[i + 1];
}

static void put(void *k, struct task_struct *p, u64 id, u64 slice, u64 vtime, u64 flags)
{
	struct queue *queue = queue_at(id);
	u32 at = queue->nr++;

	p->scx.dsq_vtime = vtime;
	for (; at && (s64)(queue->task[at - 1]->scx.dsq_vtime - vtime) > 0; at--)
		queue->task[at] = queue->task[at - 1];
	queue->task[at] = p;
}

static s32 iterate(void *k, struct bpf_iter_scx_dsq *it, u64 id, u64 flags)
{
	*it = (struct bpf_iter_scx_dsq){ .dsq_id = id };
	return 0;
}

static struct task_struct *next(void *k, struct bpf_iter_scx_dsq *it)
{
	struct queue *queue = queue_at(it->dsq_id);

	return it->end < queue->nr ? queue->task[it->end++] : NULL;
}

static void ends(void *k, struct bpf_iter_scx_dsq *it)
{
}

static bool move(void *k, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 id, u64 flags)
{
	take(queue_at(it->dsq_id), --it->end);
	if (id == SCX_DSQ_LOCAL)
		local = p;
	else
		put(k, p, id, 0, it->vtime, 0);
	return true;
}

static bool __attribute__((unused)) consume(void *k, u64 id, u64 enq_flags)
{
	struct queue *queue = queue_at(id);

	if (!queue->nr)
		return false;
	local = queue->task[0];
	take(queue, 0);
	return true;
}

static u32 cpuperf(void *k, s32 cpu, u32 what)
{
	return 1024;
}
