/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A queue of entities that share by EEVDF: its average of vruntime, and the place of an entity there. eevdf.h
 * explains the terms.
 */
#ifndef __EQUIPOISE_EEVDF_QUEUE_H
#define __EQUIPOISE_EEVDF_QUEUE_H

#include "entity.h"
#include "runqueue.bpf.h"

/* The virtual time for @delta at @weight, scaled; @inv_weight is as in struct fair_entity. */
static __always_inline u64 calc_delta_weight(u64 delta, u64 weight, u32 inv_weight)
{
	if (weight == NICE_0_WEIGHT)
		return delta;
	return inv_weight ? calc_delta(delta, NICE_0_LOAD, inv_weight) : delta * NICE_0_WEIGHT / weight;
}

/*
 * V, rounded down, as the distance from queue->zero_vruntime, the last V, so that products are small. V is computed
 * from two words. If other CPUs are changing these words, this function returns the last V.
 */
static __always_inline u64 peek_vruntime(const struct eevdf_queue *queue)
{
	u64 zero = READ_ONCE(queue->zero_vruntime), weight;
	u32 done = READ_ONCE(queue->moves_done);
	s64 key;

	weight = READ_ONCE(queue->load_weight);
	key = READ_ONCE(queue->weighted_vruntime) - weight * zero;
	if (!weight || READ_ONCE(queue->moves_begun) != done)
		return zero;
	if (key < 0)
		return zero - ((u64)-key + weight - 1) / weight;
	return zero + (u64)key / weight;
}

/* Computes V and stores it. */
static __always_inline u64 avg_vruntime(struct eevdf_queue *queue)
{
	return queue->zero_vruntime = peek_vruntime(queue);
}

/* Is a task with @vruntime eligible (it has had no more than its share), if the average is @avg? */
static __always_inline bool eligible(u64 avg, u64 vruntime)
{
	return (s64)(vruntime - avg) <= 0;
}

/*
 * The lag of @se on @queue, if the average is @avg. The lag is limited to the longest slice of the queue plus a
 * tick; in Linux 6.12 it is limited to two of the entity's own slices, or a tick if that is longer.
 */
static __always_inline s64 entity_lag(const struct eevdf_queue *queue, u64 avg, const struct fair_entity *se)
{
	u64 longest = 2 * se->slice;
	s64 lag = avg - se->vruntime, limit;

	if (longest < machine.tick_ns)
		longest = machine.tick_ns;
	if (policy.max_slice_lag)
		longest = max_slice(queue) + machine.tick_ns;
	limit = calc_delta_weight(longest, se->h_weight, se->inv_weight);
	if (lag > limit)
		return limit;
	return lag < -limit ? -limit : lag;
}

/* @value * @num / @den, for a value that may be negative. */
static __always_inline s64 scale_signed(s64 value, u64 num, u64 den)
{
	return value < 0 ? -(s64)((u64)-value * num / den) : (s64)((u64)value * num / den);
}

/*
 * Sets the vruntime of @se, which joins @queue, so that it has the lag with which it left, or none if @queue is
 * empty. The new entity moves the average, so it is placed a little further from the average than its lag. The
 * entity requests a slice, or half a slice the first time (@initial); if @rel_deadline is not 0, it requests that
 * rest of its last request.
 */
static __always_inline void place_entity(struct eevdf_queue *queue, struct fair_entity *se, bool initial,
					 u64 rel_deadline)
{
	u64 weight = READ_ONCE(queue->load_weight),
	    vslice = calc_delta_weight(se->slice, se->h_weight, se->inv_weight);
	s64 lag = 0;

	if (weight)
		lag = se->vlag + scale_signed(se->vlag, se->h_weight, weight);
	se->vruntime = peek_vruntime(queue) - lag;
	if (rel_deadline)
		vslice = rel_deadline;
	else if (initial)
		vslice /= 2;
	se->deadline = se->vruntime + vslice;
}

/* begin_move() and end_move() surround changes of the sums from which the average of vruntime is computed. */
static __always_inline void begin_move(struct eevdf_queue *queue)
{
	__sync_fetch_and_add(&queue->moves_begun, 1);
}

static __always_inline void end_move(struct eevdf_queue *queue)
{
	__sync_fetch_and_add(&queue->moves_done, 1);
}

/* Counts an entity of @weight, scaled, at @vruntime that joins @queue or leaves it (@by is 1 or -1). */
static __always_inline void count_entity(struct eevdf_queue *queue, u64 weight, u64 vruntime, s32 by)
{
	begin_move(queue);
	__sync_fetch_and_add(&queue->load_weight, by < 0 ? -weight : weight);
	__sync_fetch_and_add(&queue->weighted_vruntime, by < 0 ? -(weight * vruntime) : weight * vruntime);
	end_move(queue);
	__sync_fetch_and_add(&queue->nr, by);
}

#endif /* __EQUIPOISE_EEVDF_QUEUE_H */
