/* SPDX-License-Identifier: GPL-2.0-only */
/* Spin locks in arenas. In the simulation only one callback runs at a time, so a lock is never contended. */
#ifndef BPF_ARENA_SPIN_LOCK_H
#define BPF_ARENA_SPIN_LOCK_H

#include <scx/common.bpf.h>
#include <bpf_atomic.h>

/* The structure has the size of the kernel's lock. */
struct __qspinlock {
	u32 val;
};
#define arena_spinlock_t struct __qspinlock

/* The queue of a contended lock, which scx's library defines and nothing uses. */
struct arena_qnode {
	u64 unused;
};
#define _Q_MAX_CPUS 1
#define _Q_MAX_NODES 1
extern struct arena_qnode __arena_global __hidden qnodes[_Q_MAX_CPUS][_Q_MAX_NODES];

/*
 * Returns 0 or, if the caller would deadlock, the error that the kernel's lock returns after it has spun for too
 * long.
 */
static __always_inline int arena_spin_lock(arena_spinlock_t *lock)
{
	if (lock->val)
		return -ETIMEDOUT;
	lock->val = 1;
	__KERNEL->locks++;
	return 0;
}

static __always_inline void arena_spin_unlock(arena_spinlock_t *lock)
{
	lock->val = 0;
	__KERNEL->locks--;
}

#define arena_spin_lock_irqsave(lock, flags) ((flags) = 0, arena_spin_lock(lock))
#define arena_spin_unlock_irqrestore(lock, flags) ((void)(flags), arena_spin_unlock(lock))

#endif /* BPF_ARENA_SPIN_LOCK_H */
