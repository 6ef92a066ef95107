/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BPF's helpers and libbpf's macros, for the simulated kernel. Libbpf handles sections and types
 * (maps, ops); here the simulated kernel does so with the object's debugging information.
 */
#ifndef __BPF_HELPERS__
#define __BPF_HELPERS__

#include "../simulated.h"

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
enum libbpf_pin_type { LIBBPF_PIN_NONE, LIBBPF_PIN_BY_NAME };
#define __ulong(name, val) __equipoise_ulong(name, val, __COUNTER__)
#define __equipoise_ulong(name, val, unique) __equipoise_ulong1(name, val, unique)
#define __equipoise_ulong1(name, val, unique) enum { ___ulong_##unique = val } name

/* The linker makes a weak name null if it is hidden and nothing defines it, as libbpf does. */
#define __ksym __attribute__((visibility("hidden")))
#define __kconfig
#define __kptr
#define __kptr_untrusted
#define __percpu_kptr
#define __hidden __attribute__((visibility("hidden")))
#define __arg_ctx
#define __arg_nonnull
#define __arg_nullable
#define __arg_trusted
#define __arg_arena
#ifndef __weak
#define __weak __attribute__((weak))
#endif
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef barrier
#define barrier() asm volatile("" ::: "memory")
#endif
#ifndef barrier_var
#define barrier_var(var) asm volatile("" : "+r"(var))
#endif

/*
 * Does the kernel have @sym? scx/kernel.h answers for functions that not all kernels have. If the answer is a
 * constant, the compiler removes the code that depends on it, as the verifier does.
 */
#define __equipoise_second(a, b, ...) b
#define __equipoise_asked(...) __equipoise_second(__VA_ARGS__)
#define bpf_ksym_exists(sym) (__equipoise_asked(__equipoise_asks_##sym _, !!(sym), ))
/* Marks a function that not all kernels have. If the kernel lacks it, a remaining call is a compile error. */
#define __kfunc(name) __kfunc_##name

#ifndef KERNEL_VERSION
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#endif
/* The version that the scheduler was compiled for; the simulated kernel replaces 0 when it loads the object. */
__attribute__((weak)) int LINUX_KERNEL_VERSION = EQUIPOISE_COMPILED_FOR;

#ifndef __clang__
#define __builtin_memcpy_inline(dst, src, size) __builtin_memcpy(dst, src, size)
#endif

#ifndef ___bpf_concat
#define ___bpf_concat(a, b) a##b
#endif
#ifndef ___bpf_apply
#define ___bpf_apply(fn, n) ___bpf_concat(fn, n)
#endif
#ifndef ___bpf_nth
#define ___bpf_nth(_, _1, _2, _3, _4, _5, _6, _7, _8, _9, _a, _b, _c, N, ...) N
#endif
#ifndef ___bpf_narg
#define ___bpf_narg(...) ___bpf_nth(_, ##__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#endif

#define ___bpf_fill0(arr, p, x) (void)0
#define ___bpf_fill1(arr, p, x) arr[p] = (unsigned long long)(x)
#define ___bpf_fill2(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill1(arr, p + 1, rest))
#define ___bpf_fill3(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill2(arr, p + 1, rest))
#define ___bpf_fill4(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill3(arr, p + 1, rest))
#define ___bpf_fill5(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill4(arr, p + 1, rest))
#define ___bpf_fill6(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill5(arr, p + 1, rest))
#define ___bpf_fill7(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill6(arr, p + 1, rest))
#define ___bpf_fill8(arr, p, x, rest...) (arr[p] = (unsigned long long)(x), ___bpf_fill7(arr, p + 1, rest))
#define ___bpf_fill(arr, args...) ___bpf_apply(___bpf_fill, ___bpf_narg(args))(arr, 0, ##args)

/*
 * Loops over numbers, as in libbpf: the iterator has the count, so that the body may change @i, which keeps its
 * last value after the loop. The iterator makes no step if there would be more than BPF_MAX_LOOPS.
 */
#define bpf_for(i, start, end)                                                                 \
	for (struct bpf_iter_num ___it,                                                        \
	     *___p __attribute__((unused)) = (bpf_iter_num_new(&___it, (start), (end)), NULL); \
	     ({                                                                                \
		     int *___t = bpf_iter_num_next(&___it);                                    \
		     ___t && ((i) = *___t, (int)(i) >= (int)(start) && (int)(i) < (int)(end)); \
	     });)
#define bpf_repeat(n)                                                                                             \
	for (struct bpf_iter_num ___it, *___p __attribute__((unused)) = (bpf_iter_num_new(&___it, 0, (n)), NULL); \
	     bpf_iter_num_next(&___it);)
#define bpf_for_each(type, cur, args...)                                                                   \
	for (struct bpf_iter_##type ___it __attribute__((aligned(8), cleanup(bpf_iter_##type##_destroy))), \
	     *___p __attribute__((unused)) = (bpf_iter_##type##_new(&___it, ##args), NULL);                \
	     ((cur) = bpf_iter_##type##_next(&___it));)

/* kernel/bpf/bpf_iter.c */
static __always_inline int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end)
{
	bool is_range = start <= end;

	*it = (struct bpf_iter_num){};
	if (!is_range || (u32)(end - start) > BPF_MAX_LOOPS)
		return is_range ? -7 /* E2BIG */ : -22; /* EINVAL */
	*it = (struct bpf_iter_num){ .cur = start - 1, .end = end };
	return 0;
}

static __always_inline int *bpf_iter_num_next(struct bpf_iter_num *it)
{
	if (it->cur + 1 >= it->end) {
		*it = (struct bpf_iter_num){};
		return NULL;
	}
	it->cur++;
	return &it->cur;
}

static __always_inline void bpf_iter_num_destroy(struct bpf_iter_num *it)
{
	(void)it;
}

static __always_inline struct equipoise_map *__equipoise_map(const void *map)
{
	return *(struct equipoise_map *const *)map;
}

/* A new object, which the caller owns. */
static inline void *__equipoise_alloc(u64 size)
{
	return __equipoise_take(__kcall(alloc, size));
}

static __always_inline u64 bpf_ktime_get_ns(void)
{
	return __KERNEL->now + __KERNEL->spent;
}

static inline u64 bpf_ktime_get_boot_ns(void)
{
	return __KERNEL->now;
}

static inline u64 bpf_ktime_get_tai_ns(void)
{
	return __KERNEL->now;
}

static inline u64 bpf_jiffies64(void)
{
	return __KERNEL->now / __KERNEL->tick_ns;
}

static __always_inline u32 bpf_get_smp_processor_id(void)
{
	return __KERNEL->cpu;
}

static inline u32 bpf_get_numa_node_id(void)
{
	return __kcall(cpu_node, __KERNEL->cpu);
}

static inline u32 bpf_get_prandom_u32(void)
{
	return __kcall(random);
}

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return __KERNEL->current;
}

static inline u64 bpf_get_current_task(void)
{
	return (u64)__KERNEL->current;
}

static inline u64 bpf_get_current_pid_tgid(void)
{
	return (u64)__KERNEL->current->tgid << 32 | (u32)__KERNEL->current->pid;
}

static __always_inline void *bpf_map_lookup_percpu_elem(void *map, const void *key, u32 cpu)
{
	struct equipoise_map *m = __equipoise_map(map);

	if (cpu >= __KERNEL->nr_cpu_ids)
		return NULL;
	if (m->type == BPF_MAP_TYPE_PERCPU_ARRAY) {
		u32 index = *(const u32 *)key;

		return index < m->max_entries ? m->values + ((u64)cpu * m->max_entries + index) * m->stride : NULL;
	}
	return __kcall(map_lookup, m, cpu, __equipoise_there(key));
}

static __always_inline void *bpf_map_lookup_elem(void *map, const void *key)
{
	struct equipoise_map *m = __equipoise_map(map);

	switch (m->type) {
	case BPF_MAP_TYPE_ARRAY: {
		u32 index = *(const u32 *)key;

		return index < m->max_entries ? m->values + (u64)index * m->stride : NULL;
	}
	case BPF_MAP_TYPE_ARRAY_OF_MAPS: {
		u32 index = *(const u32 *)key;

		return index < m->max_entries ? ((void **)m->values)[index] : NULL;
	}
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		return bpf_map_lookup_percpu_elem(map, key, __KERNEL->cpu);
	default:
		return __kcall(map_lookup, m, __KERNEL->cpu, __equipoise_there(key));
	}
}

static inline long bpf_map_update_elem(void *map, const void *key, const void *value, u64 flags)
{
	return __kcall(map_update, __equipoise_map(map), __equipoise_there(key), __equipoise_there(value), flags);
}

static inline long bpf_map_delete_elem(void *map, const void *key)
{
	return __kcall(map_delete, __equipoise_map(map), __equipoise_there(key));
}

static inline long bpf_map_push_elem(void *map, const void *value, u64 flags)
{
	return __kcall(map_push, __equipoise_map(map), __equipoise_there(value), flags);
}

static inline long bpf_map_pop_elem(void *map, void *value)
{
	return __kcall(map_pop, __equipoise_map(map), __equipoise_there(value), false);
}

static inline long bpf_map_peek_elem(void *map, void *value)
{
	return __kcall(map_pop, __equipoise_map(map), __equipoise_there(value), true);
}

static inline long bpf_for_each_map_elem(void *map, void *callback, void *ctx, u64 flags)
{
	if (flags)
		return -22; /* EINVAL */
	return __kcall(map_for_each, __equipoise_map(map), map, callback, ctx);
}

static __always_inline void *bpf_task_storage_get(void *map, struct task_struct *p, void *value, u64 flags)
{
	struct equipoise_map *m = __equipoise_map(map);
	void **slot = &p->equipoise_storage[m->storage];

	if (__builtin_expect(*slot != NULL, 1))
		return *slot;
	return flags & BPF_LOCAL_STORAGE_GET_F_CREATE ? __kcall(storage_get, m, slot, value, flags) : NULL;
}

static inline long bpf_task_storage_delete(void *map, struct task_struct *p)
{
	struct equipoise_map *m = __equipoise_map(map);

	if (!p->equipoise_storage[m->storage])
		return -2; /* ENOENT */
	__kcall(storage_delete, m, &p->equipoise_storage[m->storage]);
	return 0;
}

static inline void *bpf_cgrp_storage_get(void *map, struct cgroup *cgrp, void *value, u64 flags)
{
	struct equipoise_map *m = __equipoise_map(map);
	void **slot = &cgrp->storage[m->storage];

	if (*slot)
		return *slot;
	return flags & BPF_LOCAL_STORAGE_GET_F_CREATE ? __kcall(storage_get, m, slot, value, flags) : NULL;
}

static inline long bpf_cgrp_storage_delete(void *map, struct cgroup *cgrp)
{
	struct equipoise_map *m = __equipoise_map(map);

	if (!cgrp->storage[m->storage])
		return -2; /* ENOENT */
	__kcall(storage_delete, m, &cgrp->storage[m->storage]);
	return 0;
}

static inline long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags)
{
	return __kcall(timer_init, timer, map, flags);
}

static inline long __equipoise_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	return __kcall(timer_set_callback, timer, callback);
}
#define bpf_timer_set_callback(timer, callback) __equipoise_timer_set_callback(timer, (void *)(callback))

static inline long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	return __kcall(timer_start, timer, ns, flags);
}

static inline long bpf_timer_cancel(struct bpf_timer *timer)
{
	return __kcall(timer_cancel, timer);
}

static inline long __equipoise_loop(u32 nr_loops, long (*callback)(u64 index, void *ctx), void *ctx, u64 flags)
{
	u32 i;

	if (flags)
		return -22; /* EINVAL */
	if (nr_loops > BPF_MAX_LOOPS)
		return -7; /* E2BIG */
	for (i = 0; i < nr_loops; i++)
		if (callback(i, ctx))
			return i + 1;
	return i;
}
#define bpf_loop(nr_loops, callback, ctx, flags) \
	__equipoise_loop(nr_loops, (long (*)(u64, void *))(void *)(callback), ctx, flags)

/* One callback at a time runs in the simulation, so there is no concurrent access. */
#define __sync_fetch_and_add(ptr, val)            \
	({                                        \
		typeof(&*(ptr)) ___ptr = (ptr);   \
		typeof(*___ptr) ___old = *___ptr; \
		*___ptr = ___old + (val);         \
		___old;                           \
	})

static inline void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	(void)lock;
	__KERNEL->locks++;
}

static inline void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	(void)lock;
	__KERNEL->locks--;
}

static inline int bpf_res_spin_lock(struct bpf_res_spin_lock *lock)
{
	(void)lock;
	__KERNEL->locks++;
	return 0;
}

static inline void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock)
{
	(void)lock;
	__KERNEL->locks--;
}

static inline void bpf_preempt_disable(void)
{
	__KERNEL->locks++;
}

static inline void bpf_preempt_enable(void)
{
	__KERNEL->locks--;
}

/* Interrupts do not arrive while a scheduler's code runs, so there is nothing to switch off. */
static inline void bpf_local_irq_save(unsigned long *flags)
{
	*flags = 0;
	__KERNEL->locks++;
}

static inline void bpf_local_irq_restore(unsigned long *flags)
{
	(void)flags;
	__KERNEL->locks--;
}

/*
 * Ring buffers to the loader. The simulated loader reads a record as soon as it is submitted, so that a buffer
 * never fills up. The loader sends no records.
 */
static inline void *bpf_ringbuf_reserve(void *ringbuf, u64 size, u64 flags)
{
	(void)flags;
	return size <= __equipoise_map(ringbuf)->max_entries ? __equipoise_alloc(size) : NULL;
}

static inline void bpf_ringbuf_discard(void *record, u64 flags)
{
	(void)flags;
	__kcall(free, __equipoise_give(record));
}

static inline void bpf_ringbuf_submit(void *record, u64 flags)
{
	bpf_ringbuf_discard(record, flags);
}

static inline long bpf_ringbuf_output(void *ringbuf, void *data, u64 size, u64 flags)
{
	(void)flags;
	(void)__equipoise_there(data);
	return size <= __equipoise_map(ringbuf)->max_entries ? 0 : -11; /* EAGAIN */
}

enum { BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE, BPF_RB_CONS_POS, BPF_RB_PROD_POS };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

static inline u64 bpf_ringbuf_query(void *ringbuf, u64 flags)
{
	return flags == BPF_RB_RING_SIZE ? __equipoise_map(ringbuf)->max_entries : 0;
}

struct bpf_dynptr;
static inline long bpf_user_ringbuf_drain(void *map, void *callback, void *ctx, u64 flags)
{
	(void)map, (void)callback, (void)ctx, (void)flags;
	return 0;
}

/*
 * The per-CPU variables of the kernel that exist here: the runqueue, and since Linux 6.10 the capacity that a limit
 * of the frequency takes. The latter is defined, so that its address is not null.
 */
__attribute__((weak, visibility("hidden"))) const unsigned long cpufreq_pressure = 0;
#define bpf_per_cpu_ptr(variable, cpu)                                \
	((typeof(variable))_Generic((variable),                       \
		 struct rq *: __equipoise_rq,                         \
		 const struct rq *: __equipoise_rq,                   \
		 const unsigned long *: __equipoise_cpufreq_pressure, \
		 default: __equipoise_no_variable)(cpu))
#define bpf_this_cpu_ptr(variable) bpf_per_cpu_ptr(variable, bpf_get_smp_processor_id())

static inline void *__equipoise_no_variable(u32 cpu)
{
	(void)cpu;
	return NULL;
}

static __always_inline const unsigned long *__equipoise_cpufreq_pressure(u32 cpu)
{
	if (cpu >= __KERNEL->nr_cpu_ids || !__KERNEL->cpufreq_pressure)
		return NULL;
	return &__KERNEL->cpufreq_pressure[cpu];
}

static __always_inline struct rq *__equipoise_rq(u32 cpu)
{
	if (cpu >= __KERNEL->nr_cpu_ids)
		return NULL;
	if (__equipoise_has_memory())
		__equipoise_read_line(cpu);
	return &__KERNEL->rqs[cpu];
}

#define bpf_printk(fmt, args...)                                                        \
	({                                                                              \
		char ___line[256];                                                      \
		int ___len = __builtin_snprintf(___line, sizeof(___line), fmt, ##args); \
		__kcall(printk, ___line);                                               \
		___len;                                                                 \
	})

/*
 * The kernel does not read user memory, which includes small addresses, such as that of a member of a structure at
 * NULL (copy_from_kernel_nofault_allowed()). Here the first page stands for user memory, because a program can
 * reach no other part of it.
 */
static __always_inline bool __equipoise_is_kernels(const void *src)
{
	return (u64)src >= 4096;
}

#define bpf_probe_read_kernel(dst, size, src)                         \
	({                                                            \
		const void *___from = (const void *)(src);            \
		bool ___is_kernels = __equipoise_is_kernels(___from); \
		if (___is_kernels)                                    \
			__builtin_memcpy((dst), ___from, (size));     \
		else                                                  \
			__builtin_memset((dst), 0, (size));           \
		___is_kernels ? 0L : -34L; /* ERANGE */               \
	})
#define bpf_probe_read(dst, size, src) bpf_probe_read_kernel(dst, size, src)
/* A simulated task has no memory of its own. */
#define bpf_probe_read_user(dst, size, src) ((void)(src), __builtin_memset((dst), 0, (size)), -14L)
/* Returns the length of the text that was copied, with its zero. */
static __always_inline long __equipoise_read_str(char *dst, u32 size, const char *src)
{
	u32 n = 0;

	if (!size)
		return 0;
	if (!__equipoise_is_kernels(src)) {
		__builtin_memset(dst, 0, size);
		return -34; /* ERANGE */
	}
	while (n < size - 1 && src[n]) {
		dst[n] = src[n];
		n++;
	}
	dst[n] = 0;
	return n + 1;
}
#define bpf_probe_read_kernel_str(dst, size, src) __equipoise_read_str((void *)(dst), size, (const void *)(src))

#define bpf_probe_read_str(dst, size, src) bpf_probe_read_kernel_str(dst, size, src)

/* @data has @data_len / 8 numbers or pointers, at most 12, which the C library's function takes one by one. */
#define bpf_snprintf(str, str_size, fmt, data, data_len)                                                           \
	({                                                                                                         \
		const u64 *___data = (const u64 *)(data);                                                          \
		u32 ___len = (data_len);                                                                           \
		u64 ___args[12] = {};                                                                              \
		bool ___is_valid = ___len % 8 == 0 && ___len <= sizeof(___args) && (___data || !___len);           \
		if (___is_valid && ___len)                                                                         \
			__builtin_memcpy(___args, ___data, ___len);                                                \
		___is_valid ? (long)__builtin_snprintf(str, str_size, fmt, ___args[0], ___args[1], ___args[2],     \
						       ___args[3], ___args[4], ___args[5], ___args[6], ___args[7], \
						       ___args[8], ___args[9], ___args[10], ___args[11]) +         \
				      1                                                                            \
			    : -22L; /* EINVAL */                                                                   \
	})

/* Parts of preempt_count: include/linux/preempt.h. */
#define __SOFTIRQ_OFFSET 0x100
#define __SOFTIRQ_MASK 0xff00
#define __HARDIRQ_MASK 0xf0000

static inline int bpf_in_hardirq(void)
{
	return __KERNEL->preempt_count & __HARDIRQ_MASK;
}

static inline int bpf_in_nmi(void)
{
	return 0;
}

static inline int bpf_in_serving_softirq(void)
{
	return __KERNEL->preempt_count & __SOFTIRQ_OFFSET;
}

static inline int bpf_in_interrupt(void)
{
	return __KERNEL->preempt_count & (__HARDIRQ_MASK | __SOFTIRQ_MASK);
}

static inline int bpf_in_task(void)
{
	return !(__KERNEL->preempt_count & (__HARDIRQ_MASK | __SOFTIRQ_OFFSET));
}

static inline long bpf_strncmp(const char *s1, u32 s1_sz, const char *s2)
{
	return __builtin_strncmp(s1, s2, s1_sz);
}

static inline void *__equipoise_kptr_xchg(void **slot, void *value)
{
	void *old = *slot;

	*slot = __equipoise_give(value);
	return __equipoise_take(old);
}
#define bpf_kptr_xchg(slot, value) ((typeof(*(slot)))__equipoise_kptr_xchg((void **)(slot), (void *)(value)))

#endif /* __BPF_HELPERS__ */
