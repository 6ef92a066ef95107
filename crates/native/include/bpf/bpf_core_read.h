/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CO-RE: reading kernel structures whose layout is known only at load time. The simulated kernel has the layout of
 * vmlinux.h, so a field or an enumerator exists if its use compiles and scx/kernel.h does not list it as missing. A
 * type of the scheduler that stands for one of the kernel's (`struct task_struct___old`) must have the same layout.
 */
#ifndef __BPF_CORE_READ_H__
#define __BPF_CORE_READ_H__

/* Is @name the last word of @text? Both are string literals. */
#define __equipoise_ends(text, name)                                                                 \
	(sizeof(text) > sizeof(name) &&                                                              \
	 !__builtin_strchr("_abcdefghijklmnopqrstuvwxyz", (text)[__equipoise_before(text, name)]) && \
	 !__builtin_strcmp((text) + __equipoise_before(text, name) + 1, name))
#define __equipoise_before(text, name) (sizeof(text) > sizeof(name) ? sizeof(text) - sizeof(name) - 1 : 0)
/* The simulated kernel has no core scheduling. */
#define bpf_core_field_exists(field...) \
	(!__equipoise_lacks_field(#field) && !__equipoise_ends(#field, "core_cookie"))
#define bpf_core_enum_value_exists(type, value) (__equipoise_asked(__equipoise_asks_##value _, 1, ))
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_type_exists(type) (!__equipoise_lacks_type(#type))
#define bpf_core_type_matches(type) bpf_core_type_exists(type)
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_type_id_kernel(type) 1
#define bpf_rdonly_cast(ptr, type_id) ((void *)(ptr))
#define bpf_core_cast(ptr, type) ((type *)(ptr))

#define __core_nth(_1, _2, _3, _4, _5, _6, _7, _8, _9, N, ...) N
/* A null pointer along the path reads as 0, as in BPF. */
#define __core_read1(src, a) ((src)->a)
#define __core_read2(src, a, b...) ((src)->a ? __core_read1((src)->a, b) : (typeof(__core_read1((src)->a, b))){ 0 })
#define __core_read3(src, a, b...) ((src)->a ? __core_read2((src)->a, b) : (typeof(__core_read2((src)->a, b))){ 0 })
#define __core_read4(src, a, b...) ((src)->a ? __core_read3((src)->a, b) : (typeof(__core_read3((src)->a, b))){ 0 })
#define __core_read5(src, a, b...) ((src)->a ? __core_read4((src)->a, b) : (typeof(__core_read4((src)->a, b))){ 0 })
#define __core_read6(src, a, b...) ((src)->a ? __core_read5((src)->a, b) : (typeof(__core_read5((src)->a, b))){ 0 })
#define __core_read7(src, a, b...) ((src)->a ? __core_read6((src)->a, b) : (typeof(__core_read6((src)->a, b))){ 0 })
#define __core_read8(src, a, b...) ((src)->a ? __core_read7((src)->a, b) : (typeof(__core_read7((src)->a, b))){ 0 })
#define __core_read9(src, a, b...) ((src)->a ? __core_read8((src)->a, b) : (typeof(__core_read8((src)->a, b))){ 0 })
#define BPF_CORE_READ(src, ...)                                                                       \
	__core_nth(__VA_ARGS__, __core_read9, __core_read8, __core_read7, __core_read6, __core_read5, \
		   __core_read4, __core_read3, __core_read2, __core_read1)(src, __VA_ARGS__)

#define BPF_PROBE_READ(src, ...) BPF_CORE_READ(src, __VA_ARGS__)
#define BPF_CORE_READ_INTO(dst, src, ...)                 \
	({                                                \
		*(dst) = BPF_CORE_READ(src, __VA_ARGS__); \
		0;                                        \
	})
#define bpf_core_read(dst, size, src) bpf_probe_read_kernel(dst, size, src)
#define bpf_core_read_str(dst, size, src) bpf_probe_read_kernel_str(dst, size, src)
#define bpf_core_field_size(field...) sizeof(field)
#define BPF_CORE_READ_STR_INTO(dst, src, ...) \
	bpf_probe_read_kernel_str(dst, sizeof(*(dst)), BPF_CORE_READ(src, __VA_ARGS__))
#define BPF_CORE_READ_BITFIELD(src, field) ((u64)(src)->field)
#define BPF_CORE_READ_BITFIELD_PROBED(src, field) BPF_CORE_READ_BITFIELD(src, field)

#endif /* __BPF_CORE_READ_H__ */
