/* SPDX-License-Identifier: GPL-2.0-only */
/* A scheduler's report to its loader about the reason for which it was unloaded. */
#ifndef __USER_EXIT_INFO_H
#define __USER_EXIT_INFO_H

enum uei_sizes {
	UEI_REASON_LEN = 128,
	UEI_MSG_LEN = 1024,
	UEI_DUMP_DFL_LEN = 32768,
};

struct user_exit_info {
	int kind;
	s64 exit_code;
	char reason[UEI_REASON_LEN];
	char msg[UEI_MSG_LEN];
};

#define UEI_DEFINE(name)                                            \
	char name##_dump[UEI_DUMP_DFL_LEN] __attribute__((unused)); \
	struct user_exit_info name

#define UEI_RECORD(name, ei)                                                               \
	({                                                                                 \
		bpf_probe_read_kernel_str(name.reason, sizeof(name.reason), (ei)->reason); \
		bpf_probe_read_kernel_str(name.msg, sizeof(name.msg), (ei)->msg);          \
		bpf_probe_read_kernel_str(name##_dump, UEI_DUMP_DFL_LEN, (ei)->dump);      \
		name.exit_code = (ei)->exit_code;                                          \
		name.kind = (ei)->kind;                                                    \
	})

#endif /* __USER_EXIT_INFO_H */
