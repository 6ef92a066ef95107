/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A request to a CPU for its next switch. Other CPUs and the CPU's own tick make requests, so a request is one
 * word, which is posted by compare-and-swap if none is pending, and taken by exchange. No request overwrites
 * another unseen. This file uses no kfuncs, so that the tests can run it natively, with threads.
 */
#ifndef __EQUIPOISE_REQUEST_H
#define __EQUIPOISE_REQUEST_H

#include <scx/common.bpf.h>

enum request_kind {
	REQUEST_NONE,
	/*
	 * Send the running task @pid to CPU @target, which asks for it, was claimed for it, or sends its own task.
	 */
	REQUEST_SEND,
	/* Send the task in the same way, and have the CPU @target send its task @peer here. */
	REQUEST_SWAP,
	/* Take the task @pid that waits in cluster @target or, if it waits no longer, the first one there. */
	REQUEST_PULL,
};

/* A pid has at most 22 bits (PID_MAX_LIMIT, include/linux/threads.h). */
#define REQUEST_PID_BITS 22
#define REQUEST_PID_MASK ((1ULL << REQUEST_PID_BITS) - 1)
#define REQUEST_TARGET_BITS 16
#define REQUEST_TARGET_MASK ((1ULL << REQUEST_TARGET_BITS) - 1)

static __always_inline u64 make_request(enum request_kind kind, u32 target, s32 pid, s32 peer)
{
	u64 word = kind;

	word = word << REQUEST_TARGET_BITS | (target & REQUEST_TARGET_MASK);
	word = word << REQUEST_PID_BITS | (pid & REQUEST_PID_MASK);
	return word << REQUEST_PID_BITS | (peer & REQUEST_PID_MASK);
}

static __always_inline enum request_kind request_kind(u64 request)
{
	return request >> (REQUEST_TARGET_BITS + 2 * REQUEST_PID_BITS);
}

static __always_inline u32 request_target(u64 request)
{
	return request >> 2 * REQUEST_PID_BITS & REQUEST_TARGET_MASK;
}

static __always_inline s32 request_pid(u64 request)
{
	return request >> REQUEST_PID_BITS & REQUEST_PID_MASK;
}

static __always_inline s32 request_peer(u64 request)
{
	return request & REQUEST_PID_MASK;
}

/* Does the request ask for the running task? */
static __always_inline bool asks_for_task(u64 request)
{
	return request && request_kind(request) != REQUEST_PULL;
}

/* Returns false if another request is pending; that one stays. */
static __always_inline bool post_request(u64 *word, u64 request)
{
	return !READ_ONCE(*word) && !__sync_val_compare_and_swap(word, 0ULL, request);
}

/* Takes the pending request; 0 if there is none. */
static __always_inline u64 take_request(u64 *word)
{
	return READ_ONCE(*word) ? __sync_lock_test_and_set(word, 0ULL) : 0;
}

/* Takes @request, which was read before; false if it is no longer pending. */
static __always_inline bool take_this_request(u64 *word, u64 request)
{
	return __sync_val_compare_and_swap(word, request, 0ULL) == request;
}

#endif /* __EQUIPOISE_REQUEST_H */
