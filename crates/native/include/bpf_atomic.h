/* SPDX-License-Identifier: GPL-2.0-only */
/* Atomic operations. In the simulation only one callback runs at a time, so each operation is a plain access. */
#ifndef BPF_ATOMIC_H
#define BPF_ATOMIC_H

#include <scx/common.bpf.h>

#define cpu_relax() ((void)0)
#define smp_mb() barrier()
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_load_acquire(p) READ_ONCE(*(p))
#define smp_store_release(p, val) ((void)WRITE_ONCE(*(p), val))

#define cmpxchg(p, old, new)                        \
	({                                          \
		typeof(p) ___p = (p);               \
		typeof(*___p + 0) ___found = *___p; \
		if (___found == (old))              \
			*___p = (new);              \
		___found;                           \
	})
#define try_cmpxchg(p, pold, new)                                    \
	({                                                           \
		typeof(pold) ___pold = (pold);                       \
		typeof(*(p) + 0) ___was = cmpxchg(p, *___pold, new); \
		bool ___same = ___was == *___pold;                   \
		if (!___same)                                        \
			*___pold = ___was;                           \
		___same;                                             \
	})
#define try_cmpxchg_relaxed(p, pold, new) try_cmpxchg(p, pold, new)
#define try_cmpxchg_acquire(p, pold, new) try_cmpxchg(p, pold, new)

#define atomic_read(p) READ_ONCE((p)->counter)

#endif /* BPF_ATOMIC_H */
