/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations of BPF programs' arguments; natively they are ordinary functions. */
#ifndef __BPF_TRACING_H__
#define __BPF_TRACING_H__

#define BPF_PROG(name, args...) name(args)

#endif /* __BPF_TRACING_H__ */
