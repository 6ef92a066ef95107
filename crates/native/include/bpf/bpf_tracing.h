/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations of BPF programs' arguments; natively they are ordinary functions. */
#ifndef __BPF_TRACING_H__
#define __BPF_TRACING_H__

#define BPF_PROG(name, args...) name(args)

/* Programs at the end of kernel functions (fexit) compile, but are never called and have no context. */
#define bpf_get_func_ret(ctx, value) (*(value) = 0, -95L /* EOPNOTSUPP */)

#endif /* __BPF_TRACING_H__ */
